//! Estimates when the current frame arrived: the kernel does not say, and it may have waited in the socket behind
//! others, which makes it as late for its client as waiting here.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// A peer with bytes to send would have sent some within this time, even if the socket had been full.
const PAUSE: Duration = Duration::from_millis(100);

/// A lower bound for that time.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// The most frames that a peer has in flight: it sends one only when the one that many before it has been answered. With
    /// several clients on one connection the bound is too late by that many times what so many answers take.
    window: usize,
    /// When bytes came after a pause in which the peer had none to send.
    caught_up: Instant,
    /// When the heads of the last frames since then were read.
    taken: VecDeque<Instant>,
    /// How long the peer was waited for since the last head.
    waited: Duration,
}

impl Arrivals {
    pub fn new(window: usize, now: Instant) -> Self {
        Self { window: window.max(1), caught_up: now, taken: VecDeque::new(), waited: Duration::ZERO }
    }

    /// Bytes came, after there had been none since `none_since`.
    pub fn come(&mut self, none_since: Instant, now: Instant) {
        let waited = now.duration_since(none_since);
        self.waited += waited;
        if waited >= PAUSE {
            self.caught_up = now;
            self.taken.clear();
        }
    }

    /// How long the peer was waited for while it sent the body of the current frame.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The head of a frame has been read.
    pub fn take(&mut self, now: Instant) {
        self.waited = Duration::ZERO;
        if self.taken.len() > self.window {
            self.taken.pop_front();
        }
        self.taken.push_back(now);
    }

    /// Until when the current frame may wait, if it is to wait no longer than `patience` from its arrival.
    ///
    /// With fewer requests in flight the bound is too early; so each frame may wait at least `patience / window`
    /// from now. The last frame of a full window then waits at most twice the patience.
    pub fn deadline(&self, patience: Duration, now: Instant) -> Instant {
        (self.earliest() + patience).max(now + patience / u32::try_from(self.window).unwrap_or(u32::MAX))
    }

    /// The current frame did not arrive before this.
    fn earliest(&self) -> Instant {
        match self.taken.front() {
            Some(taken) if self.taken.len() > self.window => *taken,
            _ => self.caught_up,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_frame_has_waited_no_longer_than_a_window_of_others_took() {
        let begin = Instant::now();
        let at = |second| begin + Duration::from_secs(second);
        let mut arrivals = Arrivals::new(32, begin);
        for number in 0..100 {
            arrivals.take(at(number));
            assert_eq!(arrivals.earliest(), at(number.saturating_sub(32)));
        }
        let patience = Duration::from_secs(64);
        assert_eq!(arrivals.deadline(patience, at(99)), at(67 + 64));
        assert_eq!(arrivals.deadline(patience, at(150)), at(152), "a peer with one in flight waits, too");
        arrivals.come(at(99), at(200));
        arrivals.take(at(300));
        assert_eq!(arrivals.earliest(), at(200), "it came just then");
        arrivals.come(at(300), at(300) + PAUSE / 2);
        arrivals.take(at(301));
        assert_eq!(arrivals.earliest(), at(200), "the socket was full, and its peer had more");
    }
}
