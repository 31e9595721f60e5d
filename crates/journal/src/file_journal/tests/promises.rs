//! Tests of what an append promises, and that those who wait share the work of the disk.

use std::thread;

use yeoul_disk::{Fault, Operation};

use super::*;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[tokio::test]
async fn those_who_wait_together_share_a_write_and_a_sync() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new();
    let mut journal = open_on(dir.path(), &disk);
    journal.append(&[Put::new(0)], Promise::Synced).await.unwrap();
    let (writes, syncs) = (disk.count(Operation::Write), disk.count(Operation::Sync));
    let hang = disk.inject(Fault::hangs(Operation::Sync).times(1));
    let first = journal.append(&[Put::new(1)], Promise::Synced);
    hang.wait();
    let held = disk.inject(Fault::hangs(Operation::Write).times(1));
    let second = journal.append(&[Put::new(2)], Promise::Synced);
    held.wait();
    let rest: Vec<Kept> = (3..500).map(|value| journal.append(&[Put::new(value)], Promise::Synced)).collect();
    drop((hang, held));
    for kept in [first, second].into_iter().chain(rest) {
        kept.await.unwrap();
    }
    assert_eq!(disk.count(Operation::Write) - writes, 3, "the first, the second, and all others");
    let syncs = disk.count(Operation::Sync) - syncs;
    assert!(syncs <= 3, "{syncs} syncs");
}

#[tokio::test]
async fn what_is_written_does_not_wait_for_a_sync_and_what_is_to_be_synced_does() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new();
    let mut journal = open_on(dir.path(), &disk);
    let hang = disk.inject(Fault::hangs(Operation::Sync).times(1));
    let synced = tokio::spawn(journal.append(&[Put::new(0)], Promise::Synced));
    hang.wait();
    journal.append(&[Put::new(1)], Promise::Written).await.unwrap();
    assert!(!synced.is_finished());
    let second = tokio::spawn(journal.append(&[], Promise::Synced));
    tokio::task::yield_now().await;
    assert!(!second.is_finished());
    drop(hang);
    synced.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    // All is synced by now, so there is nothing to wait for.
    let syncs = disk.count(Operation::Sync);
    journal.append(&[], Promise::Synced).await.unwrap();
    assert_eq!(disk.count(Operation::Sync), syncs);
}

#[test]
fn records_for_which_nobody_waits_are_synced_after_a_while() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new();
    let sync_interval = Duration::from_millis(20);
    let options = FileJournalOptions { sync_interval, disk: disk.clone(), ..options(dir.path()) };
    let (mut journal, _) = open_with(options);
    append(&mut journal, 0..3);
    let deadline = Instant::now() + PATIENT;
    while journal.syncer.synced() < 3 {
        assert!(Instant::now() < deadline, "nothing is synced");
        thread::yield_now();
    }
}

#[test]
fn what_was_promised_to_be_synced_survives_a_power_failure_and_the_rest_may_not() {
    let mut lost = 0;
    for seed in 0..50 {
        let dir = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::new();
        let mut journal = open_on(dir.path(), &disk);
        runtime().block_on(async {
            journal.append(&puts(0..20), Promise::Synced).await.unwrap();
            journal.append(&puts(20..100), Promise::Written).await.unwrap();
        });
        let dead = disk.inject(Fault::fails_all(rustix::io::Errno::IO));
        drop(journal);
        drop(dead);
        disk.lose_power(seed);
        let records = open(dir.path()).1;
        assert!((20..=100).contains(&records.len()), "seed {seed}: {}", records.len());
        assert_eq!(records, puts(0..records.len() as u64));
        lost += usize::from(records.len() < 100);
    }
    assert!(lost > 10, "the power took something {lost} times");
}

#[test]
fn a_snapshot_takes_in_a_state_that_changes_and_stops_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    let mut table = Table::new();
    let mut put = |journal: &mut FileJournal<Put>, value| {
        runtime().block_on(journal.append(&[Put::new(value)], Promise::Written)).unwrap();
        Put::new(value).apply(&mut table);
    };
    (0..200).for_each(|value| put(&mut journal, value));
    let snapshot = journal.begin_snapshot();
    let (ask, asked) = sync_channel::<u16>(0);
    let (tell, told) = sync_channel::<Option<Put>>(0);
    let writing = thread::spawn(move || {
        let read = |key| {
            ask.send(key).unwrap();
            told.recv().unwrap()
        };
        snapshot.write((0..50).filter_map(read));
    });
    // A key is read, then something else changes, then the next is read.
    for key in 0..50 {
        assert_eq!(asked.recv().unwrap(), key);
        let found = table_of(dir.path()).get(&key).map(|value| Put { key, value: *value });
        tell.send(found).unwrap();
        put(&mut journal, 1000 + u64::from(key));
    }
    writing.join().unwrap();
    assert_eq!((journal.failed_snapshots(), files(dir.path()).snapshots.len()), (0, 1));
    drop(journal);
    let mut read = Table::new();
    open(dir.path()).1.into_iter().for_each(|put| put.apply(&mut read));
    assert_eq!(read, table);
}

/// The state as the files of a running journal have it.
fn table_of(dir: &Path) -> Table {
    let mut table = Table::new();
    for (first, path) in files(dir).journals {
        let bytes = fs::read(path).unwrap();
        crate::parsed::parse(&bytes, first, |put: Put| put.apply(&mut table));
    }
    table
}
