//! Where records are kept so that they outlive the process.

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

/// Keeps a master's records. One node's file is the first of these; a log that several masters agree on is the next, which
/// is why a reply waits for a future.
pub trait Journal: Send {
    /// Takes records in order, or none: a decision that changes nothing may rest on one whose records are on their way.
    /// Called while the state is locked, so that the journal's order is the state's, and so that it must not wait for a
    /// disk; the reply of the decision leaves when the future is done.
    fn append(&mut self, records: &[Record]) -> Kept;

    /// Whether the journal has grown enough for a snapshot, or needs one to be whole again.
    fn wants_snapshot(&self) -> bool;

    /// Begins a snapshot of the state as it is now, after all records appended so far. Called while the state is locked,
    /// and does not wait either; the work happens in what is returned, which runs on a thread of its own.
    fn snapshot(&mut self, records: Vec<Record>) -> Box<dyn FnOnce() + Send>;

    /// What is wrong, if records are not kept at the moment. The master goes on from memory: workers and applications
    /// would tell a successor most of what it does not know.
    fn fault(&self) -> Option<String>;
}

/// Done when the records, and all before them, are kept as the journal promises.
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
}
