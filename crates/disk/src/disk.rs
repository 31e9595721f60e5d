use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What a server asks of a file system. [`RealDisk`](crate::RealDisk) is the system's; [`FaultyDisk`](crate::FaultyDisk)
/// fails, hangs and forgets when a test says so. All calls block.
///
/// # Errors
/// Every method: as the file system reports. After a failed sync the content of the file is unknown, and the sync is never
/// retried: the kernel reports the failure once and drops the pages.
pub trait Disk: fmt::Debug + Send + Sync + 'static {
    /// Makes a folder and its missing parents; one that is there is no error.
    fn create_folder_all(&self, folder: &Path) -> io::Result<()>;

    /// The paths of a folder's entries, sorted.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;

    /// Opens a file.
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>>;

    /// Gives a file another name, whose file it replaces. Neither is on the disk before its folder is synced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file another name, which no file may have yet. Neither is on the disk before its folder is synced.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty folder.
    fn remove_folder(&self, folder: &Path) -> io::Result<()>;

    /// Removes a folder with everything below it.
    fn remove_folder_all(&self, folder: &Path) -> io::Result<()>;

    /// Brings the names in a folder to the disk: without it a power failure may take a new file, or bring back a removed
    /// one.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// The space of the file system that a folder is on.
    fn space(&self, folder: &Path) -> io::Result<Space>;
}

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// An existing one, to be read. It may be a folder, which can be opened and not read.
    Read,
    /// An existing one, to be read and written.
    Write,
    /// To be read and written; made if it is missing.
    WriteOrCreate,
    /// To be read and written; there must be none yet.
    CreateNew,
    /// To be read and written, empty at first, whatever was there.
    Replace,
}

/// Bytes of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// All of them.
    pub total_bytes: u64,
    /// Those that this process may still write.
    pub free_bytes: u64,
}

/// An open file. Positions are bytes from its start; several threads may use it at the same time. All calls block, except
/// where one says that it does not.
#[allow(clippy::len_without_is_empty)] // its length is a question to the system
pub trait DiskFile: fmt::Debug + Send + Sync + 'static {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Reads at most as many bytes as fit, and returns how many; 0 at its end.
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize>;

    /// [`read_at`](Self::read_at) of what the system has in memory; an error if it would have to wait for the disk, or cannot
    /// know. Does not block.
    fn read_cached_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize>;

    /// Asks the system to read ahead: a hint.
    fn will_need(&self, at: u64, len: u64);

    /// Writes at least one byte, and returns how many.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize>;

    /// Cuts it, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Brings its content, and of its metadata what is needed to read it, to the disk.
    fn sync_data(&self) -> io::Result<()>;

    /// Brings its content and metadata to the disk.
    fn sync_all(&self) -> io::Result<()>;

    /// Fills `bytes`; `UnexpectedEof` if the file is too short.
    fn read_exact_at(&self, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.read_at(bytes, at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    bytes = &mut bytes[read..];
                    at += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all of `bytes`. After an error any part of them may be in the file.
    fn write_all_at(&self, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    at += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Reads a whole file. The caller knows that it is small, or that it wrote it itself.
///
/// # Errors
/// As the file system reports.
pub fn read_file(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, Open::Read)?;
    let mut bytes = vec![0; usize::try_from(file.len()?).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Reads or writes a [`DiskFile`] from its start on.
#[derive(Debug)]
pub struct Sequential<F> {
    file: F,
    at: u64,
}

impl<F: std::ops::Deref<Target: DiskFile>> Sequential<F> {
    /// From the first byte on.
    pub fn new(file: F) -> Self {
        Self { file, at: 0 }
    }

    /// The next position.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The file.
    pub fn into_inner(self) -> F {
        self.file
    }
}

impl<F: std::ops::Deref<Target: DiskFile>> io::Read for Sequential<F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(bytes, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl<F: std::ops::Deref<Target: DiskFile>> io::Write for Sequential<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write_at(bytes, self.at)?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
