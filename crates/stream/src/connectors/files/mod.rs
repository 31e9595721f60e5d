//! Files of a directory, to read and to write.
//!
//! - [`FileSource`]: lines of new files, in planned epochs that [`PlanLog`] keeps
//! - [`FileSink`]: a file of JSON lines for each epoch

mod lines;
mod listing;
mod log_entry;
mod options;
mod plan_log;
mod sink;
mod source;

pub use options::FileSourceOptions;
pub use sink::FileSink;
pub use source::FileSource;

use log_entry::PlannedFile;
