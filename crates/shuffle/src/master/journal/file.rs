//! A journal in files of one directory: a snapshot, and the records since.
//!
//! A record is written to the file before the reply leaves, so it survives the process; the file is brought to the disk
//! every [`FileJournalOptions::sync_interval`], so a power failure takes at most that much, and the workers' reports and
//! the applications' heartbeats bring it back.

use std::fs::{self, File};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::BytesMut;

use super::directory::{Files, at, lock};
use super::health::{Attempt, Health};
use super::layout::{Entry, encode};
use super::segment::{self, Place, Segment, Unsynced};
use super::snapshot::{self, SnapshotError, sync_dir};
use super::syncer::Syncer;
use super::{Journal, Kept};
use crate::Result;
use crate::master::record::Record;

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

/// See the [module](self).
pub struct FileJournal {
    options: FileJournalOptions,
    segment: Segment,
    /// The sequence of the next entry.
    next: u64,
    /// What the last [`Entry::Synced`] said.
    said_synced: u64,
    snapshot_len: Arc<AtomicU64>,
    health: Arc<Health>,
    syncer: Arc<Syncer>,
    _lock: File,
}

impl FileJournal {
    /// Opens or makes the directory's journal and returns the records that it holds, in order.
    ///
    /// # Errors
    /// `Conflict` if another process uses the directory; `Corrupt` if a file is damaged where it was on the disk; others as
    /// the file system says.
    pub fn open(options: FileJournalOptions) -> Result<(Self, Vec<Record>)> {
        fs::create_dir_all(&options.dir).map_err(at(&options.dir))?;
        let lock = lock(&options.dir)?;
        let Files { snapshots, journals } = Files::list(&options.dir)?;
        let mut records = Vec::new();
        let mut next = 0;
        let mut snapshot_len = 0;
        if let Some((first, path)) = snapshots.last_key_value() {
            records = snapshot::read(path)?;
            (next, snapshot_len) = (*first, path.metadata().map_err(at(path))?.len());
        }
        let mut can_go_on = false;
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
            let behind = (Bound::Excluded(*first), Bound::Unbounded);
            let synced_behind = || segment::synced_in(journals.range(behind).map(|(_, path)| path));
            let contents = segment::read(path, *first, place, synced_behind)?;
            records.extend(contents.records);
            (next, can_go_on) = (contents.next, contents.can_go_on);
        }
        // Going on in the last file keeps the number of files bounded however often the process restarts.
        let first = last.filter(|_| can_go_on).unwrap_or(next);
        let segment = Segment::open(&options.dir, first)?;
        sync_dir(&options.dir)?;
        let health = Health::new();
        let syncer = Syncer::start(options.sync_interval, next, health.clone());
        let snapshot_len = Arc::new(AtomicU64::new(snapshot_len));
        let journal =
            Self { options, segment, next, said_synced: 0, snapshot_len, health, syncer, _lock: lock };
        Ok((journal, records))
    }

    fn write(&mut self, records: &[Record]) -> Result<()> {
        let mut frames = BytesMut::new();
        let synced = self.syncer.synced();
        let news = self.segment.len() == 0 || synced > self.said_synced;
        let news = news.then_some(Entry::Synced(synced));
        for entry in news.into_iter().chain(records.iter().cloned().map(Entry::Record)) {
            encode(self.next, &entry, &mut frames);
            self.next += 1;
        }
        if let Err(error) = self.segment.append(&frames) {
            self.health.lacks(Instant::now(), format!("cannot write: {error}"));
            return Err(error);
        }
        self.said_synced = synced;
        self.syncer.request(self.segment.unsynced(self.next));
        Ok(())
    }

    /// Goes on in a new segment, and returns the one before, which is the same if it holds nothing yet.
    fn begin_segment(&mut self) -> Result<Unsynced> {
        self.segment.mend()?;
        let before = self.segment.unsynced(self.next);
        if self.next != self.segment.first() {
            let next = Segment::open(&self.options.dir, self.next)?;
            std::mem::replace(&mut self.segment, next).remove_if_empty();
        }
        Ok(before)
    }

    /// Writes a snapshot of what is before the segment that was begun, on whatever thread calls what is returned.
    fn snapshot_job(
        &self,
        attempt: Attempt,
        before: Unsynced,
        records: Vec<Record>,
    ) -> impl FnOnce() + use<> {
        let (dir, first) = (self.options.dir.clone(), self.segment.first());
        let (snapshot_len, syncer) = (self.snapshot_len.clone(), self.syncer.clone());
        let write = move || -> Result<(), SnapshotError> {
            syncer.sync(&before).map_err(SnapshotError::Sync)?;
            // The new file's name, which a power failure may take with all that is written to it.
            sync_dir(&dir)?;
            let len = snapshot::write(&dir, first, &records)?;
            syncer.has_snapshot(first);
            snapshot_len.store(len, Ordering::Relaxed);
            Files::list(&dir)?.remove_before(first);
            Ok(())
        };
        move || attempt.end(Instant::now(), write())
    }

    fn is_snapshot_due(&self, now: Instant) -> bool {
        let snapshot_len = self.snapshot_len.load(Ordering::Relaxed);
        let has_grown = self.segment.len() >= self.options.snapshot_after_bytes.max(2 * snapshot_len);
        self.health.wants_snapshot(now, has_grown)
    }
}

impl Journal for FileJournal {
    fn append(&mut self, records: &[Record]) -> Kept {
        // Where nothing more can be kept, the next snapshot has the records. The file that such a snapshot begins takes
        // what is decided while it is written, although the journal still lacks records.
        let written = if self.segment.takes_records() && self.health.takes_records() {
            self.write(records)
        } else {
            self.next += records.len() as u64;
            Ok(())
        };
        Box::pin(std::future::ready(written))
    }

    fn wants_snapshot(&self) -> bool {
        self.is_snapshot_due(Instant::now())
    }

    fn snapshot(&mut self, records: Vec<Record>) -> Box<dyn FnOnce() + Send> {
        let attempt = self.health.begin();
        match self.begin_segment() {
            Ok(before) => Box::new(self.snapshot_job(attempt, before, records)),
            Err(error) => {
                attempt.end(Instant::now(), Err(SnapshotError::Other(error)));
                Box::new(|| {})
            }
        }
    }

    fn fault(&self) -> Option<String> {
        self.health.why()
    }
}

impl Drop for FileJournal {
    fn drop(&mut self) {
        self.syncer.stop();
        if !self.health.takes_records() {
            return;
        }
        if let Err(error) = self.segment.unsynced(self.next).sync() {
            tracing::error!(%error, "the journal's last records may not be on the disk");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    use super::super::directory::journal_path;
    use super::super::health::{RETRY_MAX, RETRY_MIN};
    use super::super::layout::{Frame, decode};
    use super::*;
    use crate::Kind;
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

    /// Appends as if the process were killed behind it: nothing is flushed by us.
    fn append(journal: &mut FileJournal, range: std::ops::Range<i32>) {
        for shuffle in range {
            drop(journal.append(&[registered(shuffle)]));
            assert_eq!(journal.fault(), None);
        }
    }

    fn sync(journal: &FileJournal) {
        journal.syncer.sync(&journal.segment.unsynced(journal.next)).unwrap();
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
                assert_eq!((records, journal.next), (expected(len), 7), "{len} bytes");
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
        append_with_fault(&mut journal, 3);
        drop(journal);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(kind_of_failure(dir.path()), Kind::Corrupt);
    }

    /// A journal as versions wrote it that did not say what is on the disk.
    fn write_old(dir: &Path, range: std::ops::Range<i32>) -> PathBuf {
        let mut bytes = BytesMut::new();
        for shuffle in range {
            encode(shuffle as u64, &Entry::Record(registered(shuffle)), &mut bytes);
        }
        let path = journal_path(dir, 0);
        fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn a_journal_of_an_older_version_is_read_as_before_and_not_written_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = write_old(dir.path(), 0..3);
        let whole = fs::read(&path).unwrap();
        for at in 0..2 * whole.len() / 3 {
            let mut rotten = whole.clone();
            rotten[at] ^= 4;
            fs::write(&path, &rotten).unwrap();
            assert_eq!(kind_of_failure(dir.path()), Kind::Corrupt, "byte {at}");
        }
        for len in 0..=whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            assert_eq!(open(dir.path()).1.len(), records_within(&whole, len) as usize);
            fs::remove_file(last_file(dir.path())).unwrap();
        }
        fs::write(&path, &whole).unwrap();
        let (mut journal, records) = open(dir.path());
        assert_eq!(records, [0, 1, 2].map(registered));
        append(&mut journal, 3..5);
        drop(journal);
        assert_eq!(fs::read(&path).unwrap(), whole);
        let (mut journal, records) = open(dir.path());
        assert_eq!(records, [0, 1, 2, 3, 4].map(registered));
        append(&mut journal, 5..6);
        drop(journal);
        assert_eq!(Files::list(dir.path()).unwrap().journals.len(), 2, "the new one goes on");
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(kind_of_failure(dir.path()), Kind::Corrupt, "it was on the disk when the new one began");
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
        assert!(journal.is_snapshot_due(Instant::now() + 2 * RETRY_MIN));
        journal.snapshot((0..5).map(registered).collect())();
        assert_eq!(journal.fault(), None);
        append(&mut journal, 5..6);
        drop(journal);
        assert_eq!(open(dir.path()).1, (0..6).map(registered).collect::<Vec<_>>());
    }

    /// A file that may be cut and not written stands for a full disk. Returns the real one.
    fn fill_disk(journal: &mut FileJournal) -> Arc<File> {
        journal.segment.swap_file(sealed(SealFlags::WRITE))
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
        let disk = journal.segment.swap_file(sealed(SealFlags::WRITE | SealFlags::GROW));
        drop(journal.append(&[registered(3)]));
        for _ in 0..3 {
            journal.snapshot((0..4).map(registered).collect())();
            drop(journal.append(&[registered(4)]));
            assert!(journal.fault().is_some());
            let files = Files::list(dir.path()).unwrap();
            assert_eq!((files.snapshots.len(), files.journals.len()), (0, 1));
        }
        assert_eq!(fs::read(&path).unwrap(), torn);
        journal.segment.swap_file(disk);
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
        journal.segment.swap_file(no_sync());
        journal.snapshot((0..3).map(registered).collect())();
        let fault = journal.fault().unwrap();
        assert!(fault.contains("cannot bring"), "{fault}");
        assert!(!journal.is_snapshot_due(Instant::now() + 100 * RETRY_MAX));
        let len = fs::metadata(last_file(dir.path())).unwrap().len();
        drop(journal.append(&[registered(3)]));
        assert_eq!(fs::metadata(last_file(dir.path())).unwrap().len(), len, "nothing is written any more");
        assert!(Files::list(dir.path()).unwrap().snapshots.is_empty());
    }

    /// A device that takes all that is written, and fails every fsync.
    fn no_sync() -> File {
        File::options().append(true).open("/dev/null").unwrap()
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
