//! The journal's directory: the names of its files, and errors that name a path.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use yeoul_base::{Error, ErrorKind, Result};
use yeoul_disk::{Disk, Failure};

use crate::parsed::Stop;

/// The files of a directory, by the sequence in their names.
#[derive(Debug, Default)]
pub struct Files {
    pub snapshots: BTreeMap<u64, PathBuf>,
    pub journals: BTreeMap<u64, PathBuf>,
}

impl Files {
    /// Lists them; other files are left alone.
    pub fn list(disk: &dyn Disk, dir: &Path) -> Result<Self, Failure> {
        let mut files = Self::default();
        for path in disk.list(dir).map_err(Failure::at(dir))? {
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
    pub fn remove_before(&self, disk: &dyn Disk, sequence: u64) {
        let old = self.snapshots.range(..sequence).chain(self.journals.range(..sequence));
        for (_, path) in old {
            if let Err(error) = disk.remove_file(path) {
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

/// Where a snapshot is written before it gets its name.
pub fn unfinished_path(dir: &Path) -> PathBuf {
    dir.join("snapshot.tmp")
}

/// A file that is damaged in a part that had been synced.
pub fn corrupt(path: &Path, offset: u64) -> Error {
    let message = format!("{} is damaged at byte {offset}, before its end", path.display());
    Error::new(ErrorKind::Corrupt, message)
        .with_hint("restore the directory from a copy, or start with an empty one")
}

/// The error of a file whose reading stopped at a place that no fault explains.
pub fn unreadable(path: &Path, offset: u64, stop: Stop) -> Error {
    let place = path.display();
    let (what, hint) = match stop {
        Stop::Broken => return corrupt(path, offset),
        Stop::Foreign => (
            format!("{place} holds a record of a newer version at byte {offset}"),
            "start the version that wrote it, or give this one an empty directory with --dir",
        ),
        Stop::OtherKind => (
            format!("{place} is the journal of another kind of server"),
            "give each server a directory of its own with --dir",
        ),
        Stop::Earlier => (
            format!(
                "{place} has the layout of a version before the first release, which is not read any more"
            ),
            "give this version an empty directory with --dir",
        ),
    };
    Error::new(ErrorKind::Conflict, what).with_hint(hint)
}
