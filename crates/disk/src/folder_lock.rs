use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use yeoul_base::{Error, ErrorKind, Result};

use crate::unusable_folder;

/// How often a lock that another process holds is tried.
const RETRY: Duration = Duration::from_millis(20);

/// The lock of a folder that one process at a time may use, held until this is dropped or the process ends, however it ends.
///
/// It is an advisory lock (flock) on an empty file in the folder; the file stays.
#[derive(Debug)]
pub struct FolderLock {
    path: PathBuf,
    file: File,
}

/// How to lock a folder.
#[derive(Debug, Clone, Copy)]
pub struct LockOptions<'a> {
    /// The name of the file in the folder.
    pub name: &'a str,
    /// What holds the lock, as in "in use by another worker".
    pub owner: &'a str,
    /// How long to wait for another process to let go: one that has ended may have left a write that holds it a moment longer.
    pub wait: Duration,
}

impl FolderLock {
    /// Locks a folder that exists. Blocks while it waits.
    ///
    /// # Errors
    /// `Conflict` if somebody else still holds it after the wait; else as the file system reports.
    pub fn acquire(folder: &Path, options: LockOptions<'_>) -> Result<Self> {
        let LockOptions { name, owner, wait } = options;
        let path = folder.join(name);
        let unusable = |error| unusable_folder(folder, "its lock", error);
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(unusable)?;
        let deadline = Instant::now() + wait;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { path, file }),
                Err(fs::TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(RETRY),
                Err(fs::TryLockError::WouldBlock) => {
                    let text = format!("{} is in use by another {owner}", folder.display());
                    let hint = "stop the other process, or give this one a directory of its own with --dir";
                    return Err(Error::new(ErrorKind::Conflict, text).with_hint(hint));
                }
                Err(fs::TryLockError::Error(error)) => return Err(unusable(error)),
            }
        }
    }

    /// The locked file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// When the folder was locked for the first time: nothing is ever written to the file, so its time is that of its
    /// creation.
    ///
    /// # Errors
    /// As the file system reports.
    pub fn first_locked(&self) -> Result<SystemTime> {
        Ok(self.file.metadata()?.modified()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: LockOptions<'_> = LockOptions { name: "lock", owner: "worker", wait: Duration::ZERO };

    #[test]
    fn a_folder_is_one_owners_until_it_lets_go() {
        let folder = tempfile::tempdir().unwrap();
        let first = FolderLock::acquire(folder.path(), OPTIONS).unwrap();
        let error = FolderLock::acquire(folder.path(), OPTIONS).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().ends_with(" is in use by another worker") && error.hint().is_some());
        let since = first.first_locked().unwrap();
        drop(first);
        assert_eq!(FolderLock::acquire(folder.path(), OPTIONS).unwrap().first_locked().unwrap(), since);
    }

    #[test]
    fn who_waits_gets_the_lock_of_one_that_lets_go_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let first = FolderLock::acquire(folder.path(), OPTIONS).unwrap();
        let patient = LockOptions { wait: Duration::from_secs(60), ..OPTIONS };
        thread::scope(|scope| {
            let second = scope.spawn(|| FolderLock::acquire(folder.path(), patient).map(drop));
            thread::sleep(2 * RETRY);
            assert!(!second.is_finished());
            drop(first);
            second.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_folder_that_is_none_is_named() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        let error = FolderLock::acquire(&file, OPTIONS).unwrap_err();
        assert!(error.to_string().contains("it is not a directory"), "{error}");
    }
}
