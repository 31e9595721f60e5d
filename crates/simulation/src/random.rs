use yeoul_base::SplitMix;

/// A sequence of random choices, reproducible by its seed.
pub struct Random(SplitMix);

impl Random {
    /// The choices of a seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    /// Any number.
    #[allow(clippy::should_implement_trait)] // it has no end
    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from 0 to `end`, exclusive; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// True with this probability.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.next() % 100 < chance
    }

    /// True once in `times` calls, on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.next().is_multiple_of(times)
    }

    /// One of these, or `None` of none.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.below(from.len())).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_choices_and_they_are_spread() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            (0..1000).map(|_| random.below(10)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        for digit in 0..10 {
            let count = numbers(7).iter().filter(|number| **number == digit).count();
            assert!((50..200).contains(&count), "{count} times {digit}");
        }
        let mut random = Random::new(1);
        assert_eq!((random.below(0), random.pick::<u8>(&[]), random.pick(&[5])), (0, None, Some(5)));
        let chances = (0..1000).filter(|_| random.percent(25)).count();
        let once = (0..1000).filter(|_| random.once_in(4)).count();
        assert!((200..300).contains(&chances) && (200..300).contains(&once), "{chances} {once}");
    }
}
