//! Exchanges on Yeoul's shuffle: what tasks have written outlives their executors.
//!
//! The scheduler is the application of the shuffle, and each stage whose rows are divided by a hash writes one. Executors know its name
//! from their tasks; a map is the task of one partition of the stage. A map ends once: a task that is given out again, because the
//! executor that ran it is gone, finds it ended, and looks up what it said of itself.
//!
//! - [`application`]: the scheduler's half; [`executor`]: that of executors; [`settings`]: how these hear of that;
//! - [`numbered`]: how a task knows which map it is;
//! - [`writer`], [`reader`]: rows into a shuffle and out of it; [`payload`]: rows on the wire;
//! - [`place`], [`summary`]: what a map says to the scheduler, and to those that look it up.

mod application;
mod executor;
mod numbered;
mod payload;
mod place;
mod reader;
mod settings;
mod summary;
mod writer;

use ballista_core::JobId;
use datafusion::common::DataFusionError;
use yeoul_base::ErrorKind;
use yeoul_dialect::Error;

pub(crate) use application::ShuffleApplication;
pub(crate) use executor::Shuffles;
pub(crate) use numbered::{NumberedExec, map_number, numbered};
pub(crate) use place::{local_number, map_of};
pub(crate) use reader::reading;
pub(crate) use settings::ShuffleSettings;
pub(crate) use writer::MapTask;

/// The name of a stage's shuffle.
fn name(job: &JobId, stage: usize) -> String {
    format!("{job}/{stage}")
}

/// The job of a shuffle of this name.
fn job_of(name: &str) -> Option<&str> {
    let (job, stage) = name.rsplit_once('/')?;
    stage.parse::<usize>().is_ok().then_some(job)
}

/// The error of the shuffle as a task's. What may pass is of a kind that Ballista tries again.
fn failed(error: yeoul_base::Error) -> DataFusionError {
    if error.kind() == ErrorKind::Unavailable {
        return DataFusionError::IoError(std::io::Error::other(error));
    }
    Error::from(error).into()
}

/// The error of what the shuffle gave and no task has written.
fn corrupt(what: impl Into<String>) -> DataFusionError {
    Error::new(ErrorKind::Corrupt, what.into()).into()
}
