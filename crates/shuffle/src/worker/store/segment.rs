//! A segment: an append-only file for spilled batches of one shuffle in one directory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use yeoul_disk::{Disk, DiskFile, Open, is_want_of_files};

use super::directory::Directory;
use super::identity::Identity;
use super::record::{self, RunRow, Seal};
use crate::ids::{AttemptId, DriverId, FileName, ShuffleKey};
use crate::stored_name;

/// Bytes gathered before a write; larger batches are written directly.
const GATHER_BYTES: usize = 1 << 20;

/// How often creating a file is retried if its folder disappears meanwhile, as a folder does with its last file.
const CREATE_ATTEMPTS_MAX: usize = 4;

/// How often to try to create a file while there are no descriptors.
const OPEN_RETRY: Duration = Duration::from_millis(50);

/// Batches of one location that leave memory together.
#[derive(Debug)]
pub struct RunToWrite {
    /// The location.
    pub file: FileName,
    /// Distinguishes locations that had this name one after the other.
    pub life: u64,
    /// The number of the first batch within the location.
    pub first: u32,
    /// The index data of each batch; the write fills in the checksums.
    pub rows: Vec<RunRow>,
}

/// The batches of all runs of a write, in order, until it is given up: then a disk that hangs keeps the batch that it is
/// writing and no others. A small one may be part of a large buffer, which would stay in memory with it. Clones are the same
/// batches.
#[derive(Debug, Clone)]
pub struct Batches(Arc<Mutex<Option<Vec<Bytes>>>>);

/// The cause of the error of a write that was given up, which is not the disk's.
#[derive(Debug, thiserror::Error)]
#[error("its batches are gone, or were written elsewhere meanwhile")]
struct GivenUp;

impl Batches {
    /// Batches that are to be written.
    pub fn new(batches: Vec<Bytes>) -> Self {
        Self(Arc::new(Mutex::new(Some(batches))))
    }

    /// Takes the batches away from whoever still writes them.
    pub fn give_up(&self) {
        let batches = self.lock().take();
        drop(batches); // outside the lock: it frees memory
    }

    /// Whether both are those of the same write.
    pub fn are(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<Bytes>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, number: usize) -> io::Result<Bytes> {
        let batch = self.lock().as_ref().map(|batches| batches[number].clone());
        batch.ok_or_else(|| io::Error::other(GivenUp))
    }
}

/// Where a run was written.
#[derive(Debug)]
pub struct WrittenRun {
    /// The file offset of its first batch.
    pub at: u64,
    /// CRC-32 of each batch.
    pub checksums: Box<[u32]>,
}

/// Whether a read may block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Only what the system has in its cache.
    Never,
    /// On a thread that may block.
    ForTheDisk,
}

/// One file of batches.
#[derive(Debug)]
pub struct Segment {
    directory: Arc<Directory>,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    /// The file that its path named when it was opened; `None` if the file system did not say.
    identity: Option<Identity>,
    /// The end of the last whole record; locked while writing, so that there is one writer.
    tail: Mutex<u64>,
    len: AtomicU64,
    /// Closed for further runs.
    closed: AtomicBool,
    /// A single-batch file whose head is not written yet.
    headless: AtomicBool,
    /// The file is deleted; its space is freed with the last handle.
    gone: AtomicBool,
}

impl Segment {
    /// Creates a file for a shuffle, with this number or, if it is taken, the next free one. Blocks; if too many files are
    /// open it waits for some to be closed.
    ///
    /// # Errors
    /// As the file system reports; the directory is told.
    pub fn create(directory: &Arc<Directory>, key: &ShuffleKey, mut number: u32) -> io::Result<Self> {
        // It would make a folder that is gone again.
        directory.check_identity()?;
        let (disk, folder) = (directory.disk(), folder(directory, key));
        let open = |path: &Path| {
            disk.create_folder_all(&folder)?;
            disk.open(path, Open::CreateNew)
        };
        let wait = if directory.lacks_files() { Duration::ZERO } else { directory.open_wait };
        let deadline = Instant::now() + wait;
        let mut attempts = 1;
        loop {
            let path = folder.join(format!("{number:08}.segment"));
            let error = match open(&path) {
                Ok(file) => {
                    directory.gave_file();
                    return Ok(Self::of(directory, path, file, 0));
                }
                Err(error) => error,
            };
            if is_want_of_files(&error) && Instant::now() < deadline {
                thread::sleep(OPEN_RETRY);
            } else if error.kind() == io::ErrorKind::NotFound && attempts < CREATE_ATTEMPTS_MAX {
                attempts += 1;
            } else if error.kind() == io::ErrorKind::AlreadyExists && path.exists() {
                number = number.wrapping_add(1);
            } else {
                delete_empty(&**disk, &folder);
                directory.refused(&error);
                return Err(error);
            }
        }
    }

    /// Creates a single-batch file, for a batch that is written while it arrives; see [`Segment::write_part`].
    ///
    /// # Errors
    /// As for [`Segment::create`].
    pub fn create_for_one(directory: &Arc<Directory>, key: &ShuffleKey, number: u32) -> io::Result<Self> {
        let segment = Self::create(directory, key, number)?;
        segment.closed.store(true, Ordering::Relaxed);
        segment.headless.store(true, Ordering::Relaxed);
        Ok(segment)
    }

    /// Where the batch of a single-batch file begins: after its head and table.
    pub const LARGE_BATCH_AT: u64 = (record::HEAD_LEN + record::RUN_ROW_LEN) as u64;

    /// Writes a part of the batch of a single-batch file. Blocks.
    ///
    /// # Errors
    /// As the file system reports; the directory is told.
    pub fn write_part(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, at).inspect_err(|error| self.directory.failed(error))?;
        self.directory.count_written(bytes.len() as u64);
        let end = at + bytes.len() as u64;
        let before = self.len.fetch_max(end, Ordering::Relaxed);
        self.directory.count_stored(end.saturating_sub(before));
        Ok(())
    }

    /// Writes the head of a single-batch file, once its batch is complete. Blocks.
    ///
    /// # Errors
    /// As for [`Segment::write_part`].
    pub fn finish_one(&self, file: FileName, life: u64, first: u32, row: RunRow) -> io::Result<()> {
        let mut head = Vec::with_capacity(Self::LARGE_BATCH_AT as usize);
        record::encode_run(file, life, first, &[row], &mut head);
        self.write_part(0, &head)?;
        self.headless.store(false, Ordering::Release);
        Ok(())
    }

    /// Whether a restarted worker finds what is in it: a single-batch file has to be finished first.
    pub fn is_finished(&self) -> bool {
        !self.headless.load(Ordering::Acquire)
    }

    /// Opens a file of an earlier process of this worker; it is read and never written again.
    ///
    /// # Errors
    /// As the file system reports.
    pub fn open(directory: &Arc<Directory>, path: &Path) -> io::Result<Self> {
        let file = directory.disk().open(path, Open::Read)?;
        let len = file.len()?;
        let segment = Self::of(directory, path.to_owned(), file, len);
        segment.closed.store(true, Ordering::Relaxed);
        Ok(segment)
    }

    fn of(directory: &Arc<Directory>, path: PathBuf, file: Box<dyn DiskFile>, len: u64) -> Self {
        directory.count_stored(len);
        Self {
            directory: Arc::clone(directory),
            identity: Identity::of(&path).ok(),
            path,
            file,
            tail: Mutex::new(len),
            len: AtomicU64::new(len),
            closed: AtomicBool::new(false),
            headless: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        }
    }

    /// The directory that it is in.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it takes more runs. Closed are files with a failed write, single-batch files, and those of an earlier process
    /// of this worker.
    pub fn is_writable(&self) -> bool {
        !self.closed.load(Ordering::Relaxed)
    }

    /// Bytes of whole records.
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether nothing has been written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends runs, all or none, and returns where they are. Blocks.
    ///
    /// # Errors
    /// As the file system reports, of which the directory is told; or that the batches were given up. The file is cut back to
    /// its last whole record.
    pub fn append(&self, runs: &mut [RunToWrite], batches: &Batches) -> io::Result<Vec<WrittenRun>> {
        self.write(|writer| {
            let (mut written, mut next) = (Vec::with_capacity(runs.len()), 0);
            for run in runs {
                let first = next;
                next += run.rows.len();
                for (row, number) in run.rows.iter_mut().zip(first..) {
                    row.checksum = crc32fast::hash(&batches.get(number)?);
                }
                record::encode_run(run.file, run.life, run.first, &run.rows, &mut writer.gathered);
                let at = writer.position();
                for number in first..next {
                    writer.put(batches.get(number)?)?;
                }
                written.push(WrittenRun { at, checksums: run.rows.iter().map(|row| row.checksum).collect() });
            }
            Ok(written)
        })
    }

    /// Appends what makes locations readable after a restart: the winners, with the birth of the shuffle, and a seal for
    /// each. Blocks.
    ///
    /// # Errors
    /// As for [`Segment::append`].
    pub fn seal(
        &self,
        winners: Option<(u64, &[AttemptId], Option<DriverId>)>,
        seals: &[Seal],
    ) -> io::Result<()> {
        self.write(|writer| {
            if let Some((birth, winners, driver)) = winners {
                record::encode_winners(birth, winners, driver, &mut writer.gathered);
            }
            for seal in seals {
                record::encode_seal(seal, &mut writer.gathered);
                writer.flush_if_full()?;
            }
            Ok(())
        })
    }

    fn write<T>(&self, fill: impl FnOnce(&mut Writer<'_>) -> io::Result<T>) -> io::Result<T> {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_writable() {
            return Err(io::Error::other("an earlier write to this segment failed"));
        }
        let mut writer = Writer { segment: self, at: *tail, gathered: Vec::with_capacity(GATHER_BYTES) };
        let outcome = fill(&mut writer).and_then(|value| writer.flush().map(|()| value));
        match outcome {
            Ok(value) => {
                self.directory.count_written(writer.at - *tail);
                self.directory.count_stored(writer.at - *tail);
                *tail = writer.at;
                self.len.store(*tail, Ordering::Relaxed);
                Ok(value)
            }
            Err(error) => {
                // Nothing may follow a torn record, so the file is closed for further runs and cut to free the space.
                self.closed.store(true, Ordering::Relaxed);
                if let Err(cut) = self.file.set_len(*tail) {
                    tracing::debug!(path = %self.path.display(), error = %cut, "cannot cut a torn segment");
                }
                if !error.get_ref().is_some_and(|cause| cause.is::<GivenUp>()) {
                    self.directory.failed(&error);
                }
                Err(error)
            }
        }
    }

    /// Reads bytes. Blocks.
    ///
    /// # Errors
    /// As the file system reports; a file that is too short counts as damaged.
    pub fn read(&self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.read_into(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Fills `bytes`. Blocks.
    ///
    /// # Errors
    /// As for [`Segment::read`].
    pub fn read_into(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, at)
    }

    /// Reads what is available, at least one byte; does not block unless allowed.
    ///
    /// # Errors
    /// As for [`Segment::read`]; and an error if it must not block but would, for whatever reason.
    pub fn read_some(&self, at: u64, bytes: &mut [u8], wait: Wait) -> io::Result<usize> {
        let read = match wait {
            Wait::ForTheDisk => self.file.read_at(bytes, at)?,
            Wait::Never => self.file.read_cached_at(bytes, at)?,
        };
        if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(read) }
    }

    /// Asks the system to read ahead. Waits for the disk only if that is overloaded.
    pub fn fetch(&self, at: u64, len: u64) {
        self.file.will_need(at, len);
    }

    /// Syncs everything to disk. Blocks.
    ///
    /// # Errors
    /// As the file system reports. Never retried: what was lost from the cache stays lost.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data().inspect_err(|error| {
            self.closed.store(true, Ordering::Relaxed);
            self.directory.failed(error);
        })
    }

    /// Checks that a restarted worker finds the file: that it is there under its path, and its folder is the one that was
    /// opened. Blocks.
    ///
    /// # Errors
    /// As the file system reports; the directory is told of what is wrong with its folder. The file alone may have been
    /// deleted with its shuffle.
    pub fn check_is_there(&self) -> io::Result<()> {
        self.directory.check_identity()?;
        self.identity.map_or(Ok(()), |identity| identity.check(&self.path))
    }

    /// Removes the file; readers that have it open go on. A missing file counts as removed. Blocks.
    ///
    /// # Errors
    /// As the file system reports: the file still exists, and a restart may find it.
    pub fn delete(&self) -> io::Result<()> {
        self.closed.store(true, Ordering::Relaxed);
        let disk = &**self.directory.disk();
        unless_missing(disk.remove_file(&self.path))?;
        self.gone.store(true, Ordering::Relaxed);
        if let Some(folder) = self.path.parent() {
            delete_empty(disk, folder);
        }
        Ok(())
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if *self.gone.get_mut() {
            self.directory.count_gone(*self.len.get_mut());
        }
    }
}

/// Removes the folders of a shuffle and its application; fails, as it should, unless they are empty.
fn delete_empty(disk: &dyn Disk, folder: &Path) {
    let _ = disk.remove_folder(folder);
    let _ = folder.parent().map(|parent| disk.remove_folder(parent));
}

/// Removes everything in a directory that belongs to a shuffle that is being deleted. Blocks.
///
/// # Errors
/// As the file system reports: there may be files left.
pub fn delete_all(directory: &Directory, key: &ShuffleKey) -> io::Result<()> {
    let (disk, folder) = (&**directory.disk(), folder(directory, key));
    unless_missing(disk.remove_folder_all(&folder))?;
    delete_empty(disk, &folder);
    Ok(())
}

fn unless_missing(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Gathers small pieces into large writes.
struct Writer<'a> {
    segment: &'a Segment,
    /// The file offset of the first gathered byte.
    at: u64,
    gathered: Vec<u8>,
}

impl Writer<'_> {
    fn position(&self) -> u64 {
        self.at + self.gathered.len() as u64
    }

    fn put(&mut self, batch: Bytes) -> io::Result<()> {
        if batch.len() >= GATHER_BYTES / 4 {
            self.flush()?;
            return self.write(&batch);
        }
        self.gathered.extend_from_slice(&batch);
        drop(batch); // it need not be there for as long as the disk takes
        self.flush_if_full()
    }

    fn flush_if_full(&mut self) -> io::Result<()> {
        // A batch that is gathered is smaller than a quarter, so the buffer does not outgrow its capacity.
        if self.gathered.len() >= GATHER_BYTES / 4 * 3 { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut gathered = std::mem::take(&mut self.gathered);
        self.write(&gathered)?;
        gathered.clear();
        self.gathered = gathered;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.segment.file.write_all_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

/// The folder of a shuffle's files.
pub fn folder(directory: &Directory, key: &ShuffleKey) -> PathBuf {
    directory.home().join(stored_name::encode(&key.application)).join(key.shuffle.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::io::Errno;
    use yeoul_disk::{Fault, FaultyDisk, Operation};

    use super::super::directory::DirectoryOptions;
    use super::super::tests::quick;
    use super::*;
    use crate::ids::{BatchId, LocationId, MapId, Mode};

    fn run(partition: i32, first: u32, sizes: &[usize]) -> (RunToWrite, Vec<Bytes>) {
        let batches: Vec<Bytes> = sizes
            .iter()
            .enumerate()
            .map(|(at, len)| {
                (0..*len).map(|byte| (byte * 7 + at + partition as usize) as u8).collect::<Vec<_>>().into()
            })
            .collect();
        let rows = batches.iter().enumerate().map(|(at, batch)| RunRow {
            len: batch.len() as u32,
            map: MapId(at as i32),
            attempt: AttemptId(0),
            batch: BatchId(1),
            checksum: 0,
        });
        let file = FileName { location: LocationId::new(partition, 0), mode: Mode::Primary };
        (RunToWrite { file, life: 1, first, rows: rows.collect() }, batches)
    }

    #[test]
    fn runs_of_every_size_read_back_where_they_were_put() {
        let place = tempfile::tempdir().unwrap();
        let directory = Arc::new(Directory::open(place.path(), &quick()).unwrap());
        let segment = Segment::create(&directory, &ShuffleKey::new("app/../x", 3), 0).unwrap();
        let (mut runs, batches): (Vec<_>, Vec<_>) = [
            run(0, 0, &[1, 40, 0, GATHER_BYTES / 4, 3]),
            run(1, 0, &[GATHER_BYTES / 4 - 1; 9]),
            run(2, 5, &[3 * GATHER_BYTES, 17]),
        ]
        .into_iter()
        .unzip();
        let written = segment.append(&mut runs, &Batches::new(batches.concat())).unwrap();
        for (batches, written) in batches.iter().zip(&written) {
            let mut at = written.at;
            for (batch, checksum) in batches.iter().zip(&written.checksums) {
                let found = segment.read(at, batch.len()).unwrap();
                assert_eq!(found, *batch);
                assert_eq!(crc32fast::hash(&found), *checksum);
                at += batch.len() as u64;
            }
        }
        assert_eq!(directory.written(), segment.len());
        assert!(segment.path.starts_with(directory.home()), "{}", segment.path.display());
        segment.delete().unwrap();
        assert_eq!(fs::read_dir(directory.home()).unwrap().count(), 1, "only the lock is left");
        assert!(segment.read(written[0].at, 1).is_ok(), "who reads goes on");
    }

    #[test]
    fn a_file_that_cannot_be_made_leaves_no_folder() {
        let place = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::new();
        let options = DirectoryOptions { disk: disk.clone(), ..quick() };
        let directory = Arc::new(Directory::open(place.path(), &options).unwrap());
        let too_many = disk.inject(Fault::fails(Operation::Open, Errno::MFILE));
        let create = || {
            assert!(Segment::create(&directory, &ShuffleKey::new("app", 3), 0).is_err());
            too_many.happened()
        };
        let tried = create();
        assert!(tried > 1, "it waits for one to be closed");
        assert_eq!(create(), tried + 1, "the next one does not wait as well");
        assert_eq!(fs::read_dir(directory.home()).unwrap().count(), 1, "only the lock is left");
    }

    #[test]
    fn an_application_may_have_any_name() {
        let place = tempfile::tempdir().unwrap();
        let directory = Arc::new(Directory::open(place.path(), &quick()).unwrap());
        for name in ["application_17_0001", "..", "a/b", "spark-é%2F", ".hidden", "a b", "lock", "probe"] {
            let segment = Segment::create(&directory, &ShuffleKey::new(name, 0), 0).unwrap();
            let application = segment.path.parent().unwrap().parent().unwrap();
            assert_eq!(application.parent().unwrap(), directory.home());
            let folder = application.file_name().unwrap().to_str().unwrap();
            assert_eq!(stored_name::decode(folder), Some(name.into()));
            assert!(directory.probe().is_ok(), "{name}");
        }
    }
}
