//! Tests of the journal with real files: what a restart reads, and what damage costs.

mod faults;
mod power;
mod promises;

use std::fs;
use std::path::Path;

use bytes::BytesMut;
use yeoul_disk::FaultyDisk;

use super::*;
use crate::layout::{Entry, Frame, decode, encode};
use crate::scripted::{Put, Table};

/// Longer than any disk takes.
const PATIENT: Duration = Duration::from_secs(60);

fn options(dir: &Path) -> FileJournalOptions {
    FileJournalOptions {
        snapshot_after_bytes: 4096,
        // Each test decides itself what is synced, and when.
        sync_interval: Duration::from_secs(3600),
        // A journal that is dropped has to be closed before the next one is opened, however slow the disk is.
        answer_max: PATIENT,
        ..FileJournalOptions::new(dir, "master")
    }
}

fn open_with(options: FileJournalOptions) -> (FileJournal<Put>, Vec<Put>) {
    let mut records = Vec::new();
    let journal = FileJournal::open(options, |put| records.push(put)).unwrap();
    (journal, records)
}

fn open(dir: &Path) -> (FileJournal<Put>, Vec<Put>) {
    open_with(options(dir))
}

fn open_on(dir: &Path, disk: &Arc<FaultyDisk>) -> FileJournal<Put> {
    open_with(FileJournalOptions { disk: disk.clone(), ..options(dir) }).0
}

fn puts(values: impl IntoIterator<Item = u64>) -> Vec<Put> {
    values.into_iter().map(Put::new).collect()
}

/// Waits until the writing thread has done everything that it was asked before. Returns whether it is kept.
fn reach(journal: &FileJournal<Put>, promise: Promise) -> Result<()> {
    let (tell, told) = sync_channel(1);
    let kept = Box::new(move |kept| tell.send(kept).unwrap());
    journal.queue.push(Order::Reach { promise, kept });
    told.recv().unwrap()
}

fn settle(journal: &FileJournal<Put>) {
    let _ = reach(journal, Promise::Written);
}

fn sync(journal: &FileJournal<Put>) {
    reach(journal, Promise::Synced).unwrap();
}

/// Appends as if the process were killed right after it: nothing is synced.
fn append(journal: &mut FileJournal<Put>, range: std::ops::Range<u64>) {
    for value in range {
        drop(journal.append(&[Put::new(value)], Promise::Written));
    }
    settle(journal);
    assert_eq!(journal.fault(), None);
}

/// The number after each entry of a segment, with where it ends, and whether it is a record.
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
fn records_within(bytes: &[u8], len: usize) -> u64 {
    entries(bytes).iter().filter(|(end, is_record)| *is_record && *end <= len).count() as u64
}

fn failure(dir: &Path) -> Error {
    FileJournal::open(options(dir), |_: Put| ()).err().expect("it does not start")
}

fn files(dir: &Path) -> Files {
    Files::list(&RealDisk, dir).unwrap()
}

fn last_file(dir: &Path) -> PathBuf {
    files(dir).journals.pop_last().unwrap().1
}

#[test]
fn what_was_appended_comes_back_across_restarts_and_snapshots() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    for round in 0..10 {
        let (mut journal, records) = open(dir.path());
        assert_eq!(records, expected, "round {round}");
        append(&mut journal, round * 100..round * 100 + 100);
        expected.extend(puts(round * 100..round * 100 + 100));
        if journal.wants_snapshot() {
            journal.begin_snapshot().write(expected.clone().into_iter());
            append(&mut journal, 9000 + round..9001 + round);
            expected.push(Put::new(9000 + round));
        }
        assert_eq!(journal.next(), expected.len() as u64);
    }
    let files = files(dir.path());
    assert_eq!((files.snapshots.len(), files.journals.len()), (1, 1));
    assert!(files.snapshots.last_key_value().unwrap().0 > &100);
}

/// Has the journal begin a file; the number of its first record.
fn roll(journal: &mut FileJournal<Put>) -> Result<u64> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(journal.begin_segment())
}

#[test]
fn files_before_one_that_was_asked_for_change_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    append(&mut journal, 0..3);
    assert_eq!(roll(&mut journal).unwrap(), 3);
    let closed = fs::read(&files(dir.path()).journals[&0]).unwrap();
    append(&mut journal, 3..5);
    assert_eq!(roll(&mut journal).unwrap(), 5);
    assert_eq!(roll(&mut journal).unwrap(), 5, "it has no record yet");
    append(&mut journal, 5..6);
    drop(journal);
    let begun: Vec<u64> = files(dir.path()).journals.into_keys().collect();
    assert_eq!(begun, [0, 3, 5]);
    assert_eq!(fs::read(&files(dir.path()).journals[&0]).unwrap(), closed);
    assert_eq!(open(dir.path()).1, puts(0..6));
}

#[test]
fn files_that_owners_begin_are_bounded_by_a_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let options = FileJournalOptions { snapshot_after_bytes: u64::MAX, ..options(dir.path()) };
    let mut journal = open_with(options.clone()).0;
    for value in 0..ROLLED_MAX / 2 {
        append(&mut journal, value..value + 1);
        assert_eq!(roll(&mut journal).unwrap(), value + 1);
    }
    drop(journal);
    let mut journal = open_with(options).0;
    for value in ROLLED_MAX / 2..ROLLED_MAX {
        assert!(!journal.wants_snapshot() || value + 1 == ROLLED_MAX, "after {value}");
        append(&mut journal, value..value + 1);
        roll(&mut journal).unwrap();
    }
    assert!(journal.wants_snapshot());
    journal.begin_snapshot().write(puts(0..ROLLED_MAX).into_iter());
    assert!(!journal.wants_snapshot());
    assert_eq!(files(dir.path()).journals.len(), 1);
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
        assert_eq!(records, puts(1..=records_within(&whole, len)), "{len} bytes");
        append(&mut journal, 7..8);
        drop(journal);
        assert_eq!(open(dir.path()).1.last(), Some(&Put::new(7)));
    }
}

#[test]
fn only_the_last_file_may_be_torn() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    append(&mut journal, 0..3);
    drop(journal.begin_snapshot()); // Given up, with a second file begun.
    append(&mut journal, 3..5);
    drop(journal);
    let Files { snapshots, journals } = files(dir.path());
    assert_eq!((snapshots.len(), journals.len()), (0, 2));
    let path = &journals[&0];
    let whole = fs::read(path).unwrap();
    assert_eq!(open(dir.path()).1, puts(0..5));
    for len in 0..whole.len() {
        // It was synced before the second was begun.
        fs::write(path, &whole[..len]).unwrap();
        assert_eq!(failure(dir.path()).kind(), ErrorKind::Corrupt, "{len} bytes");
    }
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
    // Two marks, then three records.
    for at in 0..entries(&whole)[4].0 {
        let mut rotten = whole.clone();
        rotten[at] ^= 4;
        fs::write(&path, &rotten).unwrap();
        assert_eq!(failure(dir.path()).kind(), ErrorKind::Corrupt, "byte {at}");
        assert_eq!(fs::read(&path).unwrap(), rotten, "nothing was changed");
    }
}

#[test]
fn a_hole_in_what_no_sync_has_covered_is_cut_and_one_before_is_rot() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    append(&mut journal, 0..200);
    sync(&journal);
    append(&mut journal, 200..400);
    drop(journal);
    let path = last_file(dir.path());
    let whole = fs::read(&path).unwrap();
    let synced = entries(&whole)[202].0;
    let hole = |begin: usize| {
        let mut bytes = whole.clone();
        bytes[begin..begin + 1024].fill(0);
        fs::write(&path, bytes).unwrap();
    };
    let page = synced.next_multiple_of(1024);
    hole(page);
    let (mut journal, records) = open(dir.path());
    let kept = records_within(&whole, page);
    assert!((200..300).contains(&kept), "whole records stand behind the hole");
    assert_eq!(records, puts(0..kept));
    append(&mut journal, kept..401);
    drop(journal);
    assert_eq!(open(dir.path()).1, puts(0..401));
    hole(0);
    assert_eq!(failure(dir.path()).kind(), ErrorKind::Corrupt);
}

#[test]
fn what_a_snapshot_has_replaced_is_not_read_and_goes_with_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    append(&mut journal, 0..3);
    journal.begin_snapshot().write(puts(0..3).into_iter());
    append(&mut journal, 3..5);
    let all = || {
        let Files { snapshots, journals } = files(dir.path());
        snapshots.into_values().chain(journals.into_values()).collect::<Vec<_>>()
    };
    let old: Vec<_> = all().into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect();
    let state = puts([0, 1, 4]);
    journal.begin_snapshot().write(state.into_iter());
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
    assert_eq!(records, puts([0, 1, 4, 5]), "not what was removed since");
    append(&mut journal, 6..7);
    drop(journal);
    let (mut journal, records) = open(dir.path());
    assert_eq!(records, puts([0, 1, 4, 5, 6]));
    assert!(new.iter().all(|path| path.exists()), "it goes on in the last file");
    journal.begin_snapshot().write(records.clone().into_iter());
    assert_eq!(all().len(), 2);
    drop(journal);
    assert_eq!(open(dir.path()).1, records);
}

#[test]
fn an_unfinished_snapshot_is_nothing_and_a_rotten_one_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    append(&mut journal, 0..100);
    let snapshot = journal.begin_snapshot();
    append(&mut journal, 100..101);
    drop(snapshot); // Killed before it was written.
    fs::write(dir.path().join("snapshot.tmp"), b"half").unwrap();
    drop(journal);
    let (mut journal, records) = open(dir.path());
    assert_eq!(records, puts(0..101));
    assert!(!dir.path().join("snapshot.tmp").exists());
    journal.begin_snapshot().write(records.clone().into_iter());
    drop(journal);
    assert_eq!(open(dir.path()).1, records);
    let path = files(dir.path()).snapshots.pop_last().unwrap().1;
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 40]).unwrap();
    assert_eq!(failure(dir.path()).kind(), ErrorKind::Corrupt);
}

#[test]
fn what_others_wrote_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    append(&mut journal, 0..3);
    drop(journal);
    let path = last_file(dir.path());
    let whole = fs::read(&path).unwrap();
    let of_newer = |entry| {
        let mut newer = BytesMut::from(&whole[..]);
        encode(3, entry, &mut newer);
        newer.to_vec()
    };
    let earlier = [b"YJR1", &whole[4..]].concat();
    let layout_version = Put::LAYOUT_VERSION + 1;
    for (bytes, says) in [
        (of_newer(Entry::Begins { layout_version, kind: Put::KIND }), "a record of a newer version"),
        (of_newer(Entry::Record(b"?")), "a record of a newer version"),
        (of_newer(Entry::Begins { layout_version: 1, kind: "namenode" }), "another kind of server"),
        (earlier, "a version before the first release"),
    ] {
        fs::write(&path, &bytes).unwrap();
        let error = failure(dir.path());
        // Not `Invalid`: the command line is right.
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(error.to_string().contains(says) && error.hint().is_some(), "{error}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn a_file_that_is_missing_between_others_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    for begin in [0, 10, 20] {
        append(&mut journal, begin..begin + 10);
        drop(journal.begin_snapshot());
    }
    append(&mut journal, 30..31);
    drop(journal);
    fs::remove_file(&files(dir.path()).journals[&10]).unwrap();
    assert_eq!(failure(dir.path()).kind(), ErrorKind::Corrupt);
    assert_eq!(files(dir.path()).journals.len(), 3, "what is there is left alone");
}

#[test]
fn a_segment_that_is_full_is_followed_by_another() {
    let dir = tempfile::tempdir().unwrap();
    let options = FileJournalOptions { segment_bytes_max: 1000, ..options(dir.path()) };
    let (mut journal, _) = open_with(options.clone());
    for value in 0..300 {
        append(&mut journal, value..value + 1);
    }
    assert!(journal.wants_snapshot(), "the segments since the last one count together");
    let journals = files(dir.path()).journals;
    assert!(journals.len() >= 9, "{journals:?}");
    assert!(journals.values().all(|path| fs::metadata(path).unwrap().len() < 1100));
    drop(journal);
    let (mut journal, records) = open_with(options);
    assert_eq!(records, puts(0..300));
    assert!(journal.wants_snapshot(), "a restart changes nothing in that");
    journal.begin_snapshot().write(records.into_iter());
    assert!(!journal.wants_snapshot());
    assert_eq!(files(dir.path()).journals.len(), 1);
}

#[test]
fn two_processes_do_not_share_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(dir.path());
    let error = failure(dir.path());
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().ends_with("in use by another master") && error.hint().is_some());
    drop(journal);
    open(dir.path());
}

#[test]
fn nobody_opens_a_directory_to_which_a_snapshot_is_still_written() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    append(&mut journal, 0..3);
    let snapshot = journal.begin_snapshot();
    drop(journal);
    assert_eq!(failure(dir.path()).kind(), ErrorKind::Conflict);
    snapshot.write(puts(0..3).into_iter());
    assert_eq!(open(dir.path()).1, puts(0..3));
}

#[test]
fn a_hundred_thousand_records_are_not_read_again_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let options = FileJournalOptions::new(dir.path(), "master");
    let (mut journal, _) = open_with(options.clone());
    let records = puts(0..100_000);
    drop(journal.append(&records, Promise::Written));
    drop(journal);
    let started = Instant::now();
    let (_, read) = open_with(options);
    assert_eq!(read, records);
    // It takes a fraction of a second; a quadratic algorithm takes minutes.
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}
