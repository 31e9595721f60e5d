//! A file of the journal, with the records from one number on.

use std::io;
use std::path::Path;
use std::sync::Arc;

use yeoul_base::{Result, failpoint_error};
use yeoul_disk::{Disk, DiskFile, Failure, Open};

use crate::Record;
use crate::directory::{journal_path, unreadable};
use crate::layout::is_cut;
use crate::parsed::{Parsed, Parser, Stop, is_rot};

/// Bytes of a segment that are read at a time.
const WINDOW_BYTES: u64 = 256 << 10;

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
    let source = disk.open(path, Open::Read).map_err(Failure::at(path))?;
    let (parsed, rest) = read_entries(&*source, first, each).map_err(Failure::at(path))?;
    let Parsed { next, len, stop, .. } = parsed;
    let file = disk.open(path, Open::Write).map_err(Failure::at(path))?;
    match stop {
        None => {}
        Some(Stop::Broken) if is_last && !is_rot(&rest, &parsed) => {
            let torn = rest.len();
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
    let source = disk.open(path, Open::Read).map_err(Failure::at(path))?;
    let (parsed, _) = read_entries(&*source, first, |_: R| ()).map_err(Failure::at(path))?;
    Ok(parsed.synced)
}

/// Reads the intact entries at the start of a segment, and passes on its records; what there is behind them. Of the file no more
/// than [`WINDOW_BYTES`] and a frame are in memory before that.
fn read_entries<R: Record>(
    file: &dyn DiskFile,
    first: u64,
    mut each: impl FnMut(R),
) -> io::Result<(Parsed, Vec<u8>)> {
    let (mut parser, mut window, mut left) = (Parser::new(first), Vec::new(), file.len()?);
    let read = |window: &mut Vec<u8>, left: &mut u64, most: u64| {
        let (count, before) = (most.min(*left), window.len());
        window.resize(before + usize::try_from(count).map_err(io::Error::other)?, 0);
        let at = file.len()? - *left;
        *left -= count;
        file.read_exact_at(&mut window[before..], at)
    };
    loop {
        read(&mut window, &mut left, WINDOW_BYTES)?;
        let taken = parser.take(&window, &mut each);
        window.drain(..taken);
        let goes_on = match parser.parsed().stop {
            None => true,
            Some(Stop::Broken) => is_cut(&window),
            Some(_) => false,
        };
        if left == 0 || !goes_on {
            read(&mut window, &mut left, u64::MAX)?;
            return Ok((parser.parsed(), window));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::BytesMut;

    use super::*;
    use crate::layout::{Entry, begins_of, encode};
    use crate::parsed::parse;

    /// A record of any bytes.
    #[derive(Debug, PartialEq, Eq)]
    struct Text(Vec<u8>);

    impl Record for Text {
        const KIND: &'static str = "text";
        const LAYOUT_VERSION: u32 = 1;

        fn encode(&self, dst: &mut BytesMut) {
            dst.extend_from_slice(&self.0);
        }

        fn decode(_: u32, bytes: &[u8]) -> Option<Self> {
            Some(Self(bytes.to_vec()))
        }
    }

    /// A file in memory that is only read, and the most bytes that were asked for at a time.
    #[derive(Debug)]
    struct InMemory {
        bytes: Vec<u8>,
        most: AtomicUsize,
    }

    impl DiskFile for InMemory {
        fn len(&self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }

        fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
            self.most.fetch_max(bytes.len(), Ordering::Relaxed);
            let rest = &self.bytes[at as usize..];
            let count = rest.len().min(bytes.len());
            bytes[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        }

        fn read_cached_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            unreachable!("it is read")
        }

        fn will_need(&self, _: u64, _: u64) {}

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            unreachable!("it is read")
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            unreachable!("it is read")
        }

        fn sync_data(&self) -> io::Result<()> {
            unreachable!("it is read")
        }

        fn sync_all(&self) -> io::Result<()> {
            unreachable!("it is read")
        }
    }

    /// What a segment holds as it is read in pieces, which is what it holds if it is read at once; the most bytes read at a time.
    fn read_in_pieces(bytes: Vec<u8>) -> (Parsed, usize) {
        let (mut in_pieces, mut at_once) = (Vec::new(), Vec::new());
        let file = InMemory { bytes, most: AtomicUsize::new(0) };
        let (parsed, rest) = read_entries(&file, 0, |text: Text| in_pieces.push(text)).unwrap();
        assert_eq!(parsed, parse(&file.bytes, 0, |text: Text| at_once.push(text)));
        assert!(in_pieces == at_once, "other records");
        assert!(rest == file.bytes[parsed.len..], "what is behind them");
        (parsed, file.most.into_inner())
    }

    #[test]
    fn a_segment_is_read_in_pieces_wherever_they_cut_its_entries_and_it_is_cut_or_rots() {
        let (mut bytes, mut ends) = (BytesMut::new(), Vec::new());
        encode(0, begins_of::<Text>(), &mut bytes);
        let window = WINDOW_BYTES as usize;
        let lengths = [5, window - 100, 7, window, 0, 3 * window + 1, 1, 2, window / 2, window / 2, 9];
        for (number, length) in (0..).zip(lengths) {
            let content: Vec<u8> =
                (0..length).map(|at| (at * 31 + at / 251 + number as usize) as u8).collect();
            encode(number, Entry::Record(&content), &mut bytes);
            ends.push(bytes.len());
            encode(number + 1, Entry::Synced(number + 1), &mut bytes);
        }
        let whole = bytes.to_vec();
        let (parsed, most) = read_in_pieces(whole.clone());
        assert_eq!((parsed.next, parsed.len, parsed.stop), (lengths.len() as u64, whole.len(), None));
        assert_eq!(most, window, "bytes that are read at a time");
        let around = |at: usize| [at.saturating_sub(1), at, at + 1, at + 19, at + 20, at + 21];
        let cuts =
            ends.iter().flat_map(|end| around(*end)).chain((1..8).flat_map(|piece| around(piece * window)));
        for cut in cuts.filter(|cut| *cut < whole.len()) {
            let (parsed, _) = read_in_pieces(whole[..cut].to_vec());
            assert_eq!(parsed.stop.is_none(), parsed.len == cut, "cut at {cut}");
            let mut rotten = whole.clone();
            rotten[cut] ^= 4;
            let (parsed, _) = read_in_pieces(rotten);
            assert!(parsed.len <= cut && parsed.stop == Some(Stop::Broken), "rotten at {cut}: {parsed:?}");
        }
    }
}
