use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::io::Errno;
use tokio::sync::Notify;
use yeoul_base::{ByteSize, Result};

use crate::{Disk, DiskFile, FolderLock, LockOptions, Open, RealDisk, read_file, unusable_folder};

/// What a probe writes and reads back.
const PROBE: &[u8] = b"the disk remembers what it was told";

/// How a folder is used for the data of a server.
#[derive(Debug, Clone)]
pub struct VolumeOptions {
    /// The subfolder that is the server's own, so that the folder can be shared with other programs; empty for the folder
    /// itself.
    pub home: &'static str,
    /// The file in it that is locked.
    pub lock: &'static str,
    /// The file in it that probes write.
    pub probe: &'static str,
    /// What it is for, as messages say it: "batches".
    pub purpose: &'static str,
    /// What it belongs to, as messages say it: "server".
    pub owner: &'static str,
    /// How long to wait for the lock of a server that has ended: a write that nobody waits for any more holds it until it is
    /// done.
    pub lock_wait: Duration,
    /// Bytes to leave free in the file system; `None` for 5 GiB (Celeborn's `storage.disk.reserve.size`), or a twentieth of
    /// a small one, which that could be all of.
    pub reserve_bytes: Option<u64>,
    /// Usable bytes that make a full volume healthy again, because with less the next piece of work would fail; of a volume
    /// that can never have that much, a quarter of what it can hold.
    pub room_bytes: u64,
    /// The pause before the next attempt to open a file after none could be opened for lack of descriptors.
    pub open_pause: Duration,
    /// The disk.
    pub disk: Arc<dyn Disk>,
}

impl VolumeOptions {
    /// The defaults for a server's folder `home`, which is for `purpose` and belongs to an `owner`.
    pub fn new(home: &'static str, purpose: &'static str, owner: &'static str) -> Self {
        Self {
            home,
            lock: "lock",
            probe: "probe",
            purpose,
            owner,
            lock_wait: Duration::from_secs(2),
            reserve_bytes: None,
            room_bytes: 16 << 20,
            open_pause: Duration::from_secs(1),
            disk: Arc::new(RealDisk),
        }
    }
}

/// Whether a volume can be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Health {
    /// Read and written.
    #[default]
    Healthy,
    /// It has no space above its reserve; what is there can be read.
    Full,
    /// A write, a read or a probe failed, or did not end.
    Failed,
}

/// One folder for the data of a server: its lock, the space that it may use, and its health.
///
/// ```text
/// <root>/<home>/lock      locked by the server for as long as it runs; made when the folder was first used
/// <root>/<home>/probe     written, synced, read back and removed by each probe
/// <root>/<home>/…         the server's files
/// ```
///
/// The owner counts what it writes and removes; [`measure`](Self::measure) asks the file system for the rest. An error of
/// the disk goes to [`refused`](Self::refused), which knows a full disk and a lack of descriptors from a broken one; only a
/// [`probe`](Self::probe) makes a broken one healthy again.
#[derive(Debug)]
pub struct Volume {
    options: VolumeOptions,
    root: PathBuf,
    home: PathBuf,
    used_since: SystemTime,
    reserve_bytes: AtomicU64,
    health: Mutex<Health>,
    /// Wakes who waits until it fails.
    failing: Notify,
    written: AtomicU64,
    total: AtomicU64,
    usable: AtomicU64,
    /// Free bytes at the last measurement, the reserve included; 0 after a write found no space.
    free: AtomicU64,
    /// Bytes of all files of the owner, including deleted ones that are still open.
    stored: AtomicU64,
    /// The most bytes of the owner's files; `u64::MAX` without a limit.
    capacity: AtomicU64,
    /// When a file could last not be opened for lack of descriptors, unless one was opened since.
    lacks_files: Mutex<Option<Instant>>,
    /// Held for as long as the server uses the folder: two in one folder would delete each other's files.
    _lock: FolderLock,
}

/// The cause of an error that the disk knows nothing of: see [`Volume::lacks_room`].
#[derive(Debug, thiserror::Error)]
#[error("it does not fit beside the reserve")]
struct NoRoom;

/// Whether opening failed for lack of file descriptors or memory: not the disk's fault, and temporary.
pub fn is_want_of_files(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// The space that makes a full volume healthy again.
fn room_wanted(room_bytes: u64, total_bytes: u64, reserve_bytes: u64, capacity_bytes: u64) -> u64 {
    room_bytes.min(total_bytes.saturating_sub(reserve_bytes).min(capacity_bytes) / 4)
}

impl Volume {
    /// Opens a folder, creating it if it is missing, and locks it. Blocks.
    ///
    /// # Errors
    /// `Conflict` if another server uses it; else as the file system reports.
    pub fn open(root: &Path, options: VolumeOptions) -> Result<Self> {
        let about = |error| unusable_folder(root, options.purpose, error);
        let home = if options.home.is_empty() { root.to_owned() } else { root.join(options.home) };
        options.disk.create_folder_all(&home).map_err(about)?;
        let VolumeOptions { lock: name, owner, lock_wait: wait, .. } = options;
        let lock = FolderLock::acquire(&home, LockOptions { name, owner, wait })?;
        let used_since = lock.first_locked()?;
        let space = options.disk.space(&home).map_err(about)?;
        let reserve_bytes = options.reserve_bytes.unwrap_or_else(|| (5 << 30).min(space.total_bytes / 20));
        let volume = Self {
            root: root.to_owned(),
            home,
            used_since,
            reserve_bytes: AtomicU64::new(reserve_bytes),
            health: Mutex::new(Health::Healthy),
            failing: Notify::new(),
            written: AtomicU64::new(0),
            total: AtomicU64::new(space.total_bytes),
            usable: AtomicU64::new(0),
            free: AtomicU64::new(0),
            stored: AtomicU64::new(0),
            capacity: AtomicU64::new(u64::MAX),
            lacks_files: Mutex::new(None),
            _lock: lock,
            options,
        };
        volume.measure().map_err(|error| unusable_folder(root, volume.options.purpose, error))?;
        Ok(volume)
    }

    /// The path given to the server.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of the server's files.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The disk, for the server's files.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.options.disk
    }

    /// When a server used it for the first time.
    pub fn used_since(&self) -> SystemTime {
        self.used_since
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
    pub async fn until_failed(&self) {
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
        // What was there before there was a limit may be more.
        self.capacity.load(Ordering::Relaxed).saturating_sub(self.stored())
    }

    /// Limits the bytes of the owner's files here. Existing ones stay, even above the limit.
    pub fn limit(&self, capacity_bytes: u64) {
        self.capacity.store(capacity_bytes, Ordering::Relaxed);
    }

    /// Bytes of the owner's files, as it counted them.
    pub fn stored(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }

    /// Counts bytes added to the owner's files here.
    pub fn count_stored(&self, bytes: u64) {
        self.stored.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts the bytes of a file that was removed.
    ///
    /// # Panics
    /// If more are removed than were added: the owner's files are counted wrongly.
    pub fn count_gone(&self, bytes: u64) {
        let before = self.stored.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "{bytes} bytes removed of {before} that are stored");
    }

    /// Free bytes, including the reserve.
    pub fn free(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    fn reserve(&self) -> u64 {
        self.reserve_bytes.load(Ordering::Relaxed)
    }

    /// Changes the bytes to leave free in the file system, from the next measurement on.
    pub fn set_reserve(&self, bytes: u64) {
        self.reserve_bytes.store(bytes, Ordering::Relaxed);
    }

    fn lacks_files_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.lacks_files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the last file could not be opened for lack of descriptors: then only open files are sure to be writable.
    pub fn lacks_files(&self) -> bool {
        self.lacks_files_since().is_some()
    }

    /// Whether to try to create a file: after a failure for lack of descriptors only now and then.
    pub fn takes_files(&self) -> bool {
        self.lacks_files_since().is_none_or(|since| since.elapsed() >= self.options.open_pause)
    }

    /// The pause between attempts to open a file while there are no descriptors.
    pub fn open_pause(&self) -> Duration {
        self.options.open_pause
    }

    /// Notes that a file was opened.
    pub fn gave_file(&self) {
        *self.lacks_files_since() = None;
    }

    /// Tries whether a file can be opened again. Blocks.
    pub fn look_for_file(&self) {
        match self.options.disk.open(&self.home, Open::Read) {
            Err(error) if is_want_of_files(&error) => self.refused(&error),
            // There are descriptors; a probe finds any other fault.
            _ => self.gave_file(),
        }
    }

    /// Whether something small and precious may be written: into a volume whose remaining space is the reserve, too, while
    /// that is at least so many bytes.
    pub fn takes_into_reserve(&self, free_bytes_min: u64) -> bool {
        match self.health() {
            Health::Healthy => true,
            Health::Full => self.free() >= free_bytes_min,
            Health::Failed => false,
        }
    }

    /// Bytes written since the start.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Counts bytes written.
    pub fn count_written(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
        // Without the limit of the capacity, which is counted separately. More than was usable fits when others made room.
        let left = self.usable.load(Ordering::Relaxed).saturating_sub(bytes);
        self.usable.store(left, Ordering::Relaxed);
    }

    /// Asks the file system how much space there is. A full volume becomes healthy once it has room for the next piece of
    /// work; a failed one stays failed until a probe succeeds. Blocks.
    ///
    /// # Errors
    /// As the file system reports.
    pub fn measure(&self) -> io::Result<()> {
        let space = self.options.disk.space(&self.home)?;
        self.total.store(space.total_bytes, Ordering::Relaxed);
        self.free.store(space.free_bytes, Ordering::Relaxed);
        self.usable.store(space.free_bytes.saturating_sub(self.reserve()), Ordering::Relaxed);
        let usable = self.usable();
        let capacity = self.capacity.load(Ordering::Relaxed);
        let wanted = room_wanted(self.options.room_bytes, self.total(), self.reserve(), capacity);
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
                let (root, purpose, room) = (self.root.display(), self.options.purpose, self.room().0);
                tracing::info!("{root} takes {purpose} again: {room}");
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
        let [free, reserved] = [self.free(), self.reserve()].map(ByteSize::from_bytes);
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

    /// Notes a failed write or read. A lack of space does not turn a failed volume into a full one: a disk that hung may
    /// report that at last, and a full volume comes back without a probe.
    pub fn failed(&self, error: &io::Error) {
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
    pub fn refused(&self, error: &io::Error) {
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

    /// Whether to try to write that many bytes to it. A full volume takes what still fits.
    pub fn may_take(&self, bytes: u64) -> bool {
        match self.health() {
            Health::Healthy => true,
            Health::Full => bytes <= self.usable(),
            Health::Failed => false,
        }
    }

    /// Notes that something does not fit above the reserve, although no write was tried. Returns the error for the writer;
    /// the volume is not blamed for it a second time.
    pub fn lacks_room(&self) -> io::Error {
        let lower = |health| if health == Health::Healthy { Health::Full } else { health };
        if self.change_health(lower) == Health::Healthy {
            self.say_full();
        }
        io::Error::new(io::ErrorKind::StorageFull, NoRoom)
    }

    /// Writes, syncs, reads and deletes a small file, and measures the space. Blocks; a caller on a runtime runs it on a
    /// thread for files and limits how long it waits. Success makes a failed volume healthy again.
    ///
    /// # Errors
    /// As the file system reports; the volume then counts as failed, unless only descriptors were lacking.
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

    /// Marks a volume as failed because an operation on it does not end.
    pub fn hangs(&self) {
        self.failed(&io::Error::from(io::ErrorKind::TimedOut));
    }

    fn write_and_read_back(&self) -> io::Result<()> {
        let (disk, path) = (&*self.options.disk, self.home.join(self.options.probe));
        let file: Box<dyn DiskFile> = disk.open(&path, Open::Replace)?;
        file.write_all_at(PROBE, 0)?;
        file.sync_data()?;
        let found = read_file(disk, &path)?;
        disk.remove_file(&path)?;
        if found == PROBE {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidData, "the probe file read back differently"))
        }
    }
}

#[cfg(test)]
mod tests;
