use std::fmt;

use arrow::array::ArrayRef;
use arrow::datatypes::FieldRef;
use arrow::row::{RowConverter, SortField};

use super::Keys;
use crate::error::{Result, computing};

/// What the rows of a table of state look like.
pub struct Layout {
    /// Name of the table, for messages and files.
    pub name: String,
    /// Columns of a key.
    pub keys: Vec<FieldRef>,
    /// Columns of a value.
    pub values: Vec<FieldRef>,
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
        Ok(Self { name: name.into(), keys, values, converter })
    }

    /// Bytes of the keys that these columns hold, row by row.
    ///
    /// # Errors
    /// `Invalid` for columns of other types.
    pub fn encode_keys(&self, columns: &[ArrayRef]) -> Result<arrow::row::Rows> {
        self.converter.convert_columns(columns).map_err(computing)
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
