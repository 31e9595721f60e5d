//! A file of the journal, with the entries from one sequence on.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::{at, corrupt, foreign, journal_path, read as read_file};
use super::parsed::{Parsed, Stop, is_rot, parse, synced_in};
use crate::Result;
use crate::master::record::Record;

/// A file of the journal that takes records.
pub struct Segment {
    path: Arc<Path>,
    file: Arc<File>,
    /// The sequence of its first entry.
    first: u64,
    /// Its length up to the end of the last whole entry.
    len: u64,
    tail: Tail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    /// Accepts records.
    Writing,
    /// Records are missing. Nothing is written after the gap, since it would not be read. The next snapshot has the rest.
    Ended,
    /// A write failed, and so did cutting it off: part of a record is after the last whole one.
    Torn,
}

impl Segment {
    /// Opens or creates the file that begins at `first`.
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

    /// Whether it accepts records.
    pub fn takes_records(&self) -> bool {
        self.tail == Tail::Writing
    }

    /// Appends frames. If that fails, what was written of them is cut off again, and the segment has ended.
    pub fn append(&mut self, frames: &[u8]) -> Result<()> {
        assert!(self.takes_records(), "nothing goes behind a gap");
        if let Err(error) = (&*self.file).write_all(frames) {
            self.tail = Tail::Torn;
            return Err(self.mend().err().unwrap_or_else(|| at(&self.path)(error)));
        }
        self.len += frames.len() as u64;
        Ok(())
    }

    /// Accepts no more records, because some before them are missing.
    pub fn end(&mut self) {
        if self.tail == Tail::Writing {
            self.tail = Tail::Ended;
        }
    }

    /// Accepts records again after a gap at its start: the snapshot that began this segment has the missing ones.
    pub fn restart(&mut self) {
        assert!(self.len == 0 && self.tail != Tail::Torn, "nothing goes behind a gap");
        self.tail = Tail::Writing;
    }

    /// Cuts off a partly written record if that failed before. With later segments after it, it would be taken for
    /// corruption.
    pub fn mend(&mut self) -> Result<()> {
        if self.tail == Tail::Torn {
            self.file.set_len(self.len).map_err(at(&self.path))?;
            self.tail = Tail::Ended;
        }
        Ok(())
    }

    /// Removes a segment that is empty and stays so, because another has begun.
    pub fn remove_if_empty(self) {
        if self.len == 0
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove an empty journal file");
        }
    }

    /// What it holds before entry `next`, to be synced.
    pub fn unsynced(&self, next: u64) -> Unsynced {
        Unsynced { path: self.path.clone(), file: self.file.clone(), first: self.first, next }
    }

    /// Replaces the file, for tests of disk faults.
    #[cfg(test)]
    pub fn swap_file(&mut self, file: impl Into<Arc<File>>) -> Arc<File> {
        std::mem::replace(&mut self.file, file.into())
    }
}

/// What was written to a segment and is to be synced.
pub struct Unsynced {
    path: Arc<Path>,
    file: Arc<File>,
    /// Its first sequence.
    pub first: u64,
    /// The sequence after its last one.
    pub next: u64,
}

impl Unsynced {
    /// Syncs it to disk.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(at(&self.path))
    }
}

/// What was read from a segment.
pub struct Contents {
    pub records: Vec<Record>,
    /// The sequence after its last entry.
    pub next: u64,
}

/// Reads a segment, cuts off its end if that is torn, and syncs it: what a killed process has written may still be in the
/// kernel's memory only. `synced_behind` gives the highest [`Entry::Synced`] in later segments.
///
/// # Errors
/// `Corrupt` if it is damaged in a part that had been synced, `Conflict` if a newer version has written to it.
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
