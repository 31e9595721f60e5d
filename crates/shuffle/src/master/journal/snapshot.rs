//! A snapshot's file: the records of a state, and a count of them at the end.

use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use bytes::BytesMut;

use super::directory::{at, corrupt, foreign, read as read_file, snapshot_path};
use super::layout::{Entry, Frame, decode, encode};
use crate::master::record::Record;
use crate::{Error, Result};

/// Why a snapshot failed.
#[derive(Debug)]
pub enum SnapshotError {
    /// An fsync failed, of this file or of another that it depends on. It is not tried again.
    Sync(Error),
    /// Another failure.
    Other(Error),
}

impl From<Error> for SnapshotError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<SnapshotError> for Error {
    fn from(error: SnapshotError) -> Self {
        let (SnapshotError::Sync(error) | SnapshotError::Other(error)) = error;
        error
    }
}

/// Writes the state before the record `first`, and returns its length in bytes. It is then on disk under its name. If that
/// fails it leaves nothing behind: on a full disk that would take the space that the records need.
pub fn write(dir: &Path, first: u64, records: &[Record]) -> Result<u64, SnapshotError> {
    let written = write_unfinished(dir, records).and_then(|len| {
        let path = snapshot_path(dir, first);
        fs::rename(unfinished_path(dir), &path).map_err(at(&path))?;
        Ok(len)
    });
    if written.is_err() {
        remove_unfinished(dir);
    }
    let len = written?;
    sync_dir(dir)?;
    Ok(len)
}

/// Removes what is left of a snapshot that was not renamed.
pub fn remove_unfinished(dir: &Path) {
    let path = unfinished_path(dir);
    if let Err(error) = fs::remove_file(&path)
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "cannot remove an unfinished snapshot");
    }
}

fn unfinished_path(dir: &Path) -> PathBuf {
    dir.join("snapshot.tmp")
}

fn write_unfinished(dir: &Path, records: &[Record]) -> Result<u64, SnapshotError> {
    let unfinished = unfinished_path(dir);
    let mut file = BufWriter::with_capacity(1 << 20, File::create(&unfinished).map_err(at(&unfinished))?);
    let mut bytes = BytesMut::new();
    let mut len = 0;
    let entries = records.iter().map(|record| Entry::Record(record.clone()));
    let end = Entry::SnapshotEnd(records.len() as u64);
    for (sequence, entry) in entries.chain([end]).enumerate() {
        bytes.clear();
        encode(sequence as u64, &entry, &mut bytes);
        file.write_all(&bytes).map_err(at(&unfinished))?;
        len += bytes.len() as u64;
    }
    let file = file.into_inner().map_err(|error| at(&unfinished)(error.into_error()))?;
    file.sync_all().map_err(|error| SnapshotError::Sync(at(&unfinished)(error)))?;
    Ok(len)
}

/// Syncs the names in a directory to disk.
pub fn sync_dir(dir: &Path) -> Result<(), SnapshotError> {
    let names = File::open(dir).map_err(at(dir))?;
    names.sync_all().map_err(|error| SnapshotError::Sync(at(dir)(error)))
}

/// Reads the records of a snapshot.
///
/// # Errors
/// `Corrupt` if it is not complete, `Conflict` if a newer version has written it.
pub fn read(path: &Path) -> Result<Vec<Record>> {
    let bytes = read_file(path)?;
    let (mut records, mut at) = (Vec::new(), 0);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        match decode(rest) {
            Frame::Whole { sequence, .. } if sequence != records.len() as u64 => break,
            Frame::Whole { entry: Entry::Record(record), len, .. } => {
                records.push(record);
                at += len;
            }
            Frame::Whole { entry: Entry::SnapshotEnd(count), len, .. }
                if count == records.len() as u64 && at + len == bytes.len() =>
            {
                return Ok(records);
            }
            Frame::Foreign => return Err(foreign(path, at)),
            Frame::Whole { .. } | Frame::Broken => break,
        }
    }
    Err(corrupt(path, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::ids::ShuffleKey;

    #[test]
    fn records_are_read_in_order_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("snapshot");
        let read_of = |sequences: &[u64]| {
            let mut bytes = BytesMut::new();
            for (at, sequence) in sequences.iter().enumerate() {
                let shuffle = ShuffleKey::new("app", *sequence as i32);
                let record = Record::ShuffleRegistered { shuffle, at_unix_ms: 0 };
                let is_last = at + 1 == sequences.len();
                let entry = if is_last { Entry::SnapshotEnd(at as u64) } else { Entry::Record(record) };
                encode(*sequence, &entry, &mut bytes);
            }
            fs::write(&path, &bytes).unwrap();
            read(&path).map(|records| records.len()).map_err(|error| error.kind())
        };
        assert_eq!(read_of(&[0, 1, 2, 3]), Ok(3));
        for misplaced in [&[0, 1, 3, 3][..], &[0, 0, 1, 3], &[1, 2, 3, 4], &[0, 2, 1, 3], &[0, 1, 2, 4]] {
            assert_eq!(read_of(misplaced), Err(Kind::Corrupt), "{misplaced:?}");
        }
    }
}
