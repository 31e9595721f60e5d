//! The error of this crate: the one of `yeoul-base`, whose text names its causes, too, because reports keep it as one line.

use std::fmt;
use std::path::Path;

use yeoul_base::ErrorKind;

/// An error with its kind, its causes and, if there is one, a hint for people.
#[derive(Debug, Clone)]
pub struct Error(yeoul_base::Error);

/// The crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` that says `message` (lower case, no full stop).
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(yeoul_base::Error::new(kind, message))
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
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self(self.0.with_hint(hint))
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(self.0.with_source(source))
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind()
    }

    /// What a person can do about it, if there is something.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint()
    }
}

impl From<yeoul_base::Error> for Error {
    fn from(error: yeoul_base::Error) -> Self {
        Self(error)
    }
}

impl fmt::Display for Error {
    /// The message and its chain of causes on one line; the hint is for the caller to print on a line of its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = std::error::Error::source(&self.0);
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::io;

    use super::*;

    #[test]
    fn an_error_of_a_part_keeps_its_kind_hint_and_causes() {
        let cause = io::Error::from(io::ErrorKind::StorageFull);
        let below =
            yeoul_base::Error::new(ErrorKind::ResourceExhausted, "cannot write the block").with_source(cause);
        let part =
            yeoul_base::Error::new(ErrorKind::Unavailable, "no answer").with_hint("wait").with_source(below);
        let error = Error::from(part);
        assert_eq!((error.kind(), error.hint()), (ErrorKind::Unavailable, Some("wait")));
        assert_eq!(error.to_string(), "no answer: cannot write the block: no storage space");
        let first = error.source().and_then(|cause| cause.downcast_ref::<yeoul_base::Error>());
        assert_eq!(first.map(yeoul_base::Error::kind), Some(ErrorKind::ResourceExhausted));
        let last = error.source().and_then(|cause| cause.source()?.downcast_ref::<io::Error>());
        assert_eq!(last.map(io::Error::kind), Some(io::ErrorKind::StorageFull));
    }
}
