//! Texts of intervals: `1 day 12 hours`, `-3 months`, `1 day 02:03:04.5`. Arrow's parser takes a number without a unit for months or
//! seconds, and knows no clock times; here each number has a unit.

use arrow::compute::kernels::cast_utils::{
    IntervalParseConfig, IntervalUnit, parse_interval_month_day_nano_config,
};
use arrow::datatypes::IntervalMonthDayNano;
use yeoul_base::ErrorKind;

use crate::{Error, Result};

/// What a refusal says of the units.
const UNITS: &str = "each number has a unit: '3 days', '1 month 12 hours', '1 day 02:03:04'; units are years, months, weeks, days, \
                     hours, minutes, seconds, milliseconds, microseconds, also decades and centuries";

/// The interval that a text stands for.
///
/// # Errors
/// `Invalid` for a number without a unit, a unit that is not known, and a value that is out of range.
pub(crate) fn parse(text: &str) -> Result<IntervalMonthDayNano> {
    let written = spelt_out(text)?;
    let config = IntervalParseConfig::new(IntervalUnit::Second);
    parse_interval_month_day_nano_config(&written, config).map_err(|source| {
        Error::new(ErrorKind::Invalid, format!("'{text}' is no interval"))
            .with_hint(UNITS)
            .with_source(source)
    })
}

/// The text with clock times as hours, minutes and seconds.
///
/// # Errors
/// `Invalid` for a number without a unit.
pub(crate) fn spelt_out(text: &str) -> Result<String> {
    let mut words = text.split_whitespace().peekable();
    let mut spelt: Vec<String> = Vec::new();
    while let Some(word) = words.next() {
        if let Some(clock) = clock_time(word) {
            spelt.extend(clock);
        } else if !is_amount(word) {
            // A unit is in the same word, as in `3days`, or the word is wrong anyway.
            spelt.push(word.to_owned());
        } else if let Some(unit) = words.next_if(|next| !is_amount(next) && clock_time(next).is_none()) {
            check_part(word, unit)?;
            spelt.extend([word.to_owned(), unit.to_owned()]);
        } else {
            let what = format!("an interval without a unit: '{word}' in '{text}'");
            let error = Error::new(ErrorKind::Invalid, what);
            return Err(error.with_hint(UNITS));
        }
    }
    Ok(spelt.join(" "))
}

/// Fields of intervals as SQL's standard writes them, each with what stands before it, and how many of it make one of the next larger.
const FIELDS: [(&str, char, u32); 6] = [
    ("year", ' ', 0),
    ("month", '-', 12),
    ("day", ' ', 0),
    ("hour", ' ', 24),
    ("minute", ':', 60),
    ("second", ':', 60),
];

/// The text of `INTERVAL '1-2' YEAR TO MONTH` or `INTERVAL '1 10:30' DAY TO MINUTE`, with a unit for each number.
///
/// # Errors
/// `Invalid` for a text that has not exactly these fields, or one beyond its range; for a sign within a text of days and times, which
/// PostgreSQL takes for the sign of the days and Spark for that of all.
pub(crate) fn of_fields(text: &str, first: &str, last: &str) -> Result<String> {
    let no_such = || {
        let what = format!("'{text}' is no interval of {first} to {last}");
        Error::new(ErrorKind::Invalid, what)
            .with_hint("write '1-2' year to month, '1 10:30:00' day to second, '10:30' hour to minute")
    };
    let place = |name: &str| FIELDS.iter().position(|(field, _, _)| *field == name).ok_or_else(no_such);
    let (first_at, last_at) = (place(first)?, place(last)?);
    let is_of_months = last_at == 1;
    if first_at >= last_at || (first_at < 2) != is_of_months {
        return Err(no_such());
    }
    let (sign, mut rest) = match text.trim().strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.trim().strip_prefix('+').unwrap_or(text.trim())),
    };
    if !sign.is_empty() && !is_of_months {
        let what = format!("'{text}': a sign that may be that of the days or of all");
        let hint = format!("write it before the text: INTERVAL -'{rest}' {first} TO {last}");
        return Err(Error::new(ErrorKind::Invalid, what).with_hint(hint));
    }
    let fields = &FIELDS[first_at..=last_at];
    let mut spelt = Vec::with_capacity(fields.len());
    for (at, (field, _, limit)) in fields.iter().enumerate() {
        let number = match fields.get(at + 1) {
            Some((_, separator, _)) => {
                let (number, behind) = rest.split_once(*separator).ok_or_else(no_such)?;
                rest = behind.trim_start();
                number
            }
            None => rest,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let in_range = at == 0 || whole.parse::<u32>().is_ok_and(|number| number < *limit);
        if !is_number(whole)
            || !is_number(fraction)
            || !in_range
            || (number.contains('.') && *field != "second")
        {
            return Err(no_such());
        }
        spelt.push(format!("{sign}{number} {field}"));
    }
    Ok(spelt.join(" "))
}

/// The text of the negative of an interval whose text has been spelt out: each number has the other sign.
pub(crate) fn negated(spelt: &str) -> String {
    let negated = spelt.split_whitespace().map(|word| match word.strip_prefix('-') {
        Some(amount) => amount.to_owned(),
        None if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') => format!("-{word}"),
        None => word.strip_prefix('+').map_or_else(|| word.to_owned(), |amount| format!("-{amount}")),
    });
    negated.collect::<Vec<_>>().join(" ")
}

/// Checks that a part of a month or of a year is one of days or of months. Arrow drops the rest.
///
/// # Errors
/// `Invalid` for one that is not.
pub(crate) fn check_part(amount: &str, unit: &str) -> Result<()> {
    let unit = unit.to_ascii_lowercase();
    let parts = match () {
        () if unit.starts_with("mon") => 30,
        () if unit.starts_with("year") => 12,
        () if unit.starts_with("decade") => 120,
        () if unit.starts_with("cent") => 1200,
        () => return Ok(()),
    };
    let Some((_, fraction)) = amount.split_once('.') else { return Ok(()) };
    let fraction = fraction.trim_end_matches('0');
    // More digits are never a part of 1200 or fewer.
    let digits = u32::try_from(fraction.len()).unwrap_or(u32::MAX);
    let is_whole = digits <= 9
        && fraction
            .parse::<u64>()
            .is_ok_and(|fraction| (fraction * parts).is_multiple_of(10_u64.pow(digits)));
    if fraction.is_empty() || is_whole {
        return Ok(());
    }
    let of = if parts == 30 { "days" } else { "months" };
    let what = format!("an interval of '{amount} {unit}' is no whole number of {of}");
    Err(Error::new(ErrorKind::Invalid, what).with_hint("write its days and hours: '1 month 3 days 12 hours'"))
}

fn is_amount(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))
}

/// The fields of `[-]H:MM[:SS[.f]]`, with its sign; `None` for a word that is no clock time.
fn clock_time(word: &str) -> Option<Vec<String>> {
    let (sign, clock) = match word.strip_prefix('-') {
        Some(clock) => ("-", clock),
        None => ("", word.strip_prefix('+').unwrap_or(word)),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut fields = clock.split(':');
    let (hours, minutes, seconds) = (fields.next()?, fields.next()?, fields.next().unwrap_or("0"));
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    let in_range = |text: &str| digits(text) && text.len() <= 2 && text.parse::<u8>().is_ok_and(|n| n < 60);
    if fields.next().is_some()
        || !digits(hours)
        || !in_range(minutes)
        || !in_range(whole)
        || !digits(fraction)
    {
        return None;
    }
    Some(vec![
        format!("{sign}{hours} hours"),
        format!("{sign}{minutes} minutes"),
        format!("{sign}{seconds} seconds"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn each_unit_counts_in_the_singular_and_the_plural() {
        for (text, months, days, nanoseconds) in [
            ("3 decades", 360, 0, 0),
            ("1 century 1 year", 1212, 0, 0),
            ("-2 months", -2, 0, 0),
            ("1 week 1 day", 0, 8, 0),
            ("1.5 days", 0, 1, 12 * 3600 * SECOND),
            ("2hours 5 minutes", 0, 0, (2 * 3600 + 300) * SECOND),
            ("1 day 02:03:04.5", 0, 1, (2 * 3600 + 3 * 60 + 4) * SECOND + SECOND / 2),
            ("-1:30", 0, 0, -5400 * SECOND),
            ("1.5 months", 1, 15, 0),
            ("0.25 years", 3, 0, 0),
            ("5 milliseconds 7 microseconds", 0, 0, 5_007_000),
        ] {
            assert_eq!(parse(text).unwrap(), IntervalMonthDayNano { months, days, nanoseconds }, "{text}");
        }
    }

    #[test]
    fn fields_have_units_and_a_sign_before_months_is_that_of_all() {
        for (text, first, last, expected) in [
            ("1-2", "year", "month", "1 year 2 month"),
            ("-1-2", "year", "month", "-1 year -2 month"),
            ("400 23:59:59.123456", "day", "second", "400 day 23 hour 59 minute 59.123456 second"),
            (" +1  2 ", "day", "hour", "1 day 2 hour"),
            ("100:30", "hour", "minute", "100 hour 30 minute"),
            ("90:1.5", "minute", "second", "90 minute 1.5 second"),
        ] {
            assert_eq!(of_fields(text, first, last).unwrap(), expected, "{text}");
        }
        for (text, first, last) in [
            ("1-12", "year", "month"),
            ("1", "year", "month"),
            ("1-2-3", "year", "month"),
            ("1 24", "day", "hour"),
            ("1.5 2", "day", "hour"),
            ("1 2:3", "day", "second"),
            ("-1 2", "day", "hour"),
            ("1 -2", "day", "hour"),
            ("2", "hour", "day"),
            ("2 3", "month", "day"),
            ("2", "day", "day"),
            ("", "hour", "minute"),
            ("1:2", "minute", "week"),
        ] {
            let error = of_fields(text, first, last).unwrap_err();
            assert!(error.hint().is_some(), "{text}: {error}");
        }
    }

    #[test]
    fn a_number_without_a_unit_and_an_unknown_unit_are_refused() {
        for (text, words) in [
            ("47.21", "without a unit: '47.21'"),
            ("1 day 5", "without a unit: '5'"),
            ("1 2 days", "without a unit: '1'"),
            ("3 fortnights", "is no interval"),
            ("1 day 25:61", "is no interval"),
            ("", "is no interval"),
            ("1 day 2 days", "is no interval"),
            ("99999999999 years", "is no interval"),
            ("0.05 months", "no whole number of days"),
            ("1 day 0.05 year", "no whole number of months"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.to_string().contains(words) && error.hint().is_some(), "{text}: {error}");
        }
    }
}
