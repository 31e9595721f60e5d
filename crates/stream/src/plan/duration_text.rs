use crate::error::{Result, invalid};

/// Longest duration of a job, in milliseconds: a hundred years.
const DURATION_MAX_MS: i64 = 100 * 366 * 24 * 3600 * 1000;

/// Milliseconds of a duration as settings and intervals write it: `100 ms`, `1 second`, `5 minutes`. Months and years have no
/// fixed length and are refused.
///
/// # Errors
/// `Invalid` for another text, and for a time that is not whole milliseconds.
pub fn parse_duration_ms(text: &str) -> Result<i64> {
    let wrong = || {
        invalid(format!("'{text}' is no duration"))
            .with_hint("write a whole number and ms, seconds, minutes, hours, days or weeks: '10 seconds'")
    };
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(digits);
    let number: i64 = number.parse().map_err(|_| wrong())?;
    let unit_ms = unit_ms(unit.trim()).ok_or_else(wrong)?;
    number.checked_mul(unit_ms).filter(|ms| *ms <= DURATION_MAX_MS).ok_or_else(wrong)
}

/// Milliseconds of a unit of time.
fn unit_ms(unit: &str) -> Option<i64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "ms" | "millisecond" | "milliseconds" => 1,
        "s" | "sec" | "second" | "seconds" => 1000,
        "m" | "min" | "minute" | "minutes" => 60 * 1000,
        "h" | "hour" | "hours" => 3600 * 1000,
        "d" | "day" | "days" => 24 * 3600 * 1000,
        "week" | "weeks" => 7 * 24 * 3600 * 1000,
        _ => return None,
    })
}

/// The text of a duration in the greatest unit of which it is a whole number, which [`parse_duration_ms`] reads again.
pub fn duration_text(ms: i64) -> String {
    const UNITS: [(&str, i64); 5] =
        [("days", 24 * 3600 * 1000), ("hours", 3600 * 1000), ("min", 60 * 1000), ("s", 1000), ("ms", 1)];
    let is_whole = |unit_ms: i64| ms != 0 && ms % unit_ms == 0;
    let (unit, unit_ms) = UNITS.into_iter().find(|(_, unit_ms)| is_whole(*unit_ms)).unwrap_or(("s", 1000));
    match (ms / unit_ms, unit) {
        (1, "days" | "hours") => format!("1 {}", unit.trim_end_matches('s')),
        (number, _) => format!("{number} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_duration_is_short_and_is_read_again() {
        for (ms, text) in [
            (0, "0 s"),
            (50, "50 ms"),
            (1000, "1 s"),
            (1500, "1500 ms"),
            (90_000, "90 s"),
            (60_000, "1 min"),
            (3_600_000, "1 hour"),
            (172_800_000, "2 days"),
        ] {
            assert_eq!(duration_text(ms), text);
            assert_eq!(parse_duration_ms(text).unwrap(), ms);
        }
    }

    #[test]
    fn a_duration_is_a_number_and_a_unit() {
        for (text, ms) in
            [("100 ms", 100), ("1 second", 1000), ("2 MINUTE", 120_000), ("3h", 10_800_000), ("0 s", 0)]
        {
            assert_eq!(parse_duration_ms(text).unwrap(), ms, "{text}");
        }
        for text in ["", "1", "second", "1 month", "1.5 s", "-1 s", "9223372036854775807 days", "1 s 2"] {
            assert!(parse_duration_ms(text).is_err(), "{text}");
        }
    }
}
