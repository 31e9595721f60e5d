use arrow::array::{Array, BinaryArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::json::LineDelimitedWriter;
use arrow::json::reader::{Decoder, ReaderBuilder};

use crate::error::{Result, computing};

/// Fields of JSON objects, one object to a record. Fields that are not named are passed over, missing ones are null, numbers
/// and booleans are read as text where text is wanted, as in Spark.
#[derive(Debug)]
pub(super) struct JsonReader {
    schema: SchemaRef,
}

impl JsonReader {
    /// A reader of the fields that a schema names.
    pub fn new(schema: SchemaRef) -> Self {
        Self { schema }
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
        let builder = ReaderBuilder::new(SchemaRef::clone(&self.schema)).with_batch_size(rows + 1);
        builder.with_coerce_primitive(true).build_decoder()
    }

    fn finish(&self, mut decoder: Decoder, rows: usize) -> Result<RecordBatch, String> {
        let batch = decoder.flush().map_err(|error| error.to_string())?;
        let batch = batch.unwrap_or_else(|| RecordBatch::new_empty(SchemaRef::clone(&self.schema)));
        if batch.num_rows() == rows { Ok(batch) } else { Err("it is not one JSON object".to_owned()) }
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

/// Rows as JSON objects, each with a line end; null fields are left out, as in Spark.
///
/// # Errors
/// `Invalid` for values that JSON cannot show.
pub fn write_json_lines(rows: &RecordBatch) -> Result<Vec<u8>> {
    let mut writer = LineDelimitedWriter::new(Vec::new());
    writer.write(rows).and_then(|()| writer.finish()).map_err(computing)?;
    Ok(writer.into_inner())
}
