//! Lists whose elements are those of other arrays.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, ListArray, new_null_array};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::interleave;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use yeoul_base::ErrorKind;

use crate::Error;

/// Elements that a function may add to the lists of one batch where a number of a statement says how many.
const ADDED_MAX: usize = 10_000_000;

/// A list in the making: elements of one of several arrays, or nulls.
#[derive(Debug, Default)]
pub(super) struct Picked {
    /// The array and the place in it of each element; `None` for a null.
    elements: Vec<Option<(usize, usize)>>,
    lengths: Vec<usize>,
    valid: Vec<bool>,
    begin: usize,
    added: usize,
}

impl Picked {
    /// Adds an element of an array.
    pub fn push(&mut self, array: usize, place: usize) {
        self.elements.push(Some((array, place)));
    }

    /// Adds nulls.
    ///
    /// # Errors
    /// `ResourceExhausted` for more than [`ADDED_MAX`] of a batch.
    pub fn push_nulls(&mut self, count: usize) -> Result<()> {
        self.added = self.added.saturating_add(count);
        if self.added > ADDED_MAX {
            let text = format!("lists would have more than {ADDED_MAX} elements that are null");
            return Err(Error::new(ErrorKind::ResourceExhausted, text).into());
        }
        self.elements.resize(self.elements.len() + count, None);
        Ok(())
    }

    /// Ends the list of a row.
    pub fn end_row(&mut self, is_valid: bool) {
        if !is_valid {
            self.elements.truncate(self.begin);
        }
        self.lengths.push(self.elements.len() - self.begin);
        self.valid.push(is_valid);
        self.begin = self.elements.len();
    }

    /// The elements of all lists, of arrays of one type.
    ///
    /// # Errors
    /// Those of Arrow.
    pub fn values(&self, arrays: &[&ArrayRef]) -> Result<ArrayRef> {
        let nulls = new_null_array(arrays[0].data_type(), 1);
        let all: Vec<&dyn Array> =
            arrays.iter().map(|array| array.as_ref()).chain([nulls.as_ref()]).collect();
        let places: Vec<(usize, usize)> =
            self.elements.iter().map(|element| element.unwrap_or((arrays.len(), 0))).collect();
        Ok(interleave(&all, &places)?)
    }

    /// Places at which lists begin and end.
    pub fn offsets(&self) -> OffsetBuffer<i32> {
        OffsetBuffer::from_lengths(self.lengths.iter().copied())
    }

    /// Lists that are null.
    pub fn nulls(&self) -> Option<NullBuffer> {
        Some(NullBuffer::from(self.valid.clone()))
    }

    /// The lists.
    ///
    /// # Errors
    /// Those of Arrow.
    pub fn into_list(self, arrays: &[&ArrayRef]) -> Result<ArrayRef> {
        self.list_of(self.values(arrays)?)
    }

    /// Lists of these lengths with other elements.
    ///
    /// # Errors
    /// Those of Arrow.
    pub fn list_of(&self, values: ArrayRef) -> Result<ArrayRef> {
        let field = Arc::new(list_field(values.data_type()));
        Ok(Arc::new(ListArray::try_new(field, self.offsets(), values, self.nulls())?))
    }
}

/// The element of lists of a type.
pub(super) fn list_field(element: &DataType) -> Field {
    Field::new_list_field(element.clone(), true)
}
