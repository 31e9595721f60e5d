//! What the runner and a contestant say to each other: one JSON object per line, a request and its answer.
//!
//! `peers/contestant_loop.py` is the same in Python, and documents each message.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The longest line that we read; the longest query text is some 20 kB.
pub(crate) const LINE_BYTES_MAX: usize = 1 << 20;

/// From the runner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The first request: what to work on, and with what.
    Open(Open),
    /// Run one query.
    Run(Run),
}

/// See [`Request::Open`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// A directory with a file `<table>.parquet` for each table.
    pub data: PathBuf,
    /// The tables in it.
    pub tables: Vec<String>,
    /// Threads to run queries with.
    pub threads: usize,
    /// The memory limit, in whatever sense the contestant has one.
    pub memory_bytes: Option<u64>,
    /// A directory for spilled data.
    pub scratch: PathBuf,
}

/// See [`Request::Run`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The query.
    pub sql: String,
    /// Where to write the answer as an Arrow IPC stream; without it the rows are counted and dropped.
    pub save: Option<PathBuf>,
    /// The dialect to answer in. Only the oracle is asked to adopt one.
    pub dialect: Option<Dialect>,
}

/// From a contestant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// The tables are open.
    Opened(Opened),
    /// The query ran to its last row.
    Ran(Ran),
    /// The request failed; the contestant is ready for the next one.
    Failed(Failed),
}

/// See [`Response::Opened`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The contestant's name and version.
    pub version: String,
    /// The processes whose memory counts.
    pub pids: Vec<u32>,
    /// How it does what the SQL standard leaves open.
    pub dialect: Dialect,
}

/// See [`Response::Ran`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// From the SQL text to the last row, by the contestant's clock.
    pub elapsed_ms: f64,
    /// Rows of the answer.
    pub rows: u64,
    /// What the contestant wants the user to know.
    pub notices: Vec<String>,
}

/// See [`Response::Failed`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The kind of error, in snake case (`resource_exhausted`).
    pub kind: String,
    /// The error's text.
    pub message: String,
}

/// What the SQL standard leaves to the implementation, and engines do differently.
///
/// A query that orders by a column with nulls and cuts with `LIMIT` has different right answers in different engines;
/// so has one that divides integers. Each contestant is compared with the oracle's answer in the contestant's dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dialect {
    /// Where nulls go when `ORDER BY` does not say.
    pub nulls: NullOrder,
    /// Whether `7 / 2` is 3 and not 3.5.
    pub integer_division: bool,
}

/// Where nulls go when `ORDER BY` does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NullOrder {
    /// Always last, as in DuckDB.
    Last,
    /// As if larger than any value, as in PostgreSQL and DataFusion: last ascending, first descending.
    Largest,
    /// As if smaller than any value, as in Spark: first ascending, last descending.
    Smallest,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_the_python_side_writes_them() {
        let request = Request::Run(Run { sql: "select 1".into(), save: None, dialect: None });
        assert_eq!(
            serde_json::to_string(&request).unwrap(),
            r#"{"run":{"sql":"select 1","save":null,"dialect":null}}"#
        );
        let opened =
            r#"{"opened":{"version":"X 1","pids":[7],"dialect":{"nulls":"last","integer_division":false}}}"#;
        let expected = Opened {
            version: "X 1".into(),
            pids: vec![7],
            dialect: Dialect { nulls: NullOrder::Last, integer_division: false },
        };
        assert_eq!(serde_json::from_str::<Response>(opened).unwrap(), Response::Opened(expected));
        let failed = r#"{"failed": {"kind": "invalid", "message": "no"}}"#;
        let expected = Failed { kind: "invalid".into(), message: "no".into() };
        assert_eq!(serde_json::from_str::<Response>(failed).unwrap(), Response::Failed(expected));
    }
}
