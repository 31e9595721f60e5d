use std::io;
use std::path::{Path, PathBuf};

use yeoul_base::{Error, ErrorKind};

/// What a file system refused, and on which file. Its text is `<path>: <cause>`.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct Failure {
    /// The file or folder.
    pub path: PathBuf,
    /// What was tried.
    pub step: Step,
    /// What the file system said.
    pub source: io::Error,
}

/// What was tried when a file system refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A sync of a file or folder. It is never retried: what the disk has is unknown from here on.
    Sync,
    /// Anything else, which may be tried again.
    Other,
}

impl Failure {
    /// A failed sync.
    pub fn of_sync(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { path: path.to_owned(), step: Step::Sync, source }
    }

    /// Another failed step.
    pub fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { path: path.to_owned(), step: Step::Other, source }
    }

    /// Whether a sync failed.
    pub fn is_of_sync(&self) -> bool {
        self.step == Step::Sync
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::new(ErrorKind::of_io(&failure.source), failure.to_string()).with_source(failure.source)
    }
}

/// The error that a folder given with `--dir` cannot be used for `purpose`, such as "batches".
///
/// Its text says why, so that it names no cause: "File exists" below "it is not a directory" would only confuse.
pub fn unusable_folder(folder: &Path, purpose: &str, error: io::Error) -> Error {
    let is_other = folder.exists() && !folder.is_dir();
    let why = if is_other { "it is not a directory".to_owned() } else { error.to_string() };
    Error::new(ErrorKind::of_io(&error), format!("cannot use '{}' for {purpose}: {why}", folder.display()))
        .with_hint("--dir names a directory that may be written, and that is made if need be")
}
