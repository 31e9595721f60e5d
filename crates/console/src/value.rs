//! Values as people read them: cut, grouped, rounded.

use std::borrow::Cow;

/// Characters of one value that are shown; a longer one ends with `…`.
pub const VALUE_CHARS_MAX: usize = 256;

/// A text, cut to what is shown of it. Characters that would turn or hide the text around them are shown as `\u{fffd}`.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let is_long = text.char_indices().nth(VALUE_CHARS_MAX);
    if is_long.is_none() && !text.contains(is_unseen) {
        return Cow::Borrowed(text);
    }
    let end = is_long.map_or(text.len(), |(at, _)| at);
    let mut cut = text[..end].replace(is_unseen, "\u{fffd}");
    if is_long.is_some() {
        cut.push('…');
    }
    Cow::Owned(cut)
}

/// True for control characters, and for those that set a direction (Unicode's bidirectional controls): with them a name can
/// look like another one.
fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// A number with its digits in groups of three.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A span of time in its largest unit: `42 s`, `3 min`, `5 h`, `2 d`.
pub(crate) fn span(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} d", grouped(seconds / 86_400)),
    }
}

/// A time in UTC, to the second; none if it is beyond what a calendar has.
pub(crate) fn utc(unix_ms: u64) -> Option<String> {
    let time = chrono::DateTime::from_timestamp_millis(i64::try_from(unix_ms).ok()?)?;
    Some(time.format("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// The share in whole percent, at most 100; that of nothing is 0.
pub(crate) fn percent(part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return 0;
    }
    u64::try_from(u128::from(part.min(whole)) * 100 / u128::from(whole)).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_short_and_show_what_they_are() {
        assert_eq!(shown("plain"), "plain");
        assert_eq!(shown("a\u{202e}b\nc"), "a\u{fffd}b\u{fffd}c");
        let long = "ü".repeat(VALUE_CHARS_MAX + 1);
        assert_eq!(shown(&long).chars().count(), VALUE_CHARS_MAX + 1);
        assert!(shown(&long).ends_with("ü…"));
        assert_eq!(shown(&long[..2 * VALUE_CHARS_MAX]), long[..2 * VALUE_CHARS_MAX]);
    }

    #[test]
    fn numbers_and_times_are_as_people_write_them() {
        let numbers = [0, 999, 1_000, 1_234_567, u64::MAX].map(grouped);
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567", "18,446,744,073,709,551,615"]);
        let spans = [0, 119, 120, 7_199, 7_200, 172_800, u64::MAX].map(span);
        assert_eq!(spans, ["0 s", "119 s", "2 min", "119 min", "2 h", "2 d", "213,503,982,334,601 d"]);
        assert_eq!(utc(1_700_000_000_123).as_deref(), Some("2023-11-14 22:13:20 UTC"));
        assert_eq!(utc(u64::MAX), None);
        assert_eq!(
            [percent(1, 0), percent(1, 3), percent(9, 3), percent(u64::MAX, u64::MAX)],
            [0, 33, 100, 100]
        );
    }
}
