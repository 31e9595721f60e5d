use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of an epoch of a query, from 0 on: the batch id of Spark's logs. An epoch ends with a barrier and a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BatchId(pub u64);

impl BatchId {
    /// The first of a query.
    pub const FIRST: Self = Self(0);

    /// The one after it.
    ///
    /// # Panics
    /// After 2^64 epochs.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.checked_add(1).expect("no query lives for 2^64 epochs"))
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
