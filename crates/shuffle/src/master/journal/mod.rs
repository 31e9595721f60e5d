//! Keeps records so that they outlive the process.

mod directory;
mod file;
mod health;
pub mod layout;
pub mod parsed;
mod queue;
mod segment;
mod snapshot;
mod syncer;
mod writer;

use std::future::Future;
use std::pin::Pin;

use super::record::Record;
use crate::Result;

pub use self::file::{FileJournal, FileJournalOptions};

/// Keeps a master's records. The file of a single node is the first implementation; a log that several masters agree on is
/// to be the next, which is why a reply waits for a future.
pub trait Journal: Send {
    /// Takes records in order. There may be none: a decision that changes nothing may depend on one whose records are still
    /// on their way. Called while the state is locked, so that the journal has the order of the decisions; it must not wait
    /// for a disk. The reply to the decision leaves when the future resolves.
    fn append(&mut self, records: &[Record]) -> Kept;

    /// Whether the journal has grown enough for a snapshot, or needs one to become whole again.
    fn wants_snapshot(&self) -> bool;

    /// Begins a snapshot of the present state, after all records appended so far. Called while the state is locked, so it
    /// must not wait either; the returned function does the work, on a thread of its own.
    fn snapshot(&mut self, records: Vec<Record>) -> Box<dyn FnOnce() + Send>;

    /// What is wrong, if records are not kept at the moment. The master goes on from memory: from workers and applications a
    /// successor would learn most of what it lacks.
    fn fault(&self) -> Option<String>;

    /// How many snapshots have failed since the last one that did not. Meanwhile records are kept, and the journal grows.
    fn failed_snapshots(&self) -> u64;
}

/// Resolves when these records, and all before them, are kept as the journal promises.
pub type Kept = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Keeps nothing: for embedded masters that end with their workers.
#[derive(Debug, Default)]
pub struct NoJournal;

impl Journal for NoJournal {
    fn append(&mut self, _: &[Record]) -> Kept {
        Box::pin(std::future::ready(Ok(())))
    }

    fn wants_snapshot(&self) -> bool {
        false
    }

    fn snapshot(&mut self, _: Vec<Record>) -> Box<dyn FnOnce() + Send> {
        Box::new(|| {})
    }

    fn fault(&self) -> Option<String> {
        None
    }

    fn failed_snapshots(&self) -> u64 {
        0
    }
}
