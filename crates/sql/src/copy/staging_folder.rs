use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use yeoul_disk::OwnedFolder;

/// Prefix of staging folders. Names that begin with a dot are never read as data.
const PREFIX: &str = ".yeoul-copy-";
/// Subfolder for what is written, and for temporary files of its writer. Only its owner may enter it: the file that is
/// replaced may be private.
const DATA: &str = "data";

/// A hidden folder in which an output is written. It is removed when this is dropped, or after a crash when the next one is
/// created in the same parent.
#[derive(Debug)]
pub(crate) struct StagingFolder(OwnedFolder);

impl StagingFolder {
    /// Creates one in `parent`, and removes those whose processes have ended.
    ///
    /// # Errors
    /// If `parent` cannot be written.
    pub(crate) fn create(parent: &Path) -> io::Result<Self> {
        let folder = OwnedFolder::create(parent, PREFIX).map_err(without_path)?;
        DirBuilder::new().mode(0o700).create(folder.path().join(DATA))?;
        Ok(Self(folder))
    }

    /// Where to write.
    pub(crate) fn data(&self) -> PathBuf {
        self.0.path().join(DATA)
    }

    /// Removes what was written, and what stopped writers still write for a moment.
    pub(crate) fn give_up(&self) {
        self.0.empty();
    }
}

/// An error of tempfile without the temporary name, which means nothing to the user.
fn without_path(error: io::Error) -> io::Error {
    match error.to_string().split_once(" at path ") {
        Some((cause, _)) => io::Error::new(error.kind(), cause.to_owned()),
        None => error,
    }
}
