//! Tests of the journal with real files: what a restart reads, and what damage costs.

mod faults;

use std::io::{Read, Write};
use std::path::Path;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use super::super::directory::snapshot_path;
use super::super::health::{RETRY_MAX, RETRY_MIN};
use super::super::layout::{Frame, decode, frame};
use super::super::queue::WAITING_MAX_BYTES;
use super::*;
use crate::ids::ShuffleKey;

/// Longer than any disk takes.
const PATIENT: Duration = Duration::from_secs(60);

/// For a disk that hangs. Nothing that must succeed waits for so little.
const IMPATIENT: Duration = Duration::from_millis(200);

fn registered(shuffle: i32) -> Record {
    Record::ShuffleRegistered { shuffle: ShuffleKey::new("app", shuffle), at_unix_ms: 1 }
}

fn options(dir: &Path) -> FileJournalOptions {
    // Each test decides itself what is synced, and when.
    let sync_interval = Duration::from_secs(3600);
    // A journal that is dropped has to be closed before the next one is opened, however slow the disk is.
    let answer_max = PATIENT;
    FileJournalOptions {
        snapshot_after_bytes: 4096,
        sync_interval,
        answer_max,
        ..FileJournalOptions::new(dir)
    }
}

fn open(dir: &Path) -> (FileJournal, Vec<Record>) {
    FileJournal::open(options(dir)).unwrap()
}

/// Looks at the writing thread's state, once it has done everything that it was asked before.
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

/// Appends as if the process were killed right after it: we flush nothing.
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
    let expected = |len| (1..=records_within(&whole, len)).chain(4..6).map(registered).collect::<Vec<_>>();
    for len in 0..=whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        for _ in 0..2 {
            let (journal, records) = open(dir.path());
            let next = with_writer(&journal, |writer| writer.next);
            assert_eq!((records, next), (expected(len), 7), "{len} bytes");
        }
    }
    // Space that was allocated and never written counts as torn.
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
fn a_synced_segment_proves_nothing_about_an_unsynced_one_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    append(&mut journal, 0..3);
    let job = journal.snapshot(Vec::new());
    append(&mut journal, 3..4);
    sync(&journal); // The thread is done before the job starts.
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
    // The snapshot cannot be written, and does not replace the previous one.
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
    // Killed before they were removed; damage in them costs nothing.
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
fn what_a_newer_version_wrote_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    append(&mut journal, 0..3);
    let next = with_writer(&journal, |writer| writer.next);
    drop(journal);
    // Field 100 of a record, with the number 1.
    let mut newer = BytesMut::new();
    frame(next, &[0xa0, 0x06, 1], &mut newer);
    let path = last_file(dir.path());
    let whole = [fs::read(&path).unwrap(), newer.to_vec()].concat();
    fs::write(&path, &whole).unwrap();
    let error = FileJournal::open(options(dir.path())).err().unwrap();
    // Not `Invalid`: the command line is right.
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("the version that wrote it")));
    assert_eq!(fs::read(&path).unwrap(), whole);
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
fn a_hundred_thousand_records_are_not_read_again_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = FileJournal::open(FileJournalOptions::new(dir.path())).unwrap();
    let records: Vec<Record> = (0..100_000).map(registered).collect();
    drop(journal.append(&records));
    drop(journal);
    let started = Instant::now();
    let (_, read) = FileJournal::open(FileJournalOptions::new(dir.path())).unwrap();
    assert_eq!(read.len(), records.len());
    // It takes a fraction of a second; a quadratic algorithm takes minutes.
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}
