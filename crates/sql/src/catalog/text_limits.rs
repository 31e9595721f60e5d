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
            let hint = "Spark and MySQL write so: CREATE EXTERNAL TABLE t STORED AS CSV LOCATION … OPTIONS ('escape' '\\') reads it";
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

/// The error of a file that ends within quotes.
pub(super) fn unclosed(name: &str, line: u64) -> DataFusionError {
    let what = format!("the quote that opens on line {line} of '{name}' is never closed");
    Error::new(ErrorKind::Corrupt, what)
        .with_hint("the file may be cut; another quote than \" is an option: OPTIONS ('format.quote' '''')")
        .into()
}
