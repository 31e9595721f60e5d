//! The crate's public error, the one of all servers; here is what this crate's own errors become in it.

use std::io;
use std::path::Path;

pub use yeoul_base::{Error, ErrorKind as Kind, Result};

/// The error that a directory given with `--dir` cannot be used for `purpose`, such as batches.
pub(crate) fn unusable_directory(path: &Path, purpose: &str, error: io::Error) -> Error {
    let is_other = path.exists() && !path.is_dir();
    let why = if is_other { "it is not a directory".to_owned() } else { error.to_string() };
    Error::new(Kind::of_io(&error), format!("cannot use '{}' for {purpose}: {why}", path.display()))
        .with_hint("--dir names a directory that may be written, and that is made if need be")
}

impl From<crate::wire::DecodeError> for Error {
    fn from(error: crate::wire::DecodeError) -> Self {
        Self::new(Kind::Corrupt, error.to_string()).with_source(error)
    }
}

impl From<crate::ids::ParseIdError> for Error {
    fn from(error: crate::ids::ParseIdError) -> Self {
        Self::new(Kind::Invalid, error.to_string()).with_source(error)
    }
}
