use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::Now;

/// The two clocks of this process.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock whose steady time begins now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time.
    pub fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let milliseconds = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Now { wall_ms: milliseconds(wall), steady_ms: milliseconds(self.0.elapsed()) }
    }
}
