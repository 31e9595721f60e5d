//! The local side of a copy.

use std::fs::{self, File, FileTimes, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::NamedTempFile;

use crate::client::Status;
use crate::error::{Error, Kind, Result};

/// The error for a local path.
pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.display().to_string();
    move |error| Error::new(Kind::of_io(&error), format!("{path}: {error}")).with_source(error)
}

/// Milliseconds since 1970; 0 for what was before.
pub(super) fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The entries of a local directory, by name.
pub(super) fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).map_err(at(directory))?;
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.map_err(at(directory))?;
    paths.sort();
    Ok(paths)
}

/// The name of a local file as the file system takes it.
pub(super) fn name_of(path: &Path) -> Result<&str> {
    let invalid = || Error::new(Kind::Invalid, format!("{}: its name is no UTF-8", path.display()));
    match path.file_name() {
        Some(name) => name.to_str().ok_or_else(invalid),
        None => Err(Error::new(Kind::Invalid, format!("{}: it has no name of its own", path.display()))),
    }
}

/// The place of an entry in a local directory. The name is a server's, and may be no way out of the directory.
pub(super) fn entry(directory: &Path, name: &str) -> Result<PathBuf> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(part)), None) => Ok(directory.join(part)),
        _ => Err(Error::new(Kind::Corrupt, format!("'{name:.100}' is no name of a file"))),
    }
}

/// A local file that appears under its name when it is complete.
pub(super) struct LocalFile {
    target: PathBuf,
    file: NamedTempFile,
}

impl LocalFile {
    /// Begins a file beside its place.
    pub fn begin(target: &Path) -> Result<Self> {
        let folder = match target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".yeoul-").suffix("._COPYING_").permissions(Permissions::from_mode(0o666));
        let file = builder.tempfile_in(folder).map_err(at(target))?;
        Ok(Self { target: target.to_owned(), file })
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(at(&self.target))
    }

    /// Gives the file its name, and the times and the mode of `like`.
    pub fn place(self, may_replace: bool, like: Option<&Status>) -> Result<()> {
        let Self { target, file } = self;
        if let Some(status) = like {
            let file: &File = file.as_file();
            let time = |ms| UNIX_EPOCH + Duration::from_millis(ms);
            let times = FileTimes::new()
                .set_modified(time(status.modified_ms))
                .set_accessed(time(status.accessed_ms));
            file.set_times(times).map_err(at(&target))?;
            file.set_permissions(Permissions::from_mode(status.mode.into())).map_err(at(&target))?;
        }
        let placed = match may_replace {
            true => file.persist(&target),
            false => file.persist_noclobber(&target),
        };
        placed.map(drop).map_err(|failed| at(&target)(failed.error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_out_of_no_directory() {
        let directory = Path::new("/tmp/x");
        assert_eq!(entry(directory, "a b").unwrap(), Path::new("/tmp/x/a b"));
        for name in ["..", ".", "", "a/b", "/etc", "../y"] {
            assert_eq!(entry(directory, name).unwrap_err().kind(), Kind::Corrupt, "{name}");
        }
    }

    #[test]
    fn a_file_is_there_when_it_is_complete_and_replaces_only_if_told_so() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("a");
        let mut begun = LocalFile::begin(&target).unwrap();
        begun.write(b"half").unwrap();
        drop(begun);
        assert_eq!(
            entries(dir.path()).unwrap(),
            Vec::<PathBuf>::new(),
            "nothing is left of one that was given up"
        );
        let write = |bytes: &[u8], may_replace| {
            let mut file = LocalFile::begin(&target).unwrap();
            file.write(bytes).unwrap();
            file.place(may_replace, None)
        };
        write(b"one", false).unwrap();
        assert!(write(b"two", false).is_err());
        assert_eq!(fs::read(&target).unwrap(), b"one");
        write(b"two", true).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"two");
        assert_eq!(entries(dir.path()).unwrap(), [target]);
    }
}
