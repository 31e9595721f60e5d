//! A master, some workers and some applications, and the faults that they meet.

use std::time::Duration;

use super::application::{Answer, Application};
use super::job::Stage;
use super::master::{Master, limits};
use super::message::{MasterCall, Message, Party, WorkerAnswer};
use super::reader::{check_loss, read};
use super::scene::Scene;
use super::tally::Event;
use super::worker::Worker;
use crate::ids::{ShuffleKey, WorkerId};
use crate::master::state::Limits;
use crate::report::Command;

const APPLICATIONS_AT_ONCE: usize = 2;
/// How long applications try everything again once there are no more faults, in seconds; and how long again what they then
/// still have not given up may take.
const PATIENCE: u64 = 200;
/// How long the last removals may take to spread, in seconds. A worker whose orders were lost on their way notices that after
/// 12 s. Then it is told of two shuffles at a time, each time after up to 3 s, and there may be 30.
const REMOVALS_SPREAD: u64 = 12 + 30 / 2 * 3 + 5;

/// The longest that a master and a worker may be cut off together before the data there may be deleted; heartbeats here come
/// with delays.
fn cut_off_borne() -> Duration {
    let Limits { application_timeout, worker_timeout, .. } = limits();
    worker_timeout + 2 * application_timeout - Duration::from_secs(40)
}

/// A simulated cluster.
pub struct World {
    pub scene: Scene,
    master: Master,
    workers: Vec<Worker>,
    ids: Vec<WorkerId>,
    applications: Vec<Application>,
    tick_due: Duration,
    /// When the master was last cut off.
    cut_off_at: Duration,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut scene = Scene::new(seed);
        let master = Master::new(&mut scene);
        let count = 3 + scene.random.below(4);
        let workers: Vec<Worker> = (0..count).map(|number| Worker::new(number, &mut scene)).collect();
        let ids = workers.iter().map(|worker| worker.id.clone()).collect();
        let (applications, tick_due, cut_off_at) = (Vec::new(), Duration::ZERO, Duration::ZERO);
        Self { scene, master, workers, ids, applications, tick_due, cut_off_at }
    }

    /// One step with faults.
    pub fn step(&mut self) {
        let passes = Duration::from_millis(self.scene.random.next() % 50);
        self.scene.time += passes;
        self.excuse_the_master();
        self.notice_silence();
        self.tick();
        match self.scene.random.below(100) {
            0..58 => self.deliver(),
            58..84 => {
                let at = self.scene.random.below(self.applications.len());
                if let Some(application) = self.applications.get_mut(at).filter(|found| found.works()) {
                    application.work(&mut self.scene);
                }
            }
            84..88 => {
                let worker = self.scene.random.below(self.workers.len());
                self.workers[worker].spill(&mut self.scene);
            }
            88..90 => self.read_something(),
            90..94 => self.disturb_a_worker(),
            94 => self.disturb_the_master(),
            95 => self.disturb_an_application(),
            96 => self.operate(),
            _ => {}
        }
    }

    /// What all timers do.
    fn tick(&mut self) {
        if self.scene.time < self.tick_due {
            return;
        }
        self.tick_due = self.scene.time + Duration::from_millis(100);
        self.master.tick(&mut self.scene);
        for worker in &mut self.workers {
            worker.tick(&mut self.scene);
        }
        for application in &mut self.applications {
            application.tick(&mut self.scene, &self.ids);
        }
    }

    // Faults.

    fn disturb_a_worker(&mut self) {
        let at = self.scene.random.below(self.workers.len());
        // The others take what one with files of an earlier shuffle may not.
        let may_lose_a_disk = !self.workers.iter().any(Worker::keeps_files);
        let (worker, scene) = (&mut self.workers[at], &mut self.scene);
        if !worker.up {
            return; // it would not notice, and this is no fault
        }
        match scene.random.below(60) {
            0..2 => worker.kill(scene),
            2..5 => {
                scene.count(Event::WorkerStalled);
                worker.stalled_until = scene.time + Duration::from_millis(scene.random.next() % 6000);
            }
            5..9 => {
                worker.pressure.exhausted = scene.random.percent(30);
                if worker.pressure.exhausted {
                    scene.count(Event::NoRoom);
                }
            }
            9..13 => {
                worker.pressure.memory_tight = scene.random.percent(40);
                if worker.pressure.memory_tight {
                    scene.count(Event::MemoryTight);
                }
            }
            13..15 => {
                scene.count(Event::LinkLost);
                worker.cut(scene);
            }
            15..17 if may_lose_a_disk => worker.lose_a_disk(scene),
            _ => {}
        }
    }

    fn disturb_the_master(&mut self) {
        let scene = &mut self.scene;
        if !self.master.up || scene.time < self.master.paused_until {
            return;
        }
        match scene.random.below(24) {
            0 => self.master.kill(scene),
            1 => {
                scene.count(Event::MasterPaused);
                let seconds = if scene.random.percent(20) { 90 } else { 30 };
                let pause = scene.random.next() % (seconds * 1000);
                self.master.paused_until = scene.time + Duration::from_millis(pause);
            }
            2..4 => self.master.disturb_journal(scene),
            4 if scene.random.percent(40) && scene.time >= scene.master_cut_off.0 => {
                let mut cut_off = Duration::from_millis(scene.random.next() % 100_000);
                if scene.random.percent(20) {
                    scene.count(Event::MasterCutOffLong);
                    cut_off += cut_off_borne() - Duration::from_secs(50);
                } else {
                    scene.count(Event::MasterCutOff);
                }
                let beside = scene.random.percent(50).then(|| scene.random.below(self.workers.len()));
                scene.master_cut_off = (scene.time + cut_off, beside);
                self.cut_off_at = scene.time;
            }
            _ => {}
        }
    }

    /// The master may have forgotten a removal, or whom it has listed for a number; then it cannot tell what is now under the
    /// number from what was.
    fn excuse_the_master(&mut self) {
        if std::mem::take(&mut self.master.ended) {
            self.applications.iter_mut().for_each(Application::excuse_earlier);
        }
        if std::mem::take(&mut self.master.forgot) {
            for application in &mut self.applications {
                application.is_unsure = true;
                application.past.clear();
            }
            let jobs = self.applications.iter_mut().flat_map(|application| application.jobs.values_mut());
            for job in jobs {
                job.driver.may_meet_earlier = true;
                job.keeps_number = true;
                job.may_stay |= job.dropped;
                if job.is_again {
                    job.abandon();
                }
            }
        }
    }

    fn disturb_an_application(&mut self) {
        let working = self.applications.iter().filter(|application| application.works()).count();
        let scene = &mut self.scene;
        if working < APPLICATIONS_AT_ONCE && self.applications.len() < 5 {
            let number = self.applications.len();
            self.applications.push(Application::new(number, scene));
            return;
        }
        let at = scene.random.below(self.applications.len());
        let Some(application) = self.applications.get_mut(at).filter(|found| found.works()) else { return };
        match scene.random.below(30) {
            0 => application.stop(scene),
            1 if scene.random.percent(30) => {
                scene.count(Event::ApplicationKilled);
                application.alive = false;
            }
            2 => application.turn_mute(scene),
            3 if !application.mute && scene.random.percent(40) => application.die_to_return(scene),
            _ => {}
        }
    }

    /// An operator at the master's HTTP.
    fn operate(&mut self) {
        let scene = &mut self.scene;
        let number = scene.random.below(self.ids.len());
        let worker = self.ids[number].clone();
        if !self.master.up || scene.time < self.master.paused_until {
            return;
        }
        let worker = [worker];
        let command = match scene.random.below(60) {
            0 => {
                scene.count(Event::Excluded);
                let _ = self.master.decide(scene, |state, now| state.exclude_workers(now, &worker, &[]));
                return;
            }
            1..10 => {
                let _ = self.master.decide(scene, |state, now| state.exclude_workers(now, &[], &worker));
                return;
            }
            // Operators stop running workers.
            10..13 if self.master.has_registered(&worker[0], scene.worker_lives[number]) => {
                self.workers[number].stop_meant_for = scene.worker_lives[number];
                if scene.random.percent(60) { Command::StopGracefully } else { Command::StopNow }
            }
            13 => Command::Decommission,
            14..18 => Command::Recommission,
            _ => return,
        };
        let _ = self.master.decide(scene, |state, now| state.command_workers(now, command, &worker));
    }

    /// An application that was not heard for the timeout may lose everything, whatever happens later.
    fn notice_silence(&mut self) {
        let now = self.scene.time;
        let (until, beside) = self.scene.master_cut_off;
        let is_given_up = now < until && beside.is_some() && now >= self.cut_off_at + cut_off_borne();
        for application in &mut self.applications {
            let is_over = now >= application.heard + limits().application_timeout;
            if is_given_up || (application.absent && is_over) {
                for job in application.jobs.values_mut().filter(|job| !job.expendable) {
                    self.scene.tally.count(Event::Expired);
                    job.expendable = true;
                }
            }
        }
    }

    // Messages.

    fn deliver(&mut self) {
        let (now, workers, master) = (self.scene.time, &self.workers, &self.master);
        // A machine that is cut off does not notice that connections end.
        let is_cut_off = now < self.scene.master_cut_off.0;
        let message = self.scene.arrive(|message| match message {
            Message::LinkLost { .. } => is_cut_off || !master.listens(now),
            Message::ToMaster { .. } => !master.listens(now),
            Message::ToWorker { to, .. }
            | Message::FromMaster { to: Party::Worker(to), .. }
            | Message::FromWorker { to: Party::Worker(to), .. } => now < workers[*to].stalled_until,
            _ => false,
        });
        let Some(message) = message else { return };
        if let Message::ToMaster { from: party, .. } | Message::FromMaster { to: party, .. } = message
            && self.scene.is_cut_off(party)
        {
            return;
        }
        match message {
            Message::LinkLost { life, connection } if self.master.is_life(life) => {
                self.master.link_lost(&mut self.scene, connection);
            }
            Message::LinkLost { .. } => {}
            Message::ToMaster { life, call, from, what } => {
                if !self.master.is_life(life) || self.is_cut(from, &what) {
                    self.scene.count(Event::CutOff);
                    return;
                }
                self.note(from, &what);
                // Other requests may be refused, and then do not count as a sign of life.
                let hears = matches!(what, MasterCall::Pulse(_));
                self.master.handle(&mut self.scene, call, from, what);
                if let Party::Application(number) = from
                    && hears
                    && self.master.up
                {
                    let application = &mut self.applications[number];
                    application.heard = self.scene.time;
                    application.absent &= application.mute;
                }
            }
            Message::FromMaster { call, to: Party::Application(number), answer } => {
                self.applications[number].hear(&mut self.scene, call, Answer::Master(answer));
            }
            Message::FromWorker { call, to: Party::Application(number), answer } => {
                self.applications[number].hear(&mut self.scene, call, Answer::Worker(answer));
            }
            Message::FromMaster { call, to: Party::Worker(number), answer } => {
                let expired = self.workers[number].hear_master(&mut self.scene, call, answer);
                expired.iter().for_each(|key| self.delete(number, key));
            }
            Message::FromWorker { call, to: Party::Worker(number), answer } => {
                self.workers[number].hear_worker(&mut self.scene, call, answer);
            }
            Message::ToWorker { to, life, call, from, what } => {
                if !self.workers[to].up || self.scene.worker_lives[to] != life {
                    self.scene.count(Event::CutOff);
                    if self.scene.random.percent(50) {
                        self.scene.answer_from_worker(call, from, WorkerAnswer::Unreachable);
                    }
                    return;
                }
                self.workers[to].handle(&mut self.scene, call, from, what);
            }
        }
    }

    /// Whether the connection on which a worker sent this has ended.
    fn is_cut(&self, from: Party, what: &MasterCall) -> bool {
        match (from, what) {
            (Party::Worker(number), MasterCall::Register { connection, .. }) => {
                self.workers[number].connection() != *connection
            }
            _ => false,
        }
    }

    /// A request that names a shuffle and arrives after its removal brings it back until the application ends.
    fn note(&mut self, from: Party, what: &MasterCall) {
        let Party::Application(number) = from else { return };
        let jobs = &mut self.applications[number].jobs;
        let named = match what {
            MasterCall::Slots(request) => vec![request.shuffle],
            MasterCall::Revise(_, shuffles) => shuffles.clone(),
            _ => return,
        };
        for shuffle in named {
            if let Some(job) = jobs.get_mut(&shuffle.0).filter(|job| job.dropped) {
                job.may_stay = true;
            }
        }
    }

    /// A worker deletes a shuffle, on the master's order.
    fn delete(&mut self, worker: usize, key: &ShuffleKey) {
        if let Some(job) = self.workers[worker].delete(&mut self.scene, key) {
            let is_needed = self.applications.iter().any(|application| application.needs_job(job));
            assert!(!is_needed, "worker {worker} was told to delete {key}, which is needed");
            self.scene.count(Event::Deleted);
        }
    }

    fn read_something(&mut self) {
        let jobs = self.applications.iter().filter(|application| application.works());
        let jobs = jobs.flat_map(|application| application.jobs.values());
        let done: Vec<_> = jobs.filter(|job| job.stage == Stage::Done && !job.dropped).collect();
        if let Some(job) = self.scene.random.pick(&done) {
            let partition = self.scene.random.below(job.partitions as usize) as i32;
            let whole = self.scene.random.percent(50);
            read(job, &self.workers, &mut self.scene, partition, whole);
        }
    }

    // The end.

    /// Ends the run without faults: everything finishes and is read, and nothing is left.
    pub fn settle(&mut self) {
        // An outage with consequences is rarely over by now.
        while self.scene.time < self.scene.master_cut_off.0 {
            self.step();
        }
        self.scene.calm = true;
        for worker in &mut self.workers {
            worker.stalled_until = Duration::ZERO;
            worker.pressure = Default::default();
        }
        self.master.paused_until = Duration::ZERO;
        self.scene.master_cut_off = (Duration::ZERO, None);
        self.pass(1);
        let (scene, ids) = (&mut self.scene, &self.ids);
        let _ =
            self.master.decide(scene, |state, now| state.command_workers(now, Command::Recommission, ids));
        let _ = self.master.decide(scene, |state, now| state.exclude_workers(now, &[], ids));
        let mut seconds = 0;
        let is_busy = |application: &Application| {
            application.is_awaited() || (application.works() && !application.is_over())
        };
        while self.applications.iter().any(is_busy) {
            self.pass(1);
            seconds += 1;
            if seconds >= PATIENCE {
                self.give_up_denied();
            }
            let works = |application: &&Application| application.works();
            let mut jobs = self.applications.iter().filter(works).flat_map(|found| found.jobs.values());
            let left = jobs.find(|job| !job.is_over()).map(|job| (&job.key, job.stage));
            assert!(seconds < 2 * PATIENCE || left.is_none(), "{left:?} does not come to an end");
        }
        self.pass(REMOVALS_SPREAD);
        self.check_the_living();
        self.end_all();
        // As long as the silence of the last silent application may last, twice: once more for what only workers knew.
        // Of that a worker is told little at a time.
        let timeout = limits().application_timeout.as_secs();
        self.pass(2 * timeout + 40);
        for worker in &self.workers {
            let left: Vec<&ShuffleKey> = worker.shuffles.keys().collect();
            assert!(left.is_empty(), "{left:?} stayed on {}", worker.id);
        }
        assert_eq!(self.master.state.applications().len(), 0, "an application that ended is still known");
        assert_eq!(self.master.state.shuffle_count(), 0);
        assert_eq!(self.master.state.workers_available(), self.workers.len(), "a worker did not come back");
    }

    /// Applications give up a number that was used before if the master has reasons to deny it too many workers, as clients
    /// do after a few refusals. A master that was killed after it had granted the number does not know who was listed: who
    /// held something of the earlier shuffle then may keep it for as long as the number is registered. If a disk of another
    /// worker is dead as well, there may be nobody left.
    fn give_up_denied(&mut self) {
        let (scene, workers) = (&mut self.scene, &self.workers);
        let jobs = self.applications.iter_mut().flat_map(|application| application.jobs.values_mut());
        for job in jobs.filter(|job| job.stage == Stage::Asking && job.is_again) {
            let granted = workers.iter().filter(|worker| !worker.may_be_denied(&job.key)).count();
            if granted < job.workers_min() {
                job.fail(scene);
            }
        }
    }

    /// Lets time pass.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds * 5 {
            self.scene.time += Duration::from_millis(200);
            self.excuse_the_master();
            self.notice_silence();
            self.tick();
            for at in 0..self.applications.len() {
                if self.applications[at].works() {
                    (0..8).for_each(|_| self.applications[at].work(&mut self.scene));
                }
            }
            while !self.scene.is_still() {
                self.deliver();
            }
        }
    }

    /// What is needed is known and readable; what is not is gone.
    fn check_the_living(&mut self) {
        let scene = &mut self.scene;
        for application in self.applications.iter().filter(|application| application.works()) {
            let known = self.master.state.applications().get(&application.id);
            for worker in &self.workers {
                let earlier =
                    worker.shuffles.iter().find(|(_, held)| application.past.contains_key(&held.job));
                assert!(
                    earlier.is_none(),
                    "{:?} of an earlier life stayed on {}",
                    earlier.map(|(key, _)| key),
                    worker.id
                );
            }
            for job in application.jobs.values() {
                check_loss(job, &self.workers);
                if job.stage == Stage::Done && !job.dropped {
                    for partition in 0..job.partitions {
                        read(job, &self.workers, scene, partition, true);
                    }
                }
                let mut holders = self.workers.iter().filter(|worker| worker.shuffles.contains_key(&job.key));
                let Some(holder) = holders.next() else { continue };
                if application.needs(job.key.shuffle) {
                    let known = known.expect("a living application is known");
                    let is_known = known.shuffles.contains_key(&job.key.shuffle);
                    assert!(is_known, "{} is held and needed, but not known", job.key);
                } else if job.released && !job.may_stay {
                    panic!("{} was given up, but stayed on {}", job.key, holder.id);
                }
            }
        }
        let counted: usize = self.master.state.applications().values().map(|held| held.shuffles.len()).sum();
        assert_eq!(counted, self.master.state.shuffle_count());
    }

    /// Some announce their end, others just end.
    fn end_all(&mut self) {
        for application in self.applications.iter_mut().filter(|application| application.works()) {
            if self.scene.random.percent(50) {
                application.stop(&mut self.scene);
            } else {
                application.alive = false;
            }
        }
    }
}
