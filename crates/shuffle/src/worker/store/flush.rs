//! Brings what is committed to disk before a worker that will come back exits. No disk may keep it from exiting.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::Store;
use super::directory::{Directory, Health, JOB_BYTES, STEP_MAX};
use super::shuffle::Shuffle;
use super::spill::plan_of;

/// How often is looked whether a job of the spiller has ended.
const JOB_POLL: Duration = Duration::from_millis(5);

/// How often is looked whether files may be made again.
const OPEN_POLL: Duration = Duration::from_millis(50);

/// How long a job may need to come back from a directory that has failed. One whose write failed does so at once, one whose
/// disk stands still does not.
const JOB_LATE_MAX: Duration = Duration::from_secs(1);

impl Store {
    /// Brings every batch of committed locations to disk, with seals, and syncs: before a worker that will come back
    /// exits. Returns the shuffles that could not be brought there whole.
    pub async fn flush(self: &Arc<Self>) -> Vec<Arc<Shuffle>> {
        self.flush_in_steps(STEP_MAX).await
    }

    /// [`Store::flush`], in which each directory takes at most one step longer than `step_max`: then it counts as failed
    /// and is left out. For want of files to open it waits as long, once for all shuffles together.
    pub(super) async fn flush_in_steps(self: &Arc<Self>, step_max: Duration) -> Vec<Arc<Shuffle>> {
        let mut shuffles = Vec::new();
        let mut patience = step_max;
        // What needs no other file does not wait for one.
        let has_file =
            |shuffle: &Arc<Shuffle>| shuffle.lock().segments.iter().any(|segment| segment.is_writable());
        let (open, others): (Vec<_>, Vec<_>) = self.all().into_iter().partition(has_file);
        for shuffle in open.into_iter().chain(others) {
            let written = self.write_out(&shuffle, step_max, &mut patience).await;
            shuffles.push((shuffle, written));
        }
        // What is written outlives the process, what is synced the machine (where a file's sync brings its name along, as in
        // ext4, XFS and btrfs): the first is done for all of them first.
        let mut failed = Vec::new();
        for (shuffle, written) in shuffles {
            if !sync(&shuffle, step_max).await || !written {
                failed.push(shuffle);
            }
        }
        failed
    }

    /// Writes what a shuffle has in memory, and its seals; false if some of it could not be written. `patience` is for how
    /// long files to open are waited for.
    async fn write_out(
        self: &Arc<Self>,
        shuffle: &Arc<Shuffle>,
        step_max: Duration,
        patience: &mut Duration,
    ) -> bool {
        loop {
            let Some(job) = plan_of(Arc::clone(shuffle), JOB_BYTES) else {
                if self.jobs_end(shuffle, step_max).await {
                    continue; // what they could not write is here again
                }
                break;
            };
            let bytes = job.bytes();
            let may_take = |directory: &Directory| directory.may_take(bytes);
            let Some(directory) = self.directory_for(shuffle, may_take) else {
                job.abandon();
                if self.may_open_files_soon(may_take, patience).await {
                    continue;
                }
                break;
            };
            // A task of its own: whenever the disk answers, somebody takes in what was written.
            let (store, place) = (Arc::clone(self), Arc::clone(&directory));
            let spilled = tokio::spawn(async move { store.spill(job, place).await });
            // If it could not be written the directory does not take it any more, or no files for now, so this ends.
            if timeout(step_max, spilled).await.is_err() {
                directory.hangs();
            }
        }
        let finished = self.large_batches_end(shuffle, step_max).await;
        // Locations that are wholly on disk come back, whatever became of the others.
        shuffle.lock().stopping = true;
        if shuffle.lock().wants_seals() {
            while !self.write_seals(shuffle, step_max).await {
                if !self.may_open_files_soon(Directory::takes_seals, patience).await {
                    return false;
                }
            }
        }
        finished && shuffle.resident() == 0
    }

    /// Waits a moment, if there is patience left and a directory would take something if a file could be opened there. Returns
    /// whether it did.
    async fn may_open_files_soon(
        &self,
        takes_it: impl Fn(&Directory) -> bool,
        patience: &mut Duration,
    ) -> bool {
        let may_take_it = |directory: &Arc<Directory>| directory.lacks_files() && takes_it(directory);
        if patience.is_zero() || !self.directories().iter().any(may_take_it) {
            return false;
        }
        let began = Instant::now();
        tokio::time::sleep(OPEN_POLL).await;
        *patience = patience.saturating_sub(began.elapsed());
        true
    }

    /// Waits for the jobs that have batches of a shuffle, for as long as there is hope. Returns whether there were any and
    /// they have ended.
    async fn jobs_end(&self, shuffle: &Shuffle, step_max: Duration) -> bool {
        let is_spilling = || shuffle.lock().copies.values().any(|copy| copy.is_spilling());
        if !is_spilling() {
            return false;
        }
        // A job has the turn of its directory from before it was planned until it has ended.
        let is_written_to =
            |directory: &Arc<Directory>| !directory.is_idle() && directory.health() != Health::Failed;
        let began = Instant::now();
        let mut hoped = began;
        while is_spilling() {
            if self.directories().iter().any(is_written_to) {
                hoped = Instant::now();
            }
            if began.elapsed() >= step_max || hoped.elapsed() >= JOB_LATE_MAX {
                return false;
            }
            tokio::time::sleep(JOB_POLL).await;
        }
        true
    }

    /// Waits until the large batches of a shuffle are finished, for as long as there is hope. Returns whether they are.
    async fn large_batches_end(&self, shuffle: &Shuffle, step_max: Duration) -> bool {
        let began = Instant::now();
        loop {
            let mut unfinished = shuffle.lock().segments.clone();
            unfinished.retain(|segment| !segment.is_finished());
            if unfinished.is_empty() {
                return true;
            }
            unfinished.retain(|segment| segment.directory().health() != Health::Failed);
            if unfinished.is_empty() {
                return false;
            }
            if began.elapsed() >= step_max {
                unfinished.iter().for_each(|segment| segment.directory().hangs());
                return false;
            }
            tokio::time::sleep(JOB_POLL).await;
        }
    }
}

/// Brings a shuffle's files to the disk; false if one of them may not be there.
async fn sync(shuffle: &Shuffle, step_max: Duration) -> bool {
    let segments = shuffle.lock().segments.clone();
    let mut all = true;
    for segment in segments {
        let directory = Arc::clone(segment.directory());
        if directory.health() == Health::Failed {
            all = false;
            continue;
        }
        let synced = timeout(step_max, tokio::task::spawn_blocking(move || segment.sync())).await;
        if synced.is_err() {
            directory.hangs();
        }
        all &= matches!(synced, Ok(Ok(Ok(()))));
    }
    all
}
