//! Moments of numbers, of which parts can be put together.

/// Number, mean, and sums of powers of the distances from the mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Moments {
    pub count: f64,
    pub mean: f64,
    pub second: f64,
    pub third: f64,
    pub fourth: f64,
}

impl Moments {
    /// Adds a number.
    pub fn add(&mut self, value: f64) {
        self.merge(&Self { count: 1.0, mean: value, ..Self::default() });
    }

    /// Adds the numbers of another part. The formulas are those of Pébay, "Formulas for robust, one-pass parallel computation of
    /// covariances and arbitrary-order statistical moments", 2008.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0.0 {
            return;
        }
        if self.count == 0.0 {
            *self = *other;
            return;
        }
        let (a, b) = (self.count, other.count);
        let count = a + b;
        let delta = other.mean - self.mean;
        let part = delta / count;
        let fourth = self.fourth
            + other.fourth
            + delta * part.powi(3) * a * b * (a * a - a * b + b * b)
            + 6.0 * part * part * (a * a * other.second + b * b * self.second)
            + 4.0 * part * (a * other.third - b * self.third);
        let third = self.third
            + other.third
            + delta * part * part * a * b * (a - b)
            + 3.0 * part * (a * other.second - b * self.second);
        let second = self.second + other.second + delta * part * a * b;
        *self = Self { count, mean: self.mean + part * b, second, third, fourth };
    }

    /// The skewness of all there is, which Spark calls `skewness`; `None` if there are no numbers, or all are equal.
    pub fn skewness_pop(&self) -> Option<f64> {
        (self.count > 0.0 && self.second != 0.0)
            .then(|| self.count.sqrt() * self.third / (self.second * self.second.sqrt()))
    }

    /// The skewness of a sample, which DuckDB calls `skewness`; `None` for less than three numbers, or if all are equal.
    pub fn skewness_samp(&self) -> Option<f64> {
        let n = self.count;
        let of_all = self.skewness_pop().filter(|_| n > 2.0)?;
        Some(of_all * (n * (n - 1.0)).sqrt() / (n - 2.0))
    }

    /// The excess kurtosis of all there is, which Spark calls `kurtosis` and DuckDB `kurtosis_pop`; `None` if there are no numbers, or
    /// all are equal.
    pub fn kurtosis_pop(&self) -> Option<f64> {
        (self.count > 0.0 && self.second != 0.0)
            .then(|| self.count * self.fourth / (self.second * self.second) - 3.0)
    }

    /// The excess kurtosis of a sample, which DuckDB calls `kurtosis`; `None` for less than four numbers, or if all are equal.
    pub fn kurtosis_samp(&self) -> Option<f64> {
        let n = self.count;
        let of_all = self.kurtosis_pop().filter(|_| n > 3.0)?;
        Some((n - 1.0) / ((n - 2.0) * (n - 3.0)) * ((n + 1.0) * of_all + 6.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Moments {
        let mut moments = Moments::default();
        values.iter().for_each(|value| moments.add(*value));
        moments
    }

    fn near(found: Option<f64>, expected: f64) {
        let found = found.unwrap();
        assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found} and not {expected}");
    }

    /// Answers of DuckDB 2.0, and those that follow from them for the skewness of all.
    #[test]
    fn moments_are_those_of_duckdb() {
        let moments = of(&[1.0, 2.0, 5.0, 9.0]);
        near(moments.kurtosis_samp(), -0.581_893_860_561_915_9);
        near(moments.kurtosis_pop(), -1.277_585_848_074_922);
        near(moments.skewness_samp(), 0.888_583_561_553_354_6);
        near(moments.skewness_pop(), 0.888_583_561_553_354_6 * 2.0 / 12.0_f64.sqrt());
        near(of(&[1.0, 2.0]).kurtosis_pop(), -2.0);
        assert_eq!(of(&[1.0, 2.0]).skewness_samp(), None);
        assert_eq!(of(&[1.0, 2.0, 5.0]).kurtosis_samp(), None);
        assert_eq!(of(&[1.0]).kurtosis_pop(), None);
        assert_eq!(of(&[1.0, 1.0]).kurtosis_pop(), None);
        assert_eq!(of(&[]).skewness_pop(), None);
        assert_eq!(of(&[1.0, 1.0, 1.0]).skewness_samp(), None);
        assert!(of(&[1.0, f64::INFINITY, 1.0]).kurtosis_pop().unwrap().is_nan());
    }

    #[test]
    fn parts_make_the_whole() {
        let values = [3.5, -2.0, 1e3, 4.25, 0.0, 17.0, -8.5];
        let whole = of(&values);
        for at in 0..=values.len() {
            let mut part = of(&values[..at]);
            part.merge(&of(&values[at..]));
            near(part.kurtosis_samp(), whole.kurtosis_samp().unwrap());
            near(part.skewness_pop(), whole.skewness_pop().unwrap());
        }
    }
}
