//! What every part of Yeoul shares: byte sizes, errors and their reports, and the machine's resources.
//!
//! - [`ByteSize`]: a number of bytes as people and configuration files write it (`1GiB`, `256MB`).
//! - [`ErrorKind`]: what a caller can do about a failure; each crate's public error carries one.
//! - [`machine_memory`]: how much memory there is; [`ResidentSet`]: how much of it this process holds.
//! - [`Report`]: an error as a person reads it, with its [`Place`] in a text.
//! - [`ReportFile`]: the file that a long run writes its report to.
//! - [`raise_file_limit`]: as many open files as the system allows.

mod byte_size;
mod error_kind;
mod file_limit;
mod machine_memory;
mod place;
mod report;
mod report_file;
mod resident_set;

pub use byte_size::{ByteSize, ParseByteSizeError};
pub use error_kind::ErrorKind;
pub use file_limit::raise_file_limit;
pub use machine_memory::machine_memory;
pub use place::{Place, Span};
pub use report::Report;
pub use report_file::ReportFile;
pub use resident_set::ResidentSet;
