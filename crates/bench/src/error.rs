//! The one public error of this crate: what went wrong, whose fault it is, and what to do about it.

use std::fmt;
use std::path::Path;

use yeoul_base::ErrorKind;

/// An error with its kind, its cause and, if there is one, a hint for people.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` that says `message` (lower case, no full stop).
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, source: None }
    }

    /// An operating system error while doing `what` ("create", "rename") to `path`.
    pub fn io(what: &str, path: &Path, source: std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        let kind = match source.kind() {
            Io::AlreadyExists | Io::NotADirectory | Io::IsADirectory => ErrorKind::Conflict,
            Io::UnexpectedEof => ErrorKind::Corrupt,
            _ => ErrorKind::of_io(&source),
        };
        Self::new(kind, format!("cannot {what} {}", path.display())).with_source(source)
    }

    /// Adds what a person can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What a person can do about it, if there is something.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl From<yeoul_base::Error> for Error {
    fn from(error: yeoul_base::Error) -> Self {
        let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
        let message = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
        Self { kind: error.kind(), message, hint: error.hint().map(str::to_owned), source: None }
    }
}

impl fmt::Display for Error {
    /// The message and its chain of causes on one line; the hint is for the caller to print on a line of its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut cause = self.source.as_deref().map(|e| e as &dyn std::error::Error);
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn std::error::Error + 'static))
    }
}
