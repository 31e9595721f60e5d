//! The journal's directory: the names of its files, its lock, and errors that name a path.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result, unusable_directory};

/// The files of a directory, by the sequence in their names.
pub struct Files {
    pub snapshots: BTreeMap<u64, PathBuf>,
    pub journals: BTreeMap<u64, PathBuf>,
}

impl Files {
    pub fn list(dir: &Path) -> Result<Self> {
        let mut files = Self { snapshots: BTreeMap::new(), journals: BTreeMap::new() };
        for entry in fs::read_dir(dir).map_err(at(dir))? {
            let path = entry.map_err(at(dir))?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let sequence = |before: &str, behind: &str| {
                name.strip_prefix(before)?.strip_suffix(behind)?.parse::<u64>().ok()
            };
            if let Some(sequence) = sequence("snapshot-", ".bin") {
                files.snapshots.insert(sequence, path);
            } else if let Some(sequence) = sequence("journal-", ".log") {
                files.journals.insert(sequence, path);
            }
        }
        Ok(files)
    }

    /// Removes the files that a snapshot at `sequence` has made obsolete. Those that cannot be removed are ignored when the
    /// journal is read.
    pub fn remove_before(&self, sequence: u64) {
        let old = self.snapshots.range(..sequence).chain(self.journals.range(..sequence));
        for (_, path) in old {
            if let Err(error) = fs::remove_file(path) {
                tracing::warn!(path = %path.display(), %error, "cannot remove an old journal file");
            }
        }
    }
}

/// A segment's file.
pub fn journal_path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("journal-{first:020}.log"))
}

/// A snapshot's file.
pub fn snapshot_path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("snapshot-{first:020}.bin"))
}

/// Locks the directory against other processes for as long as the file is open.
///
/// # Errors
/// `Conflict` if another process holds the lock.
pub fn lock(dir: &Path) -> Result<File> {
    let path = dir.join("LOCK");
    let unusable = |error| unusable_directory(dir, "the journal", error);
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            let error = Error::new(Kind::Conflict, format!("{} is in use by another master", dir.display()));
            Err(error.with_hint("stop the other process, or give this one a directory of its own with --dir"))
        }
        Err(fs::TryLockError::Error(error)) => Err(at(&path)(error)),
    }
}

pub fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(at(path))?;
    Ok(bytes)
}

pub fn corrupt(path: &Path, offset: usize) -> Error {
    let message = format!("{} is damaged at byte {offset}, before its end", path.display());
    Error::new(Kind::Corrupt, message).with_hint(
        "restore the directory, or start with an empty one: applications and workers will tell most of what it held",
    )
}

pub fn foreign(path: &Path, offset: usize) -> Error {
    let message = format!("{} holds a record of a newer version at byte {offset}", path.display());
    Error::new(Kind::Conflict, message)
        .with_hint("start the version that wrote it, or give this one an empty directory with --dir")
}

/// Names the file that an I/O error is about.
pub fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    move |error| Error::new(Kind::of_io(&error), format!("{}: {error}", path.display())).with_source(error)
}
