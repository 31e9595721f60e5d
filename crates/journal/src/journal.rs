use std::future::Future;
use std::pin::Pin;

use yeoul_base::{Error, Result};

use crate::Record;

/// When an append counts as kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// Written to the file: it survives the process, however that ends. A power failure may take what was not synced yet.
    Written,
    /// Synced: it survives a power failure.
    Synced,
}

/// Resolves when the records of an append, and all before them, are kept as was promised.
///
/// # Errors
/// `Unavailable` or another kind, if they are not, or not in time: they may be found after a restart or not. Who depends on
/// them gets an error, not an answer. Meanwhile the owner may go on: once the journal is whole again, what follows is kept.
pub type Kept = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Resolves to the number of the first record of a new file, once all records before it are on the disk in files that do not change
/// any more.
///
/// # Errors
/// `Unavailable` or another kind, if they are not, or not in time. The journal goes on in the file that it had.
pub type Begun = Pin<Box<dyn Future<Output = Result<u64>> + Send>>;

/// Keeps an owner's records so that they outlive the process. [`FileJournal`](crate::FileJournal) keeps them in the files of
/// one machine; a log that several machines agree on can take its place.
///
/// The owner calls these while it has locked its state, so that the journal has the order of its decisions. None of them
/// waits for a disk.
pub trait Journal<R: Record>: Send {
    /// Takes records in order. There may be none: a decision that changes nothing may depend on one whose records are still
    /// on their way. The reply to the decision waits for what is returned.
    fn append(&mut self, records: &[R], promise: Promise) -> Kept;

    /// Whether the journal has grown enough for a snapshot, or needs one to become whole again.
    fn wants_snapshot(&self) -> bool;

    /// Begins a snapshot behind all records appended so far. The owner then [writes](Snapshot::write) it on a thread for
    /// files, without its lock.
    fn begin_snapshot(&mut self) -> Snapshot<R>;

    /// Ends the current file behind all records appended so far, and goes on in a new one; the current one stays if it has no record
    /// yet. All files are read at a start, and go with the next snapshot.
    fn begin_segment(&mut self) -> Begun;

    /// What is wrong, if records are not kept at the moment.
    fn fault(&self) -> Option<String>;

    /// How many snapshots have failed since the last one that did not. Meanwhile records are kept, and the journal grows.
    fn failed_snapshots(&self) -> u64;

    /// Resolves when nothing will be kept any more until the process starts again: a sync has failed, or a thread of the
    /// journal has panicked. A server that cannot answer without its journal ends then.
    fn ended(&self) -> Pin<Box<dyn Future<Output = Error> + Send>>;
}

/// A snapshot that was begun. If it is dropped it is given up, and the next one may begin.
#[must_use = "a snapshot that is dropped is given up"]
pub struct Snapshot<R>(Box<Write<R>>);

type Write<R> = dyn FnOnce(&mut dyn Iterator<Item = R>) + Send;

impl<R> Snapshot<R> {
    /// One that `write` carries out.
    pub fn new(write: impl FnOnce(&mut dyn Iterator<Item = R>) + Send + 'static) -> Self {
        Self(Box::new(write))
    }

    /// Writes the records that make the state out of an empty one, as they come. Blocks. How it ended is known to the
    /// journal.
    ///
    /// The records may be of the moment when the snapshot began, or be read part by part while the state changes: all
    /// records since the beginning are applied over them after a restart, and the snapshot counts only once those are on the
    /// disk. Part by part is right if applying a record to a state that has its effect already changes nothing more, and if
    /// its effect does not depend on a part that may have been read earlier or later.
    pub fn write(self, mut records: impl Iterator<Item = R>) {
        (self.0)(&mut records);
    }
}

/// Keeps nothing: for embedded owners that end with those who depend on them.
#[derive(Debug, Default)]
pub struct NoJournal;

impl<R: Record> Journal<R> for NoJournal {
    fn append(&mut self, _: &[R], _: Promise) -> Kept {
        Box::pin(std::future::ready(Ok(())))
    }

    fn wants_snapshot(&self) -> bool {
        false
    }

    fn begin_snapshot(&mut self) -> Snapshot<R> {
        Snapshot::new(|_| ())
    }

    fn begin_segment(&mut self) -> Begun {
        Box::pin(std::future::ready(Ok(0)))
    }

    fn fault(&self) -> Option<String> {
        None
    }

    fn failed_snapshots(&self) -> u64 {
        0
    }

    fn ended(&self) -> Pin<Box<dyn Future<Output = Error> + Send>> {
        Box::pin(std::future::pending())
    }
}
