//! A job's file.

use std::path::Path;

use yeoul_base::{Error, ErrorKind, Result};
use yeoul_stream::parse_job;
use yeoul_stream::plan::Query;

/// Queries of a job's file.
///
/// # Errors
/// If it cannot be read; `Invalid` if the job is refused.
pub fn queries(job: &Path) -> Result<Vec<Query>> {
    let text = std::fs::read_to_string(job).map_err(|error| {
        Error::new(ErrorKind::of_io(&error), format!("cannot read '{}'", job.display())).with_source(error)
    })?;
    parse_job(&text)
}
