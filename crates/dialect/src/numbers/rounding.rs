use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, i256};
use datafusion::arrow::error::ArrowError;

/// `dividend × 10^shift / divisor`, rounded half away from zero, of at most `precision` digits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quotient {
    /// The power of ten for the dividend, and for the divisor; `None` if it has too many digits.
    up: Powers,
    down: Powers,
    /// The first integer that has too many digits.
    limit: i128,
}

/// A power of ten in the two widths, where it fits.
#[derive(Clone, Copy, Debug)]
struct Powers {
    narrow: Option<i128>,
    wide: Option<i256>,
}

impl Powers {
    fn of_ten(exponent: i16) -> Self {
        let exponent = u32::from(exponent.max(0).unsigned_abs());
        Self { narrow: 10i128.checked_pow(exponent), wide: i256::from_i128(10).checked_pow(exponent) }
    }
}

impl Quotient {
    /// `precision`: 1 to 38 digits.
    pub(super) fn new(shift: i16, precision: u8) -> Self {
        assert!((1..=DECIMAL128_MAX_PRECISION).contains(&precision), "{precision} digits");
        Self {
            up: Powers::of_ten(shift),
            down: Powers::of_ten(-shift),
            limit: 10i128.pow(u32::from(precision)),
        }
    }

    /// # Errors
    /// `DivideByZero`, and `ArithmeticOverflow` for a quotient with too many digits.
    pub(super) fn of(&self, dividend: i128, divisor: i128) -> Result<i128, ArrowError> {
        let narrow = || {
            let dividend = dividend.checked_mul(self.up.narrow?)?;
            rounded(dividend, divisor.checked_mul(self.down.narrow?)?)
        };
        match narrow() {
            Some(quotient) => self.within_limit(quotient),
            None => self.of_wide(i256::from_i128(dividend), i256::from_i128(divisor)),
        }
    }

    /// The same of wider integers.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub(super) fn of_wide(&self, dividend: i256, divisor: i256) -> Result<i128, ArrowError> {
        if divisor == i256::ZERO {
            return Err(ArrowError::DivideByZero);
        }
        let wide = || {
            let dividend = dividend.checked_mul(self.up.wide?)?;
            rounded_wide(dividend, divisor.checked_mul(self.down.wide?)?)?.to_i128()
        };
        match wide() {
            Some(quotient) => self.within_limit(quotient),
            None if dividend == i256::ZERO => Ok(0),
            None => Err(self.overflow()),
        }
    }

    fn within_limit(&self, quotient: i128) -> Result<i128, ArrowError> {
        if (-self.limit < quotient) & (quotient < self.limit) { Ok(quotient) } else { Err(self.overflow()) }
    }

    fn overflow(&self) -> ArrowError {
        ArrowError::ArithmeticOverflow(format!("a result has more than {} digits", self.limit.ilog10()))
    }
}

/// `None` by zero, and if it does not fit.
fn rounded(dividend: i128, divisor: i128) -> Option<i128> {
    // Most dividends and divisors are short, and a division of 64 bits takes a fraction of the time.
    let (quotient, rest) = match (i64::try_from(dividend), i64::try_from(divisor)) {
        (Ok(dividend), Ok(divisor)) => {
            let quotient = dividend.checked_div(divisor)?;
            (i128::from(quotient), i128::from(dividend - quotient * divisor))
        }
        _ => {
            let quotient = dividend.checked_div(divisor)?;
            (quotient, dividend - quotient * divisor)
        }
    };
    let (rest, whole) = (rest.unsigned_abs(), divisor.unsigned_abs());
    if rest < whole - rest {
        return Some(quotient);
    }
    quotient.checked_add(if (dividend < 0) == (divisor < 0) { 1 } else { -1 })
}

fn rounded_wide(dividend: i256, divisor: i256) -> Option<i256> {
    let quotient = dividend.checked_div(divisor)?;
    let (rest, whole) = (dividend.checked_rem(divisor)?.wrapping_abs(), divisor.wrapping_abs());
    if rest < whole.wrapping_sub(rest) {
        return Some(quotient);
    }
    let is_positive = (dividend < i256::ZERO) == (divisor < i256::ZERO);
    quotient.checked_add(if is_positive { i256::ONE } else { i256::MINUS_ONE })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn halves_go_away_from_zero() {
        let quotient = Quotient::new(0, 38);
        for (dividend, divisor, expected) in [
            (5, 2, 3),
            (-5, 2, -3),
            (5, -2, -3),
            (-5, -2, 3),
            (1, 3, 0),
            (2, 3, 1),
            (-2, 3, -1),
            (1, 2, 1),
            (0, 7, 0),
            (10i128.pow(38) - 1, 1, 10i128.pow(38) - 1),
            (i128::MAX, i128::MIN, -1),
        ] {
            assert_eq!(quotient.of(dividend, divisor).unwrap(), expected, "{dividend} / {divisor}");
        }
    }

    #[test]
    fn a_dividend_that_is_too_long_in_between_is_no_overflow() {
        // 10^37 × 10^20 / 10^30
        assert_eq!(Quotient::new(20, 38).of(10i128.pow(37), 10i128.pow(30)).unwrap(), 10i128.pow(27));
        assert_eq!(Quotient::new(-3, 38).of(1_500, 1).unwrap(), 2);
        assert_eq!(Quotient::new(90, 38).of(0, 7).unwrap(), 0);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        assert!(matches!(Quotient::new(0, 3).of(1000, 1), Err(ArrowError::ArithmeticOverflow(_))));
        assert!(matches!(Quotient::new(0, 3).of(9995, 10), Err(ArrowError::ArithmeticOverflow(_))));
        assert_eq!(Quotient::new(0, 3).of(9994, 10).unwrap(), 999);
        assert!(matches!(Quotient::new(2, 38).of(10i128.pow(37), 1), Err(ArrowError::ArithmeticOverflow(_))));
        assert!(matches!(Quotient::new(90, 38).of(1, 1), Err(ArrowError::ArithmeticOverflow(_))));
        assert!(matches!(Quotient::new(0, 3).of(1, 0), Err(ArrowError::DivideByZero)));
    }

    proptest! {
        /// The two widths agree, and twice the distance from the quotient to what is exact is at most the divisor.
        #[test]
        fn nothing_is_nearer(dividend in any::<i64>(), divisor in any::<i64>(), shift in 0i16..19) {
            prop_assume!(divisor != 0);
            let quotient = Quotient::new(shift, 38);
            let (dividend, divisor) = (i128::from(dividend), i128::from(divisor));
            let narrow = quotient.of(dividend, divisor).unwrap();
            prop_assert_eq!(narrow, quotient.of_wide(i256::from_i128(dividend), i256::from_i128(divisor)).unwrap());
            let exact = i256::from_i128(dividend).wrapping_mul(i256::from_i128(10i128.pow(shift as u32)));
            let back = i256::from_i128(narrow).wrapping_mul(i256::from_i128(divisor));
            let distance = exact.wrapping_sub(back).wrapping_abs();
            prop_assert!(distance.wrapping_add(distance) <= i256::from_i128(divisor).wrapping_abs());
        }
    }
}
