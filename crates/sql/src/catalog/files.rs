use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::catalog::{TableProvider, UrlTableFactory};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig};
use datafusion::execution::SessionState;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore};
use url::Url;
use yeoul_base::ErrorKind;

use super::address::{address, has_glob};
use super::selection::Selection;
use crate::{Error, null_keys, suggest};

/// What a file's name says about its format.
struct Kind {
    /// The extension, without the dot and without that of a compression.
    extension: &'static str,
    /// The name of DataFusion's file format.
    format: &'static str,
    /// Options of that format.
    options: &'static [(&'static str, &'static str)],
}

const KINDS: [Kind; 9] = [
    Kind { extension: "parquet", format: "parquet", options: &[] },
    Kind { extension: "parq", format: "parquet", options: &[] },
    Kind { extension: "csv", format: "csv", options: &[] },
    Kind { extension: "tsv", format: "csv", options: &[("format.delimiter", "\t")] },
    Kind { extension: "json", format: "json", options: &[] },
    Kind { extension: "jsonl", format: "json", options: &[] },
    Kind { extension: "ndjson", format: "json", options: &[] },
    Kind { extension: "arrow", format: "arrow", options: &[] },
    Kind { extension: "ipc", format: "arrow", options: &[] },
];

/// Extension of a compressed file, and DataFusion's name of the compression. Only CSV and JSON have them outside.
const COMPRESSIONS: [(&str, &str); 6] =
    [("gz", "gzip"), ("bz2", "bzip2"), ("xz", "xz"), ("zst", "zstd"), ("gzip", "gzip"), ("zstd", "zstd")];

/// The most files whose schemas are compared one by one to name the two that do not fit together.
const COMPARED_FILES_MAX: usize = 1000;

/// How many files' headers are read at a time.
const HEADERS_AT_ONCE: usize = 16;

/// Makes tables of the files, globs, directories and addresses that stand where a query has a table's name.
#[derive(Default)]
pub(crate) struct FileTables {
    /// The state of the session that is served, as long as it lives.
    state: OnceLock<StateOfSession>,
}

type StateOfSession = Box<dyn Fn() -> Option<SessionState> + Send + Sync>;

impl fmt::Debug for FileTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileTables")
    }
}

impl FileTables {
    /// Tells it the session that it serves, which exists only after it.
    pub(crate) fn serve(&self, context: &SessionContext) {
        let state = context.state_weak_ref();
        let read: StateOfSession = Box::new(move || state.upgrade().map(|state| state.read().clone()));
        // The first session stays: a session makes its own factory.
        drop(self.state.set(read));
    }

    fn state(&self) -> Result<SessionState> {
        let state = self.state.get().and_then(|read| read());
        state.ok_or_else(|| Error::new(ErrorKind::Internal, "the session has ended").into())
    }
}

#[async_trait]
impl UrlTableFactory for FileTables {
    async fn try_new(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !looks_like_a_file(name) {
            return Ok(None);
        }
        check_local(name)?;
        let state = self.state()?;
        let url = address(name)?;
        let store = state.runtime_env().object_store(&url)?;
        let address = url.get_url().clone();
        let selection = Selection::list(name, url, store.as_ref()).await?;
        let files = &selection.files;
        let (kind, compression) = common_kind(name, files)?;
        check_sizes(name, kind, files)?;
        check_compression(name, &address, compression)?;
        let keys = selection.keys(name)?;
        let first = files.iter().map(|file| file.location.as_ref()).find(|path| kind_of(path).is_some());
        let extension = extension(first.unwrap_or_default(), compression.is_some());
        let (urls, extension) = selection.addresses(name, extension)?;
        let options = listing_options(&state, kind, compression)?.with_file_extension(extension);
        // An empty file tells no columns.
        let told: Vec<ObjectMeta> = files.iter().filter(|file| file.size > 0).cloned().collect();
        let schema = match options.format.infer_schema(&state, &store, &told).await {
            Ok(schema) => schema,
            Err(error) => return Err(explain_schema(name, &state, &store, &told, &options, error).await),
        };
        check_headers(name, &state, &store, &told, &options).await?;
        let columns = keys.iter().map(|key| (key.clone(), key_type())).collect();
        let config = ListingTableConfig::new_with_multi_paths(urls)
            .with_listing_options(options.with_table_partition_cols(columns));
        let table = Arc::new(ListingTable::try_new(config.with_schema(schema))?);
        if selection.has_folder_value(null_keys::FOLDER_VALUE) {
            return null_keys::read(table, &keys).map(Some);
        }
        Ok(Some(table))
    }
}

/// The type of a column that folders name, as DataFusion infers it: text, of which a file has one.
fn key_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8))
}

/// Whether a name in the place of a table's can only mean a file: an address, a path, a glob, or a known extension.
fn looks_like_a_file(name: &str) -> bool {
    name.contains("://")
        || name.contains('/')
        || has_glob(name)
        || kind_of(name).is_some()
        || Path::new(name).is_dir()
}

fn kind_of(name: &str) -> Option<(&'static Kind, Option<&'static str>)> {
    let (stem, extension) = name.rsplit_once('.')?;
    let extension = extension.to_ascii_lowercase();
    if let Some(kind) = KINDS.iter().find(|kind| kind.extension == extension) {
        return Some((kind, None));
    }
    let (_, compression) = COMPRESSIONS.iter().find(|(known, _)| *known == extension)?;
    let inner = stem.rsplit_once('.')?.1.to_ascii_lowercase();
    let kind = KINDS.iter().find(|kind| kind.extension == inner && matches!(kind.format, "csv" | "json"))?;
    Some((kind, Some(compression)))
}

/// Refuses a local path that is not there or not readable, and suggests what is there.
fn check_local(name: &str) -> Result<(), Error> {
    if name.contains("://") || has_glob(name) {
        return Ok(());
    }
    let path = PathBuf::from(name);
    match std::fs::metadata(&path) {
        Ok(meta) if meta.is_dir() => std::fs::read_dir(&path).map(drop),
        Ok(_) => std::fs::File::open(&path).map(drop),
        Err(error) => Err(error),
    }
    .map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => missing(name, &path),
        std::io::ErrorKind::PermissionDenied => {
            Error::new(ErrorKind::Denied, format!("no permission to read '{name}'")).with_source(source)
        }
        _ => {
            Error::new(ErrorKind::Unavailable, format!("cannot read '{name}': {source}")).with_source(source)
        }
    })
}

fn missing(name: &str, path: &Path) -> Error {
    let error = Error::new(ErrorKind::NotFound, format!("there is no file '{name}'"));
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let Ok(entries) = std::fs::read_dir(parent) else {
        return error.with_hint(format!("there is no directory '{}' either", parent.display()));
    };
    let beside: Vec<String> = entries
        .flatten()
        .take(COMPARED_FILES_MAX)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    let wanted = path.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
    match suggest::nearest(&wanted, &beside) {
        Some(near) => error.with_hint(format!("did you mean '{}'?", path.with_file_name(near).display())),
        None => error,
    }
}

fn unknown_format(name: &str) -> Error {
    let known: Vec<String> = KINDS.iter().map(|kind| format!(".{}", kind.extension)).collect();
    Error::new(ErrorKind::Invalid, format!("cannot tell the format of '{name}' from its name")).with_hint(format!(
        "known are {} (CSV and JSON also as .gz, .bz2, .xz, .zst); otherwise CREATE EXTERNAL TABLE … STORED AS CSV LOCATION '…'",
        known.join(", ")
    ))
}

/// What all the files are, which one scan reads in one way.
///
/// # Errors
/// `Invalid` when two differ, or the name of one tells nothing: a scan would leave it out.
fn common_kind(name: &str, files: &[ObjectMeta]) -> Result<(&'static Kind, Option<&'static str>), Error> {
    let mut first: Option<(&str, &'static Kind, Option<&'static str>)> = None;
    for file in files {
        let location = file.location.as_ref();
        let Some((kind, compression)) = kind_of(location) else {
            // Some stores keep an empty file in place of a folder.
            if file.size == 0 && files.len() > 1 {
                continue;
            }
            let what = if files.len() == 1 { name } else { shown(location) };
            return Err(unknown_format(what));
        };
        let (first_location, first_kind, first_compression) =
            *first.get_or_insert((location, kind, compression));
        let fits = (first_kind.format, first_kind.options) == (kind.format, kind.options);
        if !fits || first_compression != compression {
            let what = format!(
                "the files of '{name}' are of different kinds: '{}' and '{}'",
                shown(first_location),
                shown(location)
            );
            return Err(Error::new(ErrorKind::Invalid, what).with_hint(
                "read them apart, or name those that belong together with a glob such as '*.csv'",
            ));
        }
    }
    first.map(|(_, kind, compression)| (kind, compression)).ok_or_else(|| unknown_format(name))
}

/// Refuses files without a byte where the format has none such: a scan would leave them out.
fn check_sizes(name: &str, kind: &Kind, files: &[ObjectMeta]) -> Result<(), Error> {
    if !matches!(kind.format, "parquet" | "arrow") {
        return Ok(());
    }
    let is_empty = |file: &&ObjectMeta| file.size == 0 && kind_of(file.location.as_ref()).is_some();
    let Some(empty) = files.iter().find(is_empty) else { return Ok(()) };
    let what = if files.len() == 1 {
        format!("'{name}'")
    } else {
        format!("'{}', one of the files of '{name}',", shown(empty.location.as_ref()))
    };
    let what = format!("{what} is empty, which no {} file is", kind.format);
    Err(Error::new(ErrorKind::Corrupt, what).with_hint("it may have been truncated"))
}

/// Refuses what would be read up to the end of its first stream: DataFusion decodes these as one stream when they come
/// from a store, and tools such as `pbzip2`, `xz -T` and `cat` make files of several.
fn check_compression(name: &str, address: &Url, compression: Option<&str>) -> Result<(), Error> {
    let Some(compression) = compression.filter(|compression| *compression != "gzip") else { return Ok(()) };
    if address.scheme() == "file" {
        return Ok(());
    }
    let what = format!("'{name}' is compressed with {compression}, which is read from the local disk only");
    Err(Error::new(ErrorKind::Invalid, what).with_hint("copy it here first, or compress it with gzip"))
}

fn listing_options(state: &SessionState, kind: &Kind, compression: Option<&str>) -> Result<ListingOptions> {
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
    let format: Arc<dyn FileFormat> = factory.create(state, &options)?;
    Ok(ListingOptions::new(format))
}

/// The extension with its dot in the file's own spelling, `.CSV` or `.csv.gz`.
fn extension(name: &str, compressed: bool) -> &str {
    &name[name.len() - extension_chars(name, compressed)..]
}

/// The length of the extension with its dot, `.csv` or `.csv.gz`. All known extensions are ASCII.
fn extension_chars(name: &str, compressed: bool) -> usize {
    let dots = if compressed { 2 } else { 1 };
    name.rmatch_indices('.').nth(dots - 1).map_or(0, |(at, _)| name.len() - at)
}

/// The schemas of several files did not merge: names two of them that differ, and in what.
async fn explain_schema(
    name: &str,
    state: &SessionState,
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
    options: &ListingOptions,
    error: DataFusionError,
) -> DataFusionError {
    match differing_files(state, store, files, options).await {
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
    options: &ListingOptions,
) -> Result<Option<String>> {
    let mut first: Option<(String, Arc<Schema>)> = None;
    for file in files.iter().take(COMPARED_FILES_MAX) {
        let location = file.location.to_string();
        let schema = match options.format.infer_schema(state, store, std::slice::from_ref(file)).await {
            Ok(schema) => schema,
            Err(error) => {
                let error = Error::from(error);
                let kind = error.kind();
                let explained = Error::new(kind, format!("cannot read '{}': {error}", shown(&location)));
                return Err(explained.with_source(error).into());
            }
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

/// Refuses CSV files whose headers differ. Their values are read by position, whatever the header of their file says.
async fn check_headers(
    name: &str,
    state: &SessionState,
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
    options: &ListingOptions,
) -> Result<()> {
    let Some(csv) = options.format.downcast_ref::<CsvFormat>() else { return Ok(()) };
    if files.len() < 2 || !csv.has_header().unwrap_or(state.config_options().catalog.has_header) {
        return Ok(());
    }
    // Of no record, only the header is read.
    let header = CsvFormat::default().with_options(csv.options().clone()).with_schema_infer_max_rec(0);
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

/// The first difference of two headers, as a part of a sentence.
fn header_difference(one: &Schema, other: &Schema) -> Option<String> {
    let mut pairs = one.fields().iter().zip(other.fields()).enumerate();
    if let Some((index, (one, other))) = pairs.find(|(_, (one, other))| one.name() != other.name()) {
        return Some(format!("column {} is '{}' and '{}'", index + 1, one.name(), other.name()));
    }
    let (one, other) = (one.fields().len(), other.fields().len());
    (one != other).then(|| format!("there are {one} and {other} columns"))
}

/// The last part of a location, which tells files of one directory apart.
fn shown(location: &str) -> &str {
    location.rsplit('/').next().unwrap_or(location)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_format_and_compression() {
        let told = |name: &str| kind_of(name).map(|(kind, compression)| (kind.format, compression));
        assert_eq!(told("a.parquet"), Some(("parquet", None)));
        assert_eq!(told("dir/A.CSV"), Some(("csv", None)));
        assert_eq!(told("a.csv.gz"), Some(("csv", Some("gzip"))));
        assert_eq!(told("a.jsonl.zst"), Some(("json", Some("zstd"))));
        assert_eq!(told("a.parquet.gz"), None);
        assert_eq!(told("orders"), None);
    }

    #[test]
    fn a_plain_word_is_a_table() {
        assert!(!looks_like_a_file("orders"));
        assert!(looks_like_a_file("orders.csv"));
        assert!(looks_like_a_file("dir/orders"));
        assert!(looks_like_a_file("s3://bucket/x"));
        assert!(looks_like_a_file("*.parquet"));
    }

    #[test]
    fn only_gzip_is_decompressed_from_a_store() {
        let check = |address: &str, compression| {
            check_compression(address, &Url::parse(address).unwrap(), compression)
                .map_err(|error| error.kind())
        };
        for compression in ["bzip2", "xz", "zstd"] {
            assert_eq!(check("s3://bucket/a.csv", Some(compression)), Err(ErrorKind::Invalid));
            assert_eq!(check("file:///a.csv", Some(compression)), Ok(()));
        }
        assert_eq!(check("s3://bucket/a.csv", Some("gzip")), Ok(()));
        assert_eq!(check("s3://bucket/a.csv", None), Ok(()));
    }

    #[test]
    fn the_extension_keeps_its_spelling() {
        assert_eq!(extension_chars("x/a.b.CSV.gz", true), 7);
        assert_eq!(extension_chars("x/a.b.CSV", false), 4);
    }
}
