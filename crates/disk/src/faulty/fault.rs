use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

use super::power::Unsynced;

/// What a disk is asked to do, as faults name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Make a folder.
    CreateFolder,
    /// List a folder.
    List,
    /// Open a file, whether it is made or not.
    Open,
    /// Read from a file.
    Read,
    /// Write to a file.
    Write,
    /// Cut or extend a file.
    SetLen,
    /// Sync a file.
    Sync,
    /// Sync a folder.
    SyncFolder,
    /// Rename a file.
    Rename,
    /// Remove a file or folder.
    Remove,
    /// Ask for the space.
    Space,
}

/// A fault to [inject](super::FaultyDisk::inject).
#[derive(Debug, Clone)]
pub struct Fault {
    operation: Option<Operation>,
    how: How,
    times: u64,
    within: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
enum How {
    Fails(Errno),
    /// Some bytes are written before it fails.
    Tears(usize, Errno),
    Hangs,
}

impl Fault {
    /// The operation fails.
    pub fn fails(operation: Operation, errno: Errno) -> Self {
        Self { operation: Some(operation), how: How::Fails(errno), times: u64::MAX, within: Vec::new() }
    }

    /// Every operation fails: as when the process is killed, nothing that it still does reaches the files.
    pub fn fails_all(errno: Errno) -> Self {
        Self { operation: None, ..Self::fails(Operation::Open, errno) }
    }

    /// A write fails after that many bytes have been written.
    pub fn tears(bytes: usize, errno: Errno) -> Self {
        Self { how: How::Tears(bytes, errno), ..Self::fails(Operation::Write, errno) }
    }

    /// The operation waits until the injection is dropped, and is then carried out.
    pub fn hangs(operation: Operation) -> Self {
        Self { how: How::Hangs, ..Self::fails(operation, Errno::IO) }
    }

    /// Only so often; else until the injection is dropped.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        Self { times, ..self }
    }

    /// Only on paths that contain this text, and each other one that is given.
    #[must_use]
    pub fn within(mut self, text: impl Into<String>) -> Self {
        self.within.push(text.into());
        self
    }

    fn is_of(&self, operation: Operation, path: &Path) -> bool {
        self.operation.is_none_or(|wanted| wanted == operation)
            && self.within.iter().all(|text| path.to_string_lossy().contains(text))
    }
}

/// A fault in force. It ends when this is dropped.
#[derive(Debug)]
#[must_use = "the fault ends when this is dropped"]
pub struct Injection {
    faults: Arc<Faults>,
    id: u64,
    happened: Arc<AtomicU64>,
}

impl Injection {
    /// How often it has happened: a test of a fault asserts that it did.
    pub fn happened(&self) -> u64 {
        self.happened.load(Ordering::SeqCst)
    }

    /// Blocks until it has happened.
    ///
    /// # Panics
    /// If it does not happen within a minute.
    pub fn wait(&self) {
        const WAIT_MAX: Duration = Duration::from_secs(60);
        let state = self.faults.lock();
        let waited = self.faults.changed.wait_timeout_while(state, WAIT_MAX, |_| self.happened() == 0);
        let timeout = waited.unwrap_or_else(PoisonError::into_inner).1;
        assert!(!timeout.timed_out(), "the fault has not happened");
    }
}

impl Drop for Injection {
    fn drop(&mut self) {
        self.faults.lock().active.retain(|active| active.id != self.id);
        self.faults.changed.notify_all();
    }
}

/// The faults of one disk, and what its files have not on the disk yet.
#[derive(Debug, Default)]
pub(super) struct Faults {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct State {
    active: Vec<Active>,
    next_id: u64,
    counts: BTreeMap<Operation, u64>,
    pub unsynced: Unsynced,
}

#[derive(Debug)]
struct Active {
    id: u64,
    fault: Fault,
    left: u64,
    happened: Arc<AtomicU64>,
}

impl Faults {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn inject(self: &Arc<Self>, fault: Fault) -> Injection {
        let mut state = self.lock();
        let (id, happened) = (state.next_id, Arc::new(AtomicU64::new(0)));
        state.next_id += 1;
        let left = fault.times;
        state.active.push(Active { id, fault, left, happened: happened.clone() });
        Injection { faults: self.clone(), id, happened }
    }

    pub fn count(&self, operation: Operation) -> u64 {
        self.lock().counts.get(&operation).copied().unwrap_or(0)
    }

    /// Fails or waits as it should; else, of a write, how many bytes it writes before it fails with the error.
    pub fn meet(&self, operation: Operation, path: &Path) -> io::Result<Option<(usize, Errno)>> {
        let mut state = self.lock();
        *state.counts.entry(operation).or_default() += 1;
        let meets = |active: &&mut Active| active.left > 0 && active.fault.is_of(operation, path);
        let Some(active) = state.active.iter_mut().find(meets) else { return Ok(None) };
        active.left -= 1;
        active.happened.fetch_add(1, Ordering::SeqCst);
        let (id, how) = (active.id, active.fault.how);
        self.changed.notify_all();
        match how {
            How::Fails(errno) => Err(errno.into()),
            How::Tears(bytes, errno) => Ok(Some((bytes, errno))),
            How::Hangs => {
                let hangs = |state: &mut State| state.active.iter().any(|active| active.id == id);
                drop(self.changed.wait_while(state, hangs));
                Ok(None)
            }
        }
    }
}
