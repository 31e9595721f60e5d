//! Rows as lines of JSON.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BinaryArray, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type};
use arrow::error::ArrowError;
use arrow::json::writer::{
    Encoder, EncoderFactory, EncoderOptions, LineDelimited, NullableEncoder, WriterBuilder, make_encoder,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::error::{Result, computing};

/// Rows as JSON objects, each with a line end; null fields are left out, bytes are base64, and numbers that JSON does not have are
/// `"NaN"`, `"Infinity"` and `"-Infinity"`, as in Spark.
///
/// # Errors
/// `Invalid` for values that JSON cannot show.
pub fn write_json_lines(rows: &RecordBatch) -> Result<Vec<u8>> {
    let builder = WriterBuilder::new().with_encoder_factory(Arc::new(SparkValues));
    let mut writer = builder.build::<_, LineDelimited>(Vec::new());
    writer.write(rows).and_then(|()| writer.finish()).map_err(computing)?;
    Ok(writer.into_inner())
}

/// Values that Spark writes in another way than Arrow.
#[derive(Debug)]
struct SparkValues;

struct Bytes<'a>(&'a BinaryArray);

/// Floating point numbers, by Arrow where JSON has them.
struct Numbers<'a> {
    /// Text of a value that JSON does not have.
    special: Vec<Option<&'static str>>,
    plain: NullableEncoder<'a>,
}

impl EncoderFactory for SparkValues {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let special: Vec<_> = match array.data_type() {
            DataType::Binary => {
                let bytes = Box::new(Bytes(array.as_binary::<i32>()));
                return Ok(Some(NullableEncoder::new(bytes, array.nulls().cloned())));
            }
            DataType::Float32 => {
                array.as_primitive::<Float32Type>().values().iter().map(|v| special(f64::from(*v))).collect()
            }
            DataType::Float64 => {
                array.as_primitive::<Float64Type>().values().iter().map(|v| special(*v)).collect()
            }
            _ => return Ok(None),
        };
        if special.iter().all(Option::is_none) {
            return Ok(None);
        }
        let plain = make_encoder(field, array, plain_options())?;
        Ok(Some(NullableEncoder::new(Box::new(Numbers { special, plain }), array.nulls().cloned())))
    }
}

/// Options without this factory.
fn plain_options() -> &'static EncoderOptions {
    static PLAIN: std::sync::OnceLock<EncoderOptions> = std::sync::OnceLock::new();
    PLAIN.get_or_init(EncoderOptions::default)
}

fn special(value: f64) -> Option<&'static str> {
    match value {
        _ if value.is_nan() => Some("\"NaN\""),
        f64::INFINITY => Some("\"Infinity\""),
        f64::NEG_INFINITY => Some("\"-Infinity\""),
        _ => None,
    }
}

impl Encoder for Bytes<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        out.push(b'"');
        out.extend_from_slice(STANDARD.encode(self.0.value(row)).as_bytes());
        out.push(b'"');
    }
}

impl Encoder for Numbers<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        match self.special[row] {
            Some(text) => out.extend_from_slice(text.as_bytes()),
            None => self.plain.encode(row, out),
        }
    }
}
