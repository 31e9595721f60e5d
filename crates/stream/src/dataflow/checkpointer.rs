use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use yeoul_base::{failpoint, failpoint_error};
use yeoul_net::supervise::must_not_panic;

use super::opened::taken_over;
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
    /// Starts the thread of a query that this process has as `generation`.
    ///
    /// # Errors
    /// If the system has no thread.
    pub fn start(
        query: &str,
        generation: u64,
        mut store: CheckpointStore,
        transactions: Option<Transactions>,
    ) -> Result<Self> {
        let (todo, list) = channel::<Todo>();
        let (tell, outcomes) = channel();
        let name = query.to_owned();
        let work = move || {
            for todo in list {
                let began = Instant::now();
                let outcome: Result<Outcome> = match todo {
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
                let outcome = outcome.map_err(|error| match store.newest_generation() {
                    // Whoever has the query removes what an older process was about to put in its place.
                    Ok(newest) if newest > Some(generation) => taken_over(&name).with_source(error),
                    _ => error,
                });
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
    /// If the state cannot be stored, or it cannot be known whether the marker is set; `Conflict` if another process has taken the
    /// query over meanwhile.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustix::io::Errno;
    use yeoul_disk::{Disk, Fault, FaultyDisk, Operation, RealDisk};

    use super::*;
    use crate::checkpoint::Claim;
    use crate::checkpoint::storage::LocalFolder;

    fn claim() -> Claim<'static> {
        Claim {
            sources: Vec::new(),
            state_identity: None,
            initial_offsets: Box::new(|| Ok(Vec::new())),
            output: None,
            now_ms: 0,
        }
    }

    #[test]
    fn a_process_whose_files_the_next_one_removed_says_that_it_lost_the_query() {
        for is_taken_over in [false, true] {
            let place = tempfile::tempdir().unwrap();
            let disk = FaultyDisk::over(Arc::new(RealDisk));
            let open = |disk: Arc<dyn Disk>| {
                CheckpointStore::open(Arc::new(LocalFolder::new(disk, place.path())), 100).unwrap()
            };
            let mut store = open(Arc::clone(&disk) as Arc<dyn Disk>);
            let claimed = store.claim(claim()).unwrap().manifest;
            if is_taken_over {
                open(Arc::new(RealDisk)).claim(claim()).unwrap();
            }
            let fault = disk.inject(Fault::fails(Operation::Rename, Errno::NOENT));
            let checkpointer = Checkpointer::start("totals", claimed.generation, store, None).unwrap();
            checkpointer.prepare(claimed).unwrap();
            let outcome = checkpointer.outcomes.recv().unwrap();
            let error = outcome.map(drop).unwrap_err();
            assert_eq!(fault.happened(), 1);
            if is_taken_over {
                assert_eq!(error.kind(), ErrorKind::Conflict);
                assert_eq!(error.to_string(), "another process has taken the query 'totals' over");
            } else {
                assert_eq!(error.kind(), ErrorKind::NotFound);
            }
        }
    }
}
