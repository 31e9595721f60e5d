//! A directory for spilled batches: its lock, free space and health.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::io::Errno;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use yeoul_base::ByteSize;

use crate::error::{Error, Kind, Result, unusable_directory};
pub use crate::report::Health;
use crate::stored_name::{LOCK, PROBE};

/// Concurrent reads of one directory; the others wait without occupying a thread.
const READS_MAX: usize = 8;

/// Large batches written to one directory at a time, so that a disk that hangs does not use up the threads that read the
/// others.
const LARGE_WRITES_MAX: usize = 4;

/// Bytes that one write job takes out of memory: large enough to be written sequentially, small enough that memory is freed
/// steadily.
pub(super) const JOB_BYTES: u64 = 16 << 20;

/// The longest that one write job, the seals of one shuffle, or one sync may take; after that the directory counts as
/// failed.
pub(super) const STEP_MAX: Duration = Duration::from_secs(120);

/// Free bytes that a full directory needs to take seals. Batches leave the reserve alone, but without their small seals they
/// would be lost at a restart.
const SEALS_FREE_BYTES_MIN: u64 = 1 << 20;

/// Pause before the next attempt to create a file in a directory after none could be opened there.
pub(super) const OPEN_PAUSE: Duration =
    if cfg!(test) { Duration::from_millis(500) } else { Duration::from_secs(1) };

/// Whether opening failed for lack of file descriptors or memory: not the disk's fault, and temporary.
pub(super) fn is_want_of_files(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// The space that makes a full directory healthy again: a write job, or a quarter of the most that it can hold if that is less.
fn room_wanted(total_bytes: u64, reserve_bytes: u64, capacity_bytes: u64) -> u64 {
    JOB_BYTES.min(total_bytes.saturating_sub(reserve_bytes).min(capacity_bytes) / 4)
}

/// The cause of an error that the disk knows nothing of: see [`Directory::lacks_room`].
#[derive(Debug, thiserror::Error)]
#[error("it does not fit beside the reserve")]
struct NoRoom;

/// The subdirectory for shuffles, so that the directory can be shared with other programs.
const HOME: &str = "yeoul-shuffle";

/// How long to wait for the lock of a worker that has ended: a write that nobody waits for any more holds it until it is
/// done.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_RETRY: Duration = Duration::from_millis(20);

/// One directory of a worker.
#[derive(Debug)]
pub struct Directory {
    root: PathBuf,
    home: PathBuf,
    used_since: SystemTime,
    reserve_bytes: u64,
    health: Mutex<Health>,
    /// Wakes who waits until it fails.
    failing: Notify,
    written: AtomicU64,
    total: AtomicU64,
    usable: AtomicU64,
    /// Free bytes at the last measurement, the reserve included; 0 after a write found no space.
    free: AtomicU64,
    /// Bytes of all segments, including deleted ones that are still open.
    stored: AtomicU64,
    /// The most bytes of segments; `u64::MAX` without a limit.
    capacity: AtomicU64,
    /// When a file could last not be opened for lack of descriptors, unless one was opened since.
    lacks_files: Mutex<Option<Instant>>,
    /// One spill at a time, which keeps a disk's writes sequential.
    pub(super) writes: Arc<Semaphore>,
    pub(super) reads: Arc<Semaphore>,
    /// One deletion at a time: a disk that hangs blocks one thread, however much is to be deleted there.
    pub(super) deletions: Semaphore,
    /// One attempt at a time to see whether a file can be opened, for the same reason.
    pub(super) looks: Arc<Semaphore>,
    pub(in crate::worker) large_writes: Arc<Semaphore>,
    /// How many more attempts to open a file the test makes fail.
    #[cfg(test)]
    pub(super) unopened: AtomicU64,
    /// What the next write to a segment waits for.
    #[cfg(test)]
    pub(super) hold: Mutex<Option<std::sync::mpsc::Receiver<()>>>,
    /// Held for as long as the process lives: two workers in one directory would delete each other's files.
    _lock: File,
}

/// Runs disk work on a thread, and returns the turn when the work ends, not when its caller stops waiting: work that hangs
/// keeps its turn, so that few threads hang.
pub(in crate::worker) async fn with_turn<T: Send + 'static>(
    turn: OwnedSemaphorePermit,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let working = tokio::task::spawn_blocking(move || {
        let worked = work();
        drop(turn);
        worked
    });
    working.await.unwrap_or_else(|panic| Err(io::Error::other(panic)))
}

/// Waits for one of a disk's turns.
pub(in crate::worker) async fn turn_of(turns: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    Arc::clone(turns).acquire_owned().await.expect("the semaphore is never closed")
}

impl Directory {
    /// Opens a directory, creating it if it is missing, and locks it.
    ///
    /// # Errors
    /// `Conflict` if another worker uses it; else as the file system reports.
    pub fn open(root: &Path, reserve_bytes: Option<u64>) -> Result<Self> {
        let about = |error| unusable_directory(root, "batches", error);
        let home = root.join(HOME);
        fs::create_dir_all(&home).map_err(about)?;
        let lock =
            File::options().create(true).truncate(false).write(true).open(home.join(LOCK)).map_err(about)?;
        let deadline = Instant::now() + LOCK_WAIT;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(LOCK_RETRY),
                Err(TryLockError::WouldBlock) => {
                    let text =
                        format!("directory {} belongs to another worker that is running", root.display());
                    let error = Error::new(Kind::Conflict, text);
                    return Err(error.with_hint("give each worker its own directory"));
                }
                Err(TryLockError::Error(error)) => return Err(about(error)),
            }
        }
        // Nothing is ever written to the lock file, so its time is that of its creation.
        let used_since = lock.metadata().and_then(|metadata| metadata.modified()).map_err(about)?;
        let space = rustix::fs::statvfs(&home).map_err(|error| about(error.into()))?;
        let total = space.f_blocks * space.f_frsize;
        // Celeborn keeps 5 GB free on each disk, which on a small disk could be all of it.
        let reserve_bytes = reserve_bytes.unwrap_or_else(|| (5 << 30).min(total / 20));
        let directory = Self {
            root: root.to_owned(),
            home,
            used_since,
            reserve_bytes,
            health: Mutex::new(Health::Healthy),
            failing: Notify::new(),
            written: AtomicU64::new(0),
            total: AtomicU64::new(total),
            usable: AtomicU64::new(0),
            free: AtomicU64::new(0),
            stored: AtomicU64::new(0),
            capacity: AtomicU64::new(u64::MAX),
            lacks_files: Mutex::new(None),
            writes: Arc::new(Semaphore::new(1)),
            reads: Arc::new(Semaphore::new(READS_MAX)),
            deletions: Semaphore::new(1),
            looks: Arc::new(Semaphore::new(1)),
            large_writes: Arc::new(Semaphore::new(LARGE_WRITES_MAX)),
            #[cfg(test)]
            unopened: AtomicU64::new(0),
            #[cfg(test)]
            hold: Mutex::default(),
            _lock: lock,
        };
        directory.measure().map_err(about)?;
        Ok(directory)
    }

    /// The path given to the worker.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// When a worker used it for the first time.
    pub(super) fn used_since(&self) -> SystemTime {
        self.used_since
    }

    /// The folder of this worker's segments.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// Whether it can be used.
    pub fn health(&self) -> Health {
        *self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the health depending on the present one, and returns the previous one.
    fn change_health(&self, change: impl FnOnce(Health) -> Health) -> Health {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *health;
        *health = change(before);
        if *health == Health::Failed && before != Health::Failed {
            self.failing.notify_waiters();
        }
        before
    }

    /// Returns when it has failed.
    pub(super) async fn until_failed(&self) {
        // It hears of a failure from here on, so that none is missed after the look.
        let failing = self.failing.notified();
        if self.health() != Health::Failed {
            failing.await;
        }
    }

    /// Bytes of the file system.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Bytes that may still be written: outside the reserve, when last measured, and within the capacity.
    pub fn usable(&self) -> u64 {
        self.usable.load(Ordering::Relaxed).min(self.capacity_left())
    }

    fn capacity_left(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed).saturating_sub(self.stored.load(Ordering::Relaxed))
    }

    /// Limits the bytes of segments here. Existing ones stay, even above the limit.
    pub fn limit(&self, capacity_bytes: u64) {
        self.capacity.store(capacity_bytes, Ordering::Relaxed);
    }

    /// Counts bytes added to segments here.
    pub(super) fn count_stored(&self, bytes: u64) {
        self.stored.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts the bytes of a segment that was removed.
    pub(super) fn count_gone(&self, bytes: u64) {
        self.stored.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Free bytes, including the reserve.
    pub fn free(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    fn lacks_files_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.lacks_files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the last file could not be opened for lack of descriptors: then only open files are sure to be writable.
    pub(super) fn lacks_files(&self) -> bool {
        self.lacks_files_since().is_some()
    }

    /// Whether to try to create a file: after a failure for lack of descriptors only now and then.
    pub(super) fn takes_files(&self) -> bool {
        self.lacks_files_since().is_none_or(|since| since.elapsed() >= OPEN_PAUSE)
    }

    /// Notes that a file was opened.
    pub(super) fn gave_file(&self) {
        *self.lacks_files_since() = None;
    }

    /// Tries whether a file can be opened again. Blocks.
    pub(super) fn look_for_file(&self) {
        #[cfg(test)]
        let opened = self.open_files_are_too_many().and_then(|()| File::open(&self.home));
        #[cfg(not(test))]
        let opened = File::open(&self.home);
        match opened {
            Err(error) if is_want_of_files(&error) => self.refused(&error),
            // There are descriptors; a probe finds any other fault.
            _ => self.gave_file(),
        }
    }

    /// Whether nothing is being written to it.
    pub(super) fn is_idle(&self) -> bool {
        self.writes.available_permits() > 0
    }

    /// Whether seals may be written: a directory whose remaining space is the reserve still takes them.
    pub(super) fn takes_seals(&self) -> bool {
        match self.health() {
            Health::Healthy => true,
            Health::Full => self.free() >= SEALS_FREE_BYTES_MIN,
            Health::Failed => false,
        }
    }

    /// Bytes written since the start.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    pub(super) fn count_written(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
        // Without the limit of the capacity, which is counted separately.
        let left = self.usable.load(Ordering::Relaxed).saturating_sub(bytes);
        self.usable.store(left, Ordering::Relaxed);
    }

    /// Asks the file system how much space there is. A full directory becomes healthy once it has space for a whole job,
    /// because with less the next job would fail; a failed one stays failed until a probe succeeds.
    ///
    /// # Errors
    /// As the file system reports.
    pub fn measure(&self) -> io::Result<()> {
        let space = rustix::fs::statvfs(&self.home)?;
        self.total.store(space.f_blocks * space.f_frsize, Ordering::Relaxed);
        let free = space.f_bavail * space.f_frsize;
        self.free.store(free, Ordering::Relaxed);
        self.usable.store(free.saturating_sub(self.reserve_bytes), Ordering::Relaxed);
        let usable = self.usable();
        let wanted = room_wanted(self.total(), self.reserve_bytes, self.capacity.load(Ordering::Relaxed));
        let now = |before: Health| match before {
            Health::Failed => Health::Failed,
            _ if usable == 0 => Health::Full,
            Health::Full if usable < wanted => Health::Full,
            _ => Health::Healthy,
        };
        let before = self.change_health(now);
        match (before, now(before)) {
            (Health::Healthy, Health::Full) => self.say_full(),
            (Health::Full, Health::Healthy) => {
                tracing::info!("{} takes batches again: {}", self.root.display(), self.room().0);
            }
            _ => {}
        }
        Ok(())
    }

    /// What limits what it takes, and where that is its capacity, which.
    fn room(&self) -> (String, Option<ByteSize>) {
        let left = self.capacity_left();
        if left <= self.usable.load(Ordering::Relaxed) {
            let capacity = ByteSize::from_bytes(self.capacity.load(Ordering::Relaxed));
            let left = ByteSize::from_bytes(left);
            return (format!("{left} of its capacity of {capacity} left"), Some(capacity));
        }
        let [free, reserved] = [self.free(), self.reserve_bytes].map(ByteSize::from_bytes);
        (format!("{free} free, {reserved} reserved"), None)
    }

    fn say_full(&self) {
        let root = self.root.display();
        match self.room() {
            (_, Some(capacity)) => {
                tracing::warn!("{root} takes nothing: what is stored there fills its capacity of {capacity}");
            }
            (room, None) => {
                tracing::warn!("{root} takes nothing: {room}; free space or lower --disk-reserve");
            }
        }
    }

    /// For tests: a disk that hangs. No batches are written here until the result is dropped; reads go on.
    #[doc(hidden)]
    pub async fn stand_still(&self) -> impl Sized + '_ {
        let large = self.large_writes.acquire_many(LARGE_WRITES_MAX as u32).await;
        (large, self.writes.acquire().await.expect("the semaphore is never closed"))
    }

    /// A disk on which deletions hang: no files are deleted until the result is dropped.
    #[cfg(test)]
    pub(in crate::worker) async fn keep_files(&self) -> impl Sized + '_ {
        self.deletions.acquire().await.expect("the semaphore is never closed")
    }

    /// A disk that hangs in its next write to a segment, until the result is dropped; probes and reads go on.
    #[cfg(test)]
    pub(in crate::worker) fn hang_in_write(&self) -> std::sync::mpsc::Sender<()> {
        let (goes_on, hold) = std::sync::mpsc::channel();
        *self.hold.lock().unwrap_or_else(PoisonError::into_inner) = Some(hold);
        goes_on
    }

    /// Whether no write hangs yet that is to.
    #[cfg(test)]
    pub(in crate::worker) fn is_to_hang(&self) -> bool {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Waits where the test wants a write to hang.
    #[cfg(test)]
    pub(super) fn hang_if_told(&self) {
        let hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner).take();
        hold.into_iter().for_each(|hold| _ = hold.recv()); // until its sender is gone
    }

    /// The error that a test asks for.
    #[cfg(test)]
    pub(super) fn open_files_are_too_many(&self) -> io::Result<()> {
        let fewer = |left: u64| left.checked_sub(1);
        match self.unopened.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer) {
            Ok(_) => Err(Errno::MFILE.into()),
            Err(_) => Ok(()),
        }
    }

    /// Notes a failed write or read. A lack of space does not turn a failed directory into a full one: a disk that hung may
    /// report that at last, and a full directory comes back without a probe.
    pub(super) fn failed(&self, error: &io::Error) {
        let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let (health, why) = if full { (Health::Full, "it is full") } else { (Health::Failed, "it failed") };
        if full {
            self.free.store(0, Ordering::Relaxed);
            self.usable.store(0, Ordering::Relaxed);
        }
        let before = self.change_health(|before| if before == Health::Failed { before } else { health });
        let directory = self.root.display();
        if before == Health::Failed || before == health {
            tracing::debug!(%directory, %error, "directory stays excluded: {why}");
        } else {
            tracing::warn!(%directory, %error, "directory excluded: {why}");
        }
    }

    /// Notes that an operation failed. It is the disk's fault only if there were descriptors to open a file.
    pub(super) fn refused(&self, error: &io::Error) {
        if error.get_ref().is_some_and(|cause| cause.is::<NoRoom>()) {
            return; // it may have room by now
        }
        if is_want_of_files(error) {
            if self.lacks_files_since().replace(Instant::now()).is_none() {
                tracing::warn!(directory = %self.root.display(), %error, "no file could be opened: what needs one waits");
            }
        } else {
            self.failed(error);
        }
    }

    /// Whether to try to write that many bytes to it. A full directory takes what still fits.
    pub(super) fn may_take(&self, bytes: u64) -> bool {
        match self.health() {
            Health::Healthy => true,
            Health::Full => bytes <= self.usable(),
            Health::Failed => false,
        }
    }

    /// Notes that batches do not fit above the reserve, although no write was tried. Returns the error for the writer; the
    /// directory is not blamed for it a second time.
    pub(super) fn lacks_room(&self) -> io::Error {
        let lower = |health| if health == Health::Healthy { Health::Full } else { health };
        if self.change_health(lower) == Health::Healthy {
            self.say_full();
        }
        io::Error::new(io::ErrorKind::StorageFull, NoRoom)
    }

    /// Writes, syncs, reads and deletes a small file, and measures the space. Blocks; a caller on a runtime runs it on a
    /// thread for files and limits how long it waits. Success makes a failed directory healthy again.
    ///
    /// # Errors
    /// As the file system reports; the directory then counts as failed, unless only descriptors were lacking.
    pub fn probe(&self) -> io::Result<()> {
        let outcome = self.write_and_read_back().and_then(|()| self.measure());
        match &outcome {
            Ok(()) => {
                self.gave_file();
                let lift = |health| if health == Health::Failed { Health::Healthy } else { health };
                if self.change_health(lift) == Health::Failed {
                    tracing::info!(directory = %self.root.display(), "directory is back");
                    self.measure()?;
                }
            }
            Err(error) => self.refused(error),
        }
        outcome
    }

    /// Marks a directory as failed because an operation on it does not end.
    pub fn hangs(&self) {
        self.failed(&io::Error::from(io::ErrorKind::TimedOut));
    }

    fn write_and_read_back(&self) -> io::Result<()> {
        #[cfg(test)]
        self.open_files_are_too_many()?;
        let path = self.home.join(PROBE);
        let expected = b"the disk remembers what it was told";
        let mut file = File::create(&path)?;
        file.write_all(expected)?;
        file.sync_data()?;
        let found = fs::read(&path)?;
        fs::remove_file(&path)?;
        if found == expected {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidData, "the probe file read back differently"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heard::Heard;

    #[tokio::test]
    async fn work_that_hangs_keeps_its_turn_and_a_waiter_that_gives_up_leaves_the_queue() {
        let turns = Arc::new(Semaphore::new(1));
        let (release, hung) = std::sync::mpsc::channel();
        let (begun, beginning) = tokio::sync::oneshot::channel();
        let turn = turn_of(&turns).await;
        let hanging = tokio::spawn(with_turn(turn, move || {
            begun.send(()).expect("the test waits for it");
            hung.recv().map_err(io::Error::other)
        }));
        beginning.await.unwrap();
        hanging.abort();
        assert!(hanging.await.unwrap_err().is_cancelled());
        assert_eq!(turns.available_permits(), 0);
        let brief = Duration::from_millis(10);
        assert!(tokio::time::timeout(brief, turn_of(&turns)).await.is_err());
        release.send(()).unwrap();
        let within = Duration::from_secs(20);
        let turn = tokio::time::timeout(within, turn_of(&turns)).await.expect("it comes back");
        assert_eq!(with_turn(turn, || Ok(7)).await.unwrap(), 7);
        assert_eq!(turns.available_permits(), 1);
    }

    #[test]
    fn a_directory_belongs_to_one_worker() {
        let place = tempfile::tempdir().unwrap();
        let first = Directory::open(place.path(), None).unwrap();
        let error = Directory::open(place.path(), None).unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict);
        drop(first);
        assert!(Directory::open(place.path(), None).is_ok());
    }

    #[test]
    fn the_reserve_is_left_alone_and_a_failed_directory_returns_with_a_probe() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open(place.path(), Some(u64::MAX)).unwrap();
        assert_eq!((directory.health(), directory.usable()), (Health::Full, 0));
        drop(directory);
        let directory = Directory::open(place.path(), Some(0)).unwrap();
        assert_eq!(directory.health(), Health::Healthy);
        directory.hangs();
        assert_eq!(directory.health(), Health::Failed);
        directory.probe().unwrap();
        assert_eq!(directory.health(), Health::Healthy);
    }

    #[test]
    fn what_failed_comes_back_with_a_probe_and_with_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open(place.path(), Some(0)).unwrap();
        directory.hangs();
        // The write that hung fails for lack of space at last, and something is deleted.
        directory.failed(&io::ErrorKind::StorageFull.into());
        directory.measure().unwrap();
        let _ = directory.lacks_room();
        directory.measure().unwrap();
        assert_eq!(directory.health(), Health::Failed);
        directory.probe().unwrap();
        assert_eq!(directory.health(), Health::Healthy);
    }

    #[test]
    fn seals_go_into_the_reserve_and_not_where_a_write_found_no_space() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open(place.path(), Some(0)).unwrap();
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
    fn a_directory_that_has_room_again_is_not_blamed_for_the_want_of_it_before() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open(place.path(), Some(0)).unwrap();
        let error = directory.lacks_room();
        assert_eq!((error.kind(), directory.health()), (io::ErrorKind::StorageFull, Health::Full));
        directory.measure().unwrap(); // something is deleted before the job says that it failed
        directory.refused(&error);
        assert_eq!(directory.health(), Health::Healthy);
        assert!(directory.takes_seals() && directory.usable() > 0);
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        fs::write(&path, "").unwrap();
        let error = Directory::open(&path, None).unwrap_err();
        let expected = format!("cannot use '{}' for batches: it is not a directory", path.display());
        assert_eq!(error.to_string(), expected);
        let error = Directory::open(&path.join("below"), None).unwrap_err();
        assert!(error.to_string().ends_with("(os error 20)"), "{error}");
    }

    #[test]
    fn that_a_directory_takes_nothing_is_said_once_and_so_is_that_it_does_again() {
        let place = tempfile::tempdir().unwrap();
        let (heard, _listening) = Heard::begin();
        let mut directory = Directory::open(place.path(), Some(u64::MAX)).unwrap();
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
        directory.reserve_bytes = 0;
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
    fn a_directory_of_which_little_is_not_reserved_comes_back() {
        let mib = |mib: u64| mib << 20;
        assert_eq!(room_wanted(mib(1000), mib(50), u64::MAX), mib(16));
        assert_eq!(room_wanted(mib(64), mib(56), u64::MAX), mib(2), "of the 8 that it has when it is empty");
        assert_eq!(room_wanted(mib(1000), mib(50), mib(8)), mib(2));
        assert_eq!(room_wanted(mib(64), mib(65), u64::MAX), 0);
    }

    #[test]
    fn a_directory_that_is_nearly_full_does_not_come_and_go() {
        let place = tempfile::tempdir().unwrap();
        let (heard, _listening) = Heard::begin();
        let directory = Directory::open(place.path(), Some(0)).unwrap();
        let said = || heard.text().lines().map(|line| line.trim_start()[..4].to_owned()).collect::<Vec<_>>();
        directory.limit(4 * JOB_BYTES);
        directory.count_stored(4 * JOB_BYTES - 10);
        for _ in 0..3 {
            let _ = directory.lacks_room(); // a job
            directory.measure().unwrap(); // something is deleted
        }
        assert_eq!((directory.health(), said()), (Health::Full, vec!["WARN".to_owned()]), "{}", heard.text());
        assert!(heard.text().ends_with(" fills its capacity of 64 MiB\n"), "{}", heard.text());
        assert!(directory.may_take(10) && !directory.may_take(11));
        directory.count_gone(JOB_BYTES);
        directory.measure().unwrap();
        assert_eq!(
            (directory.health(), said()),
            (Health::Healthy, ["WARN", "INFO"].map(String::from).to_vec())
        );
        // It is filled up, and a small one becomes healthy again, too.
        directory.limit(3 * JOB_BYTES);
        directory.measure().unwrap();
        assert_eq!((directory.health(), directory.usable()), (Health::Healthy, 10));
        directory.limit(3 * JOB_BYTES - 10);
        directory.measure().unwrap();
        assert_eq!(directory.health(), Health::Full);
        directory.count_gone(3 * JOB_BYTES - 10);
        directory.limit(2);
        directory.measure().unwrap();
        assert_eq!(directory.health(), Health::Healthy);
    }

    #[test]
    fn that_a_directory_fails_is_said_once() {
        let place = tempfile::tempdir().unwrap();
        let (heard, _listening) = Heard::begin();
        let directory = Directory::open(place.path(), Some(0)).unwrap();
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
