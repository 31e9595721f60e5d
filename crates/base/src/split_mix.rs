/// SplitMix64 (Steele, Lea and Flood, 2014): a stream of well-mixed numbers, the same for the same seed.
///
/// Not for secrets: each number tells all that follow.
#[derive(Debug, Clone)]
pub struct SplitMix(u64);

impl SplitMix {
    /// The stream of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, uniform over all 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number as a fraction, uniform in (0, 1]: never zero, so that its logarithm is finite.
    pub fn next_unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_reference() {
        let mut stream = SplitMix::new(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([stream.next_u64(), stream.next_u64(), stream.next_u64()], expected);
    }

    #[test]
    fn fractions_are_above_zero_and_fill_their_range() {
        let mut stream = SplitMix::new(7);
        let fractions: Vec<f64> = (0..10_000).map(|_| stream.next_unit()).collect();
        assert!(fractions.iter().all(|fraction| *fraction > 0.0 && *fraction <= 1.0));
        let mean = fractions.iter().sum::<f64>() / fractions.len() as f64;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
    }
}
