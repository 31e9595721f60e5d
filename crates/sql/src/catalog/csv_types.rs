//! The types of CSV columns, told by their values.

use datafusion::arrow::array::types::Date32Type;
use datafusion::arrow::compute::kernels::cast_utils::Parser;
use datafusion::arrow::datatypes::{DataType, TimeUnit};

/// Digits of the longest integers.
pub(super) const INTEGER_DIGITS: u8 = 38;
/// The zone of times with an offset.
pub(super) const ZONE: &str = "+00:00";

/// The kinds of values that a column has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ValueKinds(u16);

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
enum Kind {
    Truth = 1,
    Integer = 1 << 1,
    /// One of more than 64 bits.
    LongInteger = 1 << 2,
    Float = 1 << 3,
    Date = 1 << 4,
    TimeOfDay = 1 << 5,
    Time = 1 << 6,
    /// With digits behind microseconds.
    FineTime = 1 << 7,
    /// With an offset from UTC.
    ZonedTime = 1 << 8,
    /// A number with leading zeros, which are part of a text.
    PaddedNumber = 1 << 9,
    Text = 1 << 10,
}

impl ValueKinds {
    pub(super) fn add(&mut self, value: &str) {
        self.0 |= Kind::of(value) as u16;
    }

    /// The kinds of two columns.
    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if all values are numbers, with or without leading zeros.
    pub(super) fn are_numbers(self) -> bool {
        self.are(&[Kind::Integer, Kind::LongInteger, Kind::Float, Kind::PaddedNumber])
    }

    fn are(self, kinds: &[Kind]) -> bool {
        self.0 & !kinds.iter().fold(0, |all, kind| all | *kind as u16) == 0
    }

    /// The type of a column with these values; null without one.
    pub(super) fn data_type(self) -> DataType {
        let are = |kinds: &[Kind]| self.are(kinds);
        let has = |kind: Kind| self.0 & kind as u16 != 0;
        match () {
            () if self.0 == 0 => DataType::Null,
            () if are(&[Kind::Truth]) => DataType::Boolean,
            () if are(&[Kind::Integer]) => DataType::Int64,
            () if are(&[Kind::Integer, Kind::LongInteger]) => DataType::Decimal128(INTEGER_DIGITS, 0),
            () if are(&[Kind::Integer, Kind::LongInteger, Kind::Float]) => DataType::Float64,
            () if are(&[Kind::Date]) => DataType::Date32,
            () if are(&[Kind::TimeOfDay]) => DataType::Time64(TimeUnit::Microsecond),
            () if are(&[Kind::Date, Kind::Time, Kind::FineTime]) => {
                let unit = if has(Kind::FineTime) { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
                DataType::Timestamp(unit, None)
            }
            () if are(&[Kind::ZonedTime]) => DataType::Timestamp(TimeUnit::Microsecond, Some(ZONE.into())),
            () => DataType::Utf8,
        }
    }
}

impl Kind {
    /// The kind of a value. Blanks around all but texts and truth values are no part of it.
    fn of(value: &str) -> Self {
        if value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false") {
            return Self::Truth;
        }
        let value = without_blanks(value);
        Self::of_number(value).or_else(|| Self::of_time(value)).unwrap_or(Self::Text)
    }

    fn of_number(value: &str) -> Option<Self> {
        if matches!(value, "NaN" | "nan" | "inf" | "-inf") {
            return Some(Self::Float);
        }
        let unsigned = value.strip_prefix('-').unwrap_or(value);
        let (digits, rest) = split_digits(unsigned);
        if digits.is_empty() && !rest.starts_with('.') {
            return None;
        }
        if has_leading_zero(unsigned) {
            return unsigned.parse::<f64>().is_ok().then_some(Self::PaddedNumber);
        }
        if rest.is_empty() {
            return match digits.len() {
                _ if value.parse::<i64>().is_ok() => Some(Self::Integer),
                length if length <= usize::from(INTEGER_DIGITS) => Some(Self::LongInteger),
                _ => None,
            };
        }
        let (fraction, exponent) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        if digits.is_empty() && fraction.is_empty() {
            return None;
        }
        let is_float = match exponent.strip_prefix(['e', 'E']) {
            Some(exponent) => {
                let (exponent, rest) = split_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent));
                !exponent.is_empty() && rest.is_empty()
            }
            None => exponent.is_empty(),
        };
        // A larger one would be infinite.
        (is_float && value.parse().is_ok_and(f64::is_finite)).then_some(Self::Float)
    }

    fn of_time(value: &str) -> Option<Self> {
        if let Some((_, rest)) = time_of_day(value) {
            return rest.is_empty().then_some(Self::TimeOfDay);
        }
        let date = value.get(..DATE.len()).filter(|date| has_pattern(date, DATE))?;
        Date32Type::parse(date)?;
        let rest = &value[DATE.len()..];
        if rest.is_empty() {
            return Some(Self::Date);
        }
        let (fraction, zone) = time_of_day(rest.strip_prefix([' ', 'T'])?)?;
        match zone {
            "" if fraction.len() > MICROSECOND_DIGITS => Some(Self::FineTime),
            "" => Some(Self::Time),
            zone => is_offset(zone.strip_prefix(' ').unwrap_or(zone)).then_some(Self::ZonedTime),
        }
    }
}

/// Patterns, in which a 9 stands for each digit.
const DATE: &str = "9999-99-99";
const TIME_OF_DAY: &str = "99:99:99";
const MICROSECOND_DIGITS: usize = 6;
const NANOSECOND_DIGITS: usize = 9;

/// A value without the blanks around it.
pub(super) fn without_blanks(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}

/// True of a number with a zero before its first other digit: it is the text of an id or a postal code, and would lose the zero.
pub(super) fn has_leading_zero(number: &str) -> bool {
    let digits = number.strip_prefix(['+', '-']).unwrap_or(number).as_bytes();
    matches!(digits, [b'0', second, ..] if second.is_ascii_digit())
}

/// True of the text of a date and a time that ends with an offset from UTC, or with the name of a zone.
pub(super) fn has_zone(time: &str) -> bool {
    let behind_date = time.get(DATE.len() + 1..).unwrap_or_default();
    behind_date.contains(|letter: char| letter.is_alphabetic() || matches!(letter, '+' | '-'))
}

fn has_pattern(text: &str, pattern: &str) -> bool {
    text.len() == pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(letter, expected)| match expected {
            b'9' => letter.is_ascii_digit(),
            sign => letter == sign,
        })
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().position(|letter| !letter.is_ascii_digit()).unwrap_or(text.len()))
}

/// The digits behind the seconds of the time of a day that a text begins with, and the text behind it. Arrow reads none without seconds.
fn time_of_day(text: &str) -> Option<(&str, &str)> {
    let time = text.get(..TIME_OF_DAY.len()).filter(|time| has_pattern(time, TIME_OF_DAY))?;
    let is_time = &time[..2] < "24" && &time[3..5] < "60" && &time[6..] < "60";
    let rest = &text[TIME_OF_DAY.len()..];
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("0", rest),
    };
    let is_fraction = (1..=NANOSECOND_DIGITS).contains(&fraction.len());
    (is_time && is_fraction).then_some((fraction, rest))
}

/// True of `Z`, `+02`, `+02:00` and `+0200`.
fn is_offset(text: &str) -> bool {
    let is_offset = |offset: &str| {
        let is_written = ["99", "99:99", "9999"].iter().any(|pattern| has_pattern(offset, pattern));
        let minutes = offset.get(2..).unwrap_or_default().trim_start_matches(':');
        is_written && &offset[..2] < "24" && minutes < "60"
    };
    text.eq_ignore_ascii_case("z") || text.strip_prefix(['+', '-']).is_some_and(is_offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(values: &[&str]) -> DataType {
        let mut kinds = ValueKinds::default();
        values.iter().for_each(|value| kinds.add(value));
        kinds.data_type()
    }

    #[test]
    fn values_tell_the_type_of_their_column() {
        use DataType::{Boolean, Date32, Decimal128, Float64, Int64, Null, Time64, Timestamp, Utf8};
        use TimeUnit::{Microsecond, Nanosecond};
        for (values, of) in [
            (&[][..], Null),
            (&["true", "FALSE"], Boolean),
            (&["1", "-9223372036854775808"], Int64),
            (&[" 1", "2 ", "\t3"], Int64),
            (&["1", "9223372036854775808"], Decimal128(38, 0)),
            (&["-170141183460469231731687303715884105728"], Utf8),
            (&["1", "1.5", "9223372036854775808", "1e5", ".5", "5.", "-1.5E-3", "nan", "-inf"], Float64),
            (&["1", "x"], Utf8),
            (&["true", "1"], Utf8),
            (&["1e", "."], Utf8),
            (&["1.5.5"], Utf8),
            (&["00005"], Utf8),
            (&["-05.5"], Utf8),
            (&["+49123"], Utf8),
            (&["0x1F"], Utf8),
            (&["1e400"], Utf8),
            (&["2024-01-05 12:30:00+24"], Utf8),
            (&["2024-01-05 12:30:00+02:60"], Utf8),
            (&["1_000"], Utf8),
            (&["١"], Utf8),
            (&["2024-02-29", " 2023-02-28"], Date32),
            (&["2023-02-29"], Utf8),
            (&["2023-2-9"], Utf8),
            (&["23:59:59", "00:00:00.123456"], Time64(Microsecond)),
            (&["24:00:00"], Utf8),
            (&["12:30"], Utf8),
            (&["2024-01-05 12:30"], Utf8),
            (&["2024-01-05 12:30Z"], Utf8),
            (&["2024-01-05", "2024-01-05 12:30:00", "2024-01-05T12:30:00.5"], Timestamp(Microsecond, None)),
            (&["2024-01-05 12:30:00.123456789"], Timestamp(Nanosecond, None)),
            (&["2024-01-05 12:30:60"], Utf8),
            (&["2024-01-05 12:30:00 o'clock"], Utf8),
            (
                &["2024-01-05 12:30:00Z", "2024-01-05T12:30:00.5+02", "2024-01-05 12:30:00 -02:30"],
                Timestamp(Microsecond, Some(ZONE.into())),
            ),
            (&["2024-01-05 12:30:00Z", "2024-01-05 12:30:00"], Utf8),
            (&["2024-01-05", "12:30:00"], Utf8),
        ] {
            assert_eq!(told(values), of, "{values:?}");
        }
    }

    #[test]
    fn a_zero_before_another_digit_leads() {
        for (number, leads) in [
            ("00005", true),
            ("-05", true),
            ("+007.5", true),
            ("00", true),
            ("0", false),
            ("-0", false),
            ("0.5", false),
            ("0e3", false),
            ("10", false),
            ("-", false),
            ("", false),
            ("--05", false),
            ("a05", false),
        ] {
            assert_eq!(has_leading_zero(number), leads, "{number}");
        }
    }

    #[test]
    fn a_zone_stands_behind_the_time() {
        for (time, is_zoned) in [
            ("2024-01-05 12:30:00Z", true),
            ("2024-01-05T12:30:00+02:00", true),
            ("2024-01-05 12:30:00 Europe/Paris", true),
            ("2024-01-05T12:30-02", true),
            ("2024-01-05T12:30:00.5", false),
            ("2024-01-05", false),
            ("", false),
        ] {
            assert_eq!(has_zone(time), is_zoned, "{time}");
        }
    }

    #[test]
    fn kinds_of_files_are_put_together() {
        let mut numbers = [ValueKinds::default(); 2];
        numbers[0].add("1");
        numbers[1].add("1.5");
        assert_eq!(numbers[0].with(numbers[1]).data_type(), DataType::Float64);
        assert_eq!(numbers[0].with(ValueKinds::default()).data_type(), DataType::Int64);
        let mut padded = ValueKinds::default();
        padded.add("007");
        let all = padded.with(numbers[0]);
        assert_eq!((all.data_type(), all.are_numbers()), (DataType::Utf8, true));
        padded.add("x");
        assert!(!padded.are_numbers());
    }
}
