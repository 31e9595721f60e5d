//! Goal: whatever a network and machines do, every batch of a winning attempt is read exactly once, or a loss is reported.
//! Method: drivers, map tasks and readers written from the protocol's rules talk to the workers' decision layer over a
//! network that loses, doubles and reorders messages, while workers spill, crash and come back with what was on disk. A
//! seed replays a run.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::index::{Index, MapRange};
use super::replicate::{Copied, combine};
use super::state::{
    Commit, CommitOutcome, Pressure, PushKind, Refusal, Reservation, ShuffleState, Slot, SplitMode,
    SplitPolicy,
};
use crate::ids::{AttemptId, BatchId, FileName, LocationId, MapId, Mode};
use crate::wire::Status;

const WORKERS: usize = 3;
const PARTITIONS: i32 = 3;
const MAPS: i32 = 3;
const BATCHES: i32 = 4;
const BATCH_BYTES: u32 = 100;

/// SplitMix64: a sequence that a seed repeats.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.next() % 100 < chance
    }
}

/// The faults that happened: a run without them has tested nothing.
#[derive(Debug, Default, Clone, Copy)]
struct Faults {
    lost: u64,
    doubled: u64,
    reordered: u64,
    crashed: u64,
    restarted: u64,
    refused: u64,
    slow: u64,
    speculative: u64,
    losses: u64,
}

impl Faults {
    /// All but the reordered messages, which are every second one.
    fn total(&self) -> u64 {
        let network = self.lost + self.doubled;
        let machines = self.crashed + self.restarted + self.refused + self.slow;
        network + machines + self.speculative
    }

    fn add(&mut self, other: &Self) {
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.reordered += other.reordered;
        self.crashed += other.crashed;
        self.restarted += other.restarted;
        self.refused += other.refused;
        self.slow += other.slow;
        self.speculative += other.speculative;
        self.losses += other.losses;
    }
}

/// A copy of a location: its batches, and how many of them, from the front, are on disk.
#[derive(Default)]
struct Copy {
    index: Index,
    on_disk: usize,
    seal_on_disk: bool,
}

/// A worker: the real decisions and the real index, without files.
#[derive(Default)]
struct Worker {
    down: bool,
    pressure: Pressure,
    state: ShuffleState,
    copies: HashMap<Slot, Copy>,
    peers: HashMap<FileName, usize>,
    winners_on_disk: Vec<AttemptId>,
}

type Key = (i32, i32, i32);

/// A batch: who wrote it, and for which partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Batch {
    map: i32,
    attempt: i32,
    number: i32,
    partition: i32,
}

impl Batch {
    fn key(&self) -> Key {
        (self.map, self.attempt, self.number)
    }
}

#[derive(Debug, Clone)]
enum Message {
    Push { batch: Batch, to: usize, location: LocationId },
    Copy { batch: Batch, from: usize, to: usize, location: LocationId, own: Status },
    Copied { batch: Batch, location: LocationId, own: Status, copied: Copied },
    Pushed { batch: Batch, location: LocationId, answer: Option<Status> },
    Commit { to: usize, commit: Commit },
    Committed { from: usize, outcome: Option<CommitOutcome>, commit: Commit },
}

struct Place {
    primary: usize,
    replica: Option<usize>,
}

struct World {
    random: Random,
    faults: Faults,
    replicated: bool,
    workers: Vec<Worker>,
    network: Vec<Message>,
    places: BTreeMap<LocationId, Place>,
    newest: BTreeMap<i32, LocationId>,
    /// Batches that a task still has to bring home, and whether a push of it is under way.
    waiting: BTreeMap<Batch, bool>,
    attempts: BTreeSet<(i32, i32)>,
    winners: Vec<i32>,
    committed: BTreeMap<FileName, usize>,
    failed: HashSet<FileName>,
    commits_waiting: BTreeMap<i64, (usize, Commit)>,
    next_commit: i64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let replicated = random.percent(50);
        let mut world = Self {
            random,
            faults: Faults::default(),
            replicated,
            workers: (0..WORKERS).map(|_| Worker::default()).collect(),
            network: Vec::new(),
            places: BTreeMap::new(),
            newest: BTreeMap::new(),
            waiting: BTreeMap::new(),
            attempts: BTreeSet::new(),
            winners: vec![-1; MAPS as usize],
            committed: BTreeMap::new(),
            failed: HashSet::new(),
            commits_waiting: BTreeMap::new(),
            next_commit: 1,
        };
        for partition in 0..PARTITIONS {
            world.locate(partition, 0);
        }
        for map in 0..MAPS {
            world.start_attempt(map, 0);
        }
        world
    }

    fn start_attempt(&mut self, map: i32, attempt: i32) {
        self.attempts.insert((map, attempt));
        for number in 1..=BATCHES {
            let partition = (map + number) % PARTITIONS;
            self.waiting.insert(Batch { map, attempt, number, partition }, false);
        }
    }

    /// The driver reserves a location; it tries workers until one takes it.
    fn locate(&mut self, partition: i32, epoch: i32) {
        let location = LocationId::new(partition, epoch);
        let mut tries = 0;
        let mut reserve = |world: &mut Self, mode, peer: Option<usize>, not: Option<usize>| loop {
            tries += 1;
            let worker = world.random.below(WORKERS);
            if tries > 200 {
                // Everything is down: someone comes back.
                let down = (0..WORKERS).find(|worker| world.workers[*worker].down && Some(*worker) != not);
                if let Some(down) = down {
                    world.restart(down);
                }
                world.workers.iter_mut().for_each(|worker| worker.pressure = Pressure::default());
                tries = 0;
            }
            if Some(worker) == not || world.workers[worker].down {
                continue;
            }
            let mode_of_split = if world.random.percent(50) { SplitMode::Hard } else { SplitMode::Soft };
            let threshold_bytes = 100 + world.random.next() % 400;
            let split = SplitPolicy { enabled: true, threshold_bytes, mode: mode_of_split, hard_bytes: 800 };
            let file = FileName { location, mode };
            let wanted = Reservation { file, peer: peer.map(|peer| peer.to_string().into()), split };
            let Worker { state, pressure, peers, .. } = &mut world.workers[worker];
            if state.reserve(&[wanted], *pressure, 1000).is_ok() {
                if let Some(peer) = peer {
                    peers.insert(file, peer);
                }
                return worker;
            }
            world.faults.refused += 1;
        };
        let replica = self.replicated.then(|| reserve(self, Mode::Replica, None, None));
        let primary = reserve(self, Mode::Primary, replica, replica);
        self.places.insert(location, Place { primary, replica });
        self.newest.insert(partition, location);
    }

    /// A task or the driver asks for another location than `old`.
    fn revive(&mut self, old: LocationId) {
        if self.newest[&old.partition.0] == old {
            self.locate(old.partition.0, old.epoch.0 + 1);
        }
    }

    fn send(&mut self, message: Message) {
        if self.random.percent(6) {
            self.faults.lost += 1;
            return;
        }
        if self.random.percent(5) {
            self.faults.doubled += 1;
            self.network.push(message.clone());
        }
        self.network.push(message);
    }

    /// Appends at a worker what the real one would.
    fn append(
        &mut self,
        worker: usize,
        batch: Batch,
        location: LocationId,
        mode: Mode,
    ) -> Result<Status, Refusal> {
        let kind = if batch.number % 2 == 0 { PushKind::Merged } else { PushKind::Single };
        let file = FileName { location, mode };
        let Worker { state, pressure, copies, .. } = &mut self.workers[worker];
        let admission = state.judge(file, MapId(batch.map), kind, *pressure)?;
        state.appended(admission.slot, BATCH_BYTES.into());
        let copy = copies.entry(admission.slot).or_default();
        copy.index.push(MapId(batch.map), AttemptId(batch.attempt), BatchId(batch.number), BATCH_BYTES);
        Ok(if admission.soft_split { Status::SoftSplit } else { Status::Success })
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Push { batch, to, location } if !self.workers[to].down => {
                let file = FileName { location, mode: Mode::Primary };
                let answer = match self.append(to, batch, location, Mode::Primary) {
                    Ok(own) => match self.workers[to].peers.get(&file).copied() {
                        Some(peer) => {
                            return self.send(Message::Copy { batch, from: to, to: peer, location, own });
                        }
                        None => Some(own),
                    },
                    Err(Refusal::HardSplit) => Some(Status::HardSplit),
                    Err(Refusal::MapEnded) => Some(Status::MapEnded),
                    Err(Refusal::NotFound) => None,
                };
                self.send(Message::Pushed { batch, location, answer });
            }
            Message::Copy { batch, from, to, location, own } => {
                let copied = if self.workers[to].down {
                    Copied::Failed(Status::PushDataConnectionExceptionReplica, String::new())
                } else {
                    match self.append(to, batch, location, Mode::Replica) {
                        Ok(status) => Copied::Status(status),
                        Err(Refusal::HardSplit) => Copied::Status(Status::HardSplit),
                        Err(Refusal::MapEnded) => Copied::Status(Status::MapEnded),
                        Err(Refusal::NotFound) => {
                            Copied::Failed(Status::PushDataFailNonCriticalCauseReplica, String::new())
                        }
                    }
                };
                if !self.workers[from].down {
                    self.send(Message::Copied { batch, location, own, copied });
                }
            }
            Message::Copied { batch, location, own, copied } => {
                let answer = combine(own, copied).ok();
                self.send(Message::Pushed { batch, location, answer });
            }
            Message::Pushed { batch, location, answer } => self.pushed(batch, location, answer),
            Message::Commit { to, commit } if !self.workers[to].down => {
                let worker = &mut self.workers[to];
                // A worker that lost the whole shuffle says so for every location.
                let outcome = (!worker.state.is_empty()).then(|| worker.state.commit(&commit));
                self.send(Message::Committed { from: to, outcome, commit });
            }
            Message::Committed { from, outcome, commit } => self.committed(from, outcome, &commit),
            Message::Push { .. } | Message::Commit { .. } => {} // to a worker that is down
        }
    }

    fn pushed(&mut self, batch: Batch, location: LocationId, answer: Option<Status>) {
        if !self.waiting.contains_key(&batch) {
            return; // an answer to something that has long been answered
        }
        match answer {
            Some(Status::Success) => drop(self.waiting.remove(&batch)),
            Some(Status::SoftSplit) => {
                self.waiting.remove(&batch);
                self.revive(location);
            }
            Some(Status::MapEnded) => {
                let winner = self.winners[batch.map as usize];
                assert!(winner >= 0, "told that map {} has ended, which it has not", batch.map);
                assert!(winner != batch.attempt, "a batch that the winner was still waiting for was dropped");
                self.waiting.remove(&batch);
            }
            _ => {
                self.waiting.insert(batch, false);
                self.revive(location);
            }
        }
        let task = (batch.map, batch.attempt);
        let done = !self.waiting.keys().any(|waiting| (waiting.map, waiting.attempt) == task);
        if done && self.attempts.remove(&task) && self.winners[batch.map as usize] < 0 {
            self.winners[batch.map as usize] = batch.attempt;
        }
    }

    fn committed(&mut self, from: usize, outcome: Option<CommitOutcome>, commit: &Commit) {
        if self.commits_waiting.remove(&commit.epoch).is_none() {
            return;
        }
        match outcome {
            None => self.failed.extend(commit.files()),
            Some(outcome) => {
                self.failed.extend(outcome.failed);
                self.committed.extend(outcome.committed.into_iter().map(|file| (file, from)));
            }
        }
    }

    fn commit(&mut self, only_old: bool) {
        let mut of_worker: BTreeMap<usize, Commit> = BTreeMap::new();
        for (location, place) in &self.places {
            if only_old && self.newest[&location.partition.0] == *location {
                continue;
            }
            of_worker.entry(place.primary).or_default().primaries.push(*location);
            if let Some(replica) = place.replica {
                of_worker.entry(replica).or_default().replicas.push(*location);
            }
        }
        for (worker, mut commit) in of_worker {
            let asked = |file: &FileName| self.committed.contains_key(file) || self.failed.contains(file);
            commit
                .primaries
                .retain(|location| !asked(&FileName { location: *location, mode: Mode::Primary }));
            commit.replicas.retain(|location| !asked(&FileName { location: *location, mode: Mode::Replica }));
            commit.attempts = self.winners.iter().copied().map(AttemptId).collect();
            commit.epoch = self.next_commit;
            self.next_commit += 1;
            self.commits_waiting.insert(commit.epoch, (worker, commit.clone()));
            self.send(Message::Commit { to: worker, commit });
        }
    }

    fn crash(&mut self, worker: usize) {
        self.faults.crashed += 1;
        let crashed = &mut self.workers[worker];
        crashed.down = true;
        let copies = std::mem::take(&mut crashed.copies);
        let kept = copies.into_iter().filter_map(|(slot, copy)| {
            let file = crashed.state.slots().find(|(_, of)| *of == slot)?.0;
            copy.seal_on_disk.then_some((file, copy))
        });
        let kept: Vec<_> = kept.collect();
        crashed.state = ShuffleState::default();
        crashed.peers.clear();
        for (file, copy) in kept {
            let slot = crashed.state.restore(file, copy.index.bytes());
            crashed.copies.insert(slot, copy);
        }
        if !crashed.copies.is_empty() {
            crashed.state.restore_winners(&crashed.winners_on_disk.clone());
        }
    }

    fn restart(&mut self, worker: usize) {
        self.faults.restarted += 1;
        self.workers[worker].down = false;
        self.workers[worker].pressure = Pressure::default();
    }

    /// Moves some batches to disk, and the seal of a location that is wholly there.
    fn spill(&mut self, worker: usize) {
        let pick = self.random.next();
        let Worker { down, state, copies, winners_on_disk, .. } = &mut self.workers[worker];
        let mut slots: Vec<Slot> = copies.keys().copied().collect();
        slots.sort_unstable();
        let Some(slot) = slots.get(pick as usize % slots.len().max(1)).filter(|_| !*down) else { return };
        let Some(copy) = copies.get_mut(slot) else { return };
        copy.on_disk = (copy.on_disk + pick as usize % 5).min(copy.index.entries().len());
        if copy.on_disk == copy.index.entries().len() && state.is_sealed(*slot) {
            copy.seal_on_disk = true;
            *winners_on_disk = state.winners().attempts().to_vec();
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..60 if !self.network.is_empty() => {
                let at = self.random.below(self.network.len());
                self.faults.reordered += u64::from(at > 0);
                let message = self.network.remove(at);
                self.deliver(message);
            }
            60..64 => {
                let worker = self.random.below(WORKERS);
                self.spill(worker);
            }
            64 if self.random.percent(40) => {
                let worker = self.random.below(WORKERS);
                if !self.workers[worker].down {
                    self.crash(worker);
                }
            }
            65..68 => {
                let worker = self.random.below(WORKERS);
                if self.workers[worker].down {
                    self.restart(worker);
                }
            }
            68 => {
                let worker = self.random.below(WORKERS);
                let exhausted = self.random.percent(30);
                self.faults.slow += u64::from(exhausted);
                self.workers[worker].pressure = Pressure { exhausted, ..Pressure::default() };
            }
            69 if self.random.percent(30) => {
                let map = self.random.below(MAPS as usize) as i32;
                let attempt = 1 + self.random.below(3) as i32;
                if self.winners[map as usize] < 0 && !self.attempts.contains(&(map, attempt)) {
                    self.faults.speculative += 1;
                    self.start_attempt(map, attempt);
                }
            }
            70 if self.random.percent(30) => self.commit(true),
            // A task pushes what is not under way, or loses patience with what is.
            _ => {
                let patience = self.random.percent(15);
                let pending: Vec<Batch> = self
                    .waiting
                    .iter()
                    .filter(|(_, under_way)| !**under_way || patience)
                    .map(|(batch, _)| *batch)
                    .collect();
                let Some(batch) = pending.get(self.random.below(pending.len().max(1))).copied() else {
                    return;
                };
                let location = self.newest[&batch.partition];
                if self.waiting.insert(batch, true) == Some(true) {
                    self.revive(location); // no answer: the task asks for another location
                }
                let location = self.newest[&batch.partition];
                let to = self.places[&location].primary;
                self.send(Message::Push { batch, to, location });
            }
        }
    }

    /// Every map has a winner: the driver commits, again and again until every worker has answered or is given up.
    fn end_stage(&mut self) {
        self.commit(false);
        for _ in 0..30 {
            for _ in 0..60 {
                self.step();
            }
            for (worker, commit) in self.commits_waiting.clone().into_values() {
                self.send(Message::Commit { to: worker, commit });
            }
            if self.commits_waiting.is_empty() {
                break;
            }
        }
        for (_, commit) in std::mem::take(&mut self.commits_waiting).into_values() {
            self.failed.extend(commit.files());
        }
    }

    /// Reads every partition as a JVM client does; `None` if a loss has to be reported.
    fn read(&mut self) -> Option<BTreeMap<i32, Vec<Key>>> {
        let mut read: BTreeMap<i32, Vec<Key>> = BTreeMap::new();
        for (location, place) in &self.places {
            let copies =
                [Some((Mode::Primary, place.primary)), place.replica.map(|replica| (Mode::Replica, replica))];
            let copies = copies
                .into_iter()
                .flatten()
                .map(|(mode, worker)| (FileName { location: *location, mode }, worker));
            let copies: Vec<_> = copies.collect();
            let committed: Vec<_> =
                copies.iter().filter(|(file, _)| self.committed.contains_key(file)).collect();
            if committed.is_empty() {
                if copies.iter().all(|(file, _)| self.failed.contains(file)) {
                    return None; // no copy is left of what may have had data
                }
                continue; // empty everywhere
            }
            let found = committed.iter().find_map(|(file, worker)| {
                let worker = &self.workers[*worker];
                let slot = worker.state.find(*file).filter(|_| !worker.down)?;
                assert!(worker.state.is_sealed(slot), "committed, but still open");
                Some((worker, worker.copies.get(&slot)?))
            })?;
            let (worker, copy) = found;
            let repeated = copy.index.repeated();
            let selection = copy.index.select(MapRange::Whole, worker.state.winners(), &repeated);
            let batches: Vec<Key> = copy
                .index
                .cut(&selection, 250)
                .iter()
                .flat_map(|chunk| chunk.first..chunk.end)
                .map(|position| copy.index.entries()[selection.entry(position) as usize])
                .map(|entry| (entry.map.0, entry.attempt.0, entry.batch.0))
                .collect();
            let once: BTreeSet<Key> = batches.iter().copied().collect();
            assert_eq!(once.len(), batches.len(), "a copy gives a batch twice");
            read.entry(location.partition.0).or_default().extend(batches);
        }
        Some(read)
    }

    fn check(&mut self) {
        let Some(read) = self.read() else {
            self.faults.losses += 1;
            // One crash can do it even with replicas: a primary that alone has a batch, which nobody was told is safe, is
            // committed, and its reader cannot know that nothing in it is needed.
            assert!(self.faults.crashed > 0, "a loss although no worker crashed");
            return;
        };
        for partition in 0..PARTITIONS {
            // What the client does itself: the winners' batches, each once over all locations.
            let winners = &self.winners;
            let found: BTreeSet<Key> = read
                .get(&partition)
                .into_iter()
                .flatten()
                .copied()
                .filter(|(map, attempt, _)| winners[*map as usize] == *attempt)
                .collect();
            let expected: BTreeSet<Key> = (0..MAPS)
                .flat_map(|map| (1..=BATCHES).map(move |number| (map, number)))
                .filter(|(map, number)| (map + number) % PARTITIONS == partition)
                .map(|(map, number)| Batch { map, attempt: winners[map as usize], number, partition }.key())
                .collect();
            assert_eq!(found, expected, "partition {partition}");
        }
    }
}

fn run(seed: u64) -> Faults {
    let mut world = World::new(seed);
    let mut steps = 0;
    while world.winners.iter().any(|winner| *winner < 0) {
        world.step();
        steps += 1;
        assert!(steps < 200_000, "the stage does not come to an end");
    }
    world.end_stage();
    world.check();
    world.faults
}

/// A million faults; a failing seed is named by the panic.
#[test]
fn every_batch_is_read_once_or_the_loss_is_reported() {
    let mut faults = Faults::default();
    let mut seed = 0;
    while faults.total() < 1_000_000 {
        let result = std::panic::catch_unwind(|| run(seed));
        match result {
            Ok(found) => faults.add(&found),
            Err(_) => panic!("seed {seed}"),
        }
        seed += 1;
    }
    let Faults { lost, doubled, reordered, crashed, restarted, refused, slow, speculative, losses } = faults;
    println!("{seed} runs, {faults:?}");
    for (what, count) in [
        ("lost", lost),
        ("doubled", doubled),
        ("reordered", reordered),
        ("crashed", crashed),
        ("restarted", restarted),
        ("refused", refused),
        ("slow", slow),
        ("speculative", speculative),
    ] {
        assert!(count > 1000, "only {count} {what}");
    }
    assert!(losses > 0 && losses < seed / 2, "{losses} of {seed} runs lost data");
}
