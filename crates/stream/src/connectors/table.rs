use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options, concat_batches};
use arrow::datatypes::{FieldRef, SchemaRef};
use arrow::error::ArrowError;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::format::CsvDialect;
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::plan::{TableDefinition, type_name};

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
    Json,
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
            "json" => TableFormat::Json,
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

    /// Reads all rows.
    ///
    /// # Errors
    /// `Invalid` for a file that is none of the table's rows; as the file system reports.
    pub fn read(&self) -> Result<RecordBatch> {
        let mut parts = Vec::new();
        for path in self.files()? {
            let file = File::open(&path).map_err(|error| self.unreadable(&path, error))?;
            let read = match &self.format {
                TableFormat::Parquet => self.parquet(file),
                TableFormat::Json => self.json(file),
                TableFormat::Csv { dialect, has_header } => dialect
                    .file_reader(SchemaRef::clone(&self.schema), *has_header, file)
                    .and_then(|reader| reader.collect()),
            };
            parts.extend(read.map_err(|error| self.malformed(&path, error))?);
        }
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

    fn json(&self, file: File) -> Result<Vec<RecordBatch>, ArrowError> {
        let builder = arrow::json::ReaderBuilder::new(SchemaRef::clone(&self.schema));
        builder.with_coerce_primitive(true).build(BufReader::new(file))?.collect()
    }

    /// Rows of a Parquet file: its columns by their names, cast to the table's types without loss.
    fn parquet(&self, file: File) -> Result<Vec<RecordBatch>, ArrowError> {
        let reader = ParquetRecordBatchReaderBuilder::try_new(file)?.build()?;
        let column = |rows: &RecordBatch, field: &FieldRef| -> Result<ArrayRef, ArrowError> {
            let found = rows
                .column_by_name(field.name())
                .ok_or_else(|| ArrowError::SchemaError(format!("it has no column '{}'", field.name())))?;
            let options = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(found, field.data_type(), &options).map_err(|error| {
                let text = format!("its column '{}' is no {}", field.name(), type_name(field.data_type()));
                ArrowError::CastError(format!("{text}: {error}"))
            })
        };
        let batch = |rows: Result<RecordBatch, ArrowError>| {
            let rows = rows?;
            let columns: Result<Vec<_>, _> =
                self.schema.fields().iter().map(|field| column(&rows, field)).collect();
            RecordBatch::try_new(Arc::clone(&self.schema), columns?)
        };
        reader.map(batch).collect()
    }

    fn unreadable(&self, path: &Path, error: std::io::Error) -> Error {
        let text = format!("{}: cannot read '{}'", self.owner, path.display());
        Error::new(ErrorKind::of_io(&error), text).with_source(error)
    }

    fn malformed(&self, path: &Path, error: ArrowError) -> Error {
        invalid(format!("{}: '{}' has no rows of its columns", self.owner, path.display())).with_source(error)
    }
}
