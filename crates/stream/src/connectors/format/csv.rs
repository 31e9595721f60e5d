use std::fs::File;
use std::io::Write;

use arrow::array::{Array, BinaryArray, RecordBatch};
use arrow::csv::reader::Decoder;
use arrow::csv::{ReaderBuilder, WriterBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use regex::Regex;

use crate::error::{Result, computing, invalid};
use crate::plan::{OptionMap, type_name};

/// Form of CSV, by Spark's options: what stands between fields, and which text is null. Quotes are `"`, and one within a quoted
/// text is doubled (RFC 4180), or has the escape before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvDialect {
    separator: u8,
    escape: Option<u8>,
    null_value: String,
}

/// Fields of CSV, one record to a value, in the order of the columns. An empty field is null, and so is the null value.
#[derive(Debug)]
pub(super) struct CsvReader {
    schema: SchemaRef,
    dialect: CsvDialect,
    null: Regex,
}

impl CsvDialect {
    /// Takes the options of a stream.
    ///
    /// # Errors
    /// `Invalid` for values that are not honoured.
    pub fn of_stream(options: &mut OptionMap) -> Result<Self> {
        let mut dialect = Self::of_sink(options)?;
        dialect.escape = match options.take("escape").as_deref() {
            None | Some("\"") => None,
            Some("\\") => Some(b'\\'),
            Some(other) => return Err(options.wrong("escape", other, "\" or \\")),
        };
        Ok(dialect)
    }

    /// Takes the options of a sink.
    ///
    /// # Errors
    /// `Invalid` for values that are not honoured.
    pub fn of_sink(options: &mut OptionMap) -> Result<Self> {
        let (sep, delimiter) = (options.take("sep"), options.take("delimiter"));
        if let (Some(_), Some(_)) = (&sep, &delimiter) {
            let text = format!("{}: the options 'sep' and 'delimiter' are the same one", options.owner());
            return Err(invalid(text));
        }
        let separator = match sep.or(delimiter).as_deref() {
            None => b',',
            Some("\\t") => b'\t',
            Some(text) => match text.as_bytes() {
                [byte] if byte.is_ascii() && !b"\"\r\n\\".contains(byte) => *byte,
                _ => return Err(options.wrong("sep", text, "one ASCII character that is no quote")),
            },
        };
        let null_value = options.take("nullValue").unwrap_or_default();
        Ok(Self { separator, escape: None, null_value })
    }

    /// Checks that CSV has the types of these columns.
    ///
    /// # Errors
    /// `Invalid` for one that it has not.
    pub fn check(owner: &str, schema: &Schema) -> Result<()> {
        let is_there = |field: &&std::sync::Arc<Field>| {
            !field.data_type().is_nested() && !matches!(field.data_type(), DataType::Binary)
        };
        match schema.fields().iter().find(|field| !is_there(field)) {
            None => Ok(()),
            Some(field) => {
                let text = format!("{owner}: column '{}' is {}", field.name(), type_name(field.data_type()));
                Err(invalid(format!("{text}, which CSV does not have")))
            }
        }
    }

    /// Checks that a line is the header of these fields.
    ///
    /// # Errors
    /// `Invalid` if it names others, or in another order.
    pub fn check_header(&self, fields: &[String], line: &[u8]) -> Result<()> {
        let texts = fields.iter().map(|name| Field::new(name, DataType::Utf8, true));
        let schema = SchemaRef::new(Schema::new(texts.collect::<Vec<_>>()));
        let reader = self.builder(schema).with_header(true).with_header_validation(true).with_batch_size(1);
        let mut decoder = reader.build_decoder();
        let decoded = decoder.decode(line).and_then(|_| decoder.decode(b"\n"));
        match decoded {
            Ok(_) => Ok(()),
            Err(error) => {
                Err(invalid(format!("the header is not {}", self.joined(fields))).with_source(error))
            }
        }
    }

    /// A reader of a whole file.
    ///
    /// # Errors
    /// As Arrow's reader.
    pub fn file_reader(
        &self,
        schema: SchemaRef,
        has_header: bool,
        file: File,
    ) -> Result<arrow::csv::Reader<File>, ArrowError> {
        let null = self.null().map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
        let builder = self.builder(schema).with_null_regex(null);
        builder.with_header(has_header).with_header_validation(has_header).build(file)
    }

    /// Fields that are null.
    fn null(&self) -> Result<Regex, regex::Error> {
        Regex::new(&format!("^(?:{})?$", regex::escape(&self.null_value)))
    }

    fn joined(&self, fields: &[String]) -> String {
        fields.join(&char::from(self.separator).to_string())
    }

    fn builder(&self, schema: SchemaRef) -> ReaderBuilder {
        let builder = ReaderBuilder::new(schema).with_delimiter(self.separator);
        match self.escape {
            Some(escape) => builder.with_escape(escape),
            None => builder,
        }
    }

    /// The line that names fields.
    ///
    /// # Errors
    /// `Invalid` for names that cannot be written.
    pub fn header(&self, schema: &SchemaRef) -> Result<Vec<u8>> {
        self.write(&RecordBatch::new_empty(SchemaRef::clone(schema)), true)
    }

    /// Rows as lines. A null is the null value; a line end within a text is quoted.
    ///
    /// # Errors
    /// `Invalid` for values that CSV cannot show.
    pub fn lines(&self, rows: &RecordBatch) -> Result<Vec<u8>> {
        self.write(rows, false)
    }

    /// Rows as a record each, without line ends behind them.
    ///
    /// # Errors
    /// As [`lines`](Self::lines).
    pub fn records(&self, rows: &RecordBatch) -> Result<Vec<Vec<u8>>> {
        let record = |row| {
            let mut record = self.lines(&rows.slice(row, 1))?;
            record.pop();
            Ok(record)
        };
        (0..rows.num_rows()).map(record).collect()
    }

    fn write(&self, rows: &RecordBatch, has_header: bool) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        let builder = WriterBuilder::new().with_header(has_header).with_delimiter(self.separator);
        let mut writer = builder.with_null(self.null_value.clone()).build(&mut text);
        writer.write(rows).map_err(computing)?;
        drop(writer);
        text.flush()?;
        Ok(text)
    }
}

impl CsvReader {
    /// A reader of the fields that a schema names.
    ///
    /// # Errors
    /// `Invalid` for types that CSV does not have.
    pub fn new(owner: &str, schema: SchemaRef, dialect: CsvDialect) -> Result<Self> {
        CsvDialect::check(owner, &schema)?;
        let null = dialect.null().map_err(computing)?;
        Ok(Self { schema, dialect, null })
    }

    /// Reads all records, or says why one of them is none of these fields.
    pub fn read_all(&self, values: &BinaryArray) -> Result<RecordBatch, String> {
        let mut decoder = self.decoder(values.len());
        for value in values {
            take_one(&mut decoder, value)?;
        }
        let batch = decoder.flush().map_err(|error| error.to_string())?;
        Ok(batch.unwrap_or_else(|| RecordBatch::new_empty(SchemaRef::clone(&self.schema))))
    }

    /// A record whose fields are all null.
    pub fn nulls(&self) -> Vec<u8> {
        match self.schema.fields().len() {
            // An empty line is no record.
            1 => b"\"\"".to_vec(),
            fields => vec![self.dialect.separator; fields - 1],
        }
    }

    /// Why a record cannot be read; nothing if it can.
    pub fn refusal(&self, value: Option<&[u8]>) -> Option<String> {
        let mut decoder = self.decoder(1);
        let read = take_one(&mut decoder, value);
        read.and_then(|()| decoder.flush().map(drop).map_err(|error| error.to_string())).err()
    }

    fn decoder(&self, rows: usize) -> Decoder {
        // It stops reading after so many rows: one more shows a second record in the last value.
        let builder = self.dialect.builder(SchemaRef::clone(&self.schema)).with_batch_size(rows + 1);
        builder.with_null_regex(self.null.clone()).build_decoder()
    }
}

/// Takes the one record of a value.
fn take_one(decoder: &mut Decoder, value: Option<&[u8]>) -> Result<(), String> {
    let Some(value) = value else { return Err("it has no value".to_owned()) };
    let before = decoder.capacity();
    let taken = decoder.decode(value).map_err(|error| error.to_string())?;
    // The end of the value is that of its record, unless it is within quotes.
    decoder.decode(b"\n").map_err(|error| error.to_string())?;
    if taken < value.len() || decoder.capacity() + 1 != before {
        return Err("it is not one record of CSV".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray, TimestampMicrosecondArray};
    use arrow::datatypes::{Int64Type, TimestampMicrosecondType};

    use super::*;
    use crate::plan::TIMESTAMP;

    fn dialect(given: &[(&str, &str)]) -> Result<CsvDialect> {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut options = OptionMap::new("stream 's'", given)?;
        let dialect = CsvDialect::of_stream(&mut options)?;
        options.finish()?;
        Ok(dialect)
    }

    fn reader(given: &[(&str, &str)]) -> CsvReader {
        let schema = Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("name", DataType::Utf8, true),
            Field::new("ts", TIMESTAMP(), true),
        ]);
        CsvReader::new("stream 's'", Arc::new(schema), dialect(given).unwrap()).unwrap()
    }

    fn values(records: &[&str]) -> BinaryArray {
        BinaryArray::from_iter_values(records)
    }

    #[test]
    fn records_become_columns_by_their_places() {
        let records = ["7,a,2026-01-02T03:04:05Z", "8,\"b,\"\"c\"\"\nd\",", "9,,1970-01-01 00:00:00.5\n"];
        let rows = reader(&[]).read_all(&values(&records)).unwrap();
        assert_eq!(rows.column(0).as_primitive::<Int64Type>().values(), &[7, 8, 9]);
        let names: Vec<_> = rows.column(1).as_string::<i32>().iter().collect();
        assert_eq!(names, [Some("a"), Some("b,\"c\"\nd"), None]);
        let times: Vec<_> = rows.column(2).as_primitive::<TimestampMicrosecondType>().iter().collect();
        assert_eq!(times, [Some(1_767_323_045_000_000), None, Some(500_000)]);
        assert_eq!(reader(&[]).read_all(&values(&[])).unwrap().num_rows(), 0);
    }

    #[test]
    fn options_have_sparks_names() {
        let read = reader(&[("sep", "|"), ("nullValue", "N.A"), ("escape", "\\")]);
        let rows = read.read_all(&values(&["1|N.A|", "2|NxA|", "3|\"a\\\"b\"|"])).unwrap();
        let names: Vec<_> = rows.column(1).as_string::<i32>().iter().collect();
        assert_eq!(names, [None, Some("NxA"), Some("a\"b")]);
        assert_eq!(dialect(&[("delimiter", "\\t")]).unwrap().separator, b'\t');
        for (given, expected) in [
            (vec![("sep", "||")], "'sep' is '||'"),
            (vec![("sep", "\"")], "'sep' is '\"'"),
            (vec![("sep", ","), ("delimiter", ",")], "'sep' and 'delimiter'"),
            (vec![("escape", "x")], "'escape' is 'x'"),
            (vec![("quote", "'")], "'quote' is not honoured"),
        ] {
            let error = dialect(&given).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn what_is_not_one_record_of_the_fields_is_malformed() {
        for wrong in [
            "",
            "\n",
            "1",
            "1,a",
            "1,a,,",
            "x,a,",
            ",a,",
            "1,a,yesterday",
            "1,\"a,",
            "1,a,\n2,b,",
            "1,a,\n\n2,b,\n",
        ] {
            let refusal = reader(&[]).refusal(Some(wrong.as_bytes()));
            assert!(refusal.is_some(), "'{wrong}' was read");
            let among = reader(&[]).read_all(&values(&["5,b,", wrong, "6,c,"]));
            assert!(among.is_err(), "'{wrong}' was read among others: {among:?}");
        }
        assert!(reader(&[]).refusal(None).is_some());
        assert!(reader(&[]).refusal(Some(b"1,\xff,")).is_some());
        assert_eq!(reader(&[]).refusal(Some(b"1,a,\r\n")), None);
    }

    #[test]
    fn two_records_in_one_value_do_not_make_up_for_none_in_another() {
        assert!(reader(&[]).read_all(&values(&["1,a,\n2,b,", ""])).is_err());
        assert!(
            reader(&[]).read_all(&values(&["1,\"a", "b\","])).is_err(),
            "a quote that the next value ends"
        );
    }

    #[test]
    fn what_is_written_is_read_again() {
        let times = TimestampMicrosecondArray::from(vec![Some(1_767_323_045_000_001), None]);
        let columns: [(&str, ArrayRef); 3] = [
            ("id", Arc::new(Int64Array::from(vec![1, 2]))),
            ("name", Arc::new(StringArray::from(vec![Some("a,\"b\"\nc"), None]))),
            ("ts", Arc::new(times.with_timezone("+00:00"))),
        ];
        let rows = RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, name != "id")),
        )
        .unwrap();
        let csv = dialect(&[("nullValue", "none")]).unwrap();
        let records = csv.records(&rows).unwrap();
        let texts: Vec<_> = records.iter().map(|record| String::from_utf8_lossy(record)).collect();
        assert_eq!(texts, ["1,\"a,\"\"b\"\"\nc\",2026-01-02T03:04:05.000001Z", "2,none,none"]);
        let read =
            reader(&[("nullValue", "none")]).read_all(&BinaryArray::from_iter_values(&records)).unwrap();
        assert_eq!(read, rows);
        assert_eq!(csv.lines(&rows).unwrap(), [records.join(&b'\n'), b"\n".to_vec()].concat());
        assert_eq!(csv.header(&rows.schema()).unwrap(), b"id,name,ts\n");
    }

    #[test]
    fn a_header_has_the_names_of_the_fields_in_their_order() {
        let names = ["id".to_owned(), "na,me".to_owned()];
        let csv = dialect(&[]).unwrap();
        csv.check_header(&names, b"id,\"na,me\"").unwrap();
        for wrong in ["\"na,me\",id", "id", "id,\"na,me\",x", "1,2"] {
            let error = csv.check_header(&names, wrong.as_bytes()).unwrap_err().to_string();
            assert_eq!(error, "the header is not id,na,me", "{wrong}");
        }
    }

    #[test]
    fn types_that_csv_does_not_have_are_refused() {
        let schema = Arc::new(Schema::new(vec![Field::new("b", DataType::Binary, true)]));
        let error = CsvReader::new("stream 's'", schema, dialect(&[]).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "stream 's': column 'b' is BINARY, which CSV does not have");
    }
}
