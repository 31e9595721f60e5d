//! Tests of the journal when its disk is full, hangs or forgets.

use std::task::{Context, Poll, Waker};

use rustix::io::Errno;
use yeoul_disk::{Fault, Injection, Operation};

use super::*;
use crate::health::{RETRY_MAX, RETRY_MIN};
use crate::queue::WAITING_MAX_BYTES;

/// For a disk that hangs. Nothing that must succeed waits for so little.
const IMPATIENT: Duration = Duration::from_millis(200);

fn full(disk: &FaultyDisk) -> Injection {
    disk.inject(Fault::fails(Operation::Write, Errno::NOSPC))
}

fn begun(dir: &tempfile::TempDir) -> (Arc<FaultyDisk>, FileJournal<Put>) {
    let disk = FaultyDisk::new();
    let mut journal = open_on(dir.path(), &disk);
    append(&mut journal, 0..3);
    (disk, journal)
}

fn append_with_fault(journal: &mut FileJournal<Put>, value: u64) {
    drop(journal.append(&[Put::new(value)], Promise::Written));
    settle(journal);
    assert!(journal.fault().is_some());
}

fn now_or_never(kept: &mut Kept) -> Option<Result<()>> {
    match kept.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(kept) => Some(kept),
        Poll::Pending => None,
    }
}

fn unkept(mut kept: Kept) -> ErrorKind {
    now_or_never(&mut kept).expect("it is known").expect_err("it is not kept").kind()
}

#[test]
fn a_snapshot_that_fails_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, mut journal) = begun(&dir);
    for operation in [Operation::Open, Operation::Write, Operation::Rename] {
        let fault = disk.inject(Fault::fails(operation, Errno::NOSPC).within("snapshot.tmp"));
        journal.begin_snapshot().write(puts(0..3).into_iter());
        assert_eq!(fault.happened(), 1, "{operation:?}");
        assert!(!dir.path().join("snapshot.tmp").exists(), "the room is the records'");
        assert!(files(dir.path()).snapshots.is_empty());
    }
    append(&mut journal, 3..4); // There is no fault: everything is kept, in two files.
    assert_eq!(journal.failed_snapshots(), 3);
    drop(journal);
    assert_eq!(open(dir.path()).1, puts(0..4));
}

#[test]
fn no_file_is_begun_behind_records_that_are_missing() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, mut journal) = begun(&dir);
    let fault = full(&disk);
    append_with_fault(&mut journal, 3);
    drop(fault);
    assert_eq!(roll(&mut journal).unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(files(dir.path()).journals.len(), 1);
    journal.begin_snapshot().write(puts(0..4).into_iter());
    append(&mut journal, 4..5);
    assert_eq!(roll(&mut journal).unwrap(), 5);
    drop(journal);
    assert_eq!(open(dir.path()).1, puts(0..5));
}

#[test]
fn a_journal_that_could_not_write_is_whole_after_a_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, mut journal) = begun(&dir);
    let fault = full(&disk);
    append_with_fault(&mut journal, 3);
    assert_eq!(fault.happened(), 1);
    drop(fault);
    append_with_fault(&mut journal, 4);
    assert_eq!(
        unkept(journal.append(&[], Promise::Written)),
        ErrorKind::Unavailable,
        "what it saw is not kept"
    );
    assert!(journal.is_snapshot_due(Instant::now() + 2 * RETRY_MIN));
    journal.begin_snapshot().write(puts(0..5).into_iter());
    assert_eq!(journal.fault(), None);
    append(&mut journal, 5..6);
    drop(journal);
    assert_eq!(open(dir.path()).1, puts(0..6));
}

#[test]
fn a_write_that_tears_leaves_no_half_record() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, mut journal) = begun(&dir);
    let whole = fs::read(last_file(dir.path())).unwrap();
    let fault = disk.inject(Fault::tears(11, Errno::NOSPC));
    append_with_fault(&mut journal, 3);
    assert_eq!(fault.happened(), 1);
    assert_eq!(fs::read(last_file(dir.path())).unwrap(), whole);
}

#[test]
fn what_is_decided_while_the_journal_is_repaired_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, mut journal) = begun(&dir);
    let fault = full(&disk);
    append_with_fault(&mut journal, 3);
    drop(fault);
    let repair = journal.begin_snapshot();
    append_with_fault(&mut journal, 4); // The snapshot is not there yet.
    repair.write(puts(0..4).into_iter());
    append(&mut journal, 5..6);
    drop(journal);
    assert_eq!(open(dir.path()).1, puts(0..6));
}

#[test]
fn a_snapshot_does_not_repair_what_failed_after_it_was_begun() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, mut journal) = begun(&dir);
    let snapshot = journal.begin_snapshot();
    let fault = full(&disk);
    append_with_fault(&mut journal, 3);
    drop(fault);
    snapshot.write(puts(0..3).into_iter());
    assert!(journal.fault().is_some());
    assert!(files(dir.path()).snapshots.is_empty(), "it may have seen what was not kept");
    assert!(journal.is_snapshot_due(Instant::now() + 4 * RETRY_MIN));
    journal.begin_snapshot().write(puts(0..4).into_iter());
    append(&mut journal, 4..5);
    drop(journal);
    assert_eq!(open(dir.path()).1, puts(0..5));
}

#[test]
fn what_was_not_kept_and_what_came_behind_it_is_left_out_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, mut journal) = begun(&dir);
    let fault = full(&disk);
    append_with_fault(&mut journal, 3);
    drop(fault);
    for value in 4..6 {
        // Into a segment of its own, behind the missing record.
        drop(journal.begin_snapshot());
        append_with_fault(&mut journal, value);
    }
    sync_all(&journal);
    drop(journal);
    assert_eq!(files(dir.path()).journals.len(), 3);
    let (mut journal, records) = open(dir.path());
    assert_eq!(records, puts(0..3), "nobody was told of the others");
    assert_eq!(files(dir.path()).journals.len(), 1);
    append(&mut journal, 7..9);
    drop(journal);
    assert_eq!(open(dir.path()).1, puts((0..3).chain(7..9)));
}

/// A sync of whatever is there, whole or not.
fn sync_all(journal: &FileJournal<Put>) {
    let _ = reach(journal, Promise::Synced);
}

#[test]
fn no_segment_begins_after_one_that_could_not_be_cut() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, mut journal) = begun(&dir);
    // Half a record reaches the file; neither writing the rest nor cutting it off is possible.
    let path = last_file(dir.path());
    let whole = fs::read(&path).unwrap();
    let faults = [Fault::tears(10, Errno::NOSPC), Fault::fails(Operation::SetLen, Errno::IO)];
    let faults = faults.map(|fault| disk.inject(fault));
    append_with_fault(&mut journal, 3);
    for value in 4..7 {
        journal.begin_snapshot().write(puts(0..value).into_iter());
        append_with_fault(&mut journal, value);
        let files = files(dir.path());
        assert_eq!((files.snapshots.len(), files.journals.len()), (0, 1));
    }
    assert_eq!(faults.each_ref().map(Injection::happened), [1, 4]);
    assert_eq!(fs::read(&path).unwrap().len(), whole.len() + 10);
    drop(faults);
    drop(journal.begin_snapshot()); // Killed before it was written.
    append_with_fault(&mut journal, 7);
    drop(journal);
    assert_eq!(fs::read(&path).unwrap(), whole);
    assert_eq!(open(dir.path()).1, puts(0..3));
}

#[test]
fn a_disk_that_stays_full_keeps_few_files() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, mut journal) = begun(&dir);
    let fault = full(&disk);
    for value in 3..9 {
        append_with_fault(&mut journal, value);
        journal.begin_snapshot().write(puts(0..value).into_iter());
        assert!(files(dir.path()).journals.len() <= 2, "what holds records, and what takes them");
    }
    assert!(fault.happened() > 6);
}

#[test]
fn a_sync_that_failed_is_not_tried_again_whoever_saw_it() {
    // By the thread that syncs, before a snapshot, of the snapshot's file, and of its name.
    type Meet = fn(&mut FileJournal<Put>);
    let seen_by: [(Fault, Meet); 4] = [
        (Fault::fails(Operation::Sync, Errno::IO), sync_all_of),
        (Fault::fails(Operation::Sync, Errno::IO).within("journal-"), write_snapshot),
        (Fault::fails(Operation::Sync, Errno::IO).within("snapshot.tmp"), write_snapshot),
        (Fault::fails(Operation::SyncFolder, Errno::IO), write_snapshot),
    ];
    for (fault, meet) in seen_by {
        let dir = tempfile::tempdir().unwrap();
        let (disk, mut journal) = begun(&dir);
        let mut ended = journal.ended();
        let ends = |ended: &mut Pin<Box<dyn Future<Output = Error> + Send>>| {
            ended.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        assert!(!ends(&mut ended));
        let injected = disk.inject(fault.clone());
        meet(&mut journal);
        let said = journal.fault().unwrap();
        assert!(said.contains("to the disk") && injected.happened() == 1, "{fault:?}: {said}");
        assert!(ends(&mut ended), "who owns it hears of it");
        drop(injected);
        assert!(!journal.is_snapshot_due(Instant::now() + 100 * RETRY_MAX));
        let syncs = disk.count(Operation::Sync);
        let sizes = || files(dir.path()).journals.into_values().map(|path| fs::metadata(path).unwrap().len());
        let before: Vec<u64> = sizes().collect();
        assert_eq!(unkept(journal.append(&[Put::new(3)], Promise::Written)), ErrorKind::Unavailable);
        settle(&journal);
        write_snapshot(&mut journal);
        assert_eq!(sizes().collect::<Vec<_>>(), before, "nothing is written any more");
        drop(journal);
        assert_eq!(disk.count(Operation::Sync), syncs, "{fault:?}");
    }
}

fn sync_all_of(journal: &mut FileJournal<Put>) {
    sync_all(journal);
}

fn write_snapshot(journal: &mut FileJournal<Put>) {
    journal.begin_snapshot().write(puts(0..3).into_iter());
}

#[tokio::test]
async fn a_disk_that_hangs_holds_nobody_up_and_may_answer_after_all() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new();
    let impatient = FileJournalOptions { answer_max: IMPATIENT, disk: disk.clone(), ..options(dir.path()) };
    let (mut journal, _) = open_with(impatient);
    journal.append(&[Put::new(0)], Promise::Written).await.unwrap();
    let hang = disk.inject(Fault::hangs(Operation::Write).times(1));
    let several = [1, 2].map(|value| journal.append(&[Put::new(value)], Promise::Written));
    assert_eq!(journal.fault(), None);
    for kept in several {
        assert_eq!(kept.await.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert!(journal.fault().unwrap().contains("does not answer"));
    assert_eq!(
        unkept(journal.append(&[Put::new(3)], Promise::Written)),
        ErrorKind::Unavailable,
        "nobody waits"
    );
    assert_eq!(unkept(journal.append(&[], Promise::Written)), ErrorKind::Unavailable);
    assert_eq!(hang.happened(), 1);
    drop(hang);
    settle(&journal);
    assert_eq!(journal.fault(), None, "everything is there");
    journal.append(&[Put::new(4)], Promise::Synced).await.unwrap();
    assert!(journal.queue.stop(PATIENT));
    drop(journal);
    assert_eq!(open(dir.path()).1, puts(0..5));
}

#[tokio::test]
async fn a_sync_that_hangs_costs_those_who_wait_for_it_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new();
    let impatient = FileJournalOptions { answer_max: IMPATIENT, disk: disk.clone(), ..options(dir.path()) };
    let (mut journal, _) = open_with(impatient);
    let hang = disk.inject(Fault::hangs(Operation::Sync).times(1));
    let synced = journal.append(&[Put::new(0)], Promise::Synced);
    hang.wait();
    journal.append(&[Put::new(1)], Promise::Written).await.unwrap();
    assert_eq!(synced.await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(journal.fault().unwrap().contains("does not answer"));
    drop(hang);
    sync(&journal);
    assert_eq!(journal.fault(), None);
    assert!(journal.queue.stop(PATIENT));
}

#[tokio::test]
async fn a_decision_without_records_waits_for_earlier_ones_and_no_longer_than_they_do() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, mut journal) = begun(&dir);
    journal.append(&[], Promise::Written).await.unwrap();
    let len = || fs::metadata(last_file(dir.path())).unwrap().len();
    let before = len();
    let hang = disk.inject(Fault::hangs(Operation::Write));
    let mut first = journal.append(&[Put::new(3)], Promise::Written);
    let mut second = journal.append(&[], Promise::Written);
    hang.wait();
    assert!(now_or_never(&mut first).is_none() && now_or_never(&mut second).is_none());
    drop(hang);
    second.await.unwrap();
    assert!(len() > before, "the record is written");
    assert!(now_or_never(&mut first).unwrap().is_ok());
}

#[tokio::test]
async fn what_rests_on_a_record_that_was_not_written_is_not_kept_either() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, mut journal) = begun(&dir);
    let hang = disk.inject(Fault::hangs(Operation::Write).times(1));
    let first = journal.append(&[Put::new(3)], Promise::Written);
    hang.wait();
    let fault = disk.inject(Fault::fails(Operation::Write, Errno::NOSPC).times(1));
    let lost = journal.append(&[Put::new(4)], Promise::Written);
    let rests = journal.append(&[], Promise::Written);
    // What follows goes to a file that accepts it, but records before it are still missing.
    drop(journal.begin_snapshot());
    let behind = [journal.append(&[Put::new(5)], Promise::Synced), journal.append(&[], Promise::Written)];
    drop(hang);
    first.await.unwrap();
    assert_eq!(lost.await.unwrap_err().kind(), ErrorKind::ResourceExhausted);
    for kept in [rests].into_iter().chain(behind) {
        assert_eq!(kept.await.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert_eq!(fault.happened(), 1);
    drop(journal);
    assert_eq!(open(dir.path()).1, puts(0..4));
}

#[test]
fn what_was_refused_while_the_disk_hung_leaves_no_gap_in_a_segment() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, mut journal) = begun(&dir);
    let hang = disk.inject(Fault::hangs(Operation::Write).times(1));
    // Too much at once, and the queue is not empty.
    let records = puts(4..4 + (WAITING_MAX_BYTES / 8) as u64);
    drop(journal.append(&[Put::new(3)], Promise::Written));
    assert_eq!(unkept(journal.append(&records, Promise::Written)), ErrorKind::Unavailable);
    assert!(journal.fault().unwrap().contains("too much waits"));
    drop(journal.append(&[Put::new(9)], Promise::Written));
    hang.wait();
    drop(hang);
    settle(&journal);
    assert!(journal.is_snapshot_due(Instant::now() + RETRY_MIN));
    drop(journal.begin_snapshot()); // Killed before it was written.
    append_with_fault(&mut journal, 5);
    drop(journal);
    assert_eq!(open(dir.path()).1, puts(0..4), "not what is behind the gap");
}

#[test]
fn what_was_refused_while_a_snapshot_began_does_not_end_the_journal_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, mut journal) = begun(&dir);
    let hang = disk.inject(Fault::hangs(Operation::Write).times(1));
    drop(journal.append(&[Put::new(3)], Promise::Written));
    hang.wait();
    let snapshot = journal.begin_snapshot();
    drop(journal.append(&puts(4..4 + (WAITING_MAX_BYTES / 8) as u64), Promise::Written));
    drop(hang);
    snapshot.write(puts(0..4).into_iter());
    assert!(journal.fault().is_some(), "what was refused is in no file");
    // Nothing was decided since, so the segment that was begun is still empty.
    journal.begin_snapshot().write(puts(0..5).into_iter());
    assert_eq!(journal.fault(), None);
    append(&mut journal, 5..6);
    drop(journal);
    assert_eq!(open(dir.path()).1, puts(0..6));
}

/// A record whose encoding is longer than its kind allows is a defect of the owner.
#[test]
#[should_panic(expected = "a record of long has 2 bytes")]
fn a_record_that_is_too_long_is_refused_before_anything_is_written() {
    struct Long;
    impl Record for Long {
        const KIND: &'static str = "long";
        const LAYOUT_VERSION: u32 = 1;
        const BYTES_MAX: usize = 1;

        fn encode(&self, dst: &mut BytesMut) {
            dst.extend_from_slice(b"xx");
        }

        fn decode(_: u32, _: &[u8]) -> Option<Self> {
            None
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let mut journal = FileJournal::open(options(dir.path()), |_: Long| ()).unwrap();
    drop(journal.append(&[Long], Promise::Written));
}

#[tokio::test]
async fn a_writer_that_panics_ends_the_journal_though_nobody_waits() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(dir.path());
    // Not the number of the next record.
    journal.queue.push(Order::Gap { first: 7, records: 1 });
    let ended = tokio::time::timeout(PATIENT, journal.ended()).await.expect("it is told");
    assert!(ended.to_string().ends_with("the thread that writes has panicked"), "{ended}");
    assert_eq!(journal.fault().as_deref(), Some("the thread that writes has panicked"));
}
