//! `date_format(timestamp, pattern)` with Spark's patterns, such as `yyyy-MM-dd HH:mm`. In DataFusion it is another name of `to_char`,
//! whose patterns are `%Y-%m-%d %H:%M`, and which gives any other pattern back as it is.

use std::fmt::Write;
use std::sync::{Arc, LazyLock};

use chrono::{Datelike, NaiveDateTime, Offset, TimeZone, Timelike};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use datafusion::arrow::temporal_conversions::as_datetime;
use datafusion::common::Result;
use datafusion::common::utils::take_function_args;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use yeoul_base::ErrorKind;

use super::interval_span::as_given;
use super::time_casts::TimeCast;
use crate::{Error, Result as OwnResult};

/// The name of the function.
pub(crate) const DATE_FORMAT: &str = "date_format";

/// The most letters of a field, of which Spark allows none more.
const LETTERS_MAX: usize = 19;

/// The function `date_format`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct DateFormat;

/// A pattern, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Item>);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    Text(String),
    /// A letter and how often it is repeated.
    Field(char, usize),
    /// The begin of what a text may lack.
    Open,
    /// The end of that.
    Close,
}

/// Letters that Spark writes and does not read.
const WRITTEN_ONLY: [char; 4] = ['E', 'F', 'q', 'Q'];

/// Letters of zones: a text with one would be an instant.
const ZONES: [char; 6] = ['O', 'V', 'X', 'Z', 'x', 'z'];

impl Pattern {
    /// Takes a pattern apart.
    ///
    /// # Errors
    /// `Invalid` for letters that Spark has not, or not as often, and for `%`, which begins the fields of `to_char`.
    pub(super) fn parse(pattern: &str) -> OwnResult<Self> {
        let refused = |what: String| {
            let hint = "its patterns are Spark's, such as 'yyyy-MM-dd HH:mm:ss'; to_char has those of strftime, such as '%Y-%m-%d'";
            Error::new(ErrorKind::Invalid, format!("date_format has {what} in its pattern '{pattern}'"))
                .with_hint(hint)
        };
        let mut items = Vec::new();
        let mut depth = 0_usize;
        let mut rest = pattern.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '\'' if rest.next_if_eq(&'\'').is_some() => push_text(&mut items, '\''),
                '\'' => loop {
                    match rest.next() {
                        None => return Err(refused("a quote that does not end".to_owned())),
                        Some('\'') if rest.next_if_eq(&'\'').is_none() => break,
                        Some(c) => push_text(&mut items, c),
                    }
                },
                '[' => {
                    depth += 1;
                    items.push(Item::Open);
                }
                ']' if depth > 0 => {
                    depth -= 1;
                    items.push(Item::Close);
                }
                '%' | ']' | '{' | '}' | '#' => return Err(refused(format!("'{c}'"))),
                c if c.is_ascii_alphabetic() => {
                    let mut count = 1;
                    while rest.next_if_eq(&c).is_some() {
                        count += 1;
                    }
                    if count > most_of(c) || (c == 'O' && matches!(count, 2 | 3)) {
                        return Err(refused(format!("'{}'", String::from(c).repeat(count.min(LETTERS_MAX)))));
                    }
                    items.push(Item::Field(c, count));
                }
                c => push_text(&mut items, c),
            }
        }
        Ok(Self(items))
    }

    /// Takes apart a pattern by which texts are read.
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse); `Invalid` for letters that Spark does not read, and for those of zones that a text must have.
    pub(super) fn of_parsing(pattern: &str) -> OwnResult<Self> {
        let parsed = Self::parse(pattern)?;
        let mut depth = 0_usize;
        for item in &parsed.0 {
            let letter = match item {
                Item::Field(letter, _) => letter,
                Item::Open => {
                    depth += 1;
                    continue;
                }
                Item::Close => {
                    depth -= 1;
                    continue;
                }
                Item::Text(_) => continue,
            };
            let (what, hint) = if WRITTEN_ONLY.contains(letter) {
                ("a text is not read by", "date_format writes it")
            } else if ZONES.contains(letter) && depth == 0 {
                (
                    "not supported: a zone in",
                    "TIMESTAMP is a wall clock; CAST('2024-01-01 00:00:00Z' AS TIMESTAMPTZ) is an instant",
                )
            } else {
                continue;
            };
            let error = Error::new(ErrorKind::Invalid, format!("{what} the pattern '{pattern}': '{letter}'"));
            return Err(error.with_hint(hint));
        }
        Ok(parsed)
    }

    /// True if a text may have a zone.
    pub(super) fn has_zone(&self) -> bool {
        self.0.iter().any(|item| matches!(item, Item::Field(letter, _) if ZONES.contains(letter)))
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.0
    }

    /// The text of a time with this offset of its zone, in seconds.
    fn write(&self, to: &mut String, time: NaiveDateTime, offset: i32, zone: &str) -> OwnResult<()> {
        for item in &self.0 {
            match *item {
                Item::Text(ref text) => to.push_str(text),
                Item::Open | Item::Close => {}
                Item::Field('z', _) => {
                    let error =
                        Error::new(ErrorKind::Invalid, "not supported: date_format with names of zones, 'z'");
                    return Err(error.with_hint("'VV' is the zone, 'XXX' its offset"));
                }
                Item::Field(letter, count) => {
                    field(to, letter, count, time, offset, zone).expect("writing to a string cannot fail");
                }
            }
        }
        Ok(())
    }
}

fn push_text(items: &mut Vec<Item>, c: char) {
    match items.last_mut() {
        Some(Item::Text(text)) => text.push(c),
        _ => items.push(Item::Text(c.to_string())),
    }
}

/// How often a letter may be repeated: not at all, if it is none of Spark's.
fn most_of(letter: char) -> usize {
    match letter {
        'y' => 6,
        'G' | 'M' | 'L' | 'E' | 'Q' | 'q' | 'z' => 4,
        'X' | 'x' | 'Z' => 5,
        'O' => 4,
        'D' => 3,
        'd' | 'H' | 'h' | 'k' | 'K' | 'm' | 's' | 'V' => 2,
        'a' | 'F' => 1,
        'S' => 9,
        _ => 0,
    }
}

fn field(
    to: &mut String,
    letter: char,
    count: usize,
    time: NaiveDateTime,
    offset: i32,
    zone: &str,
) -> std::fmt::Result {
    let twelve = time.hour() % 12;
    let number = match letter {
        'y' => return year(to, time.year(), count),
        'G' => return write!(to, "{}", era(time.year(), count)),
        'M' | 'L' if count > 2 => return name(to, time, if count == 3 { "%b" } else { "%B" }),
        'E' => return name(to, time, if count < 4 { "%a" } else { "%A" }),
        'a' => return write!(to, "{}", if time.hour() < 12 { "AM" } else { "PM" }),
        'Q' | 'q' if count == 3 => return write!(to, "Q{}", quarter(time)),
        'Q' | 'q' if count == 4 => {
            return write!(to, "{} quarter", ["1st", "2nd", "3rd", "4th"][quarter(time) as usize - 1]);
        }
        'S' => return write!(to, "{}", &format!("{:09}", time.nanosecond())[..count]),
        'V' => return write!(to, "{zone}"),
        'O' | 'X' | 'x' | 'Z' => return write_offset(to, letter, count, offset),
        'M' | 'L' => time.month(),
        'Q' | 'q' => quarter(time),
        'D' => time.ordinal(),
        'd' => time.day(),
        'F' => (time.day() - 1) % 7 + 1,
        'H' => time.hour(),
        'k' if time.hour() == 0 => 24,
        'k' => time.hour(),
        'h' if twelve == 0 => 12,
        'h' | 'K' => twelve,
        'm' => time.minute(),
        's' => time.second(),
        _ => unreachable!("`most_of` has no other letters"),
    };
    write!(to, "{number:0count$}")
}

fn quarter(time: NaiveDateTime) -> u32 {
    time.month0() / 3 + 1
}

fn name(to: &mut String, time: NaiveDateTime, format: &str) -> std::fmt::Result {
    write!(to, "{}", time.format(format))
}

/// The year of the era: the one before 1 is 1.
fn year(to: &mut String, year: i32, count: usize) -> std::fmt::Result {
    let of_era = if year > 0 { year } else { 1 - year };
    match count {
        2 => write!(to, "{:02}", of_era % 100),
        // Java marks a year with more digits than letters.
        4.. if of_era.to_string().len() > count => write!(to, "+{of_era}"),
        _ => write!(to, "{of_era:0count$}"),
    }
}

fn era(year: i32, count: usize) -> &'static str {
    match (year > 0, count < 4) {
        (true, true) => "AD",
        (false, true) => "BC",
        (true, false) => "Anno Domini",
        (false, false) => "Before Christ",
    }
}

fn write_offset(to: &mut String, letter: char, count: usize, offset: i32) -> std::fmt::Result {
    let is_of_zero = letter == 'X' || (letter, count) == ('Z', 5);
    if is_of_zero && offset == 0 {
        return write!(to, "Z");
    }
    let (sign, ahead) = if offset < 0 { ('-', -offset) } else { ('+', offset) };
    let (hours, minutes, seconds) = (ahead / 3600, ahead / 60 % 60, ahead % 60);
    match (letter, count) {
        ('X' | 'x', 1) if minutes == 0 => return write!(to, "{sign}{hours:02}"),
        ('O', _) | ('Z', 4) if offset == 0 => return write!(to, "GMT"),
        ('O', 1) if minutes == 0 && seconds == 0 => return write!(to, "GMT{sign}{hours}"),
        ('O', 1) => write!(to, "GMT{sign}{hours}:{minutes:02}")?,
        ('O', _) | ('Z', 4) => write!(to, "GMT{sign}{hours:02}:{minutes:02}")?,
        ('X' | 'x', 3 | 5) | ('Z', 5) => write!(to, "{sign}{hours:02}:{minutes:02}")?,
        _ => write!(to, "{sign}{hours:02}{minutes:02}")?,
    }
    // The offsets of local times before there were zones have seconds.
    match (letter, count) {
        _ if seconds == 0 => Ok(()),
        ('O', _) | ('Z', 4 | 5) | ('X' | 'x', 5) => write!(to, ":{seconds:02}"),
        ('X' | 'x', 4) => write!(to, "{seconds:02}"),
        _ => Ok(()),
    }
}

impl ScalarUDFImpl for DateFormat {
    fn name(&self) -> &str {
        DATE_FORMAT
    }

    fn signature(&self) -> &Signature {
        static OF_TWO: LazyLock<Signature> = LazyLock::new(|| Signature::any(2, Volatility::Immutable));
        &OF_TWO
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let [time, pattern] = take_function_args(DATE_FORMAT, arguments)?;
        let is_time = matches!(time, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64);
        if (is_time || time.is_string() || time.is_null()) && (pattern.is_string() || pattern.is_null()) {
            return Ok(DataType::Utf8);
        }
        let what = format!("date_format takes a timestamp and a pattern, and not {time} and {pattern}");
        Err(Error::new(ErrorKind::Invalid, what).with_hint("write date_format(ts, 'yyyy-MM-dd')").into())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { arguments.number_rows };
        let [times, patterns] = take_function_args(DATE_FORMAT, arguments.args)?;
        let (times, patterns) =
            (times.into_array(rows)?, cast(&patterns.into_array(rows)?, &DataType::Utf8)?);
        let texts = formatted(&in_microseconds(&times)?, patterns.as_string())?;
        as_given(Arc::new(texts), is_scalar)
    }
}

/// Spark's timestamps have microseconds.
fn in_microseconds(times: &ArrayRef) -> Result<ArrayRef> {
    let zone = match times.data_type() {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    let to = DataType::Timestamp(TimeUnit::Microsecond, zone);
    match TimeCast::between(times.data_type(), &to, false) {
        Some(cast) => cast.run(times),
        None => Ok(cast(times, &to)?),
    }
}

/// The text of a wall clock of so many microseconds, by a pattern.
///
/// # Errors
/// Those of the pattern; `Invalid` for a time out of the calendar.
pub(crate) fn written(micros: i64, pattern: &str) -> OwnResult<String> {
    let time = as_datetime::<TimestampMicrosecondType>(micros).ok_or_else(|| {
        Error::new(
            ErrorKind::Invalid,
            format!("a timestamp of {micros} microseconds is out of the calendar's range"),
        )
    })?;
    let mut text = String::new();
    Pattern::parse(pattern)?.write(&mut text, time, 0, "UTC")?;
    Ok(text)
}

fn formatted(times: &ArrayRef, patterns: &StringArray) -> Result<StringArray> {
    let times = times.as_primitive::<TimestampMicrosecondType>();
    let zone_name = times.timezone().unwrap_or("UTC");
    let zone = times.timezone().map(str::parse::<Tz>).transpose()?;
    let mut parsed: Option<(&str, Pattern)> = None;
    let mut text = String::new();
    let mut texts = Vec::with_capacity(times.len());
    for (time, pattern) in times.iter().zip(patterns) {
        let (Some(time), Some(pattern)) = (time, pattern) else {
            texts.push(None);
            continue;
        };
        let utc = as_datetime::<TimestampMicrosecondType>(time);
        let offset = |utc: &NaiveDateTime| zone.map(|zone| zone.offset_from_utc_datetime(utc).fix());
        let local = utc.and_then(|utc| match offset(&utc) {
            Some(offset) => Some((utc.checked_add_offset(offset)?, offset.local_minus_utc())),
            None => Some((utc, 0)),
        });
        let (local, offset) = local.ok_or_else(|| {
            Error::new(
                ErrorKind::Invalid,
                format!("a timestamp of {time} microseconds is out of the calendar's range"),
            )
        })?;
        let parsed = match &parsed {
            Some((of, pattern_parsed)) if *of == pattern => pattern_parsed,
            _ => &parsed.insert((pattern, Pattern::parse(pattern)?)).1,
        };
        text.clear();
        parsed.write(&mut text, local, offset, zone_name)?;
        texts.push(Some(text.clone()));
    }
    Ok(texts.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pattern: &str, time: &str) -> String {
        let mut text = String::new();
        let written =
            Pattern::parse(pattern).unwrap().write(&mut text, time.parse().unwrap(), 19_800, "Asia/Kolkata");
        written.unwrap();
        text
    }

    /// What Spark 4 answers.
    #[test]
    fn the_letters_are_sparks() {
        let time = "2024-03-05T00:07:09.123456";
        for (pattern, expected) in [
            ("yyyy-MM-dd HH:mm:ss.SSS", "2024-03-05 00:07:09.123"),
            ("yyyy-MM", "2024-03"),
            ("y/M/d", "2024/3/5"),
            ("yy MMM MMMM LLL", "24 Mar March Mar"),
            ("EEE, EEEE", "Tue, Tuesday"),
            ("h K k H a", "12 0 24 0 AM"),
            ("D DDD", "65 065"),
            ("Q qq QQQ qqqq", "1 01 Q1 1st quarter"),
            ("SSSSSS S", "123456 1"),
            ("X XX XXX x Z", "+0530 +0530 +05:30 +0530 +0530"),
            ("XXXX XXXXX xxxx ZZZZ ZZZZZ O OOOO", "+0530 +05:30 +0530 GMT+05:30 +05:30 GMT+5:30 GMT+05:30"),
            ("VV G", "Asia/Kolkata AD"),
            ("yyyy'T'HH 'o''clock' ''", "2024T00 o'clock '"),
            ("yyyy年MM月", "2024年03月"),
            ("yyyy[-MM[-dd]]", "2024-03-05"),
        ] {
            assert_eq!(text(pattern, time), expected, "{pattern}");
        }
        assert_eq!(text("yyyy yyyyyy", "+12024-12-31T13:00:00"), "+12024 012024");
        assert_eq!(text("y G hh", "-0001-12-31T13:00:00"), "2 BC 01");
    }

    #[test]
    fn what_spark_does_not_have_is_refused() {
        for (pattern, words) in [
            ("%Y-%m", "'%'"),
            ("YYYY", "'YYYY'"),
            ("yyyy 'T", "a quote"),
            ("MMMMM", "'MMMMM'"),
            ("HH]", "']'"),
        ] {
            let error = Pattern::parse(pattern).unwrap_err();
            assert!(error.to_string().contains(words) && error.hint().is_some(), "{pattern}: {error}");
        }
    }
}
