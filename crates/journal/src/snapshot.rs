//! A snapshot's file: the records of a state, and a count of them at the end.

use std::io::{self, BufReader, Read};
use std::path::Path;

use bytes::BytesMut;
use yeoul_base::Result;
use yeoul_disk::{Disk, Failure, Open, Sequential, replace_file};

use crate::Record;
use crate::directory::{corrupt, snapshot_path, unfinished_path, unreadable};
use crate::health::SnapshotError;
use crate::layout::{Entry, Frame, HEAD, Head, begins_of, body_len, decode_parts, encode, encoded};
use crate::parsed::{Stop, check_kind};

/// Bytes read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// Writes the state before record `first` as its records come, and returns the length in bytes. Before the file gets its
/// name, `settle` brings to the disk what the state may have taken in meanwhile. The file is then on disk under its name. If
/// anything fails it leaves nothing behind: on a full disk that would take the space that the records need.
pub fn write<R: Record>(
    disk: &dyn Disk,
    dir: &Path,
    first: u64,
    records: &mut dyn Iterator<Item = R>,
    settle: impl FnOnce() -> Result<(), SnapshotError>,
) -> Result<u64, SnapshotError> {
    let mut settled = Ok(());
    let written = replace_file(disk, &snapshot_path(dir, first), &unfinished_path(dir), |file| {
        let mut frame = BytesMut::new();
        encode(0, begins_of::<R>(), &mut frame);
        let mut count = 0;
        for record in records {
            encode(count, Entry::Record(&encoded(&record)), &mut frame);
            file.write_all(&frame)?;
            frame.clear();
            count += 1;
        }
        encode(count, Entry::SnapshotEnd(count), &mut frame);
        file.write_all(&frame)?;
        settled = settle();
        // The error itself is kept beside.
        settled.as_ref().map(drop).map_err(|_| io::Error::other("records were not kept meanwhile"))
    });
    settled?;
    Ok(written?)
}

/// Reads a snapshot, passes on its records, and returns how many there were. It may be larger than the memory.
///
/// # Errors
/// `Corrupt` if it is not complete: what was passed on before that is of no use. `Conflict` if another version or kind of
/// server has written it.
pub fn read<R: Record>(disk: &dyn Disk, path: &Path, mut each: impl FnMut(R)) -> Result<u64> {
    let file = disk.open(path, Open::Read).map_err(Failure::at(path))?;
    let mut left = file.len().map_err(Failure::at(path))?;
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, Sequential::new(file));
    let (mut at, mut count, mut layout_version) = (0, 0, None);
    let (mut head, mut body) = ([0; HEAD], Vec::new());
    loop {
        if left < HEAD as u64 {
            return Err(corrupt(path, at));
        }
        reader.read_exact(&mut head).map_err(Failure::at(path))?;
        left -= HEAD as u64;
        let len = match body_len(&head) {
            Head::Len(len) if len as u64 <= left => len,
            Head::Earlier => return Err(unreadable(path, at, Stop::Earlier)),
            Head::Len(_) | Head::Broken => return Err(corrupt(path, at)),
        };
        body.resize(len, 0);
        reader.read_exact(&mut body).map_err(Failure::at(path))?;
        left -= len as u64;
        let stop = match (decode_parts(&head, &body), layout_version) {
            (Frame::Whole { sequence, .. }, _) if sequence != count => Stop::Broken,
            (Frame::Whole { entry: Entry::Begins { kind, layout_version: version }, .. }, None) => {
                layout_version = Some(version);
                match check_kind::<R>(kind, version) {
                    Ok(()) => {
                        at += (HEAD + len) as u64;
                        continue;
                    }
                    Err(stop) => stop,
                }
            }
            (Frame::Whole { entry: Entry::Record(bytes), .. }, Some(version)) => {
                match R::decode(version, bytes) {
                    Some(record) => {
                        each(record);
                        count += 1;
                        at += (HEAD + len) as u64;
                        continue;
                    }
                    None => Stop::Foreign,
                }
            }
            (Frame::Whole { entry: Entry::SnapshotEnd(number), .. }, Some(_))
                if number == count && left == 0 =>
            {
                return Ok(count);
            }
            (Frame::Foreign, _) => Stop::Foreign,
            (Frame::Whole { .. } | Frame::Broken | Frame::Earlier, _) => Stop::Broken,
        };
        return Err(unreadable(path, at, stop));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use yeoul_base::ErrorKind;
    use yeoul_disk::RealDisk;

    use super::*;
    use crate::scripted::Put;

    #[test]
    fn records_are_read_in_order_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("snapshot");
        let read_of = |sequences: &[u64]| {
            let mut bytes = BytesMut::new();
            encode(0, begins_of::<Put>(), &mut bytes);
            let (last, records) = sequences.split_last().unwrap();
            for sequence in records {
                encode(*sequence, Entry::Record(&encoded(&Put::new(*sequence))), &mut bytes);
            }
            encode(*last, Entry::SnapshotEnd(records.len() as u64), &mut bytes);
            fs::write(&path, &bytes).unwrap();
            let mut found = Vec::new();
            let count = read(&RealDisk, &path, |put: Put| found.push(put)).map_err(|error| error.kind())?;
            assert_eq!(found, (0..count).map(Put::new).collect::<Vec<_>>());
            Ok(count)
        };
        assert_eq!(read_of(&[0, 1, 2, 3]), Ok(3));
        assert_eq!(read_of(&[0]), Ok(0));
        for misplaced in [&[0, 1, 3, 3][..], &[0, 0, 1, 3], &[1, 2, 3, 4], &[0, 2, 1, 3], &[0, 1, 2, 4]] {
            assert_eq!(read_of(misplaced), Err(ErrorKind::Corrupt), "{misplaced:?}");
        }
    }

    #[test]
    fn any_cut_and_any_change_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let mut records = (0..5).map(Put::new);
        write(&RealDisk, dir.path(), 7, &mut records, || Ok(())).unwrap();
        let path = snapshot_path(dir.path(), 7);
        let whole = fs::read(&path).unwrap();
        let kind = || read(&RealDisk, &path, |_: Put| ()).map_err(|error| error.kind());
        assert_eq!(kind(), Ok(5));
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            assert_eq!(kind(), Err(ErrorKind::Corrupt), "{len} bytes");
        }
        for at in 0..whole.len() {
            let mut rotten = whole.clone();
            rotten[at] ^= 0x40;
            fs::write(&path, &rotten).unwrap();
            assert_eq!(kind(), Err(ErrorKind::Corrupt), "byte {at}");
        }
        fs::write(&path, [&whole[..], b"more"].concat()).unwrap();
        assert_eq!(kind(), Err(ErrorKind::Corrupt));
    }

    #[test]
    fn a_layout_before_this_one_is_read_and_one_behind_it_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("snapshot");
        let of_layout = |layout_version: u32, kind| {
            let mut bytes = BytesMut::new();
            encode(0, Entry::Begins { layout_version, kind }, &mut bytes);
            encode(0, Entry::Record(&[0, 9, 0, 0, 0, 70]), &mut bytes);
            encode(1, Entry::SnapshotEnd(1), &mut bytes);
            fs::write(&path, &bytes).unwrap();
            let mut found = Vec::new();
            read(&RealDisk, &path, |put: Put| found.push(put)).map(|_| found)
        };
        assert_eq!(of_layout(1, "put").unwrap(), [Put { key: 9, value: 70 }]);
        let newer = of_layout(3, "put").unwrap_err();
        assert!(
            newer.kind() == ErrorKind::Conflict && newer.to_string().contains("a newer version"),
            "{newer}"
        );
        let other = of_layout(1, "get").unwrap_err();
        assert!(other.kind() == ErrorKind::Conflict && other.to_string().contains("another kind"), "{other}");
        fs::write(&path, b"YJR1 and whatever it had, with enough bytes").unwrap();
        let earlier = read(&RealDisk, &path, |_: Put| ()).unwrap_err();
        assert!(earlier.to_string().contains("before the first release"), "{earlier}");
    }
}
