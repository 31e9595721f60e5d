//! How tasks treat workers.

use std::time::Duration;

use tokio::sync::Semaphore;

use super::writer::BEGUN_PER_WINDOW;
use crate::error::{Error, Kind, Result};

/// The most batches on their way to one worker: a semaphore counts those that a writer has begun.
pub(in crate::client) const WINDOW_MAX: usize = Semaphore::MAX_PERMITS / BEGUN_PER_WINDOW;

/// The longest that can be waited for something, within what clocks can tell: a year.
pub(in crate::client) const WAIT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// The most bytes for which batches wait to be pushed together.
pub(in crate::client) const MERGE_LEN_MAX: usize = 8 << 20;

/// Times that what could not be reached is asked again.
pub(in crate::client) const RETRIES_MAX: u32 = 3;

/// Knowledge that tasks need of an application's options, which say what each of these means, and of an executor's.
#[derive(Debug, Clone, Copy)]
pub(in crate::client) struct TaskOptions {
    pub window: usize,
    pub merge_len: usize,
    pub revives_max: usize,
    pub push_max: Duration,
    pub request_max: Duration,
    pub retry_wait: Duration,
    pub chunks_ahead: usize,
}

impl TaskOptions {
    /// Refuses what cannot work.
    ///
    /// # Errors
    /// `Invalid` for that.
    pub fn check(&self) -> Result<()> {
        let invalid = |text: String| Err(Error::new(Kind::Invalid, text));
        if !(1..=WINDOW_MAX).contains(&self.window) {
            return invalid(format!("the window is {} batches, expected 1 to {WINDOW_MAX}", self.window));
        }
        if self.merge_len > MERGE_LEN_MAX {
            let found = self.merge_len;
            return invalid(format!(
                "batches are to be merged up to {found} bytes, expected at most {MERGE_LEN_MAX}"
            ));
        }
        let longest = self.push_max.max(self.request_max).max(self.retry_wait);
        if longest > WAIT_MAX {
            return invalid(format!("a wait of {longest:?} for an answer, expected at most {WAIT_MAX:?}"));
        }
        Ok(())
    }

    /// Back-off before retry `retry`, counted from 1; doubles each time.
    pub fn retry_wait(&self, retry: u32) -> Duration {
        self.retry_wait * (1 << (retry - 1))
    }
}
