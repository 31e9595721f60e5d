//! Syncs the journal's files on its own thread, and knows how much of the journal is on disk.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use yeoul_base::{Error, ErrorKind, Result, failpoint};
use yeoul_disk::Failure;

use crate::health::Health;
use crate::queue::Answer;
use crate::segment::Written;

/// Syncs the journal's files.
pub struct Syncer {
    state: Mutex<State>,
    changed: Condvar,
    health: Arc<Health>,
}

#[derive(Default)]
struct State {
    due: Option<Written>,
    /// Somebody waits for it: it is synced at once, together with what was written meanwhile.
    is_urgent: bool,
    /// All records below this are on disk, in segments or in a snapshot.
    synced: u64,
    /// Who waits until the records below a number are on disk; the lowest numbers first.
    waiting: VecDeque<(u64, Answer<Result<()>>)>,
    /// Since when the thread has been waiting for the disk.
    busy_since: Option<Instant>,
    has_failed: bool,
    stopped: bool,
}

impl Syncer {
    /// Starts the thread, which syncs each request after `interval`, or at once if somebody waits for it, and reports
    /// failures to `health`. All records below `synced` are on disk already.
    pub fn start(interval: Duration, synced: u64, health: Arc<Health>) -> Arc<Self> {
        let state = Mutex::new(State { synced, ..State::default() });
        let syncer = Arc::new(Self { state, changed: Condvar::new(), health });
        let ends = Ends(syncer.clone());
        let thread = std::thread::Builder::new().name("journal-sync".to_owned());
        let spawned = thread.spawn(move || {
            while let Some(due) = ends.0.next_due(interval) {
                failpoint("journal-sync");
                let synced = ends.0.sync(&due);
                ends.0.lock().busy_since = None;
                if synced.is_err() {
                    break;
                }
            }
        });
        if let Err(error) = spawned {
            syncer.fail(format!("cannot start a thread: {error}"));
        }
        syncer
    }

    /// Asks to sync what was written so far.
    pub fn request(&self, written: Written) {
        // An older request that this replaces is of the same segment, or was synced when that segment ended.
        if self.lock().due.replace(written).is_none() {
            self.changed.notify_all();
        }
    }

    /// Answers once the records below `next` are on disk, or cannot be brought there. What they are in was requested before.
    pub fn when_synced(&self, next: u64, answer: Answer<Result<()>>) {
        let mut state = self.lock();
        if state.has_failed {
            drop(state);
            answer(Err(not_synced()));
        } else if state.synced >= next {
            drop(state);
            answer(Ok(()));
        } else {
            let behind = state.waiting.back().is_none_or(|(last, _)| *last <= next);
            assert!(behind, "replies wait in the order of their records");
            state.waiting.push_back((next, answer));
            state.is_urgent = true;
            self.changed.notify_all();
        }
    }

    /// Syncs a segment now. Never retry after a failure: the kernel reports it once and drops the pages.
    pub fn sync(&self, written: &Written) -> Result<(), Failure> {
        if let Err(failure) = written.sync() {
            self.fail(format!("cannot bring records to the disk: {failure}"));
            return Err(failure);
        }
        // Records before this segment may be missing: then it proves nothing.
        let is_next = written.first <= self.lock().synced;
        if is_next {
            self.reached(written.end);
        }
        Ok(())
    }

    /// The records below `next` are on disk.
    pub fn reached(&self, next: u64) {
        let mut state = self.lock();
        state.synced = state.synced.max(next);
        let done = state.waiting.partition_point(|(next, _)| *next <= state.synced);
        let done: Vec<_> = state.waiting.drain(..done).collect();
        drop(state); // whoever is answered may ask something
        done.into_iter().for_each(|(_, answer)| answer(Ok(())));
    }

    /// Whether the disk has not answered for as long as `limit`.
    pub fn is_stalled(&self, now: Instant, limit: Duration) -> bool {
        self.lock().busy_since.is_some_and(|since| now.saturating_duration_since(since) >= limit)
    }

    /// All records below this are on disk.
    pub fn synced(&self) -> u64 {
        self.lock().synced
    }

    /// Ends the thread. The caller takes care of what was due.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Nothing more can be brought to the disk: who waits for it hears that, once the health knows it.
    fn fail(&self, why: String) {
        self.health.poison(why);
        let mut state = self.lock();
        state.has_failed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(|(_, answer)| answer(Err(not_synced())));
    }

    /// Waits for a request, and then for the interval or until somebody waits for it, so that records share a sync.
    fn next_due(&self, interval: Duration) -> Option<Written> {
        let mut state = self.lock();
        while state.due.is_none() && !state.stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let may_wait = |state: &mut State| !state.stopped && !state.is_urgent;
        let waited = self.changed.wait_timeout_while(state, interval, may_wait);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        if state.stopped {
            return None;
        }
        state.busy_since = Some(Instant::now());
        // Who comes from here on is not part of it, and has another one at once.
        state.is_urgent = false;
        state.due.take()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn not_synced() -> Error {
    Error::new(ErrorKind::Unavailable, "the journal could not be brought to the disk")
}

/// Reports a panic of the thread.
struct Ends(Arc<Syncer>);

impl Drop for Ends {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("the thread that syncs has panicked".to_owned());
        }
    }
}
