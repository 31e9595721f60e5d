use std::fmt;

use arrow::array::ArrayRef;
use arrow::datatypes::FieldRef;
use arrow::row::{RowConverter, SortField};

use super::{Bucket, KeyHash, Keys};
use crate::error::{Result, computing};

/// What the rows of a table of state look like.
pub struct Layout {
    /// Name of the table, for messages and files.
    pub name: String,
    /// Columns of a key.
    pub keys: Vec<FieldRef>,
    /// Columns of a value.
    pub values: Vec<FieldRef>,
    /// Number of columns of a key that rows which belong together share, if they are looked up together.
    prefix_columns: Option<usize>,
    /// Bytes of the other columns of a key.
    suffix_bytes: usize,
    /// Microseconds of time whose keys may lie together.
    span_us: i64,
    converter: RowConverter,
}

impl Layout {
    /// A table with these columns.
    ///
    /// # Errors
    /// `Invalid` for keys of a type that has no order.
    pub fn new(name: impl Into<String>, keys: Vec<FieldRef>, values: Vec<FieldRef>) -> Result<Self> {
        let fields = keys.iter().map(|field| SortField::new(field.data_type().clone())).collect();
        let converter = RowConverter::new(fields).map_err(computing)?;
        let name = name.into();
        Ok(Self { name, keys, values, prefix_columns: None, suffix_bytes: 0, span_us: 1, converter })
    }

    /// The same, for a table whose keys are looked up by their first columns, too
    /// ([`StateTable::read_prefixed`](super::StateTable::read_prefixed)).
    ///
    /// # Panics
    /// If a column after them has values of different lengths.
    #[must_use]
    pub fn with_prefix(mut self, columns: usize) -> Self {
        let width = |field: &FieldRef| {
            // Arrow's row format has a byte before the value that says whether there is one.
            1 + field.data_type().primitive_width().expect("what comes after the prefix is of fixed length")
        };
        self.suffix_bytes = self.keys[columns..].iter().map(width).sum();
        self.prefix_columns = Some(columns);
        self
    }

    /// The same, for a table with many different times: keys whose times are so near may lie together.
    ///
    /// # Panics
    /// If it is not positive.
    #[must_use]
    pub fn with_span_us(mut self, span_us: i64) -> Self {
        assert!(span_us > 0, "a span of {span_us} us");
        self.span_us = span_us;
        self
    }

    /// Number of the span that a time is in.
    pub fn span(&self, bucket: Bucket) -> i64 {
        bucket.0.div_euclid(self.span_us)
    }

    /// The last time of a span.
    pub fn last_of_span(&self, span: i64) -> Bucket {
        let last = (i128::from(span) + 1) * i128::from(self.span_us) - 1;
        Bucket(i64::try_from(last).unwrap_or(i64::MAX))
    }

    /// True if keys are looked up by their first columns.
    pub fn has_prefix(&self) -> bool {
        self.prefix_columns.is_some()
    }

    /// The part of a key by which it is looked up and its place among threads is chosen: the prefix, or all of it.
    pub fn prefix_of<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        &key[..key.len() - self.suffix_bytes]
    }

    /// Hash by which a key's place among threads is chosen.
    pub fn partition_hash(&self, key: &[u8]) -> KeyHash {
        KeyHash::of(self.prefix_of(key))
    }

    /// Bytes of the keys that these columns hold, row by row.
    ///
    /// # Errors
    /// `Invalid` for columns of other types.
    pub fn encode_keys(&self, columns: &[ArrayRef]) -> Result<arrow::row::Rows> {
        self.converter.convert_columns(columns).map_err(computing)
    }

    /// Bytes of the prefixes that these columns hold, row by row: those that whole keys with these columns begin with.
    ///
    /// # Errors
    /// `Invalid` for columns of other types.
    pub fn prefix_rows(&self, columns: &[ArrayRef]) -> Result<arrow::row::Rows> {
        let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
        let converter = RowConverter::new(fields).map_err(computing)?;
        converter.convert_columns(columns).map_err(computing)
    }

    /// Columns of these keys.
    ///
    /// # Errors
    /// `Invalid` if they are keys of another table.
    pub fn decode_keys<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>> {
        let parser = self.converter.parser();
        let rows: Vec<_> = keys.into_iter().map(|key| parser.parse(key)).collect();
        self.converter.convert_rows(rows).map_err(computing)
    }

    /// Columns of all these keys.
    ///
    /// # Errors
    /// As [`decode_keys`](Self::decode_keys).
    pub fn columns_of(&self, keys: &Keys) -> Result<Vec<ArrayRef>> {
        self.decode_keys((0..keys.len()).map(|at| keys.key(at)))
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layout").field("name", &self.name).field("keys", &self.keys).finish_non_exhaustive()
    }
}
