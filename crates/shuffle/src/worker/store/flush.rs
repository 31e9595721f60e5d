//! Brings what is here to disk: all of it before a worker that will come back exits, or what is committed before a commit
//! is answered. No disk may keep the worker from either.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::Store;
use super::directory::{Directory, Health, JOB_BYTES, STEP_MAX};
use super::shuffle::Shuffle;
use super::spill::{Extent, Write, plan_of};

/// How often to check whether a job of the spiller has ended.
const JOB_POLL: Duration = Duration::from_millis(5);

/// How often to check whether files can be created again.
const OPEN_POLL: Duration = Duration::from_millis(50);

/// How long the jobs of a directory that has failed may take to be given up.
const JOB_LATE_MAX: Duration = Duration::from_secs(1);

impl Store {
    /// Brings every batch to disk, with seals, and syncs, before a worker that will come back exits.
    /// Returns the shuffles for which that failed.
    pub async fn flush(self: &Arc<Self>) -> Vec<Arc<Shuffle>> {
        self.flush_in_steps(STEP_MAX).await
    }

    /// [`Store::flush`], in which no step of a directory takes longer than `step_max`: else it counts as failed and is left
    /// out. It waits as long for file descriptors, once for all shuffles together.
    pub(super) async fn flush_in_steps(self: &Arc<Self>, step_max: Duration) -> Vec<Arc<Shuffle>> {
        let mut shuffles = Vec::new();
        let mut patience = step_max;
        // Shuffles that need no new file do not wait for those that do.
        let has_file =
            |shuffle: &Arc<Shuffle>| shuffle.lock().segments.iter().any(|segment| segment.is_writable());
        let (open, others): (Vec<_>, Vec<_>) = self.all().into_iter().partition(has_file);
        for shuffle in open.into_iter().chain(others) {
            let written = self.write_out(&shuffle, Extent::All, step_max, &mut patience).await;
            shuffles.push((shuffle, written));
        }
        // What is written survives the process, what is synced the machine (if syncing a file also syncs its name, as in
        // ext4, XFS and btrfs). So everything is written before anything is synced.
        let mut failed = Vec::new();
        for (shuffle, written) in shuffles {
            if !sync(&shuffle, step_max).await || !written {
                failed.push(shuffle);
            }
        }
        failed
    }

    /// Brings every batch of a shuffle's committed locations to disk, with seals, and syncs. Returns whether all of it is
    /// there: then it survives a power failure.
    pub async fn make_durable(self: &Arc<Self>, shuffle: &Arc<Shuffle>) -> bool {
        let mut patience = STEP_MAX;
        let written = self.write_out(shuffle, Extent::Committed, STEP_MAX, &mut patience).await;
        sync(shuffle, STEP_MAX).await && written
    }

    /// Writes a shuffle's batches and seals; false if some could not be written. `patience` is how long to wait for file
    /// descriptors.
    async fn write_out(
        self: &Arc<Self>,
        shuffle: &Arc<Shuffle>,
        extent: Extent,
        step_max: Duration,
        patience: &mut Duration,
    ) -> bool {
        loop {
            let Some(job) = plan_of(Arc::clone(shuffle), JOB_BYTES, extent) else {
                if self.jobs_end(shuffle, step_max).await {
                    continue; // the batches that they could not write are in memory again
                }
                break;
            };
            let bytes = job.bytes();
            let may_take = |directory: &Directory| directory.may_take(bytes);
            let Some(directory) = self.directory_for(shuffle, may_take) else {
                job.give_up();
                if self.may_open_files_soon(may_take, patience).await {
                    continue;
                }
                break;
            };
            // A separate task: whenever the disk answers, its result is recorded.
            let (store, place) = (Arc::clone(self), Arc::clone(&directory));
            let spilled = tokio::spawn(async move { store.spill(job, place).await });
            // After a failure the directory takes no more, or no files for now, so this loop ends.
            if timeout(step_max, spilled).await.is_err() {
                directory.hangs();
            }
        }
        let finished = self.large_batches_end(shuffle, step_max).await;
        // Locations that are completely on disk come back, whatever happened to the others.
        shuffle.lock().is_durable = true;
        if shuffle.lock().wants_seals() {
            while !self.write_seals(shuffle, step_max).await {
                if !self.may_open_files_soon(Directory::takes_seals, patience).await {
                    return false;
                }
            }
        }
        match extent {
            Extent::All => finished && shuffle.resident() == 0,
            Extent::Committed => {
                let contents = shuffle.lock();
                !contents.gone && !contents.wants_seals() && contents.is_wholly_written()
            }
        }
    }

    /// Waits a moment, if any patience is left and some directory only lacks file descriptors. Returns whether it did.
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

    /// Waits for the jobs that hold batches of a shuffle, until they are unlikely to end. Returns whether there were any and
    /// the batches that they have not written may be written again. A directory whose job takes longer than `step_max`
    /// counts as failed.
    async fn jobs_end(&self, shuffle: &Shuffle, step_max: Duration) -> bool {
        let is_spilling = || shuffle.lock().copies.values().any(|copy| copy.is_spilling());
        if !is_spilling() {
            return false;
        }
        // A job holds the turn of its directory from before it is planned until it ends.
        let is_written_to =
            |directory: &Arc<Directory>| !directory.is_idle() && directory.health() != Health::Failed;
        let began = Instant::now();
        let mut hoped = began;
        while is_spilling() {
            if self.directories().iter().any(is_written_to) {
                hoped = Instant::now();
            }
            let waited = began.elapsed();
            if waited >= step_max {
                shuffle.lock().writes.iter().for_each(Write::hangs);
            }
            if waited >= step_max + JOB_LATE_MAX || hoped.elapsed() >= JOB_LATE_MAX {
                return false;
            }
            tokio::time::sleep(JOB_POLL).await;
        }
        true
    }

    /// Waits until the large batches of a shuffle are finished, or cannot be expected to be. Returns whether they are.
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

/// Syncs a shuffle's files to disk, and looks whether they are still in its folders; false if one of them may not be there.
async fn sync(shuffle: &Shuffle, step_max: Duration) -> bool {
    let segments = shuffle.lock().segments.clone();
    let mut all = true;
    for segment in segments {
        let directory = Arc::clone(segment.directory());
        if directory.health() == Health::Failed {
            all = false;
            continue;
        }
        // What is synced may have been unlinked, with its folder or alone.
        let sync = move || segment.sync().and_then(|()| segment.check_is_there());
        let synced = timeout(step_max, tokio::task::spawn_blocking(sync)).await;
        if synced.is_err() {
            directory.hangs();
        }
        all &= matches!(synced, Ok(Ok(Ok(())))) || shuffle.lock().gone;
    }
    all
}
