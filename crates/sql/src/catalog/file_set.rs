use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::listing::{ListingTableUrl, PartitionedFile};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::SessionState;
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore};
use yeoul_base::ErrorKind;
use yeoul_dialect::{FileCall, type_name};

use super::arrow_file::ArrowFile;
use super::csv_columns::{self, numbered_name};
use super::csv_sample;
use super::file_function::FileFunction;
use super::files::{
    COMPARED_FILES_MAX, Kind, TAB, called_kind, check_compression, check_sizes, common_kind, shown,
    unreadable,
};
use super::folder_keys::{scalar, text_type, type_of};
use super::json_objects::has_lines;
use super::listing::{Listing, Placed};
use super::merged_columns::MergedColumns;
use super::own_format::OwnFormat;
use super::text_scan::TextReading;
use crate::Error;

/// How many files' headers are read at a time.
const HEADERS_AT_ONCE: usize = 16;

/// Prefix for a file's column whose name a folder also has. No real column begins with it.
const HIDDEN: char = '\0';

/// What a name stands for at one moment: files listed once, and checked to form one table.
#[derive(Debug)]
pub(super) struct FileSet {
    pub(super) url: ListingTableUrl,
    pub(super) format: Arc<dyn FileFormat>,
    /// The columns of the files, in file order: CSV and Arrow columns are matched by position.
    columns: SchemaRef,
    /// Ways to read text, beside the options of the format.
    pub(super) reading: TextReading,
    /// The names of the folders' columns (keys), and behind them that of the files' paths.
    keys: Vec<String>,
    /// True if the last of the keys has the paths of the files.
    has_paths: bool,
    /// The files that are not empty, each with its values of the keys.
    files: Vec<Placed>,
    /// Whether a file that `INSERT` adds would fit in.
    takes_more: bool,
}

impl FileSet {
    /// Lists what `name` stands for now, and checks that it can be read as one table.
    ///
    /// # Errors
    /// `NotFound` if there is no file; `Invalid` or `Corrupt`, naming the files, if they do not form one table; the store's
    /// own.
    pub(super) async fn find(name: &str, state: &SessionState) -> Result<Self> {
        let call = FileCall::of_name(name);
        let asked = call.as_ref().map(FileFunction::of).transpose()?.unwrap_or_default();
        let paths = call.map_or_else(|| vec![name.to_owned()], |call| call.paths);
        let listing = Listing::of(&paths, state).await?;
        let (name, files) = (listing.name.as_str(), listing.files());
        let (kind, compression) = match asked.format {
            Some(format) => called_kind(name, format, asked.compression, &files)?,
            None => common_kind(name, &files)?,
        };
        check_sizes(name, kind, asked.format.is_some(), &files)?;
        check_compression(name, listing.url().get_url(), compression)?;
        let mut keys = if asked.reads_keys { listing.keys()? } else { Vec::new() };
        let files = listing.placed(asked.reads_keys, asked.file_column.is_some());
        // An empty file has neither columns nor rows.
        let told: Vec<ObjectMeta> = files.iter().map(|(file, _)| file.clone()).collect();
        let store = state.runtime_env().object_store(listing.url())?;
        let Read { format, reading, columns, is_plain } =
            Table { name, state, store: &store, files: &told, asked: &asked }.read(kind, compression).await?;
        // INSERT writes `<random>.<the format's extension>`, uncompressed, into the folder itself or into folders of the
        // keys below it.
        let takes_more = is_plain
            && compression.is_none()
            && asked.format.is_none()
            && listing.url().get_glob().is_none()
            && !keys.iter().any(|key| columns.index_of(key).is_ok());
        if let Some(column) = &asked.file_column {
            check_file_column(column, &keys, &columns)?;
            keys.push(column.clone());
        }
        let has_paths = asked.file_column.is_some();
        Ok(Self { url: listing.url().clone(), format, reading, columns, keys, has_paths, files, takes_more })
    }

    /// The folders' columns. Their values may be null, in this statement or the next.
    pub(super) fn keys(&self) -> Fields {
        let key = |(at, key): (usize, &String)| {
            let values = self.files.iter().filter_map(|(_, values)| values.get(at)?.as_deref());
            let is_path = self.has_paths && at + 1 == self.keys.len();
            Field::new(key, if is_path { text_type() } else { type_of(values) }, true)
        };
        self.keys.iter().enumerate().map(key).collect()
    }

    /// The columns of the files, without those that folders have as well: the folder's value counts.
    pub(super) fn columns(&self) -> Schema {
        let fields = self.columns.fields().iter().filter(|field| !self.keys.contains(field.name())).cloned();
        Schema::new_with_metadata(fields.collect::<Fields>(), self.columns.metadata().clone())
    }

    /// How a scan reads the files for a table whose columns may have been inferred from other files: first the columns of
    /// the files, in their order, then the keys.
    ///
    /// # Errors
    /// `Invalid` if the files no longer have such columns.
    pub(super) fn scanned(&self, name: &str, columns: &[FieldRef], keys: &Fields) -> Result<TableSchema> {
        let changed = |what| Err(changed(name, what));
        if !keys.iter().map(|key| key.name()).eq(&self.keys) {
            let told: Vec<&str> = keys.iter().map(|key| key.name().as_str()).collect();
            let what =
                format!("their directories named [{}], and now [{}]", told.join(", "), self.keys.join(", "));
            return changed(what);
        }
        for told in columns {
            let column = told.name();
            let Some((_, now)) =
                self.columns.column_with_name(column).filter(|_| !self.keys.contains(column))
            else {
                return changed(format!("there is no column '{column}' any more"));
            };
            if !is_read_as(now.data_type(), told.data_type()) {
                let (was, is) = (type_name(told.data_type()), type_name(now.data_type()));
                return changed(format!("column '{column}' was {was} and is {is}"));
            }
            if now.is_nullable() && !told.is_nullable() {
                return changed(format!("column '{column}' may be null now"));
            }
        }
        let field = |field: &FieldRef| {
            if self.keys.contains(field.name()) {
                return Arc::new(field.as_ref().clone().with_name(format!("{HIDDEN}{}", field.name())));
            }
            let told = columns.iter().find(|told| told.name() == field.name());
            Arc::clone(told.unwrap_or(field))
        };
        let fields: Fields = self.columns.fields().iter().map(field).collect();
        let scanned = Schema::new_with_metadata(fields, self.columns.metadata().clone());
        Ok(TableSchema::builder(Arc::new(scanned)).with_table_partition_cols(keys.clone()).build())
    }

    /// The files, with their values of `keys` as the types of `keys`.
    ///
    /// # Errors
    /// `Invalid` if a value does not fit the type that was inferred from earlier ones.
    pub(super) fn files(&self, name: &str, keys: &Fields) -> Result<Vec<PartitionedFile>> {
        let file = |(file, values): &Placed| {
            let value = |(key, value): (&FieldRef, &Option<String>)| {
                scalar(value.as_deref(), key.data_type()).ok_or_else(|| {
                    let (key, value) = (key.name(), value.as_deref().unwrap_or_default());
                    changed(
                        name,
                        format!(
                            "'{key}' was a whole number in each directory, and now there is {key}={value}"
                        ),
                    )
                })
            };
            let values = keys.iter().zip(values).map(value).collect::<Result<Vec<_>>>()?;
            Ok(PartitionedFile::new_from_meta(file.clone()).with_partition_values(values))
        };
        self.files.iter().map(file).collect()
    }

    /// Refuses an `INSERT` whose files would not be read back as written.
    ///
    /// # Errors
    /// `Invalid` if the name is that of a file, or the files are named by a glob, are compressed, have an extension of their
    /// own (`.tsv`), or repeat the folders' columns.
    pub(super) fn check_insert(&self, name: &str) -> Result<()> {
        if self.url.get_glob().is_none() && !self.url.is_collection() {
            let what = format!("INSERT adds a file to a directory, and '{name}' is a file");
            let error = Error::new(ErrorKind::Invalid, what);
            return Err(error.with_hint("name its directory; one in a store ends with '/'").into());
        }
        if self.takes_more {
            return Ok(());
        }
        let what = format!("a file that INSERT puts into '{name}' would be unlike those that are there");
        Err(Error::new(ErrorKind::Invalid, what).with_hint("write it to its directory with COPY … TO").into())
    }
}

/// Refuses a column of paths whose name another column has.
fn check_file_column(column: &str, keys: &[String], columns: &Schema) -> Result<()> {
    if columns.index_of(column).is_err() && !keys.iter().any(|key| key == column) {
        return Ok(());
    }
    let error = Error::new(ErrorKind::Invalid, format!("the files have a column '{column}' of their own"));
    Err(error.with_hint("give that of the paths another name: filename = 'path'").into())
}

/// Files that are to be read as one table.
struct Table<'a> {
    name: &'a str,
    state: &'a SessionState,
    store: &'a Arc<dyn ObjectStore>,
    files: &'a [ObjectMeta],
    asked: &'a FileFunction,
}

/// The call that reads them.
struct Read {
    format: Arc<dyn FileFormat>,
    reading: TextReading,
    columns: SchemaRef,
    /// True if a file that we write is read alike.
    is_plain: bool,
}

impl Table<'_> {
    async fn read(&self, kind: &Kind, compression: Option<&str>) -> Result<Read> {
        let mut options: HashMap<String, String> =
            kind.options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        if let Some(compression) = compression {
            options.insert("format.compression".to_owned(), compression.to_owned());
        }
        if let Some(records) = self.asked.sampled_records {
            options.insert("format.schema_infer_max_rec".to_owned(), records.to_string());
        }
        let compression = compression.map_or(Ok(FileCompressionType::UNCOMPRESSED), str::parse)?;
        match kind.format {
            "csv" => self.read_csv(kind, compression, options).await,
            "json" => self.read_json(kind, compression, &options).await,
            _ => {
                let format = self.format(kind, &options)?;
                let columns = match (self.asked.unites_columns, kind.format) {
                    (true, "parquet") => self.united(&format).await?,
                    _ => self.inferred(&format).await?,
                };
                check_headers(self, &format, 0).await?;
                Ok(Read { format, reading: TextReading::default(), columns, is_plain: true })
            }
        }
    }

    async fn read_csv(
        &self,
        kind: &Kind,
        compression: FileCompressionType,
        mut options: HashMap<String, String>,
    ) -> Result<Read> {
        let Some(file) = self.files.first() else {
            let format = self.format(kind, &options)?;
            let columns = self.inferred(&format).await?;
            return Ok(Read {
                format,
                reading: TextReading::default(),
                columns,
                is_plain: kind.options.is_empty(),
            });
        };
        let mut known = self.asked.csv;
        if kind.options.contains(&TAB) {
            known.delimiter = known.delimiter.or(Some(b'\t'));
        }
        if !self.state.config_options().catalog.has_header {
            known.has_header = known.has_header.or(Some(false));
        }
        let sniffed = csv_sample::sniffed(self.store, file, compression, known).await?;
        options.extend(csv_sample::options(sniffed).into_iter().map(|(key, value)| (key.to_owned(), value)));
        options.extend(self.asked.null_regex().map(|nulls| ("format.null_regex".to_owned(), nulls)));
        if known.pads {
            options.insert("format.truncated_rows".to_owned(), "true".to_owned());
        }
        let format = self.format(kind, &options)?;
        let Some(OwnFormat(csv, _)) = format.downcast_ref::<OwnFormat<CsvFormat>>() else {
            let error = Error::new(ErrorKind::Internal, "CSV files have another format");
            return Err(error.into());
        };
        let skipped_lines = sniffed.skipped_lines;
        let columns = match csv_columns::infer(csv, skipped_lines, self.state, self.store, self.files).await {
            Ok(columns) => columns,
            Err(error) => return Err(explain_schema(self, &format, error).await),
        };
        check_headers(self, &format, skipped_lines).await?;
        let columns = if sniffed.has_header { columns } else { with_numbered_names(&columns) };
        let columns = self.asked.applied(columns, self.state)?;
        let reading = TextReading { skipped_lines, is_whole: false };
        Ok(Read { format, reading, columns, is_plain: sniffed.is_plain() })
    }

    async fn read_json(
        &self,
        kind: &Kind,
        compression: FileCompressionType,
        options: &HashMap<String, String>,
    ) -> Result<Read> {
        let format = self.format(kind, options)?;
        let columns = match self.asked.columns(self.state)? {
            Some(columns) => columns,
            None => self.inferred(&format).await?,
        };
        // Smaller files are not read in parts.
        let parted = self.state.config_options().optimizer.repartition_file_min_size as u64;
        let mut is_whole = false;
        for file in self.files.iter().filter(|file| file.size >= parted) {
            is_whole = is_whole || !has_lines(self.store.as_ref(), file, compression).await?;
        }
        Ok(Read { format, reading: TextReading { skipped_lines: 0, is_whole }, columns, is_plain: true })
    }

    fn format(&self, kind: &Kind, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        let factory = self.state.get_file_format_factory(kind.format).ok_or_else(|| {
            let what = format!("the format {} is not built in", kind.format);
            DataFusionError::from(Error::new(ErrorKind::Internal, what))
        })?;
        factory.create(self.state, options)
    }

    async fn inferred(&self, format: &Arc<dyn FileFormat>) -> Result<SchemaRef> {
        match format.infer_schema(self.state, self.store, self.files).await {
            Ok(columns) => Ok(columns),
            Err(error) => Err(explain_schema(self, format, error).await),
        }
    }

    /// The columns of all files, of which none has to have all.
    async fn united(&self, format: &Arc<dyn FileFormat>) -> Result<SchemaRef> {
        let read = |file: ObjectMeta| async move {
            let columns = format.infer_schema(self.state, self.store, std::slice::from_ref(&file)).await?;
            Ok::<_, DataFusionError>((file, columns))
        };
        let mut read = futures::stream::iter(self.files.to_vec()).map(read).buffered(HEADERS_AT_ONCE);
        let mut columns = MergedColumns::default();
        while let Some((file, of_file)) = read.try_next().await? {
            columns.add(file.location.as_ref(), of_file.as_ref().clone())?;
        }
        Ok(Arc::new(columns.united()))
    }
}

/// The error of a view or prepared statement whose columns the files no longer have.
fn changed(name: &str, what: String) -> DataFusionError {
    let what = format!("the files of '{name}' have changed since their columns were read: {what}");
    Error::new(ErrorKind::Invalid, what).with_hint("create the view, or prepare the statement, anew").into()
}

/// Whether a column that is now of type `now` can be read as `told`; settings may have changed in between.
fn is_read_as(now: &DataType, told: &DataType) -> bool {
    let plain = |data_type: &DataType| match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        other => other.clone(),
    };
    plain(now) == plain(told)
}

/// The columns of CSV files without a header.
fn with_numbered_names(columns: &Schema) -> SchemaRef {
    let count = columns.fields().len();
    let field = |(at, field): (usize, &FieldRef)| {
        Arc::new(field.as_ref().clone().with_name(numbered_name(at, count)))
    };
    let fields: Fields = columns.fields().iter().enumerate().map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, columns.metadata().clone()))
}

/// The schemas of several files did not merge: names two files that differ, and how, if the error does not.
async fn explain_schema(
    table: &Table<'_>,
    format: &Arc<dyn FileFormat>,
    error: DataFusionError,
) -> DataFusionError {
    let Table { name, state, store, files, .. } = *table;
    if matches!(&error, DataFusionError::External(own) if own.is::<Error>()) {
        return error;
    }
    match differing_files(state, store, files, format).await {
        Ok(Some(difference)) => {
            Error::new(ErrorKind::Invalid, format!("the files of '{name}' do not fit together: {difference}"))
                .with_hint("read them apart, or name those that belong together with a glob")
                .with_source(error)
                .into()
        }
        // A file that cannot be read at all is the better explanation.
        Err(of_one_file) => of_one_file,
        Ok(None) => error,
    }
}

async fn differing_files(
    state: &SessionState,
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
    format: &Arc<dyn FileFormat>,
) -> Result<Option<String>> {
    let mut first: Option<(String, Arc<Schema>)> = None;
    for file in files.iter().take(COMPARED_FILES_MAX) {
        let location = file.location.to_string();
        let schema = match format.infer_schema(state, store, std::slice::from_ref(file)).await {
            Ok(schema) => schema,
            Err(error) => return Err(unreadable(file, error).into()),
        };
        let Some((first_location, first_schema)) = &first else {
            first = Some((location, schema));
            continue;
        };
        for field in schema.fields() {
            let Ok(other) = first_schema.field_with_name(field.name()) else { continue };
            if other.data_type() != field.data_type() {
                return Ok(Some(format!(
                    "column '{}' is {} in '{}' and {} in '{}'",
                    field.name(),
                    type_name(other.data_type()),
                    shown(first_location),
                    type_name(field.data_type()),
                    shown(&location),
                )));
            }
        }
    }
    Ok(None)
}

/// Refuses CSV and Arrow files with different columns or column orders: their values are matched by position, whatever the
/// names.
async fn check_headers(table: &Table<'_>, format: &Arc<dyn FileFormat>, skipped_lines: usize) -> Result<()> {
    let Table { name, state, store, files, .. } = *table;
    let csv = format.downcast_ref::<OwnFormat<CsvFormat>>();
    let has_header = |csv: &CsvFormat| csv.has_header().unwrap_or(state.config_options().catalog.has_header);
    let header = match csv {
        Some(OwnFormat(csv, _)) if has_header(csv) => {
            // With no records, only the header is read.
            Some(CsvFormat::default().with_options(csv.options().clone()).with_schema_infer_max_rec(0))
        }
        None if format.downcast_ref::<ArrowFile>().is_some() => None,
        _ => return Ok(()),
    };
    if files.len() < 2 {
        return Ok(());
    }
    let read = |file: ObjectMeta| {
        let header = &header;
        async move {
            let of_file = std::slice::from_ref(&file);
            let read = match header {
                Some(header) => csv_columns::infer(header, skipped_lines, state, store, of_file).await?,
                None => format.infer_schema(state, store, of_file).await?,
            };
            Ok::<_, DataFusionError>((file, read))
        }
    };
    let mut headers = futures::stream::iter(files.to_vec()).map(read).buffered(HEADERS_AT_ONCE);
    let mut first: Option<(ObjectMeta, Arc<Schema>)> = None;
    while let Some((file, header)) = headers.try_next().await? {
        // A file of empty lines has no header and no rows.
        if header.fields().is_empty() {
            continue;
        }
        let Some((first_file, first_header)) = &first else {
            first = Some((file, header));
            continue;
        };
        if let Some(difference) = header_difference(first_header, &header) {
            let what = format!(
                "the files of '{name}' have different headers: {difference}, in '{}' and '{}'",
                shown(first_file.location.as_ref()),
                shown(file.location.as_ref()),
            );
            return Err(Error::new(ErrorKind::Invalid, what)
                .with_hint("read them apart, and put them together with UNION ALL BY NAME")
                .into());
        }
    }
    Ok(())
}

/// The first difference of two headers, as part of a sentence.
fn header_difference(one: &Schema, other: &Schema) -> Option<String> {
    let mut pairs = one.fields().iter().zip(other.fields()).enumerate();
    if let Some((index, (one, other))) = pairs.find(|(_, (one, other))| one.name() != other.name()) {
        return Some(format!("column {} is '{}' and '{}'", index + 1, one.name(), other.name()));
    }
    let (one, other) = (one.fields().len(), other.fields().len());
    (one != other).then(|| format!("there are {one} and {other} columns"))
}
