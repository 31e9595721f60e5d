//! A file of the journal: the entries from one sequence on.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::{at, corrupt, foreign, journal_path, read as read_file};
use super::parsed::{Parsed, Stop, is_rot, parse, synced_in};
use crate::Result;
use crate::master::record::Record;

/// See the [module](self).
pub struct Segment {
    path: Arc<Path>,
    file: Arc<File>,
    /// The sequence of its first entry.
    first: u64,
    /// Up to the end of its last whole entry.
    len: u64,
    tail: Tail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    /// Takes records.
    Writing,
    /// Records are missing: nothing goes behind the gap, for nothing there is read. The next snapshot has the rest.
    Ended,
    /// A write failed, and so did the cut: what was written of a record stands behind the last whole one.
    Torn,
}

impl Segment {
    /// Opens the file that begins at `first`, or makes it.
    pub fn open(dir: &Path, first: u64) -> Result<Self> {
        let path: Arc<Path> = journal_path(dir, first).into();
        let file = OpenOptions::new().append(true).create(true).open(&path).map_err(at(&path))?;
        let len = file.metadata().map_err(at(&path))?.len();
        Ok(Self { path, file: Arc::new(file), first, len, tail: Tail::Writing })
    }

    pub fn first(&self) -> u64 {
        self.first
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it takes records.
    pub fn takes_records(&self) -> bool {
        self.tail == Tail::Writing
    }

    /// Writes frames behind the others. Where that fails they are cut off again, whatever was written of them, and the
    /// segment has ended.
    pub fn append(&mut self, frames: &[u8]) -> Result<()> {
        assert!(self.takes_records(), "nothing goes behind a gap");
        if let Err(error) = (&*self.file).write_all(frames) {
            self.tail = Tail::Torn;
            return Err(self.mend().err().unwrap_or_else(|| at(&self.path)(error)));
        }
        self.len += frames.len() as u64;
        Ok(())
    }

    /// Takes no more records: some that belong behind the others are missing.
    pub fn end(&mut self) {
        if self.tail == Tail::Writing {
            self.tail = Tail::Ended;
        }
    }

    /// Takes records again after some were missing before the first: the snapshot that begins here has them.
    pub fn restart(&mut self) {
        assert!(self.len == 0 && self.tail != Tail::Torn, "nothing goes behind a gap");
        self.tail = Tail::Writing;
    }

    /// Cuts off what was written of a record, if that could not be done before. It would be taken for rot once there
    /// are other segments behind this one.
    pub fn mend(&mut self) -> Result<()> {
        if self.tail == Tail::Torn {
            self.file.set_len(self.len).map_err(at(&self.path))?;
            self.tail = Tail::Ended;
        }
        Ok(())
    }

    /// Removes a segment that holds nothing and will not: another has begun.
    pub fn remove_if_empty(self) {
        if self.len == 0
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove an empty journal file");
        }
    }

    /// What it holds before the entry `next`, for the thread that brings it to the disk.
    pub fn unsynced(&self, next: u64) -> Unsynced {
        Unsynced { path: self.path.clone(), file: self.file.clone(), first: self.first, next }
    }

    /// Stands in for the file in tests of what a disk can do.
    #[cfg(test)]
    pub fn swap_file(&mut self, file: impl Into<Arc<File>>) -> Arc<File> {
        std::mem::replace(&mut self.file, file.into())
    }
}

/// What was written to a segment.
pub struct Unsynced {
    path: Arc<Path>,
    file: Arc<File>,
    /// The sequences that it has: from this one,
    pub first: u64,
    /// and below this one.
    pub next: u64,
}

impl Unsynced {
    /// Brings it to the disk.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(at(&self.path))
    }
}

/// A segment that was read.
pub struct Contents {
    pub records: Vec<Record>,
    /// The sequence after its last entry.
    pub next: u64,
}

/// Reads a segment, cuts off its end if that is torn, and brings it to the disk: what a process that was killed has
/// written is in the hands of the kernel. `synced_behind` gives the highest [`Entry::Synced`] in the segments behind it.
///
/// # Errors
/// `Corrupt` if it is damaged where it was on the disk.
pub fn read(path: &Path, first: u64, synced_behind: impl FnOnce() -> Result<u64>) -> Result<Contents> {
    let bytes = read_file(path)?;
    let Parsed { records, next, len, stop } = parse(&bytes, first);
    let file = OpenOptions::new().write(true).open(path).map_err(at(path))?;
    match stop {
        None => {}
        Some(Stop::Foreign) => return Err(foreign(path, len)),
        Some(Stop::Broken) if !is_rot(&bytes, len, next, synced_behind()?) => {
            let torn = bytes.len() - len;
            tracing::warn!(path = %path.display(), offset = len, torn, "cut the torn end of a journal file");
            file.set_len(len as u64).map_err(at(path))?;
        }
        Some(Stop::Broken) => return Err(corrupt(path, len)),
    }
    file.sync_all().map_err(at(path))?;
    Ok(Contents { records, next })
}

/// The highest [`Entry::Synced`](super::layout::Entry::Synced) in segments, or 0.
pub fn synced_in_all<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<u64> {
    paths.into_iter().try_fold(0, |synced, path| Ok(synced.max(synced_in(&read_file(path)?))))
}
