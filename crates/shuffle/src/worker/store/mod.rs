//! Where batches live: in memory first, in append-only segments when memory is wanted for others.
//!
//! - [`shuffle`]: one shuffle behind its lock; [`copy`]: one copy of a location: index, runs on disk, batches in memory.
//! - [`lease`]: which shuffles are being deleted.
//! - [`record`]: the layout of a segment file; [`segment`]: writing and reading one; [`directory`]: the disks.
//! - [`spill`]: memory to disk; [`seal`]: what makes it readable after a restart; [`flush`]: all of that before a worker
//!   stops; [`read`]: both to a reader; [`recovery`]: what a restarted worker finds.

pub mod copy;
pub mod directory;
pub mod flush;
pub mod lease;
pub mod read;
pub mod record;
pub mod recovery;
pub mod seal;
pub mod segment;
pub mod shuffle;
pub mod spill;

#[cfg(test)]
mod disks;
#[cfg(test)]
mod model;
#[cfg(test)]
mod open_files;
#[cfg(test)]
mod restarts;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant, SystemTime};

use directory::{Directory, Health};
use lease::{Deletions, Lease};
use segment::Segment;
use shuffle::{Contents, Numbers, Shuffle};

use super::buffers::Buffers;
use super::memory::{Level, Memory};
use super::state::Pressure;
use crate::error::{Kind, Result};
use crate::ids::ShuffleKey;
use crate::metrics::{Counter, Timer};

/// The share of the memory that reads from disk may use, in 1/16; the rest is for batches.
const READ_SIXTEENTHS: u64 = 2;

/// How often is looked whether files are gone.
const DELETION_POLL: Duration = Duration::from_millis(10);

/// Everything that a worker stores.
#[derive(Debug)]
pub struct Store {
    memory: Memory,
    read_memory: Memory,
    buffers: Buffers,
    directories: Vec<Arc<Directory>>,
    /// Some could not be opened, or may not be mounted: what is not found may lie there.
    lacks_directories: bool,
    shuffles: RwLock<HashMap<ShuffleKey, Arc<Shuffle>>>,
    /// Committed shuffles whose seals are to be written, see [`seal`].
    unsealed: Mutex<Vec<Arc<Shuffle>>>,
    numbers: Arc<Numbers>,
    deletions: Deletions,
    spills: Timer,
    spilled_bytes: Counter,
    started: Instant,
}

/// The files of a shuffle that is not here any more.
#[derive(Debug)]
pub struct Removed {
    files: Vec<Arc<Segment>>,
    lease: Option<Arc<Lease>>,
    /// Whose folders go with all that is in them, because that is not known.
    unread: Option<ShuffleKey>,
}

/// How much later than another one a directory was used first that may be the empty place of a disk which is not mounted,
/// and for how long that is held possible: until then nothing is deleted for want of what may lie there.
const NEWER_BY: Duration = Duration::from_secs(60);
const NEW_FOR: Duration = Duration::from_secs(24 * 3600);

fn newer(directories: &[Arc<Directory>], now: SystemTime) -> impl Iterator<Item = &Arc<Directory>> {
    let first = directories.iter().map(|directory| directory.used_since()).min().unwrap_or(now);
    directories.iter().filter(move |directory| {
        let since = directory.used_since();
        // A clock that went back says nothing.
        let later = |than| since.duration_since(than).unwrap_or_default();
        later(first) > NEWER_BY && now.duration_since(since).unwrap_or_default() < NEW_FOR
    })
}

impl Store {
    /// Opens and locks the directories. `memory_bytes` is for batches, indexes and read buffers together.
    ///
    /// # Errors
    /// A directory that belongs to another worker, or, if none can be used, the first one, by name.
    pub fn open(paths: &[PathBuf], memory_bytes: u64, reserve_bytes: Option<u64>) -> Result<Self> {
        let mut directories = Vec::with_capacity(paths.len());
        let mut first_error = None;
        for path in paths {
            match Directory::open(path, reserve_bytes) {
                Ok(directory) => directories.push(Arc::new(directory)),
                Err(error) if error.kind() == Kind::Conflict => return Err(error),
                Err(error) => {
                    tracing::warn!(directory = %path.display(), %error, "left out until the worker starts again");
                    first_error.get_or_insert(error);
                }
            }
        }
        let mut lacks_directories = first_error.is_some();
        if let (Some(error), true) = (first_error, directories.is_empty()) {
            return Err(error);
        }
        for directory in newer(&directories, SystemTime::now()) {
            let directory = directory.root().display();
            tracing::warn!(%directory, "new beside directories that are not: is its disk mounted?");
            lacks_directories = true;
        }
        let read_bytes = memory_bytes / 16 * READ_SIXTEENTHS;
        Ok(Self {
            directories,
            lacks_directories,
            memory: Memory::new(memory_bytes - read_bytes),
            read_memory: Memory::new(read_bytes),
            buffers: Buffers::default(),
            shuffles: RwLock::default(),
            unsealed: Mutex::default(),
            numbers: Arc::default(),
            deletions: Deletions::default(),
            spills: Timer::default(),
            spilled_bytes: Counter::default(),
            started: Instant::now(),
        })
    }

    /// The ledger of batches and indexes.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The ledger of buffers for reads from disk.
    pub fn read_memory(&self) -> &Memory {
        &self.read_memory
    }

    /// What bodies and reads lie in.
    pub fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// Changes how much memory there is, reads included.
    pub fn set_memory_bytes(&self, memory_bytes: u64) {
        let read_bytes = memory_bytes / 16 * READ_SIXTEENTHS;
        self.memory.set_limit(memory_bytes - read_bytes);
        self.read_memory.set_limit(read_bytes);
    }

    /// Write jobs that brought batches from memory to a segment.
    pub fn spills(&self) -> &Timer {
        &self.spills
    }

    /// Bytes that they brought.
    pub fn spilled_bytes(&self) -> &Counter {
        &self.spilled_bytes
    }

    /// The directories, in the order given.
    pub fn directories(&self) -> &[Arc<Directory>] {
        &self.directories
    }

    /// Milliseconds since the store was opened.
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn shuffles(&self) -> RwLockReadGuard<'_, HashMap<ShuffleKey, Arc<Shuffle>>> {
        self.shuffles.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn shuffles_mut(&self) -> RwLockWriteGuard<'_, HashMap<ShuffleKey, Arc<Shuffle>>> {
        self.shuffles.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A shuffle that is here.
    pub fn find(&self, key: &ShuffleKey) -> Option<Arc<Shuffle>> {
        self.shuffles().get(key).cloned()
    }

    /// A shuffle, made if it is not here; `None` while files of an earlier one of that number are being deleted.
    pub fn find_or_insert(&self, key: &ShuffleKey) -> Option<Arc<Shuffle>> {
        if let Some(shuffle) = self.find(key) {
            return Some(shuffle);
        }
        let mut shuffles = self.shuffles_mut();
        if let Some(shuffle) = shuffles.get(key) {
            return Some(Arc::clone(shuffle));
        }
        // Under the lock under which it left the table.
        if self.deletions.has(key) {
            return None;
        }
        let lease = self.deletions.lease(key);
        let shuffle =
            Arc::new(Shuffle::new(key.clone(), lease, self.memory.clone(), Arc::clone(&self.numbers)));
        shuffles.insert(key.clone(), Arc::clone(&shuffle));
        Some(shuffle)
    }

    /// Decides about a shuffle, which is made if it is not here, under its lock; `None` while files of an earlier one of
    /// that number are being deleted, and if what is here of it could not be read.
    pub fn with_shuffle<T>(&self, key: &ShuffleKey, decide: impl FnOnce(&mut Contents) -> T) -> Option<T> {
        loop {
            let shuffle = self.find_or_insert(key)?;
            let mut contents = shuffle.lock();
            if !contents.gone {
                return (!contents.is_unread).then(|| decide(&mut contents));
            }
            // Deleted between the two lines: the next turn finds that it is, or makes a new one.
        }
    }

    /// How many shuffles are here or being deleted.
    pub fn shuffle_count(&self) -> usize {
        self.shuffles().len() + self.deletions.count()
    }

    /// Shuffles that are not here any more, of which there may be files.
    pub fn deleting(&self) -> Vec<ShuffleKey> {
        self.deletions.all()
    }

    /// Waits until there are no files any more of shuffles that were removed, but no longer than that. Returns whether it is
    /// so; only those of which there may be some are left in `keys`.
    pub async fn are_deleted(&self, keys: &mut Vec<ShuffleKey>, within: Duration) -> bool {
        let deleted = async {
            loop {
                keys.retain(|key| self.deletions.has(key));
                if keys.is_empty() {
                    break;
                }
                tokio::time::sleep(DELETION_POLL).await;
            }
        };
        tokio::time::timeout(within, deleted).await.is_ok()
    }

    /// Every shuffle that is here.
    pub fn all(&self) -> Vec<Arc<Shuffle>> {
        self.shuffles().values().cloned().collect()
    }

    /// Forgets a shuffle and gives back its memory. Returns its files, which nobody needs any more: see [`Store::delete`].
    /// Until they are gone, and all that is being written for it, there is no new shuffle of that number.
    pub fn remove(&self, key: &ShuffleKey) -> Option<Removed> {
        let shuffle = {
            let mut shuffles = self.shuffles_mut();
            let shuffle = shuffles.remove(key)?;
            self.deletions.begin(key);
            shuffle
        };
        let (memory, removed) = {
            let mut contents = shuffle.lock();
            contents.gone = true;
            shuffle.shrank(shuffle.resident());
            let (files, lease) = (std::mem::take(&mut contents.segments), contents.lease.take());
            let unread = contents.is_unread.then(|| key.clone());
            let memory = (std::mem::take(&mut contents.copies), contents.take_slots_charge());
            (memory, Removed { files, lease, unread })
        };
        removed.lease.iter().for_each(|lease| lease.end());
        self.unsealed().retain(|waiting| !Arc::ptr_eq(waiting, &shuffle));
        drop(memory); // outside the lock: giving it back wakes who waits for it
        Some(removed)
    }

    /// Deletes files, those of each directory in their turn and by themselves: a disk that stands still holds up nothing
    /// but its own.
    pub fn delete(self: &Arc<Self>, Removed { files, lease, unread }: Removed) {
        let mut lots: Vec<(Arc<Directory>, Vec<Arc<Segment>>)> = match unread {
            Some(_) => self.directories.iter().map(|directory| (Arc::clone(directory), Vec::new())).collect(),
            None => Vec::new(),
        };
        for segment in files {
            match lots.iter_mut().find(|(directory, _)| Arc::ptr_eq(directory, segment.directory())) {
                Some((_, lot)) => lot.push(segment),
                None => lots.push((Arc::clone(segment.directory()), vec![segment])),
            }
        }
        for (directory, files) in lots {
            let lot = Removed { files, lease: lease.clone(), unread: unread.clone() };
            tokio::spawn(Arc::clone(self).delete_lot(directory, lot));
        }
    }

    async fn delete_lot(self: Arc<Self>, directory: Arc<Directory>, lot: Removed) {
        let _turn = directory.deletions.acquire().await;
        let place = Arc::clone(&directory);
        let deleted = tokio::task::spawn_blocking(move || {
            let Removed { files, lease, unread } = lot;
            // Each is closed as well, which is when the disk has its space again, unless someone reads it.
            files.into_iter().for_each(|segment| segment.delete());
            if let Some(key) = unread {
                segment::delete_all(&place, &key);
            }
            drop(lease);
            place.measure()
        });
        if let Ok(Err(error)) = deleted.await {
            tracing::warn!(directory = %directory.root().display(), %error, "cannot be measured");
        }
        self.memory.wake_spiller(); // there may be space again
    }

    /// Deletes a file of a shuffle that nobody has heard of, or that has gone meanwhile.
    pub fn delete_file(self: &Arc<Self>, segment: Arc<Segment>, lease: Option<Arc<Lease>>) {
        self.delete(Removed { files: vec![segment], lease, unread: None });
    }

    /// What the worker is going through, for decisions about who finds memory at `level`.
    pub fn pressure(&self, leaving: bool, level: Level) -> Pressure {
        let has_room =
            |directory: &Arc<Directory>| directory.health() == Health::Healthy && !directory.lacks_files();
        let room = || self.directories.iter().any(has_room);
        let exhausted = level >= Level::Tight && (!room() || self.memory.is_mostly_fixed());
        Pressure { leaving, memory_tight: level >= Level::Tight, exhausted }
    }

    fn unsealed(&self) -> MutexGuard<'_, Vec<Arc<Shuffle>>> {
        self.unsealed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
