//! Errors of this crate, by what a caller can do about them.

pub use yeoul_base::{Error, ErrorKind, Result};

/// Error of a job, an option or a value that is wrong, or that is not honoured.
pub fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

/// Error of bytes that cannot be right.
pub fn corrupt(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupt, message)
}

/// Error of Arrow or DataFusion while rows are computed. Wrong values (a division by zero, a number that overflows) are the
/// job's to mend.
pub fn computing(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    invalid("cannot compute a row of the query").with_source(error)
}
