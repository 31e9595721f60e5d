//! A file of the journal, with the records from one number on.

use std::path::Path;
use std::sync::Arc;

use yeoul_base::{Result, failpoint_error};
use yeoul_disk::{Disk, DiskFile, Failure, Open, read_file};

use crate::Record;
use crate::directory::{journal_path, unreadable};
use crate::parsed::{Parsed, Stop, is_rot, parse};

/// A file of the journal that takes records.
#[derive(Debug)]
pub struct Segment {
    path: Arc<Path>,
    file: Arc<dyn DiskFile>,
    /// The number of its first record.
    first: u64,
    /// The number after its last whole record.
    end: u64,
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
    /// Opens or creates the file that begins with record `first`, and goes on behind its last, `end - 1`.
    pub fn open(disk: &dyn Disk, dir: &Path, first: u64, end: u64) -> Result<Self, Failure> {
        let path: Arc<Path> = journal_path(dir, first).into();
        let file: Arc<dyn DiskFile> =
            disk.open(&path, Open::WriteOrCreate).map_err(Failure::at(&path))?.into();
        let len = file.len().map_err(Failure::at(&path))?;
        assert!(first <= end && (len > 0 || first == end), "a new segment has no records");
        Ok(Self { path, file, first, end, len, tail: Tail::Writing })
    }

    /// The number of its first record.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The number after its last whole record.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it accepts records.
    pub fn takes_records(&self) -> bool {
        self.tail == Tail::Writing
    }

    /// Appends the frames of so many records. If that fails, what was written of them is cut off again, and the segment has
    /// ended.
    pub fn append(&mut self, frames: &[u8], records: u64) -> Result<(), Failure> {
        assert!(self.takes_records(), "nothing goes behind a gap");
        if let Err(error) = self.file.write_all_at(frames, self.len) {
            self.tail = Tail::Torn;
            return Err(self.mend().err().unwrap_or_else(|| Failure::at(&self.path)(error)));
        }
        self.len += frames.len() as u64;
        self.end += records;
        Ok(())
    }

    /// Accepts no more records, because some before them are missing.
    pub fn stop(&mut self) {
        if self.tail == Tail::Writing {
            self.tail = Tail::Ended;
        }
    }

    /// Cuts off a partly written record if that failed before.
    pub fn mend(&mut self) -> Result<(), Failure> {
        if self.tail == Tail::Torn {
            self.file.set_len(self.len).map_err(Failure::at(&self.path))?;
            self.tail = Tail::Ended;
        }
        Ok(())
    }

    /// Whether nothing was ever written to it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it holds, to be synced.
    pub fn written(&self) -> Written {
        Written { path: self.path.clone(), file: self.file.clone(), first: self.first, end: self.end }
    }
}

/// What was written to a segment and is to be synced.
#[derive(Debug)]
pub struct Written {
    path: Arc<Path>,
    file: Arc<dyn DiskFile>,
    /// The number of its first record.
    pub first: u64,
    /// The number after its last one.
    pub end: u64,
}

impl Written {
    /// Syncs it to disk.
    pub fn sync(&self) -> Result<(), Failure> {
        let synced = failpoint_error("journal-fsync").and_then(|()| self.file.sync_data());
        synced.map_err(Failure::of_sync(&self.path))
    }
}

/// Reads a segment and passes on its records. The end of the last one may be torn: it is cut off. What was read is synced:
/// what a killed process has written may still be in the kernel's memory only. Returns the number after the last record, and
/// the length in bytes.
///
/// # Errors
/// `Corrupt` if it is damaged in a part that had been synced, or anywhere if it is not the last; `Conflict` if another
/// version or kind of server has written to it.
pub fn read<R: Record>(
    disk: &dyn Disk,
    path: &Path,
    first: u64,
    is_last: bool,
    each: impl FnMut(R),
) -> Result<(u64, u64)> {
    let bytes = read_file(disk, path).map_err(Failure::at(path))?;
    let parsed = parse(&bytes, first, each);
    let Parsed { next, len, stop, .. } = parsed;
    let file = disk.open(path, Open::Write).map_err(Failure::at(path))?;
    match stop {
        None => {}
        Some(Stop::Broken) if is_last && !is_rot(&bytes, &parsed) => {
            let torn = bytes.len() - len;
            tracing::warn!(path = %path.display(), offset = len, torn, "cut the torn end of a journal file");
            file.set_len(len as u64).map_err(Failure::at(path))?;
        }
        Some(stop) => return Err(unreadable(path, len as u64, stop)),
    }
    file.sync_all().map_err(Failure::of_sync(path))?;
    Ok((next, len as u64))
}

/// How much of the journal a segment says was synced; 0 if it says nothing.
pub fn synced_by<R: Record>(disk: &dyn Disk, path: &Path, first: u64) -> Result<u64> {
    let bytes = read_file(disk, path).map_err(Failure::at(path))?;
    Ok(parse(&bytes, first, |_: R| ()).synced)
}
