//! The values of settings: sizes, times, numbers.

use std::time::Duration;

/// A size in bytes: a number with `b`, `k`, `m`, `g`, `t` or `p`, with or without a `b` or `ib` behind it, in powers of
/// 1024; a bare number is of bytes.
pub fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let unit = unit.strip_suffix("ib").or_else(|| unit.strip_suffix('b')).unwrap_or(&unit).to_owned();
    let shift = match unit.as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// A time: a number with `ms`, `s`, `m`, `min`, `h` or `d`; a bare number is of milliseconds.
pub fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    Some(match unit.as_str() {
        "us" => Duration::from_micros(number),
        "" | "ms" => Duration::from_millis(number),
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
    fn sizes_and_times_as_celeborn_writes_them() {
        for (text, expected) in [("8m", 8 << 20), ("5G", 5 << 30), ("256k", 256 << 10), ("64mb", 64 << 20)] {
            assert_eq!(bytes(text), Some(expected));
        }
        assert_eq!((bytes("17"), bytes("0b"), bytes("1GiB")), (Some(17), Some(0), Some(1 << 30)));
        assert_eq!((bytes("-1"), bytes("m"), bytes("1x"), bytes("99999999999t")), (None, None, None, None));
        for (text, seconds) in [("120s", 120), ("6h", 21600), ("10min", 600), ("10m", 600), ("3000", 3)] {
            assert_eq!(duration(text), Some(Duration::from_secs(seconds)));
        }
        assert_eq!(duration("50ms"), Some(Duration::from_millis(50)));
        assert_eq!((duration("1w"), duration("")), (None, None));
    }
}
