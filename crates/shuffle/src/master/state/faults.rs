//! Goal: whatever is lost, delayed, doubled or restarted, no worker is told to delete data that an application still
//! needs, and every worker is told in the end to delete what nobody needs.
//!
//! Method: a world of applications and workers around a [`State`], driven by a seed. The model is the application's own
//! view: a shuffle is needed from its grant until the application unregisters it, ends, or falls silent.

use std::collections::{BTreeMap, BTreeSet};

use super::super::report::{HeldShuffle, Phase, Registration};
use super::super::slots::SplitMix;
use super::*;
use crate::ids::PartitionId;

/// A number from the environment, so that a long run needs no rebuild.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[derive(Debug)]
struct ModelApplication {
    needed: BTreeSet<i32>,
    ended: bool,
    silent_since: Option<Duration>,
    heard: Duration,
    next_shuffle: i32,
}

#[derive(Debug)]
struct ModelWorker {
    id: WorkerId,
    incarnation: u64,
    holds: BTreeSet<ShuffleKey>,
    registered: bool,
    connection: u64,
    seen: u64,
}

/// What is under way and arrives later, perhaps twice or never.
#[derive(Debug, Clone)]
enum Message {
    Reserve { worker: usize, incarnation: u64, shuffle: ShuffleKey },
    Heartbeat { worker: usize, incarnation: u64, report: Report },
    Delete { worker: usize, incarnation: u64, shuffles: Vec<ShuffleKey>, seen: u64 },
    Unregister { shuffle: ShuffleKey },
}

struct World {
    random: SplitMix,
    state: State,
    journal: Vec<Record>,
    time: Duration,
    applications: BTreeMap<ApplicationId, ModelApplication>,
    workers: Vec<ModelWorker>,
    mail: Vec<Message>,
    connections: u64,
    faults: u64,
    deletions: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix(seed);
        let workers = (0..2 + random.next() % 5)
            .map(|number| ModelWorker {
                id: format!("worker-{number}:1:2:3:4").parse().unwrap(),
                incarnation: random.next(),
                holds: BTreeSet::new(),
                registered: false,
                connection: 0,
                seen: 0,
            })
            .collect();
        Self {
            random,
            state: State::new(Limits::default()),
            journal: Vec::new(),
            time: Duration::from_secs(1000),
            applications: BTreeMap::new(),
            workers,
            mail: Vec::new(),
            connections: 0,
            faults: 0,
            deletions: 0,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.random.next() % bound as u64) as usize
    }

    fn now(&self) -> Now {
        Now { monotonic: self.time, unix_ms: 1_000_000 + self.time.as_millis() as u64 }
    }

    fn keep<T>(&mut self, decision: Decision<T>) -> T {
        self.journal.extend(decision.records);
        decision.reply
    }

    fn is_needed(&self, shuffle: &ShuffleKey) -> bool {
        let Some(application) = self.applications.get(&shuffle.application) else { return false };
        !application.ended && application.needed.contains(&shuffle.shuffle.0)
    }

    /// Whoever was silent for the timeout has ended, whatever happens to the master's memory of it.
    fn end_silent(&mut self) {
        let (time, timeout) = (self.time, self.state.limits().application_timeout);
        for application in self.applications.values_mut() {
            application.ended |= application.silent_since.is_some_and(|since| time >= since + timeout);
        }
    }

    /// The invariant.
    fn delete(&mut self, worker: usize, shuffles: &[ShuffleKey]) {
        for shuffle in shuffles {
            assert!(!self.is_needed(shuffle), "told to delete {shuffle}, which its application needs");
            self.deletions += 1;
            self.workers[worker].holds.remove(shuffle);
        }
    }

    fn report(&self, worker: usize) -> Report {
        let held = |shuffle: &ShuffleKey| HeldShuffle { shuffle: shuffle.clone(), locations: 1, bytes: 1 };
        let shuffles = self.workers[worker].holds.iter().map(held).collect();
        Report { shuffles, memory_limit_bytes: 1 << 30, ..Report::default() }
    }

    fn register(&mut self, worker: usize) {
        self.connections += 1;
        let connection = self.connections;
        let report = self.report(worker);
        let member = &mut self.workers[worker];
        (member.connection, member.registered) = (connection, true);
        let registration = Registration {
            worker: member.id.clone(),
            incarnation: member.incarnation,
            http_port: 9096,
            network_location: String::new(),
            version: String::new(),
            report,
        };
        let decision = self.state.register_worker(self.now(), connection, registration);
        let expired = self.keep(decision).expect("far below the limit on workers");
        self.delete(worker, &expired);
    }

    fn watch(&mut self, worker: usize) {
        let member = &self.workers[worker];
        let (incarnation, seen) = (member.incarnation, member.seen);
        match self.state.worker_orders(&member.id.clone(), incarnation, seen) {
            Err(Unregistered) => self.register(worker),
            Ok(None) => {}
            Ok(Some(batch)) => {
                let (shuffles, seen) = (batch.expired, batch.sequence);
                self.mail.push(Message::Delete { worker, incarnation, shuffles, seen });
            }
        }
    }

    fn some_application(&mut self) -> Option<ApplicationId> {
        let alive: Vec<ApplicationId> = self
            .applications
            .iter()
            .filter(|(_, application)| !application.ended && application.silent_since.is_none())
            .map(|(id, _)| id.clone())
            .collect();
        if alive.is_empty() { None } else { Some(alive[self.below(alive.len())].clone()) }
    }

    fn pulse(&mut self, application: &ApplicationId) {
        let pulse = ApplicationPulse {
            application: application.clone(),
            bytes_written: 1,
            files_written: 1,
            workers: self.workers.iter().map(|worker| worker.id.clone()).collect(),
        };
        let decision = self.state.application_heartbeat(self.now(), pulse);
        self.keep(decision).expect("far below the limit on applications");
        let time = self.time;
        self.applications.get_mut(application).unwrap().heard = time;
    }

    fn register_shuffle(&mut self, application: ApplicationId) {
        let model = self.applications.get_mut(&application).unwrap();
        let again = !model.needed.is_empty() && self.random.next().is_multiple_of(4);
        let shuffle = if again {
            *model.needed.first().unwrap()
        } else {
            model.next_shuffle += 1;
            model.next_shuffle
        };
        let count = 1 + self.below(40) as i32;
        let request = SlotRequest {
            application: application.clone(),
            shuffle: ShuffleId(shuffle),
            partitions: (0..count).map(PartitionId).collect(),
            replicate: self.random.next().is_multiple_of(2),
            rack_aware: false,
            workers_max: 0,
            excluded: BTreeSet::new(),
            driver: String::new(),
        };
        let (now, random) = (self.now(), self.random.next());
        let replicate = request.replicate;
        let decision = self.state.request_slots(now, random, request);
        let Ok(grant) = self.keep(decision) else { return };
        let mut partitions: Vec<i32> = grant.placements.iter().map(|(partition, _, _)| partition.0).collect();
        partitions.sort_unstable();
        assert_eq!(partitions, (0..count).collect::<Vec<_>>());
        let model = self.applications.get_mut(&application).unwrap();
        model.needed.insert(shuffle);
        model.heard = now.monotonic;
        let mut used = BTreeSet::new();
        for (_, primary, replica) in &grant.placements {
            assert_eq!(replica.is_some(), replicate);
            assert_ne!(Some(*primary), *replica);
            used.extend(std::iter::once(*primary).chain(*replica));
        }
        for index in used {
            let worker = self.workers.iter().position(|w| w.id == grant.workers[index].0).unwrap();
            let incarnation = self.workers[worker].incarnation;
            let shuffle = ShuffleKey::new(application.clone(), shuffle);
            self.mail.push(Message::Reserve { worker, incarnation, shuffle });
        }
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Reserve { worker, incarnation, shuffle } => {
                if self.workers[worker].incarnation == incarnation {
                    self.workers[worker].holds.insert(shuffle);
                }
            }
            Message::Heartbeat { worker, incarnation, report } => {
                let (id, connection) = (self.workers[worker].id.clone(), self.workers[worker].connection);
                let decision = self.state.worker_heartbeat(self.now(), connection, &id, incarnation, report);
                match self.keep(decision) {
                    Ok(shuffles) => {
                        let seen = self.workers[worker].seen;
                        self.mail.push(Message::Delete { worker, incarnation, shuffles, seen });
                    }
                    Err(Unregistered) => self.workers[worker].registered = false,
                }
            }
            Message::Delete { worker, incarnation, shuffles, seen } => {
                if self.workers[worker].incarnation == incarnation {
                    self.delete(worker, &shuffles);
                    self.workers[worker].seen = seen;
                }
            }
            Message::Unregister { shuffle } => {
                let decision =
                    self.state.unregister_shuffles(self.now(), &shuffle.application, &[shuffle.shuffle]);
                self.keep(decision);
            }
        }
    }

    fn restart_master(&mut self) {
        self.faults += 1;
        self.state = State::new(Limits::default());
        let now = self.now();
        if self.random.next().is_multiple_of(4) {
            // The machine lost its power: what the journal had not brought to the disk is gone.
            let lost = self.below(6);
            self.journal.truncate(self.journal.len().saturating_sub(lost));
        }
        // Now and then by way of a snapshot.
        for record in &self.journal {
            self.state.apply(now, record);
        }
        if self.random.next().is_multiple_of(3) {
            self.journal = self.state.records();
            let mut again = State::new(Limits::default());
            self.journal.iter().for_each(|record| again.apply(now, record));
            assert_eq!(again.applications, self.state.applications);
            assert_eq!(again.excluded_by_hand, self.state.excluded_by_hand);
            assert!(again.workers.keys().eq(self.state.workers.keys()));
            self.state = again;
        }
        let time = self.time;
        // The restart gave everybody new time: an application that is silent is silent from now on.
        for application in self.applications.values_mut() {
            application.silent_since = application.silent_since.map(|since| since.max(time));
        }
    }

    fn step(&mut self) {
        match self.below(20) {
            0 => {
                let id = ApplicationId::from(format!("app-{}", self.applications.len()));
                let application = ModelApplication {
                    needed: BTreeSet::new(),
                    ended: false,
                    silent_since: None,
                    heard: self.time,
                    next_shuffle: 0,
                };
                self.applications.insert(id.clone(), application);
                self.pulse(&id);
            }
            1..=4 => {
                if let Some(application) = self.some_application() {
                    self.register_shuffle(application);
                }
            }
            5..=6 => {
                if let Some(id) = self.some_application() {
                    let application = self.applications.get_mut(&id).unwrap();
                    if let Some(shuffle) = application.needed.pop_first() {
                        let shuffle = ShuffleKey::new(id, shuffle);
                        self.mail.push(Message::Unregister { shuffle });
                    }
                }
            }
            7 if self.below(8) == 0 => {
                if let Some(id) = self.some_application() {
                    self.applications.get_mut(&id).unwrap().ended = true;
                    let decision = self.state.remove_application(self.now(), &id);
                    self.keep(decision);
                }
            }
            8 if self.below(8) == 0 => {
                if let Some(id) = self.some_application() {
                    let application = self.applications.get_mut(&id).unwrap();
                    application.silent_since = Some(application.heard);
                    self.faults += 1;
                }
            }
            9..=11 => {
                let worker = self.below(self.workers.len());
                if self.workers[worker].registered {
                    let (incarnation, report) = (self.workers[worker].incarnation, self.report(worker));
                    self.mail.push(Message::Heartbeat { worker, incarnation, report });
                } else {
                    self.register(worker);
                }
            }
            12..=14 => {
                let worker = self.below(self.workers.len());
                self.watch(worker);
            }
            15 => {
                // A worker is killed: what was only in memory is gone, some of the rest is still there.
                let worker = self.below(self.workers.len());
                let (connection, keeps) = (self.workers[worker].connection, self.below(2) == 0);
                let _ = self.state.worker_link_lost(connection);
                let incarnation = self.random.next();
                let member = &mut self.workers[worker];
                member.incarnation = incarnation;
                (member.seen, member.registered) = (0, false);
                if !keeps {
                    member.holds.clear();
                }
                self.faults += 1;
            }
            16 if self.below(4) == 0 => self.restart_master(),
            17 if self.below(6) == 0 => {
                // The machine was suspended.
                self.time += Duration::from_secs(400);
                self.faults += 1;
                let applications = self.applications.values_mut();
                applications.for_each(|a| {
                    a.silent_since = a.silent_since.map(|since| since + Duration::from_secs(400))
                });
            }
            _ => self.time += Duration::from_millis(self.random.next() % 5000),
        }
        self.end_silent();
        self.deliver_some();
        // A live application never stays silent for as long as the timeout.
        let due: Vec<ApplicationId> = self
            .applications
            .iter()
            .filter(|(_, a)| {
                !a.ended && a.silent_since.is_none() && self.time >= a.heard + Duration::from_secs(100)
            })
            .map(|(id, _)| id.clone())
            .collect();
        let decision = self.state.expire(self.now());
        self.keep(decision);
        due.iter().for_each(|id| self.pulse(id));
    }

    fn deliver_some(&mut self) {
        for _ in 0..self.below(3) {
            if self.mail.is_empty() {
                return;
            }
            let index = self.below(self.mail.len());
            let message = self.mail.swap_remove(index);
            match self.below(10) {
                0 => self.faults += 1, // lost
                1 => {
                    self.faults += 1; // doubled, the second some time later
                    self.mail.push(message.clone());
                    self.deliver(message);
                }
                _ => self.deliver(message),
            }
        }
    }

    /// Without faults for as long as an application may be silent, everything that nobody needs goes, and all that is
    /// needed stays known.
    fn settle(&mut self) {
        let lost_unregistrations: Vec<ShuffleKey> = self
            .workers
            .iter()
            .flat_map(|worker| &worker.holds)
            .filter(|shuffle| !self.is_needed(shuffle))
            .cloned()
            .collect();
        for shuffle in lost_unregistrations {
            self.deliver(Message::Unregister { shuffle });
        }
        while let Some(message) = self.mail.pop() {
            if !matches!(message, Message::Reserve { .. }) {
                self.deliver(message);
            }
        }
        for _ in 0..80 {
            self.time += Duration::from_secs(10);
            self.end_silent();
            let decision = self.state.expire(self.now());
            self.keep(decision);
            let alive: Vec<ApplicationId> = self
                .applications
                .iter()
                .filter(|(_, a)| !a.ended && a.silent_since.is_none())
                .map(|(id, _)| id.clone())
                .collect();
            alive.iter().for_each(|id| self.pulse(id));
            for worker in 0..self.workers.len() {
                if !self.workers[worker].registered {
                    self.register(worker);
                }
                let (incarnation, report) = (self.workers[worker].incarnation, self.report(worker));
                self.deliver(Message::Heartbeat { worker, incarnation, report });
                while let Some(message) = self.mail.pop() {
                    self.deliver(message);
                }
            }
        }
        for worker in &self.workers {
            for shuffle in &worker.holds {
                assert!(self.is_needed(shuffle), "{shuffle} stayed on {}", worker.id);
                let known = &self.state.applications()[&shuffle.application].shuffles;
                assert!(known.contains_key(&shuffle.shuffle), "{shuffle} is held and needed, but not known");
            }
        }
        let counted: usize = self.state.applications().values().map(|held| held.shuffles.len()).sum();
        assert_eq!(counted, self.state.shuffle_count());
    }
}

#[test]
fn nothing_needed_is_deleted_and_the_rest_goes_in_the_end() {
    let (worlds, steps) = (setting("YEOUL_FAULT_WORLDS", 40), setting("YEOUL_FAULT_STEPS", 2_000));
    let (mut faults, mut deletions) = (0, 0);
    for seed in 0..worlds {
        let result = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            (0..steps).for_each(|_| world.step());
            world.settle();
            (world.faults, world.deletions)
        });
        let Ok(counts) = result else { panic!("the world of seed {seed} broke the promise, see above") };
        faults += counts.0;
        deletions += counts.1;
    }
    eprintln!("{faults} faults, {deletions} deletions");
    assert!(
        faults > worlds * steps / 20 && deletions > worlds * 10,
        "{faults} faults, {deletions} deletions"
    );
}

#[test]
fn a_quiet_worker_gets_nothing_until_it_is_heard() {
    let mut world = World::new(3);
    world.register(0);
    let (id, incarnation) = (world.workers[0].id.clone(), world.workers[0].incarnation);
    let quiet = world.state.limits().worker_quiet;
    let tick = Duration::from_secs(5);
    let mut silent = Duration::ZERO;
    while silent < quiet {
        assert!(world.state.has_available_worker(), "after {silent:?}");
        let decision = world.state.expire(world.now());
        world.keep(decision);
        (world.time, silent) = (world.time + tick, silent + tick);
    }
    let decision = world.state.expire(world.now());
    world.keep(decision);
    assert!(!world.state.has_available_worker());
    let report = world.report(0);
    let decision = world.state.worker_heartbeat(world.now(), 1, &id, incarnation, report);
    assert_eq!(decision.reply, Ok(Vec::new()));
    assert!(world.state.has_available_worker());
}

#[test]
fn a_stopped_worker_gets_nothing_and_is_named() {
    let mut world = World::new(1);
    (0..world.workers.len()).for_each(|worker| world.register(worker));
    let id = world.workers[0].id.clone();
    let (now, incarnation) = (world.now(), world.workers[0].incarnation);
    let decision = world.state.worker_leaves(now, &id, incarnation, Phase::Stopping, false);
    assert_eq!(decision.reply, Ok(()));
    let application = ApplicationId::from("app");
    let pulse = ApplicationPulse {
        application: application.clone(),
        bytes_written: 0,
        files_written: 0,
        workers: vec!["nobody:1:2:3:4".parse().unwrap(), id.clone()],
    };
    let health = world.state.application_heartbeat(now, pulse).reply.unwrap();
    assert_eq!(health.shutting, [id.clone()]);
    assert_eq!(health.unknown, ["nobody:1:2:3:4".parse().unwrap()]);
    assert_eq!(world.state.standing(&id), Some(WorkerStanding::Stopping));
    let request = SlotRequest {
        application,
        shuffle: ShuffleId(0),
        partitions: (0..1000).map(PartitionId).collect(),
        replicate: false,
        rack_aware: false,
        workers_max: 0,
        excluded: BTreeSet::new(),
        driver: String::new(),
    };
    let grant = world.state.request_slots(now, 5, request.clone()).reply.unwrap();
    assert!(grant.workers.iter().all(|(worker, _)| *worker != id));
    let all = SlotRequest { excluded: world.workers.iter().map(|w| w.id.clone()).collect(), ..request };
    assert_eq!(world.state.request_slots(now, 5, all).reply, Err(SlotRefusal::NoWorker));
}
