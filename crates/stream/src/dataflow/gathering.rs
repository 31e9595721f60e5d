use std::time::{Duration, Instant};

/// Rows of a second from which on polls are spread.
const RATE_MIN: u64 = 4000;
/// Time over which rows are counted.
const WINDOW: Duration = Duration::from_millis(100);
/// Time from one poll to the next.
const EACH: Duration = Duration::from_millis(2);
/// Rows of a poll that is large enough by itself.
const ENOUGH_ROWS: usize = 256;

/// Pauses between polls of a source that gives many rows, a few at a time: what each poll costs is most of what they cost. Batches grow
/// with the rate, and a row waits for less than the pause. Rows that come rarely wait for nothing, and neither does a backlog.
#[derive(Debug)]
pub(super) struct Gathering {
    polled: Instant,
    last_rows: usize,
    window: Instant,
    rows: u64,
    is_busy: bool,
}

impl Gathering {
    /// No rows yet.
    pub fn new(now: Instant) -> Self {
        Self { polled: now, last_rows: 0, window: now, rows: 0, is_busy: false }
    }

    /// Time to wait before the next poll.
    pub fn pause(&self, now: Instant) -> Duration {
        let is_small = (1..ENOUGH_ROWS).contains(&self.last_rows);
        if self.is_busy && is_small {
            (self.polled + EACH).saturating_duration_since(now)
        } else {
            Duration::ZERO
        }
    }

    /// Takes in that a poll gave so many rows, and whether there may be a pause after it.
    pub fn polled(&mut self, rows: usize, may_pause: bool, now: Instant) {
        let time = now.saturating_duration_since(self.window);
        if time >= WINDOW {
            let wanted = u128::from(RATE_MIN) * time.as_micros();
            self.is_busy = u128::from(self.rows) * 1_000_000 >= wanted;
            (self.window, self.rows) = (now, 0);
        }
        self.rows += rows as u64;
        (self.polled, self.last_rows) = (now, if may_pause { rows } else { 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls each so many microseconds, with so many rows, for half a second; the last pause.
    fn pause_after(each_us: u64, rows: usize) -> Duration {
        let mut now = Instant::now();
        let mut gathering = Gathering::new(now);
        for _ in 0..500_000 / each_us {
            now += Duration::from_micros(each_us);
            gathering.polled(rows, true, now);
        }
        gathering.pause(now + Duration::from_micros(500))
    }

    #[test]
    fn many_small_polls_are_spread_and_no_others() {
        let left = EACH - Duration::from_micros(500);
        assert_eq!(pause_after(500, 5), left, "10,000 rows a second");
        assert_eq!(pause_after(2000, 20), left, "the same once they are spread");
        assert_eq!(pause_after(1000, 1), Duration::ZERO, "1,000 rows a second");
        assert_eq!(pause_after(1000, 5000), Duration::ZERO, "a backlog");
        assert_eq!(pause_after(500, 0), Duration::ZERO, "nothing");
    }

    #[test]
    fn a_poll_without_rows_ends_the_pauses() {
        let begin = Instant::now();
        let mut gathering = Gathering::new(begin);
        for at in 1..400 {
            gathering.polled(10, true, begin + Duration::from_millis(at));
        }
        let now = begin + Duration::from_millis(400);
        assert!(!gathering.pause(now).is_zero());
        // Another input has its turn.
        gathering.polled(10, false, now);
        assert_eq!(gathering.pause(now), Duration::ZERO);
        gathering.polled(0, true, now);
        assert_eq!(gathering.pause(now), Duration::ZERO);
        // And a while without any ends the time of many rows.
        gathering.polled(1, true, now + Duration::from_secs(1));
        assert_eq!(gathering.pause(now + Duration::from_secs(1)), Duration::ZERO);
    }
}
