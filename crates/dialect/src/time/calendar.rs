//! Arithmetic of the calendar: months between times, the next day of a name, times of their parts.

use chrono::{Datelike, Days, Duration, NaiveDate, NaiveDateTime, Timelike, Weekday};

/// Microseconds of a second.
const SECOND: i64 = 1_000_000;

/// Microseconds of a minute, which the seconds of a time may also be.
const MINUTE: i64 = 60 * SECOND;

/// Seconds of the month by which Spark divides, whatever the month.
const MONTH_SECONDS: f64 = 31.0 * 86_400.0;

/// Months from the second time to the first, as in Spark: whole ones if both are on the same day of a month, or on its last one; else with a
/// fraction of 31 days, rounded to eight digits if asked for.
pub(super) fn months_between(later: NaiveDateTime, earlier: NaiveDateTime, is_rounded: bool) -> f64 {
    let month = |time: NaiveDateTime| f64::from(time.year()) * 12.0 + f64::from(time.month0());
    let months = month(later) - month(earlier);
    let is_last = |time: NaiveDateTime| time.date().succ_opt().is_none_or(|next| next.day() == 1);
    if later.day() == earlier.day() || (is_last(later) && is_last(earlier)) {
        return months;
    }
    let second = |time: NaiveDateTime| {
        i64::from(time.day()) * 86_400 + i64::from(time.time().num_seconds_from_midnight())
    };
    let months = months + (second(later) - second(earlier)) as f64 / MONTH_SECONDS;
    // As Java rounds.
    if is_rounded { (months * 1e8 + 0.5).floor() / 1e8 } else { months }
}

/// The day of the week of a name, such as `Mo`, `MON` and `monday`.
pub(super) fn weekday(name: &str) -> Option<Weekday> {
    let name = name.trim().to_lowercase();
    const NAMES: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let is_it = |full: &&str| name == **full || name == full[..3] || name == full[..2];
    let place = NAMES.iter().position(is_it)?;
    Weekday::try_from(u8::try_from(place).ok()?).ok()
}

/// The first date after another one that is such a day; `None` past the end of the calendar.
pub(super) fn next_day(date: NaiveDate, day: Weekday) -> Option<NaiveDate> {
    let ahead = (7 + day.num_days_from_monday() - date.weekday().num_days_from_monday()) % 7;
    date.checked_add_days(Days::new(if ahead == 0 { 7 } else { ahead.into() }))
}

/// The time of its parts, the last of them microseconds; 60 seconds are the next minute. `None` for parts that no time has.
pub(super) fn time_of(parts: [i64; 5], microseconds: i64) -> Option<NaiveDateTime> {
    let [year, month, day, hour, minute] = parts;
    let small = |part: i64| u32::try_from(part).ok();
    let date = NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, small(month)?, small(day)?)?;
    let time = date.and_hms_opt(small(hour)?, small(minute)?, 0)?;
    let is_second = (0..=MINUTE).contains(&microseconds);
    is_second.then(|| time.checked_add_signed(Duration::microseconds(microseconds))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> NaiveDateTime {
        text.parse().unwrap()
    }

    /// Answers of Spark; the first is the example of its documentation.
    #[test]
    fn months_are_those_of_spark() {
        for (later, earlier, expected) in [
            ("1997-02-28T10:30:00", "1996-10-30T00:00:00", 3.949_596_77),
            ("2024-02-29T23:00:00", "2024-01-31T00:00:00", 1.0),
            ("2024-03-15T00:00:00", "2024-01-15T12:00:00", 2.0),
            ("2024-01-31T00:00:00", "2024-03-31T00:00:00", -2.0),
            ("2024-01-01T00:00:00", "2024-01-02T00:00:00", -0.032_258_06),
            ("2024-03-30T00:00:00", "2024-02-29T00:00:00", 1.032_258_06),
        ] {
            assert_eq!(months_between(time(later), time(earlier), true), expected, "{later} {earlier}");
        }
        let exact = months_between(time("1997-02-28T10:30:00"), time("1996-10-30T00:00:00"), false);
        assert_eq!(exact, 3.949_596_774_193_548_3);
    }

    #[test]
    fn the_next_day_is_never_the_same() {
        let date = NaiveDate::from_ymd_opt(2015, 1, 14).unwrap();
        for (name, expected) in [("TU", "2015-01-20"), ("wed", "2015-01-21"), ("Thursday", "2015-01-15")] {
            assert_eq!(next_day(date, weekday(name).unwrap()).unwrap().to_string(), expected);
        }
        assert_eq!(next_day(NaiveDate::MAX, Weekday::Mon), None);
        for name in ["", "xx", "mond", "m"] {
            assert_eq!(weekday(name), None, "{name}");
        }
    }

    #[test]
    fn parts_that_no_time_has_are_none() {
        assert_eq!(
            time_of([2020, 1, 31, 10, 20], 30_500_000).unwrap().to_string(),
            "2020-01-31 10:20:30.500"
        );
        assert_eq!(time_of([2020, 12, 31, 23, 59], MINUTE).unwrap().to_string(), "2021-01-01 00:00:00");
        for (parts, microseconds) in [
            ([2020, 2, 30, 0, 0], 0),
            ([2020, 2, 3, 24, 0], 0),
            ([2020, 2, 3, 0, 60], 0),
            ([2020, 2, 3, 0, 0], -1),
            ([2020, 2, 3, 0, 0], MINUTE + 1),
            ([i64::MAX, 1, 1, 0, 0], 0),
            ([2020, -1, 1, 0, 0], 0),
        ] {
            assert_eq!(time_of(parts, microseconds), None, "{parts:?}");
        }
    }
}
