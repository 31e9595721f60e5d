//! Values of answers, and when two of them are the same.

use std::fmt;

/// Two floating point numbers are the same if they differ by at most this share of the larger one: sums of the same numbers
/// in another order differ by some 1e-12 at a million rows.
pub const TOLERANCE_RELATIVE: f64 = 1e-9;
/// Smaller differences may be left over from cancellation.
pub const TOLERANCE_ABSOLUTE: f64 = 1e-9;
/// A decimal with at least this many digits after the point may come from a rounded quotient: division and `avg` give
/// decimals in one engine and floating point numbers in another. Decimals with fewer digits are money and counts, and exact.
pub const QUOTIENT_SCALE_MIN: i8 = 4;
/// Such a decimal may differ from a value of another type by one unit of its last digit, or by this share of its size:
/// engines keep six digits of a quotient, and queries multiply or sum it.
pub const TOLERANCE_QUOTIENT: f64 = 1e-6;

/// A value of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// No value.
    Null,
    /// A boolean.
    Boolean(bool),
    /// `unscaled * 10^-scale`: an integer of any width, or a decimal.
    Exact {
        /// All digits.
        unscaled: i128,
        /// How many of them are after the point.
        scale: i8,
    },
    /// A floating point number.
    Float(f64),
    /// A string.
    Text(String),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01 00:00.
    Timestamp(i64),
}

impl Value {
    /// Whether both are the same: floating point numbers and quotients within the tolerances, everything else exactly.
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact { unscaled: a, scale: a_scale }, Self::Exact { unscaled: b, scale: b_scale }) => {
                let coarse = if a_scale < b_scale { self } else { other };
                same_exact((*a, *a_scale), (*b, *b_scale))
                    || (a_scale != b_scale && coarse.is_quotient() && self.is_near(other, coarse.slack()))
            }
            (Self::Exact { unscaled, scale }, Self::Float(float))
            | (Self::Float(float), Self::Exact { unscaled, scale })
                if is_rounded_alike(*unscaled, *scale, *float) =>
            {
                true
            }
            (Self::Exact { .. } | Self::Float(_), Self::Exact { .. } | Self::Float(_)) => {
                self.is_near(other, self.slack().max(other.slack()))
            }
            _ => self == other,
        }
    }

    /// Whether two numbers are the same within `slack` and the tolerances of floating point numbers.
    fn is_near(&self, other: &Self, slack: f64) -> bool {
        let (a, b) = (self.number(), other.number());
        // The difference of equal infinities is NaN, and a share of infinity is infinite. Two NaNs are the same answer.
        if !a.is_finite() || !b.is_finite() {
            return a == b || (a.is_nan() && b.is_nan());
        }
        let tolerance = (TOLERANCE_RELATIVE * a.abs().max(b.abs())).max(TOLERANCE_ABSOLUTE).max(slack);
        (a - b).abs() <= tolerance
    }

    /// The value as a floating point number; only for numbers.
    pub fn number(&self) -> f64 {
        match self {
            Self::Exact { unscaled, scale } => *unscaled as f64 / 10f64.powi(i32::from(*scale)),
            Self::Float(number) => *number,
            _ => f64::NAN,
        }
    }

    /// Whether it may come from a rounded quotient.
    fn is_quotient(&self) -> bool {
        matches!(self, Self::Exact { scale, .. } if *scale >= QUOTIENT_SCALE_MIN)
    }

    /// The error that rounding a quotient may have caused.
    fn slack(&self) -> f64 {
        match self {
            Self::Exact { scale, .. } if self.is_quotient() => {
                10f64.powi(-i32::from(*scale)).max(TOLERANCE_QUOTIENT * self.number().abs())
            }
            _ => 0.0,
        }
    }
}

/// True if a decimal and a float were rounded to the same digits, the one up and the other down: 41 / 40 to two digits is 1.03, and
/// 1.02 of a float, which is a little less than 1.025.
fn is_rounded_alike(unscaled: i128, scale: i8, float: f64) -> bool {
    let units = float * 10f64.powi(i32::from(scale));
    let is_rounded = (units - units.round()).abs() <= TOLERANCE_RELATIVE * units.abs();
    scale > 0 && is_rounded && (units.round() - unscaled as f64).abs() <= 1.0
}

/// Compares integers and decimals of any scale as integers. If rescaling overflows they differ by orders of magnitude.
fn same_exact(a: (i128, i8), b: (i128, i8)) -> bool {
    let (coarse, fine) = if a.1 < b.1 { (a, b) } else { (b, a) };
    let digits =
        u32::try_from(i16::from(fine.1) - i16::from(coarse.1)).expect("the finer scale is not below");
    10i128.checked_pow(digits).and_then(|unit| coarse.0.checked_mul(unit)) == Some(fine.0)
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Exact { unscaled, scale: ..=0 } => write!(f, "{unscaled}"),
            Self::Exact { unscaled, scale } => {
                let (digits, point) = (unscaled.unsigned_abs().to_string(), scale.unsigned_abs() as usize);
                let digits = format!("{digits:0>width$}", width = point + 1);
                let (whole, fraction) = digits.split_at(digits.len() - point);
                write!(f, "{}{whole}.{fraction}", if *unscaled < 0 { "-" } else { "" })
            }
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(value) => write!(f, "{value:?}"),
            Self::Date(days) => write!(f, "date {days}"),
            Self::Timestamp(micros) => write!(f, "timestamp {micros}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(unscaled: i128, scale: i8) -> Value {
        Value::Exact { unscaled, scale }
    }

    #[test]
    fn scales_do_not_matter_but_digits_do() {
        assert!(exact(150, 2).same(&exact(15, 1)));
        assert!(exact(150, 2).same(&exact(1_500_000, 6)));
        assert!(!exact(150, 2).same(&exact(1_500_001, 6)), "money is exact");
        assert!(!exact(150, 2).same(&exact(151, 2)));
        assert!(
            !exact(1_000_000_000_000, 2).same(&exact(1_000_000_000_001, 2)),
            "exact beyond the tolerance"
        );
        assert!(!exact(3, 0).same(&Value::Float(3.5)), "7 / 2");
        assert!(exact(3, 0).same(&Value::Float(3.0)));
    }

    #[test]
    fn a_rounded_quotient_is_off_by_less_than_its_last_digit() {
        let third = Value::Float(1.0 / 3.0);
        assert!(exact(333_333, 6).same(&third));
        assert!(!exact(333_331, 6).same(&third));
        assert!(!exact(333_335, 6).same(&third));
        assert!(
            exact(100_349_600, 6).same(&Value::Float(100.349_611_572)),
            "a quotient of six digits times 100"
        );
        assert!(!exact(100_349_400, 6).same(&Value::Float(100.349_611_572)));
        assert!(exact(333_333, 6).same(&exact(3_333_333_333, 10)));
        assert!(exact(333_334, 6).same(&exact(3_333_333_333, 10)));
        assert!(!exact(333_335, 6).same(&exact(3_333_333_333, 10)));
        assert!(!exact(33, 2).same(&third), "two digits are money, not a quotient");
        assert!(!exact(333_333, 6).same(&exact(333_334, 6)), "the same type has to give the same digits");
    }

    #[test]
    fn a_float_that_is_rounded_to_as_many_digits_may_be_so_the_other_way() {
        assert!(exact(103, 2).same(&Value::Float(1.02)) && Value::Float(1.03).same(&exact(102, 2)));
        assert!(!exact(104, 2).same(&Value::Float(1.02)));
        assert!(!exact(103, 2).same(&Value::Float(1.025)), "it has more digits");
        assert!(!exact(103, 2).same(&exact(102, 2)), "money");
        assert!(!exact(3, 0).same(&Value::Float(4.0)), "a count");
    }

    #[test]
    fn floats_are_the_same_within_the_tolerance() {
        assert!(Value::Float(0.1 + 0.2).same(&Value::Float(0.3)));
        assert!(Value::Float(1e12).same(&Value::Float(1e12 + 100.0)));
        assert!(!Value::Float(1e12).same(&Value::Float(1e12 + 10_000.0)));
        assert!(!Value::Float(0.3).same(&Value::Float(0.300_001)));
        assert!(Value::Float(f64::NAN).same(&Value::Float(f64::NAN)));
        assert!(Value::Float(f64::INFINITY).same(&Value::Float(f64::INFINITY)));
        assert!(!Value::Float(f64::INFINITY).same(&Value::Float(f64::NEG_INFINITY)));
        assert!(!Value::Float(f64::NAN).same(&Value::Float(1.0)));
    }

    #[test]
    fn null_is_nothing_else() {
        let nothings = [exact(0, 0), Value::Float(0.0), Value::Float(f64::NAN), Value::Text(String::new())];
        for other in nothings.into_iter().chain([Value::Boolean(false), Value::Date(0)]) {
            assert!(!Value::Null.same(&other) && !other.same(&Value::Null), "{other}");
        }
        assert!(Value::Null.same(&Value::Null));
        assert!(!Value::Text("7".into()).same(&exact(7, 0)), "a string is not a number");
        assert!(!Value::Text("a ".into()).same(&Value::Text("a".into())), "strings are exact");
    }

    #[test]
    fn numbers_are_shown_with_their_digits() {
        for (value, text) in [(exact(-5, 2), "-0.05"), (exact(1234, 2), "12.34"), (exact(7, 0), "7")] {
            assert_eq!(value.to_string(), text);
        }
    }
}
