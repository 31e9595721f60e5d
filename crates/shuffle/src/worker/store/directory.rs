//! A directory for spilled batches: a volume, and turns for the work on it.

use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use yeoul_disk::{Disk, RealDisk, Turn, Turns, Volume, VolumeOptions, unusable_folder};

use super::identity::OpenedFolder;
use crate::error::Result;
pub use crate::report::Health;
use crate::stored_name::{LOCK, PROBE};

/// Concurrent reads of one directory; the others wait without occupying a thread.
const READS_MAX: u32 = 8;

/// Large batches written to one directory at a time, so that a disk that hangs does not use up the threads that read the
/// others.
const LARGE_WRITES_MAX: u32 = 4;

/// Bytes that one write job takes out of memory: large enough to be written sequentially, small enough that memory is freed
/// steadily.
pub(super) const JOB_BYTES: u64 = 16 << 20;

/// The longest that one write job, the seals of one shuffle, or one sync may take; after that the directory counts as
/// failed.
pub(super) const STEP_MAX: Duration = Duration::from_secs(120);

/// Free bytes that a full directory needs to take seals. Batches leave the reserve alone, but without their small seals they
/// would be lost at a restart.
const SEALS_FREE_BYTES_MIN: u64 = 1 << 20;

/// The subdirectory for shuffles, so that the directory can be shared with other programs.
const HOME: &str = "yeoul-shuffle";

/// How directories are used.
#[derive(Debug, Clone)]
pub struct DirectoryOptions {
    /// Bytes to leave free in each file system; `None` for 5 GiB, or a twentieth of a small one.
    pub reserve_bytes: Option<u64>,
    /// How long to wait for a file descriptor if the previous attempt succeeded.
    pub open_wait: Duration,
    /// The pause before the next attempt to create a file in a directory after none could be opened there.
    pub open_pause: Duration,
    /// How often a failed deletion is retried.
    pub deletion_retry: Duration,
    /// The disk that they are on.
    pub disk: Arc<dyn Disk>,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self {
            reserve_bytes: None,
            open_wait: Duration::from_secs(5),
            open_pause: Duration::from_secs(1),
            deletion_retry: Duration::from_secs(5),
            disk: Arc::new(RealDisk),
        }
    }
}

/// One directory of a worker: a [`Volume`], and the turns of those who work on it.
#[derive(Debug)]
pub struct Directory {
    volume: Volume,
    opened: OpenedFolder,
    /// See [`DirectoryOptions::open_wait`].
    pub(super) open_wait: Duration,
    /// One spill at a time, which keeps a disk's writes sequential.
    pub(super) writes: Turns,
    pub(super) reads: Turns,
    /// One deletion at a time: a disk that hangs blocks one thread, however much is to be deleted there.
    pub(in crate::worker) deletions: Turns,
    /// One attempt at a time to see whether a file can be opened, for the same reason.
    pub(super) looks: Turns,
    pub(in crate::worker) large_writes: Turns,
}

/// What is known of its space and health.
impl Deref for Directory {
    type Target = Volume;

    fn deref(&self) -> &Volume {
        &self.volume
    }
}

impl Directory {
    /// Opens a directory, creating it if it is missing, and locks it. Blocks.
    ///
    /// # Errors
    /// `Conflict` if another worker uses it; else as the file system reports.
    pub fn open(root: &Path, options: &DirectoryOptions) -> Result<Self> {
        let volume = VolumeOptions {
            lock: LOCK,
            probe: PROBE,
            reserve_bytes: options.reserve_bytes,
            room_bytes: JOB_BYTES,
            open_pause: options.open_pause,
            disk: Arc::clone(&options.disk),
            ..VolumeOptions::new(HOME, "batches", "worker")
        };
        let purpose = volume.purpose;
        let volume = Volume::open(root, volume)?;
        let opened = OpenedFolder::open(volume.home(), LOCK);
        Ok(Self {
            opened: opened.map_err(|error| unusable_folder(root, purpose, error))?,
            volume,
            open_wait: options.open_wait,
            writes: Turns::new(1),
            reads: Turns::new(READS_MAX),
            deletions: Turns::new(1),
            looks: Turns::new(1),
            large_writes: Turns::new(LARGE_WRITES_MAX),
        })
    }

    /// Checks that it still is the folder that was opened, and if it is, probes the disk: see [`Volume::probe`]. Blocks.
    ///
    /// # Errors
    /// As the file system reports, or that the folder is another one: then it has failed, and stays so until it is back, as an
    /// unmounted disk may be.
    pub fn probe(&self) -> io::Result<()> {
        self.check_identity()?;
        self.volume.probe()
    }

    /// Checks that it still is the folder that was opened: what is written to another one, a restarted worker would not find.
    /// Blocks.
    ///
    /// # Errors
    /// As the file system reports; the volume then counts as failed.
    pub(super) fn check_identity(&self) -> io::Result<()> {
        self.opened.check(self.home(), LOCK).inspect_err(|error| self.refused(error))
    }

    /// Whether nothing is being written to it.
    pub(in crate::worker) fn is_idle(&self) -> bool {
        self.writes.free() > 0
    }

    /// Whether seals may be written: a directory whose remaining space is the reserve still takes them.
    pub(super) fn takes_seals(&self) -> bool {
        self.takes_into_reserve(SEALS_FREE_BYTES_MIN)
    }

    /// For tests: a disk that hangs. No batches are written here until the result is dropped; reads go on.
    #[doc(hidden)]
    pub async fn stand_still(&self) -> [Turn; 2] {
        [self.large_writes.take_all().await, self.writes.take_all().await]
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use rustix::io::Errno;

    use super::super::tests::quick;
    use super::*;
    use crate::error::Kind;
    use crate::heard::Heard;

    #[test]
    fn a_directory_belongs_to_one_worker() {
        let place = tempfile::tempdir().unwrap();
        let first = Directory::open(place.path(), &quick()).unwrap();
        let error = Directory::open(place.path(), &quick()).unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict);
        assert!(error.to_string().ends_with("yeoul-shuffle is in use by another worker"), "{error}");
        drop(first);
        assert!(Directory::open(place.path(), &quick()).is_ok());
    }

    #[test]
    fn seals_go_into_the_reserve_and_not_where_a_write_found_no_space() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open(place.path(), &quick()).unwrap();
        let _ = directory.lacks_room();
        assert_eq!((directory.health(), directory.takes_seals()), (Health::Full, true));
        directory.failed(&io::ErrorKind::StorageFull.into());
        assert_eq!((directory.health(), directory.takes_seals()), (Health::Full, false));
        directory.measure().unwrap();
        assert!(directory.takes_seals(), "there is space again");
        directory.hangs();
        assert!(!directory.takes_seals());
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        std::fs::write(&path, "").unwrap();
        let error = Directory::open(&path, &quick()).unwrap_err();
        let expected = format!("cannot use '{}' for batches: it is not a directory", path.display());
        assert_eq!(error.to_string(), expected);
        let error = Directory::open(&path.join("below"), &quick()).unwrap_err();
        assert!(error.to_string().ends_with("(os error 20)"), "{error}");
    }

    #[test]
    fn that_a_directory_takes_nothing_is_said_once_and_so_is_that_it_does_again() {
        let place = tempfile::tempdir().unwrap();
        let (heard, _listening) = Heard::begin();
        let all = DirectoryOptions { reserve_bytes: Some(u64::MAX), ..quick() };
        let directory = Directory::open(place.path(), &all).unwrap();
        let mut expected = String::new();
        let mut is_said = |parts: [&str; 3]| {
            let said = heard.text();
            let line = said.strip_prefix(expected.as_str()).unwrap();
            assert!(line.lines().count() == 1 && parts.iter().all(|part| line.contains(part)), "{said}");
            expected = said;
        };
        let root = place.path().display().to_string();
        is_said([" WARN ", &root, "16777216.0 TiB reserved; free space or lower --disk-reserve\n"]);
        directory.measure().unwrap();
        let _ = directory.lacks_room();
        directory.set_reserve(0);
        directory.measure().unwrap();
        is_said([" INFO ", &root, " takes batches again: "]);
        directory.measure().unwrap();
        let _ = directory.lacks_room();
        is_said([" WARN ", &root, " takes nothing: "]);
        let _ = directory.lacks_room();
        directory.measure().unwrap();
        is_said([" INFO ", &root, " free, 0 B reserved\n"]);
        directory.limit(1 << 20);
        directory.count_stored(1 << 20);
        directory.measure().unwrap();
        is_said([" WARN ", &root, " fills its capacity of 1 MiB\n"]);
        directory.count_gone(1 << 19);
        directory.measure().unwrap();
        is_said([" INFO ", &root, " takes batches again: 512 KiB of its capacity of 1 MiB left\n"]);
    }

    #[test]
    fn that_a_directory_fails_is_said_once() {
        let place = tempfile::tempdir().unwrap();
        let (heard, _listening) = Heard::begin();
        let directory = Directory::open(place.path(), &quick()).unwrap();
        let fail = |errno: Errno| (0..3).for_each(|_| directory.failed(&errno.into()));
        let is_said = |times: usize| {
            assert_eq!(heard.text().matches("directory excluded: ").count(), times, "{}", heard.text());
        };
        fail(Errno::NOSPC);
        is_said(1);
        assert!(!directory.may_take(1), "it was tried");
        fail(Errno::IO);
        is_said(2);
        fail(Errno::NOSPC);
        is_said(2);
        assert!(!directory.may_take(0));
        directory.probe().unwrap();
        fail(Errno::IO);
        is_said(3);
    }
}
