use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options, concat_batches};
use arrow::datatypes::{FieldRef, SchemaRef};
use arrow::error::ArrowError;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::format::{CsvDialect, JsonReader, TimestampUnit};
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::plan::{TableDefinition, type_name};
use crate::state::MemoryShare;

/// Rows of a file, as they are read.
type Batches<'a> = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + 'a>;

/// A table at rest: a file, or the files of a directory, which are read when a query starts.
#[derive(Debug)]
pub struct TableConnector {
    owner: String,
    path: PathBuf,
    format: TableFormat,
    schema: SchemaRef,
}

#[derive(Debug)]
enum TableFormat {
    Parquet,
    Json(JsonReader),
    Csv { dialect: CsvDialect, has_header: bool },
}

impl TableConnector {
    /// Checks a table; nothing is read.
    ///
    /// # Errors
    /// `Invalid` for an option that is missing, wrong or not honoured, and for columns that the format does not have.
    pub fn new(table: &TableDefinition) -> Result<Self> {
        let mut options = table.options.clone();
        let owner = options.owner().to_owned();
        match options.require("connector")?.as_str() {
            "filesystem" => {}
            other => return Err(options.wrong("connector", other, "filesystem")),
        }
        let given = options.require("path")?;
        let path = given.strip_prefix("file://").unwrap_or(&given);
        if path.is_empty() || path.contains("://") {
            return Err(options.wrong("path", &given, "a local file or directory"));
        }
        let (path, schema) = (PathBuf::from(path), table.schema());
        let format = match options.require("format")?.as_str() {
            "parquet" => TableFormat::Parquet,
            "json" => {
                let unit = TimestampUnit::take(&mut options)?;
                TableFormat::Json(JsonReader::new(SchemaRef::clone(&schema), unit))
            }
            "csv" => {
                CsvDialect::check(&owner, &schema)?;
                let dialect = CsvDialect::of_stream(&mut options)?;
                TableFormat::Csv { dialect, has_header: options.take_bool("header", false)? }
            }
            other => return Err(options.wrong("format", other, "parquet, csv or json")),
        };
        options.finish()?;
        Ok(Self { owner, path, format, schema })
    }

    /// Description of the table.
    pub fn description(&self) -> String {
        format!("filesystem [{}]", self.path.display())
    }

    /// Reads all rows, which grow into this memory as they come.
    ///
    /// # Errors
    /// `Invalid` for a file that is none of the table's rows; `ResourceExhausted` if they do not fit; as the file system reports.
    pub fn read(&self, memory: &MemoryShare) -> Result<RecordBatch> {
        let (mut parts, mut bytes) = (Vec::new(), 0);
        for path in self.files()? {
            let file = File::open(&path).map_err(|error| self.unreadable(&path, error))?;
            let batches: Result<Batches<'_>, ArrowError> = match &self.format {
                TableFormat::Parquet => self.parquet(file),
                TableFormat::Json(reader) => {
                    reader.file_reader(BufReader::new(file)).map(|rows| Box::new(rows) as _)
                }
                TableFormat::Csv { dialect, has_header } => dialect
                    .file_reader(SchemaRef::clone(&self.schema), *has_header, file)
                    .map(|reader| Box::new(reader) as _),
            };
            for batch in batches.map_err(|error| self.malformed(&path, error))? {
                let batch = batch.map_err(|error| self.malformed(&path, error))?;
                memory.grow(batch.get_array_memory_size())?;
                bytes += batch.get_array_memory_size();
                parts.push(batch);
            }
        }
        // Both are there until they are one.
        memory.grow(bytes)?;
        concat_batches(&self.schema, &parts).map_err(|error| self.malformed(&self.path, error))
    }

    /// The table's files: those of a directory in the order of their names, without those whose names begin with `_` or `.`.
    fn files(&self) -> Result<Vec<PathBuf>> {
        if !self.path.is_dir() {
            return Ok(vec![self.path.clone()]);
        }
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(|error| self.unreadable(&self.path, error))? {
            let path = entry.map_err(|error| self.unreadable(&self.path, error))?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if path.is_file() && !name.starts_with(['_', '.']) {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    /// Rows of a Parquet file: its columns by their names, cast to the table's types without loss.
    fn parquet(&self, file: File) -> Result<Batches<'_>, ArrowError> {
        let reader = ParquetRecordBatchReaderBuilder::try_new(file)?.build()?;
        let column = move |rows: &RecordBatch, field: &FieldRef| -> Result<ArrayRef, ArrowError> {
            let found = rows
                .column_by_name(field.name())
                .ok_or_else(|| ArrowError::SchemaError(format!("it has no column '{}'", field.name())))?;
            let options = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(found, field.data_type(), &options).map_err(|error| {
                let text = format!("its column '{}' is no {}", field.name(), type_name(field.data_type()));
                ArrowError::CastError(format!("{text}: {error}"))
            })
        };
        let batch = move |rows: Result<RecordBatch, ArrowError>| {
            let rows = rows?;
            let columns: Result<Vec<_>, _> =
                self.schema.fields().iter().map(|field| column(&rows, field)).collect();
            RecordBatch::try_new(Arc::clone(&self.schema), columns?)
        };
        Ok(Box::new(reader.map(batch)))
    }

    fn unreadable(&self, path: &Path, error: std::io::Error) -> Error {
        let text = format!("{}: cannot read '{}'", self.owner, path.display());
        Error::new(ErrorKind::of_io(&error), text).with_source(error)
    }

    fn malformed(&self, path: &Path, error: ArrowError) -> Error {
        invalid(format!("{}: '{}' has no rows of its columns", self.owner, path.display())).with_source(error)
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;
    use yeoul_base::ByteSize;

    use super::*;
    use crate::plan::{OptionMap, StreamColumn};

    #[test]
    fn a_table_that_does_not_fit_is_refused_while_it_is_read() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("names.csv");
        std::fs::write(&path, "1\n2\n").unwrap();
        let path = path.display().to_string();
        let options = [("connector", "filesystem"), ("path", &path), ("format", "csv")];
        let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let column =
            StreamColumn { name: "a".into(), data_type: DataType::Int64, is_nullable: true, metadata: None };
        let options = OptionMap::new("table 't'", options).unwrap();
        let table = TableDefinition { name: "t".into(), columns: vec![column], options };
        let table = TableConnector::new(&table).unwrap();
        assert_eq!(table.read(&MemoryShare::default()).unwrap().num_rows(), 2);
        // The process alone has more than a byte.
        let share = MemoryShare::below(ByteSize::from_bytes(1)).unwrap();
        assert_eq!(table.read(&share).unwrap_err().kind(), ErrorKind::ResourceExhausted);
    }
}
