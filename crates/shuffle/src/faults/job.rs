//! A shuffle as its driver and map tasks see it: the client's real decisions, and the protocol's rules around them.

mod revival;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use self::revival::Revivals;
use super::application::Question;
use super::message::{Batch, Driver, Party, Push, WorkerAnswer, WorkerCall};
use super::scene::Scene;
use super::tally::Event;
use super::worker::{BATCH_BYTES, number_of};
use crate::client::application::fate::{Fate, Said, fate};
use crate::client::application::routes::Routes;
use crate::client::tasks::push::{Verdict, verdict};
use crate::ids::{AttemptId, FileName, LocationId, Mode, PartitionId, ShuffleKey, SplitMode, WorkerId};
use crate::master::state::SlotGrant;
use crate::net::RequestError;
use crate::wire::executor::Readable;
use crate::wire::packed::Location;
use crate::worker::state::{Commit, CommitOutcome, PushKind, Reservation, SplitPolicy};

/// Attempts to place a refused reservation elsewhere, and to repeat an unanswered commit.
const ROUNDS_MAX: u32 = 4;
const COMMITS_MAX: u32 = 5;

/// The progress of a shuffle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Asking,
    Reserving,
    Running,
    Committing,
    /// Committed: it can be read.
    Done,
    /// Its application was told why it cannot be read.
    Failed,
}

/// Locations that are being reserved together.
struct Round {
    locations: Vec<Location>,
    /// Workers that have not answered.
    open: BTreeSet<WorkerId>,
    refused: BTreeSet<WorkerId>,
    /// Attempts before this one.
    tries: u32,
    /// The partition that gets a new location; `None` for the first locations.
    revives: Option<PartitionId>,
}

/// A shuffle.
pub struct Job {
    pub key: ShuffleKey,
    /// A number that no other job ever has.
    pub id: u64,
    /// Whether an earlier job had its key.
    pub is_again: bool,
    /// Its driver.
    pub driver: Driver,
    pub party: Party,
    pub maps: i32,
    pub partitions: i32,
    batches: i32,
    pub replicate: bool,
    /// Whether workers that failed it get nothing more of this shuffle, as with our own client; other clients try them
    /// again.
    strict: bool,
    pub stage: Stage,
    routes: Option<Routes>,
    rounds: BTreeMap<u64, Round>,
    reviving: BTreeSet<PartitionId>,
    revivals: Revivals,
    /// Batches that a task still has to deliver, and whether a push is under way.
    waiting: BTreeMap<Batch, bool>,
    attempts: BTreeSet<(i32, i32)>,
    next_attempt: i32,
    pub winners: Vec<AttemptId>,
    commits_open: u32,
    good: BTreeSet<FileName>,
    failed: BTreeSet<FileName>,
    /// Copies whose worker never answered a commit.
    pub unanswered: BTreeSet<FileName>,
    /// The locations of the final commit, by partition.
    pub locations: Vec<Vec<Location>>,
    pub files: Vec<Vec<Readable>>,
    pub lost: Option<LocationId>,
    /// Whether the application no longer needs it; `released`: and the master has confirmed that.
    pub dropped: bool,
    pub released: bool,
    /// Whether its data may be gone: the application was silent for too long.
    pub expendable: bool,
    /// Whether the master may know it again although it was dropped, until the application ends.
    pub may_stay: bool,
    /// Whether its number must not be reused: something was under way when it was dropped, or a master lost records.
    pub keeps_number: bool,
}

impl Job {
    pub fn new(key: ShuffleKey, party: Party, is_again: bool, driver: Driver, scene: &mut Scene) -> Self {
        let maps = 1 + scene.random.below(4) as i32;
        let mut job = Self {
            key,
            id: scene.number(),
            is_again,
            driver,
            party,
            maps,
            partitions: 1 + scene.random.below(4) as i32,
            batches: 2 + scene.random.below(4) as i32,
            replicate: scene.random.percent(50),
            strict: scene.random.percent(25),
            stage: Stage::Asking,
            routes: None,
            rounds: BTreeMap::new(),
            reviving: BTreeSet::new(),
            revivals: Revivals { by_master: scene.random.percent(40), ..Revivals::default() },
            waiting: BTreeMap::new(),
            attempts: BTreeSet::new(),
            next_attempt: 1,
            winners: vec![AttemptId::NONE; maps as usize],
            commits_open: 0,
            good: BTreeSet::new(),
            failed: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            locations: Vec::new(),
            files: Vec::new(),
            lost: None,
            dropped: false,
            released: false,
            expendable: false,
            may_stay: false,
            keeps_number: false,
        };
        (0..maps).for_each(|map| job.start_attempt(map, 0));
        job
    }

    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Done | Stage::Failed)
    }

    /// Whether the next shuffle may have its number, according to the master.
    pub fn is_free(&self) -> bool {
        self.released && !self.may_stay && !self.keeps_number
    }

    /// Its application drops it without asking anyone to end it.
    pub fn abandon(&mut self) {
        (self.stage, self.dropped, self.may_stay) = (Stage::Failed, true, true);
    }

    /// Every batch that the map's winner wrote to the partition.
    pub fn written(&self, map: i32, partition: i32) -> impl Iterator<Item = i32> + '_ {
        (1..=self.batches).filter(move |number| (map + number) % self.partitions == partition)
    }

    fn start_attempt(&mut self, map: i32, attempt: i32) {
        self.attempts.insert((map, attempt));
        for number in 1..=self.batches {
            let partition = (map + number) % self.partitions;
            self.waiting.insert(Batch { map, attempt, number, partition }, false);
        }
    }

    /// The fewest workers on which it can be.
    pub fn workers_min(&self) -> usize {
        if self.replicate { 2 } else { 1 }
    }

    /// No worker is left. That does not matter to one whose winners have delivered everything.
    pub fn fail(&mut self, scene: &mut Scene) {
        if matches!(self.stage, Stage::Asking | Stage::Reserving | Stage::Running) {
            scene.count(Event::GaveUp);
            self.stage = Stage::Failed;
        }
    }

    // Locations.

    /// The master has granted locations.
    pub fn granted(&mut self, scene: &mut Scene, grant: &SlotGrant) -> Vec<(u64, Question)> {
        if self.stage != Stage::Asking {
            return Vec::new();
        }
        let worker = |at: usize| grant.workers[at].0.clone();
        let primary = |(partition, primary, replica): &(PartitionId, usize, Option<usize>)| Location {
            id: LocationId::new(*partition, 0),
            mode: Mode::Primary,
            worker: worker(*primary),
            peer: replica.map(worker),
        };
        let primaries: Vec<Location> = grant.placements.iter().map(primary).collect();
        let candidates = grant.workers.iter().map(|(worker, _)| worker.clone()).collect();
        let routes = Routes::new(primaries.clone(), self.partitions as usize, candidates, self.replicate);
        self.routes = Some(routes.expect("the master gives one place to each partition"));
        self.stage = Stage::Reserving;
        self.reserve(scene, primaries, 0, None)
    }

    fn reserve(
        &mut self,
        scene: &mut Scene,
        locations: Vec<Location>,
        tries: u32,
        revives: Option<PartitionId>,
    ) -> Vec<(u64, Question)> {
        let mut by_worker: BTreeMap<WorkerId, Vec<Reservation>> = BTreeMap::new();
        for location in &locations {
            let mode = if scene.random.percent(50) { SplitMode::Hard } else { SplitMode::Soft };
            let threshold_bytes = u64::from(BATCH_BYTES) * (1 + scene.random.next() % 4);
            let hard_bytes = 7 * u64::from(BATCH_BYTES);
            let split = SplitPolicy { enabled: true, threshold_bytes, mode, hard_bytes };
            assert!(location.peer.as_ref() != Some(&location.worker), "both copies on one worker");
            assert_eq!(location.peer.is_some(), self.replicate);
            for copy in location.copies() {
                let file = copy.file();
                let peer = copy.peer.filter(|_| copy.mode == Mode::Primary);
                let peer = peer.map(|peer| number_of(&peer).to_string().into());
                by_worker.entry(copy.worker).or_default().push(Reservation { file, peer, split });
            }
        }
        let round = scene.number();
        let open = by_worker.keys().cloned().collect();
        self.rounds.insert(round, Round { locations, open, refused: BTreeSet::new(), tries, revives });
        let shuffle = self.key.shuffle.0;
        let calls = by_worker.into_iter().map(|(worker, reservations)| {
            let what = WorkerCall::Reserve {
                key: self.key.clone(),
                job: self.id,
                driver: self.driver,
                reservations,
            };
            let call = scene.call_worker(self.party, number_of(&worker), what);
            (call, Question::Reserve { shuffle, round, worker })
        });
        calls.collect()
    }

    /// A worker has accepted or refused its locations of a round, or has not answered.
    pub fn reserved(
        &mut self,
        scene: &mut Scene,
        round: u64,
        worker: WorkerId,
        answer: Option<WorkerAnswer>,
    ) -> Vec<(u64, Question)> {
        let Some(open) = self.rounds.get_mut(&round) else { return Vec::new() };
        open.open.remove(&worker);
        if !matches!(answer, Some(WorkerAnswer::Reserved(Ok(())))) {
            scene.count(Event::ReserveRefused);
            open.refused.insert(worker);
        }
        if !open.open.is_empty() {
            return Vec::new();
        }
        let Round { locations, refused, tries, revives, .. } =
            self.rounds.remove(&round).expect("it was found above");
        let routes = self.routes.as_mut().expect("locations are reserved when there are some");
        if refused.is_empty() {
            match revives {
                None if self.stage == Stage::Reserving => self.stage = Stage::Running,
                None => {} // it was abandoned meanwhile
                Some(partition) => {
                    self.reviving.remove(&partition);
                    locations.into_iter().for_each(|location| routes.adopt(location));
                }
            }
            return Vec::new();
        }
        if self.strict {
            refused.iter().for_each(|worker| routes.exclude(worker));
        }
        let touches = |location: &Location| {
            refused.contains(&location.worker)
                || location.peer.as_ref().is_some_and(|peer| refused.contains(peer))
        };
        let given_up: Vec<Location> = locations.into_iter().filter(touches).collect();
        if scene.random.percent(70) {
            self.destroy(scene, &given_up, &refused);
        }
        let routes = self.routes.as_mut().expect("as above");
        if tries + 1 >= ROUNDS_MAX {
            match revives {
                None => self.fail(scene),
                // The task continues with its location, and asks again.
                Some(partition) => drop(self.reviving.remove(&partition)),
            }
            return Vec::new();
        }
        let mut proposed = Vec::with_capacity(given_up.len());
        for location in given_up {
            let draw = scene.random.next();
            let Some(next) = routes.propose(location.id.partition, draw) else {
                self.fail(scene);
                return Vec::new();
            };
            if revives.is_none() {
                routes.replace(location.id, next.clone());
            }
            proposed.push(next);
        }
        self.reserve(scene, proposed, tries + 1, revives)
    }

    /// Gives up the locations of a round that some workers took, because another did not.
    fn destroy(&self, scene: &mut Scene, locations: &[Location], refused: &BTreeSet<WorkerId>) {
        let mut by_worker: BTreeMap<WorkerId, Vec<FileName>> = BTreeMap::new();
        for copy in locations.iter().flat_map(Location::copies) {
            if !refused.contains(&copy.worker) {
                let file = copy.file();
                by_worker.entry(copy.worker).or_default().push(file);
            }
        }
        for (worker, files) in by_worker {
            let what = WorkerCall::Destroy { key: self.key.clone(), files };
            scene.call_worker(self.party, number_of(&worker), what);
        }
    }

    // Batches.

    /// A task pushes batches that are not under way.
    pub fn push_some(&mut self, scene: &mut Scene) -> Vec<(u64, Question)> {
        let writes = matches!(self.stage, Stage::Running | Stage::Committing);
        let Some(routes) = self.routes.as_ref().filter(|_| writes) else { return Vec::new() };
        let blocked = |batch: &Batch| self.reviving.contains(&PartitionId(batch.partition));
        let idle = self.waiting.iter().filter(|(batch, under_way)| !**under_way && !blocked(batch));
        let idle: Vec<Batch> = idle.map(|(batch, _)| *batch).collect();
        let Some(first) = scene.random.pick(&idle) else { return Vec::new() };
        let location = routes.current(PartitionId(first.partition)).clone();
        let mut batches = vec![(first, location.id)];
        let merges = scene.random.percent(40);
        for batch in idle.iter().filter(|batch| merges && **batch != first) {
            let current = routes.current(PartitionId(batch.partition));
            let together = (&current.worker, &current.peer) == (&location.worker, &location.peer);
            let same_task = (batch.map, batch.attempt) == (first.map, first.attempt);
            if together && same_task && batches.len() < 3 {
                batches.push((*batch, current.id));
            }
        }
        self.waiting.extend(batches.iter().map(|(batch, _)| (*batch, true)));
        let kind = if batches.len() > 1 { PushKind::Merged } else { PushKind::Single };
        let pushed = batches.iter().map(|(batch, _)| *batch).collect();
        let push = Push { key: self.key.clone(), mode: Mode::Primary, kind, batches };
        let call = scene.call_worker(self.party, number_of(&location.worker), WorkerCall::Push(push));
        vec![(call, Question::Push { shuffle: self.key.shuffle.0, location, batches: pushed })]
    }

    /// The answer to a push arrives, or its timeout.
    pub fn pushed(
        &mut self,
        scene: &mut Scene,
        location: &Location,
        batches: &[Batch],
        answer: Option<WorkerAnswer>,
    ) -> Vec<(u64, Question)> {
        let first = batches[0];
        let mut calls = Vec::new();
        match verdict(as_received(location, answer), location) {
            Verdict::Taken => self.taken(batches),
            Verdict::TakenMoveOn => {
                scene.count(Event::SoftSplit);
                self.taken(batches);
                calls = self.revive(scene, location.id, &[]);
            }
            Verdict::MapEnded => {
                let winner = self.winners[first.map as usize];
                assert!(winner != AttemptId::NONE, "told that map {} has ended, which it has not", first.map);
                assert!(
                    winner.0 != first.attempt,
                    "a batch that the winner was still waiting for was dropped"
                );
                self.drop_attempt(first.map, first.attempt);
            }
            Verdict::Split => calls = self.push_again(scene, location, batches, &[]),
            Verdict::Failed(_, avoid) => calls = self.push_again(scene, location, batches, &avoid),
        }
        let task = (first.map, first.attempt);
        let done = !self.waiting.keys().any(|waiting| (waiting.map, waiting.attempt) == task);
        let winner = &mut self.winners[first.map as usize];
        if done && self.attempts.remove(&task) && *winner == AttemptId::NONE {
            *winner = AttemptId(first.attempt);
        }
        calls
    }

    fn push_again(
        &mut self,
        scene: &mut Scene,
        location: &Location,
        batches: &[Batch],
        avoid: &[WorkerId],
    ) -> Vec<(u64, Question)> {
        let known = batches.iter().filter(|batch| self.waiting.contains_key(*batch)).copied();
        let known: Vec<Batch> = known.collect();
        self.waiting.extend(known.into_iter().map(|batch| (batch, false)));
        // From here on the batches of a merged push are pushed one by one, with the same answers.
        if batches.len() == 1 { self.revive(scene, location.id, avoid) } else { Vec::new() }
    }

    fn taken(&mut self, batches: &[Batch]) {
        self.waiting.retain(|batch, _| !batches.contains(batch));
    }

    fn drop_attempt(&mut self, map: i32, attempt: i32) {
        self.attempts.remove(&(map, attempt));
        self.waiting.retain(|batch, _| (batch.map, batch.attempt) != (map, attempt));
    }

    /// A second attempt begins next to the first, or one fails and another replaces it.
    pub fn disturb_attempts(&mut self, scene: &mut Scene) {
        let map = scene.random.below(self.maps as usize) as i32;
        if self.stage != Stage::Running
            || self.winners[map as usize] != AttemptId::NONE
            || self.next_attempt > 6
        {
            return;
        }
        let fails = scene.random.percent(30);
        scene.count(if fails { Event::AttemptFailed } else { Event::Speculative });
        if fails {
            let running: Vec<i32> =
                self.attempts.iter().filter(|(of, _)| *of == map).map(|(_, attempt)| *attempt).collect();
            if let Some(attempt) = scene.random.pick(&running) {
                self.drop_attempt(map, attempt);
            }
        }
        let attempt = self.next_attempt;
        self.next_attempt += 1;
        self.start_attempt(map, attempt);
    }

    // The commit.

    /// Whether every map has a winner, so that the driver commits.
    pub fn is_complete(&self) -> bool {
        self.stage == Stage::Running && !self.winners.contains(&AttemptId::NONE)
    }

    pub fn commit_all(&mut self, scene: &mut Scene) -> Vec<(u64, Question)> {
        self.stage = Stage::Committing;
        let routes = self.routes.as_ref().expect("a running shuffle has locations");
        let partitions = 0..routes.partitions() as i32;
        self.locations = partitions.map(|partition| routes.all(PartitionId(partition)).to_vec()).collect();
        let mut calls = self.commit(scene, |_, _| true);
        if self.commits_open == 0 {
            calls.extend(self.end(scene));
        }
        calls
    }

    /// Commits locations that are no longer written to, or all on workers that are leaving.
    pub fn commit_early(&mut self, scene: &mut Scene, leaving: &[WorkerId]) -> Vec<(u64, Question)> {
        if self.stage != Stage::Running {
            return Vec::new();
        }
        let calls = self.commit(scene, |copy, current| {
            if leaving.is_empty() { copy.id != current } else { leaving.contains(&copy.worker) }
        });
        if !calls.is_empty() {
            scene.count(Event::EarlyCommit);
        }
        calls
    }

    fn commit(
        &mut self,
        scene: &mut Scene,
        wanted: impl Fn(&Location, LocationId) -> bool,
    ) -> Vec<(u64, Question)> {
        let routes = self.routes.as_ref().expect("a running shuffle has locations");
        let mut of_worker: BTreeMap<WorkerId, Commit> = BTreeMap::new();
        for partition in 0..routes.partitions() as i32 {
            let current = routes.current(PartitionId(partition)).id;
            for copy in routes.all(PartitionId(partition)).iter().flat_map(Location::copies) {
                let file = copy.file();
                let answered = self.good.contains(&file) || self.failed.contains(&file);
                if answered || !wanted(&copy, current) {
                    continue;
                }
                let commit = of_worker.entry(copy.worker).or_default();
                let ids =
                    if copy.mode == Mode::Primary { &mut commit.primaries } else { &mut commit.replicas };
                ids.push(copy.id);
            }
        }
        let calls = of_worker.into_iter().map(|(worker, mut commit)| {
            commit.attempts.clone_from(&self.winners);
            self.commits_open += 1;
            self.ask_to_commit(scene, worker, commit, 1)
        });
        calls.collect::<Vec<_>>()
    }

    fn ask_to_commit(
        &self,
        scene: &mut Scene,
        worker: WorkerId,
        commit: Commit,
        tries: u32,
    ) -> (u64, Question) {
        let what = WorkerCall::Commit { key: self.key.clone(), commit: commit.clone() };
        let call = scene.call_worker(self.party, number_of(&worker), what);
        (call, Question::Commit { shuffle: self.key.shuffle.0, worker, commit, tries })
    }

    /// A worker reports the outcome of a commit, or has not answered.
    pub fn committed(
        &mut self,
        scene: &mut Scene,
        worker: WorkerId,
        commit: Commit,
        tries: u32,
        answer: Option<WorkerAnswer>,
    ) -> Vec<(u64, Question)> {
        match answer {
            Some(WorkerAnswer::Committed(Some(CommitOutcome { committed, failed }))) => {
                self.good.extend(committed);
                self.failed.extend(failed);
            }
            Some(WorkerAnswer::Committed(None)) => self.failed.extend(commit.files()),
            _ if tries < COMMITS_MAX => {
                scene.count(Event::CommitRepeated);
                return vec![self.ask_to_commit(scene, worker, commit, tries + 1)];
            }
            _ => {
                scene.count(Event::CommitUnanswered);
                // An early commit is repeated at the end.
                if self.stage != Stage::Running {
                    self.failed.extend(commit.files());
                    self.unanswered.extend(commit.files());
                }
            }
        }
        self.commits_open -= 1;
        if self.stage == Stage::Committing && self.commits_open == 0 { self.end(scene) } else { Vec::new() }
    }

    /// The driver now knows what can be read.
    fn end(&mut self, scene: &mut Scene) -> Vec<(u64, Question)> {
        let said = |file: FileName| match file {
            _ if self.good.contains(&file) => Said::Whole,
            _ if self.unanswered.contains(&file) => Said::Unanswered,
            _ if self.failed.contains(&file) => Said::Lost,
            _ => Said::Empty,
        };
        let mut files = vec![Vec::new(); self.locations.len()];
        let mut lost = None;
        for (files, locations) in files.iter_mut().zip(&self.locations) {
            for location in locations {
                match fate(location, said) {
                    Fate::Readable(readable) => files.push(readable),
                    Fate::Empty => {}
                    // No copy is asked again.
                    Fate::Unanswered | Fate::Lost => lost = lost.or(Some(location.id)),
                }
            }
        }
        if lost.is_none() {
            (self.stage, self.files) = (Stage::Done, files);
        } else {
            scene.count(Event::LossReported);
            (self.stage, self.lost) = (Stage::Failed, lost);
        }
        Vec::new()
    }
}

/// A worker's answer, as the client's network layer delivers it.
fn as_received(location: &Location, answer: Option<WorkerAnswer>) -> Result<Bytes, RequestError> {
    let address = location.worker.to_string();
    match answer {
        Some(WorkerAnswer::Pushed(Ok(status))) => Ok(Bytes::copy_from_slice(&[status.byte()])),
        Some(WorkerAnswer::Pushed(Err((status, text)))) => {
            Err(RequestError::Failed { address, text: format!("{}: {text}", status.name()) })
        }
        Some(_) => Err(RequestError::Lost { address, reason: "gone".into() }),
        None => Err(RequestError::TimedOut { address, after: std::time::Duration::ZERO }),
    }
}
