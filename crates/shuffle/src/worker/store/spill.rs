//! Moves batches from memory to segments when memory is short: the largest and oldest first.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::Store;
use super::directory::{Directory, Health};
use super::record::Seal;
use super::segment::{RunToWrite, Segment};
use super::shuffle::{Contents, Shuffle};
use crate::ids::{ApplicationId, ShuffleKey};
use crate::wire::batch::ByteOrder;
use crate::worker::state::Slot;

/// Bytes that one write job takes out of memory: large enough to be sequential, small enough that memory comes back
/// steadily.
const JOB_BYTES: u64 = 16 << 20;

/// How long the spiller waits for something to become spillable when memory is short and all of it is on its way.
const RETRY: Duration = Duration::from_millis(5);

/// Batches on their way to disk.
#[derive(Debug)]
pub struct SpillJob {
    shuffle: Arc<Shuffle>,
    slots: Vec<Slot>,
    runs: Vec<RunToWrite>,
}

impl Store {
    /// Spills whenever memory asks for it, one job at a time for each directory. Runs until it is dropped.
    pub async fn run_spiller(self: Arc<Self>) {
        let mut jobs = JoinSet::new();
        loop {
            while jobs.try_join_next().is_some() {}
            let sealed = self.write_waiting_seals(&mut jobs);
            let started = self.start_job(&mut jobs);
            if started || sealed {
                continue;
            }
            let short = self.memory().excess() > 0;
            tokio::select! {
                () = self.memory().spill_wanted() => {}
                Some(_) = jobs.join_next() => {}
                () = tokio::time::sleep(RETRY), if short => {}
            }
        }
    }

    fn start_job(self: &Arc<Self>, jobs: &mut JoinSet<()>) -> bool {
        if self.memory().excess() == 0 {
            return false;
        }
        let Some(directory) = self.choose_directory() else { return false };
        let Some(job) = self.plan(JOB_BYTES) else { return false };
        let store = Arc::clone(self);
        jobs.spawn(async move {
            store.spill(job, directory).await;
        });
        true
    }

    /// The healthy directory with the most space that is not being written to.
    fn choose_directory(&self) -> Option<Arc<Directory>> {
        let idle = |directory: &&Arc<Directory>| {
            directory.health() == Health::Healthy && directory.writes.available_permits() > 0
        };
        self.directories().iter().filter(idle).max_by_key(|directory| directory.usable()).cloned()
    }

    /// The healthy directory with the most space.
    pub fn healthiest(&self) -> Option<Arc<Directory>> {
        let healthy = self.directories().iter().filter(|directory| directory.health() == Health::Healthy);
        healthy.max_by_key(|directory| directory.usable()).cloned()
    }

    /// Picks what leaves memory next. Of the shuffles that hold at least half of what the largest one holds, the one that
    /// has been quiet for longest; of its locations, the largest.
    ///
    /// While someone waits it is a shuffle of the application that holds most: who waits longest is who holds most, and
    /// would wait for ever if only what others hold went to disk.
    pub fn plan(&self, bytes_max: u64) -> Option<SpillJob> {
        let mut shuffles = self.all();
        shuffles.retain(|shuffle| shuffle.resident() > 0);
        if self.memory().waiting() == 0 {
            return plan_among(shuffles, bytes_max);
        }
        let mut applications: HashMap<ApplicationId, (u64, Vec<Arc<Shuffle>>)> = HashMap::new();
        for shuffle in shuffles {
            let (held, own) = applications.entry(shuffle.key().application.clone()).or_default();
            *held += shuffle.resident();
            own.push(shuffle);
        }
        let mut applications: Vec<_> = applications.into_values().collect();
        applications.sort_by_key(|(held, _)| std::cmp::Reverse(*held));
        applications.into_iter().find_map(|(_, shuffles)| plan_among(shuffles, bytes_max))
    }

    /// Writes a job's runs to a directory and lets go of the memory. A failed write leaves the batches in memory.
    /// Returns whether it was written.
    pub async fn spill(self: &Arc<Self>, job: SpillJob, directory: Arc<Directory>) -> bool {
        let _turn = directory.writes.acquire().await;
        let SpillJob { shuffle, slots, mut runs } = job;
        let target = shuffle.lock().writable_segment(&directory);
        let key = shuffle.key().clone();
        let place = Arc::clone(&directory);
        let written = tokio::task::spawn_blocking(move || {
            let segment = segment_of(target, &place, &key)?;
            let bytes: u64 = runs.iter().flat_map(|run| &run.batches).map(|batch| batch.len() as u64).sum();
            if bytes > place.usable() {
                place.measure()?;
                if bytes > place.usable() {
                    let error = io::Error::from(io::ErrorKind::StorageFull);
                    place.failed(&error);
                    return Err(error);
                }
            }
            let written = segment.append(&mut runs)?;
            drop(runs); // the batches' handles: memory comes back when the shuffle lets go of its own
            io::Result::Ok((segment, written))
        })
        .await
        .unwrap_or_else(|panic| Err(io::Error::other(panic)));
        let mut contents = shuffle.lock();
        match written {
            Ok((segment, written)) => {
                if contents.gone {
                    drop(contents);
                    drop(tokio::task::spawn_blocking(move || segment.delete()));
                    return true;
                }
                contents.adopt(&segment);
                for (slot, written) in slots.iter().zip(written) {
                    if let Some(copy) = contents.copies.get_mut(slot) {
                        let before = copy.resident();
                        copy.spilled(&segment, written);
                        shuffle.shrank(before - copy.resident());
                    }
                }
                let seals = contents.seals();
                drop(contents);
                if !seals.is_empty() {
                    self.seal_later(&shuffle);
                }
                true
            }
            Err(error) => {
                tracing::warn!(shuffle = %shuffle.key(), directory = %directory.root().display(), %error, "cannot spill");
                if directory.health() == Health::Healthy {
                    directory.failed(&error); // whatever it was, the next job must not meet it at once
                }
                for slot in &slots {
                    if let Some(copy) = contents.copies.get_mut(slot) {
                        copy.spill_failed();
                    }
                }
                false
            }
        }
    }

    fn write_waiting_seals(self: &Arc<Self>, jobs: &mut JoinSet<()>) -> bool {
        let waiting = std::mem::take(&mut *self.unsealed());
        if waiting.is_empty() {
            return false;
        }
        let store = Arc::clone(self);
        jobs.spawn(async move {
            for shuffle in waiting {
                store.write_seals(&shuffle).await;
            }
        });
        true
    }

    /// Writes the winners, and the seals of committed locations that are wholly on disk, so that a restarted worker serves
    /// them. Returns how many seals were written.
    pub async fn write_seals(self: &Arc<Self>, shuffle: &Arc<Shuffle>) -> usize {
        let (seals, winners, is_news, directory, target) = {
            let mut contents = shuffle.lock();
            let winners = contents.state.winners().clone();
            let (seals, is_news) = (contents.seals(), winners != contents.winners_on_disk);
            let has_files = !contents.segments.is_empty();
            let Some(directory) = self.healthiest().filter(|_| has_files && (is_news || !seals.is_empty()))
            else {
                return 0;
            };
            let target = contents.writable_segment(&directory);
            (seals, winners, is_news, directory, target)
        };
        let _turn = directory.writes.acquire().await;
        let (key, place) = (shuffle.key().clone(), Arc::clone(&directory));
        let rows: Vec<_> = seals.iter().map(|(_, seal)| *seal).collect();
        let written = tokio::task::spawn_blocking(move || {
            let segment = segment_of(target, &place, &key)?;
            segment.seal(is_news.then(|| winners.attempts()), &rows)?;
            io::Result::Ok((segment, winners))
        });
        let Ok(Ok((segment, winners))) = written.await else {
            return 0; // they are served from here all the same, only a restart would not find them
        };
        let mut contents = shuffle.lock();
        if contents.gone {
            drop(contents);
            drop(tokio::task::spawn_blocking(move || segment.delete()));
            return 0;
        }
        contents.adopt(&segment);
        contents.winners_on_disk = winners;
        for (slot, _) in &seals {
            if let Some(copy) = contents.copies.get_mut(slot) {
                copy.sealed_on_disk();
            }
        }
        seals.len()
    }

    /// Brings every batch of committed locations to disk, with seals, and syncs: before a worker that will come back
    /// exits. Returns the shuffles that could not be brought there whole.
    pub async fn flush(self: &Arc<Self>) -> Vec<Arc<Shuffle>> {
        let mut failed = Vec::new();
        for shuffle in self.all() {
            if !self.flush_shuffle(&shuffle).await {
                failed.push(shuffle);
            }
        }
        failed
    }

    async fn flush_shuffle(self: &Arc<Self>, shuffle: &Arc<Shuffle>) -> bool {
        while let Some(job) = plan_of(Arc::clone(shuffle), JOB_BYTES) {
            let Some(directory) = self.healthiest() else {
                job.abandon();
                return false;
            };
            // A directory that fails is not healthy any more, so this ends.
            self.spill(job, directory).await;
        }
        if shuffle.resident() > 0 {
            return false; // a job of the spiller is on its way and did not come back
        }
        self.write_seals(shuffle).await;
        let segments = shuffle.lock().segments.clone();
        let synced =
            tokio::task::spawn_blocking(move || segments.iter().all(|segment| segment.sync().is_ok()));
        synced.await.unwrap_or(false)
    }
}

fn segment_of(
    target: Result<Arc<Segment>, u32>,
    directory: &Arc<Directory>,
    key: &ShuffleKey,
) -> io::Result<Arc<Segment>> {
    match target {
        Ok(segment) => Ok(segment),
        Err(number) => Segment::create(directory, key, number).map(Arc::new),
    }
}

fn plan_among(mut shuffles: Vec<Arc<Shuffle>>, bytes_max: u64) -> Option<SpillJob> {
    shuffles.sort_by_key(|shuffle| std::cmp::Reverse(shuffle.resident()));
    let largest = shuffles.first()?.resident();
    let near = shuffles.partition_point(|shuffle| shuffle.resident() >= largest / 2);
    shuffles[..near].sort_by_key(|shuffle| shuffle.touched_ms());
    shuffles.into_iter().find_map(|shuffle| plan_of(shuffle, bytes_max))
}

fn plan_of(shuffle: Arc<Shuffle>, bytes_max: u64) -> Option<SpillJob> {
    let mut contents = shuffle.lock();
    if contents.gone {
        return None;
    }
    let mut candidates: Vec<(u64, Slot)> = contents
        .copies
        .iter()
        .map(|(slot, copy)| (copy.spillable(), *slot))
        .filter(|(bytes, _)| *bytes > 0)
        .collect();
    candidates.sort_unstable_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let (mut slots, mut runs, mut planned) = (Vec::new(), Vec::new(), 0);
    for (bytes, slot) in candidates {
        if planned >= bytes_max {
            break;
        }
        if let Some(run) = contents.copies.get_mut(&slot).and_then(|copy| copy.begin_spill(bytes_max)) {
            planned += bytes.min(bytes_max);
            slots.push(slot);
            runs.push(run);
        }
    }
    if runs.is_empty() {
        return None;
    }
    if contents.order.is_none() {
        // Ids go to disk as they are read now. Every length so far reads the same both ways: take the JVM's order.
        contents.order = Some(ByteOrder::Little);
    }
    drop(contents);
    Some(SpillJob { shuffle, slots, runs })
}

impl SpillJob {
    /// Gives up before anything was written.
    fn abandon(self) {
        let mut contents = self.shuffle.lock();
        for slot in &self.slots {
            if let Some(copy) = contents.copies.get_mut(slot) {
                copy.spill_failed();
            }
        }
    }
}

impl Contents {
    /// What seals would say now.
    fn seals(&self) -> Vec<(Slot, Seal)> {
        let wanting =
            self.copies.iter().filter(|(slot, copy)| copy.wants_seal() && self.state.is_sealed(**slot));
        wanting.map(|(slot, copy)| (*slot, copy.seal())).collect()
    }
}
