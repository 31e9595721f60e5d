use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use datafusion::catalog::{TableProvider, UrlTableFactory};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::prelude::SessionContext;
use object_store::ObjectMeta;
use url::Url;
use yeoul_base::ErrorKind;
use yeoul_dialect::{FileCall, suggest};

use super::address::has_glob;
use super::file_facts::FileFacts;
use super::file_function::Compression;
use super::file_set::FileSet;
use super::file_table::{FileTable, Statements};
use crate::Error;

/// The format that a file name's extension stands for.
pub(super) struct Kind {
    /// The extension, without the dot and without a compression's extension.
    extension: &'static str,
    /// The name of DataFusion's file format.
    pub(super) format: &'static str,
    /// Options of that format.
    pub(super) options: &'static [(&'static str, &'static str)],
}

/// The option of files whose values are separated by tabs.
pub(super) const TAB: (&str, &str) = ("format.delimiter", "\t");

const KINDS: [Kind; 9] = [
    Kind { extension: "parquet", format: "parquet", options: &[] },
    Kind { extension: "parq", format: "parquet", options: &[] },
    Kind { extension: "csv", format: "csv", options: &[] },
    Kind { extension: "tsv", format: "csv", options: &[TAB] },
    Kind { extension: "json", format: "json", options: &[] },
    Kind { extension: "jsonl", format: "json", options: &[] },
    Kind { extension: "ndjson", format: "json", options: &[] },
    Kind { extension: "arrow", format: "arrow", options: &[] },
    Kind { extension: "ipc", format: "arrow", options: &[] },
];

/// Extensions of compressed files, and DataFusion's names for the compressions. Only CSV and JSON are compressed as whole
/// files.
pub(super) const COMPRESSIONS: [(&str, &str); 6] =
    [("gz", "gzip"), ("bz2", "bzip2"), ("xz", "xz"), ("zst", "zstd"), ("gzip", "gzip"), ("zstd", "zstd")];

/// The most files whose schemas are compared to name two that do not match.
pub(super) const COMPARED_FILES_MAX: usize = 1000;

/// Makes tables of the files, globs, directories and addresses that a query names in place of a table.
#[derive(Default)]
pub(crate) struct FileTables {
    /// The session's state, for as long as the session lives.
    state: OnceLock<StateOfSession>,
    statements: Arc<Statements>,
}

type StateOfSession = Box<dyn Fn() -> Option<SessionState> + Send + Sync>;

impl fmt::Debug for FileTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileTables")
    }
}

impl FileTables {
    /// Sets the session that it serves, which is created after it.
    pub(crate) fn serve(&self, context: &SessionContext) {
        let state = context.state_weak_ref();
        let read: StateOfSession = Box::new(move || state.upgrade().map(|state| state.read().clone()));
        // Only the first call counts: each session creates its own factory.
        drop(self.state.set(read));
    }

    /// Marks the start of the session's next statement, which lists anew.
    pub(crate) fn begin_statement(&self) {
        self.statements.begin();
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
        if let Some(call) = FileCall::of_name(name)
            && let Some(facts) = FileFacts::of(&call)?
        {
            return Ok(Some(Arc::new(facts)));
        }
        let statement = self.statements.latest();
        let found = FileSet::find(name, &self.state()?).await?;
        Ok(Some(Arc::new(FileTable::new(name, found, statement, Arc::clone(&self.statements)))))
    }
}

/// Whether a table name can only mean a file: an address, a path, a glob, or a known extension.
fn looks_like_a_file(name: &str) -> bool {
    FileCall::of_name(name).is_some()
        || name.contains("://")
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

/// Refuses a local path that does not exist or is not readable, and suggests one that exists.
pub(super) fn check_local(name: &str) -> Result<(), Error> {
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
        _ => Error::new(ErrorKind::of_io(&source), format!("cannot read '{name}': {source}"))
            .with_source(source),
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
        "known are {} (CSV and JSON also as .gz, .bz2, .xz, .zst); others are read by read_csv, read_json and read_parquet",
        known.join(", ")
    ))
}

/// The kind and compression that all files share, since one scan reads them in one way.
///
/// # Errors
/// `Invalid` if two differ, or if a name does not tell its format: a scan would skip that file.
pub(super) fn common_kind(
    name: &str,
    files: &[ObjectMeta],
) -> Result<(&'static Kind, Option<&'static str>), Error> {
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

/// The kind and compression of files that a function reads, whatever their names are.
///
/// # Errors
/// `Invalid` if the names of two tell different compressions, and none is said.
pub(super) fn called_kind(
    name: &str,
    format: &str,
    compression: Compression,
    files: &[ObjectMeta],
) -> Result<(&'static Kind, Option<&'static str>), Error> {
    let kind = KINDS.iter().find(|kind| kind.format == format);
    let kind = kind.ok_or_else(|| unknown_format(name))?;
    if let Compression::Said(compression) = compression {
        return Ok((kind, compression));
    }
    let compression_of = |file: &ObjectMeta| {
        let (_, extension) = file.location.as_ref().rsplit_once('.')?;
        let known = COMPRESSIONS.iter().find(|(known, _)| extension.eq_ignore_ascii_case(known));
        known.map(|(_, compression)| *compression).filter(|_| matches!(format, "csv" | "json"))
    };
    let mut compressions = files.iter().filter(|file| file.size > 0).map(compression_of);
    let first = compressions.next().flatten();
    if compressions.any(|other| other != first) {
        let what = format!("the files of '{name}' are compressed in different ways");
        return Err(Error::new(ErrorKind::Invalid, what).with_hint("read them apart"));
    }
    Ok((kind, first))
}

/// Refuses empty files of a format that has no empty files: a scan would skip them.
pub(super) fn check_sizes(
    name: &str,
    kind: &Kind,
    is_called: bool,
    files: &[ObjectMeta],
) -> Result<(), Error> {
    if !matches!(kind.format, "parquet" | "arrow") {
        return Ok(());
    }
    let is_empty =
        |file: &&ObjectMeta| file.size == 0 && (is_called || kind_of(file.location.as_ref()).is_some());
    let Some(empty) = files.iter().find(is_empty) else { return Ok(()) };
    let what = if files.len() == 1 {
        format!("'{name}'")
    } else {
        format!("'{}', one of the files of '{name}',", shown(empty.location.as_ref()))
    };
    let what = format!("{what} is empty, which no {} file is", kind.format);
    Err(Error::new(ErrorKind::Corrupt, what).with_hint("it may have been truncated"))
}

/// Refuses compressed files of which only the first stream would be read: from a store, DataFusion decodes a single stream,
/// while `pbzip2`, `xz -T` and `cat` write several.
pub(super) fn check_compression(name: &str, address: &Url, compression: Option<&str>) -> Result<(), Error> {
    let Some(compression) = compression.filter(|compression| *compression != "gzip") else { return Ok(()) };
    if address.scheme() == "file" {
        return Ok(());
    }
    let what = format!("'{name}' is compressed with {compression}, which is read from the local disk only");
    Err(Error::new(ErrorKind::Invalid, what).with_hint("copy it here first, or compress it with gzip"))
}

/// An error that names the one file of a table that it is about.
pub(super) fn unreadable(file: &ObjectMeta, error: DataFusionError) -> Error {
    let error = Error::from(error);
    let name = shown(file.location.as_ref());
    if error.to_string().contains(&format!("'{name}'")) {
        return error;
    }
    let (what, hint) = (format!("cannot read '{name}': {error}"), error.hint().map(ToOwned::to_owned));
    let explained = Error::new(error.kind(), what).with_source(error);
    match hint {
        Some(hint) => explained.with_hint(hint),
        None => explained,
    }
}

/// The last part of a location: it distinguishes the files of one directory.
pub(crate) fn shown(location: &str) -> &str {
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
}
