//! What every part of Yeoul shares: byte sizes and the kinds of error.
//!
//! - [`ByteSize`]: a number of bytes as people and configuration files write it (`1GiB`, `256MB`).
//! - [`ErrorKind`]: what a caller can do about a failure; each crate's public error carries one.

mod byte_size;
mod error_kind;

pub use byte_size::{ByteSize, ParseByteSizeError};
pub use error_kind::ErrorKind;
