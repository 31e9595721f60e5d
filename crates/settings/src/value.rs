//! The values of settings: sizes and times.

use std::time::Duration;

/// A size in bytes: a number with `b`, `k`, `m`, `g`, `t`, `p` or `e`, with or without a `b`, `ib` or `i` after it, in
/// powers of 1024; a bare number is of bytes.
pub fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let mut letters = unit.chars();
    let shift = match letters.next() {
        None | Some('b') if letters.as_str().is_empty() => 0,
        Some(letter) if ["", "b", "ib", "i"].contains(&letters.as_str()) => {
            10 * (1 + "kmgtpe".find(letter)?)
        }
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// A time: a number with `ns`, `us`, `ms`, `s`, `m`, `min`, `h` or `d`; a bare number counts `unit`s.
pub fn duration(text: &str, unit: Duration) -> Option<Duration> {
    let (number, suffix) = split(text)?;
    Some(match suffix.as_str() {
        "" => {
            let nanos = u128::from(number).checked_mul(unit.as_nanos())?;
            Duration::new(u64::try_from(nanos / 1_000_000_000).ok()?, (nanos % 1_000_000_000) as u32)
        }
        "ns" => Duration::from_nanos(number),
        "us" => Duration::from_micros(number),
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" | "min" => Duration::from_secs(number.checked_mul(60)?),
        "h" => Duration::from_secs(number.checked_mul(3600)?),
        "d" => Duration::from_secs(number.checked_mul(86400)?),
        _ => return None,
    })
}

fn split(text: &str) -> Option<(u64, String)> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.trim().to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_as_people_write_them() {
        for (text, expected) in [("8m", 8 << 20), ("5G", 5 << 30), ("256k", 256 << 10), ("64mb", 64 << 20)] {
            assert_eq!(bytes(text), Some(expected));
        }
        assert_eq!(
            (bytes("100Gi"), bytes("1PB"), bytes("1e")),
            (Some(100 << 30), Some(1 << 50), Some(1 << 60))
        );
        assert_eq!((bytes("1i"), bytes("1ib"), bytes("1bb"), bytes("1gg")), (None, None, None, None));
        assert_eq!((bytes("17"), bytes("0b"), bytes("1GiB")), (Some(17), Some(0), Some(1 << 30)));
        assert_eq!((bytes("-1"), bytes("m"), bytes("1x"), bytes("99999999999t")), (None, None, None, None));
        let duration = |text| duration(text, Duration::from_millis(1));
        for (text, seconds) in [("120s", 120), ("6h", 21600), ("10min", 600), ("10m", 600), ("3000", 3)] {
            assert_eq!(duration(text), Some(Duration::from_secs(seconds)));
        }
        assert_eq!(duration("50ms"), Some(Duration::from_millis(50)));
        assert_eq!((duration("1w"), duration("")), (None, None));
        assert_eq!(super::duration("3", Duration::from_secs(1)), Some(Duration::from_secs(3)));
        let long = 5_000_000_000_u64;
        assert_eq!(duration(&long.to_string()), Some(Duration::from_millis(long)));
        assert_eq!(
            super::duration("18446744073709551615", Duration::from_secs(2)),
            None,
            "too long to be counted"
        );
    }
}
