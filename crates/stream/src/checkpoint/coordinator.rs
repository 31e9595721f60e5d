use crate::BatchId;

/// When checkpoints begin and when they are complete: one at a time, and rows go on meanwhile.
///
/// It decides and does nothing: a query tells it what happened ([`Event`]) and carries out what it answers ([`Command`]). The
/// order that it keeps: barrier; then all rows before the barrier acknowledged by the sinks, and the state's changes stored;
/// then the marker; then the sources may forget.
///
/// Output in a transaction takes two steps more before the marker: the manifest is prepared, durably, and then the transaction is
/// committed. A commit whose outcome is not known is neither aborted nor repeated by a later step: it gives up, and
/// whoever goes on asks Kafka ([`base`](super::base)). No transaction begins before the one before it is complete.
#[derive(Debug)]
pub struct Coordinator {
    interval_ms: i64,
    /// The epoch that is open: rows that come now belong to it.
    open: BatchId,
    last_barrier_ms: i64,
    in_flight: Option<InFlight>,
    phase: Phase,
}

/// A checkpoint between its barrier and its marker.
#[derive(Debug)]
struct InFlight {
    batch: BatchId,
    is_acknowledged: bool,
    is_stored: bool,
    /// Progress of its transaction; none if it has no output in one.
    output: Option<OutputStep>,
    is_marking: bool,
}

/// Progress of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputStep {
    Open,
    Preparing,
    Committing,
    Committed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// A last checkpoint is to be taken.
    Stopping,
    /// It is in flight.
    Draining,
    Ended,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Time went on; `has_news` says whether a checkpoint now would differ from the one before.
    Clock {
        /// Now, in milliseconds.
        now_ms: i64,
        /// Whether rows or the watermark moved since the last barrier.
        has_news: bool,
        /// When the next barrier may come.
        barrier: BarrierTime,
    },
    /// Sinks have everything up to the barrier of this epoch safe.
    Acknowledged(BatchId),
    /// The state's changes up to that barrier are on disk.
    Stored(BatchId),
    /// The epoch that ends has output in a transaction; said between its barrier and what comes after.
    InTransaction(BatchId),
    /// The manifest of this epoch is prepared: from now on its transaction may be committed.
    Prepared(BatchId),
    /// The transaction is committed.
    Committed(BatchId),
    /// The transaction was to be committed, and whether it is cannot be known.
    InDoubt(BatchId),
    /// The marker of this epoch is set.
    Marked(BatchId),
    /// The marker was set by somebody else: another process has the query.
    Fenced(BatchId),
    /// The query is to end after a last checkpoint.
    Stop,
}

/// When a barrier may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarrierTime {
    /// Once the interval is over.
    WhenDue,
    /// Now: a planned epoch is at its end.
    Now,
    /// Not yet: a planned epoch is not at its end, not even for a query that is to stop.
    NotYet,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// End the epoch: note where sources are, tell sinks, take the state's changes and store them.
    Barrier(BatchId),
    /// Store what the marker would be, without setting it.
    Prepare(BatchId),
    /// Commit the transaction of the epoch, with its name in it.
    Commit(BatchId),
    /// Stop at once, and neither commit nor abort: whoever goes on asks Kafka what became of the transaction.
    GiveUp(BatchId),
    /// Set the marker of the epoch.
    Mark(BatchId),
    /// The checkpoint is complete.
    Complete(BatchId),
    /// Stop at once and write nothing more: another process has the query.
    Yield,
    /// The query has ended.
    End,
}

impl Coordinator {
    /// A coordinator that goes on with `open`, the epoch after the last complete checkpoint.
    pub fn new(open: BatchId, interval_ms: i64, now_ms: i64) -> Self {
        Self { interval_ms, open, last_barrier_ms: now_ms, in_flight: None, phase: Phase::Running }
    }

    /// The epoch that is open.
    pub fn open(&self) -> BatchId {
        self.open
    }

    /// Milliseconds from `now_ms` to the next barrier; 0 if it is due.
    pub fn due_in_ms(&self, now_ms: i64) -> i64 {
        // A clock that was put back makes the wait no longer than an interval.
        (self.last_barrier_ms + self.interval_ms - now_ms).clamp(0, self.interval_ms)
    }

    /// True while an epoch's transaction is on its way to its commit: what comes now has to wait, for a producer has one at a time.
    pub fn holds_output(&self) -> bool {
        self.in_flight.as_ref().is_some_and(|flight| flight.output.is_some())
    }

    /// Takes an event, and says what is to be done.
    ///
    /// # Panics
    /// If a step that nobody asked for is said to be done.
    pub fn handle(&mut self, event: Event) -> Vec<Command> {
        if self.phase == Phase::Ended {
            return Vec::new();
        }
        match event {
            Event::Clock { now_ms, has_news, barrier } => return self.clock(now_ms, has_news, barrier),
            Event::Stop => {
                if self.phase == Phase::Running {
                    self.phase = Phase::Stopping;
                }
            }
            Event::Acknowledged(batch) => {
                if let Some(flight) = self.in_flight.as_mut().filter(|flight| flight.batch <= batch) {
                    flight.is_acknowledged = true;
                }
            }
            Event::Stored(batch) => {
                if let Some(flight) = self.in_flight.as_mut().filter(|flight| flight.batch == batch) {
                    flight.is_stored = true;
                }
            }
            Event::InTransaction(batch) => {
                let flight = self.flight(batch);
                assert!(flight.output.is_none() && !flight.is_marking, "said at the barrier");
                flight.output = Some(OutputStep::Open);
                return Vec::new();
            }
            Event::Prepared(batch) => {
                self.output_steps(batch, OutputStep::Preparing, OutputStep::Committing);
                return vec![Command::Commit(batch)];
            }
            Event::Committed(batch) => {
                self.output_steps(batch, OutputStep::Committing, OutputStep::Committed);
            }
            Event::InDoubt(batch) => {
                self.phase = Phase::Ended;
                return vec![Command::GiveUp(batch)];
            }
            Event::Marked(batch) => {
                let flight = self.in_flight.take().expect("a marker is set for a checkpoint in flight");
                assert!(
                    flight.batch == batch && flight.is_marking,
                    "the marker of {batch} was not asked for"
                );
                if self.phase == Phase::Draining {
                    self.phase = Phase::Ended;
                    return vec![Command::Complete(batch), Command::End];
                }
                return vec![Command::Complete(batch)];
            }
            Event::Fenced(_) => {
                self.phase = Phase::Ended;
                return vec![Command::Yield];
            }
        }
        self.mark()
    }

    fn clock(&mut self, now_ms: i64, has_news: bool, barrier: BarrierTime) -> Vec<Command> {
        if self.in_flight.is_some() || barrier == BarrierTime::NotYet {
            return Vec::new();
        }
        let is_last = self.phase == Phase::Stopping;
        let is_due = barrier == BarrierTime::Now || self.due_in_ms(now_ms) == 0;
        if !is_last && (!has_news || !is_due) {
            return Vec::new();
        }
        if is_last && !has_news {
            self.phase = Phase::Ended;
            return vec![Command::End];
        }
        if is_last {
            self.phase = Phase::Draining;
        }
        let batch = self.open;
        self.open = batch.next();
        self.last_barrier_ms = now_ms;
        self.in_flight = Some(InFlight {
            batch,
            is_acknowledged: false,
            is_stored: false,
            output: None,
            is_marking: false,
        });
        vec![Command::Barrier(batch)]
    }

    fn mark(&mut self) -> Vec<Command> {
        let Some(flight) = &mut self.in_flight else { return Vec::new() };
        if !flight.is_acknowledged || !flight.is_stored || flight.is_marking {
            return Vec::new();
        }
        match flight.output {
            None | Some(OutputStep::Committed) => {
                flight.is_marking = true;
                vec![Command::Mark(flight.batch)]
            }
            Some(OutputStep::Open) => {
                flight.output = Some(OutputStep::Preparing);
                vec![Command::Prepare(flight.batch)]
            }
            Some(OutputStep::Preparing | OutputStep::Committing) => Vec::new(),
        }
    }

    fn flight(&mut self, batch: BatchId) -> &mut InFlight {
        let flight = self.in_flight.as_mut().filter(|flight| flight.batch == batch);
        flight.expect("it is told of the checkpoint in flight")
    }

    fn output_steps(&mut self, batch: BatchId, from: OutputStep, to: OutputStep) {
        let flight = self.flight(batch);
        assert!(flight.output == Some(from), "the step of {batch} was not asked for");
        flight.output = Some(to);
    }
}

#[cfg(test)]
mod tests;
