use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use yeoul_base::{failpoint, failpoint_error};
use yeoul_net::supervise::must_not_panic;

use crate::BatchId;
use crate::checkpoint::wire::{Manifest, StateFile};
use crate::checkpoint::{CheckpointStore, CommitMarker, Marked, OutputMarker};
use crate::connectors::kafka::{CommitOutcome, Transactions};
use crate::error::{Error, ErrorKind, Result};
use crate::state::PartVersion;

/// The thread that writes a query's checkpoints, while its rows go on. It has at most one to write: the coordinator begins none
/// before the one before is complete.
pub(super) struct Checkpointer {
    todo: Option<Sender<Todo>>,
    outcomes: Receiver<Result<(Outcome, Duration)>>,
    thread: Option<JoinHandle<()>>,
}

enum Todo {
    Store { batch: BatchId, generation: u64, versions: Vec<PartVersion> },
    Prepare(Manifest),
    Commit(OutputMarker),
    Mark(Manifest),
}

/// What came of a part of a checkpoint.
pub(super) enum Outcome {
    /// The changes of all tables are on disk.
    Stored(Vec<StateFile>),
    /// The manifest is prepared.
    Prepared,
    /// The transaction was committed, or not.
    Committed(CommitOutcome),
    /// The marker was set, or not.
    Marked(Marked),
}

impl Checkpointer {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system has no thread.
    pub fn start(mut store: CheckpointStore, transactions: Option<Transactions>) -> Result<Self> {
        let (todo, list) = channel::<Todo>();
        let (tell, outcomes) = channel();
        let work = move || {
            for todo in list {
                let began = Instant::now();
                let outcome = match todo {
                    Todo::Store { batch, generation, versions } => {
                        failpoint("stream-before-state");
                        let stored = versions
                            .into_iter()
                            .map(|version| store.store(batch, generation, checked(version)));
                        let stored = stored.collect::<Result<_>>().map(Outcome::Stored);
                        failpoint("stream-after-state");
                        stored
                    }
                    Todo::Prepare(manifest) => {
                        failpoint("stream-before-prepare");
                        let prepared = store.prepare(&manifest).map(|()| Outcome::Prepared);
                        failpoint("stream-after-prepare");
                        prepared
                    }
                    Todo::Commit(marker) => {
                        let transactions = transactions.as_ref().expect("it has output in a transaction");
                        failpoint("stream-before-commit");
                        let mut committed = transactions.commit(marker);
                        if failpoint_error("stream-commit-answer").is_err() {
                            committed = Ok(transactions.lose_answer());
                        }
                        failpoint("stream-after-commit");
                        committed.map(Outcome::Committed)
                    }
                    Todo::Mark(manifest) => {
                        failpoint("stream-before-marker");
                        let marked = store.mark(&manifest).map(Outcome::Marked);
                        failpoint("stream-after-marker");
                        marked
                    }
                };
                if tell.send(outcome.map(|outcome| (outcome, began.elapsed()))).is_err() {
                    break;
                }
            }
        };
        let thread = thread::Builder::new().name("stream-checkpoint".to_owned()).spawn(work)?;
        Ok(Self { todo: Some(todo), outcomes, thread: Some(thread) })
    }

    /// Has the state's changes of an epoch stored.
    ///
    /// # Errors
    /// `Internal` if the thread broke.
    pub fn store(&self, batch: BatchId, generation: u64, versions: Vec<PartVersion>) -> Result<()> {
        self.send(Todo::Store { batch, generation, versions })
    }

    /// Has a marker set.
    ///
    /// # Errors
    /// `Internal` if the thread broke.
    pub fn mark(&self, manifest: Manifest) -> Result<()> {
        self.send(Todo::Mark(manifest))
    }

    /// Has a manifest prepared.
    ///
    /// # Errors
    /// `Internal` if the thread broke.
    pub fn prepare(&self, manifest: Manifest) -> Result<()> {
        self.send(Todo::Prepare(manifest))
    }

    /// Has the open transaction committed.
    ///
    /// # Errors
    /// `Internal` if the thread broke.
    pub fn commit(&self, marker: OutputMarker) -> Result<()> {
        self.send(Todo::Commit(marker))
    }

    fn send(&self, todo: Todo) -> Result<()> {
        let is_sent = self.todo.as_ref().is_some_and(|list| list.send(todo).is_ok());
        if is_sent { Ok(()) } else { Err(broke()) }
    }

    /// Outcome, and the time that it took, if it is known.
    ///
    /// # Errors
    /// If the state cannot be stored, or it cannot be known whether the marker is set.
    pub fn outcome(&self) -> Result<Option<(Outcome, Duration)>> {
        match self.outcomes.try_recv() {
            Ok(outcome) => outcome.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(broke()),
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.todo = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// A version whose rows are looked at on their way: the process ends, and its checkpoint stays as it was, if a shard has state of
/// another one's keys.
fn checked(of: PartVersion) -> PartVersion {
    let PartVersion { part, mut version } = of;
    if !part.partitions.is_all() {
        let partitions = part.partitions;
        version.rows = Box::new(version.rows.inspect(move |rows| {
            if let Ok(rows) = rows {
                must_not_panic("stream", "division of state among shards", || partitions.assert_holds(rows));
            }
        }));
    }
    PartVersion { part, version }
}

fn broke() -> Error {
    Error::new(ErrorKind::Internal, "the thread that writes checkpoints broke")
}
