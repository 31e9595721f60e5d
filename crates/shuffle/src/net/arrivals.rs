//! Since when a frame may have been waiting in its socket. The kernel does not say, and a frame that waits behind others is
//! as late for its client as one that waits in front.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Frames that a peer has in flight at most: it sent one when it had the answer to the one that many before. The stock
/// client has 32 for each map task; for several tasks on one connection the bound is too late by as many times what it
/// takes to answer 32.
const IN_FLIGHT: usize = 32;

/// A peer that had bytes to send would have sent some within this time, also where the socket had been full.
const PAUSE: Duration = Duration::from_millis(100);

/// What bounds the arrival of the frame in hand from below.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// When bytes came after the peer had had none to send.
    caught_up: Instant,
    /// When the last frames since then were taken in hand.
    taken: VecDeque<Instant>,
}

impl Arrivals {
    pub fn new(now: Instant) -> Self {
        Self { caught_up: now, taken: VecDeque::new() }
    }

    /// Bytes came after there had been none for a while.
    pub fn come(&mut self, none_since: Instant, now: Instant) {
        if now.duration_since(none_since) >= PAUSE {
            self.caught_up = now;
            self.taken.clear();
        }
    }

    /// A frame is taken in hand.
    pub fn take(&mut self, now: Instant) {
        if self.taken.len() > IN_FLIGHT {
            self.taken.pop_front();
        }
        self.taken.push_back(now);
    }

    /// Until when the frame in hand may wait, if none is to wait longer since it arrived.
    ///
    /// Who has fewer in flight is not refused for that: each frame may wait its part of the patience in any case, with
    /// which the last of a full window has waited twice of it at most.
    pub fn deadline(&self, patience: Duration, now: Instant) -> Instant {
        (self.earliest() + patience).max(now + patience / IN_FLIGHT as u32)
    }

    /// The frame in hand did not arrive before.
    fn earliest(&self) -> Instant {
        match self.taken.front() {
            Some(taken) if self.taken.len() > IN_FLIGHT => *taken,
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
        let mut arrivals = Arrivals::new(begin);
        for number in 0..100 {
            arrivals.take(at(number));
            assert_eq!(arrivals.earliest(), at(number.saturating_sub(IN_FLIGHT as u64)));
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
