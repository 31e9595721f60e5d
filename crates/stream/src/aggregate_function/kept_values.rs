use arrow::array::{Array, ArrayRef, BooleanArray, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::DataType;
use datafusion::common::Result;

/// Place of a value: the number of its column among those that are kept, and its row there.
pub(super) type Place = (usize, usize);

/// Columns some of whose values belong to groups. The first one is a single null.
#[derive(Debug)]
pub(super) struct KeptValues {
    columns: Vec<ArrayRef>,
}

impl KeptValues {
    /// Place of the null.
    pub const NULL: Place = (0, 0);

    pub fn new(data_type: &DataType) -> Self {
        Self { columns: vec![new_null_array(data_type, 1)] }
    }

    /// Keeps a column, and gives its number.
    pub fn keep(&mut self, column: &ArrayRef) -> usize {
        self.columns.push(ArrayRef::clone(column));
        self.columns.len() - 1
    }

    /// Values at these places.
    pub fn at(&self, places: &[Place]) -> Result<ArrayRef> {
        let columns: Vec<&dyn Array> = self.columns.iter().map(AsRef::as_ref).collect();
        Ok(interleave(&columns, places)?)
    }

    pub fn memory_bytes(&self) -> usize {
        self.columns.iter().map(|column| column.get_array_memory_size()).sum()
    }
}

/// Rows that pass a filter, of which null is no pass.
pub(super) fn passing(filter: Option<&BooleanArray>, rows: usize) -> impl Iterator<Item = usize> + '_ {
    let passes = move |row: &usize| filter.is_none_or(|filter| filter.is_valid(*row) && filter.value(*row));
    (0..rows).filter(passes)
}
