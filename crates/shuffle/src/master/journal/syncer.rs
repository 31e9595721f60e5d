//! Syncs the journal's files on its own thread, and knows how much of the journal is on disk.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::health::Health;
use super::segment::Unsynced;
use crate::Result;

/// Syncs the journal's files.
pub struct Syncer {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    due: Option<Unsynced>,
    /// All entries below this are on disk, or in a snapshot on disk, or were never written.
    synced: u64,
    /// Since when the thread has been waiting for the disk.
    waits_since: Option<Instant>,
    stopped: bool,
}

impl Syncer {
    /// Starts the thread, which syncs each request after `interval` and reports failures to `health`. All entries below
    /// `synced` are on disk already.
    pub fn start(interval: Duration, synced: u64, health: Arc<Health>) -> Arc<Self> {
        let state = Mutex::new(State { synced, ..State::default() });
        let syncer = Arc::new(Self { state, changed: Condvar::new() });
        let (shared, of_thread) = (syncer.clone(), health.clone());
        let thread = std::thread::Builder::new().name("journal-sync".to_owned());
        let spawned = thread.spawn(move || {
            while let Some(due) = shared.next_due(interval) {
                let synced = shared.sync(&due);
                shared.lock().waits_since = None;
                if let Err(error) = synced {
                    of_thread.poison(format!("cannot bring records to the disk: {error}"));
                }
            }
        });
        if let Err(error) = spawned {
            health.poison(format!("cannot start a thread: {error}"));
        }
        syncer
    }

    /// Asks to sync what was written so far.
    pub fn request(&self, written: Unsynced) {
        // An older request that this replaces is of the same segment, or is synced by the snapshot that ended its segment.
        if self.lock().due.replace(written).is_none() {
            self.changed.notify_all();
        }
    }

    /// Syncs a segment now. Never retry after a failure: the kernel reports it once and drops the pages.
    pub fn sync(&self, written: &Unsynced) -> Result<()> {
        written.sync()?;
        let mut state = self.lock();
        // A segment may be synced before its predecessor; that alone proves nothing.
        if written.first <= state.synced {
            state.synced = state.synced.max(written.next);
        }
        Ok(())
    }

    /// A snapshot of everything before `next` is on disk.
    pub fn has_snapshot(&self, next: u64) {
        let mut state = self.lock();
        state.synced = state.synced.max(next);
    }

    /// Whether the disk has not answered for as long as `limit`.
    pub fn is_stalled(&self, now: Instant, limit: Duration) -> bool {
        self.lock().waits_since.is_some_and(|since| now.saturating_duration_since(since) >= limit)
    }

    /// All entries below this are on disk.
    pub fn synced(&self) -> u64 {
        self.lock().synced
    }

    /// Ends the thread. The caller takes care of what was due.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Waits for a request and then for the interval, so that records share an fsync.
    fn next_due(&self, interval: Duration) -> Option<Unsynced> {
        let mut state = self.lock();
        while state.due.is_none() && !state.stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if !state.stopped {
            let waited = self.changed.wait_timeout_while(state, interval, |state| !state.stopped);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.stopped {
            return None;
        }
        state.waits_since = Some(Instant::now());
        state.due.take()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
