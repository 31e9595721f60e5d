//! What writes and reads: the tasks of a process, whether their application is the same process or another one.

mod limits;
pub(crate) mod once;
pub(crate) mod push;
mod reader;
mod source;
mod workers;
pub(super) mod writer;

use std::collections::HashMap;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

use super::application::fate::Committed;
use super::application::state::{Beginning, check_partition};
use crate::error::Result;
use crate::ids::{AttemptId, MapId, PartitionId, ShuffleKey, WorkerId};
use crate::wire::executor::{Ended, Maps, Readable};

#[cfg(test)]
pub(super) use limits::MERGE_LEN_MAX;
pub(super) use limits::{RETRIES_MAX, TaskOptions, WAIT_MAX};
pub use reader::Reader;
pub(super) use source::{InUse, Source};
pub(super) use workers::Workers;
pub use writer::Writer;

/// A shuffle as the tasks of a process have it. Cheap to clone.
#[derive(Clone)]
pub struct TaskShuffle {
    tasks: Arc<Tasks>,
}

/// Outcome for a task that begins an attempt of its map.
pub enum Begun {
    /// Write, and [finish](Writer::finish_with).
    Writer(Box<Writer>),
    /// The map has ended: its output is there, and there is nothing to do.
    Ended(Ended),
}

impl TaskShuffle {
    pub(super) fn new(tasks: Arc<Tasks>) -> Self {
        Self { tasks }
    }

    /// Which shuffle of which application.
    pub fn key(&self) -> &ShuffleKey {
        &self.tasks.key
    }

    /// Number of its maps. `None` for one that was opened by its name: its maps are those that begin an attempt.
    pub fn maps(&self) -> Option<usize> {
        match self.tasks.maps {
            Maps::Fixed(maps) => Some(maps as usize),
            Maps::Open => None,
        }
    }

    /// Number of its partitions.
    pub fn partitions(&self) -> usize {
        self.tasks.partitions
    }

    /// Begins an attempt of a map, whose number the application draws, or says how the map has ended. An attempt whose
    /// writer is dropped, or whose process dies, is never read.
    ///
    /// # Errors
    /// `Invalid` for a map that does not exist; `Conflict` if the shuffle's commit has begun without the map, or it was
    /// unregistered; `ResourceExhausted` if the map has begun too many attempts; `NotFound` or `Unavailable` if the
    /// application does not have the shuffle, or does not answer.
    pub async fn begin(&self, map: MapId) -> Result<Begun> {
        self.begin_attempt(map, None).await
    }

    /// As [`TaskShuffle::begin`], with a number for the attempt.
    ///
    /// # Errors
    /// As for [`TaskShuffle::begin`]; `Conflict` for an attempt that has begun before, whatever became of it.
    pub async fn begin_as(&self, map: MapId, attempt: AttemptId) -> Result<Begun> {
        self.begin_attempt(map, Some(attempt)).await
    }

    async fn begin_attempt(&self, map: MapId, attempt: Option<AttemptId>) -> Result<Begun> {
        Ok(match self.tasks.source.begin(map, attempt).await? {
            Beginning::Begun(attempt) => {
                Begun::Writer(Box::new(Writer::new(Arc::clone(&self.tasks), map, attempt, None)))
            }
            Beginning::Ended(ended) => Begun::Ended(ended),
        })
    }

    /// Reads a partition's batches of a range of map ids, in no order. The application commits the shuffle before, once
    /// for all who read it: no other map can begin after that. If the number of maps is open, all that have begun have to
    /// have ended, and it is up to the caller that all have begun that are to be read.
    ///
    /// # Errors
    /// `Invalid` for a partition that does not exist; `Conflict` if a map has not ended, or the shuffle was unregistered;
    /// `DataLoss` if what was acknowledged is lost on all of its workers; `Unavailable` if a worker that has the only copy
    /// of something, or the application, does not answer; `NotFound` if the application does not have the shuffle.
    pub async fn reader(&self, partition: PartitionId, maps: impl RangeBounds<i32>) -> Result<Reader> {
        self.tasks.source.check()?;
        check_partition(partition, self.tasks.partitions)?;
        let files = self.tasks.source.files(partition).await?;
        Ok(Reader::new(Arc::clone(&self.tasks), files, maps))
    }
}

#[cfg(test)]
impl TaskShuffle {
    /// True if both share what they know.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.tasks, &other.tasks)
    }
}

/// State that writers and readers of a shuffle share.
pub(super) struct Tasks {
    pub key: ShuffleKey,
    pub maps: Maps,
    pub partitions: usize,
    pub limits: TaskOptions,
    pub workers: Arc<Workers>,
    pub source: Source,
    windows: Mutex<HashMap<WorkerId, Arc<Semaphore>>>,
}

impl Tasks {
    /// Of a shuffle of so many maps and partitions.
    pub fn new(
        key: ShuffleKey,
        maps: Maps,
        partitions: usize,
        limits: TaskOptions,
        workers: Arc<Workers>,
        source: Source,
    ) -> Self {
        Self { key, maps, partitions, limits, workers, source, windows: Mutex::default() }
    }

    /// The window of a worker: the permits for batches in flight to it.
    pub fn window(&self, worker: &WorkerId) -> Arc<Semaphore> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        match windows.get(worker) {
            Some(window) => window.clone(),
            None => {
                let window = Arc::new(Semaphore::new(self.limits.window));
                windows.entry(worker.clone()).or_insert(window).clone()
            }
        }
    }

    /// Runs a background task for the shuffle. Only the release of its id waits for it.
    pub fn spawn(&self, what: impl Future<Output = ()> + Send + 'static) {
        if let Ok(in_use) = self.source.enter() {
            tokio::spawn(async move {
                what.await;
                drop(in_use);
            });
        }
    }
}

/// Files in which a partition can be read, and whose batches count.
#[derive(Debug)]
pub(super) struct Files {
    pub files: Vec<Readable>,
    /// By map id: the attempt whose batches count.
    pub winners: Arc<[AttemptId]>,
}

impl Files {
    /// Those of a partition that exists.
    pub fn of(committed: &Committed, partition: PartitionId) -> Self {
        let files = committed.files[partition.0.cast_unsigned() as usize].clone();
        Self { files, winners: Arc::clone(&committed.winners) }
    }
}
