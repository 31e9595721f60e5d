use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::owned_folder::OwnedFolder;

/// What the names of staging folders begin with. Names with a dot are read by nobody as data.
const PREFIX: &str = ".yeoul-copy-";
/// The folder of what is written, and of what its writer keeps beside an unfinished file. Only its owner enters it: what grows
/// there may replace a file that is nobody else's business.
const DATA: &str = "data";

/// A hidden folder in which an output grows. It goes with the value, and after a crash with the next one made beside it.
#[derive(Debug)]
pub(crate) struct StagingFolder(OwnedFolder);

impl StagingFolder {
    /// Makes one in `parent`, and removes those there whose processes are gone.
    ///
    /// # Errors
    /// When `parent` cannot be written.
    pub(crate) fn create(parent: &Path) -> io::Result<Self> {
        let folder = OwnedFolder::create(parent, PREFIX).map_err(without_path)?;
        DirBuilder::new().mode(0o700).create(folder.path().join(DATA))?;
        Ok(Self(folder))
    }

    /// Where to write.
    pub(crate) fn data(&self) -> PathBuf {
        self.0.path().join(DATA)
    }

    /// Removes what was written, also what writers that were stopped still write for a moment.
    pub(crate) fn give_up(&self) {
        self.0.empty();
    }
}

/// An error of tempfile's without the temporary name, which tells the reader nothing.
fn without_path(error: io::Error) -> io::Error {
    match error.to_string().split_once(" at path ") {
        Some((cause, _)) => io::Error::new(error.kind(), cause.to_owned()),
        None => error,
    }
}
