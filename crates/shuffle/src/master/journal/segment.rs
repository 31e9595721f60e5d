//! A file of the journal: the records from one sequence on.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use super::directory::{at, corrupt, foreign, journal_path, read as read_file};
use super::layout::{Entry, Frame, decode, holds_frame_later};
use crate::Result;
use crate::master::record::Record;

/// See the [module](self).
pub struct Segment {
    path: Arc<Path>,
    file: Arc<File>,
    /// The sequence of its first record.
    first: u64,
    /// Up to the end of its last whole record.
    len: u64,
    tail: Tail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    /// Takes records.
    Writing,
    /// A write failed: nothing goes behind the gap, for nothing there is read. The next snapshot has the rest.
    Ended,
    /// So did the cut: what was written of a record stands behind the last whole one.
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

    /// What it holds so far, for the thread that brings it to the disk.
    pub fn unsynced(&self) -> Unsynced {
        Unsynced { path: self.path.clone(), file: self.file.clone() }
    }

    /// Stands in for the file in tests of what a disk can do.
    #[cfg(test)]
    pub fn swap_file(&mut self, file: impl Into<Arc<File>>) -> Arc<File> {
        std::mem::replace(&mut self.file, file.into())
    }
}

/// What was written to a segment.
#[derive(Clone)]
pub struct Unsynced {
    path: Arc<Path>,
    file: Arc<File>,
}

impl Unsynced {
    /// Brings it to the disk. Not to be asked again when it fails: the kernel says so once, and forgets what it held.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(at(&self.path))
    }
}

/// Where a segment stands among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Earlier,
    BeforeLast,
    Last,
}

/// Reads a segment and returns the sequence after its last record. The end of the last one may be torn, by a process or
/// a machine that died while writing: it is cut off. So may that of the one before, where a power failure came between
/// the segment that a snapshot begins and the snapshot: it lacks records of the last moment, as the last one would.
pub fn read(path: &Path, first: u64, place: Place, records: &mut Vec<Record>) -> Result<u64> {
    let bytes = read_file(path)?;
    let (mut next, mut at) = (first, 0);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        match decode(rest) {
            Frame::Whole { sequence, entry: Entry::Record(record), len } if sequence == next => {
                records.push(record);
                next += 1;
                at += len;
            }
            Frame::Broken if place != Place::Earlier && !holds_frame_later(rest) => {
                tracing::warn!(path = %path.display(), offset = at, torn = rest.len(), "cut the torn end of a journal file");
                cut(path, at as u64)?;
                break;
            }
            Frame::Foreign => return Err(foreign(path, at)),
            Frame::Whole { .. } | Frame::Broken => return Err(corrupt(path, at)),
        }
    }
    Ok(next)
}

fn cut(path: &Path, len: u64) -> Result<()> {
    let file = OpenOptions::new().write(true).open(path).map_err(at(path))?;
    file.set_len(len).and_then(|()| file.sync_all()).map_err(at(path))
}
