//! A worker's process around its decisions: the real ones for each shuffle ([`Held`]), with modelled disks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::held::Held;
use super::message::{Driver, MasterAnswer, MasterCall, Party, Push, WorkerAnswer, WorkerCall};
use super::scene::Scene;
use super::tally::Event;
use crate::ids::{AttemptId, BatchId, FileName, MapId, Mode, ShuffleKey, WorkerId};
use crate::master::state::OrderBatch;
use crate::report::{Command, HeldShuffle, Phase, Registration, Report};
use crate::wire::Status;
use crate::worker::replicate::{Copied, combine};
use crate::worker::state::{Admission, Pressure, Refusal, Reservation, ReserveRefusal, ShuffleState, Slot};

/// Large enough that under memory pressure there are locations worth splitting.
pub const BATCH_BYTES: u32 = 24 << 20;
const LOCATIONS_MAX: usize = 1000;

const BEAT: Duration = Duration::from_secs(2);
const ANSWER_MAX: Duration = Duration::from_secs(4);
const WATCH_MAX: Duration = Duration::from_secs(12);
/// How long it waits for deletions before it asks for further orders.
const DELETION_WAIT: Duration = Duration::from_secs(1);
const COPY_MAX: Duration = Duration::from_secs(2);
const STOP_MAX: Duration = Duration::from_secs(10);
const DECOMMISSION_MAX: Duration = Duration::from_secs(40);

enum Asked {
    Registration,
    Beat,
    Watch,
}

/// A worker's connection to the master.
#[derive(Default)]
struct Conversation {
    connection: u64,
    registered: bool,
    seen: u64,
    /// Up to which order all will be carried out next, and what is still to be deleted for that.
    next: Option<(u64, Vec<ShuffleKey>)>,
    /// The last command, which is told again until it is confirmed, and the number with which it came.
    obeyed: (u64, Option<Command>),
    watch_due: Duration,
    beat_due: Duration,
    asked: BTreeMap<u64, (Duration, Asked)>,
}

/// A push whose replica is being written.
struct Copying {
    client: (u64, Party),
    own: Status,
    until: Duration,
}

/// A worker's process.
pub struct Worker {
    pub number: usize,
    pub id: WorkerId,
    pub up: bool,
    life: u64,
    pub phase: Phase,
    leave_by: Duration,
    pub stalled_until: Duration,
    pub pressure: Pressure,
    pub shuffles: BTreeMap<ShuffleKey, Held>,
    /// Removed shuffles, and until when their files exist.
    deleting: BTreeMap<ShuffleKey, (Duration, Held)>,
    /// One of its disks is dead: for as long as this process lives, no file there is deleted.
    disk_is_dead: bool,
    conversation: Conversation,
    copying: BTreeMap<u64, Copying>,
    back_at: Duration,
    /// The process that was told to stop last; its successor is not meant.
    pub stop_meant_for: u64,
    /// Copies that are gone, for whatever reason.
    pub lost: BTreeSet<(u64, FileName)>,
}

/// The number of the worker with this id.
pub fn number_of(id: &WorkerId) -> usize {
    id.host[1..].parse().expect("workers are called `w` and their number")
}

impl Worker {
    pub fn new(number: usize, scene: &mut Scene) -> Self {
        let life = scene.random.next() | 1;
        scene.worker_lives.push(life);
        Self {
            number,
            id: format!("w{number}:1:2:3:4").parse().expect("it is an id"),
            up: true,
            life,
            phase: Phase::Normal,
            leave_by: Duration::ZERO,
            stalled_until: Duration::ZERO,
            pressure: Pressure::default(),
            shuffles: BTreeMap::new(),
            deleting: BTreeMap::new(),
            disk_is_dead: false,
            conversation: Conversation::default(),
            copying: BTreeMap::new(),
            back_at: Duration::ZERO,
            stop_meant_for: 0,
            lost: BTreeSet::new(),
        }
    }

    fn pressure(&self) -> Pressure {
        Pressure { leaving: self.phase != Phase::Normal, ..self.pressure }
    }

    pub fn connection(&self) -> u64 {
        self.conversation.connection
    }

    // Its life.

    /// The process ends. Sealed data on disk comes back, unless the disk is lost as well.
    fn end(&mut self, scene: &mut Scene, disk_lost: bool) {
        self.up = false;
        self.life = 0;
        scene.worker_lives[self.number] = 0;
        scene.cut_link(self.conversation.connection);
        self.conversation = Conversation::default();
        self.copying.clear();
        self.back_at = scene.time + Duration::from_millis(500 + scene.random.next() % 20_000);
        // What was being deleted may still be there.
        let deleting = std::mem::take(&mut self.deleting).into_iter().map(|(key, (_, held))| (key, held));
        for (key, held) in std::mem::take(&mut self.shuffles).into_iter().chain(deleting) {
            let Held {
                job,
                state,
                mut copies,
                winners_on_disk,
                driver_on_disk,
                told_on_disk,
                uncommitted,
                ..
            } = held;
            let mut kept = Held { job, uncommitted, ..Held::default() };
            let mut slots: Vec<(FileName, Slot)> = state.slots().collect();
            slots.sort_unstable();
            for (file, slot) in slots {
                match copies.remove(&slot).filter(|copy| copy.seal_on_disk && !disk_lost) {
                    None => drop(self.lost.insert((job, file))),
                    Some(copy) => {
                        let slot = kept.state.restore(file, copy.index.bytes(), state.has_peer(file));
                        kept.copies.insert(slot, copy);
                    }
                }
            }
            // A shuffle without any complete location is deleted.
            if !kept.copies.is_empty() {
                kept.state.restore_winners(&winners_on_disk, driver_on_disk);
                kept.driver_on_disk = driver_on_disk;
                (kept.winners_on_disk, kept.told) = (winners_on_disk, told_on_disk.clone());
                kept.told_on_disk = told_on_disk;
                self.shuffles.insert(key, kept);
            }
        }
    }

    pub fn kill(&mut self, scene: &mut Scene) {
        if !self.up {
            return;
        }
        let disk_lost = scene.random.once_in(5);
        scene.count(if disk_lost { Event::DiskLost } else { Event::WorkerKilled });
        self.end(scene, disk_lost);
    }

    fn start(&mut self, scene: &mut Scene) {
        scene.count(Event::WorkerRestarted);
        self.life = scene.random.next() | 1;
        scene.worker_lives[self.number] = self.life;
        (self.up, self.phase, self.pressure) = (true, Phase::Normal, Pressure::default());
        self.disk_is_dead = false;
    }

    /// One of its disks dies.
    pub fn lose_a_disk(&mut self, scene: &mut Scene) {
        scene.count(Event::DiskDead);
        self.disk_is_dead = true;
    }

    /// Whether one of its disks is dead, and so its files stay.
    pub fn keeps_files(&self) -> bool {
        self.disk_is_dead || self.confirms_nothing()
    }

    /// Whether files that stay keep it from confirming orders.
    fn confirms_nothing(&self) -> bool {
        self.deleting.values().any(|(until, _)| *until == Duration::MAX)
    }

    /// Whether the master may have a reason for not granting it to a new shuffle of this number: it holds an earlier one, or
    /// may still be about to carry out an order that was dropped, which may have been about the number.
    pub fn may_be_denied(&self, again: &ShuffleKey) -> bool {
        self.shuffles.contains_key(again) || self.confirms_nothing()
    }

    /// What its timers do.
    pub fn tick(&mut self, scene: &mut Scene) {
        if !self.up {
            if scene.calm || scene.time >= self.back_at {
                self.start(scene);
            }
            return;
        }
        if scene.time < self.stalled_until {
            return;
        }
        self.lose_patience(scene);
        self.deleting.retain(|_, (until, _)| scene.time < *until);
        match self.phase {
            Phase::Normal => {}
            Phase::Stopping => {
                let open: usize = self.shuffles.values().map(|held| held.state.open_locations()).sum();
                let late = scene.time >= self.leave_by;
                if open == 0 || late {
                    if open > 0 {
                        scene.count(Event::StopTimedOut);
                    }
                    self.shuffles.values_mut().for_each(Held::seal_all);
                    self.shuffles.values_mut().for_each(Held::flush);
                    self.say_good_bye(scene, true);
                    self.end(scene, false);
                }
            }
            Phase::Decommissioning => {
                let late = scene.time >= self.leave_by;
                let is_empty = self.shuffles.is_empty() && self.deleting.is_empty();
                if is_empty || late {
                    if !is_empty {
                        scene.count(Event::LeftInHaste);
                    }
                    self.say_good_bye(scene, true);
                    // Gone for good: what comes back is another machine under its name.
                    self.end(scene, true);
                }
            }
        }
        if self.up {
            self.converse(scene);
        }
    }

    fn lose_patience(&mut self, scene: &mut Scene) {
        let late = |asked: &(Duration, Asked)| {
            let patience = if matches!(asked.1, Asked::Watch) { WATCH_MAX } else { ANSWER_MAX };
            scene.time >= asked.0 + patience
        };
        if self.conversation.asked.values().any(late) {
            self.cut(scene);
        }
        let now = scene.time;
        for (_, Copying { client, own, .. }) in self.copying.extract_if(.., |_, copy| now >= copy.until) {
            let copied = Copied::Failed(Status::PushDataTimeoutReplica, String::new());
            scene.answer_from_worker(client.0, client.1, WorkerAnswer::Pushed(combine(own, copied)));
        }
    }

    /// Its connection to the master ends, and it opens a new one.
    pub fn cut(&mut self, scene: &mut Scene) {
        scene.cut_link(self.conversation.connection);
        self.conversation = Conversation::default();
    }

    fn converse(&mut self, scene: &mut Scene) {
        let from = Party::Worker(self.number);
        if self.conversation.connection == 0 {
            self.conversation.connection = scene.number();
            let registration = Registration {
                push_ports: Vec::new(),
                worker: self.id.clone(),
                incarnation: self.life,
                http_port: 9096,
                network_location: String::new(),
                version: String::new(),
                report: self.report(),
            };
            let connection = self.conversation.connection;
            let call = scene.call_master(from, MasterCall::Register { connection, registration });
            self.conversation.asked.insert(call, (scene.time, Asked::Registration));
        }
        if !self.conversation.registered {
            return;
        }
        let (connection, worker, incarnation) = (self.conversation.connection, self.id.clone(), self.life);
        let is_asked = |asked: &Conversation, watch: bool| {
            asked.asked.values().any(|(_, what)| matches!(what, Asked::Watch) == watch)
        };
        if scene.time >= self.conversation.beat_due && !is_asked(&self.conversation, false) {
            self.conversation.beat_due = scene.time + BEAT;
            let report = self.report();
            let beat = MasterCall::Beat { connection, worker: worker.clone(), incarnation, report };
            let call = scene.call_master(from, beat);
            self.conversation.asked.insert(call, (scene.time, Asked::Beat));
        }
        if !is_asked(&self.conversation, true) && self.may_watch(scene.time) {
            let seen = self.conversation.seen;
            let call = scene.call_master(from, MasterCall::Watch { connection, worker, incarnation, seen });
            self.conversation.asked.insert(call, (scene.time, Asked::Watch));
        }
    }

    /// Whether it asks for orders now. They are confirmed when they are carried out; what a disk keeps holds up nobody.
    fn may_watch(&mut self, now: Duration) -> bool {
        let conversation = &mut self.conversation;
        let Some((number, left)) = &mut conversation.next else { return true };
        left.retain(|key| self.deleting.contains_key(key));
        if !left.is_empty() {
            return now >= conversation.watch_due;
        }
        conversation.seen = *number;
        conversation.next = None;
        if conversation.seen >= conversation.obeyed.0 {
            conversation.obeyed.1 = None;
        }
        true
    }

    fn report(&self) -> Report {
        let held = |(key, held): (&ShuffleKey, &Held)| HeldShuffle {
            shuffle: key.clone(),
            locations: held.state.len() as u64,
            bytes: held.copies.values().map(|copy| copy.index.bytes()).sum(),
        };
        let deleting = |key: &ShuffleKey| HeldShuffle { shuffle: key.clone(), locations: 0, bytes: 0 };
        Report {
            phase: self.phase,
            shuffles: self.shuffles.iter().map(held).chain(self.deleting.keys().map(deleting)).collect(),
            memory_limit_bytes: 1 << 40,
            saturated: self.pressure.exhausted || self.pressure.memory_tight,
            ..Report::default()
        }
    }

    fn say_good_bye(&self, scene: &mut Scene, gone: bool) {
        let (worker, incarnation, phase) = (self.id.clone(), self.life, self.phase);
        scene.call_master(Party::Worker(self.number), MasterCall::Leave { worker, incarnation, phase, gone });
    }

    /// The master's answer arrives. Returns the shuffles that are to be deleted.
    pub fn hear_master(&mut self, scene: &mut Scene, call: u64, answer: MasterAnswer) -> Vec<ShuffleKey> {
        let Some((_, asked)) = self.conversation.asked.remove(&call) else { return Vec::new() };
        match answer {
            MasterAnswer::Heard(Ok(())) => {
                self.conversation.registered |= matches!(asked, Asked::Registration);
                Vec::new()
            }
            MasterAnswer::Orders(Ok(orders)) => {
                let Some(OrderBatch { sequence, expired, command }) = orders else { return Vec::new() };
                let conversation = &mut self.conversation;
                let before = std::mem::replace(&mut conversation.obeyed, (sequence, command)).1;
                conversation.next.get_or_insert_with(|| (sequence, expired.clone()));
                conversation.watch_due = scene.time + DELETION_WAIT;
                if let Some(command) = command.filter(|_| command != before) {
                    self.obey(scene, command);
                }
                if self.up { expired } else { Vec::new() }
            }
            _ => {
                self.cut(scene); // the master does not know it any more: register again
                Vec::new()
            }
        }
    }

    fn obey(&mut self, scene: &mut Scene, command: Command) {
        if self.phase == Phase::Stopping && command != Command::StopNow {
            return; // it does nothing else any more
        }
        if matches!(command, Command::StopNow | Command::StopGracefully) {
            assert_eq!(self.life, self.stop_meant_for, "{} was told to stop in an earlier life", self.id);
        }
        match command {
            Command::StopNow => self.end(scene, false),
            Command::StopGracefully => {
                scene.count(Event::WorkerStops);
                (self.phase, self.leave_by) = (Phase::Stopping, scene.time + STOP_MAX);
                self.say_good_bye(scene, false);
            }
            Command::Decommission if self.phase == Phase::Decommissioning => {}
            Command::Decommission => {
                scene.count(Event::Decommissioned);
                (self.phase, self.leave_by) = (Phase::Decommissioning, scene.time + DECOMMISSION_MAX);
                self.say_good_bye(scene, false);
            }
            Command::Recommission => {
                scene.count(Event::Recommissioned);
                self.phase = Phase::Normal;
            }
        }
    }

    /// Deletes a shuffle, and returns its job if it was here. The disk may take some time.
    pub fn delete(&mut self, scene: &mut Scene, key: &ShuffleKey) -> Option<u64> {
        let held = self.shuffles.remove(key)?;
        let job = held.job;
        self.lost.extend(held.state.slots().map(|(file, _)| (job, file)));
        if self.disk_is_dead && scene.random.percent(20) {
            scene.count(Event::FilesStayed);
            self.deleting.insert(key.clone(), (Duration::MAX, held));
        } else if scene.fault(30) {
            let until = scene.time + Duration::from_millis(scene.random.next() % 3000);
            self.deleting.insert(key.clone(), (until, held));
        }
        Some(job)
    }

    // What clients and other workers ask for.

    pub fn handle(&mut self, scene: &mut Scene, call: u64, from: Party, what: WorkerCall) {
        let answer = match what {
            WorkerCall::Reserve { key, job, driver, reservations } => {
                let pressure = self.pressure();
                // Before the shuffle is created: a refused one would stay behind empty.
                let refused = ShuffleState::default().reserve(None, &[], pressure, LOCATIONS_MAX).err();
                let refused = refused.or(self.deleting.contains_key(&key).then_some(ReserveRefusal::NoSpace));
                WorkerAnswer::Reserved(match refused {
                    Some(refusal) => Err(refusal),
                    None => self.reserve(scene, key, job, driver, &reservations),
                })
            }
            WorkerCall::Destroy { key, files } => {
                if let Some(held) = self.shuffles.get_mut(&key) {
                    for slot in held.state.destroy(files.iter().copied()) {
                        held.copies.remove(&slot);
                    }
                    self.lost.extend(files.into_iter().map(|file| (held.job, file)));
                }
                WorkerAnswer::Destroyed
            }
            WorkerCall::Commit { key, commit } => {
                let held = self.shuffles.get_mut(&key);
                WorkerAnswer::Committed(held.map(|held| {
                    let outcome = held.commit(&commit);
                    if outcome.committed.iter().any(|file| held.uncommitted.remove(file)) {
                        scene.count(Event::CommittedLater);
                    }
                    outcome
                }))
            }
            WorkerCall::Push(push) => match self.append(&push) {
                Err(Refusal::HardSplit) => {
                    scene.count(Event::HardSplit);
                    WorkerAnswer::Pushed(Ok(Status::HardSplit))
                }
                Err(Refusal::MapEnded) => WorkerAnswer::Pushed(Ok(Status::MapEnded)),
                Err(Refusal::NotFound) => {
                    WorkerAnswer::Pushed(Err((Status::PushDataFailPartitionNotFound, String::new())))
                }
                Ok((soft_split, peer)) => {
                    let own = if soft_split { Status::SoftSplit } else { Status::Success };
                    if let Some(peer) = peer {
                        let copy = WorkerCall::Push(Push { mode: Mode::Replica, ..push });
                        let copy = scene.call_worker(Party::Worker(self.number), peer, copy);
                        let until = scene.time + COPY_MAX;
                        self.copying.insert(copy, Copying { client: (call, from), own, until });
                        return;
                    }
                    WorkerAnswer::Pushed(Ok(own))
                }
            },
        };
        scene.answer_from_worker(call, from, answer);
    }

    /// Another worker answers a replicated push.
    pub fn hear_worker(&mut self, scene: &mut Scene, call: u64, answer: WorkerAnswer) {
        let Some(Copying { client, own, .. }) = self.copying.remove(&call) else { return };
        let copied = match answer {
            WorkerAnswer::Pushed(Ok(status)) => Copied::Status(status),
            // As the worker that replicates passes on a failure.
            WorkerAnswer::Pushed(Err((_, text))) => {
                Copied::Failed(Status::PushDataFailNonCriticalCauseReplica, text)
            }
            _ => Copied::Failed(Status::PushDataCreateConnectionFailReplica, String::new()),
        };
        scene.answer_from_worker(client.0, client.1, WorkerAnswer::Pushed(combine(own, copied)));
    }

    fn reserve(
        &mut self,
        scene: &mut Scene,
        key: ShuffleKey,
        job: u64,
        driver: Driver,
        reservations: &[Reservation],
    ) -> Result<(), ReserveRefusal> {
        let pressure = self.pressure();
        let held = self.shuffles.entry(key.clone()).or_insert_with(|| Held { job, ..Held::default() });
        let is_earlier = held.job != job;
        assert!(
            !is_earlier || driver.may_meet_earlier,
            "{key} finds an earlier shuffle of its number on {}",
            self.id
        );
        let reserved = held.state.reserve(driver.id, reservations, pressure, LOCATIONS_MAX);
        match reserved {
            Ok(()) if is_earlier => {
                let is_used = held.state.slots().any(|(file, _)| held.state.is_sealed(file));
                assert!(
                    !is_used && held.copies.is_empty() && held.told.is_empty(),
                    "{key} is reserved among what {} has of an earlier life",
                    self.id
                );
                self.lost.extend(held.state.slots().map(|(file, _)| (held.job, file)));
                held.job = job;
            }
            Err(ReserveRefusal::Used(_) | ReserveRefusal::Begun | ReserveRefusal::OtherDriver)
                if is_earlier =>
            {
                scene.count(Event::EarlierLifeRefused);
            }
            _ => {}
        }
        reserved
    }

    /// Appends all batches of a push or none.
    fn append(&mut self, push: &Push) -> Result<(bool, Option<usize>), Refusal> {
        let pressure = self.pressure();
        let Some(held) = self.shuffles.get_mut(&push.key) else {
            return Err(if pressure.leaving { Refusal::HardSplit } else { Refusal::NotFound });
        };
        let file_of = |location| FileName { location, mode: push.mode };
        let mut admissions: Vec<Admission> = Vec::with_capacity(push.batches.len());
        for (batch, location) in &push.batches {
            let file = file_of(*location);
            let open = held.state.find(file).is_some() && !held.state.is_sealed(file);
            let admission = held.state.judge(file, MapId(batch.map), push.kind, pressure);
            match admission {
                Ok(admission) => {
                    assert!(
                        !pressure.leaving,
                        "{file} of {} takes batches while its worker leaves",
                        push.key
                    );
                    assert!(
                        !held.split.contains(&file),
                        "{file} of {} takes batches behind its split",
                        push.key
                    );
                    admissions.push(admission);
                }
                Err(refusal) => {
                    if open && !pressure.leaving && !pressure.exhausted {
                        held.split.insert(file);
                    }
                    return Err(refusal);
                }
            }
        }
        for ((batch, location), admission) in push.batches.iter().zip(&admissions) {
            held.state.appended(file_of(*location), BATCH_BYTES.into());
            let copy = held.copies.entry(admission.slot).or_default();
            let (map, attempt, number) = (MapId(batch.map), AttemptId(batch.attempt), BatchId(batch.number));
            copy.index.push(map, attempt, number, BATCH_BYTES);
        }
        let peer = push.batches.first().and_then(|(_, location)| held.state.peer(file_of(*location)));
        let peer = peer.map(|peer| peer.parse().expect("peers are named by number"));
        Ok((admissions.iter().any(|admission| admission.soft_split), peer))
    }

    /// Spills some batches, and seals a location that is completely on disk.
    pub fn spill(&mut self, scene: &mut Scene) {
        let keys: Vec<ShuffleKey> = self.shuffles.keys().cloned().collect();
        let Some(key) = scene.random.pick(&keys).filter(|_| self.up) else { return };
        let held = self.shuffles.get_mut(&key).expect("it was among the keys");
        let mut files: Vec<(Slot, FileName)> = held.state.slots().map(|(file, slot)| (slot, file)).collect();
        files.retain(|(slot, _)| held.copies.contains_key(slot));
        files.sort_unstable();
        if let Some((_, file)) = scene.random.pick(&files) {
            held.spill(file, 1 + scene.random.below(6));
        }
    }
}
