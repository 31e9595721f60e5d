//! The rpc listener: reserve, commit and destroy, as the driver asks for them.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use yeoul_base::failpoint;

use super::index::Index;
use super::memory::Party;
use super::node::Node;
use super::state::{Commit, CommitOutcome, Reservation, ReserveRefusal, Slot, SplitPolicy};
use super::store::shuffle::{Contents, SLOT_BYTES, Shuffle};
use super::store::spill::Write;
use crate::error::{Error, Kind, Result};
use crate::ids::{AttemptId, DriverId, FileName, LocationId, Mode, ShuffleKey, SplitMode};
use crate::net::{Body, Reply, Service};
use crate::wire::lists::{Texts, exactly};
use crate::wire::message::{Message, MessageType};
use crate::wire::packed::{Location, STORAGE_HDD};
use crate::wire::rpc::{self, Answer, Call, Request};
use crate::wire::{Head, Header, Received, Status, WORKER_SHUFFLES_MAX, proto, received};

/// Celeborn's number for partitions of which each is read by one reducer.
const PARTITION_TYPE_REDUCE: i32 = 0;

/// Copies of locations that one shuffle may have on a worker.
const LOCATIONS_MAX: usize = 1 << 20;

/// Chunks that one reply lists beyond the first of each location: 8 TiB of chunks of the usual 8 MiB, which take some 8 MB.
const CHUNKS_LISTED_MAX: usize = 1 << 20;

const LEAVING: &str = "the worker is leaving";
const NO_SPACE: &str = "neither memory nor a directory has room";

/// Answers drivers.
pub struct ControlService {
    node: Arc<Node>,
}

impl ControlService {
    /// The service of the rpc listener.
    pub fn new(node: Arc<Node>) -> Self {
        Self { node }
    }

    async fn answer(&self, request: Request) -> Result<Answer> {
        let message = match request.call {
            Call::CheckExistence(name) => return Ok(Answer::Exists(name == rpc::WORKER)),
            Call::Message(message) => message,
            Call::Foreign(class) => {
                let text = format!("expected a TransportMessage, found an object of class {class}");
                return Err(Error::new(Kind::Invalid, text));
            }
        };
        if request.endpoint != rpc::WORKER {
            let text = format!("there is no endpoint `{}` here, only {}", request.endpoint, rpc::WORKER);
            return Err(Error::new(Kind::Invalid, text));
        }
        Ok(Answer::Message(match message.kind {
            MessageType::RESERVE_SLOTS => {
                let wanted = message.parse()?;
                let reserve = || self.reserve(request.sender, &wanted);
                Message::of(&self.node.meters.reservations.time(reserve)?)
            }
            MessageType::COMMIT_FILES => {
                let request = message.parse()?;
                let meters = &self.node.meters;
                let mut response = meters.commits.time(|| self.commit(&request))?;
                if self.node.options.commit_sync {
                    self.make_durable(&request, &mut response).await;
                }
                meters.failed_commits.add(u64::from(response.status != Status::Success.code()));
                let committed = response.committed_primary_storage_infos.values();
                for storage in committed.chain(response.committed_replica_storage_infos.values()) {
                    meters.committed_sizes.record(storage.file_size.cast_unsigned());
                }
                Message::of(&response)
            }
            MessageType::DESTROY => Message::of(&self.destroy(&message.parse()?)?),
            other => {
                let text = format!("a worker does not answer {}", rpc::describe(other));
                return Err(Error::new(Kind::Invalid, text));
            }
        }))
    }

    async fn respond(&self, request: Request, reply: Reply) {
        match self.answer(request).await {
            Ok(answer) => reply.answer(&answer),
            Err(error) => reply.fail(error.to_string()),
        }
    }

    fn reserve(
        &self,
        driver: Option<DriverId>,
        request: &Received<received::ReserveSlots>,
    ) -> Result<proto::ReserveSlotsResponse> {
        let key = ShuffleKey::new(request.application_id.as_str(), request.shuffle_id);
        let refuse = |status: Status, reason: &str| proto::ReserveSlotsResponse {
            status: status.code(),
            reason: reason.to_owned(),
        };
        if let Err(error) = key.check_storable() {
            return Ok(refuse(Status::ReserveSlotsFailed, &error.to_string()));
        }
        if request.partition_type != PARTITION_TYPE_REDUCE {
            return Ok(refuse(Status::ReserveSlotsFailed, "map partitions (Flink) are not served"));
        }
        let too_many =
            || refuse(Status::ReserveSlotsFailed, "the shuffle has too many locations on this worker");
        // Before they are made, because a reservation takes far more than its bytes in the request.
        let count = request.location_count()?;
        if count > LOCATIONS_MAX {
            return Ok(too_many());
        }
        let has_room = |count: usize| self.node.store.memory().has_room_for_fixed(SLOT_BYTES * count as u64);
        if !has_room(count) && !has_room(count.saturating_sub(self.count_here(&key, request)?)) {
            return Ok(refuse(Status::NoAvailableWorkingDir, NO_SPACE));
        }
        let (reservations, foreign) = self.wanted(request, count)?;
        // From before a restart: an executor would try three times to connect, and wait 5 s before each.
        if let Some(port) = foreign {
            let reason =
                format!("the worker takes no pushes on port {port}: it was started anew with others");
            return Ok(refuse(Status::ReserveSlotsFailed, &reason));
        }
        let pressure = self.node.pressure(&Party::pushes(&key.application));
        // Before the shuffle is made: a refused one would stay behind empty.
        if pressure.leaving {
            return Ok(refuse(Status::WorkerShutdown, LEAVING));
        }
        if pressure.exhausted {
            return Ok(refuse(Status::NoAvailableWorkingDir, NO_SPACE));
        }
        if self.node.store.shuffle_count() >= WORKER_SHUFFLES_MAX && self.node.store.find(&key).is_none() {
            return Ok(refuse(Status::ReserveSlotsFailed, "the worker holds too many shuffles"));
        }
        let reserved = self.node.store.with_shuffle(&key, |contents| {
            contents.state.reserve(driver, &reservations, pressure, LOCATIONS_MAX)?;
            failpoint("worker-reserve");
            contents.charge_slots();
            contents.wants_map_bitmap |= request.range_read_filter;
            if let Ok(timeout_ms @ 1..) = u64::try_from(request.push_data_timeout) {
                contents.push_timeout = Some(Duration::from_millis(timeout_ms));
            }
            Ok(())
        });
        let Some(reserved) = reserved else {
            let reason = "an earlier shuffle of that number is still being deleted here, or what is here cannot be read";
            return Ok(refuse(Status::ReserveSlotsFailed, reason));
        };
        Ok(match reserved {
            Ok(()) => {
                self.node.meters.slots.add(reservations.len() as u64);
                proto::ReserveSlotsResponse { status: Status::Success.code(), reason: String::new() }
            }
            Err(ReserveRefusal::Leaving) => refuse(Status::WorkerShutdown, LEAVING),
            Err(ReserveRefusal::NoSpace) => refuse(Status::NoAvailableWorkingDir, NO_SPACE),
            Err(ReserveRefusal::TooMany) => too_many(),
            Err(
                refusal @ (ReserveRefusal::Used(_) | ReserveRefusal::Begun | ReserveRefusal::OtherDriver),
            ) => {
                let what = match refusal {
                    ReserveRefusal::Used(file) => format!("location {file} of it is in use"),
                    ReserveRefusal::OtherDriver => "it is another driver's".to_owned(),
                    _ => "it is under way".to_owned(),
                };
                let reason = format!(
                    "shuffle {key} is here already, and {what}: unregister the shuffles of an earlier run under this application id, or use a new one"
                );
                tracing::warn!(shuffle = %key, "not reserved: {what}, and may be of an earlier life of the application");
                refuse(Status::ReserveSlotsFailed, &reason)
            }
        })
    }

    /// The `count` locations that a request wants, and a port for pushes among them that this worker does not have.
    fn wanted(
        &self,
        request: &Received<received::ReserveSlots>,
        count: usize,
    ) -> Result<(Vec<Reservation>, Option<u16>)> {
        let split = SplitPolicy {
            enabled: request.partition_split_enabled && self.node.options.split_enabled,
            threshold_bytes: u64::try_from(request.split_threshold).unwrap_or(0),
            mode: SplitMode::from_wire(request.split_mode),
            hard_bytes: self.node.options.split_bytes_max,
        };
        let mut reservations = Vec::with_capacity(count);
        // Thousands of locations have a handful of peers.
        let mut peers: HashSet<Arc<str>> = HashSet::new();
        let mut shared = |address: String| match peers.get(address.as_str()) {
            Some(peer) => Arc::clone(peer),
            None => {
                let peer: Arc<str> = address.into();
                peers.insert(Arc::clone(&peer));
                peer
            }
        };
        let mut foreign = None;
        request.locations(|Location { id, mode, worker, peer }| {
            foreign = foreign.or(Some(worker.push_port).filter(|port| !self.node.has_push_port(*port)));
            let peer = peer.filter(|_| mode == Mode::Primary);
            let peer = peer.map(|peer| shared(peer.address(peer.replicate_port)));
            reservations.push(Reservation { file: FileName { location: id, mode }, peer, split });
        })?;
        Ok((reservations, foreign))
    }

    /// How many locations of a request are here already: who had no answer asks again.
    fn count_here(&self, key: &ShuffleKey, request: &Received<received::ReserveSlots>) -> Result<usize> {
        let Some(shuffle) = self.node.store.find(key) else { return Ok(0) };
        let (contents, mut count) = (shuffle.lock(), 0);
        request.locations(|Location { id, mode, .. }| {
            count += usize::from(contents.state.find(FileName { location: id, mode }).is_some());
        })?;
        Ok(count)
    }

    fn commit(&self, request: &Received<received::CommitFiles>) -> Result<proto::CommitFilesResponse> {
        let key = ShuffleKey::new(request.application_id.as_str(), request.shuffle_id);
        let attempts = || request.numbers(received::CommitFiles::MAP_ATTEMPTS);
        let commit = Commit {
            primaries: locations(request, received::CommitFiles::PRIMARY_IDS)?,
            replicas: locations(request, received::CommitFiles::REPLICA_IDS)?,
            attempts: exactly(attempts().count(), attempts().map(|attempt| attempt.map(AttemptId)))?,
        };
        let found = self.node.store.find(&key);
        Ok(found.and_then(|shuffle| self.commit_in(&shuffle, &commit)).unwrap_or_else(|| {
            let texts = |ids: &[LocationId]| ids.iter().map(LocationId::to_string).collect();
            proto::CommitFilesResponse {
                status: Status::ShuffleNotRegistered.code(),
                failed_primary_ids: texts(&commit.primaries),
                failed_replica_ids: texts(&commit.replicas),
                ..proto::CommitFilesResponse::default()
            }
        }))
    }

    /// Waits until what was committed is synced to a disk. Locations for which that fails are not called committed: who asks
    /// for this rather writes them again.
    async fn make_durable(
        &self,
        request: &Received<received::CommitFiles>,
        response: &mut proto::CommitFilesResponse,
    ) {
        let key = ShuffleKey::new(request.application_id.as_str(), request.shuffle_id);
        let Some(shuffle) = self.node.store.find(&key) else { return };
        if self.node.store.make_durable(&shuffle).await {
            return;
        }
        let committed = response.committed_primary_ids.len() + response.committed_replica_ids.len();
        tracing::error!(shuffle = %key, "{committed} locations are committed, and could not be synced to a disk");
        response.status = Status::PartialSuccess.code();
        response.failed_primary_ids.append(&mut response.committed_primary_ids);
        response.failed_replica_ids.append(&mut response.committed_replica_ids);
        response.committed_primary_storage_infos.clear();
        response.committed_replica_storage_infos.clear();
        response.map_id_bitmap.clear();
        (response.total_written, response.file_count) = (0, 0);
    }

    /// Commits what a shuffle has; `None` if it was deleted since it was found, and has nothing any more.
    fn commit_in(&self, shuffle: &Arc<Shuffle>, commit: &Commit) -> Option<proto::CommitFilesResponse> {
        let mut contents = shuffle.lock();
        if contents.gone {
            return None;
        }
        let outcome = contents.state.commit(commit);
        contents.complete(outcome.committed.iter().copied());
        let response = response(&contents, &outcome, self.node.options.chunk_bytes);
        drop(contents);
        // The winners, too, which may come without a location.
        self.node.store.seal_later(shuffle);
        Some(response)
    }

    fn destroy(
        &self,
        request: &Received<received::DestroyWorkerSlots>,
    ) -> Result<proto::DestroyWorkerSlotsResponse> {
        let key: ShuffleKey = request.shuffle_key.parse()?;
        let primaries = locations(request, received::DestroyWorkerSlots::PRIMARY_LOCATIONS)?;
        let replicas = locations(request, received::DestroyWorkerSlots::REPLICA_LOCATION)?;
        if let Some(shuffle) = self.node.store.find(&key) {
            let files = files(primaries, Mode::Primary).chain(files(replicas, Mode::Replica));
            destroy(&shuffle, files);
        }
        Ok(proto::DestroyWorkerSlotsResponse { status: Status::Success.code(), ..Default::default() })
    }
}

fn files(locations: Vec<LocationId>, mode: Mode) -> impl Iterator<Item = FileName> {
    locations.into_iter().map(move |location| FileName { location, mode })
}

fn locations<M>(request: &Received<M>, list: Texts<M>) -> Result<Vec<LocationId>> {
    let count = request.texts(list).count();
    if count > LOCATIONS_MAX {
        // The answer for an unknown shuffle names them all.
        let text = format!("a request for {count} locations, expected at most {LOCATIONS_MAX}");
        return Err(Error::new(Kind::Invalid, text));
    }
    exactly(count, request.texts(list).map(|id| Ok(id?.parse()?)))
}

fn destroy(shuffle: &Shuffle, files: impl Iterator<Item = FileName>) {
    let mut contents = shuffle.lock();
    if contents.gone {
        return;
    }
    let slots: Vec<Slot> = contents.state.destroy(files);
    let copies: Vec<_> = slots.iter().filter_map(|slot| contents.copies.remove(slot)).collect();
    shuffle.shrank(copies.iter().map(|copy| copy.resident()).sum());
    let (charge, late) = (contents.charge_slots(), contents.take_late_writes());
    drop(contents);
    late.iter().for_each(Write::give_up);
    drop((copies, charge)); // outside the lock: giving back memory wakes who waits for it
}

/// What the driver is told. Every committed location has a storage entry, or the driver fails on it.
fn response(contents: &Contents, outcome: &CommitOutcome, chunk_bytes: u64) -> proto::CommitFilesResponse {
    let mut chunks_left = CHUNKS_LISTED_MAX;
    let status = if outcome.failed.is_empty() { Status::Success } else { Status::PartialSuccess };
    let mut response = proto::CommitFilesResponse { status: status.code(), ..Default::default() };
    for file in &outcome.failed {
        let failed = match file.mode {
            Mode::Primary => &mut response.failed_primary_ids,
            Mode::Replica => &mut response.failed_replica_ids,
        };
        failed.push(file.location.to_string());
    }
    for file in &outcome.committed {
        let id = file.location.to_string();
        let copy = contents.state.find(*file).and_then(|slot| contents.copies.get(&slot));
        let bytes = copy.map_or(0, |copy| copy.index().bytes().cast_signed());
        let storage = proto::StorageInfo {
            r#type: STORAGE_HDD,
            final_result: true,
            file_size: bytes,
            chunk_offsets: chunk_offsets(copy.map(|copy| copy.index()), chunk_bytes, &mut chunks_left),
            ..Default::default()
        };
        if let Some(copy) = copy.filter(|_| contents.wants_map_bitmap) {
            response.map_id_bitmap.insert(id.clone(), bitmap(copy.index().maps().iter().map(|map| map.0)));
        }
        let (ids, storages) = match file.mode {
            Mode::Primary => {
                (&mut response.committed_primary_ids, &mut response.committed_primary_storage_infos)
            }
            Mode::Replica => {
                (&mut response.committed_replica_ids, &mut response.committed_replica_storage_infos)
            }
        };
        ids.push(id.clone());
        storages.insert(id, storage);
        response.total_written += bytes;
        response.file_count += 1;
    }
    response
}

/// Where the chunks of a location begin and end, in bytes: 0, the end of the first, of the second, … A client from 0.6 on
/// shares out the chunks of a skewed partition by them, see [`MapRange::from_wire`]; a client of 0.5 leaves them unread.
///
/// Empty if there are more chunks than are left: with a part of the list such a client would silently read a part of the
/// location, and without any it fails.
///
/// [`MapRange::from_wire`]: crate::worker::index::MapRange::from_wire
fn chunk_offsets(index: Option<&Index>, chunk_bytes: u64, chunks_left: &mut usize) -> Vec<i64> {
    let mut offsets = vec![0];
    match index.filter(|index| !index.is_empty()) {
        None => {}
        // Most locations are one chunk, and their batches need no walk.
        Some(index) if index.bytes() <= chunk_bytes => offsets.push(index.bytes().cast_signed()),
        Some(index) => {
            for end in index.chunk_ends(chunk_bytes) {
                if offsets.len() > *chunks_left + 1 {
                    return Vec::new();
                }
                offsets.push(end.cast_signed());
            }
        }
    }
    *chunks_left -= offsets.len().saturating_sub(2);
    offsets
}

/// The portable form of a RoaringBitmap of map ids.
fn bitmap(maps: impl Iterator<Item = i32>) -> Bytes {
    let bitmap: roaring::RoaringBitmap = maps.map(i32::cast_unsigned).collect();
    let mut bytes = Vec::with_capacity(bitmap.serialized_size());
    bitmap.serialize_into(&mut bytes).expect("a vector takes what is written to it");
    bytes.into()
}

impl Service for ControlService {
    async fn call(&self, head: Head, body: &mut Body<'_>, reply: Reply) -> io::Result<()> {
        if !matches!(head.header, Header::RpcRequest { .. }) {
            return Ok(()); // one-way messages and signs of life
        }
        let mut measured = self.node.meters.rpc.begin();
        let bytes = body.whole().await?;
        measured.arrived();
        let request = match Request::decode(bytes) {
            Ok(request) => request,
            Err(error) => {
                reply.fail(Error::from(error).to_string());
                return Ok(());
            }
        };
        let waits_for_disk = self.node.options.commit_sync
            && matches!(&request.call, Call::Message(message) if message.kind == MessageType::COMMIT_FILES);
        if waits_for_disk {
            // The driver's other requests do not.
            let service = Self::new(Arc::clone(&self.node));
            tokio::spawn(async move { service.respond(request, reply).await });
        } else {
            self.respond(request, reply).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use yeoul_disk::{Fault, FaultyDisk, Operation};
    use yeoul_memory::Governor;

    use super::*;
    use crate::ids::{BatchId, MapId, WorkerId};
    use crate::worker::node::tests::{append, id, node, node_with, options, reserved};
    use crate::worker::options::{MEMORY_BYTES_MIN, Options};
    use crate::worker::state::{Pressure, PushKind, Refusal};
    use crate::worker::store::Store;
    use crate::worker::store::copy::Place;
    use crate::worker::store::directory::DirectoryOptions;

    /// The other locations of the job are in memory, and are written again.
    #[tokio::test]
    async fn a_disk_that_hangs_keeps_nothing_of_a_location_that_goes() {
        let place = tempfile::tempdir().unwrap();
        let (disk, options) = (FaultyDisk::new(), options(&place));
        let directories = DirectoryOptions { disk: disk.clone(), ..DirectoryOptions::default() };
        let store = Store::open(&options.directories, 64 << 20, &directories).unwrap();
        let node = Node::over(options, id(), store);
        let files = [0, 1].map(|at| FileName { location: LocationId::new(at, 0), mode: Mode::Primary });
        let shuffle = reserved(&node, &ShuffleKey::new("app", 1), &files);
        files.iter().for_each(|file| append(&shuffle, *file, MapId(3)));
        let directory = Arc::clone(&node.store.directories()[0]);
        let hang = disk.inject(Fault::hangs(Operation::Write).times(1).within(".segment"));
        let job = node.store.plan(&directory, u64::MAX).expect("there is something to spill");
        let spilled = tokio::spawn({
            let (store, directory) = (Arc::clone(&node.store), Arc::clone(&directory));
            async move { store.spill(job, directory).await }
        });
        while hang.happened() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        directory.hangs();
        assert!(!spilled.await.unwrap());
        let batch = {
            let contents = shuffle.lock();
            let place = contents.copies[&contents.state.find(files[0]).unwrap()].place(0);
            let Place::Memory(batch) = place else { panic!("{place:?}") };
            batch
        };
        assert!(!batch.is_unique());
        destroy(&shuffle, files[..1].iter().copied());
        assert!(batch.is_unique());
        assert_eq!((shuffle.lock().writes.len(), shuffle.resident()), (0, 20));
        drop(hang);
    }

    #[test]
    fn a_commit_of_more_locations_than_a_shuffle_may_have_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let control = ControlService::new(node(&place));
        let commit = |count: usize| {
            let primary_ids = vec!["0-0".to_owned(); count];
            let request = proto::CommitFiles { primary_ids, ..Default::default() };
            control.commit(&Message::of(&request).parse().unwrap())
        };
        assert_eq!(commit(LOCATIONS_MAX).unwrap().failed_primary_ids.len(), LOCATIONS_MAX);
        let error = commit(LOCATIONS_MAX + 1).unwrap_err();
        assert!(error.to_string().ends_with("expected at most 1048576"), "{error}");
    }

    #[tokio::test]
    async fn a_commit_that_is_repeated_after_a_restart_says_which_maps_wrote() {
        let place = tempfile::tempdir().unwrap();
        let before = node(&place);
        let key = ShuffleKey::new("app", 1);
        let file = FileName { location: LocationId::new(0, 0), mode: Mode::Primary };
        let commit = Commit { primaries: vec![file.location], ..Commit::default() };
        let shuffle = reserved(&before, &key, &[file]);
        let answer = |shuffle: &Shuffle| {
            let mut contents = shuffle.lock();
            let outcome = contents.state.commit(&commit);
            response(&contents, &outcome, 8 << 20)
        };
        shuffle.lock().wants_map_bitmap = true;
        append(&shuffle, file, MapId(3));
        let first = answer(&shuffle);
        assert_eq!(first.map_id_bitmap.len(), 1);
        assert!(before.store.flush().await.is_empty());
        drop((shuffle, before));
        let node = node(&place);
        assert_eq!(answer(&node.store.find(&key).unwrap()), first);
    }

    #[tokio::test]
    async fn a_commit_says_how_large_each_copy_is_and_where_its_chunks_end() {
        let place = tempfile::tempdir().unwrap();
        let control = ControlService::new(node_with(Options { chunk_bytes: 30, ..options(&place) }));
        let key = ShuffleKey::new("app", 1);
        let file = |partition, mode| FileName { location: LocationId::new(partition, 0), mode };
        let primary = |partition| file(partition, Mode::Primary);
        let files = [primary(0), primary(1), primary(2), file(3, Mode::Replica)];
        let shuffle = reserved(&control.node, &key, &files);
        for (file, batches) in files.into_iter().zip([3, 1, 0, 4]) {
            (0..batches).for_each(|map| append(&shuffle, file, MapId(map)));
        }
        let request = proto::CommitFiles {
            application_id: key.application.to_string(),
            shuffle_id: key.shuffle.0,
            primary_ids: vec!["0-0".to_owned(), "1-0".to_owned(), "2-0".to_owned()],
            replica_ids: vec!["3-0".to_owned()],
            ..proto::CommitFiles::default()
        };
        let response = control.commit(&Message::of(&request).parse().unwrap()).unwrap();
        let primaries = response.committed_primary_storage_infos;
        let told = |info: &proto::StorageInfo| {
            assert_eq!((info.r#type, info.final_result), (1, true), "a C++ client reads HDD and SSD only");
            (info.file_size, info.chunk_offsets.clone())
        };
        let batch = primaries["1-0"].file_size;
        assert!((15..30).contains(&batch), "two batches make a chunk, and one does not: {batch}");
        assert_eq!(told(&primaries["0-0"]), (3 * batch, vec![0, 2 * batch, 3 * batch]));
        assert_eq!(told(&primaries["1-0"]), (batch, vec![0, batch]));
        assert!(!primaries.contains_key("2-0"), "nothing was pushed there");
        let replica = &response.committed_replica_storage_infos["3-0"];
        assert_eq!(told(replica), (4 * batch, vec![0, 2 * batch, 4 * batch]));
    }

    #[tokio::test]
    async fn a_synced_commit_survives_whatever_happens_next() {
        let place = tempfile::tempdir().unwrap();
        let key = ShuffleKey::new("app", 1);
        let at = |partition| FileName { location: LocationId::new(partition, 0), mode: Mode::Primary };
        let commit = |ids: &[&str]| Request {
            sender: None,
            endpoint: rpc::WORKER.to_owned(),
            call: Call::Message(Message::of(&proto::CommitFiles {
                application_id: key.application.to_string(),
                shuffle_id: key.shuffle.0,
                primary_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
                ..proto::CommitFiles::default()
            })),
        };
        let ask = async |control: &ControlService, ids: &[&str]| {
            let Answer::Message(message) = control.answer(commit(ids)).await.unwrap() else {
                panic!("no message")
            };
            let response = proto::CommitFilesResponse::decode(message.payload.unwrap()).unwrap();
            (response.status, response.committed_primary_ids, response.failed_primary_ids)
        };
        let with_sync = || node_with(Options { commit_sync: true, ..options(&place) });
        let control = ControlService::new(with_sync());
        let shuffle = reserved(&control.node, &key, &[at(0), at(1), at(2)]);
        [at(0), at(2)].into_iter().for_each(|file| append(&shuffle, file, MapId(3)));
        let (none, of) = (Vec::<String>::new(), |id: &str| vec![id.to_owned()]);
        assert_eq!(ask(&control, &["0-0", "1-0"]).await, (0, of("0-0"), none.clone()));
        assert!(shuffle.resident() > 0, "what is not committed stays in memory");
        // As after a kill: nothing more is written.
        drop((shuffle, control));
        let control = ControlService::new(with_sync());
        let shuffle = control.node.store.find(&key).expect("it is on disk");
        assert_eq!(ask(&control, &["0-0", "1-0"]).await, (0, of("0-0"), none.clone()), "and the empty one");
        assert!(shuffle.lock().state.find(at(2)).is_none());
        // Where no disk takes it, it is not called committed.
        let moved = FileName { location: LocationId::new(3, 1), mode: Mode::Primary };
        let wanted = [Reservation { file: moved, peer: None, split: SplitPolicy::default() }];
        shuffle.lock().state.reserve(None, &wanted, Pressure::default(), 9).unwrap();
        append(&shuffle, moved, MapId(3));
        for directory in control.node.store.directories() {
            directory.hangs();
        }
        let partly = Status::PartialSuccess.code();
        assert_eq!(ask(&control, &["3-1"]).await, (partly, none, of("3-1")));
    }

    #[test]
    fn a_list_of_chunks_is_whole_or_empty() {
        let mut index = Index::default();
        for map in 0..5 {
            index.push(MapId(map), AttemptId(0), BatchId(1), 10);
        }
        let mut left = 7;
        let mut listed = || (chunk_offsets(Some(&index), 10, &mut left), left);
        assert_eq!(listed(), (vec![0, 10, 20, 30, 40, 50], 3));
        assert_eq!(listed(), (vec![], 3), "four more chunks than one, and room for three");
        assert_eq!(chunk_offsets(Some(&index), 50, &mut 0), [0, 50], "one chunk takes no room");
        assert_eq!(chunk_offsets(None, 10, &mut 0), [0]);
    }

    #[tokio::test]
    async fn a_number_whose_shuffle_is_being_deleted_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let control = ControlService::new(node(&place));
        let store = &control.node.store;
        let key = ShuffleKey::new("app", 1);
        let reserve = || {
            let request = proto::ReserveSlots {
                application_id: key.application.to_string(),
                shuffle_id: 1,
                ..proto::ReserveSlots::default()
            };
            control.reserve(None, &Message::of(&request).parse().unwrap()).unwrap().status
        };
        assert_eq!(reserve(), Status::Success.code());
        let removed = store.remove(&key).unwrap();
        assert_eq!(reserve(), Status::ReserveSlotsFailed.code());
        store.delete(removed);
        assert_eq!(reserve(), Status::Success.code(), "there were no files");
    }

    #[tokio::test]
    async fn what_no_disk_could_name_is_refused_with_its_reason() {
        let place = tempfile::tempdir().unwrap();
        let control = ControlService::new(node(&place));
        let reserve = |application_id: &str, shuffle_id| {
            let application_id = application_id.to_owned();
            let request =
                proto::ReserveSlots { application_id, shuffle_id, ..proto::ReserveSlots::default() };
            let response = control.reserve(None, &Message::of(&request).parse().unwrap()).unwrap();
            (response.status, response.reason)
        };
        let failed = Status::ReserveSlotsFailed.code();
        for long in [&"a".repeat(201), &"é".repeat(34), ""] {
            let (status, reason) = reserve(long, 0);
            assert!(status == failed && reason.contains("1 to 200 bytes"), "{reason}");
        }
        assert_eq!(reserve("app", -1), (failed, "a shuffle's number is not negative".to_owned()));
        for (at, short) in (0..).zip(["a".repeat(200), "é".repeat(33)]) {
            assert_eq!(reserve(&short, at).0, Status::Success.code(), "{short}");
        }
    }

    #[tokio::test]
    async fn partitions_of_maps_are_refused_in_words() {
        let place = tempfile::tempdir().unwrap();
        let control = ControlService::new(node(&place));
        let reserve = |partition_type| {
            let request = proto::ReserveSlots {
                application_id: "app".to_owned(),
                partition_type,
                ..proto::ReserveSlots::default()
            };
            control.reserve(None, &Message::of(&request).parse().unwrap()).unwrap()
        };
        for of_maps in [1, 2] {
            let refused = reserve(of_maps);
            assert_eq!(refused.status, Status::ReserveSlotsFailed.code());
            assert!(refused.reason.contains("map partitions"), "{}", refused.reason);
        }
        assert_eq!(control.node.store.shuffle_count(), 0);
        assert_eq!(reserve(0).status, Status::Success.code());
    }

    #[tokio::test]
    async fn locations_split_by_size_where_the_client_and_the_worker_want_it() {
        let key = ShuffleKey::new("app", 1);
        let file = FileName { location: LocationId::new(0, 0), mode: Mode::Primary };
        let location = Location { id: file.location, mode: file.mode, worker: id(), peer: None };
        for (client_wants_it, worker_wants_it) in [(true, true), (true, false), (false, true)] {
            let place = tempfile::tempdir().unwrap();
            let options = Options { split_enabled: worker_wants_it, ..options(&place) };
            let control = ControlService::new(node_with(options));
            let request = proto::ReserveSlots {
                application_id: key.application.to_string(),
                shuffle_id: key.shuffle.0,
                split_threshold: 10,
                split_mode: 1,
                partition_split_enabled: client_wants_it,
                partition_locations_pair: Some(Location::pack(std::slice::from_ref(&location))),
                ..proto::ReserveSlots::default()
            };
            let reserved = control.reserve(None, &Message::of(&request).parse().unwrap()).unwrap();
            assert_eq!(reserved.status, Status::Success.code());
            let shuffle = control.node.store.find(&key).unwrap();
            append(&shuffle, file, MapId(0));
            let judged = shuffle.lock().state.judge(file, MapId(0), PushKind::Single, Pressure::default());
            let refusal = (client_wants_it && worker_wants_it).then_some(Refusal::HardSplit);
            assert_eq!(judged.err(), refusal, "{client_wants_it} {worker_wants_it}");
        }
    }

    #[tokio::test]
    async fn what_was_deleted_since_it_was_found_is_not_committed() {
        let place = tempfile::tempdir().unwrap();
        let control = ControlService::new(node(&place));
        let file = FileName { location: LocationId::new(0, 0), mode: Mode::Primary };
        let shuffle = reserved(&control.node, &ShuffleKey::new("app", 1), &[file]);
        let commit = Commit { primaries: vec![file.location], ..Commit::default() };
        shuffle.lock().state.appended(file, 10);
        drop(control.node.store.remove(shuffle.key()));
        assert_eq!(control.commit_in(&shuffle, &commit), None);
    }

    #[tokio::test]
    async fn a_location_on_a_port_that_the_worker_does_not_have_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let control =
            ControlService::new(node_with(Options { push_ports: vec![2, 20, 21], ..options(&place) }));
        let elsewhere = WorkerId { host: "p".into(), push_port: 99, ..id() };
        let reserve = |ports: [u16; 2], mode| {
            let at = |(partition, push_port)| Location {
                id: LocationId::new(partition, 0),
                mode,
                worker: WorkerId { push_port, ..id() },
                peer: Some(elsewhere.clone()),
            };
            let locations: Vec<_> = (0..).zip(ports).map(at).collect();
            let request = proto::ReserveSlots {
                application_id: "app".to_owned(),
                shuffle_id: 1,
                partition_locations_pair: Some(Location::pack(&locations)),
                ..proto::ReserveSlots::default()
            };
            control.reserve(None, &Message::of(&request).parse().unwrap()).unwrap()
        };
        for mode in [Mode::Primary, Mode::Replica] {
            for foreign in [[22, 2], [2, 99]] {
                let refused = reserve(foreign, mode);
                assert_eq!(refused.status, Status::ReserveSlotsFailed.code(), "{foreign:?}");
                assert!(refused.reason.contains("port"), "{}", refused.reason);
            }
        }
        assert_eq!(control.node.store.shuffle_count(), 0);
        assert_eq!(reserve([2, 21], Mode::Primary).status, Status::Success.code());
    }

    #[tokio::test]
    async fn locations_are_charged_while_they_are_here() {
        let place = tempfile::tempdir().unwrap();
        // As much as the least worker has at the start: 10,000 locations are nothing special.
        let limit = Governor::new(MEMORY_BYTES_MIN).first_limit();
        let control = ControlService::new(Arc::new(Node::open(options(&place), id(), limit).unwrap()));
        let memory = control.node.store.memory();
        let peer = WorkerId { host: "p".into(), ..id() };
        let location = |partition| Location {
            id: LocationId::new(partition, 0),
            mode: Mode::Primary,
            worker: id(),
            peer: Some(peer.clone()),
        };
        let reserve = |partitions: std::ops::Range<i32>| {
            let locations: Vec<_> = partitions.map(location).collect();
            let request = proto::ReserveSlots {
                application_id: "app".to_owned(),
                shuffle_id: 1,
                partition_locations_pair: Some(Location::pack(&locations)),
                ..proto::ReserveSlots::default()
            };
            control.reserve(None, &Message::of(&request).parse().unwrap()).unwrap().status
        };
        assert_eq!(reserve(0..10_000), Status::Success.code());
        assert_eq!(memory.used(), 10_000 * 512);
        assert_eq!(reserve(5_000..10_001), Status::Success.code(), "most are here already");
        assert_eq!(memory.used(), 10_001 * 512);
        assert_eq!(
            reserve(20_000..70_000),
            Status::NoAvailableWorkingDir.code(),
            "it would be most of the memory"
        );
        assert_eq!(memory.used(), 10_001 * 512);
        let half = i32::try_from(memory.limit() / 2 / SLOT_BYTES).unwrap();
        for _ in 0..2 {
            // The answer was lost.
            assert_eq!(reserve(20_000..20_000 + half), Status::Success.code());
            assert_eq!(memory.used(), (10_001 + half as u64) * 512);
        }
        assert_eq!(reserve(20_000..70_000), Status::NoAvailableWorkingDir.code(), "some are here already");
        let key = ShuffleKey::new("app", 1);
        let shuffle = control.node.store.find(&key).unwrap();
        {
            let contents = shuffle.lock();
            let peers: HashSet<_> = contents
                .state
                .slots()
                .filter_map(|(file, _)| contents.state.peer(file).map(Arc::as_ptr))
                .collect();
            assert_eq!(peers.len(), 3, "one for each request");
        }
        destroy(&shuffle, files(vec![LocationId::new(0, 0), LocationId::new(77_000, 0)], Mode::Primary));
        assert_eq!(memory.used(), (10_000 + half as u64) * 512);
        drop(control.node.store.remove(&key));
        assert_eq!(memory.used(), 0, "whoever still has the shuffle");
    }
}
