use std::io::Write;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{FieldRef, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::EncoderOptions;
use arrow::json::writer::{NullableEncoder, make_encoder};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::answer::{BatchWriter, WriteFailure};
use super::json::Encoding;
use yeoul_dialect::time::{formatter, text_options};

/// RFC 4180 text with a header line; the [module](super) describes nulls and nested values.
///
/// Our own, because `arrow::csv` writes no nested values, and empty text like null.
pub(super) struct CsvWriter<W: Write> {
    out: W,
    schema: SchemaRef,
    delimiter: u8,
    line: Vec<u8>,
    header_written: bool,
}

/// One column of one batch, ready to be written as text.
enum Values<'a> {
    Flat(ArrayFormatter<'a>),
    Nested(NullableEncoder<'a>),
}

impl<W: Write> CsvWriter<W> {
    pub(super) fn new(out: W, schema: SchemaRef) -> Self {
        Self::part(out, schema, b',', true)
    }

    /// A writer for a part of a file: with the header or without.
    pub(super) fn part(out: W, schema: SchemaRef, delimiter: u8, has_header: bool) -> Self {
        Self { out, schema, delimiter, line: Vec::new(), header_written: !has_header }
    }

    fn write_header(&mut self) -> Result<(), WriteFailure> {
        if std::mem::replace(&mut self.header_written, true) || self.schema.fields().is_empty() {
            return Ok(());
        }
        self.line.clear();
        for (index, field) in self.schema.fields().iter().enumerate() {
            if index > 0 {
                self.line.push(self.delimiter);
            }
            push_field(&mut self.line, field.name().as_bytes(), self.delimiter);
        }
        self.line.push(b'\n');
        Ok(self.out.write_all(&self.line)?)
    }
}

impl<W: Write> BatchWriter for CsvWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteFailure> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.write_header()?;
        if batch.num_columns() == 0 {
            return Ok(());
        }
        let (format, nested) = (text_options(), Encoding::default());
        let schema = batch.schema_ref();
        let mut columns = schema
            .fields()
            .iter()
            .zip(batch.columns())
            .map(|(field, array)| {
                Ok((values(field, array, &format, &nested.options)?, array.logical_nulls()))
            })
            .collect::<Result<Vec<_>, ArrowError>>()?;
        let alone = columns.len() == 1;
        let mut text = String::new();
        let mut json = Vec::new();
        for row in 0..batch.num_rows() {
            self.line.clear();
            for (index, (values, nulls)) in columns.iter_mut().enumerate() {
                if index > 0 {
                    self.line.push(self.delimiter);
                }
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    if alone {
                        self.line.extend_from_slice(b"\"\"");
                    }
                    continue;
                }
                match values {
                    Values::Flat(formatter) => {
                        text.clear();
                        formatter.value(row).write(&mut text)?;
                        push_field(&mut self.line, text.as_bytes(), self.delimiter);
                    }
                    Values::Nested(encoder) => {
                        json.clear();
                        encoder.encode(row, &mut json);
                        nested.check()?;
                        push_field(&mut self.line, &json, self.delimiter);
                    }
                }
            }
            self.line.push(b'\n');
            self.out.write_all(&self.line)?;
        }
        Ok(self.out.flush()?)
    }

    fn finish(&mut self) -> Result<(), WriteFailure> {
        self.write_header()?;
        Ok(self.out.flush()?)
    }
}

fn values<'a>(
    field: &'a FieldRef,
    array: &'a dyn Array,
    format: &FormatOptions<'a>,
    nested: &'a EncoderOptions,
) -> Result<Values<'a>, ArrowError> {
    if array.data_type().is_nested() {
        Ok(Values::Nested(make_encoder(field, array, nested)?))
    } else {
        Ok(Values::Flat(formatter(array, format)?))
    }
}

/// Appends one field that is not null, in quotes where RFC 4180 requires them or where it would be read as null.
fn push_field(line: &mut Vec<u8>, field: &[u8], delimiter: u8) {
    let is_special = |byte: &u8| *byte == delimiter || matches!(byte, b'"' | b'\n' | b'\r');
    if !field.is_empty() && !field.iter().any(is_special) {
        line.extend_from_slice(field);
        return;
    }
    line.push(b'"');
    for piece in field.split_inclusive(|byte| *byte == b'"') {
        line.extend_from_slice(piece);
        if piece.ends_with(b"\"") {
            line.push(b'"');
        }
    }
    line.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, ListArray, StringArray};
    use arrow::datatypes::{Int32Type, Schema};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn csv(columns: Vec<(&str, ArrayRef)>) -> String {
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap();
        let mut out = Vec::new();
        let mut writer = CsvWriter::new(&mut out, batch.schema());
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn fields_are_quoted_where_the_rfc_wants_it_and_nulls_differ_from_empty_texts() {
        let text = StringArray::from(vec![
            Some("plain"),
            Some(""),
            None,
            Some("a,b"),
            Some("say \"hi\""),
            Some("two\nlines\r"),
        ]);
        let number =
            Float64Array::from(vec![Some(1.5), None, Some(f64::NAN), Some(-0.0), Some(1e300), Some(2.0)]);
        assert_eq!(
            csv(vec![("a \"name\"", Arc::new(text)), ("n", Arc::new(number))]),
            "\"a \"\"name\"\"\",n\nplain,1.5\n\"\",\n,NaN\n\"a,b\",-0.0\n\"say \"\"hi\"\"\",1e300\n\"two\nlines\r\",2.0\n"
        );
    }

    #[test]
    fn nested_values_are_json_text() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(1), None]),
            None,
            Some(vec![]),
        ]);
        assert_eq!(
            csv(vec![("l", Arc::new(list)), ("n", Arc::new(Int64Array::from(vec![1, 2, 3])))]),
            "l,n\n\"[1,null]\",1\n,2\n[],3\n"
        );
    }

    #[test]
    fn a_time_out_of_range_within_a_list_is_an_error() {
        use arrow::array::TimestampMicrosecondArray;
        use arrow::buffer::OffsetBuffer;
        use arrow::datatypes::{DataType, Field, TimeUnit};
        let times = Arc::new(TimestampMicrosecondArray::from(vec![0, i64::MAX]));
        let item = Arc::new(Field::new_list_field(DataType::Timestamp(TimeUnit::Microsecond, None), true));
        let list = ListArray::new(item, OffsetBuffer::from_lengths([2]), times, None);
        let batch = RecordBatch::try_from_iter([("l", Arc::new(list) as ArrayRef)]).unwrap();
        let mut out = Vec::new();
        let error = CsvWriter::new(&mut out, batch.schema()).write(&batch).unwrap_err();
        assert!(matches!(error, WriteFailure::Encode(_)), "{error:?}");
    }

    #[test]
    fn an_empty_answer_is_its_header_and_one_without_columns_is_nothing() {
        let empty: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
        assert_eq!(csv(vec![("a", Arc::clone(&empty)), ("b", empty)]), "a,b\n");
        let mut out = Vec::new();
        CsvWriter::new(&mut out, Arc::new(Schema::empty())).finish().unwrap();
        assert_eq!(out, b"");
    }

    #[test]
    fn a_null_alone_in_its_line_is_not_an_empty_line() {
        assert_eq!(csv(vec![("a", Arc::new(Int64Array::from(vec![Some(1), None])))]), "a\n1\n\"\"\n");
    }

    proptest! {
        #[test]
        fn any_texts_come_back_through_a_csv_reader(
            rows in proptest::collection::vec(("\\PC*|[\",\n\r ]*", "[a-c\"\r\n]*"), 1..20),
        ) {
            let (left, right): (Vec<String>, Vec<String>) = rows.into_iter().unzip();
            let texts = |texts: &[String]| Arc::new(StringArray::from_iter_values(texts)) as ArrayRef;
            let text = csv(vec![("l", texts(&left)), ("r", texts(&right))]);
            let column = |name| arrow::datatypes::Field::new(name, arrow::datatypes::DataType::Utf8, true);
            let schema = Arc::new(Schema::new(vec![column("l"), column("r")]));
            let reader = arrow::csv::ReaderBuilder::new(schema).with_header(true).build(text.as_bytes()).unwrap();
            // This reader takes empty text for null, quoted or not.
            let read: Vec<(String, String)> = reader
                .map(Result::unwrap)
                .flat_map(|batch| {
                    let text = |column: usize, row| {
                        let column = batch.column(column).as_string::<i32>();
                        if column.is_null(row) { String::new() } else { column.value(row).to_owned() }
                    };
                    (0..batch.num_rows()).map(|row| (text(0, row), text(1, row))).collect::<Vec<_>>()
                })
                .collect();
            prop_assert_eq!(read, left.into_iter().zip(right).collect::<Vec<_>>());
        }
    }
}
