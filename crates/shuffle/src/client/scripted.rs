//! A master and workers for the tests of the client, which keep what they are given and fail on command.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;

use super::Options;
use crate::ids::{FileName, LocationId, Mode, WorkerId};
use crate::net::{self, Body, Listener, Reply, Service, Serving};
use crate::wire::message::{Message, MessageType};
use crate::wire::packed::Location;
use crate::wire::rpc::{Answer, Call, Request};
use crate::wire::{Head, Header, Limits, Status, proto, received, refusal};

/// What a server is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Point {
    Push,
    Chunk,
    Message(MessageType),
}

/// What a server does instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Ends the connection.
    Close,
    /// Answers only when it is released.
    Hang,
    /// Answers with a failure, or with a status that means one.
    Fail,
    /// Answers to a push or a commit with this status and nothing else, and does nothing.
    Say(Status),
    /// Answers with a chunk that ends before its batch does.
    Cut,
    /// Answers that it does not have what is to be opened.
    Lose,
    /// Does the same, and answers only when it is released.
    Late(&'static Fault),
}

type Answering = Box<dyn FnOnce(Reply) + Send>;

#[derive(Default)]
struct State {
    workers: Vec<WorkerId>,
    /// Each fires once, at the first request to that server that it is for.
    faults: Vec<(usize, Point, Fault)>,
    held: Vec<(Reply, Answering)>,
    /// Requests to each server, in order.
    seen: Vec<(usize, Point)>,
    destroyed: Vec<(usize, FileName)>,
    /// The epochs of the commits that each server was asked for, in order.
    commits: Vec<(usize, i64)>,
    /// The servers that the master says are leaving.
    leaving: Vec<usize>,
    /// How long a worker may wait for the other copy, as it was told in each reservation, in milliseconds.
    push_timeouts: Vec<i64>,
    batches: BTreeMap<LocationId, Vec<Bytes>>,
    /// Committed: they take no more.
    sealed: BTreeSet<LocationId>,
    /// By stream id.
    streams: Vec<LocationId>,
}

/// Server 0 is master and worker, the others are workers.
pub(super) struct Scripted {
    state: Arc<Mutex<State>>,
    _listeners: Vec<Serving>,
    address: String,
}

struct Server {
    at: usize,
    state: Arc<Mutex<State>>,
}

impl Scripted {
    pub async fn start(servers: usize) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let mut listeners = Vec::new();
        for at in 0..servers {
            let options = net::Options::new(Limits { rpc_body_max: 1 << 20, ..Limits::PUSH });
            let listener = Listener::bind("127.0.0.1:0", options).await.unwrap();
            let port = listener.port();
            let worker = WorkerId {
                host: "127.0.0.1".into(),
                rpc_port: port,
                push_port: port,
                fetch_port: port,
                replicate_port: port,
            };
            state.lock().unwrap().workers.push(worker);
            listeners.push(listener.serve(Arc::new(Server { at, state: state.clone() })));
        }
        let address = listeners[0].address().to_string();
        Self { state, _listeners: listeners, address }
    }

    /// Options for this master with waits as a test wants them.
    pub fn options(&self) -> Options {
        Options {
            retry_wait: Duration::from_millis(5),
            request_max: Duration::from_secs(5),
            connections: 1,
            ..Options::new([self.address.clone()])
        }
    }

    pub fn fail(&self, server: usize, point: Point, faults: &[Fault]) {
        self.state().faults.extend(faults.iter().map(|fault| (server, point, *fault)));
    }

    /// Takes back the faults that have not fired yet.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// Faults that have not fired yet.
    pub fn faults_left(&self) -> usize {
        self.state().faults.len()
    }

    /// How often a server was asked for this.
    pub fn asked(&self, server: usize, point: Point) -> usize {
        self.state().seen.iter().filter(|seen| **seen == (server, point)).count()
    }

    /// What servers were told to destroy.
    pub fn destroyed(&self) -> Vec<(usize, FileName)> {
        let mut destroyed = self.state().destroyed.clone();
        destroyed.sort_unstable();
        destroyed
    }

    /// The epochs of the commits that a server was asked for, in order.
    pub fn commits(&self, server: usize) -> Vec<i64> {
        let state = self.state();
        state.commits.iter().filter(|(at, _)| *at == server).map(|(_, epoch)| *epoch).collect()
    }

    /// How long workers may wait for the other copy, as they were told, in milliseconds.
    pub fn push_timeouts(&self) -> Vec<i64> {
        self.state().push_timeouts.clone()
    }

    /// Lets the master say that a server leaves.
    pub fn leave(&self, server: usize) {
        self.state().leaving.push(server);
    }

    /// Answers the requests that hang.
    pub fn release(&self) {
        for (reply, answering) in std::mem::take(&mut self.state().held) {
            answering(reply);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// Waits until other tasks have made `what` true.
pub(super) async fn until(mut what: impl FnMut() -> bool) {
    let soon = tokio::time::timeout(Duration::from_secs(20), async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    soon.await.expect("it comes about within 20 s");
}

impl Service for Server {
    async fn call(&self, head: Head, body: &mut Body<'_>, reply: Reply) -> io::Result<()> {
        let body = body.whole().await?;
        let (point, message) = match &head.header {
            Header::PushData { .. } | Header::PushMergedData { .. } => (Point::Push, None),
            Header::ChunkFetchRequest(_) => (Point::Chunk, None),
            _ => {
                let (message, is_bare) = match Request::decode(body.clone()) {
                    Ok(Request { call: Call::Message(message), .. }) => (message, false),
                    _ => (Message::decode_bare(body.clone()).unwrap(), true),
                };
                (Point::Message(message.kind), Some((message, is_bare)))
            }
        };
        let mut state = self.state.lock().unwrap();
        state.seen.push((self.at, point));
        let fault = state.faults.iter().position(|(at, wanted, _)| (*at, *wanted) == (self.at, point));
        let (fault, is_late) = match fault.map(|fault| state.faults.remove(fault).2) {
            Some(Fault::Late(fault)) => (Some(*fault), true),
            fault => (fault, fault == Some(Fault::Hang)),
        };
        if fault == Some(Fault::Close) {
            return Err(io::Error::other("told to"));
        }
        let answering = state.take(self.at, head.header, message, body, fault);
        if is_late {
            state.held.push((reply, answering));
        } else {
            answering(reply);
        }
        Ok(())
    }
}

impl State {
    fn take(
        &mut self,
        at: usize,
        header: Header,
        message: Option<(Message, bool)>,
        body: Bytes,
        fault: Option<Fault>,
    ) -> Answering {
        let fails = fault == Some(Fault::Fail);
        if let (Some(Fault::Say(status)), None) = (fault, &message) {
            return Box::new(move |reply| reply.push(status));
        }
        match (header, message) {
            (Header::ChunkFetchRequest(slice), _) if fails => {
                Box::new(move |reply| reply.chunk_failure(slice, "told to"))
            }
            (Header::ChunkFetchRequest(slice), _) => {
                let location = self.streams[slice.stream_id as usize];
                let mut chunk = self.batches[&location][slice.chunk_index as usize].clone();
                if fault == Some(Fault::Cut) {
                    chunk.truncate(chunk.len() - 1);
                }
                Box::new(move |reply| reply.chunk(slice, chunk))
            }
            (Header::PushData { .. } | Header::PushMergedData { .. }, _) if fails => {
                Box::new(|reply| reply.fail("told to"))
            }
            (Header::PushData { location, .. }, _) if self.sealed.contains(&location) => {
                Box::new(|reply| reply.push(Status::HardSplit))
            }
            (Header::PushData { location, .. }, _) => {
                self.batches.entry(location).or_default().push(body);
                Box::new(|reply| reply.push(Status::Success))
            }
            (Header::PushMergedData { locations, .. }, _)
                if locations.iter().any(|location| self.sealed.contains(location)) =>
            {
                Box::new(|reply| reply.push(Status::HardSplit))
            }
            (Header::PushMergedData { locations, offsets, .. }, _) => {
                for (at, location) in locations.iter().enumerate() {
                    let end = offsets.get(at + 1).map_or(body.len(), |end| *end as usize);
                    let batch = body.slice(offsets[at] as usize..end);
                    self.batches.entry(*location).or_default().push(batch);
                }
                Box::new(|reply| reply.push(Status::Success))
            }
            (_, Some(_)) if fault == Some(Fault::Lose) => {
                let lost = crate::Error::new(crate::Kind::NotFound, "location 0-0-0 is not here");
                Box::new(move |reply| reply.fail(refusal::text_of(&lost)))
            }
            (_, Some((message, is_bare))) => match self.answer(at, &message, fault) {
                Some(answer) if is_bare => Box::new(move |reply| reply.message(&answer)),
                Some(answer) => Box::new(move |reply| reply.answer(&Answer::Message(answer))),
                None => Box::new(|reply| reply.fail("told to")),
            },
            (header, None) => panic!("no client sends {header:?}"),
        }
    }

    fn answer(&mut self, at: usize, message: &Message, fault: Option<Fault>) -> Option<Message> {
        let fails = fault == Some(Fault::Fail);
        let status = if fails { 2 } else { 0 };
        Some(match message.kind {
            MessageType::HEARTBEAT_FROM_APPLICATION => {
                let leaving = self.leaving.iter().map(|at| proto::WorkerInfo::from(&self.workers[*at]));
                let shutting_workers = leaving.collect();
                Message::of(&proto::HeartbeatFromApplicationResponse {
                    status,
                    shutting_workers,
                    ..Default::default()
                })
            }
            MessageType::RESERVE_SLOTS => {
                let request = message.parse::<received::ReserveSlots>().unwrap();
                self.push_timeouts.push(request.push_data_timeout);
                Message::of(&proto::ReserveSlotsResponse { status, reason: String::new() })
            }
            _ if fails => return None,
            MessageType::REQUEST_SLOTS => Message::of(&self.slots(message)),
            MessageType::COMMIT_FILES => Message::of(&match fault {
                Some(Fault::Say(status)) => {
                    proto::CommitFilesResponse { status: status.code(), ..Default::default() }
                }
                _ => self.commit(at, message),
            }),
            MessageType::DESTROY => {
                self.destroy(at, message);
                Message::of(&proto::DestroyWorkerSlotsResponse::default())
            }
            MessageType::UNREGISTER_SHUFFLE => Message::of(&proto::UnregisterShuffleResponse::default()),
            MessageType::OPEN_STREAM => {
                let request = message.parse::<received::OpenStream>().unwrap();
                let file: FileName = request.file_name.parse().unwrap();
                self.streams.push(file.location);
                let num_chunks = self.batches[&file.location].len() as i32;
                let stream_id = self.streams.len() as i64 - 1;
                Message::of(&proto::StreamHandler { stream_id, num_chunks, ..Default::default() })
            }
            MessageType::BUFFER_STREAM_END | MessageType::REGISTER_APPLICATION_INFO => {
                Message::ONE_WAY_RESPONSE
            }
            _ => return None,
        })
    }

    /// Partition `p` on server `p` modulo their number, its copy on the next one.
    fn slots(&self, message: &Message) -> proto::RequestSlotsResponse {
        let request = message.parse::<received::RequestSlots>().unwrap();
        let worker = |at: usize| self.workers[at % self.workers.len()].clone();
        let partitions = request.numbers(received::RequestSlots::PARTITION_ID_LIST);
        let locations: Vec<Location> = partitions
            .map(|partition| {
                let partition = partition.unwrap();
                let at = partition as usize;
                let peer = request.should_replicate.then(|| worker(at + 1));
                let id = LocationId::new(partition, 0);
                Location { id, mode: Mode::Primary, worker: worker(at), peer }
            })
            .collect();
        let resource = |worker: &WorkerId| {
            let own: Vec<_> =
                locations.iter().filter(|location| location.worker == *worker).cloned().collect();
            proto::PackedWorkerResource {
                location_pairs: Some(Location::pack(&own)),
                network_location: String::new(),
            }
        };
        proto::RequestSlotsResponse {
            packed_worker_resource: self
                .workers
                .iter()
                .map(|worker| (worker.to_string(), resource(worker)))
                .collect(),
            ..Default::default()
        }
    }

    /// Each copy with batches is whole.
    fn commit(&mut self, at: usize, message: &Message) -> proto::CommitFilesResponse {
        let request = message.parse::<received::CommitFiles>().unwrap();
        self.commits.push((at, request.epoch));
        let mut held = |list| {
            let ids = request.texts(list).map(|id| id.unwrap().to_owned());
            let held = ids.filter(|id| {
                let id = id.parse().unwrap();
                self.sealed.insert(id);
                self.batches.contains_key(&id)
            });
            held.collect()
        };
        proto::CommitFilesResponse {
            committed_primary_ids: held(received::CommitFiles::PRIMARY_IDS),
            committed_replica_ids: held(received::CommitFiles::REPLICA_IDS),
            ..Default::default()
        }
    }

    fn destroy(&mut self, at: usize, message: &Message) {
        let request = message.parse::<received::DestroyWorkerSlots>().unwrap();
        type Destroy = received::DestroyWorkerSlots;
        for (list, mode) in
            [(Destroy::PRIMARY_LOCATIONS, Mode::Primary), (Destroy::REPLICA_LOCATION, Mode::Replica)]
        {
            for id in request.texts(list) {
                self.destroyed.push((at, FileName { location: id.unwrap().parse().unwrap(), mode }));
            }
        }
    }
}
