//! What many ask for, and one of them does for all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Mutex;

use crate::error::{Error, Kind, Result};

/// One attempt at a time at something, whose outcome all share who wait for it: they do not try one by one.
#[derive(Default)]
pub(super) struct SharedAttempt {
    /// Attempts that failed.
    failures: Arc<AtomicUsize>,
    /// The error of the last attempt that failed. Locked during an attempt.
    failure: Arc<Mutex<Option<Error>>>,
}

impl SharedAttempt {
    /// True if an attempt goes on.
    pub fn is_running(&self) -> bool {
        self.failure.try_lock().is_err()
    }

    /// Waits until no attempt goes on.
    pub async fn settled(&self) {
        drop(self.failure.lock().await);
    }

    /// Result of `found`, or else the outcome of an attempt: one that ends while this waits, or a new one. It goes on
    /// in a task of its own, even if nobody waits for it any more.
    ///
    /// # Errors
    /// That of the attempt, or `Internal` if it did not end.
    pub async fn run<T, F>(
        &self,
        found: impl Fn() -> Option<T>,
        attempt: impl FnOnce() -> Result<F>,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let failures = self.failures.load(Ordering::Relaxed);
        let mut failure = Arc::clone(&self.failure).lock_owned().await;
        if let Some(found) = found() {
            return Ok(found);
        }
        if self.failures.load(Ordering::Relaxed) != failures
            && let Some(failure) = &*failure
        {
            return Err(failure.clone());
        }
        let (attempt, failures) = (attempt()?, Arc::clone(&self.failures));
        let trying = tokio::spawn(async move {
            let outcome = attempt.await;
            if let Err(error) = &outcome {
                *failure = Some(error.clone());
                failures.fetch_add(1, Ordering::Relaxed);
            }
            outcome
        });
        trying.await.unwrap_or_else(|error| {
            Err(Error::new(Kind::Internal, "what others wait for was not done to the end").with_source(error))
        })
    }
}
