use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use yeoul_base::ErrorKind;

use crate::Error;

/// What the names of spill directories begin with.
const PREFIX: &str = "yeoul-spill-";
/// The file in each spill directory that its process keeps locked as long as it lives.
const LOCK: &str = "lock";

/// A directory of this process's own for spilled data; it goes with the value, and after a crash with the next start.
///
/// ```text
/// <parent>/yeoul-spill-XXXXXX/lock      locked (flock) by the process that owns the directory
/// <parent>/yeoul-spill-XXXXXX/…         spilled data
/// ```
#[derive(Debug)]
pub(crate) struct SpillDir {
    dir: TempDir,
    _lock: File,
}

impl SpillDir {
    /// Makes one under `parent`, and removes those there whose processes are gone.
    pub(crate) fn create(parent: &Path) -> Result<Self, Error> {
        let failed = |what: &str, source: std::io::Error| {
            let kind = match source.kind() {
                std::io::ErrorKind::NotFound => ErrorKind::NotFound,
                std::io::ErrorKind::PermissionDenied => ErrorKind::Denied,
                _ => ErrorKind::Unavailable,
            };
            Error::new(kind, format!("cannot {what} in the spill directory {}: {source}", parent.display()))
                .with_hint("name another with --spill-dir")
                .with_source(source)
        };
        remove_abandoned(parent);
        loop {
            let dir = tempfile::Builder::new()
                .prefix(PREFIX)
                .tempdir_in(parent)
                .map_err(|source| failed("make a directory", source))?;
            let path = dir.path().join(LOCK);
            let lock = File::create(&path).map_err(|source| failed("make a file", source))?;
            lock.lock().map_err(|source| failed("lock a file", source))?;
            // A process that starts at this moment may have locked the file first, and taken the directory for abandoned.
            if path.exists() {
                return Ok(Self { dir, _lock: lock });
            }
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().to_owned()
    }
}

/// Removes the spill directories under `parent` that no living process has locked. What cannot be looked at or removed
/// (another user's, say) is left alone: it is no business of this process.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // A directory without its lock is one that another process is just making.
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        match lock.try_lock() {
            Ok(()) => drop(fs::remove_dir_all(entry.path())),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_ones_directory_goes_and_the_living_ones_stays() {
        let parent = tempfile::tempdir().unwrap();
        let dead = parent.path().join("yeoul-spill-dead");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join(LOCK), "").unwrap();
        fs::write(dead.join("data"), "left over").unwrap();
        let stranger = parent.path().join("somebody-elses");
        fs::create_dir(&stranger).unwrap();

        let living = SpillDir::create(parent.path()).unwrap();
        assert!(!dead.exists() && stranger.exists());
        let next = SpillDir::create(parent.path()).unwrap();
        assert!(living.path().exists() && next.path() != living.path());
        let path = living.path();
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
                        let dir = SpillDir::create(parent.path()).unwrap();
                        std::thread::yield_now();
                        fs::write(dir.path().join("data"), "spilled").unwrap();
                    }
                });
            }
        });
    }

    #[test]
    fn a_parent_that_is_not_there_is_named() {
        let error = SpillDir::create(Path::new("/nowhere/at/all")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    }
}
