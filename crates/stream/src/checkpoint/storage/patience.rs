use std::time::Duration;

/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Factor by which each pause is longer than the one before.
const PAUSE_FACTOR: u32 = 3;
/// Tries of the first request of all, which mostly fails for what does not pass: a wrong address.
const TRIES_AT_FIRST_MAX: u32 = 3;

/// Time for which an object store that fails or does not answer is waited for. What does not pass is never tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Tries of a request, at least 1.
    pub tries: u32,
    /// Pause before the second one; each further pause is three times as long, up to 10 s.
    pub pause: Duration,
    /// Time for an answer, or for the next piece of one.
    pub answer: Duration,
}

impl Default for Patience {
    /// Eight tries with 38 s of pauses. Clients of stores try again by themselves, too, within each.
    fn default() -> Self {
        Self { tries: 8, pause: Duration::from_millis(200), answer: Duration::from_secs(60) }
    }
}

impl Patience {
    /// The pauses, one between two tries.
    pub fn pauses(self) -> impl Iterator<Item = Duration> {
        let pause = move |number| (self.pause * PAUSE_FACTOR.saturating_pow(number)).min(PAUSE_MAX);
        (0..self.tries.saturating_sub(1)).map(pause)
    }

    /// That for the first request of all.
    #[must_use]
    pub fn at_first(self) -> Self {
        Self { tries: self.tries.min(TRIES_AT_FIRST_MAX), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_one_fewer_than_tries() {
        let pauses: Vec<u128> = Patience::default().pauses().map(|pause| pause.as_millis()).collect();
        assert_eq!(pauses, [200, 600, 1800, 5400, 10_000, 10_000, 10_000]);
        assert_eq!(Patience::default().at_first().pauses().count(), 2);
        assert_eq!(Patience { tries: 1, ..Patience::default() }.pauses().count(), 0);
    }
}
