//! The rows of a call of a function of JSON, and the texts that it answers.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use yeoul_base::ErrorKind;

use crate::Error;

/// Bytes of the texts of one batch.
const TEXT_BYTES_MAX: usize = i32::MAX as usize;

/// The rows of a call: texts, and beside them places within.
pub(super) struct Rows<'a> {
    texts: &'a StringArray,
    places: Places<'a>,
}

enum Places<'a> {
    /// All of the text.
    None,
    Paths(&'a StringArray),
    Numbers(&'a Int64Array),
}

/// A place that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// All of the text.
    All,
    Path(&'a str),
    Number(i64),
}

impl<'a> Rows<'a> {
    /// Those of a call's arguments, once they are coerced.
    pub fn of(arrays: &'a [ArrayRef]) -> Self {
        let places = match arrays.get(1) {
            None => Places::None,
            Some(places) if *places.data_type() == DataType::Int64 => {
                Places::Numbers(places.as_primitive::<Int64Type>())
            }
            Some(paths) => Places::Paths(paths.as_string::<i32>()),
        };
        Self { texts: arrays[0].as_string::<i32>(), places }
    }

    /// Text and place of each row; `None` if one of them is null.
    pub fn iter(&self) -> impl Iterator<Item = Option<(&'a str, Place<'a>)>> + '_ {
        (0..self.texts.len()).map(|row| {
            let place = match self.places {
                Places::None => Some(Place::All),
                Places::Paths(paths) => paths.is_valid(row).then(|| Place::Path(paths.value(row))),
                Places::Numbers(numbers) => numbers.is_valid(row).then(|| Place::Number(numbers.value(row))),
            };
            let text = self.texts.is_valid(row).then(|| self.texts.value(row));
            text.zip(place)
        })
    }
}

/// Meaning of a place, kept from row to row, as most calls have a constant place.
pub(super) struct Known<'a, P> {
    last: Option<(Place<'a>, P)>,
}

impl<'a, P> Known<'a, P> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { last: None }
    }

    /// The meaning of a place.
    ///
    /// # Errors
    /// That of `read`.
    pub fn get(
        &mut self,
        place: Place<'a>,
        read: impl FnOnce(Place<'a>) -> crate::Result<P>,
    ) -> crate::Result<&P> {
        if self.last.as_ref().is_none_or(|(of, _)| *of != place) {
            self.last = Some((place, read(place)?));
        }
        let (_, known) = self.last.as_ref().expect("it was put there");
        Ok(known)
    }
}

/// Adds a text to those of a batch.
///
/// # Errors
/// `ResourceExhausted` if the batch would have more than [`TEXT_BYTES_MAX`].
pub(super) fn append(texts: &mut StringBuilder, text: &str) -> Result<()> {
    if texts.values_slice().len() + text.len() > TEXT_BYTES_MAX {
        let what = format!("the texts of one batch of rows are more than {TEXT_BYTES_MAX} bytes");
        return Err(Error::new(ErrorKind::ResourceExhausted, what)
            .with_hint("SET datafusion.execution.batch_size to fewer rows")
            .into());
    }
    texts.append_value(text);
    Ok(())
}

/// An array of texts.
///
/// # Errors
/// Those of `texts`, and of [`append`].
pub(super) fn texts(values: impl Iterator<Item = Result<Option<String>>>) -> Result<ArrayRef> {
    let mut texts = StringBuilder::new();
    for value in values {
        match value? {
            Some(text) => append(&mut texts, &text)?,
            None => texts.append_null(),
        }
    }
    Ok(Arc::new(texts.finish()))
}
