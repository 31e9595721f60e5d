use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use yeoul_disk::{
    Disk, DiskFile, Failure, Open, Sequential, create_file, make_folders, read_file, replace_file,
    sync_folder_of,
};

use super::{Storage, Unfinished};
use crate::error::{Error, ErrorKind, Result, corrupt};

/// Bytes of a large file that are gathered before a write.
const BUFFER_BYTES: usize = 1 << 20;

/// A folder of a disk. What is written is synced, with its name.
#[derive(Debug)]
pub struct LocalFolder {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
}

impl LocalFolder {
    /// The folder, which need not be there.
    pub fn new(disk: Arc<dyn Disk>, folder: &Path) -> Self {
        Self { disk, folder: folder.to_owned() }
    }

    fn path(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.folder.clone() } else { self.folder.join(path) }
    }

    fn names(&self, folder: &Path) -> Result<Vec<String>> {
        let paths = self.disk.list(folder).map_err(|error| {
            let text = format!("cannot read '{}'", folder.display());
            Error::new(ErrorKind::of_io(&error), text).with_source(error)
        })?;
        // Names that are no text are none of ours.
        Ok(paths.iter().filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect())
    }
}

impl Storage for LocalFolder {
    fn child(&self, name: &str) -> Arc<dyn Storage> {
        Arc::new(Self { disk: Arc::clone(&self.disk), folder: self.folder.join(name) })
    }

    fn name(&self) -> String {
        // A folder may be named as `.`.
        let whole = std::path::absolute(&self.folder).unwrap_or_else(|_| self.folder.clone());
        whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    fn display(&self, path: &str) -> String {
        self.path(path).display().to_string()
    }

    fn prepare(&self, folders: &[&str]) -> Result<()> {
        folders.iter().try_for_each(|folder| make_folders(&*self.disk, &self.path(folder)))?;
        Ok(())
    }

    fn make_folder(&self) -> Result<()> {
        Ok(make_folders(&*self.disk, &self.folder)?)
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let path = self.path(path);
        match read_file(&*self.disk, &path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // The disk has lost it, and will not find it again.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                Err(corrupt(Failure::at(&path)(error).to_string()))
            }
            read => Ok(Some(read.map_err(Failure::at(&path))?)),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        match self.names(&self.path(folder)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            names => names,
        }
    }

    fn folders(&self) -> Result<Vec<String>> {
        self.names(&self.folder)
    }

    fn create(&self, path: &str, bytes: &[u8]) -> Result<bool> {
        let path = self.path(path);
        Ok(create_file(&*self.disk, &path, &beside(&path), |file| file.write_all(bytes))?)
    }

    fn replace(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path(path);
        replace_file(&*self.disk, &path, &beside(&path), |file| file.write_all(bytes))?;
        Ok(())
    }

    fn begin(&self, path: &str) -> Result<Box<dyn Unfinished>> {
        let path = self.path(path);
        let file = self.disk.open(&path, Open::CreateNew).map_err(Failure::at(&path))?;
        let file = BufWriter::with_capacity(BUFFER_BYTES, Sequential::new(file));
        Ok(Box::new(UnfinishedFile { disk: Arc::clone(&self.disk), path, file }))
    }

    fn remove(&self, folder: &str, names: &[String]) -> Result<()> {
        for name in names {
            let path = self.path(folder).join(name);
            match self.disk.remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Failure::at(&path)(error).into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn prune_interval(&self) -> u64 {
        1
    }
}

/// A file under its own name, which nobody looks at before a manifest names it.
struct UnfinishedFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: BufWriter<Sequential<Box<dyn DiskFile>>>,
}

impl Write for UnfinishedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|error| named(&self.path, error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(|error| named(&self.path, error))
    }
}

impl Unfinished for UnfinishedFile {
    fn finish(self: Box<Self>) -> Result<()> {
        let Self { disk, path, file } = *self;
        let file = file.into_inner().map_err(|error| Failure::at(&path)(error.into_error()))?;
        file.into_inner().sync_all().map_err(Failure::of_sync(&path))?;
        sync_folder_of(&*disk, &path)?;
        Ok(())
    }
}

/// An error of a writer that says which file it was: a full disk says nothing but that it is full.
fn named(path: &Path, error: io::Error) -> io::Error {
    // The writer tries again by itself.
    if error.kind() == io::ErrorKind::Interrupted {
        return error;
    }
    io::Error::new(error.kind(), Failure::at(path)(error))
}

/// A name for what is to take the place of a file. A process that takes the query over may write the same file at the same time.
fn beside(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{:016x}.new", fastrand::u64(..)));
    beside.into()
}

#[cfg(test)]
mod tests {
    use yeoul_disk::{Fault, FaultyDisk, Operation, RealDisk};

    use super::*;

    #[test]
    fn a_disk_that_is_full_says_which_file_of_state_it_has_no_room_for() {
        let place = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::over(Arc::new(RealDisk));
        let folder = LocalFolder::new(disk.clone(), place.path());
        for (name, bytes) in [("small", 10), ("large", 3 * BUFFER_BYTES)] {
            let mut file = folder.begin(name).unwrap();
            let fault = disk.inject(Fault::fails(Operation::Write, Errno::NOSPC));
            let written = file.write_all(&vec![7; bytes]).map_err(Error::from);
            let error = written.and_then(|()| file.finish()).unwrap_err();
            assert!(fault.happened() >= 1, "{name}");
            let text = error.to_string();
            assert!(text.starts_with(&format!("{}: No space left", folder.display(name))), "{text}");
        }
    }
}
