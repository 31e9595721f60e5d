//! The protocol between the runner and a contestant: one JSON object per line, each request followed by its answer.
//!
//! `peers/contestant_loop.py` is the same in Python, and documents each message.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A message from the runner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The first request: the data to work on, and the resources to use.
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
    /// The memory limit, in whatever sense the contestant supports one.
    pub memory_bytes: Option<u64>,
    /// A directory for spilled data.
    pub scratch: PathBuf,
}

/// See [`Request::Run`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The query.
    pub sql: String,
    /// Where to write the answer as an Arrow IPC stream; if absent, the rows are counted and dropped.
    pub save: Option<PathBuf>,
    /// The dialect to answer in. Only the oracle is asked to adopt one.
    pub dialect: Option<Dialect>,
}

/// A message from a contestant.
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
    /// True if the memory of the one that held most counts, as each of them has the whole limit; else their sum does.
    #[serde(default)]
    pub is_limit_of_each: bool,
    /// What it does where the SQL standard leaves a choice.
    pub dialect: Dialect,
}

/// See [`Response::Ran`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// From the SQL text to the last row, by the contestant's clock.
    pub elapsed_ms: f64,
    /// Rows of the answer.
    pub rows: u64,
    /// Notices for the user.
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

/// Choices that the SQL standard leaves to the implementation, and that engines make differently.
///
/// A query that orders by a column with nulls and cuts with `LIMIT` has different right answers in different engines, and so
/// has one that divides integers. Each contestant is compared with the oracle's answer in the contestant's dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dialect {
    /// Where nulls sort if `ORDER BY` does not say.
    pub nulls: NullOrder,
    /// Whether `7 / 2` is 3 rather than 3.5.
    pub integer_division: bool,
}

/// Where nulls sort if `ORDER BY` does not say.
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
            is_limit_of_each: false,
            dialect: Dialect { nulls: NullOrder::Last, integer_division: false },
        };
        assert_eq!(serde_json::from_str::<Response>(opened).unwrap(), Response::Opened(expected));
        let failed = r#"{"failed": {"kind": "invalid", "message": "no"}}"#;
        let expected = Failed { kind: "invalid".into(), message: "no".into() };
        assert_eq!(serde_json::from_str::<Response>(failed).unwrap(), Response::Failed(expected));
    }
}
