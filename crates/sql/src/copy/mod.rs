//! `COPY … TO`, and other files that are written as it writes them: completely or not at all.
//!
//! - [`staged_copy`]: an output that is written in a staging folder, and moved to its target when it is complete;
//! - [`staging_folder`]: that folder;
//! - [`file_target`]: the file that it replaces;
//! - [`null_keys`]: rows whose partition key is null;
//! - [`written_times`]: the types that Parquet files have for times.

pub(crate) mod file_target;
pub(crate) mod null_keys;
pub(crate) mod staged_copy;
pub(crate) mod staging_folder;
pub(crate) mod written_times;
