use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::fault::{Fault, Faults, Injection, Operation};
use super::power::content;
use crate::{Disk, DiskFile, Open, RealDisk, Space};

/// A disk that does what another does, until a test [injects](Self::inject) a fault, or lets the power
/// [fail](Self::lose_power).
///
/// ```
/// use std::sync::Arc;
/// use rustix::io::Errno;
/// use yeoul_disk::{Disk, Fault, FaultyDisk, Open, Operation};
///
/// let folder = tempfile::tempdir()?;
/// let disk = FaultyDisk::new();
/// let file = disk.open(&folder.path().join("file"), Open::CreateNew)?;
/// let full = disk.inject(Fault::fails(Operation::Write, Errno::NOSPC));
/// assert_eq!(file.write_all_at(b"abc", 0).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
/// assert_eq!(full.happened(), 1);
/// drop(full);
/// file.write_all_at(b"abc", 0)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FaultyDisk {
    inner: Arc<dyn Disk>,
    faults: Arc<Faults>,
}

impl FaultyDisk {
    /// One over the system's.
    pub fn new() -> Arc<Self> {
        Self::over(Arc::new(RealDisk))
    }

    /// One over another.
    pub fn over(inner: Arc<dyn Disk>) -> Arc<Self> {
        Arc::new(Self { inner, faults: Arc::default() })
    }

    /// Lets a fault happen from now on, until the injection is dropped.
    pub fn inject(&self, fault: Fault) -> Injection {
        self.faults.inject(fault)
    }

    /// How often an operation was tried.
    pub fn count(&self, operation: Operation) -> u64 {
        self.faults.count(operation)
    }

    /// Takes a random part of what was not synced, by a seed, as a power failure does: ends of files, sectors within them,
    /// and the last changes of names. Only what was done through this disk is known to it. Whoever wrote has ended before,
    /// and what it did at its end did not reach the files: see [`Fault::fails_all`].
    ///
    /// # Panics
    /// If the file system refuses to.
    pub fn lose_power(&self, seed: u64) {
        let lost = self.faults.lock().unsynced.lose(&*self.inner, seed);
        lost.expect("the files can be changed, since they were before");
    }

    fn meet(&self, operation: Operation, path: &Path) -> io::Result<()> {
        self.faults.meet(operation, path).map(drop)
    }
}

impl Disk for FaultyDisk {
    fn create_folder_all(&self, folder: &Path) -> io::Result<()> {
        self.meet(Operation::CreateFolder, folder)?;
        self.inner.create_folder_all(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.meet(Operation::List, folder)?;
        self.inner.list(folder)
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        self.meet(Operation::Open, path)?;
        let is_new = how != Open::Read && self.inner.open(path, Open::Read).is_err();
        let file = self.inner.open(path, how)?;
        if how != Open::Read {
            let mut state = self.faults.lock();
            state.unsynced.opened(path, file.len()?, is_new);
            if how == Open::Replace {
                state.unsynced.cut(path, 0);
            }
        }
        let (path, faults) = (path.to_owned(), self.faults.clone());
        Ok(Box::new(FaultyFile { inner: file, path, faults }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.meet(Operation::Rename, from)?;
        let replaced = content(&*self.inner, to);
        self.inner.rename(from, to)?;
        self.faults.lock().unsynced.renamed(from, to, replaced);
        Ok(())
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.meet(Operation::Rename, from)?;
        self.inner.rename_new(from, to)?;
        self.faults.lock().unsynced.renamed(from, to, None);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.meet(Operation::Remove, path)?;
        let content = content(&*self.inner, path);
        self.inner.remove_file(path)?;
        if let Some(content) = content {
            self.faults.lock().unsynced.removed(path, content);
        }
        Ok(())
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        self.meet(Operation::Remove, folder)?;
        self.inner.remove_folder(folder)
    }

    fn remove_folder_all(&self, folder: &Path) -> io::Result<()> {
        self.meet(Operation::Remove, folder)?;
        self.inner.remove_folder_all(folder)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.meet(Operation::SyncFolder, folder)?;
        self.inner.sync_folder(folder)?;
        self.faults.lock().unsynced.synced_folder(folder);
        Ok(())
    }

    fn space(&self, folder: &Path) -> io::Result<Space> {
        self.meet(Operation::Space, folder)?;
        self.inner.space(folder)
    }
}

#[derive(Debug)]
struct FaultyFile {
    inner: Box<dyn DiskFile>,
    path: PathBuf,
    faults: Arc<Faults>,
}

impl FaultyFile {
    fn sync(&self, sync: impl FnOnce(&dyn DiskFile) -> io::Result<()>) -> io::Result<()> {
        // What is written while it runs may not be part of it.
        let len = self.inner.len()?;
        self.faults.meet(Operation::Sync, &self.path)?;
        sync(&*self.inner)?;
        self.faults.lock().unsynced.synced(&self.path, len);
        Ok(())
    }
}

impl DiskFile for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        self.faults.meet(Operation::Read, &self.path)?;
        self.inner.read_at(bytes, at)
    }

    fn read_cached_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        self.inner.read_cached_at(bytes, at)
    }

    fn will_need(&self, at: u64, len: u64) {
        self.inner.will_need(at, len);
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        match self.faults.meet(Operation::Write, &self.path)? {
            None => self.inner.write_at(bytes, at),
            Some((len, errno)) => {
                self.inner.write_all_at(&bytes[..len.min(bytes.len())], at)?;
                Err(errno.into())
            }
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.faults.meet(Operation::SetLen, &self.path)?;
        self.inner.set_len(len)?;
        self.faults.lock().unsynced.cut(&self.path, len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync(|file| file.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync(|file| file.sync_all())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::thread;

    use rustix::io::Errno;

    use super::*;
    use crate::read_file;

    #[test]
    fn a_fault_happens_as_often_and_where_it_should() {
        let place = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::new();
        let at = |name: &str| place.path().join(name);
        let fault = disk.inject(Fault::fails(Operation::Open, Errno::MFILE).times(2).within("bad"));
        let open = |name| disk.open(&at(name), Open::WriteOrCreate).map(drop);
        open("good").unwrap();
        for _ in 0..2 {
            assert_eq!(open("bad").unwrap_err().raw_os_error(), Some(Errno::MFILE.raw_os_error()));
        }
        open("bad").unwrap();
        assert_eq!((fault.happened(), disk.count(Operation::Open)), (2, 4));
    }

    #[test]
    fn a_write_tears_and_a_torn_file_keeps_the_first_bytes() {
        let place = tempfile::tempdir().unwrap();
        let (disk, path) = (FaultyDisk::new(), place.path().join("file"));
        let file = disk.open(&path, Open::CreateNew).unwrap();
        let torn = disk.inject(Fault::tears(3, Errno::NOSPC));
        assert_eq!(file.write_all_at(b"abcdef", 0).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!((read_file(&*disk, &path).unwrap(), torn.happened()), (b"abc".to_vec(), 1));
    }

    #[test]
    fn what_hangs_goes_on_once_the_fault_is_over() {
        let place = tempfile::tempdir().unwrap();
        let (disk, path) = (FaultyDisk::new(), place.path().join("file"));
        let file = disk.open(&path, Open::CreateNew).unwrap();
        let hang = disk.inject(Fault::hangs(Operation::Write).times(1));
        thread::scope(|scope| {
            let writing = scope.spawn(|| file.write_all_at(b"abc", 0));
            hang.wait();
            assert_eq!(file.len().unwrap(), 0);
            file.write_all_at(b"x", 3).unwrap();
            drop(hang);
            writing.join().unwrap().unwrap();
        });
        assert_eq!(read_file(&*disk, &path).unwrap(), b"abcx");
    }

    #[test]
    fn power_takes_what_was_not_synced_and_nothing_else() {
        let mut ends = BTreeSet::new();
        for seed in 0..200 {
            let place = tempfile::tempdir().unwrap();
            let disk = FaultyDisk::new();
            let at = |name: &str| place.path().join(name);
            let file = disk.open(&at("kept"), Open::CreateNew).unwrap();
            file.write_all_at(&[7; 1000], 0).unwrap();
            file.sync_data().unwrap();
            disk.sync_folder(place.path()).unwrap();
            file.write_all_at(&[8; 1000], 1000).unwrap();
            disk.open(&at("new"), Open::CreateNew).unwrap();
            disk.rename(&at("new"), &at("named")).unwrap();
            drop(file);
            disk.lose_power(seed);
            let bytes = fs::read(at("kept")).unwrap();
            assert_eq!(bytes[..1000], [7; 1000]);
            assert!(bytes[1000..].iter().all(|byte| matches!(byte, 0 | 8)));
            let names: Vec<bool> = ["new", "named"].iter().map(|name| at(name).exists()).collect();
            assert_ne!(names, [true, true]);
            ends.insert((bytes.len() == 2000, bytes[1000..].contains(&0), names));
        }
        assert!(ends.len() >= 6, "everything that can be lost is, at times: {ends:?}");
    }

    #[test]
    fn a_file_that_was_removed_or_replaced_may_come_back_with_the_power() {
        let (mut back, mut gone) = (0, 0);
        for seed in 0..40 {
            let place = tempfile::tempdir().unwrap();
            let disk = FaultyDisk::new();
            let at = |name: &str| place.path().join(name);
            fs::write(at("removed"), "old").unwrap();
            fs::write(at("replaced"), "old").unwrap();
            fs::write(at("new"), "new").unwrap();
            disk.remove_file(&at("removed")).unwrap();
            disk.rename(&at("new"), &at("replaced")).unwrap();
            disk.lose_power(seed);
            if at("removed").exists() {
                assert_eq!(fs::read_to_string(at("removed")).unwrap(), "old");
                assert_eq!(fs::read_to_string(at("replaced")).unwrap(), "old", "the later change went first");
                back += 1;
            } else {
                gone += 1;
            }
        }
        assert!(back > 0 && gone > 0);
    }
}
