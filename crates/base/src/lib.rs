//! What every part of Yeoul shares: byte sizes, errors and their reports, and the machine's resources.
//!
//! - [`ByteSize`]: a number of bytes as people and configuration files write it (`1GiB`, `256MB`).
//! - [`Error`] with its [`ErrorKind`]: what went wrong, and what a caller can do about it.
//! - [`machine_memory`]: how much memory there is; [`ResidentSet`]: how much of it this process holds.
//! - [`Report`]: an error as a person reads it, with its [`Place`] in a text.
//! - [`visible`], [`visible_name`]: texts from outside, which do nothing to a terminal.
//! - [`ReportFile`]: the file that a long run writes its report to.
//! - [`raise_file_limit`]: as many open files as the system allows; [`process`]: CPU time and open files of this process.
//! - [`is_in_memory`]: whether a folder's files are kept in memory.
//! - [`failpoint`], [`failpoint_error`]: where a test has a process die, or a step of it fail.
//! - [`without_users`]: texts whose addresses show no password
//! - [`SplitMix`]: numbers from a seed; [`quantile`]: medians and percentiles of measurements.
//!
//! ```
//! use yeoul_base::{ByteSize, Error, ErrorKind};
//!
//! fn memory_for_batches(limit: &str) -> Result<ByteSize, Error> {
//!     limit.parse().map_err(|error| Error::new(ErrorKind::Invalid, "--memory is not a size").with_source(error))
//! }
//! assert_eq!(memory_for_batches("1.5 GiB").unwrap(), ByteSize::from_mib(1536));
//! assert_eq!(memory_for_batches("much").unwrap_err().kind(), ErrorKind::Invalid);
//! ```

mod address_text;
mod byte_size;
mod error;
mod error_kind;
mod failpoint;
mod file_limit;
mod in_memory;
mod machine_memory;
mod place;
pub mod process;
mod quantile;
mod report;
mod report_file;
mod resident_set;
mod split_mix;

pub use address_text::without_users;
pub use byte_size::{ByteSize, ParseByteSizeError};
pub use error::{Error, Result};
pub use error_kind::ErrorKind;
pub use failpoint::{failpoint, failpoint_error};
pub use file_limit::raise_file_limit;
pub use in_memory::is_in_memory;
pub use machine_memory::machine_memory;
pub use place::{Place, Span};
pub use quantile::quantile;
pub use report::{Report, visible, visible_name};
pub use report_file::ReportFile;
pub use resident_set::ResidentSet;
pub use split_mix::SplitMix;
