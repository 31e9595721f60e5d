//! Goal: a disk that hangs in the middle of a write, and never answers, costs the time until that is noticed; what it was
//! given goes to another disk. If it answers after all, and no other disk was faster, its write counts. Method: a write that
//! really hangs, on a thread for files, for as long as the test wants.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use yeoul_disk::{FaultyDisk, Injection};

use super::super::Store;
use super::super::directory::{DirectoryOptions, Health};
use super::super::shuffle::Shuffle;
use super::{
    WITHIN, append, batch, commit, hang_in_write, pushed, quick, read_all, reserve, restart, runtime,
    segments_below, spill, until, with_faulty_store,
};
use crate::ids::{ApplicationId, ShuffleKey};
use crate::worker::index::MapRange;
use crate::worker::memory::Party;

const PARTITIONS: i32 = 64;
const SLICE: usize = 16 << 10;
const FRAME: u64 = PARTITIONS as u64 * SLICE as u64;

/// Appends a merged push: a batch for each partition, all of them in one buffer. It waits for memory as a push does.
async fn push_merged(store: &Store, shuffle: &Arc<Shuffle>, map: i32) {
    let party = Party::pushes(&ApplicationId::from("app"));
    let len = FRAME as usize;
    let mut buffer = store.buffers().take(len, store.memory(), &party).await;
    for _ in 0..PARTITIONS {
        buffer.bytes_mut().extend_from_slice(&batch(map, 0, 1, SLICE));
    }
    let frame = buffer.share();
    assert_eq!(frame.len() as u64, FRAME);
    for partition in 0..PARTITIONS {
        let at = partition as usize * SLICE;
        assert!(append(store, shuffle, partition, &frame.slice(at..at + SLICE)));
    }
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(WITHIN, future).await.expect("in time")
}

fn is_hung(hang: &Injection) -> bool {
    hang.happened() > 0
}

#[test]
fn what_a_disk_that_hangs_was_given_goes_to_another() {
    runtime().block_on(async {
        let place = tempfile::tempdir().unwrap();
        let paths = [place.path().join("a"), place.path().join("b")];
        let disk = FaultyDisk::new();
        let options = DirectoryOptions { disk: disk.clone(), ..quick() };
        let store = Arc::new(Store::open(&paths, 32 << 20, &options).unwrap());
        let [hung, well] = [0, 1].map(|at| Arc::clone(&store.directories()[at]));
        well.limit(1 << 30); // the one with more room comes first
        let key = ShuffleKey::new("app", 1);
        let shuffle = store.find_or_insert(&key).unwrap();
        reserve(&shuffle, 0..PARTITIONS);
        let goes_on = hang_in_write(&disk, &hung);
        let spiller = tokio::spawn(Arc::clone(&store).run_spiller());
        let mut map = 0;
        while !is_hung(&goes_on) {
            push_merged(&store, &shuffle, map).await;
            map += 1;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Nobody knows yet: the memory fills up.
        while tokio::time::timeout(Duration::from_millis(200), push_merged(&store, &shuffle, map))
            .await
            .is_ok()
        {
            map += 1;
        }
        assert_eq!(well.written(), 0);
        hung.hangs();
        for _ in 0..100 {
            in_time(push_merged(&store, &shuffle, map)).await; // the other disk makes room
            map += 1;
        }
        commit(&shuffle, PARTITIONS);
        let failed = in_time(store.flush()).await;
        assert_eq!((failed.len(), shuffle.resident(), hung.written()), (0, 0, 0));
        assert!(well.written() > map as u64 * FRAME && hung.health() == Health::Failed);

        // The thread that hangs keeps nothing of a shuffle that goes.
        store.delete(store.remove(&key).unwrap());
        drop(shuffle);
        until(|| store.memory().used() < SLICE as u64).await;
        assert!(store.find_or_insert(&key).is_none(), "it may still write a file of that number");
        drop(goes_on);
        until(|| store.find_or_insert(&key).is_some()).await;
        assert!(segments_below(place.path()).is_empty());
        hung.probe().unwrap();
        assert!(hung.is_idle() && hung.health() == Health::Healthy, "it is not blamed for what was given up");
        spiller.abort();
    });
}

#[test]
fn what_comes_of_a_write_after_it_was_given_up_changes_nothing() {
    with_faulty_store(async |place, disk, store| {
        let (shuffle, mut batches) = pushed(&store, "app", &[1000, 2000]);
        let hung = Arc::clone(&store.directories()[0]);
        let goes_on = hang_in_write(&disk, &hung);
        let given_up = spill(&store, 0);
        until(|| is_hung(&goes_on)).await;
        hung.hangs();
        assert!(!in_time(given_up).await.unwrap());
        // More comes to one location, and both go to the other disk, in other runs.
        batches.push(batch(7, 0, 1, 3000));
        assert!(append(&store, &shuffle, 0, &batches[2]));
        assert!(spill(&store, 1).await.unwrap());
        assert_eq!((shuffle.resident(), store.spills().count()), (0, 1));
        assert!(batches.iter().all(Bytes::is_unique), "the thread that hangs has let go of them");
        hung.probe().unwrap();
        drop(goes_on);
        until(|| hung.is_idle()).await;
        assert_eq!((store.spills().count(), segments_below(place.path()).len()), (1, 2));
        assert_eq!(shuffle.lock().segments.len(), 2, "it goes with its shuffle");
        commit(&shuffle, 2);
        assert!(store.flush().await.is_empty());
        drop(hung);
        let (store, locations) = restart(&place, store, shuffle);
        assert_eq!(locations, 2);
        let shuffle = store.find(&ShuffleKey::new("app", 1)).unwrap();
        let expected: [&[Bytes]; 2] = [&[batches[0].clone(), batches[2].clone()], &batches[1..2]];
        for (partition, expected) in expected.into_iter().enumerate() {
            let found = read_all(&store, &shuffle, partition as i32, MapRange::Whole).await.unwrap();
            assert_eq!(found, expected);
        }
    });
}

#[test]
fn a_flush_writes_elsewhere_what_a_disk_keeps_that_hangs() {
    with_faulty_store(async |place, disk, store| {
        let (shuffle, _) = pushed(&store, "app", &[1000, 70_000]);
        commit(&shuffle, 2);
        let hung = Arc::clone(&store.directories()[0]);
        let goes_on = hang_in_write(&disk, &hung);
        let given_up = spill(&store, 0);
        until(|| is_hung(&goes_on)).await;
        let flushing = Arc::clone(&store);
        let flushed = tokio::spawn(async move { flushing.flush_in_steps(WITHIN).await.len() });
        tokio::time::sleep(Duration::from_millis(20)).await;
        hung.hangs();
        let failed = in_time(flushed).await.unwrap();
        assert_eq!((failed, shuffle.resident(), in_time(given_up).await.unwrap()), (0, 0, false));
        drop(goes_on);
        until(|| hung.is_idle()).await;
        drop(hung);
        assert_eq!(restart(&place, store, shuffle).1, 2);
    });
}

/// Restarts the worker, and compares what it reads with the batches of each partition.
async fn restart_and_compare(
    place: &tempfile::TempDir,
    store: Arc<Store>,
    shuffle: Arc<Shuffle>,
    expected: &[&[Bytes]],
) {
    commit(&shuffle, expected.len() as i32);
    assert!(store.flush().await.is_empty());
    let (store, locations) = restart(place, store, shuffle);
    assert_eq!(locations, expected.len());
    let shuffle = store.find(&ShuffleKey::new("app", 1)).unwrap();
    for (partition, expected) in expected.iter().enumerate() {
        let found = read_all(&store, &shuffle, partition as i32, MapRange::Whole).await.unwrap();
        assert_eq!(found, *expected);
    }
}

/// Without another disk, nothing else would ever free the memory: the same batches would be written again and again.
#[test]
fn what_a_slow_disk_has_written_at_last_counts() {
    with_faulty_store(async |place, disk, store| {
        // Written in three parts, of which the first hangs.
        let (shuffle, batches) = pushed(&store, "app", &[300_000, 1000, 300_000]);
        let slow = Arc::clone(&store.directories()[0]);
        let goes_on = hang_in_write(&disk, &slow);
        let spilled = spill(&store, 0);
        until(|| is_hung(&goes_on)).await;
        slow.hangs();
        assert!(!in_time(spilled).await.unwrap());
        assert_eq!((shuffle.resident(), shuffle.lock().writes.len()), (601_000, 1));
        slow.probe().unwrap();
        drop(goes_on);
        until(|| slow.is_idle()).await;
        assert_eq!((shuffle.resident(), shuffle.lock().writes.len()), (0, 0));
        assert_eq!((store.spills().count(), store.spilled_bytes().get()), (1, 601_000));
        drop(slow);
        restart_and_compare(&place, store, shuffle, &[&batches[..1], &batches[1..2], &batches[2..]]).await;
    });
}

#[test]
fn of_slow_disks_that_were_given_the_same_the_first_to_answer_counts() {
    for first in [0, 1] {
        with_faulty_store(async |place, disk, store| {
            let (shuffle, mut batches) = pushed(&store, "app", &[1000, 2000]);
            let disks = [0, 1].map(|at: usize| Arc::clone(&store.directories()[at]));
            let mut hold = Vec::new();
            for (at, directory) in disks.iter().enumerate() {
                let hang = hang_in_write(&disk, directory);
                let spilled = spill(&store, at);
                until(|| is_hung(&hang)).await;
                hold.push(Some(hang));
                directory.hangs();
                assert!(!in_time(spilled).await.unwrap());
                batches.push(batch(7 + at as i32, 0, 1, 3000));
                assert!(append(&store, &shuffle, 0, &batches[2 + at]));
            }
            disks.iter().for_each(|disk| disk.probe().unwrap());
            hold[first] = None;
            until(|| disks[first].is_idle()).await;
            assert_eq!((shuffle.resident(), store.spills().count()), ([6000, 3000][first], 1));
            // It writes the rest before the other one answers, which changes nothing.
            assert!(spill(&store, first).await.unwrap());
            assert_eq!(shuffle.resident(), 0);
            hold.clear();
            until(|| disks.iter().all(|disk| disk.is_idle())).await;
            assert_eq!((shuffle.resident(), store.spills().count()), (0, 2));
            assert!(shuffle.lock().writes.is_empty());
            drop(disks);
            let (second, others) = (&batches[1..2], [&batches[..1], &batches[2..]].concat());
            restart_and_compare(&place, store, shuffle, &[&others, second]).await;
        });
    }
}

#[test]
fn what_is_written_while_a_slow_disk_answers_is_not_counted_again() {
    for fails in [false, true] {
        with_faulty_store(async |place, disk, store| {
            let (shuffle, mut batches) = pushed(&store, "app", &[1000]);
            let [late, other] = [0, 1].map(|at: usize| Arc::clone(&store.directories()[at]));
            let hold = hang_in_write(&disk, &late);
            let given_up = spill(&store, 0);
            until(|| is_hung(&hold)).await;
            late.hangs();
            assert!(!in_time(given_up).await.unwrap());
            let other_holds = hang_in_write(&disk, &other);
            let written_again = spill(&store, 1);
            until(|| is_hung(&other_holds)).await;
            drop(hold);
            until(|| late.is_idle()).await;
            assert_eq!((shuffle.resident(), store.spills().count()), (0, 1), "it is first");
            // The next batches are on their way when the other one ends.
            late.probe().unwrap();
            batches.push(batch(7, 0, 1, 3000));
            assert!(append(&store, &shuffle, 0, &batches[1]));
            let hold = hang_in_write(&disk, &late);
            let written = spill(&store, 0);
            until(|| is_hung(&hold)).await;
            if fails {
                other.hangs();
                assert!(!in_time(written_again).await.unwrap());
                drop(other_holds);
            } else {
                drop(other_holds);
                assert!(in_time(written_again).await.unwrap());
            }
            until(|| other.is_idle()).await;
            assert_eq!((shuffle.resident(), store.spills().count()), (3000, 1));
            let is_spilling = shuffle.lock().copies.values().any(|copy| copy.is_spilling());
            assert!(is_spilling, "they would be planned twice");
            drop(hold);
            assert!(in_time(written).await.unwrap());
            assert_eq!((shuffle.resident(), store.spills().count()), (0, 2));
            other.probe().unwrap();
            drop((late, other));
            restart_and_compare(&place, store, shuffle, &[&batches]).await;
        });
    }
}

#[test]
fn a_disk_that_hangs_keeps_nothing_of_a_shuffle_that_goes() {
    for is_known in [false, true] {
        with_faulty_store(async |place, disk, store| {
            let (shuffle, batches) = pushed(&store, "app", &[1000, 2000]);
            let hung = Arc::clone(&store.directories()[0]);
            let goes_on = hang_in_write(&disk, &hung);
            let spilled = spill(&store, 0);
            until(|| is_hung(&goes_on)).await;
            if is_known {
                hung.hangs();
            }
            store.delete(store.remove(shuffle.key()).unwrap());
            assert!(batches.iter().all(Bytes::is_unique));
            drop(goes_on);
            in_time(spilled).await.unwrap();
            until(|| hung.is_idle() && segments_below(place.path()).is_empty()).await;
            assert_eq!(hung.health() == Health::Failed, is_known, "what was taken from it is not its fault");
        });
    }
}
