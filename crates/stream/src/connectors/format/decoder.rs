use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, RecordBatch, UInt64Array};
use arrow::compute::{cast, filter_record_batch, take, take_record_batch};
use arrow::datatypes::{Field, Schema, SchemaRef};

use super::CsvDialect;
use super::csv::CsvReader;
use super::json::{JsonReader, TimestampUnit};
use crate::error::{Result, computing, invalid};
use crate::plan::{OptionMap, StreamColumn};

/// From a connector's rows to a stream's.
#[derive(Debug)]
pub enum Decoder {
    /// The connector's rows are the stream's.
    AsTheyAre,
    /// Columns are fields of the column `value`, or columns of the connector.
    Fields(FieldColumns),
}

/// Origin of the columns of a stream whose values have fields.
#[derive(Debug)]
pub struct FieldColumns {
    reader: FieldReader,
    schema: SchemaRef,
    sources: Vec<ColumnSource>,
    tombstones: Tombstones,
}

/// A reader of fields of values.
#[derive(Debug)]
enum FieldReader {
    Json(JsonReader),
    Csv(CsvReader),
}

#[derive(Debug, Clone, Copy)]
enum ColumnSource {
    /// Field of that number of the value.
    Field(usize),
    /// Column of that number of the connector.
    Connector(usize),
}

/// Meaning of records without a value, which Kafka calls tombstones: `tombstones`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tombstones {
    /// They are malformed.
    #[default]
    Malformed,
    /// They are passed over.
    Skipped,
    /// Their fields are null.
    Null,
}

impl Tombstones {
    /// Takes the option.
    ///
    /// # Errors
    /// `Invalid` for another value.
    pub fn take(options: &mut OptionMap) -> Result<Self> {
        match options.take("tombstones").as_deref() {
            None | Some("malformed") => Ok(Self::Malformed),
            Some("skip") => Ok(Self::Skipped),
            Some("null") => Ok(Self::Null),
            Some(other) => Err(options.wrong("tombstones", other, "malformed, skip or null")),
        }
    }
}

/// A stream's rows.
#[derive(Debug)]
pub struct Decoded {
    /// Those that could be read, in their order.
    pub rows: RecordBatch,
    /// Which rows of the connector they are; nothing if they are all.
    pub indices: Option<Vec<u64>>,
    /// Those that could not.
    pub malformed: Vec<Malformed>,
}

/// A record that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// Its number among the connector's rows.
    pub row: usize,
    /// Why.
    pub reason: String,
}

impl Decoded {
    /// The same without some of its rows, each with the reason, in their order; these are among the malformed ones then.
    ///
    /// # Errors
    /// Never: the rows that stay are rows of it.
    pub fn without(self, aside: Vec<(usize, String)>) -> Result<Self> {
        let Self { rows, indices, mut malformed } = self;
        let number = |row: usize| indices.as_ref().map_or(row as u64, |indices| indices[row]);
        let mut is_kept = vec![true; rows.num_rows()];
        for (row, reason) in aside {
            is_kept[row] = false;
            malformed.push(Malformed { row: number(row) as usize, reason });
        }
        malformed.sort_by_key(|record| record.row);
        let kept = (0..is_kept.len()).filter(|row| is_kept[*row]).map(number).collect();
        let rows = filter_record_batch(&rows, &BooleanArray::from(is_kept)).map_err(computing)?;
        Ok(Self { rows, indices: Some(kept), malformed })
    }
}

/// What becomes of a row that an expression fails on, before the first step that keeps state: `failing-rows`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailingRows {
    /// The query ends.
    Fail,
    /// They go to the dead letters.
    SetAside,
    /// They are passed over.
    Skip,
}

impl FailingRows {
    /// Takes the option of a stream that has a topic for dead letters, or none.
    ///
    /// # Errors
    /// `Invalid` for another value, and for dead letters without a topic.
    pub fn take(options: &mut OptionMap, has_letters: bool) -> Result<Self> {
        match options.take("failing-rows").as_deref() {
            Some("fail") => Ok(Self::Fail),
            Some("skip") => Ok(Self::Skip),
            Some("dead-letter") if has_letters => Ok(Self::SetAside),
            Some("dead-letter") => {
                let owner = options.owner();
                Err(invalid(format!("{owner}: 'failing-rows' = 'dead-letter' needs 'dead-letter.topic'")))
            }
            None if has_letters => Ok(Self::SetAside),
            None => Ok(Self::Fail),
            Some(other) => Err(options.wrong("failing-rows", other, "fail, dead-letter or skip")),
        }
    }
}

impl Decoder {
    /// A decoder of JSON for these columns of a stream over these of a connector.
    ///
    /// # Errors
    /// `Invalid` for a column that shows one that the connector does not have, or has with another type.
    pub fn json(
        owner: &str,
        columns: &[StreamColumn],
        connector: &Schema,
        unit: TimestampUnit,
    ) -> Result<Self> {
        let reader = |schema| Ok(FieldReader::Json(JsonReader::new(schema, unit)));
        Self::fields(owner, columns, connector, reader)
    }

    /// A decoder of CSV for these columns of a stream over these of a connector. Fields are those that are not of the connector, in
    /// their order.
    ///
    /// # Errors
    /// As [`json`](Self::json), and for types that CSV does not have.
    pub fn csv(
        owner: &str,
        columns: &[StreamColumn],
        connector: &Schema,
        dialect: CsvDialect,
    ) -> Result<Self> {
        let reader = |schema| Ok(FieldReader::Csv(CsvReader::new(owner, schema, dialect)?));
        Self::fields(owner, columns, connector, reader)
    }

    fn fields(
        owner: &str,
        columns: &[StreamColumn],
        connector: &Schema,
        reader: impl FnOnce(SchemaRef) -> Result<FieldReader>,
    ) -> Result<Self> {
        let (mut fields, mut sources) = (Vec::new(), Vec::new());
        for column in columns {
            let Some(metadata) = &column.metadata else {
                sources.push(ColumnSource::Field(fields.len()));
                fields.push(Field::new(&column.name, column.data_type.clone(), column.is_nullable));
                continue;
            };
            let Ok(index) = connector.index_of(metadata) else {
                let names: Vec<&str> = connector.fields().iter().map(|field| field.name().as_str()).collect();
                return Err(invalid(format!(
                    "{owner}: column '{}': there is no metadata '{metadata}'",
                    column.name
                ))
                .with_hint(format!("there are {}", names.join(", "))));
            };
            let has = connector.field(index).data_type();
            if !arrow::compute::can_cast_types(has, &column.data_type) {
                let text = format!(
                    "{owner}: column '{}' is {}, the metadata '{metadata}' is {has}",
                    column.name, column.data_type
                );
                return Err(invalid(text));
            }
            sources.push(ColumnSource::Connector(index));
        }
        if fields.is_empty() {
            return Err(invalid(format!("{owner}: no column is a field of the record's value"))
                .with_hint("leave the columns and the format out for the connector's own columns"));
        }
        let reader = reader(Arc::new(Schema::new(fields)))?;
        let is_nullable = |column: &StreamColumn| column.is_nullable || column.metadata.is_some();
        let fields = columns.iter().map(|c| Field::new(&c.name, c.data_type.clone(), is_nullable(c)));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(Self::Fields(FieldColumns { reader, schema, sources, tombstones: Tombstones::default() }))
    }

    /// The same decoder with another meaning of records without a value.
    #[must_use]
    pub fn with_tombstones(mut self, tombstones: Tombstones) -> Self {
        if let Self::Fields(columns) = &mut self {
            columns.tombstones = tombstones;
        }
        self
    }

    /// Columns of the stream; nothing if they are the connector's.
    pub fn schema(&self) -> Option<SchemaRef> {
        match self {
            Self::AsTheyAre => None,
            Self::Fields(columns) => Some(Arc::clone(&columns.schema)),
        }
    }

    /// Reads rows of the connector.
    ///
    /// # Errors
    /// `Invalid` if metadata does not fit its column's type.
    pub fn decode(&self, raw: RecordBatch) -> Result<Decoded> {
        match self {
            Self::AsTheyAre => Ok(Decoded { rows: raw, indices: None, malformed: Vec::new() }),
            Self::Fields(columns) => columns.decode(&raw),
        }
    }
}

impl FieldReader {
    fn read_all(&self, values: &BinaryArray) -> Result<RecordBatch, String> {
        match self {
            Self::Json(reader) => reader.read_all(values),
            Self::Csv(reader) => reader.read_all(values),
        }
    }

    /// A value whose fields are all null.
    fn nulls(&self) -> Vec<u8> {
        match self {
            Self::Json(_) => b"{}".to_vec(),
            Self::Csv(reader) => reader.nulls(),
        }
    }

    fn refusal(&self, value: Option<&[u8]>) -> Option<String> {
        match self {
            Self::Json(reader) => reader.refusal(value),
            Self::Csv(reader) => reader.refusal(value),
        }
    }
}

impl FieldColumns {
    fn decode(&self, raw: &RecordBatch) -> Result<Decoded> {
        let values = values_of(raw);
        match self.tombstones {
            Tombstones::Skipped if values.null_count() > 0 => self.decode_others(raw),
            Tombstones::Null if values.null_count() > 0 => {
                let nulls = self.reader.nulls();
                let values =
                    values.iter().map(|value| Some(value.unwrap_or(&nulls))).collect::<BinaryArray>();
                self.decode_values(raw, &values)
            }
            _ => self.decode_values(raw, values),
        }
    }

    /// Reads the rows that have a value.
    fn decode_others(&self, raw: &RecordBatch) -> Result<Decoded> {
        let values = values_of(raw);
        let numbers: Vec<u64> =
            (0..values.len()).filter(|row| values.is_valid(*row)).map(|row| row as u64).collect();
        let others = take_record_batch(raw, &UInt64Array::from(numbers.clone())).map_err(computing)?;
        let Decoded { rows, indices, mut malformed } = self.decode_values(&others, values_of(&others))?;
        let number = |row: usize| numbers[row];
        malformed.iter_mut().for_each(|record| record.row = number(record.row) as usize);
        let indices = match indices {
            Some(indices) => indices.into_iter().map(|row| number(row as usize)).collect(),
            None => numbers.clone(),
        };
        Ok(Decoded { rows, indices: Some(indices), malformed })
    }

    fn decode_values(&self, raw: &RecordBatch, values: &BinaryArray) -> Result<Decoded> {
        if let Ok(fields) = self.reader.read_all(values) {
            return Ok(Decoded { rows: self.combine(raw, &fields)?, indices: None, malformed: Vec::new() });
        }
        // Some record is wrong, and the reader cannot say which: look at each.
        let (mut indices, mut malformed) = (Vec::new(), Vec::new());
        for (row, value) in values.iter().enumerate() {
            match self.reader.refusal(value) {
                None => indices.push(row as u64),
                Some(reason) => malformed.push(Malformed { row, reason }),
            }
        }
        let numbers = UInt64Array::from(indices.clone());
        let good = take_record_batch(raw, &numbers).map_err(computing)?;
        let values = take(values, &numbers, None).map_err(computing)?;
        let fields = self.reader.read_all(values.as_binary::<i32>()).map_err(invalid)?;
        Ok(Decoded { rows: self.combine(&good, &fields)?, indices: Some(indices), malformed })
    }

    fn combine(&self, raw: &RecordBatch, fields: &RecordBatch) -> Result<RecordBatch> {
        let columns: Result<Vec<ArrayRef>> = (self.sources.iter().zip(self.schema.fields()))
            .map(|(source, field)| match source {
                ColumnSource::Field(index) => Ok(Arc::clone(fields.column(*index))),
                ColumnSource::Connector(index) => {
                    cast(raw.column(*index), field.data_type()).map_err(computing)
                }
            })
            .collect();
        RecordBatch::try_new(Arc::clone(&self.schema), columns?).map_err(computing)
    }
}

fn values_of(raw: &RecordBatch) -> &BinaryArray {
    raw.column_by_name("value").expect("a connector of records has values").as_binary::<i32>()
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Int64Type};

    use super::*;

    fn column(name: &str, data_type: DataType, is_nullable: bool, metadata: Option<&str>) -> StreamColumn {
        StreamColumn { name: name.into(), data_type, is_nullable, metadata: metadata.map(str::to_owned) }
    }

    /// Values of five records.
    type Values<'a> = [Option<&'a [u8]>; 5];

    fn raw(values: &[Option<&[u8]>]) -> RecordBatch {
        let offsets = Int64Array::from_iter_values(100..100 + values.len() as i64);
        let values = BinaryArray::from_iter(values.iter().copied());
        RecordBatch::try_from_iter_with_nullable(vec![
            ("value", Arc::new(values) as ArrayRef, true),
            ("offset", Arc::new(offsets) as _, false),
        ])
        .unwrap()
    }

    fn decoder() -> Decoder {
        let columns = [
            column("offset", DataType::Int64, true, Some("offset")),
            column("id", DataType::Int64, false, None),
            column("userName", DataType::Utf8, true, None),
        ];
        Decoder::json("stream 's'", &columns, &raw(&[]).schema(), TimestampUnit::Seconds).unwrap()
    }

    fn ids(rows: &RecordBatch) -> Vec<i64> {
        rows.column(1).as_primitive::<Int64Type>().values().to_vec()
    }

    #[test]
    fn fields_and_metadata_become_columns() {
        let values: [Option<&[u8]>; 3] = [
            Some(b"{\"id\": 7, \"other\": [1]}"),
            Some(b"{\"userName\":true,\"id\":8}\n"),
            Some(b" {\"id\":\"9\"}"),
        ];
        let decoded = decoder().decode(raw(&values)).unwrap();
        assert!(decoded.malformed.is_empty() && decoded.indices.is_none());
        assert_eq!(ids(&decoded.rows), [7, 8, 9]);
        let names = decoded.rows.column(2).as_string::<i32>();
        assert!(names.is_null(0) && names.value(1) == "true");
        assert_eq!(decoded.rows.column(0).as_primitive::<Int64Type>().values().to_vec(), [100, 101, 102]);
    }

    #[test]
    fn each_malformed_record_is_found_and_the_others_are_read() {
        let values: [Option<&[u8]>; 11] = [
            Some(b"{\"id\":1}"),
            Some(b"{\"id\":2"),
            Some(b"}"),
            Some(b"{\"id\":3}{\"id\":4}"),
            Some(b""),
            None,
            Some(b"{\"id\":null}"),
            Some(b"{\"id\":\"x\"}"),
            Some(b"[1]"),
            Some(b"\xff\xfe"),
            Some(b"{\"id\":5}"),
        ];
        let decoded = decoder().decode(raw(&values)).unwrap();
        assert_eq!(ids(&decoded.rows), [1, 5]);
        assert_eq!(decoded.indices, Some(vec![0, 10]));
        let rows: Vec<usize> = decoded.malformed.iter().map(|malformed| malformed.row).collect();
        assert_eq!(rows, (1..10).collect::<Vec<_>>(), "{:?}", decoded.malformed);
    }

    #[test]
    fn two_objects_in_one_record_do_not_make_up_for_none_in_another() {
        let values: [Option<&[u8]>; 2] = [Some(b"{\"id\":3}{\"id\":4}"), Some(b" ")];
        let decoded = decoder().decode(raw(&values)).unwrap();
        assert_eq!((decoded.rows.num_rows(), decoded.malformed.len()), (0, 2), "{:?}", decoded.malformed);
    }

    #[test]
    fn malformed_csv_goes_the_way_of_json() {
        let columns = [
            column("offset", DataType::Int64, true, Some("offset")),
            column("id", DataType::Int64, false, None),
            column("userName", DataType::Utf8, true, None),
        ];
        let mut options = crate::plan::OptionMap::new("stream 's'", []).unwrap();
        let dialect = CsvDialect::of_stream(&mut options).unwrap();
        let decoder = Decoder::csv("stream 's'", &columns, &raw(&[]).schema(), dialect).unwrap();
        let values: [Option<&[u8]>; 5] =
            [Some(b"1,a"), Some(b"x,b"), None, Some(b"{\"id\":3}"), Some(b"4,\"d\"")];
        let decoded = decoder.decode(raw(&values)).unwrap();
        assert_eq!((ids(&decoded.rows), decoded.indices), (vec![1, 4], Some(vec![0, 4])));
        assert_eq!(decoded.rows.column(0).as_primitive::<Int64Type>().values().to_vec(), [100, 104]);
        let rows: Vec<usize> = decoded.malformed.iter().map(|malformed| malformed.row).collect();
        assert_eq!(rows, [1, 2, 3], "{:?}", decoded.malformed);
    }

    #[test]
    fn records_without_a_value_are_what_the_stream_says() {
        let columns = [
            column("offset", DataType::Int64, true, Some("offset")),
            column("id", DataType::Int64, true, None),
            column("userName", DataType::Utf8, true, None),
        ];
        let decode = |decoder: Decoder, tombstones, values: &[Option<&[u8]>]| {
            decoder.with_tombstones(tombstones).decode(raw(values)).unwrap()
        };
        let offsets = |decoded: &Decoded| {
            decoded.rows.column(0).as_primitive::<Int64Type>().values().iter().copied().collect::<Vec<_>>()
        };
        let rows =
            |decoded: &Decoded| decoded.malformed.iter().map(|malformed| malformed.row).collect::<Vec<_>>();
        let schema = raw(&[]).schema();
        let json = || Decoder::json("stream 's'", &columns, &schema, TimestampUnit::Seconds).unwrap();
        let mut options = OptionMap::new("stream 's'", []).unwrap();
        let dialect = CsvDialect::of_stream(&mut options).unwrap();
        let csv = || Decoder::csv("stream 's'", &columns, &schema, dialect.clone()).unwrap();
        let both: [(&dyn Fn() -> Decoder, Values<'_>); 2] = [
            (&json, [None, Some(b"{\"id\":1}"), None, Some(b"x"), Some(b"{\"id\":2}")]),
            (&csv, [None, Some(b"1,a"), None, Some(b"x,y"), Some(b"2,b")]),
        ];
        for (decoder, values) in both {
            let found = decode(decoder(), Tombstones::Malformed, &values);
            assert_eq!((offsets(&found), rows(&found)), (vec![101, 104], vec![0, 2, 3]));
            let found = decode(decoder(), Tombstones::Skipped, &values);
            assert_eq!((offsets(&found), rows(&found)), (vec![101, 104], vec![3]));
            assert_eq!((ids(&found.rows), found.indices), (vec![1, 2], Some(vec![1, 4])));
            let found = decode(decoder(), Tombstones::Skipped, &values[..3]);
            assert_eq!((offsets(&found), found.indices), (vec![101], Some(vec![1])));
            let found = decode(decoder(), Tombstones::Null, &values);
            assert_eq!((offsets(&found), rows(&found)), (vec![100, 101, 102, 104], vec![3]));
            assert_eq!(found.rows.column(1).null_count(), 2);
        }
        let null = decode(super::tests::decoder(), Tombstones::Null, &[None, Some(b"{\"id\":1}")]);
        assert_eq!((offsets(&null), rows(&null)), (vec![101], vec![0]), "NOT NULL stays so");
    }

    #[test]
    fn columns_that_the_connector_does_not_have_are_refused() {
        let columns =
            [column("a", DataType::Int64, true, Some("offst")), column("b", DataType::Int64, true, None)];
        let error =
            Decoder::json("stream 's'", &columns, &raw(&[]).schema(), TimestampUnit::Seconds).unwrap_err();
        assert_eq!(error.to_string(), "stream 's': column 'a': there is no metadata 'offst'");
        assert!(
            Decoder::json("stream 's'", &columns[..0], &raw(&[]).schema(), TimestampUnit::Seconds).is_err()
        );
    }
}
