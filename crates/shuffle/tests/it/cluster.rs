//! What the tests of servers share: a master, workers, and what a client says to them.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use yeoul_shuffle::ids::{AttemptId, BatchId, LocationId, MapId, Mode, ShuffleKey, WorkerId};
use yeoul_shuffle::net::{Client, RequestError};
use yeoul_shuffle::wire::batch::{BatchHeader, Batches, ByteOrder};
use yeoul_shuffle::wire::message::{Message, Typed};
use yeoul_shuffle::wire::packed::Location;
use yeoul_shuffle::wire::rpc::{Answer, MASTER, Request, WORKER};
use yeoul_shuffle::wire::{ChunkSlice, Header, Status, proto};
use yeoul_shuffle::{master, worker};

pub const WITHIN: Duration = Duration::from_secs(20);

/// A master and workers, and a client that speaks to them.
pub struct Cluster {
    master: master::Handle,
    pub workers: Vec<worker::Handle>,
    pub places: Vec<tempfile::TempDir>,
    pub options: worker::Options,
    pub client: Client,
}

impl Cluster {
    pub async fn start(workers: usize, memory_bytes: u64) -> Self {
        Self::start_with(master::Options::embedded(), workers, memory_bytes).await
    }

    pub async fn start_with(master: master::Options, workers: usize, memory_bytes: u64) -> Self {
        let master = master::Server::start(master).await.unwrap();
        let options = worker::Options {
            memory_bytes,
            http_port: Some(0),
            stop_timeout: Duration::from_secs(5),
            // Each worker has a directory of its own.
            ..worker::Options::embedded([master.address().to_string()], "")
        };
        let mut cluster =
            Self { master, workers: Vec::new(), places: Vec::new(), options, client: Client::default() };
        for _ in 0..workers {
            let place = tempfile::tempdir().unwrap();
            let options =
                worker::Options { directories: vec![place.path().into()], ..cluster.options.clone() };
            cluster.workers.push(worker::Server::start(options).await.unwrap());
            cluster.places.push(place);
        }
        cluster
    }

    /// The master's address.
    pub fn master_address(&self) -> String {
        self.master.address().to_string()
    }

    /// What the master's HTTP says; it has to have been started with it.
    pub async fn ask_page(&self, path: &str) -> String {
        let address = self.master.http_address().unwrap();
        let (status, body) = http(address, &format!("GET {path}"), "").await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub fn id(&self, worker: usize) -> &WorkerId {
        self.workers[worker].id()
    }

    pub async fn rpc<Q: Typed, A: Typed>(&self, worker: usize, question: &Q) -> Result<A, RequestError> {
        let id = self.id(worker);
        let address = format!("{}:{}", id.host, id.rpc_port);
        let request = Request::encode_native(WORKER, &Message::of(question));
        let answer =
            self.client.request(&address, Header::RpcRequest { request_id: 0 }, request, WITHIN).await?;
        Ok(A::decode(Answer::decode_message(answer).unwrap().payload.unwrap_or_default()).unwrap())
    }

    pub async fn ask_master<Q: Typed, A: Typed>(&self, question: &Q) -> Result<A, RequestError> {
        let address = self.master.address().to_string();
        let request = Request::encode_native(MASTER, &Message::of(question));
        let answer =
            self.client.request(&address, Header::RpcRequest { request_id: 0 }, request, WITHIN).await?;
        Ok(A::decode(Answer::decode_message(answer).unwrap().payload.unwrap_or_default()).unwrap())
    }

    pub async fn reserve(&self, key: &ShuffleKey, locations: &[Location], split: (i64, i32)) -> i32 {
        self.reserve_within(key, locations, split, 0).await
    }

    /// For a client that gives up a push after so long; 0 says nothing about that.
    pub async fn reserve_within(
        &self,
        key: &ShuffleKey,
        locations: &[Location],
        split: (i64, i32),
        push_timeout_ms: i64,
    ) -> i32 {
        let holders = locations.iter().map(|location| location.worker.clone());
        let mut status = 0;
        for (at, worker) in self.workers.iter().enumerate() {
            if !holders.clone().any(|holder| holder == *worker.id()) {
                continue;
            }
            let mine: Vec<_> =
                locations.iter().filter(|location| location.worker == *worker.id()).cloned().collect();
            let request = proto::ReserveSlots {
                application_id: key.application.to_string(),
                shuffle_id: key.shuffle.0,
                partition_locations_pair: Some(Location::pack(&mine)),
                split_threshold: split.0,
                split_mode: split.1,
                partition_split_enabled: true,
                push_data_timeout: push_timeout_ms,
                ..Default::default()
            };
            let answer: proto::ReserveSlotsResponse = self.rpc(at, &request).await.unwrap();
            status = status.max(answer.status);
        }
        status
    }

    pub async fn send_push(&self, worker: usize, header: Header, body: Bytes) -> Result<Bytes, RequestError> {
        let id = self.id(worker);
        let address = format!("{}:{}", id.host, id.push_port);
        self.client.request(&address, header, body, WITHIN).await
    }

    pub async fn push(
        &self,
        worker: usize,
        key: &ShuffleKey,
        location: LocationId,
        batch: &Bytes,
    ) -> Result<Status, String> {
        let header = Header::PushData { request_id: 0, mode: Mode::Primary, shuffle: key.clone(), location };
        match self.send_push(worker, header, batch.clone()).await {
            Ok(answer) => Ok(Status::from_code(answer[0].into()).unwrap()),
            Err(RequestError::Failed { text, .. }) => Err(text),
            Err(error) => panic!("{error}"),
        }
    }

    pub async fn commit(
        &self,
        worker: usize,
        key: &ShuffleKey,
        primaries: &[LocationId],
        replicas: &[LocationId],
        attempts: &[i32],
    ) -> proto::CommitFilesResponse {
        let ids = |ids: &[LocationId]| ids.iter().map(LocationId::to_string).collect();
        let request = proto::CommitFiles {
            application_id: key.application.to_string(),
            shuffle_id: key.shuffle.0,
            primary_ids: ids(primaries),
            replica_ids: ids(replicas),
            map_attempts: attempts.to_vec(),
            epoch: 1,
            mock_failure: false,
        };
        self.rpc(worker, &request).await.unwrap()
    }

    pub fn fetch_address(&self, worker: usize) -> String {
        format!("{}:{}", self.id(worker).host, self.id(worker).fetch_port)
    }

    pub async fn ask_fetch<A: Typed>(&self, worker: usize, message: &Message) -> Result<A, RequestError> {
        let address = self.fetch_address(worker);
        let answer = self
            .client
            .request(&address, Header::RpcRequest { request_id: 0 }, message.to_bare(), WITHIN)
            .await?;
        Ok(A::decode(Message::decode_bare(answer).unwrap().payload.unwrap_or_default()).unwrap())
    }

    pub async fn open(
        &self,
        worker: usize,
        key: &ShuffleKey,
        file: &str,
        range: (i32, i32),
    ) -> Result<proto::StreamHandler, RequestError> {
        let open = proto::OpenStream {
            shuffle_key: key.to_string(),
            file_name: file.to_owned(),
            start_index: range.0,
            end_index: range.1,
            ..Default::default()
        };
        self.ask_fetch(worker, &Message::of(&open)).await
    }

    pub async fn read(
        &self,
        worker: usize,
        key: &ShuffleKey,
        file: &str,
        range: (i32, i32),
    ) -> Result<Vec<Bytes>, RequestError> {
        let stream = self.open(worker, key, file, range).await?;
        let mut batches = Vec::new();
        for chunk_index in 0..stream.num_chunks {
            let slice =
                ChunkSlice { stream_id: stream.stream_id, chunk_index, offset: 0, len: ChunkSlice::TO_END };
            let address = self.fetch_address(worker);
            let header = Header::ChunkFetchRequest(slice);
            let chunk = self.client.request(&address, header, Bytes::new(), WITHIN).await?;
            batches.extend(Batches::new(chunk, ByteOrder::Little).map(|batch| batch.unwrap().payload));
        }
        Ok(batches)
    }
}

pub fn batch(order: ByteOrder, map: i32, attempt: i32, number: i32, payload: &[u8]) -> Bytes {
    let header = BatchHeader {
        map: MapId(map),
        attempt: AttemptId(attempt),
        batch: BatchId(number),
        len: payload.len() as u32,
    };
    let mut bytes = BytesMut::new();
    header.encode(order, &mut bytes);
    bytes.extend_from_slice(payload);
    bytes.freeze()
}

pub fn jvm(map: i32, attempt: i32, number: i32, payload: &str) -> Bytes {
    batch(ByteOrder::Little, map, attempt, number, payload.as_bytes())
}

pub const WHOLE: (i32, i32) = (0, i32::MAX);
pub const SOFT_1G: (i64, i32) = (1 << 30, 0);

pub fn primary(worker: &WorkerId, partition: i32) -> Location {
    Location { id: LocationId::new(partition, 0), mode: Mode::Primary, worker: worker.clone(), peer: None }
}

pub fn noise(number: i32, len: usize) -> Vec<u8> {
    let mut state = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1);
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}

/// One HTTP request, spoken by hand.
pub async fn http(address: SocketAddr, request: &str, body: &str) -> (u16, String) {
    yeoul_simulation::http(address, request, body).await.unwrap()
}
