//! Identities: whether a path still names the file or folder that it named before. Somebody may delete a directory under a
//! running worker, or unmount its disk. Open files go on working then, and a folder is soon made again under the old path,
//! but a restarted worker finds nothing of what was written.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file or folder, by the numbers that its file system gives it. They are not given to another one while it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
}

/// The cause of an error about a path that names something else now, or nothing.
#[derive(Debug, thiserror::Error)]
#[error("it is not what was opened: it was removed, replaced or unmounted")]
pub struct Replaced;

impl Identity {
    fn new(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    /// The identity of what a path names now. Blocks.
    ///
    /// # Errors
    /// As the file system reports.
    pub fn of(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|metadata| Self::new(&metadata))
    }

    /// Compares it with what a path names now. Blocks.
    ///
    /// # Errors
    /// [`Replaced`] if the path names another one or nothing; else as the file system reports.
    pub fn check(self, path: &Path) -> io::Result<()> {
        match Self::of(path) {
            Ok(found) if found == self => Ok(()),
            Ok(_) => Err(replaced()),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Err(replaced())
            }
            Err(error) => Err(error),
        }
    }
}

fn replaced() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, Replaced)
}

/// A folder and the lock in it, both held open.
#[derive(Debug)]
pub struct OpenedFolder {
    folder: Identity,
    lock: Identity,
    /// Keeps the numbers from being given to a folder that is made under the same path.
    _open: File,
}

impl OpenedFolder {
    /// Opens a folder; whoever calls holds the lock open. Blocks.
    ///
    /// # Errors
    /// As the file system reports.
    pub fn open(folder: &Path, lock: &str) -> io::Result<Self> {
        let open = File::open(folder)?;
        let identity = Identity::new(&open.metadata()?);
        Ok(Self { folder: identity, lock: Identity::of(&folder.join(lock))?, _open: open })
    }

    /// Compares folder and lock with what their paths name now. Blocks.
    ///
    /// # Errors
    /// As for [`Identity::check`].
    pub fn check(&self, folder: &Path, lock: &str) -> io::Result<()> {
        self.folder.check(folder)?;
        self.lock.check(&folder.join(lock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_made_again_under_its_path_is_another_one() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("folder");
        let make = || {
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("lock"), "").unwrap();
        };
        make();
        let (opened, lock) =
            (OpenedFolder::open(&folder, "lock").unwrap(), File::open(folder.join("lock")).unwrap());
        opened.check(&folder, "lock").unwrap();
        let is_replaced = || {
            let error = opened.check(&folder, "lock").unwrap_err();
            assert!(error.get_ref().is_some_and(|cause| cause.is::<Replaced>()), "{error}");
        };
        // A file system gives a free number again at once, but these are not free.
        for _ in 0..20 {
            fs::remove_dir_all(&folder).unwrap();
            is_replaced();
            make();
            is_replaced();
        }
        drop(lock);
    }

    #[test]
    fn a_folder_whose_lock_was_removed_does_not_count_as_held() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lock");
        fs::write(&path, "").unwrap();
        let (opened, _lock) = (OpenedFolder::open(place.path(), "lock").unwrap(), File::open(&path).unwrap());
        opened.check(place.path(), "lock").unwrap();
        fs::remove_file(&path).unwrap();
        assert!(opened.check(place.path(), "lock").is_err());
        fs::write(&path, "").unwrap();
        assert!(opened.check(place.path(), "lock").is_err());
    }

    #[test]
    fn a_folder_that_is_moved_away_and_back_is_the_same() {
        let place = tempfile::tempdir().unwrap();
        let (folder, away) = (place.path().join("folder"), place.path().join("away"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("lock"), "").unwrap();
        let opened = OpenedFolder::open(&folder, "lock").unwrap();
        fs::rename(&folder, &away).unwrap();
        assert!(opened.check(&folder, "lock").is_err());
        fs::rename(&away, &folder).unwrap();
        opened.check(&folder, "lock").unwrap();
    }
}
