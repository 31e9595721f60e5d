//! The crate's public error, the one of all servers; here is what this crate's own errors become in it.

pub use yeoul_base::{Error, ErrorKind as Kind, Result};

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
