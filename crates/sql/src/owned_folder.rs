use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::TempDir;

/// The file that the owner keeps locked as long as it lives.
const LOCK: &str = "lock";
/// The name of the lock until it is locked.
const LOCK_NEW: &str = "lock.new";

/// A folder of this process's own. It goes with the value, and after a crash with the next one of its kind beside it.
///
/// ```text
/// <parent>/<kind>XXXXXX/lock      locked (flock) by the process that owns the folder
/// <parent>/<kind>XXXXXX/…         what it keeps there
/// ```
#[derive(Debug)]
pub(crate) struct OwnedFolder {
    folder: TempDir,
    _lock: File,
}

impl OwnedFolder {
    /// Makes one in `parent` whose name begins with `kind`, and removes those of that kind there whose processes are gone.
    ///
    /// # Errors
    /// When `parent` cannot be written.
    pub(crate) fn create(parent: &Path, kind: &str) -> io::Result<Self> {
        remove_abandoned(parent, kind);
        let folder = tempfile::Builder::new().prefix(kind).tempdir_in(parent)?;
        let lock_new = folder.path().join(LOCK_NEW);
        let lock = File::create(&lock_new)?;
        lock.lock()?;
        // Under its own name the lock is locked from the first moment on: no other process takes the folder for abandoned.
        fs::rename(lock_new, folder.path().join(LOCK))?;
        Ok(Self { folder, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders in `parent` that no living process has locked. What cannot be looked at or removed (another user's,
/// say) is left alone: it is no business of this process.
fn remove_abandoned(parent: &Path, kind: &str) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(kind.as_bytes()) {
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

    const KIND: &str = "kind-";

    #[test]
    fn the_dead_ones_folder_goes_and_the_living_ones_stays() {
        let parent = tempfile::tempdir().unwrap();
        let dead = parent.path().join("kind-dead");
        fs::create_dir_all(dead.join("below")).unwrap();
        fs::write(dead.join(LOCK), "").unwrap();
        fs::write(dead.join("below/data"), "left over").unwrap();
        let stranger = parent.path().join("somebody-elses");
        fs::create_dir(&stranger).unwrap();
        fs::write(stranger.join(LOCK), "").unwrap();

        let living = OwnedFolder::create(parent.path(), KIND).unwrap();
        assert!(!dead.exists() && stranger.exists());
        let next = OwnedFolder::create(parent.path(), KIND).unwrap();
        assert!(living.path().exists() && next.path() != living.path());
        let path = living.path().to_owned();
        drop(living);
        assert!(!path.exists());
    }

    #[test]
    fn those_who_start_at_the_same_time_leave_each_other_theirs() {
        let parent = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let folder = OwnedFolder::create(parent.path(), KIND).unwrap();
                        std::thread::yield_now();
                        fs::write(folder.path().join("data"), "kept").unwrap();
                    }
                });
            }
        });
    }
}
