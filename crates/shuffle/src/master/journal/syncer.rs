//! Brings the journal's files to the disk, on a thread of its own, and knows how much of the journal is there.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::health::Health;
use super::segment::Unsynced;
use crate::Result;

/// See the [module](self).
pub struct Syncer {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    due: Option<Unsynced>,
    /// All entries below are on the disk, or in a snapshot that is, or were never written.
    synced: u64,
    /// Since when the thread waits for the disk.
    waits_since: Option<Instant>,
    stopped: bool,
}

impl Syncer {
    /// What is due reaches the disk after `interval`; what goes wrong is said to `health`. All entries below `synced` are
    /// there.
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

    /// Asks for what was written so far.
    pub fn request(&self, written: Unsynced) {
        // One that was due before is brought to the disk by the snapshot that ended it.
        if self.lock().due.replace(written).is_none() {
            self.changed.notify_all();
        }
    }

    /// Brings a segment to the disk now. Not to be asked again when it fails: the kernel says so once, and forgets what it
    /// held.
    pub fn sync(&self, written: &Unsynced) -> Result<()> {
        written.sync()?;
        let mut state = self.lock();
        // A segment may get there before the one that it follows, and says nothing of that.
        if written.first <= state.synced {
            state.synced = state.synced.max(written.next);
        }
        Ok(())
    }

    /// A snapshot of what is before `next` is on the disk.
    pub fn has_snapshot(&self, next: u64) {
        let mut state = self.lock();
        state.synced = state.synced.max(next);
    }

    /// Whether the disk has not answered for as long as `limit`.
    pub fn is_stalled(&self, now: Instant, limit: Duration) -> bool {
        self.lock().waits_since.is_some_and(|since| now.saturating_duration_since(since) >= limit)
    }

    /// All entries below are on the disk.
    pub fn synced(&self) -> u64 {
        self.lock().synced
    }

    /// Ends the thread. What was due is left to the caller.
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
