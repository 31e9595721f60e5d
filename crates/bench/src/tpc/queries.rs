//! The query texts of a suite. We may not copy them, so they are read from a package at run time.
//!
//! The texts of TPC-H and TPC-DS differ between projects in small ways (null order, quoting, added columns), so a number
//! means little without its texts. One set is fixed by its packages' versions, and its hash is printed.

use std::process::Command;
use std::sync::atomic::AtomicBool;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use yeoul_base::ErrorKind;

use crate::contest::venv;
use crate::error::{Error, Result};
use crate::generate::Suite;

/// A query of a suite.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Query {
    /// Its number, from 1.
    pub number: u32,
    /// Its text.
    pub sql: String,
}

/// The queries of a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QuerySet {
    /// Sorted by number.
    pub queries: Vec<Query>,
    /// Their source.
    pub source: String,
    /// SHA-256 over number, NUL, text, NUL of each query in order, in hexadecimal.
    pub sha256: String,
}

/// The number of queries of a suite.
fn count(suite: Suite) -> u32 {
    match suite {
        Suite::TpcH => 22,
        Suite::TpcDs => 99,
    }
}

/// Refuses numbers that a suite does not have, before anything is fetched.
///
/// # Errors
/// `Invalid` for the first of them.
pub(super) fn check(suite: Suite, numbers: &[u32]) -> Result<()> {
    let last = count(suite);
    match numbers.iter().find(|number| !(1..=last).contains(*number)) {
        Some(number) => {
            let message = format!("there is no query {number}: they are 1 to {last}");
            Err(Error::new(ErrorKind::Invalid, message))
        }
        None => Ok(()),
    }
}

impl QuerySet {
    /// Fetches the queries of `suite`.
    ///
    /// # Errors
    /// `NotFound` without Python; `Unavailable` without the packages; `Corrupt` if they do not contain the expected queries;
    /// `Cancelled` by `stop`.
    pub fn fetch(suite: Suite, stop: &AtomicBool) -> Result<Self> {
        let package = format!("duckdb-extension-{suite}==1.5.5");
        let python = venv::python_with(&["duckdb==1.5.5", &package], stop)?;
        let script = venv::scripts()?.join("queries.py");
        let json =
            venv::output(Command::new(python).arg(script).arg(suite.name()), "read the query texts", stop)?;
        let queries: Vec<Query> = serde_json::from_slice(&json).map_err(|e| {
            Error::new(ErrorKind::Corrupt, "cannot understand the query texts").with_source(e)
        })?;
        let expected = count(suite);
        if !queries.iter().map(|query| query.number).eq(1..=expected) {
            let message = format!("the package has {} queries where {expected} belong", queries.len());
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        Ok(Self { sha256: hash(&queries), source: package.replace("==", " "), queries })
    }

    /// The queries of these numbers, which [`check`] has accepted; all queries if there are no numbers.
    pub fn select(&self, numbers: &[u32]) -> Vec<Query> {
        if numbers.is_empty() {
            return self.queries.clone();
        }
        let find = |number: &u32| self.queries.iter().find(|query| query.number == *number).cloned();
        numbers.iter().filter_map(find).collect()
    }
}

fn hash(queries: &[Query]) -> String {
    let mut hash = Sha256::new();
    for query in queries {
        hash.update(query.number.to_string());
        hash.update([0]);
        hash.update(&query.sql);
        hash.update([0]);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_sees_every_character_and_the_order() {
        let query = |number, sql: &str| Query { number, sql: sql.to_owned() };
        let set = hash(&[query(1, "a"), query(2, "b")]);
        assert_eq!(set.len(), 64);
        for other in [
            [query(1, "a"), query(2, "c")],
            [query(2, "b"), query(1, "a")],
            [query(1, "a2"), query(2, "b")],
            [query(12, "a"), query(2, "b")],
        ] {
            assert_ne!(hash(&other), set);
        }
    }

    #[test]
    fn numbers_select_and_unknown_ones_are_refused() {
        let queries = vec![Query { number: 1, sql: "a".into() }, Query { number: 2, sql: "b".into() }];
        let set = QuerySet { queries, source: String::new(), sha256: String::new() };
        assert_eq!(set.select(&[]).len(), 2);
        assert_eq!(set.select(&[2])[0].sql, "b");
        check(Suite::TpcDs, &[99, 1]).unwrap();
        for number in [0, 23, 99] {
            let error = check(Suite::TpcH, &[1, number]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert_eq!(error.to_string(), format!("there is no query {number}: they are 1 to 22"));
        }
    }
}
