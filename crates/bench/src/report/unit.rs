//! Units of measurement, and numbers formatted for people.

use serde::Serialize;

/// The unit of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Milliseconds.
    Milliseconds,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// A number with its unit, rounded to the significant digits.
    pub fn show(self, value: f64) -> String {
        const MIB: f64 = (1u64 << 20) as f64;
        match self {
            Self::Milliseconds if value >= 10_000.0 => format!("{:.1} s", value / 1e3),
            Self::Milliseconds if value >= 1_000.0 => format!("{:.2} s", value / 1e3),
            Self::Milliseconds if value >= 10.0 => format!("{value:.0} ms"),
            Self::Milliseconds if value >= 1.0 => format!("{value:.1} ms"),
            Self::Milliseconds => format!("{:.0} µs", value * 1e3),
            Self::Bytes => show_bytes(value / MIB),
        }
    }
}

fn show_bytes(mib: f64) -> String {
    match mib {
        1024.0.. => format!("{:.2} GiB", mib / 1024.0),
        10.0.. => format!("{mib:.0} MiB"),
        _ => format!("{mib:.1} MiB"),
    }
}

/// A ratio, rounded to the significant digits.
pub(super) fn show_ratio(ratio: f64) -> String {
    if ratio >= 10.0 { format!("{ratio:.1}") } else { format!("{ratio:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_the_digits_that_matter() {
        for (unit, value, text) in [
            (Unit::Milliseconds, 0.25, "250 µs"),
            (Unit::Milliseconds, 7.25, "7.2 ms"),
            (Unit::Milliseconds, 999.4, "999 ms"),
            (Unit::Milliseconds, 1_234.0, "1.23 s"),
            (Unit::Milliseconds, 61_250.0, "61.2 s"),
            (Unit::Bytes, 3.5 * 1024.0 * 1024.0, "3.5 MiB"),
            (Unit::Bytes, 1.5 * 1024.0 * 1024.0 * 1024.0, "1.50 GiB"),
        ] {
            assert_eq!(unit.show(value), text);
        }
    }
}
