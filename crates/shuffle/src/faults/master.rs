//! The master's process around its [`State`]: what its server does, without sockets and files.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::journal::{Fate, Journal};
use super::message::{MasterAnswer, MasterCall, Party};
use super::scene::Scene;
use super::tally::Event;
use crate::ids::WorkerId;
use crate::master::record::Record;
use crate::master::state::{Decision, Limits, Now, SlotGrant, SlotRequest, State, Unregistered, Worker};

/// How long a watch without orders stays open.
const WATCH_MAX: Duration = Duration::from_secs(8);
/// How often timeouts are checked.
const TICK: Duration = Duration::from_secs(1);

/// A worker that waits for orders.
struct Watch {
    call: u64,
    from: Party,
    connection: u64,
    worker: WorkerId,
    incarnation: u64,
    seen: u64,
    since: Duration,
}

/// An answer that waits for the journal.
struct Waiting {
    /// The mark that it depends on.
    reached: u64,
    since: Duration,
    call: u64,
    to: Party,
    answer: MasterAnswer,
}

/// The master's process.
pub struct Master {
    pub state: State,
    journal: Journal,
    pub up: bool,
    life: u64,
    started: Duration,
    back_at: Duration,
    pub paused_until: Duration,
    tick_due: Duration,
    watches: Vec<Watch>,
    /// Answers that wait for the journal.
    waiting: VecDeque<Waiting>,
    /// What the killed process knew, if all of it was on file.
    known: Option<Vec<Record>>,
    /// The process that last registered for each worker since this master started.
    registered: BTreeMap<WorkerId, u64>,
    clock_ms: u64,
    /// Whether records were lost after their answers had left: by a power failure, and by nothing else.
    pub forgot: bool,
    /// Whether its process has ended, and with it what is never on file: which workers it had listed for each shuffle.
    pub ended: bool,
}

/// Timeouts that are as short as the messages' delays allow, so that a run of some minutes has many of them.
pub fn limits() -> Limits {
    Limits {
        application_timeout: Duration::from_secs(60),
        worker_timeout: Duration::from_secs(30),
        worker_quiet: Duration::from_secs(6),
        unavailable_kept: Duration::from_secs(20),
        worker_deletions_max: 2,
        ..Limits::default()
    }
}

impl Master {
    pub fn new(scene: &mut Scene) -> Self {
        scene.master_life = 1;
        Self {
            state: State::new(limits()),
            journal: Journal::default(),
            up: true,
            life: 1,
            started: scene.time,
            back_at: Duration::ZERO,
            paused_until: Duration::ZERO,
            tick_due: Duration::ZERO,
            watches: Vec::new(),
            waiting: VecDeque::new(),
            known: None,
            registered: BTreeMap::new(),
            clock_ms: 1_000_000_000,
            forgot: false,
            ended: false,
        }
    }

    pub fn listens(&self, time: Duration) -> bool {
        !self.up || time >= self.paused_until
    }

    pub fn has_registered(&self, worker: &WorkerId, life: u64) -> bool {
        self.registered.get(worker) == Some(&life)
    }

    pub fn is_life(&self, life: u64) -> bool {
        self.up && self.life == life
    }

    fn now(&self, scene: &Scene) -> Now {
        let monotonic = scene.time - self.started;
        Now { monotonic, unix_ms: self.clock_ms + monotonic.as_millis() as u64 }
    }

    /// Decides, and gives the records to the journal. `None` if the process is killed while it writes.
    pub fn decide<T>(
        &mut self,
        scene: &mut Scene,
        decide: impl FnOnce(&mut State, Now) -> Decision<T>,
    ) -> Option<T> {
        let now = self.now(scene);
        let Decision { reply, records, wake } = decide(&mut self.state, now);
        if !records.is_empty() {
            self.journal.append(scene, records);
            if scene.random.once_in(20) {
                self.journal.begin_snapshot(scene.time, self.state.records());
            }
        }
        // Most disks are fast most of the time.
        if (scene.calm || scene.random.percent(50)) && !self.write(scene) {
            return None;
        }
        self.ring(scene, &wake);
        Some(reply)
    }

    /// Lets the journal's threads work, and sends the answers that waited for them. Returns whether the process survives.
    fn write(&mut self, scene: &mut Scene) -> bool {
        if self.journal.work(scene) {
            scene.count(Event::MasterTorn);
            self.may_lose_power(scene);
            self.die(scene);
            return false;
        }
        for waiting in std::mem::take(&mut self.waiting) {
            self.send_or_wait(scene, waiting);
        }
        true
    }

    /// Sends an answer if what it rests on is kept. One that is an error tells its caller nothing, as one that is lost.
    fn send_or_wait(&mut self, scene: &mut Scene, waiting: Waiting) {
        match self.journal.fate(waiting.reached, waiting.since, scene.time) {
            Fate::Kept => scene.answer_from_master(waiting.call, waiting.to, waiting.answer),
            Fate::Unkept => scene.count(Event::Unkept),
            Fate::Waiting => self.waiting.push_back(waiting),
        }
    }

    /// Answers once everything decided before is on file.
    fn answer(&mut self, scene: &mut Scene, call: u64, to: Party, answer: MasterAnswer) {
        let (reached, since) = (self.journal.reached(), scene.time);
        self.send_or_wait(scene, Waiting { reached, since, call, to, answer });
    }

    fn die(&mut self, scene: &mut Scene) {
        if self.journal.is_lacking() {
            scene.count(Event::MasterLacking);
        }
        self.journal.die(scene);
        self.waiting.clear();
        (self.up, self.ended) = (false, true);
        scene.master_life = 0;
        self.back_at = scene.time + Duration::from_millis(500 + scene.random.next() % 9000);
        self.watches.clear();
    }

    pub fn kill(&mut self, scene: &mut Scene) {
        scene.count(Event::MasterKilled);
        self.known = self.journal.has_all().then(|| self.state.records());
        self.may_lose_power(scene);
        self.die(scene);
    }

    /// The whole machine may die.
    fn may_lose_power(&mut self, scene: &mut Scene) {
        if scene.random.once_in(3) {
            scene.count(Event::MasterPowerLost);
            self.forgot = true;
            self.known = None;
            self.journal.lose_power(scene);
        }
    }

    /// Disturbs the journal's disk for a while.
    pub fn disturb_journal(&mut self, scene: &mut Scene) {
        if scene.random.percent(50) { self.journal.fill(scene) } else { self.journal.hang(scene) }
    }

    pub fn start(&mut self, scene: &mut Scene) {
        self.life += 1;
        scene.master_life = self.life;
        (self.up, self.started, self.paused_until) = (true, scene.time, Duration::ZERO);
        self.tick_due = scene.time;
        if scene.fault(30) {
            scene.count(Event::ClockBack);
            self.clock_ms -= scene.random.next() % 50_000;
        } else {
            self.clock_ms += 100_000;
        }
        self.registered.clear();
        self.state = State::new(limits());
        let now = self.now(scene);
        for record in &self.journal.replay(scene) {
            self.state.apply(now, record);
        }
        if let Some(known) = self.known.take() {
            scene.count(Event::Restored);
            assert_eq!(self.state.records(), known, "the records of its decisions make another state");
        }
        let mut again = State::new(limits());
        self.state.records().iter().for_each(|record| again.apply(now, record));
        assert_eq!(again.records(), self.state.records(), "a snapshot makes another state");
    }

    /// What its timers do.
    pub fn tick(&mut self, scene: &mut Scene) {
        if !self.up && (scene.calm || scene.time >= self.back_at) {
            self.start(scene);
        }
        if !self.up || scene.time < self.paused_until || !self.write(scene) || scene.time < self.tick_due {
            return;
        }
        if self.journal.wants_snapshot(scene.time) {
            self.journal.begin_snapshot(scene.time, self.state.records());
        }
        self.tick_due = scene.time + TICK;
        let _ = self.decide(scene, State::expire);
        let waited = |watch: &mut Watch| scene.time >= watch.since + WATCH_MAX;
        let over: Vec<Watch> = self.watches.extract_if(.., waited).collect();
        over.iter().for_each(|watch| {
            scene.answer_from_master(watch.call, watch.from, MasterAnswer::Orders(Ok(None)))
        });
    }

    pub fn link_lost(&mut self, scene: &mut Scene, connection: u64) {
        let lost = self.state.worker_link_lost(connection);
        self.watches.retain(|watch| !lost.contains(&watch.worker));
        self.ring(scene, &lost);
    }

    fn ring(&mut self, scene: &mut Scene, workers: &[WorkerId]) {
        let waiting: Vec<Watch> =
            self.watches.extract_if(.., |watch| workers.contains(&watch.worker)).collect();
        waiting.into_iter().for_each(|watch| self.watch(scene, watch));
    }

    fn watch(&mut self, scene: &mut Scene, watch: Watch) {
        match self.state.worker_orders(watch.connection, &watch.worker, watch.incarnation, watch.seen) {
            Ok(None) => self.watches.push(watch),
            Ok(Some(orders)) if orders.expired.len() >= limits().worker_deletions_max => {
                scene.count(Event::OrdersFull);
                self.answer(scene, watch.call, watch.from, MasterAnswer::Orders(Ok(Some(orders))));
            }
            orders => self.answer(scene, watch.call, watch.from, MasterAnswer::Orders(orders)),
        }
    }

    pub fn handle(&mut self, scene: &mut Scene, call: u64, from: Party, what: MasterCall) {
        use MasterAnswer::{Done, Health, Heard, Slots};
        let random = scene.random.next();
        let answer = match what {
            MasterCall::Pulse(pulse) => {
                let health = self.decide(scene, |state, now| state.application_heartbeat(now, pulse));
                health.map(|health| Health(health.expect("far below the limit on applications")))
            }
            MasterCall::Slots(request) => {
                let asked = request.clone();
                let granted = self.decide(scene, |state, now| state.request_slots(now, random, request));
                if let Some(Ok(grant)) = &granted {
                    self.check_grant(&asked, grant);
                }
                granted.map(Slots)
            }
            MasterCall::Unregister(key) => self
                .decide(scene, |state, now| state.unregister_shuffles(now, &key.application, &[key.shuffle]))
                .map(|()| Done),
            MasterCall::Revise(application, shuffles) => self
                .decide(scene, |state, now| state.revise_shuffles(now, &application, &shuffles))
                .map(|_| Done),
            MasterCall::Stop(application) => {
                self.decide(scene, |state, now| state.remove_application(now, &application)).map(|()| Done)
            }
            MasterCall::RegisterApplication(registration) => {
                let registered =
                    self.decide(scene, |state, now| state.register_application(now, registration));
                if let Some(Ok(1..)) = registered {
                    scene.count(Event::EarlierLifeRemoved);
                }
                registered.map(|_| Done)
            }
            MasterCall::Unreachable(workers) => {
                self.state.workers_reported_failed(&workers);
                None // one way
            }
            MasterCall::Register { connection, registration } => {
                self.registered.insert(registration.worker.clone(), registration.incarnation);
                let registered =
                    self.decide(scene, |state, now| state.register_worker(now, connection, registration));
                registered.map(|has_room| Heard(has_room.then_some(()).ok_or(Unregistered)))
            }
            MasterCall::Beat { connection, worker, incarnation, report } => {
                let before = self.of_another_life(scene, from, &worker, incarnation);
                let beat = self.decide(scene, |state, now| {
                    state.worker_heartbeat(now, connection, &worker, incarnation, report)
                });
                self.check_untouched(&worker, before);
                beat.map(Heard)
            }
            MasterCall::Watch { connection, worker, incarnation, seen } => {
                let before = self.of_another_life(scene, from, &worker, incarnation);
                let (named, since) = (worker.clone(), scene.time);
                let watch = Watch { call, from, connection, worker: named, incarnation, seen, since };
                self.watch(scene, watch);
                self.check_untouched(&worker, before);
                None
            }
            MasterCall::Leave { worker, incarnation, phase, gone } => {
                let before = self.of_another_life(scene, from, &worker, incarnation);
                let left = self
                    .decide(scene, |state, now| state.worker_leaves(now, &worker, incarnation, phase, gone));
                self.check_untouched(&worker, before);
                left.map(|_: Result<(), Unregistered>| Done)
            }
        };
        if let Some(answer) = answer {
            self.answer(scene, call, from, answer);
        }
    }

    /// The worker that a message from an earlier process of it is about.
    fn of_another_life(
        &self,
        scene: &Scene,
        from: Party,
        worker: &WorkerId,
        incarnation: u64,
    ) -> Option<Worker> {
        let Party::Worker(number) = from else { return None };
        let present = scene.worker_lives[number];
        let is_old = present != incarnation && self.registered.get(worker) == Some(&present);
        self.state.workers().get(worker).filter(|_| is_old).cloned()
    }

    fn check_untouched(&self, worker: &WorkerId, before: Option<Worker>) {
        if let Some(before) = before {
            let after = self.state.workers().get(worker);
            assert_eq!(after, Some(&before), "what an earlier life of a worker said late changed it");
        }
    }

    fn check_grant(&self, request: &SlotRequest, grant: &SlotGrant) {
        let mut partitions: Vec<_> = grant.placements.iter().map(|(partition, _, _)| *partition).collect();
        partitions.sort_unstable();
        assert_eq!(partitions, request.partitions, "not one place for each partition");
        for (_, primary, replica) in &grant.placements {
            assert_eq!(replica.is_some(), request.replicate);
            assert_ne!(Some(*primary), *replica, "both copies on one worker");
        }
        for (worker, _) in &grant.workers {
            assert!(!request.excluded.contains(worker), "{worker} was not wanted");
            let standing = self.state.standing(worker).expect("only registered workers are granted");
            assert!(standing.may_serve(), "{worker} is {standing:?}");
        }
    }
}
