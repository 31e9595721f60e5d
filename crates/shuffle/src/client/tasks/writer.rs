//! The writer of one attempt of a map task.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::Tasks;
use super::push::Batch;
use crate::client::application::state::{check_partition, check_summary};
use crate::error::{Error, Kind, Result};
use crate::ids::{AttemptId, BatchId, MapId, PartitionId, WorkerId};
use crate::wire::Limits;
use crate::wire::batch::{BATCH_HEADER_LEN, BatchHeader};
use crate::wire::executor::Ended;

/// Writes batches. What was pushed counts when [`Writer::finish`] has returned; a writer that is dropped has written
/// nothing that anybody reads.
pub struct Writer {
    tasks: Arc<Tasks>,
    map: MapId,
    attempt: AttemptId,
    next_batch: i32,
    /// Small batches, by the pair of workers that they go to.
    gathered: BTreeMap<(WorkerId, Option<WorkerId>), Gathered>,
    pushes: JoinSet<Result<()>>,
    /// Bounds the pushes that this writer has begun, so that a writer without backpressure does not hold all its data.
    begun: Arc<Semaphore>,
    /// Why nothing can be written, or the first failure of a push: its batches are missing, whatever follows.
    failed: Option<Error>,
}

#[derive(Default)]
struct Gathered {
    batches: Vec<Batch>,
    len: usize,
}

/// The most pushes that a writer has begun and no worker has taken yet, as a multiple of a worker's window.
pub(in crate::client) const BEGUN_PER_WINDOW: usize = 4;

/// Bytes of the longest payload: a worker takes it in one frame, with its header.
pub(in crate::client) const PAYLOAD_LEN_MAX: usize = Limits::PUSH.push_body_max - BATCH_HEADER_LEN;

/// The most batches that are pushed together, however short. A worker takes their list in half of a frame's header,
/// with up to 29 bytes for each: its location, the length of that, and its offset.
pub(in crate::client) const MERGED_MAX: usize = Limits::PUSH.head_len_max / 2 / 32;

impl Writer {
    /// The writer of an attempt that has begun, or the error because of which it has not.
    pub(in crate::client) fn new(
        tasks: Arc<Tasks>,
        map: MapId,
        attempt: AttemptId,
        failed: Option<Error>,
    ) -> Self {
        let window = tasks.limits.window;
        Self {
            tasks,
            map,
            attempt,
            next_batch: 1,
            gathered: BTreeMap::new(),
            pushes: JoinSet::new(),
            begun: Arc::new(Semaphore::new(window * BEGUN_PER_WINDOW)),
            failed,
        }
    }

    /// Writes a batch to a partition, without copying a long payload; waits while too many are on their way. If it is
    /// cancelled while it waits, the batch is not written, and those before it are.
    ///
    /// # Errors
    /// `Invalid` for a partition that does not exist or a batch that fills a frame of 1 GiB, which is not written then,
    /// and for a map or an attempt that does not exist; `Conflict` if the map has ended with another attempt, this one
    /// has had a writer before, the shuffle's commit has begun or it was unregistered; `Unavailable` if an earlier
    /// batch found no worker that takes it. After the last two the writer has failed: each further call gives the same
    /// error, [`Writer::finish`] too.
    pub async fn push(&mut self, partition: PartitionId, payload: impl Into<Bytes>) -> Result<()> {
        self.check()?;
        let payload = payload.into();
        self.tasks.source.check()?;
        check_partition(partition, self.tasks.partitions)?;
        let location = self.tasks.source.current(partition);
        let (merge_len, pair) = (self.tasks.limits.merge_len, (location.worker, location.peer));
        let len = u32::try_from(payload.len()).ok().filter(|_| payload.len() <= PAYLOAD_LEN_MAX);
        let len = len.ok_or_else(|| {
            let len = payload.len();
            let text = format!("a batch of {len} bytes is too large, expected at most {PAYLOAD_LEN_MAX}");
            Error::new(Kind::Invalid, text)
        })?;
        let header =
            BatchHeader { map: self.map, attempt: self.attempt, batch: BatchId(self.next_batch), len };
        let batch = Batch::new(partition, &header, payload);
        let gathered = self.gathered.get(&pair);
        let (count, gathered_len) =
            gathered.map_or((0, 0), |gathered| (gathered.batches.len(), gathered.len));
        let alone = batch.len() >= merge_len;
        let is_full = gathered_len + batch.len() >= merge_len || count + 1 == MERGED_MAX;
        let place = if alone || is_full {
            // Nothing is taken out of the writer before this: the call may be cancelled here.
            Some(self.place().await?)
        } else {
            None
        };
        self.next_batch += 1;
        match place {
            Some(place) if alone => self.begin(vec![batch], place),
            Some(place) => {
                let mut batches = self.gathered.remove(&pair).unwrap_or_default().batches;
                batches.push(batch);
                self.begin(batches, place);
            }
            None => {
                let gathered = self.gathered.entry(pair).or_default();
                gathered.len += batch.len();
                gathered.batches.push(batch);
            }
        }
        Ok(())
    }

    /// Waits for a permit for one more push.
    async fn place(&mut self) -> Result<OwnedSemaphorePermit> {
        while let Some(ended) = self.pushes.try_join_next() {
            self.note(ended);
        }
        self.check()?;
        Ok(self.begun.clone().acquire_owned().await.expect("the semaphore is never closed"))
    }

    fn note(&mut self, ended: Result<Result<()>, tokio::task::JoinError>) {
        if let Err(error) = joined(ended) {
            self.failed.get_or_insert(error);
        }
    }

    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Hands batches over to a task that pushes them.
    fn begin(&mut self, batches: Vec<Batch>, place: OwnedSemaphorePermit) {
        let (tasks, map, attempt) = (self.tasks.clone(), self.map, self.attempt);
        self.pushes.spawn(async move {
            let _place = place;
            let _in_use = tasks.source.enter()?;
            match batches.as_slice() {
                [batch] => tasks.push(batch, map, attempt, Vec::new()).await,
                _ => tasks.push_merged(&batches, map, attempt).await,
            }
        });
    }

    /// The attempt that it writes.
    pub fn attempt(&self) -> AttemptId {
        self.attempt
    }

    /// As [`Writer::finish_with`], with nothing to say of the attempt.
    ///
    /// # Errors
    /// As for [`Writer::finish_with`].
    pub async fn finish(self) -> Result<()> {
        self.finish_with(Bytes::new()).await.map(drop)
    }

    /// Pushes what is left, waits until all is taken, and ends the map: if no other attempt was first, this one is read. As
    /// soon as one push has failed, the others are given up. `summary` is what the attempt says of itself, of no meaning to
    /// the shuffle: whoever begins the map later gets it.
    ///
    /// When it returns, the workers of each location have the batches of the winning attempt (two, if the shuffle is
    /// replicated), and no other attempt's will be read. The result names that attempt, with its own summary: this one, or
    /// the one that was first.
    ///
    /// # Errors
    /// As for [`Writer::push`]; `Invalid` for a summary of more than 64 KiB ([`SUMMARY_LEN_MAX`]); `ResourceExhausted` if
    /// the shuffle's summaries would have more than 64 MiB together ([`SUMMARIES_LEN_MAX`]). In an executor
    /// `Unavailable` if the application does not answer: the map may have ended then. That a commit has begun is no error
    /// if the map had ended before it.
    ///
    /// [`SUMMARIES_LEN_MAX`]: crate::wire::executor::SUMMARIES_LEN_MAX
    /// [`SUMMARY_LEN_MAX`]: crate::wire::executor::SUMMARY_LEN_MAX
    pub async fn finish_with(mut self, summary: impl Into<Bytes>) -> Result<Ended> {
        let summary = summary.into();
        self.check()?;
        check_summary(&summary)?;
        for gathered in std::mem::take(&mut self.gathered).into_values() {
            let place = self.place().await?;
            self.begin(gathered.batches, place);
        }
        loop {
            self.check()?;
            let Some(ended) = self.pushes.join_next().await else { break };
            self.note(ended);
        }
        self.tasks.source.end(self.map, self.attempt, summary).await
    }
}

#[cfg(test)]
impl Writer {
    /// True if all pushes that were begun have ended.
    pub(in crate::client) fn is_idle(&self) -> bool {
        self.begun.available_permits() == self.tasks.limits.window * BEGUN_PER_WINDOW
    }
}

fn joined(ended: Result<Result<()>, tokio::task::JoinError>) -> Result<()> {
    ended.unwrap_or_else(|error| Err(Error::new(Kind::Internal, "a push did not end").with_source(error)))
}
