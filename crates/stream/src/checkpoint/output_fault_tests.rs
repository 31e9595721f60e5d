//! Goal: what is committed is what a batch computation gives, each row once and in order, and no completed checkpoint is lost,
//! whatever dies when. Method: the deciders ([`Coordinator`], [`base`], [`Resumption`]) between models of a source, of Kafka's transactions with
//! their fencing and their control topic, and of a folder of manifests; processes die at any step, overtake each other in the
//! midst of a claim, hear nothing of a commit, stand still until their transaction is aborted, and go on by themselves.

use std::collections::BTreeMap;

use yeoul_simulation::{Random, Tally, Worlds, events};

use super::{
    BarrierTime, Base, Command, Coordinator, Event as Happened, Loss, OutputMarker, OutputPosition,
    Resumption, base,
};
use crate::BatchId;

events! {
    faults {
        /// A process dies between two barriers.
        Killed,
        /// A process dies between a barrier and its commit.
        KilledBeforeCommit,
        /// A process dies between its commit and its marker.
        KilledBeforeMarker,
        /// A process dies before it has claimed the query.
        KilledInClaim,
        /// A process loses the query while it is about to go on after its transaction was lost.
        OvertakenInPause,
        /// A process is started while another one lives.
        Overtaken,
        /// A commit never reaches Kafka, and nobody can know.
        CommitLost,
        /// A commit is decided, and nobody hears of it.
        AnswerLost,
        /// For a while no commit gets an answer.
        Silent,
        /// A process stands still, in the midst of a claim, too.
        StoodStill,
        /// A transaction is open for too long: it is aborted, and its producer fenced.
        Expired,
    }
    others {
        /// A checkpoint with output is complete.
        Completed,
        /// A checkpoint without output is complete.
        CompletedWithoutOutput,
        /// A process goes on from a prepared manifest.
        Adopted,
        /// A process goes on from the last checkpoint.
        WentOn,
        /// A process goes on after its transaction was lost.
        Resumed,
        /// A process lost its transaction once too often without a checkpoint between.
        GaveUp,
        /// A process was told by Kafka that it is fenced.
        FencedByKafka,
        /// A process found its marker taken.
        FencedByMarker,
        /// A process learned in its claim that it had been overtaken.
        OvertakenInClaim,
        /// An open transaction was aborted for a younger process.
        Aborted,
        /// A decided transaction was completed for a younger process.
        Settled,
    }
}

const ID: &str = "yeoul-query";
/// Times that a process dies, is overtaken, or loses its transaction, in all worlds.
const CRASHES_MIN: u64 = 100_000;
/// Times in a row that a process goes on after it lost its transaction.
const LOSSES_MAX: u32 = 5;
/// Rows that one world has.
const ROWS: u64 = 400;

/// A row of output: its number, and the total of all rows up to it, which needs the state.
type Row = (u64, u64);

/// Kafka, as far as one transactional id knows it.
#[derive(Default)]
struct Kafka {
    producer_epoch: u64,
    open: Option<Transaction>,
    /// The producer whose transaction was aborted because of its age.
    expired: Option<u64>,
    committed: Vec<Row>,
    control: Option<OutputMarker>,
}

#[derive(Default)]
struct Transaction {
    rows: Vec<Row>,
    /// Marker, once it is decided that it is committed.
    decided: Option<OutputMarker>,
}

/// Content of a manifest.
#[derive(Debug, Clone)]
struct Saved {
    batch: u64,
    generation: u64,
    position: u64,
    total: u64,
    output: OutputPosition,
}

/// What outlives processes.
struct Outside {
    random: Random,
    tally: Tally<Event>,
    now_ms: i64,
    kafka: Kafka,
    manifests: BTreeMap<u64, Saved>,
    prepared: BTreeMap<(u64, u64), Saved>,
    silent_until_ms: i64,
    /// Position of the last checkpoint that somebody was told is complete.
    completed: u64,
}

/// One life of a process.
struct Life {
    stage: Stage,
    resumption: Resumption,
    /// That of its last claim.
    generation: Option<u64>,
    /// Times that it lost its transaction since it completed a checkpoint.
    losses: u32,
    is_alive: bool,
    is_stopping: bool,
    stands_still_until_ms: i64,
}

enum Stage {
    /// Nothing was done.
    Begun,
    /// Older producers are about to be fenced; that is the newest claim.
    Looked { newest: Option<u64> },
    /// They are fenced.
    Fencing { newest: Option<u64>, producer_epoch: u64 },
    /// The control topic was read.
    Asked { newest: Option<u64>, producer_epoch: u64, committed: Option<OutputMarker> },
    /// A claim was worked out, and has to be put in place.
    Claiming { newest: Option<u64>, producer_epoch: u64, committed: Option<OutputMarker>, claim: Saved },
    /// It runs.
    Running(Box<Run>),
}

struct Run {
    coordinator: Coordinator,
    producer_epoch: u64,
    saved: Saved,
    /// Rows that were sent and have not arrived.
    sent: Vec<Row>,
    has_transaction: bool,
    in_flight: Option<Saved>,
    todo: Option<Command>,
    is_stored: bool,
    has_completed: bool,
    /// Set once its transaction is lost in a way that a new producer mends.
    lost: Option<Loss>,
}

impl Kafka {
    fn begin_producer(&mut self, tally: &mut Tally<Event>) -> u64 {
        self.producer_epoch += 1;
        match self.open.take() {
            Some(transaction) if transaction.decided.is_some() => {
                tally.count(Event::Settled);
                self.apply(transaction);
            }
            Some(_) => tally.count(Event::Aborted),
            None => {}
        }
        self.producer_epoch
    }

    fn apply(&mut self, transaction: Transaction) {
        self.committed.extend(transaction.rows);
        self.control = transaction.decided;
    }

    /// True if a row was taken.
    fn send(&mut self, producer_epoch: u64, row: Row) -> bool {
        if producer_epoch != self.producer_epoch {
            return false;
        }
        self.open.get_or_insert_default().rows.push(row);
        true
    }
}

impl Outside {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            tally: Tally::default(),
            now_ms: 0,
            kafka: Kafka::default(),
            manifests: BTreeMap::new(),
            prepared: BTreeMap::new(),
            silent_until_ms: 0,
            completed: 0,
        }
    }

    fn newest_generation(&self) -> Option<u64> {
        self.manifests.values().next_back().map(|newest| newest.generation)
    }

    /// The base from which a process that knows of `committed` goes on, as a manifest of its own; nothing if another process than
    /// the one of the `claimed` generation has the query now.
    fn choose(&mut self, claimed: Option<u64>, committed: Option<OutputMarker>) -> Option<Saved> {
        if claimed != self.newest_generation() {
            self.tally.count(Event::OvertakenInClaim);
            return None;
        }
        let newest = self.manifests.values().next_back();
        let base = base(newest.map(|newest| &newest.output), ID, committed);
        let base = base.expect("who has not claimed the query cannot commit");
        let output = OutputPosition { transactional_id: ID.to_owned(), last: committed };
        let none = Saved { batch: 0, generation: 0, position: 0, total: 0, output: output.clone() };
        let from = match base {
            Base::LastCheckpoint => {
                self.tally.count(Event::WentOn);
                newest.unwrap_or(&none)
            }
            Base::Prepared(marker) => {
                self.tally.count(Event::Adopted);
                let prepared = self.prepared.get(&(marker.batch.0, marker.generation));
                prepared.expect("the manifest of what is committed is there")
            }
        };
        let generation = newest.map_or(0, |newest| newest.generation).max(from.generation) + 1;
        let batch = newest.map_or(0, |newest| newest.batch + 1);
        Some(Saved { batch, generation, output, ..from.clone() })
    }

    /// True if a manifest was put in place; it is created only if it is absent.
    fn mark(&mut self, saved: &Saved) -> bool {
        if self.manifests.contains_key(&saved.batch) {
            return false;
        }
        self.manifests.insert(saved.batch, saved.clone());
        if let Some(last) = saved.output.last {
            self.prepared.retain(|of, _| *of >= (last.batch.0, last.generation));
        }
        true
    }

    /// What came of a commit; nothing if its producer is fenced.
    fn commit(&mut self, producer_epoch: u64, marker: OutputMarker) -> Option<Happened> {
        let batch = marker.batch;
        if producer_epoch != self.kafka.producer_epoch {
            return None;
        }
        let is_silent = self.now_ms < self.silent_until_ms;
        if self.random.once_in(if is_silent { 2 } else { 15 }) {
            self.tally.count(Event::CommitLost);
            return Some(Happened::InDoubt(batch));
        }
        let mut transaction = self.kafka.open.take().expect("it has output");
        transaction.decided = Some(marker);
        if !is_silent && !self.random.once_in(15) {
            self.kafka.apply(transaction);
            return Some(Happened::Committed(batch));
        }
        self.tally.count(Event::AnswerLost);
        if self.random.once_in(2) {
            self.kafka.apply(transaction);
        } else {
            self.kafka.open = Some(transaction);
        }
        Some(Happened::InDoubt(batch))
    }

    fn check(&self) {
        let right = (0..ROWS).map(|number| (number, number * (number + 1) / 2)).filter(has_output);
        assert!(
            self.kafka.committed.iter().copied().eq(right.take(self.kafka.committed.len())),
            "what is committed is not a batch computation's: {:?}",
            self.kafka.committed
        );
    }
}

/// True for rows that come out at all, so that some epochs have no output.
fn has_output((number, _): &Row) -> bool {
    number % 16 < 9
}

impl Life {
    fn new() -> Self {
        Self {
            stage: Stage::Begun,
            resumption: Resumption::default(),
            generation: None,
            losses: 0,
            is_alive: true,
            is_stopping: false,
            stands_still_until_ms: 0,
        }
    }

    fn step(&mut self, outside: &mut Outside) {
        if self.stands_still_until_ms > outside.now_ms {
            return;
        }
        self.stage = match std::mem::replace(&mut self.stage, Stage::Begun) {
            Stage::Begun => {
                let newest = outside.newest_generation();
                if self.resumption.may_fence(newest) {
                    Stage::Looked { newest }
                } else {
                    outside.tally.count(Event::OvertakenInPause);
                    self.is_overtaken(outside);
                    Stage::Begun
                }
            }
            Stage::Looked { newest } => {
                if self.generation.is_some() {
                    outside.tally.count(Event::Resumed);
                }
                Stage::Fencing { newest, producer_epoch: outside.kafka.begin_producer(&mut outside.tally) }
            }
            Stage::Fencing { newest, producer_epoch } => {
                Stage::Asked { newest, producer_epoch, committed: outside.kafka.control }
            }
            Stage::Asked { newest, producer_epoch, committed } => match outside.choose(newest, committed) {
                Some(claim) => Stage::Claiming { newest, producer_epoch, committed, claim },
                None => Stage::Begun,
            },
            Stage::Claiming { newest, producer_epoch, committed, claim } => {
                if outside.mark(&claim) {
                    assert!(claim.position >= outside.completed, "a completed checkpoint is lost");
                    assert!(
                        self.generation.is_none_or(|own| own + 1 == claim.generation),
                        "who goes on takes the query from the process that has it"
                    );
                    self.resumption.claimed(claim.generation);
                    self.generation = Some(claim.generation);
                    Stage::Running(Box::new(Run::new(producer_epoch, claim, outside.now_ms)))
                } else {
                    Stage::Asked { newest, producer_epoch, committed }
                }
            }
            Stage::Running(mut run) => {
                self.is_alive = run.step(outside, self.is_stopping);
                if run.has_completed {
                    self.resumption.progressed();
                    self.losses = 0;
                }
                match run.lost.filter(|_| !self.is_alive) {
                    Some(loss) => {
                        self.lose_transaction(outside, loss);
                        Stage::Begun
                    }
                    None => Stage::Running(run),
                }
            }
        };
    }

    /// Ends because another process has the query.
    fn is_overtaken(&mut self, outside: &Outside) {
        assert!(
            self.generation.is_none() || self.generation < outside.newest_generation(),
            "the process that has the query ends for one that has not"
        );
        self.is_alive = false;
    }

    /// Pauses, if it is to go on.
    fn lose_transaction(&mut self, outside: &mut Outside, loss: Loss) {
        self.losses += 1;
        match self.resumption.lost(loss) {
            Some(pause) => {
                self.is_alive = true;
                self.stands_still_until_ms = outside.now_ms + pause.as_millis() as i64 / 100;
            }
            None => outside.tally.count(Event::GaveUp),
        }
        assert_eq!(self.is_alive, self.losses <= LOSSES_MAX, "after {} losses in a row", self.losses);
    }

    fn count_death(&self, tally: &mut Tally<Event>) {
        tally.count(match &self.stage {
            Stage::Running(run) => match (&run.in_flight, run.todo) {
                (Some(flight), Some(Command::Mark(_))) if flight.output.last.is_some() => {
                    Event::KilledBeforeMarker
                }
                (Some(_), _) => Event::KilledBeforeCommit,
                _ => Event::Killed,
            },
            _ => Event::KilledInClaim,
        });
    }
}

impl Run {
    fn new(producer_epoch: u64, saved: Saved, now_ms: i64) -> Self {
        let coordinator = Coordinator::new(BatchId(saved.batch + 1), 20, now_ms);
        let (sent, in_flight, todo) = (Vec::new(), None, None);
        Self {
            coordinator,
            producer_epoch,
            saved,
            sent,
            has_transaction: false,
            in_flight,
            todo,
            is_stored: false,
            has_completed: false,
            lost: None,
        }
    }

    /// True if it goes on.
    fn step(&mut self, outside: &mut Outside, is_stopping: bool) -> bool {
        let event = match outside.random.below(8) {
            0..=2 if !self.coordinator.holds_output() && self.saved.position < ROWS => {
                let number = self.saved.position;
                self.saved.position += 1;
                self.saved.total += number;
                let row = (number, self.saved.total);
                if has_output(&row) {
                    self.has_transaction = true;
                    self.sent.push(row);
                }
                return true;
            }
            3 if !self.sent.is_empty() => {
                let row = self.sent.remove(0);
                let is_taken = outside.kafka.send(self.producer_epoch, row);
                if !is_taken {
                    self.is_told_of_fence(outside);
                }
                return is_taken;
            }
            4 if is_stopping => Happened::Stop,
            5 => match &self.in_flight {
                Some(flight) if self.sent.is_empty() => Happened::Acknowledged(BatchId(flight.batch)),
                _ => return true,
            },
            6 => match (&self.in_flight, self.todo.take()) {
                (Some(_), Some(todo)) => match self.carry(outside, todo) {
                    Some(happened) => happened,
                    None => return false,
                },
                (Some(flight), None) if !self.is_stored => {
                    self.is_stored = true;
                    Happened::Stored(BatchId(flight.batch))
                }
                _ => return true,
            },
            _ => {
                let has_news = self.saved.position > outside.completed || self.has_transaction;
                Happened::Clock { now_ms: outside.now_ms, has_news, barrier: BarrierTime::WhenDue }
            }
        };
        let commands = self.coordinator.handle(event);
        commands.into_iter().all(|command| self.take(outside, command))
    }

    /// Kafka says the same to who is overtaken and to whose transaction was too old. The age of the transaction tells: one that
    /// brokers aborted is too old, and one of an overtaken process may be, too.
    fn is_told_of_fence(&mut self, outside: &mut Outside) {
        outside.tally.count(Event::FencedByKafka);
        let is_old = outside.kafka.expired == Some(self.producer_epoch) || outside.random.once_in(2);
        self.lost = Some(if is_old { Loss::Broken } else { Loss::Fenced });
    }

    /// Does what takes long, and says what came of it; nothing if that ends the process.
    fn carry(&mut self, outside: &mut Outside, todo: Command) -> Option<Happened> {
        let flight = self.in_flight.as_mut().expect("a checkpoint is in flight");
        let batch = BatchId(flight.batch);
        Some(match todo {
            Command::Prepare(_) => {
                outside.prepared.insert((flight.batch, flight.generation), flight.clone());
                Happened::Prepared(batch)
            }
            Command::Commit(_) => {
                let marker = OutputMarker { batch, generation: flight.generation };
                self.has_transaction = false;
                let Some(outcome) = outside.commit(self.producer_epoch, marker) else {
                    self.is_told_of_fence(outside);
                    return None;
                };
                outcome
            }
            Command::Mark(_) if outside.mark(flight) => Happened::Marked(batch),
            Command::Mark(_) => {
                outside.tally.count(Event::FencedByMarker);
                Happened::Fenced(batch)
            }
            other => unreachable!("{other:?} takes no time"),
        })
    }

    /// True if it goes on after a command.
    fn take(&mut self, outside: &mut Outside, command: Command) -> bool {
        match command {
            Command::Barrier(batch) => {
                let mut flight = Saved { batch: batch.0, ..self.saved.clone() };
                if self.has_transaction {
                    flight.output.last = Some(OutputMarker { batch, generation: flight.generation });
                    assert!(self.coordinator.handle(Happened::InTransaction(batch)).is_empty());
                }
                self.in_flight = Some(flight);
                self.is_stored = false;
            }
            Command::Prepare(_) | Command::Commit(_) | Command::Mark(_) => self.todo = Some(command),
            Command::Complete(batch) => {
                let flight = self.in_flight.take().expect("it was in flight");
                let has_output = flight.output.last.is_some_and(|last| last.batch == batch);
                outside.tally.count(if has_output {
                    Event::Completed
                } else {
                    Event::CompletedWithoutOutput
                });
                outside.completed = outside.completed.max(flight.position);
                self.has_completed = true;
                self.saved.output = flight.output;
            }
            Command::GiveUp(_) => {
                self.lost = Some(Loss::Broken);
                return false;
            }
            Command::Yield => {
                let newest = outside.newest_generation();
                assert!(
                    newest > Some(self.saved.generation),
                    "the process that has the query ends for one that has not"
                );
                return false;
            }
            Command::End => return false,
        }
        true
    }
}

fn world(seed: u64) -> Tally<Event> {
    let mut outside = Outside::new(seed);
    let mut lives = vec![Life::new()];
    for _ in 0..4000 {
        outside.now_ms += 1;
        let at = outside.random.below(lives.len());
        match outside.random.below(200) {
            0 => {
                lives.swap_remove(at).count_death(&mut outside.tally);
                lives.push(Life::new());
            }
            1 if lives.len() < 3 => {
                outside.tally.count(Event::Overtaken);
                lives.push(Life::new());
            }
            2 if outside.random.once_in(4)
                && outside.kafka.open.as_ref().is_some_and(|t| t.decided.is_none()) =>
            {
                outside.tally.count(Event::Expired);
                outside.kafka.open = None;
                outside.kafka.expired = Some(outside.kafka.producer_epoch);
                outside.kafka.producer_epoch += 1;
            }
            6 if outside.random.once_in(10) => {
                outside.tally.count(Event::Silent);
                outside.silent_until_ms = outside.now_ms + outside.random.below(2000) as i64;
            }
            3..=5 => {
                outside.tally.count(Event::StoodStill);
                lives[at].stands_still_until_ms = outside.now_ms + outside.random.below(500) as i64;
            }
            _ => lives[at].step(&mut outside),
        }
        lives.retain(|life| life.is_alive);
        if lives.is_empty() {
            lives.push(Life::new());
        }
        outside.check();
    }
    // The last process reads to the end, and is told to stop.
    lives.clear();
    let right = (0..ROWS).map(|number| (number, 0)).filter(has_output).count();
    for _ in 0..200_000 {
        outside.now_ms += 1;
        if lives.is_empty() {
            if outside.completed == ROWS && outside.kafka.committed.len() == right {
                break;
            }
            lives.push(Life::new());
        }
        lives[0].is_stopping = matches!(&lives[0].stage, Stage::Running(run) if run.saved.position == ROWS);
        lives[0].step(&mut outside);
        lives.retain(|life| life.is_alive);
    }
    outside.check();
    assert_eq!(outside.kafka.committed.len(), right, "all output is committed in the end");
    outside.tally
}

#[test]
fn output_is_committed_exactly_once_whatever_dies() {
    let worlds = Worlds { faults: 300_000, what: "output exactly once" };
    worlds.run(world, |tally, worlds| {
        tally.assert_each(worlds / 20);
        let ends = [
            Event::Killed,
            Event::KilledBeforeCommit,
            Event::KilledBeforeMarker,
            Event::KilledInClaim,
            Event::Overtaken,
            Event::CommitLost,
            Event::AnswerLost,
            Event::Expired,
        ];
        let crashes: u64 = ends.into_iter().map(|event| tally.of(event)).sum();
        assert!(crashes >= CRASHES_MIN, "{crashes} crashes");
    });
}
