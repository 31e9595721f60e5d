//! The crate's public error: a [`Kind`] that tells the caller what to do, a message, a hint, and the causes.

use std::error::Error as StdError;
use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

pub use yeoul_base::ErrorKind as Kind;

/// The result of this crate's public operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, in lower case and without a full stop, with what was expected and found.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: Kind,
    message: String,
    hint: Option<String>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of a kind. The message names the thing, what was expected, and what was found.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), hint: None, source: None }))
    }

    /// The error that a directory given with `--dir` cannot be used for `purpose`, such as batches.
    pub(crate) fn unusable_directory(path: &Path, purpose: &str, error: io::Error) -> Self {
        let is_other = path.exists() && !path.is_dir();
        let why = if is_other { "it is not a directory".to_owned() } else { error.to_string() };
        Self::new(Kind::of_io(&error), format!("cannot use '{}' for {purpose}: {why}", path.display()))
            .with_hint("--dir names a directory that may be written, and that is made if need be")
    }

    /// Adds what a person can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// What a person can do about it.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind, self.0.message)?;
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, "; caused by: {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::new(Kind::of_io(&error), error.to_string()).with_source(error)
    }
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
