//! The crate's public error, the one of all servers; here is what this crate's own errors become in it.

pub use yeoul_base::{Error, ErrorKind as Kind, Result};

use crate::wire::DecodeError;

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self::new(Kind::Corrupt, error.to_string()).with_source(error)
    }
}
