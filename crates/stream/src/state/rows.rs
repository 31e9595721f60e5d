use arrow::array::ArrayRef;

use super::{Bucket, KeyHash};

/// Keys and values of a table, column by column.
#[derive(Debug, Clone, Default)]
pub struct StateRows {
    /// Bucket of each row.
    pub buckets: Vec<Bucket>,
    /// Hash by which the place of each key among threads is chosen: of the part of it by which it is looked up.
    pub hashes: Vec<KeyHash>,
    /// Columns of the keys.
    pub keys: Vec<ArrayRef>,
    /// Columns of the values.
    pub values: Vec<ArrayRef>,
}

impl StateRows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }
}
