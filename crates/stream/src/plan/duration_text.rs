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

#[cfg(test)]
mod tests {
    use super::*;

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
