//! A file of the journal: the entries from one sequence on.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::{at, corrupt, foreign, journal_path, read as read_file};
use super::layout::{Entry, Frame, decode, holds_frame_later, synced_later};
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

/// Where a segment stands among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Earlier,
    BeforeLast,
    Last,
}

/// A segment that was read.
pub struct Contents {
    pub records: Vec<Record>,
    /// The sequence after its last entry.
    pub next: u64,
    /// Whether it is one that says what is synced, or holds nothing yet: more may be written to it.
    pub can_go_on: bool,
}

/// Reads a segment, cuts off its end if that is torn, and brings it to the disk: what a process that was killed has
/// written is in the hands of the kernel. `synced_behind` gives the highest [`Entry::Synced`] in the segments behind it.
///
/// # Errors
/// `Corrupt` if it is damaged where it was on the disk.
pub fn read(
    path: &Path,
    first: u64,
    place: Place,
    synced_behind: impl FnOnce() -> Result<u64>,
) -> Result<Contents> {
    let bytes = read_file(path)?;
    let Parsed { records, next, len, stop } = parse(&bytes, first);
    let file = OpenOptions::new().write(true).open(path).map_err(at(path))?;
    match stop {
        None => {}
        Some(Stop::Foreign) => return Err(foreign(path, len)),
        Some(Stop::Broken) if !is_rot(&bytes, len, next, place, synced_behind()?) => {
            let torn = bytes.len() - len;
            tracing::warn!(path = %path.display(), offset = len, torn, "cut the torn end of a journal file");
            file.set_len(len as u64).map_err(at(path))?;
        }
        Some(Stop::Broken | Stop::Misplaced) => return Err(corrupt(path, len)),
    }
    file.sync_all().map_err(at(path))?;
    Ok(Contents { records, next, can_go_on: len == 0 || says_what_is_synced(&bytes) })
}

/// The highest [`Entry::Synced`] in segments, or 0.
pub fn synced_in<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<u64> {
    paths.into_iter().try_fold(0, |synced, path| {
        let mut bytes = vec![0];
        bytes.extend(read_file(path)?);
        Ok(synced.max(synced_later(&bytes)))
    })
}

/// The whole entries at the front of a segment.
struct Parsed {
    records: Vec<Record>,
    next: u64,
    len: usize,
    stop: Option<Stop>,
}

/// Why there is more in a segment than could be read.
enum Stop {
    Broken,
    Foreign,
    /// A whole frame that does not belong here.
    Misplaced,
}

fn parse(bytes: &[u8], first: u64) -> Parsed {
    let mut parsed = Parsed { records: Vec::new(), next: first, len: 0, stop: None };
    while let Some(rest) = bytes.get(parsed.len..).filter(|rest| !rest.is_empty()) {
        let len = match decode(rest) {
            Frame::Whole { sequence, entry: Entry::Record(record), len } if sequence == parsed.next => {
                parsed.records.push(record);
                len
            }
            Frame::Whole { sequence, entry: Entry::Synced(_), len } if sequence == parsed.next => len,
            Frame::Whole { .. } => {
                parsed.stop = Some(Stop::Misplaced);
                break;
            }
            Frame::Foreign => {
                parsed.stop = Some(Stop::Foreign);
                break;
            }
            Frame::Broken => {
                parsed.stop = Some(Stop::Broken);
                break;
            }
        };
        parsed.next += 1;
        parsed.len += len;
    }
    parsed
}

/// Whether what is broken at `len`, where the entry `next` should be, was on the disk once. If not, a process or a machine
/// died before it was: the records of the last moment are missing.
fn is_rot(bytes: &[u8], len: usize, next: u64, place: Place, synced_behind: u64) -> bool {
    if synced_behind.max(synced_later(&bytes[len..])) > next {
        return true;
    }
    // Segments of older versions do not say what is on the disk, and were cut only where no frame follows, and in the last
    // two: power may have failed between the segment that a snapshot begins and the snapshot.
    !says_what_is_synced(bytes) && (place == Place::Earlier || holds_frame_later(&bytes[len..]))
}

/// Whether a segment begins with what is synced, or with a hole where that was: the first sector of a file is on the disk
/// as a whole or is not there.
fn says_what_is_synced(bytes: &[u8]) -> bool {
    matches!(decode(bytes), Frame::Whole { entry: Entry::Synced(_), .. }) || bytes.starts_with(&[0; 4])
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::super::layout::encode;
    use super::*;
    use crate::ids::ShuffleKey;

    /// A segment with fsyncs before some of its entries, and what is known of it.
    struct Written {
        bytes: Vec<u8>,
        /// Where each entry ends.
        ends: Vec<usize>,
        /// The end of the last entry that was on the disk, as far as the segment says.
        synced: usize,
    }

    fn written(len: u64, fsyncs_before: &[u64]) -> Written {
        let (mut bytes, mut ends, mut synced) = (BytesMut::new(), Vec::new(), 0);
        for sequence in 0..len {
            let entry = if sequence == 0 || fsyncs_before.contains(&sequence) {
                synced = bytes.len();
                Entry::Synced(sequence)
            } else {
                let shuffle = ShuffleKey::new("app", sequence as i32);
                Entry::Record(Record::ShuffleRegistered { shuffle, at_unix_ms: sequence })
            };
            encode(sequence, &entry, &mut bytes);
            ends.push(bytes.len());
        }
        Written { bytes: bytes.to_vec(), ends, synced }
    }

    fn each() -> impl Iterator<Item = Written> {
        [&[][..], &[5], &[1, 2, 3], &[4, 7, 11]].into_iter().map(|fsyncs| written(12, fsyncs))
    }

    /// Where reading stops, and whether that is rot.
    fn stops(bytes: &[u8]) -> Option<(usize, bool)> {
        let Parsed { next, len, stop, .. } = parse(bytes, 0);
        stop.map(|stop| {
            assert!(matches!(stop, Stop::Broken));
            (len, is_rot(bytes, len, next, Place::Last, 0))
        })
    }

    #[test]
    fn any_prefix_is_cut_to_its_whole_entries() {
        for Written { bytes, ends, .. } in each() {
            for len in 0..=bytes.len() {
                let whole = ends.iter().copied().filter(|end| *end <= len).max().unwrap_or(0);
                let expected = (whole < len).then_some((whole, false));
                assert_eq!(stops(&bytes[..len]), expected, "{len} bytes");
            }
        }
    }

    #[test]
    fn any_hole_behind_the_last_fsync_is_cut() {
        for Written { bytes, ends, synced } in each() {
            // The first entry lies within a sector, so that no hole begins in it.
            let begins = std::iter::once(0).chain(ends[0]..bytes.len()).filter(|begin| *begin >= synced);
            for begin in begins {
                for end in (begin + 1..=bytes.len()).filter(|end| *end >= 4) {
                    let mut holed = bytes.clone();
                    holed[begin..end].fill(0);
                    let Some(changed) = (begin..end).find(|at| bytes[*at] != 0) else { continue };
                    let whole = ends.iter().copied().filter(|end| *end <= changed).max().unwrap_or(0);
                    assert_eq!(stops(&holed), Some((whole, false)), "{begin}..{end} of {}", bytes.len());
                }
            }
        }
    }

    #[test]
    fn any_change_before_the_last_fsync_is_rot() {
        for Written { bytes, synced, .. } in each() {
            for at in 0..synced {
                for change in [1, 0x80, bytes[at]].into_iter().filter(|change| *change != 0) {
                    let mut rotten = bytes.clone();
                    rotten[at] ^= change;
                    let (_, is_rot) = stops(&rotten).expect("the checksum covers each byte");
                    assert!(is_rot, "byte {at} of {synced}");
                }
            }
        }
    }
}
