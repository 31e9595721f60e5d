//! Lets several threads together go no faster than a limit.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::pace::Pace;

/// How long a thread that waits for its turn sleeps before it looks whether its work is still wanted.
const WAIT_STEP: Duration = Duration::from_millis(100);

/// A limit of bytes per second that threads share.
#[derive(Debug)]
pub struct Throttle {
    pace: Mutex<Pace>,
    began: Instant,
}

impl Throttle {
    /// At most so many bytes per second.
    pub fn new(bytes_per_second: u64) -> Self {
        Self { pace: Mutex::new(Pace::new(bytes_per_second)), began: Instant::now() }
    }

    /// Bytes per second.
    pub fn bytes_per_second(&self) -> u64 {
        self.pace().bytes_per_second()
    }

    /// Sets the bytes per second of what comes from now on.
    pub fn set_bytes_per_second(&self, bytes_per_second: u64) {
        self.pace().set_bytes_per_second(bytes_per_second);
    }

    /// Waits until so many bytes may move. `check` is called now and then meanwhile.
    ///
    /// # Errors
    /// Those of `check`, which end the wait.
    pub fn wait(&self, bytes: u64, mut check: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        let now = self.began.elapsed();
        let until = now + self.pace().wait(now, bytes);
        loop {
            check()?;
            let left = until.saturating_sub(self.began.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(WAIT_STEP));
        }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
