use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// The units that are read: binary with `i`, decimal without, as in IEC 80000-13. The bare letters are binary, as in
/// Java's `-Xmx` and Spark's memory keys, and `Gi` is Kubernetes' `GiB`.
const UNITS: [(&str, u64); 18] = [
    ("kib", KIB),
    ("mib", MIB),
    ("gib", GIB),
    ("tib", TIB),
    ("ki", KIB),
    ("mi", MIB),
    ("gi", GIB),
    ("ti", TIB),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("k", KIB),
    ("m", MIB),
    ("g", GIB),
    ("t", TIB),
    ("b", 1),
    ("", 1),
];

/// A number of bytes.
///
/// Reads `1GiB`, `1.5 GiB`, `256MB`, `512m`, `4096`; prints the largest binary unit that keeps it readable (`1.5 GiB`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteSize(u64);

impl ByteSize {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// `bytes` bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// `mib` mebibytes (2^20 bytes), at most `u64::MAX` bytes.
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib.saturating_mul(MIB))
    }

    /// `gib` gibibytes (2^30 bytes), at most `u64::MAX` bytes.
    pub const fn from_gib(gib: u64) -> Self {
        Self(gib.saturating_mul(GIB))
    }

    /// The number of bytes.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The number of bytes as a length in memory; `usize::MAX` if it is more than that.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// Why a text is not a [`ByteSize`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a size: expected a number and a unit such as 512MiB, 1GiB or 2GB")]
pub struct ParseByteSizeError {
    text: String,
}

impl FromStr for ByteSize {
    type Err = ParseByteSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseByteSizeError { text: text.to_owned() };
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let unit = unit.trim().to_ascii_lowercase();
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(error)?;
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(*scale).map(Self).ok_or_else(error);
        }
        let fraction: f64 = number.parse().map_err(|_| error())?;
        let bytes = fraction * *scale as f64;
        // About 2^63 bytes, which no machine has.
        if !(0.0..9.2e18).contains(&bytes) {
            return Err(error());
        }
        Ok(Self(bytes as u64))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit) = match self.0 {
            0..KIB => return f.pad(&format!("{} B", self.0)),
            KIB..MIB => (KIB, "KiB"),
            MIB..GIB => (MIB, "MiB"),
            GIB..TIB => (GIB, "GiB"),
            _ => (TIB, "TiB"),
        };
        let text = if self.0.is_multiple_of(scale) {
            format!("{} {unit}", self.0 / scale)
        } else {
            format!("{:.1} {unit}", self.0 as f64 / scale as f64)
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("1GiB", GIB),
            ("1.5 GiB", 3 * GIB / 2),
            ("256MB", 256_000_000),
            ("512m", 512 * MIB),
            ("4Gi", 4 * GIB),
            ("2g", 2 * GIB),
            (" 7 kib ", 7 * KIB),
            ("10 B", 10),
        ] {
            assert_eq!(text.parse::<ByteSize>(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_size() {
        for text in ["", "GiB", "-1", "1 parsec", "1e3", "0x10", "99999999999TiB", "1.2.3 GiB", "nan"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn prints_the_largest_readable_unit() {
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (GIB, "1 GiB"), (3 * GIB / 2, "1.5 GiB"), (5 * MIB, "5 MiB")]
        {
            assert_eq!(ByteSize(bytes).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn whole_mebibytes_survive_printing_and_reading(mib in 0u64..1 << 10) {
            let size = ByteSize::from_mib(mib);
            prop_assert_eq!(size.to_string().parse::<ByteSize>(), Ok(size));
        }

        #[test]
        fn any_text_is_a_size_or_an_error(text in ".*") {
            let _ = text.parse::<ByteSize>();
        }
    }
}
