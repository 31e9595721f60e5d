//! Files of a directory, to read and to write.
//!
//! - [`FileSource`]: lines of new files, in planned epochs that [`PlanLog`] keeps
//! - [`FileSink`]: a file of lines for each epoch, of JSON or CSV

mod lines;
mod listing;
mod log_entry;
mod options;
mod plan_log;
mod sink;
mod source;

pub use options::{CsvHeader, FileSourceOptions};
pub use sink::{FileSink, FileSinkOptions};
pub use source::FileSource;

use log_entry::PlannedFile;
