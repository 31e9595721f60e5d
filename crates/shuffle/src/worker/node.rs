//! What the listeners of a worker share.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio::time::Instant;
use yeoul_base::failpoint;
use yeoul_memory::Governor;

use super::memory::Party;
use super::meters::Meters;
use super::options::Options;
use super::peers::Peers;
use super::state::Pressure;
use super::store::Store;
use super::store::directory::DirectoryOptions;
use super::streams::Streams;
use crate::error::Result;
use crate::ids::{ShuffleKey, WorkerId};
use crate::report::Phase;
use crate::wire::WORKER_SHUFFLES_MAX;

/// With so many, others are to be chosen first: a worker that refuses a shuffle is left out by the driver for all of its own.
pub(super) const SHUFFLES_MANY: usize = WORKER_SHUFFLES_MAX / 10 * 9;

/// The parts of a worker that its listeners share.
pub struct Node {
    /// How it was started, with the ports for pushes that it took.
    pub options: Options,
    /// Who it is.
    pub id: WorkerId,
    /// Drawn at random when it started.
    pub incarnation: u64,
    /// What it keeps.
    pub store: Arc<Store>,
    /// What is read from it.
    pub streams: Streams,
    /// Its connections to other workers.
    pub peers: Peers,
    /// Wakes who reports to the master: something changed that it should know at once.
    pub news: Notify,
    /// What it counts.
    pub meters: Meters,
    /// When its log said last that large rows find no place.
    pub said_unwritable: Mutex<Option<Instant>>,
    phase: AtomicU8,
    registered: AtomicBool,
    appended: AtomicU64,
}

impl Node {
    /// A node without listeners, with what its directories held.
    ///
    /// # Errors
    /// A directory that cannot be used.
    pub fn open(options: Options, id: WorkerId, memory_bytes: u64) -> Result<Self> {
        let directories =
            DirectoryOptions { reserve_bytes: options.disk_reserve_bytes, ..DirectoryOptions::default() };
        let store = Store::open(&options.directories, memory_bytes, &directories)?;
        Ok(Self::over(options, id, store))
    }

    /// The same over a store.
    pub fn over(options: Options, id: WorkerId, store: Store) -> Self {
        for directory in store.directories() {
            let capacity = options.capacities.get(directory.root());
            capacity.into_iter().for_each(|bytes| directory.limit(*bytes));
        }
        store.recover().say();
        let incarnation = RandomState::new().hash_one(std::process::id());
        Self {
            options,
            id,
            incarnation,
            store: Arc::new(store),
            streams: Streams::new(incarnation),
            peers: Peers::default(),
            news: Notify::new(),
            meters: Meters::default(),
            said_unwritable: Mutex::default(),
            phase: AtomicU8::new(Phase::Normal as u8),
            registered: AtomicBool::new(false),
            appended: AtomicU64::new(0),
        }
    }

    /// Keeps the process below its memory limit for as long as the worker lives.
    pub async fn govern_memory(self: Arc<Self>) {
        let set_limit = |limit| {
            failpoint("worker-governor");
            self.store.set_memory_bytes(limit);
        };
        let governor = Governor::new(self.options.memory_bytes);
        governor.run(self.store.memory(), self.store.buffers(), set_limit).await;
    }

    /// Whether clients push to it there.
    pub fn has_push_port(&self, port: u16) -> bool {
        self.options.push_ports.contains(&port)
    }

    /// What it is doing.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            phase if phase == Phase::Stopping as u8 => Phase::Stopping,
            phase if phase == Phase::Decommissioning as u8 => Phase::Decommissioning,
            _ => Phase::Normal,
        }
    }

    /// Changes what it is doing. A worker that stops does nothing else any more.
    pub fn set_phase(&self, phase: Phase) {
        let change = |now| (now != Phase::Stopping as u8).then_some(phase as u8);
        // Refused only when it is stopping already.
        let _ = self.phase.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        self.news.notify_one();
    }

    /// Whether a master knows it.
    pub fn is_registered(&self) -> bool {
        self.registered.load(Ordering::Relaxed)
    }

    /// Takes in that a master knows it, or does not answer any more.
    pub fn set_registered(&self, registered: bool) {
        self.registered.store(registered, Ordering::Relaxed);
    }

    /// What decisions about a party's batches have to take into account.
    pub fn pressure(&self, party: &Party) -> Pressure {
        let level = self.store.memory().level_for(party);
        self.store.pressure(self.phase() != Phase::Normal, level, Some(party))
    }

    /// Whether masters are asked to prefer other workers, by the numbers of shuffles and connections that are here.
    pub fn is_saturated(&self, shuffles: usize, connections: usize) -> bool {
        let pressure = self.pressure_of_all();
        pressure.memory_tight
            || pressure.exhausted
            || shuffles >= SHUFFLES_MANY
            || self.options.active_connections_max.is_some_and(|max| connections >= max)
    }

    /// What the worker as a whole is going through.
    pub fn pressure_of_all(&self) -> Pressure {
        self.store.pressure(self.phase() != Phase::Normal, self.store.memory().level(), None)
    }

    /// Counts appended bytes.
    pub fn count_appended(&self, bytes: u64) {
        self.appended.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes appended since the start.
    pub fn appended(&self) -> u64 {
        self.appended.load(Ordering::Relaxed)
    }

    /// Forgets shuffles: their batches, their streams, their files. One that is not here costs next to nothing: the master
    /// repeats all of its orders until the last of them is carried out.
    pub fn expire_all(&self, keys: impl IntoIterator<Item = ShuffleKey>) {
        let mut applications = BTreeSet::new();
        for key in keys {
            if let Some(files) = self.store.remove(&key) {
                // Whoever opens a stream from here on sees that the shuffle is gone, and closes it.
                self.streams.remove_shuffle(&key);
                tracing::debug!(shuffle = %key, "deleted");
                self.store.delete(files);
            }
            applications.insert(key.application);
        }
        // One look for all of them: an application often lets thousands of shuffles go at once.
        if !applications.is_empty() {
            for shuffle in self.store.all() {
                applications.remove(&shuffle.key().application);
            }
        }
        applications.iter().for_each(|gone| self.peers.forget(gone));
    }

    /// Locations that still take batches.
    pub fn open_locations(&self) -> usize {
        self.store.all().iter().map(|shuffle| shuffle.lock().state.open_locations()).sum()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::ids::{AttemptId, BatchId, FileName, LocationId, MapId, Mode};
    use crate::report::Health;
    use crate::wire::batch::{BatchHeader, ByteOrder};
    use crate::worker::state::{Commit, Reservation, SplitPolicy};
    use crate::worker::store::shuffle::Shuffle;
    use crate::worker::streams;

    /// Who a test's node is.
    pub fn id() -> WorkerId {
        WorkerId { host: "h".into(), rpc_port: 1, push_port: 2, fetch_port: 3, replicate_port: 4 }
    }

    /// How it is started: with two directories.
    pub fn options(place: &tempfile::TempDir) -> Options {
        let directories = ["a", "b"].map(|name| place.path().join(name)).to_vec();
        let push_ports = vec![id().push_port];
        Options { directories, push_ports, disk_reserve_bytes: Some(0), ..Options::default() }
    }

    /// A node with 64 MiB, and whatever an earlier one left in its directories.
    pub fn node_with(options: Options) -> Arc<Node> {
        Arc::new(Node::open(options, id(), 64 << 20).unwrap())
    }

    /// The same, started as any other.
    pub fn node(place: &tempfile::TempDir) -> Arc<Node> {
        node_with(options(place))
    }

    /// A shuffle of the node with these locations, which have no other copy.
    pub fn reserved(node: &Node, key: &ShuffleKey, files: &[FileName]) -> Arc<Shuffle> {
        let shuffle = node.store.find_or_insert(key).unwrap();
        let alone = |file: &FileName| Reservation { file: *file, peer: None, split: SplitPolicy::default() };
        let wanted: Vec<_> = files.iter().map(alone).collect();
        shuffle.lock().state.reserve(None, &wanted, Pressure::default(), files.len()).unwrap();
        shuffle
    }

    /// Appends a batch of a map, four bytes behind its header, to a location that is reserved.
    pub fn append(shuffle: &Shuffle, file: FileName, map: MapId) {
        let header = BatchHeader { map, attempt: AttemptId(0), batch: BatchId(1), len: 4 };
        let mut batch = bytes::BytesMut::new();
        header.encode(ByteOrder::Little, &mut batch);
        batch.extend_from_slice(b"1234");
        let mut contents = shuffle.lock();
        let slot = contents.state.find(file).unwrap();
        contents.state.appended(file, batch.len() as u64);
        shuffle.grew(batch.len() as u64, 0);
        contents.copy_mut(slot, file).append(&header, batch.freeze());
    }

    /// A shuffle of the node with one primary, to which map 3 pushed a batch before it was committed.
    pub fn committed(node: &Node, key: &ShuffleKey, file: FileName) -> Arc<Shuffle> {
        let shuffle = reserved(node, key, &[file]);
        append(&shuffle, file, MapId(3));
        shuffle.lock().state.commit(&Commit { primaries: vec![file.location], ..Commit::default() });
        shuffle
    }

    /// While one deletion hangs, the master repeats all of its orders each second.
    #[tokio::test]
    async fn what_is_forgotten_costs_a_look_at_its_own_streams_and_none_if_it_is_not_here() {
        let place = tempfile::tempdir().unwrap();
        let node = node(&place);
        let [gone, other] = [1, 2].map(|shuffle| ShuffleKey::new("app", shuffle));
        let [first, second, others] = [&gone, &gone, &other].map(|key| streams::tests::open(&node, key, 0));
        node.expire_all((10..1010).map(|shuffle| ShuffleKey::new("app", shuffle)));
        assert_eq!((node.streams.looked_at(), node.streams.len()), (0, 3));
        node.expire_all([gone]);
        assert_eq!((node.streams.looked_at(), node.streams.len()), (2, 1));
        let open = [first, second, others].map(|number| node.streams.get(number, 0).is_ok());
        assert_eq!(open, [false, false, true]);
    }

    #[test]
    fn a_directory_has_the_capacity_that_it_was_given() {
        let place = tempfile::tempdir().unwrap();
        let capacities = [(options(&place).directories[1].clone(), 7)].into();
        let node = node_with(Options { capacities, ..options(&place) });
        let usable: Vec<u64> = node.store.directories().iter().map(|directory| directory.usable()).collect();
        assert!(usable[0] > 7 && usable[1] == 7, "{usable:?}");
    }

    #[tokio::test]
    async fn a_directory_whose_capacity_is_filled_by_what_is_there_is_full_at_once() {
        let place = tempfile::tempdir().unwrap();
        let before = node(&place);
        let file = FileName { location: LocationId::new(0, 0), mode: Mode::Primary };
        drop(committed(&before, &ShuffleKey::new("app", 1), file));
        assert!(before.store.flush().await.is_empty());
        drop(before);
        let directories = options(&place).directories;
        let capacities = directories.iter().map(|directory| (directory.clone(), 7)).collect();
        let node = node_with(Options { capacities, ..options(&place) });
        let mut health: Vec<_> =
            node.store.directories().iter().map(|at| (at.usable(), at.health())).collect();
        health.sort_unstable_by_key(|(usable, _)| *usable);
        assert_eq!(health, [(0, Health::Full), (7, Health::Healthy)], "one of them has the batch");
    }

    #[test]
    fn connections_of_an_application_stay_while_anything_of_it_is_left() {
        let place = tempfile::tempdir().unwrap();
        let node = node(&place);
        let keys = |name: &str| [0, 1].map(|shuffle| ShuffleKey::new(name, shuffle));
        let [whole, half, other] = ["whole", "half", "other"].map(keys);
        for key in [&whole, &half, &other].into_iter().flatten() {
            reserved(&node, key, &[]);
            node.peers.of(&key.application);
        }
        let unknown = ShuffleKey::new("unknown", 0);
        node.expire_all([whole[0].clone(), half[1].clone(), unknown, whole[1].clone()]);
        let mut left: Vec<ShuffleKey> = node.store.all().iter().map(|held| held.key().clone()).collect();
        left.sort_unstable();
        assert_eq!(left, [half[0].clone(), other[0].clone(), other[1].clone()]);
        let connected = [whole, half, other].map(|keys| node.peers.has(&keys[0].application));
        assert_eq!(connected, [false, true, true]);
    }
}
