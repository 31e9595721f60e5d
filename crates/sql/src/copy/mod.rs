//! `COPY … TO`, and files that are written as it writes them: whole or not at all.
//!
//! - [`staged_copy`]: an output that grows aside, and moves to its target when it is whole;
//! - [`staging_folder`]: where it grows;
//! - [`file_target`]: the file that it replaces;
//! - [`null_keys`]: rows whose partition key is null.

pub(crate) mod file_target;
pub(crate) mod null_keys;
pub(crate) mod staged_copy;
pub(crate) mod staging_folder;
