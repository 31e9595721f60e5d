use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;

/// The file that the owner keeps locked as long as it lives.
const LOCK: &str = "lock";
/// The name of the lock until it is locked.
const LOCK_NEW: &str = "lock.new";
/// A folder without a lock file is abandoned after this time: its owner puts the lock there within a moment.
const LOCKLESS_MAX: Duration = Duration::from_secs(3600);
/// The most times that a folder is emptied before it goes.
const ROUNDS_MAX: usize = 50;
/// How many rounds in a row have to find it empty.
const ROUNDS_EMPTY: usize = 3;
/// The pause between two rounds.
const PAUSE: Duration = Duration::from_millis(10);

/// A folder of this process's own, removed on drop; after a crash, when the next one of its kind is made beside it.
///
/// ```text
/// <parent>/<kind>XXXXXX/lock      locked (flock) by the process that owns the folder; removed last
/// <parent>/<kind>XXXXXX/…         what it keeps there
/// ```
#[derive(Debug)]
pub struct OwnedFolder {
    path: PathBuf,
    _lock: File,
}

impl OwnedFolder {
    /// Makes one in `parent` whose name begins with `kind`, and removes those of that kind there whose processes are gone.
    ///
    /// # Errors
    /// When `parent` cannot be written.
    pub fn create(parent: &Path, kind: &str) -> io::Result<Self> {
        remove_abandoned(parent, kind);
        let folder = tempfile::Builder::new().prefix(kind).tempdir_in(parent)?;
        let lock_new = folder.path().join(LOCK_NEW);
        let lock = File::create(&lock_new)?;
        lock.lock()?;
        // The lock gets its name only once it is locked, so that no other process takes the folder for abandoned.
        fs::rename(lock_new, folder.path().join(LOCK))?;
        Ok(Self { path: folder.keep(), _lock: lock })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes its content until nothing new appears, for half a second at most: a writer that was stopped may have a
    /// step left on another thread, and make its folders again.
    pub fn empty(&self) {
        self.empty_with(|| thread::sleep(PAUSE));
    }

    fn empty_with(&self, mut pause: impl FnMut()) {
        let mut empty = 0;
        for _ in 0..ROUNDS_MAX {
            // A file that appears meanwhile fails the removal, and goes in the next round.
            empty = if matches!(remove_content(&self.path), Ok(0)) { empty + 1 } else { 0 };
            if empty == ROUNDS_EMPTY {
                return;
            }
            pause();
        }
    }
}

impl Drop for OwnedFolder {
    fn drop(&mut self) {
        for _ in 0..ROUNDS_MAX {
            match remove(&self.path) {
                Ok(()) => return,
                // Another thread has just made or removed something there.
                Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::NotFound) => {
                    thread::sleep(PAUSE);
                }
                // A folder that cannot be emptied keeps its lock file, unlocked: the next one of its kind removes both.
                Err(_) => return,
            }
        }
    }
}

/// Removes a folder, its lock last. A folder that is not there is removed.
fn remove(folder: &Path) -> io::Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    remove_content(folder)?;
    // A round before may have removed it.
    drop(fs::remove_file(folder.join(LOCK)));
    fs::remove_dir(folder)
}

/// Removes all but the lock, and returns how many entries there were.
fn remove_content(folder: &Path) -> io::Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == LOCK {
            continue;
        }
        count += 1;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(count)
}

/// Removes the folders in `parent` that no living process has locked. Those that cannot be read or removed (another
/// user's, say) are left alone.
fn remove_abandoned(parent: &Path, kind: &str) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_folder = entry.file_type().is_ok_and(|file_type| file_type.is_dir());
        let is_of_kind = entry.file_name().as_encoded_bytes().starts_with(kind.as_bytes());
        if is_folder && is_of_kind && is_abandoned(&entry.path()) {
            // A failure does not matter: the next process tries again.
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

fn is_abandoned(folder: &Path) -> bool {
    // In a world-writable folder, another user's lock may be a pipe that nobody writes, or a symbolic link.
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
    match OpenOptions::new().read(true).custom_flags(flags).open(folder.join(LOCK)) {
        Ok(lock) => lock.metadata().is_ok_and(|lock| lock.is_file()) && lock.try_lock().is_ok(),
        // Another process is just making it, or a late writer made it again after it was removed.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let changed = fs::metadata(folder).and_then(|folder| folder.modified());
            changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age >= LOCKLESS_MAX))
        }
        Err(_) => false,
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
    fn what_comes_late_goes_too() {
        let parent = tempfile::tempdir().unwrap();
        let folder = OwnedFolder::create(parent.path(), KIND).unwrap();
        let deep = folder.path().join("data/k=1");
        let write = || {
            fs::create_dir_all(&deep).unwrap();
            fs::write(deep.join("part"), "late").unwrap();
        };
        write();
        let mut steps = 0;
        folder.empty_with(|| {
            // Twice in a row, and once more when it seemed to be over.
            if matches!(steps, 0 | 1 | 3) {
                write();
            }
            steps += 1;
        });
        assert!(steps > 3);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "all but the lock is gone");
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn writers_that_are_left_keep_no_folder() {
        let parent = tempfile::tempdir().unwrap();
        for round in 0..100 {
            let folder = OwnedFolder::create(parent.path(), KIND).unwrap();
            let data = folder.path().join("data");
            fs::create_dir(&data).unwrap();
            let begun = std::sync::Barrier::new(3);
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        begun.wait();
                        // As a cancelled task does, it adds files and removes them until it no longer can.
                        let mut files = Vec::new();
                        for step in 0..20_000 {
                            let Ok(file) = tempfile::NamedTempFile::new_in(&data) else { return };
                            files.push(file);
                            files.truncate(step % 20);
                        }
                    });
                }
                begun.wait();
                drop(folder);
            });
            assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0, "round {round}");
        }
    }

    #[test]
    fn what_comes_when_all_has_gone_goes_once_it_is_old() {
        let parent = tempfile::tempdir().unwrap();
        let path = OwnedFolder::create(parent.path(), KIND).unwrap().path().to_owned();
        assert!(!path.exists());
        fs::create_dir_all(path.join("data/k=1")).unwrap();
        drop(OwnedFolder::create(parent.path(), KIND).unwrap());
        assert!(path.exists(), "it may be one that is just being made");
        File::open(&path).unwrap().set_modified(std::time::SystemTime::now() - LOCKLESS_MAX).unwrap();
        drop(OwnedFolder::create(parent.path(), KIND).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn a_lock_that_is_no_file_keeps_nobody_waiting() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let parent = tempfile::tempdir().unwrap();
        let (pipe, link) = (parent.path().join("kind-pipe"), parent.path().join("kind-link"));
        for folder in [&pipe, &link] {
            fs::create_dir(folder).unwrap();
        }
        mknodat(CWD, pipe.join(LOCK), FileType::Fifo, Mode::RWXU, 0).unwrap();
        fs::write(parent.path().join("elsewhere"), "").unwrap();
        std::os::unix::fs::symlink("../elsewhere", link.join(LOCK)).unwrap();
        let (done, wait) = std::sync::mpsc::channel();
        let path = parent.path().to_owned();
        thread::spawn(move || done.send(OwnedFolder::create(&path, KIND).map(drop)));
        wait.recv_timeout(Duration::from_secs(30)).expect("it does not wait for a writer").unwrap();
        assert!(pipe.exists() && link.exists());
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
