//! Stores batches: first in memory, and in append-only segments when memory is short.
//!
//! - [`shuffle`]: one shuffle behind its lock; [`copy`]: one copy of a location: index, runs on disk, batches in memory.
//! - [`lease`]: which shuffles are being deleted; [`delete`]: deletes their files.
//! - [`record`]: the layout of a segment file; [`segment`]: writes and reads one; [`target`]: chooses the one to write to;
//!   [`directory`]: the disks; [`identity`]: whether a folder is still the one that was opened.
//! - [`spill`]: moves batches from memory to disk; [`seal`]: makes them readable after a restart; [`flush`]: does both
//!   before a worker stops, or before a commit is answered; [`read`]: reads from memory and disk; [`recovery`]: what a restarted worker finds.

pub(crate) mod copy;
pub(crate) mod delete;
pub(crate) mod directory;
pub(crate) mod flush;
pub(crate) mod identity;
pub(crate) mod lease;
pub(crate) mod read;
pub mod record;
pub(crate) mod recovery;
pub(crate) mod seal;
pub(crate) mod segment;
pub(crate) mod shuffle;
pub(crate) mod spill;
pub(crate) mod target;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant, SystemTime};

use delete::Undeleted;
use directory::{Directory, DirectoryOptions, Health};
use lease::Deletions;
use recovery::Unseen;
use shuffle::{Contents, Numbers, Shuffle};

use super::memory::{Buffers, Level, Memory, Party};
use super::state::Pressure;
use crate::error::{Kind, Result};
use crate::ids::ShuffleKey;
use crate::metrics::{Counter, Timer};

/// The share of the memory that reads from disk may use, in sixteenths; the rest is for batches.
const READ_SIXTEENTHS: u64 = 2;

/// How often to check whether files are gone.
const DELETION_POLL: Duration = Duration::from_millis(10);

/// Everything that a worker stores.
#[derive(Debug)]
pub struct Store {
    memory: Memory,
    read_memory: Memory,
    buffers: Buffers,
    directories: Vec<Arc<Directory>>,
    /// Whether a directory could not be opened, or may be unmounted: missing data may be there.
    lacks_directories: bool,
    /// What could not be listed when the store was opened.
    unseen: Mutex<Unseen>,
    shuffles: RwLock<HashMap<ShuffleKey, Arc<Shuffle>>>,
    /// Committed shuffles whose seals are waiting to be written, see [`seal`].
    unsealed: Mutex<Vec<Arc<Shuffle>>>,
    numbers: Arc<Numbers>,
    deletions: Deletions,
    undeleted: Mutex<Undeleted>,
    /// See [`DirectoryOptions::deletion_retry`].
    deletion_retry: Duration,
    spills: Timer,
    spilled_bytes: Counter,
    started: Instant,
}

/// A directory first used so much later than the others may be the mount point of an unmounted disk, for so long after its
/// first use; until then nothing is deleted because its missing part may be there.
const NEWER_BY: Duration = Duration::from_secs(60);
const NEW_FOR: Duration = Duration::from_secs(24 * 3600);

fn newer(directories: &[Arc<Directory>], now: SystemTime) -> impl Iterator<Item = &Arc<Directory>> {
    let first = directories.iter().map(|directory| directory.used_since()).min().unwrap_or(now);
    directories.iter().filter(move |directory| {
        let since = directory.used_since();
        // A clock that was set back tells nothing.
        let later = |than| since.duration_since(than).unwrap_or_default();
        later(first) > NEWER_BY && now.duration_since(since).unwrap_or_default() < NEW_FOR
    })
}

impl Store {
    /// Opens and locks the directories. `memory_bytes` is for batches, indexes and read buffers together.
    ///
    /// # Errors
    /// `Conflict` if a directory belongs to another worker, by its name; if none can be used, what the first one says.
    pub fn open(paths: &[PathBuf], memory_bytes: u64, options: &DirectoryOptions) -> Result<Self> {
        let mut directories = Vec::with_capacity(paths.len());
        let mut failed = Vec::new();
        for path in paths {
            match Directory::open(path, options) {
                Ok(directory) => directories.push(Arc::new(directory)),
                Err(error) if error.kind() == Kind::Conflict => return Err(error),
                Err(error) => failed.push(error),
            }
        }
        let mut lacks_directories = !failed.is_empty();
        for error in failed {
            if directories.is_empty() {
                return Err(error);
            }
            tracing::warn!("left out until the worker starts again: {error}");
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
            unseen: Mutex::default(),
            memory: Memory::new(memory_bytes - read_bytes),
            read_memory: Memory::new(read_bytes),
            buffers: Buffers::default(),
            shuffles: RwLock::default(),
            unsealed: Mutex::default(),
            numbers: Arc::default(),
            deletions: Deletions::default(),
            undeleted: Mutex::default(),
            deletion_retry: options.deletion_retry,
            spills: Timer::default(),
            spilled_bytes: Counter::default(),
            started: Instant::now(),
        })
    }

    /// Accounts for the memory of batches and indexes.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Accounts for the memory of buffers for reads from disk.
    pub fn read_memory(&self) -> &Memory {
        &self.read_memory
    }

    /// The buffers for message bodies and reads.
    pub fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// Changes how much memory there is, including that for reads.
    pub fn set_memory_bytes(&self, memory_bytes: u64) {
        let read_bytes = memory_bytes / 16 * READ_SIXTEENTHS;
        self.memory.set_limit(memory_bytes - read_bytes);
        self.read_memory.set_limit(read_bytes);
    }

    /// Counts and times the write jobs that moved batches from memory to a segment.
    pub fn spills(&self) -> &Timer {
        &self.spills
    }

    /// Bytes that they moved.
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

    /// A known shuffle.
    pub fn find(&self, key: &ShuffleKey) -> Option<Arc<Shuffle>> {
        self.shuffles().get(key).cloned()
    }

    /// A shuffle, created if unknown; `None` while files of an earlier one of that number are being deleted.
    pub fn find_or_insert(&self, key: &ShuffleKey) -> Option<Arc<Shuffle>> {
        if let Some(shuffle) = self.find(key) {
            return Some(shuffle);
        }
        let mut shuffles = self.shuffles_mut();
        if let Some(shuffle) = shuffles.get(key) {
            return Some(Arc::clone(shuffle));
        }
        // Set under the lock under which it was removed from the table.
        if self.deletions.has(key) {
            return None;
        }
        let lease = self.deletions.lease(key);
        let shuffle =
            Arc::new(Shuffle::new(key.clone(), lease, self.memory.clone(), Arc::clone(&self.numbers)));
        // Files of an earlier shuffle of that number, to be deleted together with this one.
        shuffle.lock().has_unseen_files = self.unseen().may_be_of(key);
        shuffles.insert(key.clone(), Arc::clone(&shuffle));
        Some(shuffle)
    }

    /// Calls `decide` with a shuffle, created if unknown, under its lock; `None` while files of an earlier one of that
    /// number are being deleted, or if its files could not be read.
    pub fn with_shuffle<T>(&self, key: &ShuffleKey, decide: impl FnOnce(&mut Contents) -> T) -> Option<T> {
        loop {
            let shuffle = self.find_or_insert(key)?;
            let mut contents = shuffle.lock();
            if !contents.gone {
                return (!contents.is_unread).then(|| decide(&mut contents));
            }
            // Deleted between these two lines: the next round finds that out, or creates a new one.
        }
    }

    /// How many shuffles are known or being deleted.
    pub fn shuffle_count(&self) -> usize {
        self.shuffles().len() + self.deletions.count()
    }

    /// Removed shuffles that may still have files.
    pub fn deleting(&self) -> Vec<ShuffleKey> {
        self.deletions.all()
    }

    /// Waits at most so long until the files of removed shuffles are gone. Returns whether they are; `keys` keeps those that
    /// may still have some.
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

    /// All known shuffles.
    pub fn all(&self) -> Vec<Arc<Shuffle>> {
        self.shuffles().values().cloned().collect()
    }

    /// The pressure on this worker at `level`, for decisions about memory: a party's, or of all.
    pub fn pressure(&self, leaving: bool, level: Level, party: Option<&Party>) -> Pressure {
        let has_room =
            |directory: &Arc<Directory>| directory.health() == Health::Healthy && !directory.lacks_files();
        let room = || self.directories.iter().any(has_room);
        let is_fixed = || match party {
            Some(party) => self.memory.has_its_part_of_fixed(party),
            None => self.memory.is_mostly_fixed(),
        };
        let exhausted = level >= Level::Tight && (!room() || is_fixed());
        Pressure { leaving, memory_tight: level >= Level::Tight, exhausted }
    }

    /// Whether a shuffle that is not known may be in what could not be read when the store was opened.
    pub fn may_have_unseen(&self, key: &ShuffleKey) -> bool {
        self.lacks_directories || self.unseen().may_be_of(key)
    }

    fn unseen(&self) -> MutexGuard<'_, Unseen> {
        self.unseen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unsealed(&self) -> MutexGuard<'_, Vec<Arc<Shuffle>>> {
        self.unsealed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
