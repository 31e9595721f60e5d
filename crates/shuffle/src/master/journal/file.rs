//! A journal in files of one directory: a snapshot, and the records since.
//!
//! A record is written to the file before a reply leaves that rests on it, so it survives the process; the file is
//! brought to the disk every [`FileJournalOptions::sync_interval`], so a power failure takes at most that much, and the
//! workers' reports and the applications' heartbeats bring it back.
//!
//! Nothing here waits for the disk while the state is locked: a thread writes, another one brings it to the disk, and a
//! snapshot has the caller's. A disk that does not answer is a fault like any other, and replies leave without it.

use std::fs::{self, File};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(test)]
use std::sync::mpsc::SyncSender;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::directory::{Files, at, lock};
use super::health::Health;
use super::layout::{Entry, payload};
use super::queue::{Begun, Order, Queue};
use super::segment::{self, Segment};
use super::snapshot::{self, SnapshotError, sync_dir};
use super::syncer::Syncer;
use super::writer::Writer;
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
    /// The longest that anybody waits for a disk that does not answer. Replies leave then as they do with any other fault.
    pub answer_max: Duration,
}

impl FileJournalOptions {
    /// The defaults for a directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            snapshot_after_bytes: 4 << 20,
            sync_interval: Duration::from_millis(50),
            answer_max: Duration::from_secs(3),
        }
    }
}

/// See the [module](self).
pub struct FileJournal {
    options: FileJournalOptions,
    queue: Arc<Queue>,
    segment_len: Arc<AtomicU64>,
    snapshot_len: Arc<AtomicU64>,
    health: Arc<Health>,
    syncer: Arc<Syncer>,
    /// For snapshots, which may take longer than the journal is there.
    lock: Arc<File>,
}

impl FileJournal {
    /// Opens or makes the directory's journal and returns the records that it holds, in order.
    ///
    /// # Errors
    /// `Conflict` if another process uses the directory, or a snapshot of this one is still written there; `Corrupt` if a
    /// file is damaged where it was on the disk; others as the file system says.
    pub fn open(options: FileJournalOptions) -> Result<(Self, Vec<Record>)> {
        let unusable = |error| Error::unusable_directory(&options.dir, "the journal", error);
        fs::create_dir_all(&options.dir).map_err(unusable)?;
        let lock = Arc::new(lock(&options.dir)?);
        snapshot::remove_unfinished(&options.dir);
        let Files { snapshots, journals } = Files::list(&options.dir)?;
        let mut records = Vec::new();
        let mut next = 0;
        let mut snapshot_len = 0;
        if let Some((first, path)) = snapshots.last_key_value() {
            records = snapshot::read(path)?;
            (next, snapshot_len) = (*first, path.metadata().map_err(at(path))?.len());
        }
        let mut last_read = None;
        for (first, path) in journals.range(next..) {
            if *first > next {
                tracing::warn!(path = %path.display(), expected = next, "records are missing before this journal file");
            }
            let behind = (Bound::Excluded(*first), Bound::Unbounded);
            let synced_behind = || segment::synced_in_all(journals.range(behind).map(|(_, path)| path));
            let contents = segment::read(path, *first, synced_behind)?;
            records.extend(contents.records);
            (next, last_read) = (contents.next, Some(*first));
        }
        // Going on in the last file keeps the number of files bounded however often the process restarts.
        let segment = Segment::open(&options.dir, last_read.unwrap_or(next))?;
        sync_dir(&options.dir)?;
        let health = Health::new();
        let syncer = Syncer::start(options.sync_interval, next, health.clone());
        let (queue, segment_len) = (Arc::new(Queue::default()), Arc::new(AtomicU64::new(segment.len())));
        let (dir, len) = (options.dir.clone(), segment_len.clone());
        Writer {
            dir,
            segment,
            next,
            said_synced: 0,
            len,
            health: health.clone(),
            syncer: syncer.clone(),
            _lock: lock.clone(),
        }
        .start(queue.clone());
        let snapshot_len = Arc::new(AtomicU64::new(snapshot_len));
        let journal = Self { options, queue, segment_len, snapshot_len, health, syncer, lock };
        Ok((journal, records))
    }

    fn is_snapshot_due(&self, now: Instant) -> bool {
        let snapshot_len = self.snapshot_len.load(Ordering::Relaxed);
        let segment_len = self.segment_len.load(Ordering::Relaxed);
        let has_grown = segment_len >= self.options.snapshot_after_bytes.max(2 * snapshot_len);
        self.health.wants_snapshot(now, has_grown)
    }
}

#[cfg(test)]
impl FileJournal {
    /// Holds up the thread that writes until what is returned is dropped.
    pub(in crate::master) fn hold_up(&self) -> SyncSender<()> {
        let (go, gone) = sync_channel(0);
        self.queue.push(Order::Show(Box::new(move |_| gone.recv().unwrap_or_default())));
        go
    }
}

impl Journal for FileJournal {
    fn append(&mut self, records: &[Record]) -> Kept {
        if self.syncer.is_stalled(Instant::now(), self.options.answer_max) {
            self.health.stalls(Instant::now());
        }
        let (written, answer) = oneshot::channel();
        let waits = if records.is_empty() {
            self.health.is_whole() && self.queue.reach(written)
        } else {
            let payloads = records.iter().map(|record| payload(&Entry::Record(record.clone()))).collect();
            if !self.queue.append(payloads, written) {
                self.health.lacks(Instant::now(), "too much waits for the disk".to_owned());
            }
            self.health.is_whole()
        };
        if !waits {
            // Nobody waits for what is not kept as promised: where the disk hangs, each would wait in vain.
            return Box::pin(std::future::ready(Ok(())));
        }
        let (health, answer_max) = (self.health.clone(), self.options.answer_max);
        Box::pin(async move {
            match tokio::time::timeout(answer_max, answer).await {
                Ok(Ok(written)) => written,
                Ok(Err(_)) => {
                    health.poison("the thread that writes has ended".to_owned());
                    Err(Error::new(Kind::Internal, "the thread that writes the journal has ended"))
                }
                Err(_) => {
                    health.stalls(Instant::now());
                    let message = format!("the journal's disk has not answered for {answer_max:?}");
                    Err(Error::new(Kind::Unavailable, message))
                }
            }
        })
    }

    fn wants_snapshot(&self) -> bool {
        self.is_snapshot_due(Instant::now())
    }

    fn snapshot(&mut self, records: Vec<Record>) -> Box<dyn FnOnce() + Send> {
        let attempt = self.health.begin();
        let (begun, answer) = sync_channel(1);
        self.queue.push(Order::Begin { begun });
        let dir = self.options.dir.clone();
        let (snapshot_len, syncer, health) =
            (self.snapshot_len.clone(), self.syncer.clone(), self.health.clone());
        let write = move |begun: Result<Begun>| -> Result<(), SnapshotError> {
            let Begun { first, before } = begun?;
            syncer.sync(&before).map_err(SnapshotError::Sync)?;
            // The new file's name, which a power failure may take with all that is written to it.
            let lacks_name = |_: &SnapshotError| {
                health.lacks(Instant::now(), "the name of a new file may not be on the disk".to_owned());
            };
            sync_dir(&dir).inspect_err(lacks_name)?;
            let len = snapshot::write(&dir, first, &records)?;
            syncer.has_snapshot(first);
            snapshot_len.store(len, Ordering::Relaxed);
            Files::list(&dir)?.remove_before(first);
            Ok(())
        };
        let lock = self.lock.clone();
        Box::new(move || {
            let _lock = lock;
            // Without an answer the journal has ended.
            if let Ok(begun) = answer.recv() {
                attempt.end(Instant::now(), write(begun));
            }
        })
    }

    fn fault(&self) -> Option<String> {
        self.health.why()
    }
}

impl Drop for FileJournal {
    fn drop(&mut self) {
        if !self.queue.stop(self.options.answer_max) {
            tracing::error!("the journal's disk does not answer, and may not have the last records");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::path::Path;
    use std::task::{Context, Poll, Waker};

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    use super::super::directory::snapshot_path;
    use super::super::health::{RETRY_MAX, RETRY_MIN};
    use super::super::layout::{Frame, decode};
    use super::super::queue::WAITING_MAX_BYTES;
    use super::*;
    use crate::ids::ShuffleKey;

    fn registered(shuffle: i32) -> Record {
        Record::ShuffleRegistered { shuffle: ShuffleKey::new("app", shuffle), at_unix_ms: 1 }
    }

    fn options(dir: &Path) -> FileJournalOptions {
        // What reaches the disk, and when, is for each test to say.
        let sync_interval = Duration::from_secs(3600);
        FileJournalOptions { snapshot_after_bytes: 4096, sync_interval, ..FileJournalOptions::new(dir) }
    }

    fn open(dir: &Path) -> (FileJournal, Vec<Record>) {
        FileJournal::open(options(dir)).unwrap()
    }

    /// Looks at what the thread has, when it has done all that it was asked before.
    fn with_writer<T: Send + 'static>(
        journal: &FileJournal,
        show: impl FnOnce(&mut Writer) -> T + Send + 'static,
    ) -> T {
        let (shown, answer) = sync_channel(1);
        journal.queue.push(Order::Show(Box::new(move |writer| shown.send(show(writer)).unwrap())));
        answer.recv().unwrap()
    }

    fn swap_file(journal: &FileJournal, file: impl Into<Arc<File>>) -> Arc<File> {
        let file = file.into();
        with_writer(journal, |writer| writer.segment.swap_file(file))
    }

    fn settle(journal: &FileJournal) {
        with_writer(journal, |_| ());
    }

    /// Appends as if the process were killed behind it: nothing is flushed by us.
    fn append(journal: &mut FileJournal, range: std::ops::Range<i32>) {
        for shuffle in range {
            drop(journal.append(&[registered(shuffle)]));
        }
        settle(journal);
        assert_eq!(journal.fault(), None);
    }

    fn sync(journal: &FileJournal) {
        with_writer(journal, |writer| writer.syncer.sync(&writer.segment.unsynced(writer.next)).unwrap());
    }

    /// Where each entry of a segment ends, and whether it is a record.
    fn entries(bytes: &[u8]) -> Vec<(usize, bool)> {
        let (mut entries, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let Frame::Whole { entry, len, .. } = decode(&bytes[at..]) else { panic!("broken at {at}") };
            at += len;
            entries.push((at, matches!(entry, Entry::Record(_))));
        }
        entries
    }

    /// How many records of a segment are whole within its first `len` bytes.
    fn records_within(bytes: &[u8], len: usize) -> i32 {
        entries(bytes).iter().filter(|(end, is_record)| *is_record && *end <= len).count() as i32
    }

    fn kind_of_failure(dir: &Path) -> Kind {
        FileJournal::open(options(dir)).err().expect("it does not start").kind()
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
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            let (mut journal, records) = open(dir.path());
            let expected: Vec<Record> = (1..=records_within(&whole, len)).map(registered).collect();
            assert_eq!(records, expected, "{len} bytes");
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
        let expected =
            |len| (1..=records_within(&whole, len)).chain(4..6).map(registered).collect::<Vec<_>>();
        for len in 0..=whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            for _ in 0..2 {
                let (journal, records) = open(dir.path());
                let next = with_writer(&journal, |writer| writer.next);
                assert_eq!((records, next), (expected(len), 7), "{len} bytes");
            }
        }
        // What was allocated and never written is as good as torn.
        let mut zeroed = whole.clone();
        zeroed[whole.len() - 50..].fill(0);
        fs::write(&path, &zeroed).unwrap();
        assert_eq!(open(dir.path()).1, expected(whole.len() - 50));
        fs::write(&path, &whole).unwrap();
        let (mut journal, _) = open(dir.path());
        drop(journal.snapshot(Vec::new()));
        append(&mut journal, 6..7);
        drop(journal);
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(kind_of_failure(dir.path()), Kind::Corrupt);
    }

    #[test]
    fn rot_before_the_end_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..3);
        drop(journal);
        append(&mut open(dir.path()).0, 3..4);
        let path = last_file(dir.path());
        let whole = fs::read(&path).unwrap();
        for at in 0..entries(&whole)[3].0 {
            let mut rotten = whole.clone();
            rotten[at] ^= 4;
            fs::write(&path, &rotten).unwrap();
            assert_eq!(kind_of_failure(dir.path()), Kind::Corrupt, "byte {at}");
            assert_eq!(fs::read(&path).unwrap(), rotten, "nothing was changed");
        }
    }

    #[test]
    fn a_hole_in_what_no_fsync_has_covered_is_cut_and_one_before_is_rot() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..200);
        sync(&journal);
        append(&mut journal, 200..400);
        drop(journal);
        let path = last_file(dir.path());
        let whole = fs::read(&path).unwrap();
        let synced = entries(&whole)[200].0;
        let hole = |begin: usize| {
            let mut bytes = whole.clone();
            bytes[begin..begin + 4096].fill(0);
            fs::write(&path, bytes).unwrap();
        };
        let page = synced.next_multiple_of(4096);
        hole(page);
        let (mut journal, records) = open(dir.path());
        let kept = records_within(&whole, page);
        assert!((200..300).contains(&kept), "whole records stand behind the hole");
        assert_eq!(records, (0..kept).map(registered).collect::<Vec<_>>());
        append(&mut journal, kept..401);
        drop(journal);
        assert_eq!(open(dir.path()).1, (0..401).map(registered).collect::<Vec<_>>());
        hole(0);
        assert_eq!(kind_of_failure(dir.path()), Kind::Corrupt);
    }

    #[test]
    fn a_segment_says_nothing_of_one_before_it_that_is_not_on_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..3);
        let job = journal.snapshot(Vec::new());
        append(&mut journal, 3..4);
        sync(&journal); // The thread comes before the job.
        append(&mut journal, 4..5);
        drop((job, journal));
        let path = Files::list(dir.path()).unwrap().journals.pop_first().unwrap().1;
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(open(dir.path()).1, [0, 1, 3, 4].map(registered));
    }

    #[test]
    fn a_snapshot_brings_the_segment_before_it_to_the_disk_and_the_next_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..3);
        let path = last_file(dir.path());
        // The snapshot cannot be written, and does not take the place of what it was to replace.
        fs::create_dir(dir.path().join("snapshot.tmp")).unwrap();
        journal.snapshot(Vec::new())();
        append(&mut journal, 3..4);
        drop(journal);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(kind_of_failure(dir.path()), Kind::Corrupt);
    }

    #[test]
    fn what_a_snapshot_has_replaced_is_not_read_and_goes_with_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..3);
        journal.snapshot((0..3).map(registered).collect())();
        append(&mut journal, 3..5);
        let all = || {
            let Files { snapshots, journals } = Files::list(dir.path()).unwrap();
            snapshots.into_values().chain(journals.into_values()).collect::<Vec<_>>()
        };
        let old: Vec<_> = all().into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect();
        let state = [0, 1, 4].map(registered);
        journal.snapshot(state.to_vec())();
        append(&mut journal, 5..6);
        drop(journal);
        let new = all();
        // Killed before they were removed. Rot in them is nobody's loss.
        for (mut bytes, path) in old {
            bytes[30] ^= 1;
            fs::write(path, bytes).unwrap();
        }
        assert_eq!(all().len(), 4);
        let (mut journal, records) = open(dir.path());
        assert_eq!(records, [0, 1, 4, 5].map(registered), "not what was removed since");
        append(&mut journal, 6..7);
        drop(journal);
        let (mut journal, records) = open(dir.path());
        assert_eq!(records, [0, 1, 4, 5, 6].map(registered));
        assert!(new.iter().all(|path| path.exists()), "it goes on in the last file");
        journal.snapshot(records.clone())();
        assert_eq!(all().len(), 2);
        drop(journal);
        assert_eq!(open(dir.path()).1, records);
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
    fn nobody_opens_a_directory_to_which_a_snapshot_is_still_written() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..3);
        let job = journal.snapshot((0..3).map(registered).collect());
        drop(journal);
        assert_eq!(kind_of_failure(dir.path()), Kind::Conflict);
        job();
        assert_eq!(open(dir.path()).1, [0, 1, 2].map(registered));
    }

    #[test]
    fn a_snapshot_that_fails_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..3);
        let next = with_writer(&journal, |writer| writer.next);
        // No file takes the place of a directory.
        fs::create_dir_all(snapshot_path(dir.path(), next).join("full")).unwrap();
        journal.snapshot((0..3).map(registered).collect())();
        let unfinished = dir.path().join("snapshot.tmp");
        assert!(!unfinished.exists(), "the room is the records'");
        append(&mut journal, 3..4); // There is no fault: all is kept, in two files.
        fs::remove_dir_all(snapshot_path(dir.path(), next)).unwrap();
        drop(journal);
        fs::write(&unfinished, b"half").unwrap(); // Killed before it had its name.
        assert_eq!(open(dir.path()).1, [0, 1, 2, 3].map(registered));
        assert!(!unfinished.exists());
    }

    #[test]
    fn a_file_whose_name_may_not_be_on_the_disk_does_not_keep_records_as_promised() {
        let dir = tempfile::tempdir().unwrap();
        let (place, elsewhere) = (dir.path().join("here"), dir.path().join("there"));
        let (mut journal, _) = open(&place);
        append(&mut journal, 0..3);
        let job = journal.snapshot((0..3).map(registered).collect());
        settle(&journal);
        fs::rename(&place, &elsewhere).unwrap();
        job();
        assert!(journal.fault().is_some());
        fs::rename(&elsewhere, &place).unwrap();
        journal.snapshot((0..3).map(registered).collect())();
        assert_eq!(journal.fault(), None);
    }

    #[test]
    fn a_journal_that_could_not_write_is_whole_after_a_snapshot() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..3);
        fill_disk(&mut journal);
        drop(journal.append(&[registered(3)]));
        settle(&journal);
        assert!(journal.fault().is_some());
        drop(journal.append(&[registered(4)]));
        settle(&journal);
        assert!(journal.is_snapshot_due(Instant::now() + 2 * RETRY_MIN));
        journal.snapshot((0..5).map(registered).collect())();
        assert_eq!(journal.fault(), None);
        append(&mut journal, 5..6);
        drop(journal);
        assert_eq!(open(dir.path()).1, (0..6).map(registered).collect::<Vec<_>>());
    }

    /// A file that may be cut and not written stands for a full disk. Returns the real one.
    fn fill_disk(journal: &mut FileJournal) -> Arc<File> {
        swap_file(journal, sealed(SealFlags::WRITE))
    }

    fn sealed(seals: SealFlags) -> File {
        let file = memfd_create("full", MemfdFlags::ALLOW_SEALING).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file.into()
    }

    #[test]
    fn what_is_decided_while_the_journal_is_repaired_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..3);
        fill_disk(&mut journal);
        drop(journal.append(&[registered(3)]));
        settle(&journal);
        let repair = journal.snapshot((0..4).map(registered).collect());
        drop(journal.append(&[registered(4)]));
        settle(&journal);
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
        settle(&journal);
        snapshot();
        assert!(journal.fault().is_some());
        assert!(journal.is_snapshot_due(Instant::now() + 2 * RETRY_MIN));
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
        settle(&journal);
        drop(journal.snapshot((0..4).map(registered).collect())); // Not written, as on a disk that is still full.
        assert!(
            journal.is_snapshot_due(Instant::now() + RETRY_MIN),
            "the one that was given up is not in the way"
        );
        journal.snapshot((0..4).map(registered).collect())();
        assert_eq!(journal.fault(), None);
        drop(journal);
        assert_eq!(open(dir.path()).1, (0..4).map(registered).collect::<Vec<_>>());
    }

    #[test]
    fn no_segment_begins_behind_one_that_could_not_be_cut() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..3);
        // Half a record reaches the file, and neither the rest of it nor the cut is possible.
        let path = last_file(dir.path());
        let mut torn = fs::read(&path).unwrap();
        torn.extend_from_within(..10);
        fs::write(&path, &torn).unwrap();
        let disk = swap_file(&journal, sealed(SealFlags::WRITE | SealFlags::GROW));
        drop(journal.append(&[registered(3)]));
        settle(&journal);
        for _ in 0..3 {
            journal.snapshot((0..4).map(registered).collect())();
            drop(journal.append(&[registered(4)]));
            settle(&journal);
            assert!(journal.fault().is_some());
            let files = Files::list(dir.path()).unwrap();
            assert_eq!((files.snapshots.len(), files.journals.len()), (0, 1));
        }
        assert_eq!(fs::read(&path).unwrap(), torn);
        swap_file(&journal, disk);
        drop(journal.snapshot((0..5).map(registered).collect())); // Killed before it was written.
        append_with_fault(&mut journal, 5);
        drop(journal.snapshot((0..6).map(registered).collect()));
        append_with_fault(&mut journal, 6);
        drop(journal);
        let expected: Vec<Record> = (0..3).chain(5..7).map(registered).collect();
        assert_eq!(open(dir.path()).1, expected, "what the snapshots would have had is missing, and no more");
    }

    fn append_with_fault(journal: &mut FileJournal, shuffle: i32) {
        drop(journal.append(&[registered(shuffle)]));
        settle(journal);
        assert!(journal.fault().is_some());
    }

    #[test]
    fn a_disk_that_stays_full_keeps_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..3);
        for shuffle in 3..9 {
            fill_disk(&mut journal);
            append_with_fault(&mut journal, shuffle);
            drop(journal.snapshot(Vec::new()));
            settle(&journal);
            assert!(
                Files::list(dir.path()).unwrap().journals.len() <= 2,
                "what holds records, and what takes them"
            );
        }
    }

    #[test]
    fn an_fsync_that_failed_is_not_tried_again_whoever_saw_it() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..3);
        swap_file(&journal, no_sync());
        journal.snapshot((0..3).map(registered).collect())();
        let fault = journal.fault().unwrap();
        assert!(fault.contains("cannot bring"), "{fault}");
        assert!(!journal.is_snapshot_due(Instant::now() + 100 * RETRY_MAX));
        let len = fs::metadata(last_file(dir.path())).unwrap().len();
        drop(journal.append(&[registered(3)]));
        settle(&journal);
        assert_eq!(fs::metadata(last_file(dir.path())).unwrap().len(), len, "nothing is written any more");
        assert!(Files::list(dir.path()).unwrap().snapshots.is_empty());
    }

    /// A device that takes all that is written, and fails every fsync.
    fn no_sync() -> File {
        File::options().append(true).open("/dev/null").unwrap()
    }

    fn now_or_never(mut kept: Kept) -> Option<Result<()>> {
        match kept.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(written) => Some(written),
            Poll::Pending => None,
        }
    }

    /// A pipe that nobody reads stands for a disk that hangs; the reader lets it go on.
    fn hang_disk(journal: &FileJournal) -> std::io::PipeReader {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(&[7; 1 << 16]).unwrap();
        swap_file(journal, File::from(std::os::fd::OwnedFd::from(writer)));
        reader
    }

    #[tokio::test]
    async fn a_disk_that_hangs_holds_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        let answer_max = Duration::from_millis(200);
        let (mut journal, _) =
            FileJournal::open(FileJournalOptions { answer_max, ..options(dir.path()) }).unwrap();
        journal.append(&[registered(0)]).await.unwrap();
        let mut reader = hang_disk(&journal);
        let several = [journal.append(&[registered(1)]), journal.append(&[registered(2)])];
        assert_eq!(journal.fault(), None);
        for kept in several {
            assert_eq!(kept.await.unwrap_err().kind(), Kind::Unavailable);
        }
        assert!(journal.fault().unwrap().contains("does not answer"));
        let kept = journal.append(&[registered(3)]);
        assert!(now_or_never(kept).unwrap().is_ok(), "nobody waits once that is known");
        assert!(journal.is_snapshot_due(Instant::now() + RETRY_MIN));
        drop(journal.snapshot((0..4).map(registered).collect())); // Given up: a pipe takes no fsync.
        drop(journal.append(&[registered(4)]));
        reader.read_exact(&mut [0; 1 << 16]).unwrap();
        settle(&journal);
        assert!(journal.fault().is_some(), "the promise was not kept");
        assert!(journal.is_snapshot_due(Instant::now() + RETRY_MIN));
        journal.snapshot((0..5).map(registered).collect())();
        assert_eq!(journal.fault(), None);
        journal.append(&[registered(5)]).await.unwrap();
        drop(journal);
        assert_eq!(open(dir.path()).1, (0..6).map(registered).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn whoever_has_no_records_waits_for_those_of_others_and_no_longer_than_they_do() {
        let dir = tempfile::tempdir().unwrap();
        let patient = FileJournalOptions { answer_max: Duration::from_secs(60), ..options(dir.path()) };
        let (mut journal, _) = FileJournal::open(patient).unwrap();
        append(&mut journal, 0..2);
        journal.append(&[]).await.unwrap();
        let len = fs::metadata(last_file(dir.path())).unwrap().len();
        let held = journal.hold_up();
        let mut first = journal.append(&[registered(2)]);
        let mut second = journal.append(&[]);
        for kept in [&mut first, &mut second] {
            assert!(kept.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        drop(held);
        second.await.unwrap();
        assert!(fs::metadata(last_file(dir.path())).unwrap().len() > len, "the record is written");
        assert!(now_or_never(first).unwrap().is_ok());
        drop(journal);
        let impatient = FileJournalOptions { answer_max: Duration::from_millis(200), ..options(dir.path()) };
        let (mut journal, _) = FileJournal::open(impatient).unwrap();
        let held = journal.hold_up();
        drop(journal.append(&[registered(3)]));
        let kept = [journal.append(&[]), journal.append(&[])];
        for kept in kept {
            assert_eq!(kept.await.unwrap_err().kind(), Kind::Unavailable);
        }
        assert!(now_or_never(journal.append(&[])).unwrap().is_ok(), "nobody waits once that is known");
        drop(held);
    }

    #[tokio::test]
    async fn what_rests_on_a_record_that_was_not_written_is_not_kept_either() {
        let dir = tempfile::tempdir().unwrap();
        let patient = FileJournalOptions { answer_max: Duration::from_secs(60), ..options(dir.path()) };
        let (mut journal, _) = FileJournal::open(patient).unwrap();
        append(&mut journal, 0..2);
        let held = journal.hold_up();
        let fill = |writer: &mut Writer| drop(writer.segment.swap_file(sealed(SealFlags::WRITE)));
        journal.queue.push(Order::Show(Box::new(fill)));
        let lost = journal.append(&[registered(2)]);
        let rests = journal.append(&[]);
        // What follows goes to a file that takes it, and still lacks what is before.
        drop(journal.snapshot((0..3).map(registered).collect()));
        let behind = [journal.append(&[registered(3)]), journal.append(&[])];
        drop(held);
        assert_eq!(lost.await.unwrap_err().kind(), Kind::Denied);
        for kept in [rests].into_iter().chain(behind) {
            assert_eq!(kept.await.unwrap_err().kind(), Kind::Unavailable);
        }
        drop(journal);
        assert_eq!(open(dir.path()).1, [0, 1, 3].map(registered));
    }

    #[tokio::test]
    async fn what_was_refused_while_the_disk_hung_leaves_no_gap_in_a_segment() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..2);
        let held = journal.hold_up();
        // Too much at once for a queue that is not empty.
        let records: Vec<Record> = (2..2 + (WAITING_MAX_BYTES / 8) as i32).map(registered).collect();
        drop(journal.append(&[registered(2)]));
        journal.append(&records).await.unwrap();
        assert!(journal.fault().unwrap().contains("too much waits"));
        drop(journal.append(&[registered(3)]));
        drop(held);
        settle(&journal);
        assert!(journal.is_snapshot_due(Instant::now() + RETRY_MIN));
        drop(journal.snapshot(Vec::new())); // Killed before it was written.
        append_with_fault(&mut journal, 5);
        drop(journal);
        assert_eq!(open(dir.path()).1, [0, 1, 2, 5].map(registered), "not what is behind the gap");
    }

    #[test]
    fn what_was_refused_while_a_snapshot_began_does_not_end_the_journal_for_good() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..2);
        let held = journal.hold_up();
        drop(journal.append(&[registered(2)]));
        let job = journal.snapshot((0..3).map(registered).collect());
        let records: Vec<Record> = (3..3 + (WAITING_MAX_BYTES / 8) as i32).map(registered).collect();
        drop(journal.append(&records));
        drop(held);
        job();
        assert!(journal.fault().is_some(), "what was refused is in no file");
        // Nothing was decided since, so that the segment that was begun is still empty.
        journal.snapshot((0..4).map(registered).collect())();
        assert_eq!(journal.fault(), None);
        append(&mut journal, 4..5);
        drop(journal);
        assert_eq!(open(dir.path()).1, (0..5).map(registered).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_journal_that_is_whole_passes_over_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        append(&mut journal, 0..2);
        // However it came to this.
        with_writer(&journal, |writer| writer.segment.end());
        let held = journal.hold_up();
        let kept = journal.append(&[registered(2)]);
        drop(held);
        settle(&journal);
        assert!(now_or_never(kept).unwrap().is_err());
        assert!(journal.fault().is_some());
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
