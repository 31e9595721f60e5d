//! Whether the journal has everything that it was given, and when it retries.
//!
//! | event                   | whole    | lacking                                              | poisoned |
//! | ----------------------- | -------- | ---------------------------------------------------- | -------- |
//! | a record is lost        | lacking  | lacking, also after a snapshot that has begun before | poisoned |
//! | a record is skipped     | lacking  | lacking                                              | poisoned |
//! | a sync fails            | poisoned | poisoned                                             | poisoned |
//! | a snapshot ends         | whole    | whole, or as below if a record was lost since it began | poisoned |
//! | a snapshot fails        | whole    | lacking                                              | poisoned |
//!
//! After a failed snapshot the next attempt waits longer. A journal whose only fault is a failed snapshot has all records,
//! in more files, and goes on. Whether a file can take records is a separate matter: the one that a snapshot begins takes
//! them while the journal still lacks some. A disk that does not answer is no fault yet: what waits for it may still be kept.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use yeoul_base::Error;
use yeoul_disk::Failure;

use crate::ended::Ended;

/// How long a journal that lacks records waits before its next attempt to be whole again: at first, and at most. Each
/// attempt may leave a file behind, so the wait doubles.
pub const RETRY_MIN: Duration = Duration::from_secs(5);
pub const RETRY_MAX: Duration = Duration::from_secs(300);
/// The same for one that lacks records: whoever depends on it fails until then, and a full disk may have room again.
pub const RETRY_LACKING_MAX: Duration = Duration::from_secs(20);

/// The condition of a journal; the table is in the [module](self)'s documentation.
#[derive(Debug)]
pub struct Health {
    inner: Mutex<Inner>,
    /// Wakes who waits until it is poisoned.
    ended: Ended,
}

#[derive(Debug)]
struct Inner {
    condition: Condition,
    /// Failures so far: a snapshot repairs those from before it began.
    faults: u64,
    snapshot_runs: bool,
    /// When the next snapshot may begin, if one has failed or is needed.
    retry_at: Option<Instant>,
    /// The wait after the next failure.
    retry: Duration,
    /// Snapshots that have failed since the last one that did not.
    failed_snapshots: u64,
}

#[derive(Debug)]
enum Condition {
    Whole,
    /// Records are missing in the files; the next snapshot has them.
    Lacking {
        why: String,
    },
    /// A sync failed. What the kernel still holds of the files is unknown, so it is never retried.
    Poisoned {
        why: String,
    },
}

impl Health {
    /// For a journal that was read and lacks nothing.
    pub fn new() -> Arc<Self> {
        let inner = Mutex::new(Inner {
            condition: Condition::Whole,
            faults: 0,
            snapshot_runs: false,
            retry_at: None,
            retry: RETRY_MIN,
            failed_snapshots: 0,
        });
        Arc::new(Self { inner, ended: Ended::default() })
    }

    /// A record was not written, or was refused.
    pub fn lacks(&self, now: Instant, why: String) {
        self.lock().lacks(now, why);
    }

    /// A record was not written because earlier ones were not. Their loss was reported, and what repairs it repairs this one
    /// too; if it was not, the journal is no longer whole.
    pub fn passes_over(&self, now: Instant) {
        self.lock().still_lacks(now, "records before these are missing");
    }

    /// A sync failed, or the thread that writes has ended: nothing is written any more.
    pub fn poison(&self, why: String) {
        // First the condition: who hears of the end and asks for the reason gets it.
        self.lock().poison(why.clone());
        self.ended.tell(&why);
    }

    /// For who waits until it is poisoned.
    pub fn ended(&self) -> &Ended {
        &self.ended
    }

    /// Whether anything may be written.
    pub fn takes_records(&self) -> bool {
        !matches!(self.lock().condition, Condition::Poisoned { .. })
    }

    /// Whether records are kept as promised.
    pub fn is_whole(&self) -> bool {
        matches!(self.lock().condition, Condition::Whole)
    }

    /// Whether a snapshot should begin: to become whole again, or because the journal has grown.
    pub fn wants_snapshot(&self, now: Instant, has_grown: bool) -> bool {
        let inner = self.lock();
        let is_wanted = match &inner.condition {
            Condition::Whole => has_grown,
            Condition::Lacking { .. } => true,
            Condition::Poisoned { .. } => false,
        };
        is_wanted && inner.retry_at.is_none_or(|retry_at| now >= retry_at) && !inner.snapshot_runs
    }

    /// Begins a snapshot of everything decided so far. No other begins before it ends.
    pub fn begin(self: &Arc<Self>) -> Attempt {
        let mut inner = self.lock();
        inner.snapshot_runs = true;
        Attempt { health: self.clone(), faults: inner.faults }
    }

    /// What is wrong, if something is.
    pub fn why(&self) -> Option<String> {
        match &self.lock().condition {
            Condition::Whole => None,
            Condition::Lacking { why } | Condition::Poisoned { why } => Some(why.clone()),
        }
    }

    /// How many snapshots have failed since the last one that did not: until one succeeds, the files grow.
    pub fn failed_snapshots(&self) -> u64 {
        self.lock().failed_snapshots
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn lacks(&mut self, now: Instant, reason: String) {
        self.faults += 1;
        match &mut self.condition {
            Condition::Poisoned { .. } => {}
            // However many are lost meanwhile, the time of the next attempt stays.
            Condition::Lacking { why } => *why = reason,
            Condition::Whole => {
                tracing::error!("the journal does not keep records any more: {reason}");
                self.condition = Condition::Lacking { why: reason };
                self.retries_later(now);
            }
        }
    }

    fn still_lacks(&mut self, now: Instant, reason: &str) {
        if let Condition::Whole = self.condition {
            self.lacks(now, reason.to_owned());
        }
    }

    /// Schedules the next attempt after a wait, and doubles the wait.
    fn retries_later(&mut self, now: Instant) {
        self.retry_at = Some(now + self.retry);
        let is_lacking = matches!(self.condition, Condition::Lacking { .. });
        self.retry = (2 * self.retry).min(if is_lacking { RETRY_LACKING_MAX } else { RETRY_MAX });
    }

    fn snapshot_failed(&mut self, now: Instant, reason: String) {
        self.failed_snapshots += 1;
        match &mut self.condition {
            Condition::Whole => tracing::warn!("the journal keeps records, and grows: {reason}"),
            Condition::Lacking { why } => *why = reason,
            Condition::Poisoned { .. } => return,
        }
        self.retries_later(now);
    }

    fn poison(&mut self, why: String) {
        self.faults += 1;
        if !matches!(self.condition, Condition::Poisoned { .. }) {
            tracing::error!("the journal does not keep records any more, until it is started again: {why}");
            self.condition = Condition::Poisoned { why };
        }
    }

    fn snapshot_ended(&mut self, now: Instant, faults: u64) {
        self.failed_snapshots = 0;
        if self.faults != faults {
            self.retries_later(now);
            return;
        }
        (self.retry_at, self.retry) = (None, RETRY_MIN);
        if let Condition::Lacking { .. } = self.condition {
            tracing::info!("the journal is whole again");
            self.condition = Condition::Whole;
        }
    }
}

/// Why a snapshot failed.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// A sync failed, of its file or of another that it depends on. It is not tried again.
    #[error(transparent)]
    Sync(Error),
    /// Another failure.
    #[error(transparent)]
    Other(Error),
}

impl From<Failure> for SnapshotError {
    fn from(failure: Failure) -> Self {
        if failure.is_of_sync() { Self::Sync(failure.into()) } else { Self::Other(failure.into()) }
    }
}

impl From<Error> for SnapshotError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// A snapshot in progress. If dropped without an end it was given up, and the next may begin.
pub struct Attempt {
    health: Arc<Health>,
    faults: u64,
}

impl Attempt {
    /// The snapshot has been written, or has failed.
    pub fn end(self, now: Instant, outcome: Result<(), SnapshotError>) {
        match outcome {
            Ok(()) => self.health.lock().snapshot_ended(now, self.faults),
            Err(SnapshotError::Sync(error)) => {
                self.health.poison(format!("cannot bring it to the disk: {error}"));
            }
            Err(SnapshotError::Other(error)) => {
                self.health.lock().snapshot_failed(now, format!("cannot write a snapshot: {error}"));
            }
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.health.lock().snapshot_runs = false;
    }
}

#[cfg(test)]
mod tests {
    use yeoul_base::ErrorKind;

    use super::*;

    fn sync_failed() -> Result<(), SnapshotError> {
        Err(SnapshotError::Sync(Error::new(ErrorKind::Unavailable, "fsync")))
    }

    fn failed() -> Result<(), SnapshotError> {
        Err(SnapshotError::Other(Error::new(ErrorKind::ResourceExhausted, "full")))
    }

    fn lacking(now: Instant) -> Arc<Health> {
        let health = Health::new();
        health.lacks(now, "first".to_owned());
        health
    }

    fn poisoned() -> Arc<Health> {
        let health = Health::new();
        health.poison("rotten".to_owned());
        health
    }

    fn assert_whole(health: &Health) {
        assert_eq!(health.why(), None);
        assert!(health.takes_records());
    }

    /// It waits until `retry_at`, whether it has grown or not.
    fn assert_lacking(health: &Health, why: &str, retry_at: Instant) {
        assert!(health.why().unwrap().contains(why), "{:?}", health.why());
        assert!(health.takes_records(), "the files that can take records get them");
        assert!(!health.wants_snapshot(retry_at - Duration::from_millis(1), true));
        assert!(health.wants_snapshot(retry_at, false));
    }

    fn assert_poisoned(health: &Health, now: Instant) {
        assert!(health.why().is_some());
        assert!(!health.takes_records());
        assert!(!health.wants_snapshot(now + 100 * RETRY_MAX, true));
    }

    #[test]
    fn a_record_is_lost() {
        let now = Instant::now();
        assert_lacking(&lacking(now), "first", now + RETRY_MIN);
        let health = lacking(now);
        // Each record that is refused while too much is queued reports it, and none of them postpones the attempt.
        (0..20).for_each(|_| health.lacks(now + RETRY_MIN / 2, "second".to_owned()));
        assert_lacking(&health, "second", now + RETRY_MIN);
        health.begin().end(now, failed());
        assert_lacking(&health, "full", now + 2 * RETRY_MIN);
        let health = poisoned();
        health.lacks(now, "second".to_owned());
        assert_poisoned(&health, now);
        assert_eq!(health.why().as_deref(), Some("rotten"));
    }

    #[test]
    fn a_sync_fails() {
        let now = Instant::now();
        assert_poisoned(&poisoned(), now);
        let health = lacking(now);
        health.poison("rotten".to_owned());
        assert_poisoned(&health, now);
        assert_eq!(health.why().as_deref(), Some("rotten"));
        let health = poisoned();
        health.poison("again".to_owned());
        assert_eq!(health.why().as_deref(), Some("rotten"), "the first says more than what follows from it");
        for health in [Health::new(), lacking(now)] {
            health.begin().end(now, sync_failed());
            assert_poisoned(&health, now);
        }
    }

    #[test]
    fn a_record_is_skipped() {
        let now = Instant::now();
        let health = Health::new();
        // Everything that waited reports it.
        (0..100).for_each(|_| health.passes_over(now));
        assert_lacking(&health, "are missing", now + RETRY_MIN);
        let health = lacking(now);
        health.passes_over(now);
        assert_lacking(&health, "first", now + RETRY_MIN);
        let attempt = health.begin();
        health.passes_over(now);
        attempt.end(now, Ok(()));
        assert_whole(&health);
        let health = poisoned();
        health.passes_over(now);
        assert_poisoned(&health, now);
    }

    #[tokio::test]
    async fn who_waits_for_the_end_hears_why_and_of_nothing_less() {
        let health = lacking(Instant::now());
        let waiting = tokio::spawn({
            let health = health.clone();
            async move { health.ended().wait().await.to_string() }
        });
        tokio::task::yield_now().await;
        health.begin().end(Instant::now(), failed());
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        health.poison("rotten".to_owned());
        assert_eq!(waiting.await.unwrap(), "the journal has ended: rotten");
        assert_eq!(health.ended().wait().await.to_string(), "the journal has ended: rotten");
    }

    #[test]
    fn a_snapshot_ends() {
        let now = Instant::now();
        let health = Health::new();
        health.begin().end(now, Ok(()));
        assert_whole(&health);
        let health = lacking(now);
        health.begin().end(now, Ok(()));
        assert_whole(&health);
        assert!(!health.wants_snapshot(now + RETRY_MAX, false));
        health.lacks(now, "later".to_owned());
        assert_lacking(&health, "later", now + RETRY_MIN);
        let health = lacking(now);
        let attempt = health.begin();
        health.lacks(now, "meanwhile".to_owned());
        attempt.end(now, Ok(()));
        assert_lacking(&health, "meanwhile", now + 2 * RETRY_MIN);
        let health = poisoned();
        health.begin().end(now, Ok(()));
        assert_poisoned(&health, now);
        let health = lacking(now);
        let attempt = health.begin();
        health.poison("meanwhile".to_owned());
        attempt.end(now, Ok(()));
        assert_poisoned(&health, now);
    }

    #[test]
    fn a_snapshot_fails() {
        let now = Instant::now();
        let health = Health::new();
        health.begin().end(now, failed());
        assert_whole(&health);
        assert!(!health.wants_snapshot(now + RETRY_MIN - Duration::from_millis(1), true));
        assert!(
            health.wants_snapshot(now + RETRY_MIN, true) && !health.wants_snapshot(now + RETRY_MIN, false)
        );
        health.begin().end(now, Ok(()));
        assert!(health.wants_snapshot(now, true), "what failed is over");
        let health = lacking(now);
        health.begin().end(now, failed());
        assert_lacking(&health, "full", now + 2 * RETRY_MIN);
        let health = poisoned();
        health.begin().end(now, failed());
        assert_poisoned(&health, now);
        assert_eq!(health.why().as_deref(), Some("rotten"));
    }

    #[test]
    fn attempts_become_rare_and_stay_bounded() {
        for is_whole in [true, false] {
            let (health, mut now) = (Health::new(), Instant::now());
            let mut waits = Vec::new();
            let mut wait = |now: Instant| {
                let due =
                    |seconds: &u64| health.wants_snapshot(now + Duration::from_secs(*seconds), is_whole);
                waits.push((0..).find(due).unwrap());
                now + Duration::from_secs(*waits.last().unwrap())
            };
            if !is_whole {
                health.lacks(now, "first".to_owned());
                now = wait(now);
            }
            for _ in 0..9 {
                health.begin().end(now, failed());
                now = wait(now);
            }
            let expected = if is_whole {
                [5, 10, 20, 40, 80, 160, 300, 300, 300]
            } else {
                [5, 10, 20, 20, 20, 20, 20, 20, 20]
            };
            assert_eq!(waits[..9], expected);
            assert_eq!(health.is_whole(), is_whole);
        }
    }

    #[test]
    fn one_snapshot_at_a_time_and_one_that_is_given_up_is_not_in_the_way() {
        let health = Health::new();
        let attempt = health.begin();
        assert!(!health.wants_snapshot(Instant::now(), true));
        drop(attempt);
        assert!(health.wants_snapshot(Instant::now(), true));
    }
}
