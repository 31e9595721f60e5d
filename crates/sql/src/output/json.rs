use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrowPrimitiveType, AsArray, MapArray, PrimitiveArray, RecordBatch, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Float16Type, Float32Type, Float64Type, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::writer::{NullableEncoder, make_encoder};
use arrow::json::{Encoder, EncoderFactory, EncoderOptions};
use arrow::util::display::ArrayFormatter;

use super::answer::{BatchWriter, WriteFailure, distinct_names};
use yeoul_dialect::time::{formatter, text_options};

/// Text is passed on when this many bytes have gathered.
const CHUNK_BYTES: usize = 32 << 10;

/// One JSON object per line, each with every column's key, in the columns' order.
pub(super) struct JsonWriter<W: Write> {
    out: W,
    fields: Fields,
    row: FieldRef,
    encoding: Encoding,
}

impl<W: Write> JsonWriter<W> {
    pub(super) fn new(out: W, schema: &SchemaRef) -> Self {
        let names = distinct_names(schema);
        let fields: Fields = schema
            .fields()
            .iter()
            .zip(names)
            .map(|(field, name)| Field::new(name, field.data_type().clone(), true))
            .collect();
        let row = Arc::new(Field::new_struct("", fields.clone(), false));
        Self { out, fields, row, encoding: Encoding::default() }
    }
}

impl<W: Write> BatchWriter for JsonWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteFailure> {
        let columns = batch.columns().to_vec();
        let rows = StructArray::try_new_with_length(self.fields.clone(), columns, None, batch.num_rows())?;
        let mut encoder = make_encoder(&self.row, &rows, &self.encoding.options)?;
        let mut text = Vec::with_capacity(2 * CHUNK_BYTES);
        for row in 0..batch.num_rows() {
            encoder.encode(row, &mut text);
            self.encoding.check()?;
            text.push(b'\n');
            if text.len() >= CHUNK_BYTES {
                self.out.write_all(&text)?;
                text.clear();
            }
        }
        self.out.write_all(&text)?;
        Ok(self.out.flush()?)
    }

    fn finish(&mut self) -> Result<(), WriteFailure> {
        Ok(self.out.flush()?)
    }
}

/// Arrow's JSON encoding with our choices where JSON leaves one, and with what Arrow lacks.
pub(super) struct Encoding {
    pub(super) options: EncoderOptions,
    refused: Refused,
}

impl Default for Encoding {
    fn default() -> Self {
        let refused = Refused::default();
        let choices = Arc::new(Choices { refused: refused.clone() });
        let options = EncoderOptions::default().with_explicit_nulls(true).with_encoder_factory(choices);
        Self { options, refused }
    }
}

impl Encoding {
    /// Check this after each value, before passing it on.
    ///
    /// # Errors
    /// If the value has no text.
    pub(super) fn check(&self) -> Result<(), ArrowError> {
        // Usually there is none, and then the lock is uncontended.
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}

/// Whether every value of `array` has a text.
///
/// # Errors
/// Why the first one without a text has none.
pub(super) fn check(field: &FieldRef, array: &dyn Array) -> Result<(), ArrowError> {
    let encoding = Encoding::default();
    let mut values = make_encoder(field, array, &encoding.options)?;
    let mut text = Vec::new();
    for row in 0..array.len() {
        if !values.is_null(row) {
            values.encode(row, &mut text);
            encoding.check()?;
            text.clear();
        }
    }
    Ok(())
}

/// Why a value has no text. An [`Encoder`] cannot fail, so it leaves the error here.
type Refused = Arc<Mutex<Option<ArrowError>>>;

#[derive(Debug)]
struct Choices {
    refused: Refused,
}

impl EncoderFactory for Choices {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            DataType::Float16 => Box::new(FloatEncoder(array.as_primitive::<Float16Type>())),
            DataType::Float32 => Box::new(FloatEncoder(array.as_primitive::<Float32Type>())),
            DataType::Float64 => Box::new(FloatEncoder(array.as_primitive::<Float64Type>())),
            // Arrow's encoder checks only the keys' nulls, and writes a default value for a key whose value is null.
            DataType::Dictionary(_, _) if !array.as_any_dictionary().values().is_empty() => {
                let dictionary = array.as_any_dictionary();
                let values = make_encoder(field, dictionary.values().as_ref(), options)?;
                Box::new(DictionaryEncoder { keys: dictionary.normalized_keys(), values })
            }
            // Arrow's encoder refuses keys that are not strings.
            DataType::Map(_, _) => Box::new(MapEncoder::new(field, array.as_map(), options)?),
            // Arrow's encoder writes the text of an error for a value that is out of range.
            other if other.is_temporal() => Box::new(TimeEncoder {
                formatter: formatter(array, &text_options())?,
                text: String::new(),
                refused: Arc::clone(&self.refused),
            }),
            _ => return Ok(None),
        };
        Ok(Some(NullableEncoder::new(encoder, array.logical_nulls())))
    }
}

/// Floats as the shortest decimal that reads back the same; NaN and the infinities as strings.
struct FloatEncoder<'a, T: ArrowPrimitiveType>(&'a PrimitiveArray<T>);

impl<T> Encoder for FloatEncoder<'_, T>
where
    T: ArrowPrimitiveType,
    T::Native: Into<f64>,
{
    fn encode(&mut self, idx: usize, out: &mut Vec<u8>) {
        let value = self.0.value(idx);
        let wide: f64 = value.into();
        if wide.is_finite() {
            // `Debug` writes the fewest digits, and an exponent where `Display` would write 300 zeros.
            write!(out, "{value:?}").expect("writing to a vector cannot fail");
        } else if wide.is_nan() {
            out.extend_from_slice(b"\"NaN\"");
        } else if wide.is_sign_positive() {
            out.extend_from_slice(b"\"Infinity\"");
        } else {
            out.extend_from_slice(b"\"-Infinity\"");
        }
    }
}

/// Dates, times and intervals as strings. Their texts contain nothing that JSON has to escape.
struct TimeEncoder<'a> {
    formatter: ArrayFormatter<'a>,
    text: String,
    refused: Refused,
}

impl Encoder for TimeEncoder<'_> {
    fn encode(&mut self, idx: usize, out: &mut Vec<u8>) {
        self.text.clear();
        if let Err(error) = self.formatter.value(idx).write(&mut self.text) {
            self.refused.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
        out.push(b'"');
        out.extend_from_slice(self.text.as_bytes());
        out.push(b'"');
    }
}

struct DictionaryEncoder<'a> {
    keys: Vec<usize>,
    values: NullableEncoder<'a>,
}

impl Encoder for DictionaryEncoder<'_> {
    fn encode(&mut self, idx: usize, out: &mut Vec<u8>) {
        self.values.encode(self.keys[idx], out);
    }
}

struct MapEncoder<'a> {
    map: &'a MapArray,
    keys: NullableEncoder<'a>,
    values: NullableEncoder<'a>,
    key: Vec<u8>,
}

impl<'a> MapEncoder<'a> {
    fn new(field: &'a FieldRef, map: &'a MapArray, options: &'a EncoderOptions) -> Result<Self, ArrowError> {
        let keys = make_encoder(field, map.keys().as_ref(), options)?;
        let values = make_encoder(field, map.values().as_ref(), options)?;
        Ok(Self { map, keys, values, key: Vec::new() })
    }
}

impl Encoder for MapEncoder<'_> {
    fn encode(&mut self, idx: usize, out: &mut Vec<u8>) {
        let offsets = self.map.value_offsets();
        // Offsets of Arrow arrays are never negative and never shrink.
        let (start, end) = (offsets[idx] as usize, offsets[idx + 1] as usize);
        out.push(b'{');
        for entry in start..end {
            if entry > start {
                out.push(b',');
            }
            self.key.clear();
            if self.keys.is_null(entry) {
                self.key.extend_from_slice(b"null");
            } else {
                self.keys.encode(entry, &mut self.key);
            }
            push_key(&self.key, out);
            out.push(b':');
            if self.values.is_null(entry) {
                out.extend_from_slice(b"null");
            } else {
                self.values.encode(entry, out);
            }
        }
        out.push(b'}');
    }
}

/// Appends a value's JSON text as a key: itself if it is a string, else quoted.
fn push_key(key: &[u8], out: &mut Vec<u8>) {
    if key.starts_with(b"\"") {
        return out.extend_from_slice(key);
    }
    out.push(b'"');
    for byte in key {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        ArrayRef, BinaryArray, Decimal128Array, DictionaryArray, Float32Array, Float64Array, Int32Array,
        Int64Array, Int64Builder, ListArray, MapBuilder, StringArray, StringBuilder,
        TimestampMicrosecondArray, UInt64Array,
    };
    use arrow::datatypes::{Int32Type, Schema};
    use proptest::prelude::*;

    fn json(columns: Vec<(&str, ArrayRef)>) -> Vec<String> {
        let fields: Vec<Field> =
            columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
        let mut out = Vec::new();
        let mut writer = JsonWriter::new(&mut out, &batch.schema());
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    fn column(array: impl Array + 'static) -> Vec<String> {
        let lines = json(vec![("v", Arc::new(array))]);
        let value = |line: String| {
            line.strip_prefix("{\"v\":").and_then(|rest| rest.strip_suffix('}')).map(str::to_owned)
        };
        lines.into_iter().map(|line| value(line).unwrap()).collect()
    }

    #[test]
    fn every_row_has_every_key_in_order_and_names_are_told_apart() {
        let one = || Arc::new(Int32Array::from(vec![Some(1), None])) as ArrayRef;
        let text = Arc::new(StringArray::from(vec!["a\"\\\n\u{1}é", ""]));
        assert_eq!(
            json(vec![("b", one()), ("a", text), ("b", one()), ("b_1", one()), ("b", one())]),
            [
                r#"{"b":1,"a":"a\"\\\n\u0001é","b_2":1,"b_1":1,"b_3":1}"#,
                r#"{"b":null,"a":"","b_2":null,"b_1":null,"b_3":null}"#,
            ]
        );
    }

    #[test]
    fn numbers_keep_all_their_digits() {
        assert_eq!(
            column(Int64Array::from(vec![i64::MIN, i64::MAX])),
            ["-9223372036854775808", "9223372036854775807"]
        );
        assert_eq!(column(UInt64Array::from(vec![u64::MAX])), ["18446744073709551615"]);
        assert_eq!(
            column(Float64Array::from(vec![0.1, -0.0, 1e300, 5e-324, 3.0])),
            ["0.1", "-0.0", "1e300", "5e-324", "3.0"]
        );
        assert_eq!(column(Float32Array::from(vec![0.1, 16777216.0])), ["0.1", "16777216.0"]);
        let decimal =
            Decimal128Array::from(vec![Some(-12345678901234567890123456789012345678), Some(5), None]);
        let decimal = decimal.with_precision_and_scale(38, 4).unwrap();
        assert_eq!(column(decimal), ["-1234567890123456789012345678901234.5678", "0.0005", "null"]);
    }

    #[test]
    fn what_json_has_no_number_for_is_a_string() {
        let odd = vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        assert_eq!(column(Float64Array::from(odd)), ["\"NaN\"", "\"Infinity\"", "\"-Infinity\""]);
    }

    #[test]
    fn times_are_written_as_in_casts_and_binary_is_hexadecimal() {
        let times = TimestampMicrosecondArray::from(vec![1_700_000_000_123_456]);
        assert_eq!(column(times.clone()), ["\"2023-11-14 22:13:20.123456\""]);
        assert_eq!(column(times.with_timezone("+09:00")), ["\"2023-11-15 07:13:20.123456+09\""]);
        assert_eq!(column(BinaryArray::from(vec![b"\x00\xffA".as_slice()])), ["\"00ff41\""]);
    }

    #[test]
    fn a_time_out_of_range_is_an_error_and_not_its_text() {
        let times = TimestampMicrosecondArray::from(vec![Some(0), None, Some(i64::MAX)]);
        let batch = RecordBatch::try_from_iter([("t", Arc::new(times) as ArrayRef)]).unwrap();
        let mut out = Vec::new();
        let mut writer = JsonWriter::new(&mut out, &batch.schema());
        let error = writer.write(&batch).unwrap_err();
        assert!(matches!(error, WriteFailure::Encode(_)), "{error:?}");
        writer.write(&batch.slice(0, 2)).unwrap();
        let lines = "{\"t\":\"1970-01-01 00:00:00\"}\n{\"t\":null}\n";
        assert_eq!(String::from_utf8(out).unwrap(), lines);
    }

    #[test]
    fn nested_values_are_objects_and_lists() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(1), None]),
            None,
            Some(vec![]),
        ]);
        assert_eq!(column(list), ["[1,null]", "null", "[]"]);
        let rows: StructArray = vec![
            (
                Arc::new(Field::new("x", DataType::Int32, true)),
                Arc::new(Int32Array::from(vec![Some(7), None])) as ArrayRef,
            ),
            (
                Arc::new(Field::new("y", DataType::Float64, true)),
                Arc::new(Float64Array::from(vec![f64::NAN, 0.5])) as ArrayRef,
            ),
        ]
        .into();
        assert_eq!(column(rows), [r#"{"x":7,"y":"NaN"}"#, r#"{"x":null,"y":0.5}"#]);
    }

    #[test]
    fn keys_of_maps_become_strings() {
        let mut map = MapBuilder::new(None, Int64Builder::new(), StringBuilder::new());
        map.keys().append_value(1);
        map.values().append_value("one");
        map.keys().append_value(-2);
        map.values().append_null();
        map.append(true).unwrap();
        map.append(false).unwrap();
        map.append(true).unwrap();
        assert_eq!(column(map.finish()), [r#"{"1":"one","-2":null}"#, "null", "{}"]);
        let mut map = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
        map.keys().append_value("a\"b");
        map.values().append_value(1);
        map.append(true).unwrap();
        assert_eq!(column(map.finish()), [r#"{"a\"b":1}"#]);
    }

    #[test]
    fn a_null_in_a_dictionary_is_a_null() {
        let values = Arc::new(StringArray::from(vec![Some("a"), None]));
        let keys = Int32Array::from(vec![Some(0), Some(1), None]);
        assert_eq!(column(DictionaryArray::new(keys, values)), ["\"a\"", "null", "null"]);
        let none = Arc::new(StringArray::from(Vec::<&str>::new()));
        assert_eq!(column(DictionaryArray::new(Int32Array::from(vec![None, None]), none)), ["null", "null"]);
    }

    #[test]
    fn an_answer_without_columns_has_an_empty_object_per_row() {
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(2));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
        let mut out = Vec::new();
        JsonWriter::new(&mut out, &batch.schema()).write(&batch).unwrap();
        assert_eq!(out, b"{}\n{}\n");
    }

    proptest! {
        #[test]
        fn any_row_is_one_line_that_reads_back(text in "(?s).*", number in any::<f64>(), count in any::<i64>()) {
            let lines = json(vec![
                ("t", Arc::new(StringArray::from(vec![text.clone()]))),
                ("n", Arc::new(Float64Array::from(vec![number]))),
                ("c", Arc::new(Int64Array::from(vec![count]))),
            ]);
            prop_assert_eq!(lines.len(), 1);
            let schema = Arc::new(Schema::new(vec![
                Field::new("t", DataType::Utf8, true),
                Field::new("n", DataType::Float64, true),
                Field::new("c", DataType::Int64, true),
            ]));
            let mut reader = arrow::json::ReaderBuilder::new(schema).build(lines[0].as_bytes()).unwrap();
            let read = reader.next().unwrap().unwrap();
            prop_assert_eq!(read.column(0).as_string::<i32>().value(0), text);
            if number.is_finite() {
                prop_assert_eq!(read.column(1).as_primitive::<Float64Type>().value(0), number);
            }
            prop_assert_eq!(read.column(2).as_primitive::<arrow::datatypes::Int64Type>().value(0), count);
        }
    }
}
