//! Texts that are read as times by Spark's patterns, such as `dd MMM yyyy`: its `to_date`, `to_timestamp` and their like.
//!
//! The rules are those of Java's `DateTimeFormatter`: numbers take the digits that the numbers directly behind them leave, names have
//! any case, what is in brackets may be missing, and a field that a pattern has twice has one value.

use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime};

use super::date_format::{Item, Pattern};

/// The year of a time whose pattern has none.
const YEAR: i64 = 1970;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// A part of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Year,
    Era,
    Month,
    Day,
    DayOfYear,
    /// 0 to 23.
    Hour,
    /// 0 to 11.
    HourOfHalf,
    /// 0 before noon, 1 behind it.
    Half,
    Minute,
    Second,
    Nanosecond,
}

/// The parts that have been read.
#[derive(Clone, Debug, Default)]
struct Parts(Vec<(Part, i64)>);

impl Parts {
    /// Keeps a part; `None` if it has another value already.
    fn keep(&mut self, part: Part, value: i64) -> Option<()> {
        match self.get(part) {
            Some(found) => (found == value).then_some(()),
            None => {
                self.0.push((part, value));
                Some(())
            }
        }
    }

    fn get(&self, part: Part) -> Option<i64> {
        self.0.iter().find(|(found, _)| *found == part).map(|(_, value)| *value)
    }

    fn time(&self) -> Option<NaiveDateTime> {
        let part = |part: Part, missing: i64| u32::try_from(self.get(part).unwrap_or(missing)).ok();
        let of_era = self.get(Part::Year);
        let is_before = self.get(Part::Era) == Some(0);
        let year = match of_era {
            Some(..=0) => return None,
            Some(year) if is_before => 1 - year,
            Some(year) => year,
            None => YEAR,
        };
        let year = i32::try_from(year).ok()?;
        let date = match self.get(Part::DayOfYear) {
            Some(day) => {
                let date = NaiveDate::from_yo_opt(year, u32::try_from(day).ok()?)?;
                let (month, day) = (part(Part::Month, -1), part(Part::Day, -1));
                let fits = month.is_none_or(|month| month == date.month())
                    && day.is_none_or(|day| day == date.day());
                fits.then_some(date)?
            }
            None => NaiveDate::from_ymd_opt(year, part(Part::Month, 1)?, part(Part::Day, 1)?)?,
        };
        let hour = match (self.get(Part::HourOfHalf), self.get(Part::Half)) {
            (Some(hour), half) => hour + 12 * half.unwrap_or(0),
            (None, Some(half)) => 12 * half,
            (None, None) => 0,
        };
        if let Some(found) = self.get(Part::Hour)
            && (self.get(Part::HourOfHalf).is_some_and(|of_half| of_half != found % 12)
                || self.get(Part::Half).is_some_and(|half| half != found / 12))
        {
            return None;
        }
        let hour = part(Part::Hour, hour)?;
        let time = NaiveTime::from_hms_nano_opt(
            hour,
            part(Part::Minute, 0)?,
            part(Part::Second, 0)?,
            part(Part::Nanosecond, 0)?,
        )?;
        // Sixty seconds are none, also where chrono takes them for a leap second.
        (part(Part::Second, 0)? < 60).then(|| date.and_time(time))
    }
}

/// The time of a text by a pattern; `None` if it does not have it.
pub(super) fn time_of(text: &str, pattern: &Pattern) -> Option<NaiveDateTime> {
    let mut parts = Parts::default();
    let rest = read(text, pattern.items(), &mut parts)?;
    rest.is_empty().then(|| parts.time()).flatten()
}

/// The text behind what the items read.
fn read<'a>(text: &'a str, items: &[Item], parts: &mut Parts) -> Option<&'a str> {
    let mut rest = text;
    let mut at = 0;
    while let Some(item) = items.get(at) {
        match item {
            Item::Text(expected) => rest = behind(rest, expected)?,
            Item::Open => {
                let close = closing(items, at);
                let mut tried = parts.clone();
                if let Some(behind) = read(rest, &items[at + 1..close], &mut tried) {
                    (rest, *parts) = (behind, tried);
                }
                at = close;
            }
            Item::Close => {}
            Item::Field(letter, count) => {
                let reserved = items[at + 1..].iter().map_while(fixed_digits).sum();
                rest = field(rest, *letter, *count, reserved, parts)?;
            }
        }
        at += 1;
    }
    Some(rest)
}

/// The bracket that closes another one, or the end.
fn closing(items: &[Item], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, item) in items.iter().enumerate().skip(open) {
        match item {
            Item::Open => depth += 1,
            Item::Close => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    items.len()
}

/// The text behind letters of any case.
fn behind<'a>(text: &'a str, expected: &str) -> Option<&'a str> {
    let mut rest = text.chars();
    for expected in expected.chars() {
        let found = rest.next()?;
        if found != expected && !found.to_lowercase().eq(expected.to_lowercase()) {
            return None;
        }
    }
    Some(rest.as_str())
}

/// Digits of a number that has always as many. Two letters are such a number, but those of a year.
fn fixed_digits(item: &Item) -> Option<usize> {
    match item {
        Item::Field('y', 2) => Some(2),
        Item::Field('M' | 'L' | 'd' | 'H' | 'h' | 'k' | 'K' | 'm' | 's', 2) => Some(2),
        Item::Field('D', 3) => Some(3),
        _ => None,
    }
}

fn field<'a>(
    text: &'a str,
    letter: char,
    count: usize,
    reserved: usize,
    parts: &mut Parts,
) -> Option<&'a str> {
    let part = match letter {
        'y' => Part::Year,
        'G' => {
            let names = ["BC", "AD"].iter().zip(["Before Christ", "Anno Domini"]);
            let found = names.enumerate().find_map(|(era, (short, long))| {
                let rest = behind(text, if count == 4 { long } else { short })?;
                Some((era, rest))
            });
            let (era, rest) = found?;
            parts.keep(Part::Era, i64::try_from(era).ok()?)?;
            return Some(rest);
        }
        'M' | 'L' if count > 2 => {
            let found = MONTHS.iter().enumerate().find_map(|(month, name)| {
                let rest = behind(text, if count == 3 { &name[..3] } else { name })?;
                Some((month + 1, rest))
            });
            let (month, rest) = found?;
            parts.keep(Part::Month, i64::try_from(month).ok()?)?;
            return Some(rest);
        }
        'a' => {
            let (half, rest) =
                ["AM", "PM"].iter().enumerate().find_map(|(half, name)| Some((half, behind(text, name)?)))?;
            parts.keep(Part::Half, i64::try_from(half).ok()?)?;
            return Some(rest);
        }
        'S' => {
            let digits = text.bytes().take(count).take_while(u8::is_ascii_digit).count();
            let fraction: i64 = text.get(..digits).filter(|digits| !digits.is_empty())?.parse().ok()?;
            parts.keep(Part::Nanosecond, fraction * 10_i64.pow(u32::try_from(9 - digits).ok()?))?;
            return Some(&text[digits..]);
        }
        'M' | 'L' => Part::Month,
        'd' => Part::Day,
        'D' => Part::DayOfYear,
        'H' | 'k' => Part::Hour,
        'h' | 'K' => Part::HourOfHalf,
        'm' => Part::Minute,
        's' => Part::Second,
        _ => return None,
    };
    let is_signed = letter == 'y' && count > 3 && text.starts_with('+');
    let digits = if is_signed { &text[1..] } else { text };
    let fewest = count;
    let most = match (letter, count) {
        ('D', _) => 3,
        ('y', 2) => 2,
        ('y', _) | (_, 1) => 19,
        _ => count,
    };
    let found = digits.bytes().take(most + reserved).take_while(u8::is_ascii_digit).count();
    let length =
        if fewest == most { most.min(found) } else { fewest.max(found.saturating_sub(reserved)).min(most) };
    if found < fewest {
        return None;
    }
    // Only a year with more digits than letters has a sign, and it needs one.
    if letter == 'y' && count > 3 && (length > count) != is_signed {
        return None;
    }
    let mut value: i64 = digits.get(..length)?.parse().ok()?;
    match letter {
        'y' if count == 2 => value += 2000,
        'k' if (1..=24).contains(&value) => value %= 24,
        'h' if (1..=12).contains(&value) => value %= 12,
        'K' if (0..12).contains(&value) => {}
        'k' | 'h' | 'K' => return None,
        _ => {}
    }
    parts.keep(part, value)?;
    Some(&digits[length..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str, pattern: &str) -> Option<String> {
        time_of(text, &Pattern::parse(pattern).unwrap()).map(|time| time.to_string())
    }

    /// The answers are those of Spark 4.3.
    #[test]
    fn texts_are_read_as_in_java() {
        for (text, pattern, expected) in [
            ("2024-02-29 10:11:12.5", "yyyy-MM-dd HH:mm:ss.SSS", "2024-02-29 10:11:12.500"),
            ("02 jan 24", "dd MMM yy", "2024-01-02 00:00:00"),
            ("2 January 99", "d MMMM yy", "2099-01-02 00:00:00"),
            ("20240229", "yyyyMMdd", "2024-02-29 00:00:00"),
            ("20240229", "yMMdd", "2024-02-29 00:00:00"),
            ("12:30 pm", "hh:mm a", "1970-01-01 12:30:00"),
            ("11", "hh", "1970-01-01 11:00:00"),
            ("PM", "a", "1970-01-01 12:00:00"),
            ("24", "kk", "1970-01-01 00:00:00"),
            ("2024 060", "yyyy DDD", "2024-02-29 00:00:00"),
            ("2024-02-29T10:00", "yyyy-MM-dd'T'HH:mm[:ss]", "2024-02-29 10:00:00"),
            ("2024-02-29T10:00:07", "yyyy-MM-dd'T'HH:mm[:ss]", "2024-02-29 10:00:07"),
            ("+12024-01", "yyyy-MM", "+12024-01-01 00:00:00"),
            ("2024", "y", "2024-01-01 00:00:00"),
            ("5 BC", "y G", "-0004-01-01 00:00:00"),
        ] {
            assert_eq!(time(text, pattern).as_deref(), Some(expected), "{text} as {pattern}");
        }
        for (text, pattern) in [
            ("2023-02-29", "yyyy-MM-dd"),
            ("12024-01", "yyyy-MM"),
            ("2024-1", "yyyy-MM"),
            ("24", "HH"),
            ("13", "hh"),
            ("2024-01-01 x", "yyyy-MM-dd"),
            ("", "yyyy"),
            ("1 2", "d d"),
            ("2024 366 02", "yyyy DDD MM"),
            ("-2024", "yyyy"),
            ("10:00:60", "HH:mm:ss"),
        ] {
            assert_eq!(time(text, pattern), None, "{text} as {pattern}");
        }
    }
}
