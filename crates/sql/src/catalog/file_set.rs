use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::listing::{ListingTableUrl, PartitionedFile};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::SessionState;
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore};
use yeoul_base::ErrorKind;

use super::address::{address, at_home};
use super::arrow_file::ArrowFile;
use super::files::{
    COMPARED_FILES_MAX, Kind, check_compression, check_local, check_sizes, common_kind, shown, unreadable,
};
use super::folder_keys::{scalar, type_of};
use super::own_format::OwnFormat;
use super::selection::Selection;
use crate::Error;
use crate::copy::written_times::TimestampUnit;

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
    /// The names of the folders' columns (keys).
    keys: Vec<String>,
    /// The files that are not empty, each with its folders' values of the keys.
    files: Vec<(ObjectMeta, Vec<Option<String>>)>,
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
        let name = &*at_home(name);
        check_local(name)?;
        let url = address(name)?;
        let store = state.runtime_env().object_store(&url)?;
        let at = url.get_url().clone();
        let listed = Selection::list(name, url, store.as_ref()).await;
        let selection = listed.map_err(|error| Error::at(&at, error))?;
        let (kind, compression) = common_kind(name, &selection.files)?;
        check_sizes(name, kind, &selection.files)?;
        check_compression(name, &at, compression)?;
        let keys = selection.keys(name)?;
        let format = format_of(state, kind, compression)?;
        // An empty file has neither columns nor rows.
        let told: Vec<ObjectMeta> = selection.files.iter().filter(|file| file.size > 0).cloned().collect();
        let columns = match format.infer_schema(state, &store, &told).await {
            Ok(columns) => columns,
            Err(error) => return Err(explain_schema(name, state, &store, &told, &format, error).await),
        };
        check_headers(name, state, &store, &told, &format).await?;
        let columns = if kind.format == "csv" { with_parts_of_seconds(&columns) } else { columns };
        // INSERT writes `<random>.<the format's extension>`, uncompressed, into the folder itself or into folders of the
        // keys below it.
        let is_plain = compression.is_none() && kind.options.is_empty();
        let takes_more = is_plain
            && selection.url.get_glob().is_none()
            && !keys.iter().any(|key| columns.index_of(key).is_ok());
        let files = told.into_iter().map(|file| (selection.values(&file), file));
        let files = files.map(|(values, file)| (file, values)).collect();
        Ok(Self { url: selection.url, format, columns, keys, files, takes_more })
    }

    /// The folders' columns. Their values may be null, in this statement or the next.
    pub(super) fn keys(&self) -> Fields {
        let key = |(at, key): (usize, &String)| {
            let values = self.files.iter().filter_map(|(_, values)| values.get(at)?.as_deref());
            Field::new(key, type_of(values), true)
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
                return changed(format!(
                    "column '{column}' was {} and is {}",
                    told.data_type(),
                    now.data_type()
                ));
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
        let file = |(file, values): &(ObjectMeta, Vec<Option<String>>)| {
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

/// CSV columns with room for fractions of a second, which later rows may have although the first ones have none.
fn with_parts_of_seconds(columns: &Schema) -> SchemaRef {
    let field = |field: &FieldRef| match field.data_type() {
        DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, zone) => {
            let fine = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
            Arc::new(field.as_ref().clone().with_data_type(fine))
        }
        _ => Arc::clone(field),
    };
    let fields: Fields = columns.fields().iter().map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, columns.metadata().clone()))
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

fn format_of(state: &SessionState, kind: &Kind, compression: Option<&str>) -> Result<Arc<dyn FileFormat>> {
    let mut options: HashMap<String, String> =
        kind.options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    if let Some(compression) = compression {
        options.insert("format.compression".to_owned(), compression.to_owned());
    }
    let factory = state.get_file_format_factory(kind.format).ok_or_else(|| {
        DataFusionError::from(Error::new(
            ErrorKind::Internal,
            format!("the format {} is not built in", kind.format),
        ))
    })?;
    factory.create(state, &options)
}

/// The schemas of several files did not merge: names two files that differ, and how, if the error does not.
async fn explain_schema(
    name: &str,
    state: &SessionState,
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
    format: &Arc<dyn FileFormat>,
    error: DataFusionError,
) -> DataFusionError {
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
                    other.data_type(),
                    shown(first_location),
                    field.data_type(),
                    shown(&location),
                )));
            }
        }
    }
    Ok(None)
}

/// Refuses CSV and Arrow files with different columns or column orders: their values are matched by position, whatever the
/// names.
async fn check_headers(
    name: &str,
    state: &SessionState,
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
    format: &Arc<dyn FileFormat>,
) -> Result<()> {
    let header: Arc<dyn FileFormat> = match format.downcast_ref::<OwnFormat<CsvFormat>>() {
        Some(OwnFormat(csv, _)) if csv.has_header().unwrap_or(state.config_options().catalog.has_header) => {
            // With no records, only the header is read.
            let header = CsvFormat::default().with_options(csv.options().clone());
            Arc::new(OwnFormat(header.with_schema_infer_max_rec(0), TimestampUnit::default()))
        }
        None if format.downcast_ref::<ArrowFile>().is_some() => Arc::clone(format),
        _ => return Ok(()),
    };
    if files.len() < 2 {
        return Ok(());
    }
    let read = |file: ObjectMeta| {
        let header = &header;
        async move {
            header.infer_schema(state, store, std::slice::from_ref(&file)).await.map(|read| (file, read))
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
