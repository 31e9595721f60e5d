//! Entries of settings files.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use yeoul_base::{Error, ErrorKind, Result};

use crate::value;

/// Where an entry stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file, where there are several, or what else it is from, such as the command line.
    pub file: Option<Arc<str>>,
    /// The line, from 1; none for what has no lines.
    pub line: Option<usize>,
}

impl Origin {
    /// What has no lines, by its name.
    pub fn named(name: &str) -> Self {
        Self { file: Some(name.into()), line: None }
    }

    /// A line of the only file.
    pub fn line(line: usize) -> Self {
        Self { file: None, line: Some(line) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, "{file}, line {line}"),
            (Some(file), None) => f.write_str(file),
            (None, line) => write!(f, "line {}", line.unwrap_or_default()),
        }
    }
}

/// An entry of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Its value, without blanks around it.
    pub value: String,
    /// Where it stands.
    pub origin: Origin,
}

/// Each method reads the value; its error is `Invalid`, and names the place, the key, the value and what was expected.
#[allow(clippy::missing_errors_doc)] // it stands above
impl Entry {
    /// The value by a reader of one's own.
    pub fn read<T>(&self, expected: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T> {
        read(&self.value).ok_or_else(|| self.refused(&format!("expected {expected}")))
    }

    /// True or false.
    pub fn truth(&self) -> Result<bool> {
        self.read("true or false", |text| text.to_ascii_lowercase().parse().ok())
    }

    /// A port, where 0 takes a free one.
    pub fn port(&self) -> Result<u16> {
        self.read("a port", |text| text.parse().ok())
    }

    /// A number from 0.
    pub fn count(&self) -> Result<usize> {
        self.read("a number", |text| text.parse().ok())
    }

    /// A size in bytes, see [`bytes`](crate::bytes).
    pub fn size(&self) -> Result<u64> {
        self.read("a size such as 8m", value::bytes)
    }

    /// A time; a bare number counts `unit`s, see [`duration`](crate::duration).
    pub fn time(&self, unit: Duration) -> Result<Duration> {
        self.read("a time such as 120s", |text| value::duration(text, unit))
    }

    /// A time of at least `least`: where a shorter one would do harm, and is mostly a number without its unit. A bare number
    /// counts `unit`s, which are seconds or milliseconds.
    pub fn time_from(&self, least: Duration, unit: Duration) -> Result<Duration> {
        let given = self.time(unit)?;
        if given >= least {
            return Ok(given);
        }
        let bare = if unit == Duration::from_secs(1) { "seconds" } else { "milliseconds" };
        Err(self
            .refused(&format!("expected at least {}s", least.as_secs()))
            .with_hint(format!("give the time with its unit, such as 120s: a bare number is of {bare}")))
    }

    /// The parts of a list with commas, without blanks around them and without empty ones.
    pub fn list(&self) -> Vec<String> {
        let parts = self.value.split(',').map(str::trim);
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// The error that the value cannot be used, with why.
    pub fn refused(&self, why: &str) -> Error {
        let Self { key, value, origin } = self;
        Error::new(ErrorKind::Invalid, format!("{origin}: {key} = {value:.80}: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(value: &str) -> Entry {
        Entry { key: "k".into(), value: value.into(), origin: Origin::line(3) }
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_place_and_what_was_expected() {
        let file = Some("core-site.xml".into());
        let elsewhere = Entry { origin: Origin { file, line: Some(7) }, ..entry("x") };
        assert_eq!(
            elsewhere.port().unwrap_err().to_string(),
            "core-site.xml, line 7: k = x: expected a port"
        );
        assert_eq!(entry("yes").truth().unwrap_err().to_string(), "line 3: k = yes: expected true or false");
        assert_eq!(entry("70000").port().unwrap_err().kind(), ErrorKind::Invalid);
        assert!(entry("TRUE").truth().unwrap() && !entry("false").truth().unwrap());
        assert_eq!((entry("8m").size().unwrap(), entry("4").count().unwrap()), (8 << 20, 4));
        assert_eq!(entry(" a, ,b ").list(), ["a", "b"]);
        let long = entry(&"é".repeat(1000)).count().unwrap_err().to_string();
        assert!(long.len() < 250, "{long}");
    }

    #[test]
    fn a_time_that_is_too_short_tells_of_its_unit() {
        const SECOND: Duration = Duration::from_secs(1);
        const MS: Duration = Duration::from_millis(1);
        assert_eq!(entry("30").time_from(SECOND, SECOND).unwrap(), 30 * SECOND);
        let error = entry("300").time_from(30 * SECOND, MS).unwrap_err();
        assert_eq!(error.to_string(), "line 3: k = 300: expected at least 30s");
        assert!(error.hint().unwrap().ends_with("a bare number is of milliseconds"));
        let error = entry("3").time_from(30 * SECOND, SECOND).unwrap_err();
        assert!(error.hint().unwrap().ends_with("a bare number is of seconds"));
    }
}
