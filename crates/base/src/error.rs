use std::error::Error as StdError;
use std::sync::Arc;
use std::{fmt, io};

use crate::{ErrorKind, without_users};

/// The result of operations that fail with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong: a kind that tells the caller what to do, a message in lower case and without a full stop, for people a
/// hint, and the cause.
///
/// Its text is the message alone; causes are in the chain of its [`source`](StdError::source), which
/// [`Report`](crate::Report) prints. Addresses in it lose their users and passwords. A clone shares its cause. A part that knows more about its failures adds it with
/// `From` for its own types, or wraps this.
///
/// ```
/// use std::error::Error as _;
/// use yeoul_base::{Error, ErrorKind};
///
/// let cause = std::io::Error::from(std::io::ErrorKind::StorageFull);
/// let error = Error::new(ErrorKind::of_io(&cause), "cannot write the image")
///     .with_hint("free space, or name another directory with --dir")
///     .with_source(cause);
/// assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
/// assert_eq!(error.to_string(), "cannot write the image");
/// assert!(error.source().is_some());
/// ```
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of a kind. The message names the thing, what was expected, and what was found.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: shown(message.into()), hint: None, source: None }))
    }

    /// Adds what a person can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(shown(hint.into()));
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What a person can do about it.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

/// The text without the users of addresses.
fn shown(text: String) -> String {
    if text.contains("://") { without_users(&text).into_owned() } else { text }
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
            write!(f, "; caused by: {}", without_users(&error.to_string()))?;
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

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::new(ErrorKind::of_io(&error), error.to_string()).with_source(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_of_an_address_is_shown() {
        let cause = io::Error::other("no answer from s3://k:hunter2@b/x");
        let error = Error::new(ErrorKind::Invalid, "'http://ann:hunter2@h/a' is no address")
            .with_hint("name http://ann:hunter2@h")
            .with_source(cause);
        let report = crate::Report::from_error(&error).hint(error.hint().map(str::to_owned)).text();
        for text in [format!("{error}"), format!("{error:?}"), error.hint().unwrap().to_owned(), report] {
            assert!(!text.contains("hunter2") && text.contains("://"), "{text}");
        }
    }

    #[test]
    fn a_clone_keeps_kind_hint_and_causes() {
        let cause = Error::from(io::Error::from(io::ErrorKind::NotFound));
        let error = Error::new(ErrorKind::Unavailable, "no answer").with_hint("wait").with_source(cause);
        let clone = error.clone();
        assert_eq!((clone.kind(), clone.hint()), (ErrorKind::Unavailable, Some("wait")));
        assert_eq!(
            format!("{clone:?}"),
            "unavailable: no answer; caused by: entity not found; caused by: entity not found"
        );
    }
}
