//! The randomness of a simulated world.

use yeoul_base::SplitMix;

/// A sequence of random choices, reproducible by its seed.
pub struct Random(SplitMix);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from 0 to `end`, exclusive; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.next() % 100 < chance
    }

    /// True once in `times` calls, on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.next().is_multiple_of(times)
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.below(from.len())).cloned()
    }
}
