//! A journal in files of one directory: a snapshot, and the records since.
//!
//! A record is written to the file before the reply leaves, so it survives the process; the file is brought to the disk
//! every [`FileJournalOptions::sync_interval`], so a power failure takes at most that much, and the workers' reports and
//! the applications' heartbeats bring it back.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::BytesMut;

use super::layout::{Entry, Frame, decode, encode, holds_frame_later};
use super::{Journal, Kept};
use crate::master::record::Record;
use crate::{Error, Kind, Result};

/// Where and how to keep the files.
#[derive(Debug, Clone)]
pub struct FileJournalOptions {
    /// The directory; made if it is not there. One process at a time.
    pub dir: PathBuf,
    /// A snapshot is due when the records since the last have this many bytes and twice the snapshot's.
    pub snapshot_after_bytes: u64,
    /// The longest that a record is on its way to the disk.
    pub sync_interval: Duration,
}

impl FileJournalOptions {
    /// The defaults for a directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), snapshot_after_bytes: 4 << 20, sync_interval: Duration::from_millis(50) }
    }
}

/// How long a journal with a fault waits before it tries to be whole again.
const RETRY: Duration = Duration::from_secs(5);

/// See the [module](self).
pub struct FileJournal {
    options: FileJournalOptions,
    file: Arc<File>,
    /// Of the file: the sequence of its first record, and its length up to the last whole one.
    first: u64,
    len: u64,
    next: u64,
    /// The file lacks records that could not be written to it; no more go there, for none behind a gap is read.
    has_gap: bool,
    snapshot_len: Arc<Mutex<u64>>,
    retry_at: Instant,
    syncer: Arc<Syncer>,
    _lock: File,
}

impl FileJournal {
    /// Opens or makes the directory's journal and returns the records that it holds, in order.
    ///
    /// # Errors
    /// `Conflict` if another process uses the directory; `Corrupt` if a file is damaged other than at its end; others as
    /// the file system says.
    pub fn open(options: FileJournalOptions) -> Result<(Self, Vec<Record>)> {
        fs::create_dir_all(&options.dir).map_err(at(&options.dir))?;
        let lock = lock(&options.dir)?;
        let Files { snapshots, journals } = Files::list(&options.dir)?;
        let mut records = Vec::new();
        let mut next = 0;
        let mut snapshot_len = 0;
        if let Some((first, path)) = snapshots.last_key_value() {
            read_snapshot(path, &mut records)?;
            (next, snapshot_len) = (*first, path.metadata().map_err(at(path))?.len());
        }
        let mut from_last = journals.keys().rev().copied();
        let (last, before_last) = (from_last.next(), from_last.next());
        for (first, path) in journals.range(next..) {
            if *first > next {
                tracing::warn!(path = %path.display(), expected = next, "records are missing before this journal file");
            }
            let place = if Some(*first) == last {
                Place::Last
            } else if Some(*first) == before_last {
                Place::BeforeLast
            } else {
                Place::Earlier
            };
            next = read_journal(path, *first, place, &mut records)?;
        }
        // Going on in the last file keeps the number of files bounded however often the process restarts.
        let first =
            last.filter(|first| *first >= snapshots.last_key_value().map_or(0, |(s, _)| *s)).unwrap_or(next);
        let path = journal_path(&options.dir, first);
        let file = OpenOptions::new().append(true).create(true).open(&path).map_err(at(&path))?;
        let len = file.metadata().map_err(at(&path))?.len();
        sync_dir(&options.dir)?;
        let file = Arc::new(file);
        let syncer = Syncer::start(options.sync_interval);
        let journal = Self {
            options,
            file,
            first,
            len,
            next,
            has_gap: false,
            snapshot_len: Arc::new(Mutex::new(snapshot_len)),
            retry_at: Instant::now(),
            syncer,
            _lock: lock,
        };
        Ok((journal, records))
    }

    fn write(&mut self, records: &[Record]) -> Result<()> {
        let mut bytes = BytesMut::new();
        for record in records {
            encode(self.next, &Entry::Record(record.clone()), &mut bytes);
            self.next += 1;
        }
        if let Err(error) = (&*self.file).write_all(&bytes) {
            // What was written of it would hide the records behind it.
            let cut = self.file.set_len(self.len);
            self.has_gap = true;
            self.retry_at = Instant::now() + RETRY;
            let path = journal_path(&self.options.dir, self.first);
            let error = match cut {
                Ok(()) => at(&path)(error),
                Err(cut) => at(&path)(cut),
            };
            self.syncer.fail(format!("cannot write: {error}"), false);
            return Err(error);
        }
        self.len += bytes.len() as u64;
        self.syncer.request(&self.file);
        Ok(())
    }

    /// Goes on in a file that begins at `first`, and returns the one before, which is the same if it holds nothing yet.
    fn begin_file(&mut self, first: u64) -> Result<Arc<File>> {
        if first == self.first {
            return Ok(self.file.clone());
        }
        let path = journal_path(&self.options.dir, first);
        let file = OpenOptions::new().append(true).create(true).open(&path).map_err(at(&path))?;
        (self.first, self.len, self.has_gap) = (first, 0, false);
        Ok(std::mem::replace(&mut self.file, Arc::new(file)))
    }
}

impl Journal for FileJournal {
    fn append(&mut self, records: &[Record]) -> Kept {
        // Where nothing more can be kept, the next snapshot has the records. The file that such a snapshot begins takes
        // what is decided while it is written, although the fault still stands.
        let written = if self.has_gap || self.syncer.fault().is_some_and(|fault| fault.forever) {
            self.next += records.len() as u64;
            Ok(())
        } else {
            self.write(records)
        };
        Box::pin(std::future::ready(written))
    }

    fn wants_snapshot(&self) -> bool {
        if self.syncer.is_busy() {
            return false;
        }
        match self.syncer.fault() {
            Some(fault) => !fault.forever && Instant::now() >= self.retry_at,
            None => {
                let snapshot_len = *self.snapshot_len.lock().unwrap_or_else(PoisonError::into_inner);
                self.len >= self.options.snapshot_after_bytes.max(2 * snapshot_len)
            }
        }
    }

    fn snapshot(&mut self, records: Vec<Record>) -> Box<dyn FnOnce() + Send> {
        self.retry_at = Instant::now() + RETRY;
        let (dir, first) = (self.options.dir.clone(), self.next);
        let before = match self.begin_file(first) {
            Ok(before) => before,
            Err(error) => {
                self.syncer.fail(format!("cannot begin a journal file: {error}"), false);
                return Box::new(|| {});
            }
        };
        let snapshot_len = self.snapshot_len.clone();
        let busy = Busy::begin(&self.syncer);
        Box::new(move || {
            let written = before.sync_data().map_err(at(&dir)).and_then(|()| {
                // The new file's name, which a power failure may take with all that is written to it.
                sync_dir(&dir)?;
                let len = write_snapshot(&dir, first, &records)?;
                Files::list(&dir)?.remove_before(first);
                Ok(len)
            });
            match written {
                Ok(len) => {
                    *snapshot_len.lock().unwrap_or_else(PoisonError::into_inner) = len;
                    busy.recover();
                }
                Err(error) => busy.syncer.fail(format!("cannot write a snapshot: {error}"), false),
            }
        })
    }

    fn fault(&self) -> Option<String> {
        self.syncer.fault().map(|fault| fault.text)
    }
}

impl Drop for FileJournal {
    fn drop(&mut self) {
        self.syncer.stop();
        if let Err(error) = self.file.sync_data() {
            tracing::error!(%error, "the journal's last records may not be on the disk");
        }
    }
}

/// Brings the file to the disk on a thread of its own, and keeps what went wrong.
#[derive(Default)]
struct Syncer {
    state: Mutex<SyncState>,
    changed: Condvar,
}

#[derive(Default)]
struct SyncState {
    due: Option<Arc<File>>,
    fault: Option<Fault>,
    /// Faults so far: a snapshot repairs those that were there when it was begun.
    faults: u64,
    busy: bool,
    stopped: bool,
}

#[derive(Debug, Clone)]
struct Fault {
    text: String,
    /// An fsync failed: what the kernel then holds of the files is unknown, and is not asked again.
    forever: bool,
}

impl Syncer {
    fn start(interval: Duration) -> Arc<Self> {
        let syncer = Arc::new(Self::default());
        let shared = syncer.clone();
        let thread = std::thread::Builder::new().name("journal-sync".to_owned());
        let spawned = thread.spawn(move || {
            while let Some(file) = shared.next_due(interval) {
                if let Err(error) = file.sync_data() {
                    shared.fail(format!("cannot bring records to the disk: {error}"), true);
                }
            }
        });
        if let Err(error) = spawned {
            syncer.fail(format!("cannot start a thread: {error}"), true);
        }
        syncer
    }

    /// Waits for a request and then for the interval, so that records share an fsync.
    fn next_due(&self, interval: Duration) -> Option<Arc<File>> {
        let mut state = self.lock();
        while state.due.is_none() && !state.stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if !state.stopped {
            let waited = self.changed.wait_timeout_while(state, interval, |state| !state.stopped);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.stopped { None } else { state.due.take() }
    }

    fn request(&self, file: &Arc<File>) {
        let mut state = self.lock();
        // One that was due before is brought to the disk by the snapshot that ended it.
        if state.due.replace(file.clone()).is_none() {
            self.changed.notify_all();
        }
    }

    fn fail(&self, text: String, forever: bool) {
        let mut state = self.lock();
        if state.fault.is_none() {
            tracing::error!("the journal does not keep records any more: {text}");
        }
        let forever = forever || state.fault.as_ref().is_some_and(|fault| fault.forever);
        state.fault = Some(Fault { text, forever });
        state.faults += 1;
    }

    fn fault(&self) -> Option<Fault> {
        self.lock().fault.clone()
    }

    fn is_busy(&self) -> bool {
        self.lock().busy
    }

    fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While a snapshot is written, however that ends.
struct Busy {
    syncer: Arc<Syncer>,
    faults: u64,
}

impl Busy {
    fn begin(syncer: &Arc<Syncer>) -> Self {
        let mut state = syncer.lock();
        state.busy = true;
        Self { syncer: syncer.clone(), faults: state.faults }
    }

    /// The snapshot is there: what failed before it was begun is repaired, and nothing that failed since.
    fn recover(&self) {
        let mut state = self.syncer.lock();
        if state.faults == self.faults && state.fault.as_ref().is_some_and(|fault| !fault.forever) {
            tracing::info!("the journal is whole again");
            state.fault = None;
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.syncer.lock().busy = false;
    }
}

/// The files of a directory by the sequence in their names.
struct Files {
    snapshots: BTreeMap<u64, PathBuf>,
    journals: BTreeMap<u64, PathBuf>,
}

impl Files {
    fn list(dir: &Path) -> Result<Self> {
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

    /// Removes what a snapshot at `sequence` has made superfluous. What cannot be removed is ignored when read.
    fn remove_before(&self, sequence: u64) {
        let old = self.snapshots.range(..sequence).chain(self.journals.range(..sequence));
        for (_, path) in old {
            if let Err(error) = fs::remove_file(path) {
                tracing::warn!(path = %path.display(), %error, "cannot remove an old journal file");
            }
        }
    }
}

fn journal_path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("journal-{first:020}.log"))
}

fn lock(dir: &Path) -> Result<File> {
    let path = dir.join("LOCK");
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(at(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            let error = Error::new(Kind::Conflict, format!("{} is in use by another master", dir.display()));
            Err(error.with_hint("stop the other process, or give this one a directory of its own with --dir"))
        }
        Err(fs::TryLockError::Error(error)) => Err(at(&path)(error)),
    }
}

fn write_snapshot(dir: &Path, first: u64, records: &[Record]) -> Result<u64> {
    let path = dir.join(format!("snapshot-{first:020}.bin"));
    let unfinished = dir.join("snapshot.tmp");
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
    file.sync_all().map_err(at(&unfinished))?;
    fs::rename(&unfinished, &path).map_err(at(&path))?;
    sync_dir(dir)?;
    Ok(len)
}

fn read_snapshot(path: &Path, records: &mut Vec<Record>) -> Result<()> {
    let bytes = read(path)?;
    let mut at = 0;
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
                return Ok(());
            }
            Frame::Foreign => return Err(foreign(path, at)),
            Frame::Whole { .. } | Frame::Broken => break,
        }
    }
    Err(corrupt(path, at))
}

/// Where a journal file stands among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Earlier,
    BeforeLast,
    Last,
}

/// Reads a journal file and returns the sequence after its last record. The end of the last file may be torn, by a
/// process or a machine that died while writing: it is cut off. So may that of the one before, where a power failure came
/// between the file that a snapshot begins and the snapshot: it lacks records of the last moment, as the last file would.
fn read_journal(path: &Path, first: u64, place: Place, records: &mut Vec<Record>) -> Result<u64> {
    let bytes = read(path)?;
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

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(at(path))?;
    Ok(bytes)
}

fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(at(dir))
}

fn corrupt(path: &Path, offset: usize) -> Error {
    let message = format!("{} is damaged at byte {offset}, before its end", path.display());
    Error::new(Kind::Corrupt, message).with_hint(
        "restore the directory, or start with an empty one: applications and workers will tell most of what it held",
    )
}

fn foreign(path: &Path, offset: usize) -> Error {
    let message = format!("{} holds a record of a newer version at byte {offset}", path.display());
    Error::new(Kind::Invalid, message).with_hint("start the version that wrote it")
}

/// Names the file that an I/O error is about.
fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    move |error| {
        let kind = match error.kind() {
            ErrorKind::NotFound => Kind::NotFound,
            ErrorKind::PermissionDenied => Kind::Denied,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Kind::ResourceExhausted,
            _ => Kind::Unavailable,
        };
        Error::new(kind, format!("{}: {error}", path.display())).with_source(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ShuffleKey;

    fn registered(shuffle: i32) -> Record {
        Record::ShuffleRegistered { shuffle: ShuffleKey::new("app", shuffle), at_unix_ms: 1 }
    }

    fn options(dir: &Path) -> FileJournalOptions {
        FileJournalOptions { snapshot_after_bytes: 4096, ..FileJournalOptions::new(dir) }
    }

    fn open(dir: &Path) -> (FileJournal, Vec<Record>) {
        FileJournal::open(options(dir)).unwrap()
    }

    /// Appends as if the process were killed behind it: nothing is flushed by us.
    fn append(journal: &mut FileJournal, range: std::ops::Range<i32>) {
        for shuffle in range {
            drop(journal.append(&[registered(shuffle)]));
            assert_eq!(journal.fault(), None);
        }
    }

    fn last_file(dir: &Path) -> PathBuf {
        Files::list(dir).unwrap().journals.pop_last().unwrap().1
    }

    #[test]
    fn what_was_appended_comes_back_across_restarts_and_snapshots() {
        let dir = tempfile::tempdir().unwrap();
        let mut expected = Vec::new();
        for round in 0..10 {
            let (mut journal, records) = open(dir.path());
            assert_eq!(records, expected, "round {round}");
            append(&mut journal, round * 40..round * 40 + 40);
            expected.extend((round * 40..round * 40 + 40).map(registered));
            if journal.wants_snapshot() {
                journal.snapshot(expected.clone())();
                append(&mut journal, 9000 + round..9001 + round);
                expected.push(registered(9000 + round));
            }
        }
        let files = Files::list(dir.path()).unwrap();
        assert_eq!((files.snapshots.len(), files.journals.len()), (1, 1));
        assert!(files.snapshots.last_key_value().unwrap().0 > &100);
    }

    #[test]
    fn a_torn_end_is_cut_at_every_length() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 1..4);
        drop(journal);
        let path = last_file(dir.path());
        let whole = fs::read(&path).unwrap();
        let frame = whole.len() / 3;
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            let (mut journal, records) = open(dir.path());
            assert_eq!(
                records,
                (1..=(len / frame) as i32).map(registered).collect::<Vec<_>>(),
                "{len} bytes"
            );
            append(&mut journal, 7..8);
            drop(journal);
            assert_eq!(open(dir.path()).1.last(), Some(&registered(7)));
        }
    }

    #[test]
    fn the_file_before_the_last_may_be_torn_too_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 1..4);
        drop(journal.snapshot(Vec::new())); // Power fails before it is written.
        append(&mut journal, 4..6);
        drop(journal);
        let path = Files::list(dir.path()).unwrap().journals.pop_first().unwrap().1;
        let whole = fs::read(&path).unwrap();
        let frame = whole.len() / 3;
        let expected =
            |len: usize| (1..=(len / frame) as i32).chain(4..6).map(registered).collect::<Vec<_>>();
        for len in 0..=whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            for _ in 0..2 {
                let (journal, records) = open(dir.path());
                assert_eq!((records, journal.next), (expected(len), 5), "{len} bytes");
            }
        }
        // What was allocated and never written is as good as torn; a hole before whole records is rot.
        let mut zeroed = whole.clone();
        zeroed[2 * frame + 1..].fill(0);
        fs::write(&path, &zeroed).unwrap();
        assert_eq!(open(dir.path()).1, expected(2 * frame));
        let mut rotten = whole.clone();
        rotten[frame + 1] ^= 4;
        fs::write(&path, &rotten).unwrap();
        assert_eq!(FileJournal::open(options(dir.path())).err().unwrap().kind(), Kind::Corrupt);
        fs::write(&path, &whole).unwrap();
        let (mut journal, _) = open(dir.path());
        drop(journal.snapshot(Vec::new()));
        append(&mut journal, 6..7);
        drop(journal);
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(FileJournal::open(options(dir.path())).err().unwrap().kind(), Kind::Corrupt);
    }

    #[test]
    fn rot_before_the_end_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..3);
        drop(journal);
        let path = last_file(dir.path());
        let whole = fs::read(&path).unwrap();
        for at in 0..2 * whole.len() / 3 {
            let mut rotten = whole.clone();
            rotten[at] ^= 4;
            fs::write(&path, &rotten).unwrap();
            let error = FileJournal::open(options(dir.path())).err().unwrap();
            assert_eq!(error.kind(), Kind::Corrupt, "byte {at}");
            assert_eq!(fs::read(&path).unwrap(), rotten, "nothing was changed");
        }
    }

    #[test]
    fn an_unfinished_snapshot_is_nothing_and_a_rotten_one_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..100);
        let job = journal.snapshot((0..100).map(registered).collect());
        append(&mut journal, 100..101);
        drop(job); // Killed before it was written.
        fs::write(dir.path().join("snapshot.tmp"), b"half").unwrap();
        drop(journal);
        let (mut journal, records) = open(dir.path());
        assert_eq!(records, (0..101).map(registered).collect::<Vec<_>>());
        journal.snapshot(records.clone())();
        drop(journal);
        assert_eq!(open(dir.path()).1, records);
        let path = Files::list(dir.path()).unwrap().snapshots.pop_last().unwrap().1;
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 40]).unwrap();
        let error = FileJournal::open(options(dir.path())).err().unwrap();
        assert_eq!(error.kind(), Kind::Corrupt);
    }

    #[test]
    fn two_processes_do_not_share_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let (journal, _) = open(dir.path());
        let error = FileJournal::open(options(dir.path())).err().unwrap();
        assert_eq!(error.kind(), Kind::Conflict);
        assert!(error.hint().is_some());
        drop(journal);
        open(dir.path());
    }

    #[test]
    fn a_journal_that_could_not_write_is_whole_after_a_snapshot() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..3);
        fill_disk(&mut journal);
        drop(journal.append(&[registered(3)]));
        assert!(journal.fault().is_some());
        drop(journal.append(&[registered(4)]));
        journal.retry_at = Instant::now();
        assert!(journal.wants_snapshot());
        journal.snapshot((0..5).map(registered).collect())();
        assert_eq!(journal.fault(), None);
        append(&mut journal, 5..6);
        drop(journal);
        assert_eq!(open(dir.path()).1, (0..6).map(registered).collect::<Vec<_>>());
    }

    /// A file that cannot be written stands for a full disk.
    fn fill_disk(journal: &mut FileJournal) {
        journal.file = Arc::new(File::open(last_file(&journal.options.dir)).unwrap());
    }

    #[test]
    fn what_is_decided_while_the_journal_is_repaired_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..3);
        fill_disk(&mut journal);
        drop(journal.append(&[registered(3)]));
        let repair = journal.snapshot((0..4).map(registered).collect());
        drop(journal.append(&[registered(4)]));
        assert!(journal.fault().is_some(), "the snapshot is not there yet");
        repair();
        append(&mut journal, 5..6);
        drop(journal);
        assert_eq!(open(dir.path()).1, (0..6).map(registered).collect::<Vec<_>>());
    }

    #[test]
    fn a_snapshot_does_not_repair_what_failed_after_it_was_begun() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..3);
        let snapshot = journal.snapshot((0..3).map(registered).collect());
        fill_disk(&mut journal);
        drop(journal.append(&[registered(3)]));
        snapshot();
        assert!(journal.fault().is_some());
        journal.retry_at = Instant::now();
        assert!(journal.wants_snapshot());
        journal.snapshot((0..4).map(registered).collect())();
        append(&mut journal, 4..5);
        drop(journal);
        assert_eq!(open(dir.path()).1, (0..5).map(registered).collect::<Vec<_>>());
    }

    #[test]
    fn a_repair_that_failed_is_tried_again_though_nothing_was_decided_since() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..3);
        fill_disk(&mut journal);
        drop(journal.append(&[registered(3)]));
        drop(journal.snapshot((0..4).map(registered).collect())); // Not written, as on a disk that is still full.
        journal.retry_at = Instant::now();
        assert!(journal.wants_snapshot(), "the one that was given up is not in the way");
        journal.snapshot((0..4).map(registered).collect())();
        assert_eq!(journal.fault(), None);
        drop(journal);
        assert_eq!(open(dir.path()).1, (0..4).map(registered).collect::<Vec<_>>());
    }

    #[test]
    fn a_hundred_thousand_records_open_within_a_second() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = FileJournal::open(FileJournalOptions::new(dir.path())).unwrap();
        let records: Vec<Record> = (0..100_000).map(registered).collect();
        drop(journal.append(&records));
        drop(journal);
        let started = Instant::now();
        let (_, read) = FileJournal::open(FileJournalOptions::new(dir.path())).unwrap();
        assert_eq!(read.len(), records.len());
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    }
}
