//! Facts that files say of themselves, as tables: `glob('*.csv')`, `parquet_schema('f.parquet')` and their like of DuckDB.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, BooleanArray, Int64Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use object_store::ObjectMeta;
use parquet::basic::ConvertedType;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::statistics::Statistics;
use parquet::schema::types::Type;
use yeoul_base::ErrorKind;
use yeoul_dialect::FileCall;

use super::listing::Listing;
use super::parquet_file::footer;
use crate::Error;

/// A call of a function that tells of files. Each scan lists them anew.
#[derive(Debug)]
pub(super) struct FileFacts {
    facts: &'static Facts,
    paths: Vec<String>,
    schema: SchemaRef,
}

/// Facts of files that a function tells.
#[derive(Debug)]
struct Facts {
    function: &'static str,
    columns: &'static [(&'static str, DataType)],
    of: Of,
}

/// Adds the rows that tell of one file.
#[derive(Clone, Copy, Debug)]
enum Of {
    Path(fn(&str) -> Row),
    Parquet(fn(&str, &ObjectMeta, &ParquetMetaData) -> Vec<Row>),
}

type Row = Vec<Cell>;

/// A value.
#[derive(Clone, Debug)]
enum Cell {
    Text(Option<String>),
    Whole(Option<i64>),
    Truth(Option<bool>),
}

const TEXT: DataType = DataType::Utf8;
const WHOLE: DataType = DataType::Int64;
const TRUTH: DataType = DataType::Boolean;

static FACTS: [Facts; 5] = [
    Facts { function: "glob", columns: &[("file", TEXT)], of: Of::Path(|path| vec![text(path)]) },
    Facts {
        function: "parquet_schema",
        columns: &[
            ("file_name", TEXT),
            ("name", TEXT),
            ("type", TEXT),
            ("type_length", TEXT),
            ("repetition_type", TEXT),
            ("num_children", WHOLE),
            ("converted_type", TEXT),
            ("scale", WHOLE),
            ("precision", WHOLE),
            ("field_id", WHOLE),
            ("logical_type", TEXT),
        ],
        of: Of::Parquet(|path, _, footer| {
            let mut rows = Vec::new();
            add_columns(path, footer.file_metadata().schema(), true, &mut rows);
            rows
        }),
    },
    Facts {
        function: "parquet_metadata",
        columns: &[
            ("file_name", TEXT),
            ("row_group_id", WHOLE),
            ("row_group_num_rows", WHOLE),
            ("row_group_num_columns", WHOLE),
            ("row_group_bytes", WHOLE),
            ("column_id", WHOLE),
            ("num_values", WHOLE),
            ("path_in_schema", TEXT),
            ("type", TEXT),
            ("stats_null_count", WHOLE),
            ("stats_distinct_count", WHOLE),
            ("stats_min_value", TEXT),
            ("stats_max_value", TEXT),
            ("compression", TEXT),
            ("encodings", TEXT),
            ("dictionary_page_offset", WHOLE),
            ("data_page_offset", WHOLE),
            ("total_compressed_size", WHOLE),
            ("total_uncompressed_size", WHOLE),
            ("bloom_filter_offset", WHOLE),
            ("bloom_filter_length", WHOLE),
            ("min_is_exact", TRUTH),
            ("max_is_exact", TRUTH),
        ],
        of: Of::Parquet(chunks),
    },
    Facts {
        function: "parquet_file_metadata",
        columns: &[
            ("file_name", TEXT),
            ("created_by", TEXT),
            ("num_rows", WHOLE),
            ("num_row_groups", WHOLE),
            ("format_version", WHOLE),
            ("file_size_bytes", WHOLE),
        ],
        of: Of::Parquet(|path, file, footer| {
            let told = footer.file_metadata();
            vec![vec![
                text(path),
                Cell::Text(told.created_by().map(ToOwned::to_owned)),
                whole(told.num_rows()),
                count(footer.num_row_groups() as u64),
                whole(i64::from(told.version())),
                count(file.size),
            ]]
        }),
    },
    Facts {
        function: "parquet_kv_metadata",
        columns: &[("file_name", TEXT), ("key", TEXT), ("value", TEXT)],
        of: Of::Parquet(|path, _, footer| {
            let notes = footer.file_metadata().key_value_metadata().into_iter().flatten();
            notes.map(|note| vec![text(path), text(&note.key), Cell::Text(note.value.clone())]).collect()
        }),
    },
];

fn text(value: &str) -> Cell {
    Cell::Text(Some(value.to_owned()))
}

fn whole(value: i64) -> Cell {
    Cell::Whole(Some(value))
}

/// A number; null if it has no room.
fn count(value: u64) -> Cell {
    Cell::Whole(i64::try_from(value).ok())
}

/// The rows of a column and of those within it.
fn add_columns(path: &str, column: &Type, is_root: bool, rows: &mut Vec<Row>) {
    let told = column.get_basic_info();
    let (mut physical, mut length, mut scale, mut precision) = (None, None, None, None);
    if let Type::PrimitiveType { physical_type, type_length, scale: digits, precision: all, .. } = column {
        physical = Some(physical_type.to_string());
        length = (*type_length > 0).then(|| type_length.to_string());
        let is_decimal = told.converted_type() == ConvertedType::DECIMAL;
        (scale, precision) =
            (is_decimal.then_some(i64::from(*digits)), is_decimal.then_some(i64::from(*all)));
    }
    let converted = told.converted_type();
    rows.push(vec![
        text(path),
        text(column.name()),
        Cell::Text(physical),
        Cell::Text(length),
        text(&if is_root { "REQUIRED".to_owned() } else { told.repetition().to_string() }),
        Cell::Whole(column.is_group().then(|| i64::try_from(column.get_fields().len()).ok()).flatten()),
        Cell::Text((converted != ConvertedType::NONE).then(|| converted.to_string())),
        Cell::Whole(scale),
        Cell::Whole(precision),
        Cell::Whole(told.has_id().then(|| i64::from(told.id()))),
        Cell::Text(told.logical_type_ref().map(|logical| format!("{logical:?}"))),
    ]);
    if column.is_group() {
        for within in column.get_fields() {
            add_columns(path, within, false, rows);
        }
    }
}

/// A row for each column of each row group.
fn chunks(path: &str, _: &ObjectMeta, footer: &ParquetMetaData) -> Vec<Row> {
    let mut rows = Vec::new();
    for (group_id, group) in footer.row_groups().iter().enumerate() {
        for (column_id, chunk) in group.columns().iter().enumerate() {
            let place = vec![
                text(path),
                count(group_id as u64),
                whole(group.num_rows()),
                count(group.num_columns() as u64),
                whole(group.total_byte_size()),
                count(column_id as u64),
            ];
            rows.push([place, of_chunk(chunk)].concat());
        }
    }
    rows
}

fn of_chunk(chunk: &ColumnChunkMetaData) -> Row {
    let statistics = chunk.statistics();
    let distinct = statistics.and_then(Statistics::distinct_count_opt);
    let nulls = statistics.and_then(Statistics::null_count_opt);
    let (least, greatest) = statistics.map(bounds).unwrap_or_default();
    let is_exact = |has_bound: bool, is_exact: fn(&Statistics) -> bool| {
        Cell::Truth(statistics.filter(|_| has_bound).map(is_exact))
    };
    let (has_least, has_greatest) = (least.is_some(), greatest.is_some());
    let encodings: Vec<String> = chunk.encodings().map(|encoding| encoding.to_string()).collect();
    vec![
        whole(chunk.num_values()),
        text(&chunk.column_path().parts().join(", ")),
        text(&chunk.column_type().to_string()),
        nulls.map_or(Cell::Whole(None), count),
        distinct.map_or(Cell::Whole(None), count),
        Cell::Text(least),
        Cell::Text(greatest),
        text(&chunk.compression().to_string()),
        text(&encodings.join(", ")),
        Cell::Whole(chunk.dictionary_page_offset()),
        whole(chunk.data_page_offset()),
        whole(chunk.compressed_size()),
        whole(chunk.uncompressed_size()),
        Cell::Whole(chunk.bloom_filter_offset()),
        Cell::Whole(chunk.bloom_filter_length().map(i64::from)),
        is_exact(has_least, Statistics::min_is_exact),
        is_exact(has_greatest, Statistics::max_is_exact),
    ]
}

/// The least and the greatest value as the file holds them: numbers, texts, and other bytes in hexadecimal digits.
fn bounds(statistics: &Statistics) -> (Option<String>, Option<String>) {
    fn both<T>(
        least: Option<&T>,
        greatest: Option<&T>,
        show: impl Fn(&T) -> String,
    ) -> (Option<String>, Option<String>) {
        (least.map(&show), greatest.map(&show))
    }
    let bytes = |bytes: &[u8]| match str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
    };
    match statistics {
        Statistics::Boolean(of) => both(of.min_opt(), of.max_opt(), ToString::to_string),
        Statistics::Int32(of) => both(of.min_opt(), of.max_opt(), ToString::to_string),
        Statistics::Int64(of) => both(of.min_opt(), of.max_opt(), ToString::to_string),
        Statistics::Int96(of) => both(of.min_opt(), of.max_opt(), ToString::to_string),
        Statistics::Float(of) => both(of.min_opt(), of.max_opt(), ToString::to_string),
        Statistics::Double(of) => both(of.min_opt(), of.max_opt(), ToString::to_string),
        Statistics::ByteArray(of) => both(of.min_opt(), of.max_opt(), |value| bytes(value.data())),
        Statistics::FixedLenByteArray(of) => both(of.min_opt(), of.max_opt(), |value| bytes(value.data())),
    }
}

impl FileFacts {
    /// The table of a call; `None` for a function that reads files.
    ///
    /// # Errors
    /// `Invalid` for an option, of which such functions have none.
    pub(super) fn of(call: &FileCall) -> Result<Option<Self>, Error> {
        let Some(facts) = FACTS.iter().find(|facts| facts.function == call.function) else { return Ok(None) };
        if let Some((option, _)) = call.options.first() {
            let what = format!("not supported: the option '{option}' of {}", call.function);
            return Err(Error::new(ErrorKind::Invalid, what).with_hint("it has none"));
        }
        let fields: Vec<Field> =
            facts.columns.iter().map(|(name, of)| Field::new(*name, of.clone(), true)).collect();
        Ok(Some(Self { facts, paths: call.paths.clone(), schema: Arc::new(Schema::new(fields)) }))
    }

    async fn rows(&self, state: &SessionState) -> Result<Vec<Row>> {
        let listing = match Listing::of(&self.paths, state).await {
            // A pattern may match nothing.
            Err(error) if matches!(self.facts.of, Of::Path(_)) => {
                let error = Error::from(error);
                return if error.kind() == ErrorKind::NotFound { Ok(Vec::new()) } else { Err(error.into()) };
            }
            listing => listing?,
        };
        let store = state.runtime_env().object_store(listing.url())?;
        let mut rows = Vec::new();
        for (file, path) in listing.paths() {
            match self.facts.of {
                Of::Path(row) => rows.push(row(&path)),
                Of::Parquet(of_file) => {
                    let footer = footer(state, &store, &file).await?;
                    rows.extend(of_file(&path, &file, &footer));
                }
            }
        }
        Ok(rows)
    }

    fn batch(&self, rows: &[Row]) -> Result<RecordBatch> {
        let column = |(at, field): (usize, &Arc<Field>)| -> ArrayRef {
            let cells = rows.iter().map(|row| row[at].clone());
            match field.data_type() {
                DataType::Int64 => Arc::new(cells.map(Cell::whole).collect::<Int64Array>()),
                DataType::Boolean => Arc::new(cells.map(Cell::truth).collect::<BooleanArray>()),
                _ => Arc::new(cells.map(Cell::text).collect::<StringArray>()),
            }
        };
        let columns = self.schema.fields().iter().enumerate().map(column).collect();
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

impl Cell {
    fn text(self) -> Option<String> {
        if let Self::Text(value) = self { value } else { None }
    }

    fn whole(self) -> Option<i64> {
        if let Self::Whole(value) = self { value } else { None }
    }

    fn truth(self) -> Option<bool> {
        if let Self::Truth(value) = self { value } else { None }
    }
}

#[async_trait]
impl TableProvider for FileFacts {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let state = state.as_any().downcast_ref::<SessionState>().ok_or_else(|| {
            Error::new(ErrorKind::Internal, "files are listed in a session of their own only")
        })?;
        let batch = self.batch(&self.rows(state).await?)?;
        Ok(MemorySourceConfig::try_new_exec(&[vec![batch]], self.schema(), projection.cloned())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_has_columns_of_its_own() {
        for facts in &FACTS {
            let call = FileCall {
                function: facts.function.to_owned(),
                paths: vec!["f".to_owned()],
                options: Vec::new(),
            };
            let told = FileFacts::of(&call).unwrap().unwrap();
            assert_eq!(told.schema.fields().len(), facts.columns.len());
            assert_eq!(told.batch(&[]).unwrap().num_rows(), 0, "{}", facts.function);
        }
    }
}
