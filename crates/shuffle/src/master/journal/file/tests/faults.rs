//! Tests of the journal when its disk is full, hangs or forgets.

use super::*;

#[test]
fn a_snapshot_that_fails_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    append(&mut journal, 0..3);
    let next = with_writer(&journal, |writer| writer.next);
    // No file can replace a directory.
    fs::create_dir_all(snapshot_path(dir.path(), next).join("full")).unwrap();
    journal.snapshot((0..3).map(registered).collect())();
    let unfinished = dir.path().join("snapshot.tmp");
    assert!(!unfinished.exists(), "the room is the records'");
    append(&mut journal, 3..4); // There is no fault: everything is kept, in two files.
    assert_eq!(journal.failed_snapshots(), 1);
    fs::remove_dir_all(snapshot_path(dir.path(), next)).unwrap();
    drop(journal);
    fs::write(&unfinished, b"half").unwrap(); // Killed before it was renamed.
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

/// A file that can be cut but not written acts as a full disk. Returns the real one.
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
fn no_segment_begins_after_one_that_could_not_be_cut() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    append(&mut journal, 0..3);
    // Half a record reaches the file; neither writing the rest nor cutting it off is possible.
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

/// A device that accepts all writes, and fails every fsync.
fn no_sync() -> File {
    File::options().append(true).open("/dev/null").unwrap()
}

fn now_or_never(mut kept: Kept) -> Option<Result<()>> {
    match kept.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(written) => Some(written),
        Poll::Pending => None,
    }
}

/// A pipe that nobody reads acts as a disk that hangs; reading it lets the disk go on.
fn hang_disk(journal: &FileJournal) -> std::io::PipeReader {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[7; 1 << 16]).unwrap();
    swap_file(journal, File::from(std::os::fd::OwnedFd::from(writer)));
    reader
}

#[tokio::test]
async fn a_disk_that_hangs_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    journal.append(&[registered(0)]).await.unwrap();
    drop(journal);
    let (mut journal, _) =
        FileJournal::open(FileJournalOptions { answer_max: IMPATIENT, ..options(dir.path()) }).unwrap();
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
    drop(journal.snapshot((0..4).map(registered).collect())); // Given up: a pipe cannot be synced.
    drop(journal.append(&[registered(4)]));
    reader.read_exact(&mut [0; 1 << 16]).unwrap();
    settle(&journal);
    assert!(journal.fault().is_some(), "the promise was not kept");
    assert!(journal.is_snapshot_due(Instant::now() + RETRY_MIN));
    journal.snapshot((0..5).map(registered).collect())();
    assert_eq!(journal.fault(), None);
    append(&mut journal, 5..6);
    assert!(journal.queue.stop(PATIENT));
    drop(journal);
    assert_eq!(open(dir.path()).1, (0..6).map(registered).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_decision_without_records_waits_for_earlier_ones_and_no_longer_than_they_do() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
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
    let impatient = FileJournalOptions { answer_max: IMPATIENT, ..options(dir.path()) };
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
    let (mut journal, _) = open(dir.path());
    append(&mut journal, 0..2);
    let held = journal.hold_up();
    let fill = |writer: &mut Writer| drop(writer.segment.swap_file(sealed(SealFlags::WRITE)));
    journal.queue.push(Order::Show(Box::new(fill)));
    let lost = journal.append(&[registered(2)]);
    let rests = journal.append(&[]);
    // What follows goes to a file that accepts it, but records before it are still missing.
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
    // Too much at once, and the queue is not empty.
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
    // Nothing was decided since, so the segment that was begun is still empty.
    journal.snapshot((0..4).map(registered).collect())();
    assert_eq!(journal.fault(), None);
    append(&mut journal, 4..5);
    drop(journal);
    assert_eq!(open(dir.path()).1, (0..5).map(registered).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_whole_journal_skips_no_record_unnoticed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    append(&mut journal, 0..2);
    // Whatever the cause.
    with_writer(&journal, |writer| writer.segment.end());
    let held = journal.hold_up();
    let kept = journal.append(&[registered(2)]);
    drop(held);
    settle(&journal);
    assert!(now_or_never(kept).unwrap().is_err());
    assert!(journal.fault().is_some());
}
