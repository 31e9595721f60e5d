use std::time::Duration;

/// Times that a query goes on by itself, at most, without a checkpoint that becomes complete between two of them.
const TRIES_MAX: u32 = 5;
/// Pause before the first of them.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// Factor by which the pause before each further one is longer: 8 s before the last.
const PAUSE_FACTOR: u32 = 3;
/// Shortest pause of a process that was fenced: who did it most likely takes the query over, and needs time for its claim.
const FENCED_PAUSE_LEAST: Duration = Duration::from_secs(3);

/// Loss of a query's transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Brokers, or time, have ended it.
    Broken,
    /// Another process has fenced its producer.
    Fenced,
}

/// Decides whether a query whose transaction is lost goes on from its last checkpoint, in the same process, and when.
///
/// What passes, a process that stood still or brokers that were away, is over after some tries; what does not would fail for ever.
/// Who goes on fences the producer that is there, so that it must be its own: a process that has lost the query to another one ends.
/// The newest claim says who has it, and no fence does: one that starts fences before it claims, and may die between; one that goes
/// on may have fenced the process that took the query from it just then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resumption {
    /// The generation of the process's own last claim; none before it has the query.
    generation: Option<u64>,
    /// Tries since a checkpoint was complete.
    tries: u32,
}

impl Resumption {
    /// The process has the query, as this generation.
    pub fn claimed(&mut self, generation: u64) {
        self.generation = Some(generation);
    }

    /// A checkpoint was completed since the last claim.
    pub fn progressed(&mut self) {
        self.tries = 0;
    }

    /// The transaction is lost: the pause before the query goes on, or none if it is not to.
    pub fn lost(&mut self, loss: Loss) -> Option<Duration> {
        if self.tries == TRIES_MAX {
            return None;
        }
        self.tries += 1;
        let pause = PAUSE_FIRST * PAUSE_FACTOR.pow(self.tries - 1);
        Some(match loss {
            Loss::Broken => pause,
            Loss::Fenced => pause.max(FENCED_PAUSE_LEAST),
        })
    }

    /// True if the process may fence the query's producer, given the generation of the newest claim. One that starts takes the
    /// query over, one that goes on only has it still.
    pub fn may_fence(&self, newest: Option<u64>) -> bool {
        self.generation.is_none() || self.generation == newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_tries_end_until_a_checkpoint_is_complete() {
        let mut resumption = Resumption::default();
        let pauses = |resumption: &mut Resumption| -> Vec<u128> {
            std::iter::from_fn(|| resumption.lost(Loss::Broken)).map(|pause| pause.as_millis()).collect()
        };
        assert_eq!(pauses(&mut resumption), [100, 300, 900, 2700, 8100]);
        assert_eq!(resumption.lost(Loss::Broken), None, "it stays so");
        assert_eq!(resumption.lost(Loss::Fenced), None);
        resumption.progressed();
        assert_eq!(
            resumption.lost(Loss::Fenced),
            Some(FENCED_PAUSE_LEAST),
            "another process may be about to claim the query"
        );
        resumption.progressed();
        assert_eq!(pauses(&mut resumption).len(), 5);
    }

    #[test]
    fn one_that_starts_takes_over_and_one_that_goes_on_does_not() {
        let mut resumption = Resumption::default();
        assert!(resumption.may_fence(None) && resumption.may_fence(Some(7)));
        resumption.claimed(8);
        assert!(resumption.may_fence(Some(8)));
        assert!(!resumption.may_fence(Some(9)), "another process has claimed the query since");
        assert!(!resumption.may_fence(None), "its claim is gone");
    }
}
