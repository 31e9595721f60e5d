//! Patterns of `strftime` and `strptime` with the fields of DuckDB, such as `%Y-%m-%d %H:%M:%S`: texts of times, and times of texts.

use std::fmt::Write;

use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use yeoul_base::ErrorKind;

use crate::{Error, Result};

/// Most characters of a pattern: a text is at most some ten times as long.
const PATTERN_CHARS_MAX: usize = 1 << 16;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// From Sunday on.
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A pattern, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TimePattern(Vec<Item>);

#[derive(Debug, PartialEq, Eq)]
enum Item {
    Text(String),
    /// A letter behind `%`, and whether it is written without leading zeros.
    Field(char, bool),
}

/// A local time, and the zone in which it is that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local<'a> {
    pub time: NaiveDateTime,
    /// Seconds that it is ahead of UTC.
    pub offset: i32,
    /// Name of the zone; empty if there is none.
    pub zone: &'a str,
}

/// A time that a text has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    pub time: NaiveDateTime,
    /// Seconds that it is ahead of UTC, if the text says so.
    pub offset: Option<i32>,
}

impl TimePattern {
    /// Takes a pattern apart.
    ///
    /// # Errors
    /// `Invalid` for letters that DuckDB has not, and for a pattern of more than [`PATTERN_CHARS_MAX`] characters.
    pub fn parse(pattern: &str) -> Result<Self> {
        let refused = |what: String| {
            let hint = "its patterns are such as '%Y-%m-%d %H:%M:%S'; date_format has Spark's, such as 'yyyy-MM-dd HH:mm:ss'";
            Error::new(ErrorKind::Invalid, format!("{what} in the pattern '{pattern}'")).with_hint(hint)
        };
        if pattern.is_empty() {
            return Err(refused("there is no field".to_owned()));
        }
        if pattern.len() > PATTERN_CHARS_MAX {
            let what = format!("a pattern of times of more than {PATTERN_CHARS_MAX} characters");
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        let mut items = Vec::new();
        let mut rest = pattern.chars().peekable();
        while let Some(c) = rest.next() {
            if c != '%' {
                push_text(&mut items, c);
                continue;
            }
            let is_bare = rest.next_if_eq(&'-').is_some();
            match rest.next() {
                Some('%') if !is_bare => push_text(&mut items, '%'),
                Some('c') if !is_bare => items.extend(Self::parse("%Y-%m-%d %H:%M:%S")?.0),
                Some('x') if !is_bare => items.extend(Self::parse("%Y-%m-%d")?.0),
                Some('X') if !is_bare => items.extend(Self::parse("%H:%M:%S")?.0),
                Some(letter) if "dmyHIMSj".contains(letter) => items.push(Item::Field(letter, is_bare)),
                Some(letter) if !is_bare && "aAwubBhYpfgzZUWGV".contains(letter) => {
                    items.push(Item::Field(letter, false));
                }
                Some(letter) => {
                    return Err(refused(format!(
                        "there is no field '%{}{letter}'",
                        if is_bare { "-" } else { "" }
                    )));
                }
                None => return Err(refused("there is a '%' without a field".to_owned())),
            }
        }
        Ok(Self(items))
    }

    /// True if the texts have the zone of their time.
    pub fn has_offset(&self) -> bool {
        self.0.iter().any(|item| matches!(item, Item::Field('z', _)))
    }

    /// Checks that texts can be read by it.
    ///
    /// # Errors
    /// `Invalid` for weeks and names of zones, and for a day both of a month and of a year.
    pub fn check_readable(&self) -> Result<()> {
        let has = |letters: &str| {
            self.0.iter().find_map(|item| match item {
                Item::Field(letter, _) if letters.contains(*letter) => Some(*letter),
                _ => None,
            })
        };
        if let Some(letter) = has("UWGVwuZ") {
            let text = format!("not supported: strptime with %{letter}");
            let hint = if letter == 'Z' {
                "%z reads an offset such as +02; put a zone behind: strptime(…) AT TIME ZONE 'Europe/Berlin'"
            } else {
                "read the date by %Y-%m-%d or by %Y-%j"
            };
            return Err(Error::new(ErrorKind::Invalid, text).with_hint(hint));
        }
        if let (Some('j'), Some(letter)) = (has("j"), has("dmbBh")) {
            let text = format!("strptime with %j, a day of the year, and %{letter}");
            return Err(Error::new(ErrorKind::Invalid, text).with_hint("one of both"));
        }
        Ok(())
    }

    /// Writes the text of a time.
    pub fn write(&self, to: &mut String, local: Local<'_>) {
        for item in &self.0 {
            match item {
                Item::Text(text) => to.push_str(text),
                Item::Field(letter, is_bare) => {
                    field(to, *letter, *is_bare, local).expect("writing to a string cannot fail");
                }
            }
        }
    }

    /// The time of a text; `None` if it is not of the pattern, or no day of the calendar. What the pattern leaves out is that of
    /// 1900-01-01 00:00.
    pub fn read(&self, text: &str) -> Option<Parsed> {
        let mut fields = Fields::default();
        let mut rest = text.trim_start();
        for item in &self.0 {
            rest = match item {
                Item::Text(literal) => after_literal(rest, literal)?,
                Item::Field(letter, _) => fields.read(rest, *letter)?,
            };
        }
        rest.trim().is_empty().then(|| fields.parsed()).flatten()
    }
}

fn push_text(items: &mut Vec<Item>, c: char) {
    match items.last_mut() {
        Some(Item::Text(text)) => text.push(c),
        _ => items.push(Item::Text(c.to_string())),
    }
}

fn field(to: &mut String, letter: char, is_bare: bool, local: Local<'_>) -> std::fmt::Result {
    let time = local.time;
    let twelve = (time.hour() + 11) % 12 + 1;
    let weekday = time.weekday().num_days_from_sunday();
    let month = MONTHS[time.month0() as usize];
    // Weeks begin with their first Sunday, or Monday; days before it are of week 0.
    let week = |days_since: u32| (time.ordinal0() + 7 - days_since) / 7;
    let microsecond = time.nanosecond() / 1000;
    let (number, width) = match letter {
        'a' => return to.write_str(&DAYS[weekday as usize][..3]),
        'A' => return to.write_str(DAYS[weekday as usize]),
        'b' | 'h' => return to.write_str(&month[..3]),
        'B' => return to.write_str(month),
        'p' => return to.write_str(if time.hour() < 12 { "AM" } else { "PM" }),
        'Y' => return year(to, time.year()),
        'G' => return year(to, time.iso_week().year()),
        'z' => return write_offset(to, local.offset),
        'Z' => return to.write_str(local.zone),
        'w' => (weekday, 1),
        'u' => (time.weekday().number_from_monday(), 1),
        'd' => (time.day(), 2),
        'm' => (time.month(), 2),
        'y' => (time.year().unsigned_abs() % 100, 2),
        'H' => (time.hour(), 2),
        'I' => (twelve, 2),
        'M' => (time.minute(), 2),
        'S' => (time.second(), 2),
        'f' => (microsecond, 6),
        'g' => (microsecond / 1000, 3),
        'j' => (time.ordinal(), 3),
        'U' => (week(weekday), 2),
        'W' => (week(time.weekday().num_days_from_monday()), 2),
        'V' => (time.iso_week().week(), 2),
        _ => unreachable!("`parse` has no other letters"),
    };
    let width = if is_bare { 1 } else { width };
    write!(to, "{number:0width$}")
}

fn year(to: &mut String, year: i32) -> std::fmt::Result {
    if year < 0 { write!(to, "{year}") } else { write!(to, "{year:04}") }
}

fn write_offset(to: &mut String, offset: i32) -> std::fmt::Result {
    let (sign, ahead) = if offset < 0 { ('-', -offset) } else { ('+', offset) };
    write!(to, "{sign}{:02}", ahead / 3600)?;
    match ahead / 60 % 60 {
        0 => Ok(()),
        minutes => write!(to, ":{minutes:02}"),
    }
}

/// The rest of a text behind the characters of a pattern, of which blanks stand for any number of blanks.
fn after_literal<'a>(mut rest: &'a str, literal: &str) -> Option<&'a str> {
    let mut literal = literal.chars().peekable();
    while let Some(c) = literal.next() {
        if c.is_ascii_whitespace() {
            while literal.next_if(char::is_ascii_whitespace).is_some() {}
            if !rest.starts_with(|c: char| c.is_ascii_whitespace()) {
                return None;
            }
            rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
        } else {
            rest = rest.strip_prefix(c)?;
        }
    }
    Some(rest)
}

/// Fields of a time that is read.
#[derive(Debug, Default)]
struct Fields {
    year: Option<i32>,
    month: Option<u32>,
    day: Option<u32>,
    ordinal: Option<u32>,
    hour: u32,
    minute: u32,
    second: u32,
    microsecond: u32,
    is_afternoon: Option<bool>,
    offset: Option<i32>,
}

impl Fields {
    /// Reads a field at the begin of a text, and gives what is behind it.
    fn read<'a>(&mut self, text: &'a str, letter: char) -> Option<&'a str> {
        match letter {
            'a' => return named(text, DAYS.iter().map(|name| &name[..3])).map(|(_, rest)| rest),
            'A' => return named(text, DAYS.into_iter()).map(|(_, rest)| rest),
            'b' | 'h' => return self.month(named(text, MONTHS.iter().map(|name| &name[..3]))?),
            'B' => return self.month(named(text, MONTHS.into_iter())?),
            'p' => {
                let (place, rest) = named(text, ["am", "pm"].into_iter())?;
                self.is_afternoon = Some(place == 1);
                return Some(rest);
            }
            'z' => {
                let (offset, rest) = read_offset(text)?;
                self.offset = Some(offset);
                return Some(rest);
            }
            _ => {}
        }
        let width = match letter {
            'Y' => 4,
            'f' => 6,
            'g' | 'j' => 3,
            _ => 2,
        };
        let (number, digits, rest) = number(text, width)?;
        let within = |least: u32, most: u32| (least..=most).contains(&number).then_some(number);
        match letter {
            'd' => self.day = Some(within(1, 31)?),
            'm' => self.month = Some(within(1, 12)?),
            'y' => self.year = Some(number as i32 + if number >= 69 { 1900 } else { 2000 }),
            'Y' => self.year = Some(number as i32),
            'H' => self.hour = within(0, 23)?,
            'I' => self.hour = within(1, 12)?,
            'M' => self.minute = within(0, 59)?,
            'S' => self.second = within(0, 59)?,
            'f' => self.microsecond = number * 10_u32.pow(6 - digits),
            'g' => self.microsecond = number * 10_u32.pow(6 - digits),
            'j' => self.ordinal = Some(within(1, 366)?),
            _ => unreachable!("`check_readable` has let no other letters pass"),
        }
        Some(rest)
    }

    fn month<'a>(&mut self, (place, rest): (usize, &'a str)) -> Option<&'a str> {
        self.month = Some(place as u32 + 1);
        Some(rest)
    }

    fn parsed(&self) -> Option<Parsed> {
        let year = self.year.unwrap_or(1900);
        let date = match self.ordinal {
            Some(ordinal) => NaiveDate::from_yo_opt(year, ordinal)?,
            None => NaiveDate::from_ymd_opt(year, self.month.unwrap_or(1), self.day.unwrap_or(1))?,
        };
        let hour = match self.is_afternoon {
            None => self.hour,
            Some(_) if self.hour > 12 => return None,
            Some(true) => self.hour % 12 + 12,
            Some(false) => self.hour % 12,
        };
        let time = NaiveTime::from_hms_micro_opt(hour, self.minute, self.second, self.microsecond)?;
        Some(Parsed { time: date.and_time(time), offset: self.offset })
    }
}

/// A number of so many digits at most, how many it has, and the rest of the text.
fn number(text: &str, width: usize) -> Option<(u32, u32, &str)> {
    let digits = text.bytes().take(width).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    Some((number.parse().ok()?, u32::try_from(digits).ok()?, rest))
}

/// Place of the name that a text begins with, whatever its case, and the rest of the text.
fn named(text: &str, names: impl Iterator<Item = &'static str>) -> Option<(usize, &str)> {
    names.enumerate().find_map(|(place, name)| {
        let begin = text.get(..name.len())?;
        begin.eq_ignore_ascii_case(name).then(|| (place, &text[name.len()..]))
    })
}

/// An offset such as `+02`, `-0530` or `+05:30`.
fn read_offset(text: &str) -> Option<(i32, &str)> {
    let (sign, rest) = match text.strip_prefix('+') {
        Some(rest) => (1, rest),
        None => (-1, text.strip_prefix('-')?),
    };
    let two_digits = |text| number(text, 2).filter(|(_, digits, _)| *digits == 2);
    let (hours, _, rest) = two_digits(rest)?;
    let (minutes, rest) = match two_digits(rest.strip_prefix(':').unwrap_or(rest)) {
        Some((minutes, _, rest)) => (minutes, rest),
        None => (0, rest),
    };
    (hours < 24 && minutes < 60).then(|| (sign * (hours * 3600 + minutes * 60) as i32, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pattern: &str, time: &str) -> String {
        let mut text = String::new();
        let local = Local { time: time.parse().unwrap(), offset: 19_800, zone: "Asia/Kolkata" };
        TimePattern::parse(pattern).unwrap().write(&mut text, local);
        text
    }

    fn time(text: &str, pattern: &str) -> Option<String> {
        let pattern = TimePattern::parse(pattern).unwrap();
        pattern.check_readable().unwrap();
        pattern.read(text).map(|parsed| parsed.time.to_string())
    }

    /// Answers of DuckDB 1.5.
    #[test]
    fn texts_are_those_of_duckdb() {
        for (pattern, at, expected) in [
            (
                "%a|%A|%w|%u|%d|%-d|%b|%B|%h",
                "1992-03-02T20:32:45.123456",
                "Mon|Monday|1|1|02|2|Mar|March|Mar",
            ),
            ("%m|%-m|%y|%-y|%Y|%H|%-H", "1992-03-02T20:32:45.123456", "03|3|92|92|1992|20|20"),
            ("%I|%-I|%p|%M|%-M|%S|%-S|%f|%g", "1992-03-02T20:32:45.123456", "08|8|PM|32|32|45|45|123456|123"),
            ("%j|%-j|%U|%W|%G|%V", "1992-03-02T20:32:45.123456", "062|62|09|09|1992|10"),
            ("%c|%x|%X|%%", "1992-03-02T20:32:45.123456", "1992-03-02 20:32:45|1992-03-02|20:32:45|%"),
            ("%I|%-I|%p|%f|%j|%-j|%-y|%y", "2001-01-02T00:00:05", "12|12|AM|000000|002|2|1|01"),
            ("%U|%W|%G|%V", "2001-01-02T00:00:05", "00|01|2001|01"),
            ("%Y|%y", "-0043-03-15T00:00:00", "-43|43"),
            ("%Y|%y", "+10044-03-15T00:00:00", "10044|44"),
            ("%Y|%y", "0044-03-15T00:00:00", "0044|44"),
            ("%z %Z", "2001-01-02T00:00:05", "+05:30 Asia/Kolkata"),
            ("年%Y", "2001-01-02T00:00:05", "年2001"),
        ] {
            assert_eq!(text(pattern, at), expected, "{pattern}");
        }
    }

    #[test]
    fn times_are_those_of_duckdb() {
        for (text, pattern, expected) in [
            ("1992-03-02", "%Y-%m-%d", "1992-03-02 00:00:00"),
            ("  1992-3-2 ", "%Y-%m-%d", "1992-03-02 00:00:00"),
            ("Mon 2 March 1992 08:32:45 PM", "%a %-d %B %Y %I:%M:%S %p", "1992-03-02 20:32:45"),
            ("Tue 2 march 1992 08:32:45 pm", "%a %-d %B %Y %I:%M:%S %p", "1992-03-02 20:32:45"),
            ("2 mar 68", "%d %b %y", "2068-03-02 00:00:00"),
            ("2 mar 69", "%d %b %y", "1969-03-02 00:00:00"),
            ("12.5", "%S.%f", "1900-01-01 00:00:12.500"),
            ("12.12", "%S.%g", "1900-01-01 00:00:12.120"),
            ("1992 60", "%Y %j", "1992-02-29 00:00:00"),
            ("12 AM", "%I %p", "1900-01-01 00:00:00"),
            ("12 PM", "%H %p", "1900-01-01 12:00:00"),
            ("12", "%I", "1900-01-01 12:00:00"),
            ("5%", "%d%%", "1900-01-05 00:00:00"),
            ("19920302103000", "%Y%m%d%H%M%S", "1992-03-02 10:30:00"),
            ("1992-03-02   10:00", "%Y-%m-%d %H:%M", "1992-03-02 10:00:00"),
            ("1 2 1992 3", "%d %m %Y %d", "1992-02-03 00:00:00"),
        ] {
            assert_eq!(time(text, pattern).as_deref(), Some(expected), "{text} by {pattern}");
        }
        for (text, pattern) in [
            ("1992-03-02x", "%Y-%m-%d"),
            ("xxx 2", "%a %d"),
            ("12.1234567", "%S.%f"),
            ("1992-02-30", "%Y-%m-%d"),
            ("1993 366", "%Y %j"),
            ("25:00", "%H:%M"),
            ("13 PM", "%I %p"),
            ("13 AM", "%H %p"),
            ("60", "%S"),
            ("24", "%H"),
            ("", "%Y"),
            ("123456", "%Y"),
            ("-44", "%Y"),
            ("2 Sept 1992", "%d %b %Y"),
            ("2 Sep 1992", "%d %B %Y"),
            ("1992-03-0210:00", "%Y-%m-%d %H:%M"),
            ("1992-03-02 10:00", "%Y-%m-%d%H:%M"),
            ("é", "%b"),
        ] {
            assert_eq!(time(text, pattern), None, "{text} by {pattern}");
        }
    }

    #[test]
    fn an_offset_is_read() {
        let pattern = TimePattern::parse("%H:%M %z").unwrap();
        assert!(pattern.has_offset());
        for (text, expected) in [("10:00 +02", 7200), ("10:00 -0530", -19_800), ("10:00 +05:30", 19_800)] {
            assert_eq!(pattern.read(text).unwrap().offset, Some(expected), "{text}");
        }
        for text in ["10:00", "10:00 Z", "10:00 +2", "10:00 +24", "10:00 +02:60"] {
            assert_eq!(pattern.read(text), None, "{text}");
        }
    }

    #[test]
    fn what_duckdb_does_not_have_is_refused() {
        for (pattern, words) in [
            ("", "no field"),
            ("%", "'%' without"),
            ("%Q", "'%Q'"),
            ("%-a", "'%-a'"),
            ("%e", "'%e'"),
            ("%F", "'%F'"),
            ("%n", "'%n'"),
        ] {
            let error = TimePattern::parse(pattern).unwrap_err();
            assert!(error.to_string().contains(words) && error.hint().is_some(), "{pattern}: {error}");
        }
        for pattern in ["%Y %U", "%Z", "%j %m"] {
            assert!(TimePattern::parse(pattern).unwrap().check_readable().is_err(), "{pattern}");
        }
    }
}
