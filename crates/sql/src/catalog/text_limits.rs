//! The part of a text file that is decoded at a time.

use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::SessionConfig;
use yeoul_base::{ByteSize, ErrorKind};

use super::records::RecordEnds;
use crate::Error;

/// The most bytes of records that become one batch: the texts of a column have to stay below 2 GiB.
const BATCH_BYTES_MAX: usize = 64 << 20;

/// A record may take this part of the memory that queries have: while it is decoded, it is in memory several times.
const RECORD_PART: usize = 8;

/// All batches that a scan decodes at a time take this part of it.
const BATCH_PART: usize = 16;

/// The limits of a scan.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextLimits {
    /// Bytes from which on records become a batch.
    pub(super) batch_bytes: usize,
    /// The largest record that is read, bytes.
    record_bytes_max: usize,
}

impl TextLimits {
    pub(super) fn of(state: &dyn Session) -> Self {
        Self::within(state.runtime_env(), state.config())
    }

    /// The limits of scans in an environment.
    pub(super) fn within(runtime: &RuntimeEnv, config: &SessionConfig) -> Self {
        match runtime.memory_pool.memory_limit() {
            MemoryLimit::Finite(bytes) => Self {
                batch_bytes: (bytes / BATCH_PART / config.target_partitions().max(1))
                    .clamp(64 << 10, BATCH_BYTES_MAX),
                record_bytes_max: bytes / RECORD_PART,
            },
            _ => Self { batch_bytes: BATCH_BYTES_MAX, record_bytes_max: i32::MAX as usize },
        }
    }

    /// Checks a record that has begun, before more of it is read.
    ///
    /// # Errors
    /// `ResourceExhausted` if it is too large to be decoded; `Invalid` for quotes that are escaped otherwise than the options say.
    pub(super) fn check(self, name: &str, records: &RecordEnds) -> Result<()> {
        if let Some(line) = records.escaped_quote() {
            let what = format!("a quote on line {line} of '{name}' is escaped by a backslash");
            let hint = "Spark and MySQL write so: read_csv('file', escape = '\\') reads it";
            return Err(Error::new(ErrorKind::Invalid, what).with_hint(hint).into());
        }
        let (bytes, line) = records.open_record();
        if bytes <= self.record_bytes_max {
            return Ok(());
        }
        let most = ByteSize::from_bytes(self.record_bytes_max as u64);
        let what = match records.open_quote() {
            Some(quote) => {
                format!("the quote that opens on line {quote} of '{name}' has no end within {most}")
            }
            None => format!("a record of '{name}' is larger than {most}, on line {line}"),
        };
        Err(Error::new(ErrorKind::ResourceExhausted, what)
            .with_hint(
                "a larger --memory allows larger records: each may take an eighth of what queries have",
            )
            .into())
    }
}

/// The error for a record that has more or fewer values than the others, which a reader of CSV explains as this text; `None` for other
/// texts.
pub(super) fn ragged(file: &str, text: &str) -> Option<Error> {
    let number = |behind: &str| {
        let (_, rest) = text.split_once(behind)?;
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse::<u64>().ok()
    };
    if !text.contains("number of fields for line") && !text.contains("unequal lengths between records") {
        return None;
    }
    let expected = number("xpected ")?;
    let place = format!("record {} of '{file}'", number("line ")?);
    Some(unequal(&place, expected, number("got ").or_else(|| number("found "))))
}

/// The error for a record that has another number of values than the others; more than those if `None`.
pub(super) fn unequal(place: &str, expected: u64, values: Option<u64>) -> Error {
    let (values, hint) = match values {
        Some(values) if values < expected => {
            let values = format!("{values} value{}", if values == 1 { "" } else { "s" });
            (
                values,
                "read_csv('file', null_padding = true) has nulls for those that are missing, and skip = 1 leaves out the first line",
            )
        }
        values => (
            values
                .map_or_else(|| format!("more than {expected} values"), |values| format!("{values} values")),
            "read_csv('file', delim = ';', quote = '\"') says how values are told apart, and skip = 1 leaves out the first line",
        ),
    };
    let what = format!("{place} has {values}, and {expected} are expected");
    Error::new(ErrorKind::Invalid, what).with_hint(hint)
}

/// The error of a file that ends within quotes.
pub(super) fn unclosed(name: &str, line: u64) -> DataFusionError {
    let what = format!("the quote that opens on line {line} of '{name}' is never closed");
    Error::new(ErrorKind::Corrupt, what)
        .with_hint("the file may be cut; another quote than \" is an option: read_csv('file', quote = '''')")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_another_length_is_named_with_its_line() {
        for (text, expected) in [
            (
                "Csv error: incorrect number of fields for line 3, expected 2 got 1",
                "record 3 of 'f' has 1 value, and 2 are expected",
            ),
            (
                "incorrect number of fields for line 3, expected 2 got more than 2",
                "record 3 of 'f' has more than 2 values, and 2",
            ),
            (
                "Encountered unequal lengths between records on CSV file. Expected 2 records, found 3 records at line 1",
                "record 1 of 'f' has 3 values",
            ),
        ] {
            let error = ragged("f", text).unwrap();
            assert!(error.to_string().starts_with(expected) && error.hint().is_some(), "{error}");
        }
        assert!(ragged("f", "Parser error: line 3, expected 2 got 1").is_none());
    }
}
