//! What every part of Yeoul shares: byte sizes, the kinds of error, and the limit of open files.
//!
//! - [`ByteSize`]: a number of bytes as people and configuration files write it (`1GiB`, `256MB`).
//! - [`ErrorKind`]: what a caller can do about a failure; each crate's public error carries one.
//! - [`raise_file_limit`]: as many open files as the system allows.

mod byte_size;
mod error_kind;
mod file_limit;

pub use byte_size::{ByteSize, ParseByteSizeError};
pub use error_kind::ErrorKind;
pub use file_limit::raise_file_limit;
