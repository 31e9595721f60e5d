//! Values that are JSON objects.

use std::io::BufRead;

use arrow::array::{Array, BinaryArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::json::reader::{Decoder, ReaderBuilder};

pub use lines::write_json_lines;
pub use text_values::TimestampUnit;

mod lines;
mod number;
mod text_values;

/// Fields of JSON objects, one object to a record. Fields that are not named are passed over, missing ones are null, numbers
/// and booleans are read as text where text is wanted, as in Spark. A number that does not fit its column is refused, not changed.
#[derive(Debug)]
pub struct JsonReader {
    schema: SchemaRef,
    /// Schema by which Arrow reads.
    read: SchemaRef,
    unit: TimestampUnit,
}

impl JsonReader {
    /// A reader of the fields that a schema names.
    pub fn new(schema: SchemaRef, unit: TimestampUnit) -> Self {
        Self { read: text_values::read_schema(&schema), schema, unit }
    }

    /// A reader of a whole file of objects.
    ///
    /// # Errors
    /// As Arrow's reader.
    pub fn file_reader<'a>(
        &'a self,
        file: impl BufRead + 'a,
    ) -> Result<impl Iterator<Item = Result<RecordBatch, ArrowError>> + 'a, ArrowError> {
        let builder = ReaderBuilder::new(SchemaRef::clone(&self.read)).with_coerce_primitive(true);
        let typed = |read: Result<RecordBatch, ArrowError>| self.typed(&read?).map_err(ArrowError::JsonError);
        Ok(builder.build(file)?.map(typed))
    }

    fn typed(&self, read: &RecordBatch) -> Result<RecordBatch, String> {
        text_values::typed(read, &self.schema, self.unit)
    }

    /// Reads all records, or says why one of them is no object of these fields.
    pub fn read_all(&self, values: &BinaryArray) -> Result<RecordBatch, String> {
        let mut decoder = self.decoder(values.len()).map_err(|error| error.to_string())?;
        for value in values {
            take_one(&mut decoder, value)?;
        }
        self.finish(decoder, values.len())
    }

    /// Why a record cannot be read; nothing if it can.
    pub fn refusal(&self, value: Option<&[u8]>) -> Option<String> {
        let read = self.decoder(1).map_err(|error| error.to_string()).and_then(|mut decoder| {
            take_one(&mut decoder, value)?;
            self.finish(decoder, 1)
        });
        read.err()
    }

    fn decoder(&self, rows: usize) -> Result<Decoder, ArrowError> {
        // It stops reading after so many rows: one more shows a second object in the last record.
        let builder = ReaderBuilder::new(SchemaRef::clone(&self.read)).with_batch_size(rows + 1);
        builder.with_coerce_primitive(true).build_decoder()
    }

    fn finish(&self, mut decoder: Decoder, rows: usize) -> Result<RecordBatch, String> {
        let batch = decoder.flush().map_err(|error| error.to_string())?;
        let batch = batch.unwrap_or_else(|| RecordBatch::new_empty(SchemaRef::clone(&self.read)));
        if batch.num_rows() == rows {
            self.typed(&batch)
        } else {
            Err("it is not one JSON object".to_owned())
        }
    }
}

/// Takes the one object of a record.
fn take_one(decoder: &mut Decoder, value: Option<&[u8]>) -> Result<(), String> {
    let Some(value) = value else { return Err("it has no value".to_owned()) };
    let before = decoder.len();
    let taken = decoder.decode(value).map_err(|error| error.to_string())?;
    if taken < value.len() || decoder.has_partial_record() || decoder.len() != before + 1 {
        return Err("it is not one JSON object".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
