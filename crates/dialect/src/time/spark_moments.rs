//! Texts that are a date or a time in Spark: fields may have fewer digits, those at the end may be missing, and blanks stand around them.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Date32Array, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::optimizer::AnalyzerRule;
use yeoul_base::ErrorKind;

use super::interval_span::INTERVAL;
use crate::Error;
use crate::rules::spark_casts::call_within_casts;
use crate::signatures::USER_DEFINED;
use crate::text::rows::invoke;

/// A function of the text of a date or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SparkMoment {
    /// `spark_text_date(text)`: the date, an error where there is none.
    Date,
    /// `spark_try_text_date(text)`: the date, null where there is none.
    TryDate,
    /// `spark_moment_text(text)`: the text of a timestamp with all of its fields; other texts as they are.
    Timestamp,
    /// `spark_clock_text(text)`: the text of a time of day with two digits in each field, and without the blanks around it.
    Clock,
    /// `spark_interval_spelt(text)`: the text of an interval as numbers and units; null where there is none.
    Interval,
}

impl SparkMoment {
    /// All of these functions.
    pub(crate) fn all() -> impl Iterator<Item = Arc<ScalarUDF>> {
        let all = [Self::Date, Self::TryDate, Self::Timestamp, Self::Clock, Self::Interval];
        all.into_iter().map(|function| Arc::new(function.into()))
    }

    fn run(self, texts: &StringArray) -> Result<ArrayRef> {
        let texts = texts.iter();
        Ok(match self {
            Self::Date => {
                let date = |text: &str| {
                    date_of(text).ok_or_else(|| {
                        Error::new(ErrorKind::Invalid, format!("'{text}' is no date"))
                            .with_hint("a date is written as '2024-01-05'; try_cast is null there")
                    })
                };
                let dates = texts.map(|text| text.map(date).transpose());
                Arc::new(dates.collect::<Result<Date32Array, Error>>()?)
            }
            Self::TryDate => Arc::new(texts.map(|text| date_of(text?)).collect::<Date32Array>()),
            Self::Timestamp => {
                let whole = |text: &str| timestamp_text(text).unwrap_or_else(|| text.to_owned());
                Arc::new(texts.map(|text| text.map(whole)).collect::<StringArray>())
            }
            Self::Clock => Arc::new(texts.map(|text| text.map(clock_text)).collect::<StringArray>()),
            Self::Interval => Arc::new(texts.map(|text| interval_text(text?)).collect::<StringArray>()),
        })
    }
}

/// A text without the blanks and controls around it.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|letter: char| letter <= ' ' || letter == '\u{7f}')
}

/// A number of so many digits, and what is behind it.
fn number(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<(u32, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    digits.contains(&end).then(|| Some((number.parse().ok()?, rest)))?
}

/// Year, month and day, of which the last two may be missing, and what is behind them.
fn fields_of_date(text: &str, year_digits: usize) -> Option<([i64; 3], &str)> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (year, mut rest) = number(text, 4..=year_digits)?;
    let mut fields = [sign * i64::from(year), 1, 1];
    for field in &mut fields[1..] {
        let Some(behind) = rest.strip_prefix('-') else { return rest.is_empty().then_some((fields, rest)) };
        let (value, behind) = number(behind, 1..=2)?;
        (*field, rest) = (i64::from(value), behind);
    }
    Some((fields, rest))
}

/// Days since 1970 of a date in the calendar that has always been there; `None` for a day that no month has.
fn days_of([year, month, day]: [i64; 3]) -> Option<i32> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => return None,
    };
    if !(1..=last).contains(&day) {
        return None;
    }
    // Years begin in March here, so that the day of a leap year is their last one.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    i32::try_from(days).ok()
}

/// The date of a text; anything may stand behind its day and a blank or `T`.
fn date_of(text: &str) -> Option<i32> {
    let (fields, rest) = fields_of_date(trimmed(text), 7)?;
    (rest.is_empty() || rest.starts_with([' ', 'T'])).then(|| days_of(fields))?
}

/// The text of a timestamp without a zone, with all of its fields; `None` for other texts.
fn timestamp_text(text: &str) -> Option<String> {
    let ([year, month, day], rest) = fields_of_date(trimmed(text), 6)?;
    days_of([year, month, day])?;
    let mut clock = [0; 3];
    let mut fraction = "";
    if !rest.is_empty() {
        let (hour, mut behind) = number(rest.strip_prefix([' ', 'T'])?, 1..=2)?;
        clock[0] = hour;
        for field in &mut clock[1..] {
            if behind.is_empty() {
                break;
            }
            let (value, rest) = number(behind.strip_prefix(':')?, 1..=2)?;
            (*field, behind) = (value, rest);
        }
        if let Some(digits) = behind.strip_prefix('.') {
            let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
            (fraction, behind) = digits.split_at(end);
        }
        if !behind.is_empty() {
            return None;
        }
    }
    let [hour, minute, second] = clock;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // What is finer than microseconds is cut off.
    let fraction = &fraction[..fraction.len().min(6)];
    let fraction = if fraction.is_empty() { String::new() } else { format!(".{fraction}") };
    let sign = match year {
        ..0 => "-",
        10_000.. => "+",
        _ => "",
    };
    let year = year.unsigned_abs();
    Some(format!("{sign}{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{fraction}"))
}

/// The text of a time of day with two digits in each field.
fn clock_text(text: &str) -> String {
    let two = |field: &str| if field.len() == 1 { format!("0{field}") } else { field.to_owned() };
    let fields = trimmed(text).split(':').map(|field| match field.split_once('.') {
        Some((whole, fraction)) => format!("{}.{fraction}", two(whole)),
        None => two(field),
    });
    fields.collect::<Vec<String>>().join(":")
}

/// The text of an interval with each sign at its number; `None` for what is none. Only seconds have a fraction.
fn interval_text(text: &str) -> Option<String> {
    const UNITS: [&str; 9] =
        ["year", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond"];
    let text = trimmed(text).to_ascii_lowercase();
    let mut rest = match text.strip_prefix("interval") {
        Some(rest) if rest.starts_with(char::is_whitespace) => rest.trim_start(),
        Some(_) => return None,
        None => text.as_str(),
    };
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (sign, behind) = match rest.strip_prefix('-') {
            Some(behind) => ("-", behind),
            None => ("", rest.strip_prefix('+').unwrap_or(rest)),
        };
        let behind = behind.trim_start();
        let end = behind.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, behind) = behind.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let behind = behind.strip_prefix(char::is_whitespace)?.trim_start();
        let end = behind.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let unit = unit.strip_suffix('s').unwrap_or(unit);
        let is_number = !number.is_empty()
            && !whole.contains('.')
            && !fraction.is_empty()
            && fraction.len() <= 9
            && !fraction.contains('.')
            && (unit == "second" || !number.contains('.'));
        let ends = behind.is_empty() || behind.starts_with(char::is_whitespace);
        if !is_number || !ends || !UNITS.contains(&unit) {
            return None;
        }
        // What is finer than microseconds is cut off.
        let whole = if whole.is_empty() { "0" } else { whole };
        parts.push(match unit {
            "second" => format!("{sign}{whole}.{} {unit}", &fraction[..fraction.len().min(6)]),
            _ => format!("{sign}{whole} {unit}"),
        });
        rest = behind.trim_start();
    }
    (!parts.is_empty()).then(|| parts.join(" "))
}

impl ScalarUDFImpl for SparkMoment {
    fn name(&self) -> &str {
        match self {
            Self::Date => "spark_text_date",
            Self::TryDate => "spark_try_text_date",
            Self::Timestamp => "spark_moment_text",
            Self::Clock => "spark_clock_text",
            Self::Interval => "spark_interval_spelt",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        match kinds {
            [kind] if kind.is_string() || kind.is_null() => Ok(vec![DataType::Utf8]),
            _ => plan_err!("{} takes a text", self.name()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self {
            Self::Date | Self::TryDate => DataType::Date32,
            Self::Timestamp | Self::Clock | Self::Interval => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // The rule that calls it comes behind the one that gives arguments their types.
        invoke(&arguments, |arrays| self.run(cast(&arrays[0], &DataType::Utf8)?.as_string()))
    }
}

/// Casts of texts to dates and times in Spark's dialect.
#[derive(Debug)]
pub(crate) struct MomentCasts;

impl AnalyzerRule for MomentCasts {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        call_within_casts(plan, config, &|from, to, or_null| match to {
            _ if !from.is_string() => None,
            DataType::Date32 if or_null => Some(SparkMoment::TryDate.into()),
            DataType::Date32 => Some(SparkMoment::Date.into()),
            DataType::Timestamp(..) => Some(SparkMoment::Timestamp.into()),
            DataType::Time64(_) => Some(SparkMoment::Clock.into()),
            to if *to == INTERVAL => Some(SparkMoment::Interval.into()),
            _ => None,
        })
    }

    fn name(&self) -> &str {
        "moment_casts"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers are those of Spark 4.
    #[test]
    fn a_date_needs_no_month_and_no_day() {
        let days = |text: &str| date_of(text);
        for (text, expected) in [
            ("1970-01-01", Some(0)),
            (" 1970-1-2\t\n", Some(1)),
            ("1970", Some(0)),
            ("1970-02", Some(31)),
            ("2000-02-29", Some(11_016)),
            ("1970-01-03T12:00 and so on", Some(2)),
            ("1970-01-03 x", Some(2)),
            ("-0001-01-01", Some(-719_893)),
            ("+10000-01-01", Some(2_932_897)),
            ("1582-10-04", Some(-141_438)),
            ("1970-01 00:00", None),
            ("1970-13-01", None),
            ("1999-02-29", None),
            ("970-01-01", None),
            ("19700101", None),
            ("12345678-01-01", None),
            ("1970/01/01", None),
            ("", None),
        ] {
            assert_eq!(days(text), expected, "{text}");
        }
    }

    #[test]
    fn an_interval_is_numbers_with_units() {
        for (text, expected) in [
            ("1 second", Some("1.0 second")),
            ("+     1 SECONDS", Some("1.0 second")),
            ("- 1 day", Some("-1 day")),
            ("interval 3 month 1 hour", Some("3 month 1 hour")),
            ("1.5 second", Some("1.5 second")),
            ("-.1234567 second", Some("-0.123456 second")),
            ("- -1 second", None),
            ("- +1 second", None),
            ("1.5 day", None),
            ("1day", None),
            ("1 second 2", None),
            ("1 century", None),
            ("", None),
        ] {
            assert_eq!(interval_text(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_timestamp_has_all_fields() {
        for (text, expected) in [
            ("2020-1-2 3:4:5.6789012", Some("2020-01-02 03:04:05.678901")),
            ("2020-1", Some("2020-01-01 00:00:00")),
            ("2020-01-01T12", Some("2020-01-01 12:00:00")),
            ("\t2020-01-01 12:30 ", Some("2020-01-01 12:30:00")),
            ("10000-01-01", Some("+10000-01-01 00:00:00")),
            ("-0044-03-15 9:00", Some("-0044-03-15 09:00:00")),
            ("2020-01-01 12:30:00Z", None),
            ("2020-01-01 24:00:00", None),
            ("2020-01-01 1:2:60", None),
            ("2020-01-32", None),
            ("20200101", None),
            ("soon", None),
        ] {
            assert_eq!(timestamp_text(text).as_deref(), expected, "{text}");
        }
    }
}
