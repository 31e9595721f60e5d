//! Numbers of JSON by their digits: no binary fraction comes between a text and a column.

/// A number of JSON (RFC 8259), as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number<'a> {
    is_negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

/// A number times a power of ten, as an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scaled {
    /// Rounded half away from zero, as Spark rounds decimals.
    pub value: i128,
    /// True if nothing was rounded.
    pub is_exact: bool,
}

impl<'a> Number<'a> {
    /// The number that a text is; nothing if it is none, such as `004`, `+1` and `1.`.
    pub fn parse(text: &'a str) -> Option<Self> {
        let bytes = text.as_bytes();
        let (is_negative, bytes) = match bytes {
            [b'-', rest @ ..] => (true, rest),
            _ => (false, bytes),
        };
        let (whole, bytes) = digits(bytes);
        if whole.is_empty() || (whole.len() > 1 && whole[0] == b'0') {
            return None;
        }
        let (fraction, bytes) = match bytes {
            [b'.', rest @ ..] => match digits(rest) {
                ([], _) => return None,
                found => found,
            },
            _ => (&[][..], bytes),
        };
        let exponent = match bytes {
            [] => 0,
            [b'e' | b'E', rest @ ..] => exponent(rest)?,
            _ => return None,
        };
        Some(Self { is_negative, whole, fraction, exponent })
    }

    /// The number times ten to this power; nothing if that does not fit 128 bits.
    pub fn scaled(self, power: i64) -> Option<Scaled> {
        let point = (self.whole.len() as i64).saturating_add(self.exponent).saturating_add(power);
        let (mut value, mut is_exact, mut rounds_up) = (0_i128, true, false);
        let count = (self.whole.len() + self.fraction.len()) as i64;
        for (at, digit) in (0..).zip(self.whole.iter().chain(self.fraction)) {
            let digit = i128::from(digit - b'0');
            if at < point {
                value = value.checked_mul(10)?.checked_add(digit)?;
            } else {
                rounds_up |= at == point && digit >= 5;
                is_exact &= digit == 0;
            }
        }
        if value != 0 {
            // More zeros than fit end it soon.
            for _ in count..point {
                value = value.checked_mul(10)?;
            }
        }
        value = value.checked_add(i128::from(rounds_up))?;
        Some(Scaled { value: if self.is_negative { -value } else { value }, is_exact })
    }
}

fn digits(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len()))
}

fn exponent(bytes: &[u8]) -> Option<i64> {
    let (is_negative, bytes) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    };
    let (all, []) = digits(bytes) else { return None };
    if all.is_empty() {
        return None;
    }
    let value = all
        .iter()
        .fold(0_i64, |value, digit| value.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    Some(if is_negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scaled(text: &str, power: i64) -> Option<(i128, bool)> {
        Number::parse(text)?.scaled(power).map(|scaled| (scaled.value, scaled.is_exact))
    }

    #[test]
    fn digits_are_taken_as_they_are_written() {
        for (text, power, expected) in [
            ("0", 0, (0, true)),
            ("-0.0", 2, (0, true)),
            ("9007199254740993.0", 0, (9_007_199_254_740_993, true)),
            ("3.7", 0, (4, false)),
            ("12.345", 2, (1235, false)),
            ("-12.345", 2, (-1235, false)),
            ("7.005", 2, (701, false)),
            ("1.5e3", 0, (1500, true)),
            ("15E-1", 1, (15, true)),
            ("0.04", 0, (0, false)),
            ("9e-99999999999999999999", 0, (0, false)),
            ("0e99999999999999999999", 6, (0, true)),
        ] {
            assert_eq!(scaled(text, power), Some(expected), "{text}");
        }
        assert_eq!(scaled("1e39", 0), None);
        for text in ["", "-", "004", "-01", "+1", "1.", ".5", "1e", "1e+", "1-2", "0x1", "NaN", " 1", "1 "] {
            assert_eq!(Number::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn an_integer_is_itself_however_it_is_written(value: i64, zeros in 0_usize..20) {
            let zero = "0".repeat(zeros);
            for text in [value.to_string(), format!("{value}.0{zero}"), format!("{value}e0")] {
                prop_assert_eq!(scaled(&text, 0), Some((i128::from(value), true)));
            }
        }

        #[test]
        fn arbitrary_text_never_panics(text: String, power in -400_i64..400) {
            let _ = scaled(&text, power);
        }
    }
}
