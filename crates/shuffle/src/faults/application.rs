//! An application: a driver with its tasks, and what it asks the master for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::job::{Job, Stage};
use super::message::{Batch, Driver, MasterAnswer, MasterCall, Party, WorkerAnswer};
use super::scene::Scene;
use super::tally::Event;
use crate::ids::{ApplicationId, DriverId, PartitionId, ShuffleId, ShuffleKey, WorkerId};
use crate::master::record::{LifeId, User};
use crate::master::state::{ApplicationHealth, ApplicationPulse, ApplicationRegistration, SlotRequest};
use crate::wire::packed::Location;
use crate::worker::state::Commit;

const BEAT: Duration = Duration::from_secs(2);
const MASTER_ANSWER_MAX: Duration = Duration::from_secs(4);
/// Longer than a worker waits for a copy, as in the protocol.
const WORKER_ANSWER_MAX: Duration = Duration::from_secs(3);
const SHUFFLES_MAX: i32 = 6;

/// What a pending answer is about.
pub enum Question {
    Register,
    Pulse,
    Slots {
        shuffle: i32,
    },
    /// A new location for a partition of a running shuffle.
    Revive {
        shuffle: i32,
        partition: PartitionId,
    },
    Unregister {
        shuffle: i32,
    },
    Revise,
    Stop,
    Reserve {
        shuffle: i32,
        round: u64,
        worker: WorkerId,
    },
    Push {
        shuffle: i32,
        location: Location,
        batches: Vec<Batch>,
    },
    Commit {
        shuffle: i32,
        worker: WorkerId,
        commit: Commit,
        tries: u32,
    },
}

impl Question {
    /// The shuffle that it is about, if any.
    fn shuffle(&self) -> Option<i32> {
        match self {
            Self::Register | Self::Pulse | Self::Revise | Self::Stop => None,
            Self::Slots { shuffle }
            | Self::Revive { shuffle, .. }
            | Self::Unregister { shuffle }
            | Self::Reserve { shuffle, .. }
            | Self::Push { shuffle, .. }
            | Self::Commit { shuffle, .. } => Some(*shuffle),
        }
    }
}

/// An answer, or `None` if none came in time.
pub enum Answer {
    Master(MasterAnswer),
    Worker(WorkerAnswer),
}

/// An application.
pub struct Application {
    pub id: ApplicationId,
    party: Party,
    /// Whether its process runs and has work.
    pub alive: bool,
    /// Whether it has announced its end and waits for the answer.
    stopping: bool,
    /// Whether it is cut off from the master, until `mute_until`.
    pub mute: bool,
    mute_until: Duration,
    /// Whether it was cut off, and the master has not heard it since.
    pub absent: bool,
    pub heard: Duration,
    beat_due: Duration,
    pub jobs: BTreeMap<i32, Job>,
    /// Whether its client lists the shuffles that the master has lost, as clients from 0.6 on do.
    revises: bool,
    /// Whether its client registers when it starts, as those from 0.6 on and Sail do.
    registers: bool,
    /// Its life: the number of its driver, and whether the master has confirmed that it knows of it.
    life: u64,
    registered: bool,
    /// Who its driver says that it is.
    driver: Option<DriverId>,
    /// Whether its process has died and comes back, and not before when.
    back_at: Option<Duration>,
    /// The numbers of shuffles of its earlier lives, and the jobs of them that have to be gone with their numbers.
    used: BTreeSet<i32>,
    pub past: BTreeMap<u64, i32>,
    /// Whether the master may have forgotten something of it.
    pub is_unsure: bool,
    open: BTreeMap<u64, (Duration, Question)>,
}

impl Application {
    pub fn new(number: usize, scene: &mut Scene) -> Self {
        let (life, revises) = (scene.number(), scene.random.percent(50));
        let registers = revises || scene.random.percent(30);
        Self {
            id: ApplicationId::from(format!("app-{number}")),
            party: Party::Application(number),
            alive: true,
            stopping: false,
            mute: false,
            mute_until: Duration::ZERO,
            absent: false,
            heard: scene.time,
            beat_due: scene.time,
            jobs: BTreeMap::new(),
            revises,
            registers,
            life,
            registered: !registers,
            driver: DriverId::from_number(life).filter(|_| !registers || scene.random.percent(50)),
            back_at: None,
            used: BTreeSet::new(),
            past: BTreeMap::new(),
            is_unsure: false,
            open: BTreeMap::new(),
        }
    }

    /// Its process dies, and another one will come back under its name.
    pub fn die_to_return(&mut self, scene: &mut Scene) {
        self.alive = false;
        self.back_at = Some(scene.time + Duration::from_millis(500 + scene.random.next() % 20_000));
    }

    /// Whether its process is not at work, but will be.
    pub fn is_awaited(&self) -> bool {
        self.back_at.is_some() || (self.works() && !self.registered)
    }

    /// Begins a new life, once nothing is under way any more that its earlier one has sent: until then something of that may
    /// arrive, as for any number that is used again.
    fn return_in_time(&mut self, scene: &mut Scene) {
        let is_time = self.back_at.is_some_and(|at| scene.calm || scene.time >= at);
        if !is_time || scene.has_of(self.party, &self.id) {
            return;
        }
        scene.count(Event::ApplicationReturned);
        let jobs = std::mem::take(&mut self.jobs);
        self.used.extend(jobs.keys());
        if self.registers && !self.is_unsure {
            self.past.extend(jobs.iter().map(|(shuffle, job)| (job.id, *shuffle)));
        }
        self.open.clear();
        self.life = scene.number();
        if self.driver.is_some() {
            self.driver = DriverId::from_number(self.life);
        }
        (self.alive, self.back_at, self.registered) = (true, None, !self.registers);
        self.beat_due = scene.time;
    }

    /// The master has ended, and its successor does not know whom it had listed for the numbers that are in use. Whoever
    /// comes back with a shuffle of one of them may have the new one, so an earlier one stays for as long as its number is
    /// in use.
    pub fn excuse_earlier(&mut self) {
        let jobs = &self.jobs;
        self.past.retain(|_, shuffle| !jobs.contains_key(shuffle));
    }

    /// Whether it is running and not about to end.
    pub fn works(&self) -> bool {
        self.alive && !self.stopping
    }

    /// Whether every shuffle that it has begun can be read or has failed.
    pub fn is_over(&self) -> bool {
        self.jobs.values().all(Job::is_over)
    }

    pub fn needs(&self, shuffle: ShuffleId) -> bool {
        let job = self.jobs.get(&shuffle.0);
        self.works() && job.is_some_and(|job| !job.dropped && !job.expendable)
    }

    /// Whether deleting a job's data would be wrong.
    pub fn needs_job(&self, id: u64) -> bool {
        self.jobs.values().any(|job| job.id == id && self.needs(job.key.shuffle))
    }

    /// Whether a message about a shuffle, or an answer to one, is under way.
    fn is_under_way(&self, scene: &Scene, shuffle: i32) -> bool {
        self.open.values().any(|(_, question)| question.shuffle() == Some(shuffle))
            || scene.names(&self.jobs[&shuffle].key)
    }

    /// The number of a shuffle that a new one may reuse.
    fn free_number(&self, scene: &mut Scene) -> Option<i32> {
        let free = self.jobs.iter().filter(|(_, job)| job.is_free()).map(|(shuffle, _)| *shuffle);
        let free: Vec<i32> = free.filter(|shuffle| !self.is_under_way(scene, *shuffle)).collect();
        scene.random.pick(&free)
    }

    fn ask(&mut self, scene: &mut Scene, what: MasterCall, question: Question) {
        let call = if self.mute { scene.number() } else { scene.call_master(self.party, what) };
        self.open.insert(call, (scene.time, question));
    }

    fn wait_for(&mut self, scene: &Scene, calls: Vec<(u64, Question)>) {
        self.open.extend(calls.into_iter().map(|(call, question)| (call, (scene.time, question))));
    }

    /// What its timers do.
    pub fn tick(&mut self, scene: &mut Scene, workers: &[WorkerId]) {
        self.return_in_time(scene);
        if !self.alive {
            return;
        }
        let now = scene.time;
        self.mute &= !scene.calm && now < self.mute_until;
        let late = |_: &u64, (asked, question): &mut (Duration, Question)| {
            let patience = match question {
                Question::Reserve { .. } | Question::Push { .. } | Question::Commit { .. } => {
                    WORKER_ANSWER_MAX
                }
                _ => MASTER_ANSWER_MAX,
            };
            now >= *asked + patience
        };
        let late: Vec<Question> = self.open.extract_if(.., late).map(|(_, (_, question))| question).collect();
        for question in late {
            self.resolve(scene, question, None);
        }
        let is_asking = self.open.values().any(|(_, question)| matches!(question, Question::Register));
        if self.works() && !self.registered && !is_asking {
            self.ask_to_register(scene);
        }
        if self.works() && self.registered && now >= self.beat_due {
            self.beat_due = now + BEAT;
            let pulse = ApplicationPulse { application: self.id.clone(), workers: workers.to_vec() };
            self.ask(scene, MasterCall::Pulse(pulse), Question::Pulse);
        }
        let complete: Vec<i32> =
            self.jobs.iter().filter(|(_, job)| job.is_complete()).map(|(shuffle, _)| *shuffle).collect();
        for shuffle in complete {
            let job = self.jobs.get_mut(&shuffle).expect("it was among them");
            let calls = job.commit_all(scene);
            self.wait_for(scene, calls);
        }
        let wanted = self.jobs.iter_mut().map(|(shuffle, job)| (*shuffle, job.take_wanted()));
        for (shuffle, partitions) in wanted.collect::<Vec<_>>() {
            partitions.into_iter().for_each(|partition| self.ask_to_revive(scene, shuffle, partition));
        }
    }

    /// An answer arrives.
    pub fn hear(&mut self, scene: &mut Scene, call: u64, answer: Answer) {
        if matches!(answer, Answer::Master(_)) && self.mute {
            return;
        }
        if let Some((_, question)) = self.open.remove(&call).filter(|_| self.alive) {
            self.resolve(scene, question, Some(answer));
        }
    }

    fn resolve(&mut self, scene: &mut Scene, question: Question, answer: Option<Answer>) {
        let (from_master, from_worker) = match answer {
            Some(Answer::Master(answer)) => (Some(answer), None),
            Some(Answer::Worker(answer)) => (None, Some(answer)),
            None => (None, None),
        };
        let calls = match question {
            Question::Pulse => {
                if let Some(MasterAnswer::Health(health)) = from_master {
                    self.take_care(scene, &health);
                }
                return;
            }
            Question::Revise => return,
            Question::Register => return self.registered |= from_master.is_some(),
            Question::Stop => {
                self.alive &= from_master.is_none();
                if self.alive {
                    self.ask(scene, MasterCall::Stop(self.id.clone()), Question::Stop);
                }
                return;
            }
            Question::Unregister { shuffle } => {
                return match from_master {
                    Some(_) => self.job(shuffle).released = true,
                    None => self.unregister(scene, shuffle),
                };
            }
            Question::Slots { shuffle } => match from_master {
                Some(MasterAnswer::Slots(Ok(grant))) => self.job(shuffle).granted(scene, &grant),
                None => return self.ask_for_slots(scene, shuffle),
                // Refused: it asks again after a while.
                Some(_) => vec![(scene.number(), Question::Slots { shuffle })],
            },
            Question::Revive { shuffle, partition } => match from_master {
                Some(MasterAnswer::Slots(Ok(grant))) => self.job(shuffle).revive_at(scene, partition, &grant),
                None => return self.job(shuffle).want_again(partition),
                // Refused: it asks again after a while.
                Some(_) => vec![(scene.number(), Question::Revive { shuffle, partition })],
            },
            Question::Reserve { shuffle, round, worker } => {
                let is_gone = matches!(from_worker, Some(WorkerAnswer::Unreachable));
                if is_gone && !self.mute && scene.random.percent(50) {
                    let workers = vec![worker.clone()];
                    scene.call_master(self.party, MasterCall::Unreachable(workers));
                }
                self.job(shuffle).reserved(scene, round, worker, from_worker)
            }
            Question::Push { shuffle, location, batches } => {
                self.job(shuffle).pushed(scene, &location, &batches, from_worker)
            }
            Question::Commit { shuffle, worker, commit, tries } => {
                self.job(shuffle).committed(scene, worker, commit, tries, from_worker)
            }
        };
        self.wait_for(scene, calls);
    }

    fn job(&mut self, shuffle: i32) -> &mut Job {
        self.jobs.get_mut(&shuffle).expect("a shuffle is remembered for as long as its application")
    }

    /// Reacts to the answer to a heartbeat.
    fn take_care(&mut self, scene: &mut Scene, health: &ApplicationHealth) {
        if !self.works() {
            return;
        }
        let has_places = |job: &Job| !matches!(job.stage, Stage::Asking) && !job.dropped;
        let jobs = self.jobs.iter().filter(|(_, job)| has_places(job));
        let mine = jobs.map(|(shuffle, _)| ShuffleId(*shuffle));
        let lost: Vec<ShuffleId> = mine.filter(|shuffle| !health.shuffles.contains(shuffle)).collect();
        if !lost.is_empty() && self.revises {
            self.ask(scene, MasterCall::Revise(self.id.clone(), lost), Question::Revise);
        }
        if !health.shutting.is_empty() {
            let running: Vec<i32> = self.jobs.keys().copied().collect();
            for shuffle in running {
                let job = self.jobs.get_mut(&shuffle).expect("it was among them");
                let calls = job.commit_early(scene, &health.shutting);
                self.wait_for(scene, calls);
            }
        }
    }

    /// Asks as often as it has to, with the same id.
    fn ask_to_register(&mut self, scene: &mut Scene) {
        let registration = ApplicationRegistration {
            life: LifeId::new(&format!("{}#0", self.life)),
            connection: scene.number(),
            ..ApplicationRegistration::of(self.id.clone())
        };
        self.ask(scene, MasterCall::RegisterApplication(registration), Question::Register);
    }

    fn ask_for_slots(&mut self, scene: &mut Scene, shuffle: i32) {
        let job = &self.jobs[&shuffle];
        if job.dropped || job.is_over() {
            return;
        }
        let request = self.request_for(scene, shuffle, (0..job.partitions).map(PartitionId).collect());
        self.ask(scene, MasterCall::Slots(request), Question::Slots { shuffle });
    }

    fn ask_to_revive(&mut self, scene: &mut Scene, shuffle: i32, partition: PartitionId) {
        let job = &self.jobs[&shuffle];
        if job.dropped || job.is_over() {
            return;
        }
        let request = self.request_for(scene, shuffle, vec![partition]);
        self.ask(scene, MasterCall::Slots(request), Question::Revive { shuffle, partition });
    }

    fn request_for(&self, scene: &mut Scene, shuffle: i32, partitions: Vec<PartitionId>) -> SlotRequest {
        SlotRequest {
            application: self.id.clone(),
            user: User::default(),
            shuffle: ShuffleId(shuffle),
            partitions,
            replicate: self.jobs[&shuffle].replicate,
            rack_aware: false,
            workers_max: 0,
            excluded: BTreeSet::new(),
            driver: String::new(),
            tagged: false,
            connection: scene.number(),
        }
    }

    /// Drops a shuffle. A client reuses the number only after everything sent to workers under it has been answered.
    fn unregister(&mut self, scene: &mut Scene, shuffle: i32) {
        let is_under_way = self.is_under_way(scene, shuffle);
        let job = self.job(shuffle);
        job.keeps_number |= !job.dropped && is_under_way;
        job.dropped = true;
        let key = ShuffleKey::new(self.id.clone(), shuffle);
        self.ask(scene, MasterCall::Unregister(key), Question::Unregister { shuffle });
    }

    /// Announces its end.
    pub fn stop(&mut self, scene: &mut Scene) {
        self.stopping = true;
        self.ask(scene, MasterCall::Stop(self.id.clone()), Question::Stop);
    }

    /// The number for a new shuffle, if one begins now.
    fn next_number(&self, scene: &mut Scene) -> Option<i32> {
        if scene.fault(20)
            && let Some(again) = self.free_number(scene)
        {
            scene.count(Event::NumberUsedAgain);
            return Some(again);
        }
        let next = self.jobs.len() as i32;
        // Where the master has forgotten what it removed, only who the driver is tells its lives apart.
        let is_safe = !self.is_unsure || self.driver.is_some() || !self.used.contains(&next);
        (is_safe && next < SHUFFLES_MAX && scene.fault(5)).then_some(next)
    }

    /// Does some work: pushes batches, begins or drops a shuffle, starts and stops attempts.
    pub fn work(&mut self, scene: &mut Scene) {
        if !self.registered {
            return;
        }
        let running: Vec<i32> =
            self.jobs.iter().filter(|(_, job)| !job.is_over()).map(|(shuffle, _)| *shuffle).collect();
        if running.len() < 2
            && let Some(shuffle) = self.next_number(scene)
        {
            let key = ShuffleKey::new(self.id.clone(), shuffle);
            let is_of_earlier_life = self.used.contains(&shuffle);
            let is_again = self.jobs.contains_key(&shuffle) || is_of_earlier_life;
            let may_meet_earlier = (!self.registers || self.is_unsure) && is_of_earlier_life;
            let driver = Driver { id: self.driver, may_meet_earlier };
            self.jobs.insert(shuffle, Job::new(key, self.party, is_again, driver, scene));
            return self.ask_for_slots(scene, shuffle);
        }
        let over: Vec<i32> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.is_over() && !job.dropped)
            .map(|(shuffle, _)| *shuffle)
            .collect();
        if let Some(shuffle) = scene.random.pick(&over).filter(|_| scene.fault(2)) {
            return self.unregister(scene, shuffle);
        }
        let Some(shuffle) = scene.random.pick(&running) else { return };
        let (chance, disturbed) = (scene.random.below(100), !scene.calm);
        let job = self.jobs.get_mut(&shuffle).expect("it is running");
        let calls = match chance {
            0 if disturbed => {
                job.disturb_attempts(scene);
                return;
            }
            1 if disturbed => job.commit_early(scene, &[]),
            _ => job.push_some(scene),
        };
        self.wait_for(scene, calls);
    }

    /// Cuts it off from the master for a while, sometimes for longer than the master waits.
    pub fn turn_mute(&mut self, scene: &mut Scene) {
        if !self.mute {
            scene.count(Event::ApplicationMute);
            (self.mute, self.absent) = (true, true);
            let seconds = if scene.random.percent(30) { 100 } else { 10 };
            self.mute_until = scene.time + Duration::from_millis(scene.random.next() % (seconds * 1000));
        }
    }
}
