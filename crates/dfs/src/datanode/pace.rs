//! How fast something may go.

use std::time::Duration;

/// A limit of bytes per second. What is over it is paid by waiting.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    bytes_per_second: u64,
    /// When all bytes so far are paid, since some beginning.
    paid_at: Duration,
}

impl Pace {
    /// At most so many bytes per second; 0 counts as one.
    pub fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1), paid_at: Duration::ZERO }
    }

    /// Bytes per second.
    pub fn bytes_per_second(&self) -> u64 {
        self.bytes_per_second
    }

    /// Sets the bytes per second of what comes from now on; 0 counts as one.
    pub fn set_bytes_per_second(&mut self, bytes_per_second: u64) {
        self.bytes_per_second = bytes_per_second.max(1);
    }

    /// How long to wait before so many bytes more, `now` being the time since the beginning.
    pub fn wait(&mut self, now: Duration, bytes: u64) -> Duration {
        let wait = self.paid_at.saturating_sub(now);
        // Time that passed unused is not saved up.
        let cost = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        self.paid_at = self.paid_at.max(now) + cost;
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_paid_by_waiting_and_rest_is_not_saved_up() {
        let mut pace = Pace::new(1000);
        let seconds = Duration::from_secs;
        assert_eq!(pace.wait(seconds(5), 2000), seconds(0));
        assert_eq!(pace.wait(seconds(5), 1000), seconds(2));
        assert_eq!(pace.wait(seconds(8), 1000), seconds(0));
        assert_eq!(pace.wait(seconds(100), 1000), seconds(0));
        assert_eq!(pace.wait(seconds(100), 1000), seconds(1));
        pace.set_bytes_per_second(500);
        assert_eq!(pace.bytes_per_second(), 500);
        assert_eq!(pace.wait(seconds(200), 1000), seconds(0));
        assert_eq!(pace.wait(seconds(200), 1000), seconds(2));
    }
}
