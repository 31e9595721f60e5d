//! The pace of a line in the log about something that may happen thousands of times a second.

use std::time::{Duration, Instant};

/// The time between two lines.
const SAY_EVERY: Duration = Duration::from_secs(30);

/// Counts events, and says when a line about them is due: at once for the first, then every 30 s.
#[derive(Debug, Default)]
pub struct LogPace {
    events: u64,
    said: Option<Instant>,
}

impl LogPace {
    /// One more event.
    pub fn count(&mut self) {
        self.events += 1;
    }

    /// How many events there were since the last line, if there were any and it is time for another one.
    pub fn take_due(&mut self, now: Instant) -> Option<u64> {
        if self.events == 0 || self.said.is_some_and(|said| now.duration_since(said) < SAY_EVERY) {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_said_once_in_a_while_with_their_number() {
        let (begin, mut pace, mut said) = (Instant::now(), LogPace::default(), Vec::new());
        assert_eq!(pace.take_due(begin), None);
        // One each second.
        for second in 0..=61 {
            pace.count();
            said.extend(pace.take_due(begin + Duration::from_secs(second)));
        }
        assert_eq!(said, [1, 30, 30]);
    }
}
