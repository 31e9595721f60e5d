use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// What the names of staging folders begin with. Names with a dot are read by nobody as data.
const PREFIX: &str = ".yeoul-copy-";
/// The file that the process which writes keeps locked as long as it lives.
const LOCK: &str = "lock";
/// The name of the lock until it is locked.
const LOCK_NEW: &str = "lock.new";
/// The folder of what is written.
const DATA: &str = "data";

/// A hidden folder in which an output grows. It goes with the value, and after a crash with the next one made beside it.
///
/// ```text
/// <parent>/.yeoul-copy-XXXXXX/lock      locked (flock) by the process that writes
/// <parent>/.yeoul-copy-XXXXXX/data/…    the output, with what its writer keeps beside an unfinished file
/// ```
#[derive(Debug)]
pub(crate) struct StagingFolder {
    folder: TempDir,
    _lock: File,
}

impl StagingFolder {
    /// Makes one in `parent`, and removes those there whose processes are gone.
    ///
    /// # Errors
    /// When `parent` cannot be written.
    pub(crate) fn create(parent: &Path) -> io::Result<Self> {
        remove_abandoned(parent);
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let lock_new = folder.path().join(LOCK_NEW);
        let lock = File::create(&lock_new)?;
        lock.lock()?;
        // Under its own name the lock is locked from the first moment on.
        fs::rename(lock_new, folder.path().join(LOCK))?;
        fs::create_dir(folder.path().join(DATA))?;
        Ok(Self { folder, _lock: lock })
    }

    /// Where to write.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join(DATA)
    }
}

/// Removes the staging folders in `parent` that no living process has locked. What cannot be looked at or removed (another
/// user's, say) is left alone: it is no business of this process.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        // A folder without its lock is one that another process is just making.
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        if lock.try_lock().is_ok() {
            // Nobody waits for it: what cannot be removed now is tried again by the next one.
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_writers_folder_goes_and_a_living_ones_stays() {
        let parent = tempfile::tempdir().unwrap();
        let dead = parent.path().join(".yeoul-copy-dead");
        fs::create_dir_all(dead.join(DATA)).unwrap();
        fs::write(dead.join(DATA).join("half.parquet"), "half").unwrap();
        fs::write(dead.join(LOCK), "").unwrap();
        let others = parent.path().join(".others");
        fs::create_dir(&others).unwrap();
        let living = StagingFolder::create(parent.path()).unwrap();
        let next = StagingFolder::create(parent.path()).unwrap();
        assert!(!dead.exists() && others.exists());
        assert!(living.data().is_dir() && next.data().is_dir() && living.data() != next.data());
        drop((living, next));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }
}
