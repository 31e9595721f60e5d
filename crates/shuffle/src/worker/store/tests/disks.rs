//! Goal: a disk that fails, fills up, hangs or has lost data after a restart costs the data on it, and nothing else. Method:
//! the test holds the turns of directories, so that operations wait for as long as it wants, and marks directories as
//! failed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use yeoul_disk::Turn;

use super::super::Store;
use super::super::directory::{Directory, DirectoryOptions, Health, STEP_MAX};
use super::super::read::ChunkReader;
use super::super::segment::Segment;
use super::super::shuffle::Shuffle;
use super::{
    WITHIN, append, batch, commit, file, open, pushed, quick, read_all, restart, runtime, segments_below,
    spill, until, with_store,
};
use crate::error::Kind;
use crate::ids::ShuffleKey;
use crate::worker::index::MapRange;

/// Time to wait for what must not happen.
const SOON: Duration = Duration::from_millis(50);

/// Time for a disk that works, although others keep it busy.
const STEP: Duration = Duration::from_secs(2);

/// Lets every task run until it waits for something other than its turn.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// A committed shuffle whose batch is on disk, without the seal that a restart needs.
async fn without_seal(store: &Arc<Store>) -> Arc<Shuffle> {
    let (shuffle, _) = pushed(store, "app", &[1000]);
    assert!(spill(store, 0).await.unwrap());
    commit(&shuffle, 1);
    shuffle
}

fn no_space() -> std::io::Error {
    std::io::ErrorKind::StorageFull.into()
}

#[test]
fn a_flush_waits_for_what_is_on_its_way() {
    with_store(async |place, store| {
        let (shuffle, batches) = pushed(&store, "app", &[1000, 70_000]);
        commit(&shuffle, 2);
        let directory = Arc::clone(&store.directories()[0]);
        let still = directory.stand_still().await;
        let spilled = spill(&store, 0);
        let flushing = Arc::clone(&store);
        let flushed = tokio::spawn(async move { flushing.flush().await.len() });
        settle().await;
        assert!(!flushed.is_finished(), "it gave up what is on its way");
        drop(still);
        assert_eq!((flushed.await.unwrap(), spilled.await.unwrap()), (0, true));
        drop(directory);
        let (store, locations) = restart(&place, store, shuffle);
        assert_eq!(locations, 2);
        let shuffle = store.find(&ShuffleKey::new("app", 1)).unwrap();
        for (partition, batch) in batches.iter().enumerate() {
            let found = read_all(&store, &shuffle, partition as i32, MapRange::Whole).await.unwrap();
            assert_eq!(found, std::slice::from_ref(batch));
        }
    });
}

#[test]
fn a_flush_writes_again_what_the_spiller_could_not() {
    with_store(async |place, store| {
        let (shuffle, _) = pushed(&store, "app", &[1000]);
        commit(&shuffle, 1);
        let broken = store.directories()[0].root().join("yeoul-shuffle");
        std::fs::remove_dir_all(&broken).unwrap();
        std::fs::write(&broken, "").unwrap();
        let directory = Arc::clone(&store.directories()[0]);
        let still = directory.stand_still().await;
        let spilled = spill(&store, 0);
        let flushing = Arc::clone(&store);
        let flushed = tokio::spawn(async move { flushing.flush().await.len() });
        settle().await;
        drop(still);
        assert_eq!((spilled.await.unwrap(), flushed.await.unwrap()), (false, 0));
        std::fs::remove_file(&broken).unwrap();
        drop(directory);
        assert_eq!(restart(&place, store, shuffle).1, 1);
    });
}

#[test]
fn a_flush_leaves_out_a_disk_that_hangs() {
    with_store(async |_place, store| {
        let (stuck, _) = pushed(&store, "stuck", &[1000]);
        commit(&stuck, 1);
        let directory = Arc::clone(&store.directories()[0]);
        let still = directory.stand_still().await;
        let spilled = spill(&store, 0);
        settle().await;
        let failed = tokio::time::timeout(WITHIN, store.flush_in_steps(STEP)).await.expect("it ends");
        assert!(
            failed.is_empty() && !spilled.await.unwrap(),
            "the other disk takes it when the time is over"
        );
        assert_eq!((stuck.resident(), directory.health()), (0, Health::Failed));
        directory.probe().unwrap();
        let (next, _) = pushed(&store, "next", &[1000]);
        commit(&next, 1);
        let spilled = spill(&store, 0);
        settle().await;
        // Shuffles that have a file are written before the wait for the disk that hangs.
        let others = ["a", "b", "c"].map(|name| pushed(&store, name, &[1000]).0);
        for _ in &others {
            assert!(spill(&store, 1).await.unwrap());
        }
        for shuffle in &others {
            assert!(append(&store, shuffle, 0, &batch(1, 0, 1, 1000)));
            commit(shuffle, 1);
        }
        let flushing = Arc::clone(&store);
        let flushed = tokio::spawn(async move { flushing.flush().await });
        until(|| others.iter().all(|shuffle| shuffle.resident() == 0 && !shuffle.lock().wants_seals())).await;
        assert!(!flushed.is_finished(), "it gave up what is on its way");
        directory.hangs();
        let failed =
            tokio::time::timeout(WITHIN, flushed).await.expect("it knows and does not wait").unwrap();
        assert!(
            failed.is_empty() && !spilled.await.unwrap(),
            "the other disk takes what waited for this one"
        );
        drop(still);
        directory.probe().unwrap();
        let (kept, _) = pushed(&store, "kept", &[1000]);
        assert!(spill(&store, 0).await.unwrap());
        commit(&kept, 1);
        directory.hangs();
        assert_eq!(store.flush().await.len(), 1, "what has failed is not synced");
        directory.probe().unwrap();
        assert!(store.flush().await.is_empty());

        // With no other directory, this one counts as failed once the wait is over, until it is back.
        store.directories()[1].failed(&no_space());
        let still = directory.stand_still().await;
        let late = ["d", "e"].map(|name| pushed(&store, name, &[1000]).0);
        let failed = tokio::time::timeout(WITHIN, store.flush_in_steps(STEP)).await.expect("it ends");
        assert!(late.iter().all(|shuffle| failed.iter().any(|failed| Arc::ptr_eq(failed, shuffle))));
        assert_eq!(directory.health(), Health::Failed);
        drop(still);
        assert!(late.iter().all(|shuffle| shuffle.resident() > 0), "no write had begun");
        directory.probe().unwrap();
        assert!(store.flush().await.is_empty());
    });
}

#[test]
fn a_number_is_not_given_again_before_its_files_are_gone() {
    // With one thread for files, new file work waits for what the test put there.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let place = tempfile::tempdir().unwrap();
        let store = open(&place);
        let (shuffle, _) = pushed(&store, "app", &[1000]);
        assert!(spill(&store, 0).await.unwrap());
        let directory = Arc::clone(&store.directories()[0]);
        let turn = directory.deletions.take_all().await;
        let key = shuffle.key();
        store.delete(store.remove(key).unwrap());
        settle().await;
        assert!(store.find_or_insert(key).is_none() && store.with_shuffle(key, |_| ()).is_none());
        assert!(store.find_or_insert(&ShuffleKey::new("app", 2)).is_some(), "others are not concerned");
        drop(turn);
        until(|| store.find_or_insert(key).is_some()).await;
        assert_eq!(segments_below(place.path()), Vec::<PathBuf>::new());

        // Data on its way to a file becomes one.
        let (shuffle, _) = pushed(&store, "app", &[1000]);
        let (go, goes) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || goes.recv());
        let spilled = spill(&store, 0);
        settle().await;
        store.delete(store.remove(key).unwrap());
        settle().await;
        assert!(shuffle.lock().gone && store.find_or_insert(key).is_none());
        drop(go);
        assert!(busy.await.unwrap().is_err() && spilled.await.unwrap());
        until(|| store.find_or_insert(key).is_some()).await;
        assert_eq!(segments_below(place.path()), Vec::<PathBuf>::new());
    });
}

#[test]
fn a_large_batch_does_not_wait_for_a_disk_that_hangs() {
    with_store(async |_place, store| {
        let first = store.directory_for_large(1).unwrap();
        let still = first.stand_still().await;
        let second = store.directory_for_large(1).unwrap();
        assert!(!Arc::ptr_eq(&first, &second));
        let _still = second.stand_still().await;
        assert!(store.directory_for_large(1).is_some(), "it has to wait for one");
        drop(still);
        assert!(Arc::ptr_eq(&store.directory_for_large(1).unwrap(), &first));
        assert!(store.directory_for_large(u64::MAX).is_none());
        first.hangs();
        assert!(Arc::ptr_eq(&store.directory_for_large(1).unwrap(), &second));
    });
}

#[test]
fn seals_that_could_not_be_written_are_when_a_disk_comes_back() {
    with_store(async |place, store| {
        let shuffle = without_seal(&store).await;
        // One has no space, the other cannot be written to, and nobody knows that yet.
        let [full, broken] = [0, 1].map(|at| Arc::clone(&store.directories()[at]));
        full.failed(&no_space());
        let home = broken.root().join("yeoul-shuffle");
        std::fs::remove_dir_all(&home).unwrap();
        std::fs::write(&home, "").unwrap();
        let spiller = tokio::spawn(Arc::clone(&store).run_spiller());
        store.seal_later(&shuffle);
        until(|| broken.health() == Health::Failed && !store.unsealed().is_empty()).await;
        spiller.abort();
        assert!(spiller.await.is_err());
        assert!(!store.write_waiting_seals(&mut JoinSet::new()), "nothing takes them, and nobody tries");
        assert_eq!(store.flush().await.len(), 1, "a restart would not find it");
        assert!(shuffle.lock().wants_seals());
        let spiller = tokio::spawn(Arc::clone(&store).run_spiller());
        settle().await;
        full.measure().unwrap();
        store.memory().wake_spiller();
        until(|| !shuffle.lock().wants_seals()).await;
        spiller.abort();
        assert!(spiller.await.is_err());
        std::fs::remove_file(&home).unwrap();
        drop((full, broken));
        assert_eq!(restart(&place, store, shuffle).1, 1);
    });
}

#[test]
fn seals_that_no_disk_takes_are_not_looked_through() {
    with_store(async |_place, store| {
        let shuffle = without_seal(&store).await;
        store.seal_later(&shuffle);
        store.directories().iter().for_each(|directory| directory.hangs());
        let (told, answer) = std::sync::mpsc::channel();
        let asked = Arc::clone(&store);
        let held = shuffle.lock();
        let asking =
            std::thread::spawn(move || told.send(asked.write_waiting_seals(&mut JoinSet::new())).unwrap());
        let answer = answer.recv_timeout(WITHIN);
        drop(held);
        asking.join().unwrap();
        assert_eq!(answer, Ok(false), "it looked at a shuffle");
    });
}

#[test]
fn seals_do_not_wait_for_a_disk_that_hangs() {
    with_store(async |place, store| {
        let shuffle = without_seal(&store).await;
        let [first, second] = [0, 1].map(|at| Arc::clone(&store.directories()[at]));
        second.failed(&no_space());
        let still = first.stand_still().await;
        let written = tokio::time::timeout(WITHIN, store.write_seals(&shuffle, SOON)).await;
        assert_eq!((written, first.health()), (Ok(false), Health::Failed));
        second.measure().unwrap();
        assert!(store.write_seals(&shuffle, STEP_MAX).await, "the other one takes them");
        drop(still);
        settle().await; // the late attempt finds nothing to do
        drop((first, second));
        assert_eq!(restart(&place, store, shuffle).1, 1);
    });
}

#[test]
fn seals_go_elsewhere_as_soon_as_their_disk_has_failed() {
    with_store(async |place, store| {
        let shuffle = without_seal(&store).await;
        let [first, second] = [0, 1].map(|at| Arc::clone(&store.directories()[at]));
        second.hangs();
        let still = first.stand_still().await;
        let (sealing, unsealed) = (Arc::clone(&store), Arc::clone(&shuffle));
        let sealed = tokio::spawn(async move { sealing.write_seals(&unsealed, STEP_MAX).await });
        settle().await;
        second.probe().unwrap();
        first.hangs();
        assert!(tokio::time::timeout(WITHIN, sealed).await.expect("it does not wait for the first").unwrap());
        drop(still);
        settle().await; // the late attempt finds nothing to do
        drop((first, second));
        assert_eq!(restart(&place, store, shuffle).1, 1);
    });
}

#[test]
fn seals_wait_in_line_on_a_disk_that_is_busy() {
    with_store(async |_place, store| {
        let shuffle = without_seal(&store).await;
        let busy = Arc::clone(&store.directories()[0]);
        store.directories()[1].hangs();
        let line = busy.stand_still().await;
        let (sealing, unsealed) = (Arc::clone(&store), Arc::clone(&shuffle));
        let sealed =
            tokio::spawn(async move { sealing.write_seals(&unsealed, Duration::from_millis(500)).await });
        for _ in 0..30 {
            busy.count_written(1);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        drop(line);
        assert!(sealed.await.unwrap());
        assert_eq!(busy.health(), Health::Healthy);
    });
}

#[test]
fn seals_go_into_the_reserve_and_batches_do_not() {
    with_store(async |place, store| {
        let shuffle = without_seal(&store).await;
        for directory in store.directories() {
            directory.limit(0);
            directory.measure().unwrap();
        }
        let (other, _) = pushed(&store, "other", &[1000]);
        let failed = store.flush().await;
        assert_eq!(failed.iter().map(|shuffle| shuffle.key()).collect::<Vec<_>>(), [other.key()]);
        drop((failed, other));
        assert_eq!(restart(&place, store, shuffle).1, 1);
    });
}

#[test]
fn a_flush_uses_what_is_left_of_a_disk_that_is_nearly_full() {
    with_store(async |place, store| {
        let [nearly_full, failed] = [0, 1].map(|at| Arc::clone(&store.directories()[at]));
        failed.hangs();
        nearly_full.limit(5000);
        let _ = nearly_full.lacks_room(); // for a job of the spiller
        let [fits, does_not] = [("fits", 1000), ("does not", 9000)].map(|(name, len)| {
            let (shuffle, _) = pushed(&store, name, &[len]);
            commit(&shuffle, 1);
            shuffle
        });
        let left = tokio::time::timeout(WITHIN, store.flush()).await.expect("it ends");
        assert_eq!(left.iter().map(|shuffle| shuffle.key()).collect::<Vec<_>>(), [does_not.key()]);
        assert_eq!(nearly_full.health(), Health::Full);
        drop((nearly_full, failed, left, does_not));
        assert_eq!(restart(&place, store, fits).1, 1);
    });
}

#[test]
fn a_job_that_does_not_fit_leaves_no_file() {
    runtime().block_on(async {
        let place = tempfile::tempdir().unwrap();
        let options = DirectoryOptions { reserve_bytes: Some(u64::MAX), ..quick() };
        let store = Arc::new(Store::open(&[place.path().into()], 1 << 20, &options).unwrap());
        let (shuffle, _) = pushed(&store, "app", &[1000]);
        assert!(!spill(&store, 0).await.unwrap());
        assert_eq!((shuffle.resident(), store.directories()[0].health()), (1000, Health::Full));
        assert_eq!(segments_below(place.path()), Vec::<PathBuf>::new());
    });
}

#[test]
fn a_capacity_is_kept_and_comes_back_with_what_is_deleted() {
    with_store(async |place, store| {
        const CAPACITY: u64 = 1500;
        let limited = |store: &Store| {
            store.directories()[0].limit(CAPACITY);
            Arc::clone(&store.directories()[0])
        };
        let is_left = |usable: u64| (400..500).contains(&usable); // the run has a head
        let directory = limited(&store);
        let (shuffle, _) = pushed(&store, "app", &[1000]);
        assert!(spill(&store, 0).await.unwrap());
        assert!(is_left(directory.usable()), "{}", directory.usable());
        let (other, _) = pushed(&store, "other", &[1000]);
        assert!(!spill(&store, 0).await.unwrap());
        assert_eq!((other.resident(), directory.health()), (1000, Health::Full));

        // What a restart finds counts, too.
        commit(&shuffle, 1);
        assert!(store.write_seals(&shuffle, STEP_MAX).await);
        drop((directory, other));
        let (store, locations) = restart(&place, store, shuffle);
        let directory = limited(&store);
        assert_eq!(locations, 1);
        assert!((1..500).contains(&directory.usable()), "{}", directory.usable());
        directory.limit(100);
        directory.measure().unwrap();
        assert_eq!((directory.usable(), directory.health()), (0, Health::Full));

        directory.limit(CAPACITY);
        store.delete(store.remove(&ShuffleKey::new("app", 1)).unwrap());
        until(|| (directory.usable(), directory.health()) == (CAPACITY, Health::Healthy)).await;

        // A single-batch file counts as it grows, finished or not.
        let large = Segment::create_for_one(&directory, &ShuffleKey::new("large", 1), 0).unwrap();
        for at in [0, 100] {
            large.write_part(Segment::LARGE_BATCH_AT + at, &[7; 100]).unwrap();
        }
        assert_eq!(directory.usable(), CAPACITY - Segment::LARGE_BATCH_AT - 200);
        large.delete().unwrap();
        drop(large);
        assert_eq!(directory.usable(), CAPACITY);
    });
}

#[test]
fn a_shuffle_that_goes_under_a_job_costs_no_directory() {
    with_store(async |place, store| {
        let (shuffle, _) = pushed(&store, "app", &[1000]);
        assert!(spill(&store, 0).await.unwrap());
        assert!(append(&store, &shuffle, 0, &batch(1, 0, 1, 1000)));
        let directory = Arc::clone(&store.directories()[0]);
        let still = directory.stand_still().await;
        let spilled = spill(&store, 0);
        settle().await;
        store.seal_later(&shuffle);
        store.delete(store.remove(shuffle.key()).unwrap());
        assert!(store.unsealed().is_empty(), "nobody waits for it");
        until(|| segments_below(place.path()).is_empty()).await;
        drop(still);
        assert!(spilled.await.unwrap());
        assert_eq!(directory.health(), Health::Healthy);
        assert_eq!(segments_below(place.path()), Vec::<PathBuf>::new());
    });
}

#[test]
fn a_directory_has_one_job_at_a_time() {
    with_store(async |_place, store| {
        let (shuffle, _) = pushed(&store, "app", &[9 << 20; 6]);
        let _short = store.memory().charge(store.memory().limit());
        let mut jobs = JoinSet::new();
        let started = [0; 3].map(|_| store.start_job(&mut jobs));
        assert_eq!(started, [true, true, false], "one for each");
        let spilling = shuffle.lock().copies.values().filter(|copy| copy.is_spilling()).count();
        assert_eq!(spilling, 4, "what nobody writes yet can go anywhere");
        while jobs.join_next().await.is_some() {}
        assert_eq!(shuffle.resident(), 18 << 20);
    });
}

#[test]
fn what_is_deleted_waits_for_its_own_disk_only() {
    with_store(async |_place, store| {
        let (shuffle, _) = pushed(&store, "app", &[1000]);
        for (map, directory) in [(1, 0), (2, 1)] {
            assert!(append(&store, &shuffle, 0, &batch(map, 0, 1, 1000)));
            assert!(spill(&store, directory).await.unwrap());
        }
        let below = |at: usize| segments_below(store.directories()[at].root()).len();
        assert_eq!((below(0), below(1)), (1, 1));
        let turn = store.directories()[0].deletions.take_all().await;
        store.delete(store.remove(shuffle.key()).unwrap());
        until(|| below(1) == 0).await;
        settle().await;
        assert_eq!(below(0), 1);
        drop(turn);
        until(|| below(0) == 0).await;
    });
}

/// All turns to read from a directory.
async fn read_turns(directory: &Directory) -> Turn {
    directory.reads.take_all().await
}

#[test]
fn a_waiting_reader_holds_neither_memory_nor_a_turn() {
    // With one thread for files, earlier work has ended when later work has.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let place = tempfile::tempdir().unwrap();
        let store = open(&place);
        let (shuffle, batches) = pushed(&store, "app", &[600_000]);
        commit(&shuffle, 1);
        assert!(spill(&store, 0).await.unwrap());
        let directory = Arc::clone(&store.directories()[0]);
        let stream = Arc::new(store.open_stream(&shuffle, file(0), MapRange::Whole, 1 << 20).unwrap());
        let mut reader = ChunkReader::new(&stream, &store, 0, 0, u64::MAX).unwrap();
        let (go, mut wanted) = tokio::sync::mpsc::channel(1);
        let (pieces, mut read) = tokio::sync::mpsc::channel(1);
        let reading = tokio::spawn(async move {
            while wanted.recv().await.is_some() {
                let piece = reader.next().await.unwrap().expect("there is more").concat();
                pieces.send(piece).await.unwrap();
            }
            assert_eq!(reader.left(), 0);
        });
        let idle = async || {
            for _ in 0..10 {
                tokio::task::spawn_blocking(|| ()).await.unwrap();
                settle().await;
            }
        };
        // A batch that was found damaged is compared as a whole before it is read again.
        let path = segments_below(directory.root()).pop().unwrap();
        let whole = std::fs::read(&path).unwrap();
        let mut rotten = whole.clone();
        *rotten.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &rotten).unwrap();
        let mut finder = ChunkReader::new(&stream, &store, 0, 0, u64::MAX).unwrap();
        let found = async {
            loop {
                if let Err(error) = finder.next().await {
                    return error.kind();
                }
            }
        };
        assert_eq!(found.await, Kind::Corrupt);
        let mut later = ChunkReader::new(&stream, &store, 0, 0, u64::MAX).unwrap();
        let turns = read_turns(&directory).await;
        let told = tokio::spawn(async move { later.next().await.unwrap_err().kind() });
        idle().await;
        assert!(!told.is_finished(), "it was compared without a turn");
        drop(turns);
        assert_eq!(told.await.unwrap(), Kind::Corrupt);
        std::fs::write(&path, &whole).unwrap();

        // An undamaged batch is read in three pieces.
        let all = directory.reads.free();
        let mut found = Vec::new();
        for piece in 0..3 {
            let turns = read_turns(&directory).await;
            go.send(()).await.unwrap();
            idle().await;
            assert!(read.try_recv().is_err(), "piece {piece} came without a turn");
            assert_eq!(store.read_memory().used(), 0, "piece {piece} waits with a buffer");
            // The turn is free, but there is no memory: others may have the turn.
            let memory = store.read_memory().charge(store.read_memory().limit());
            drop(turns);
            idle().await;
            assert!(read.try_recv().is_err());
            assert_eq!(directory.reads.free(), all, "piece {piece} waits with a turn");
            drop(memory);
            found.extend(read.recv().await.unwrap());
        }
        assert!(found == batches[0]);
        drop(go);
        reading.await.unwrap();
    });
}

#[test]
fn a_piece_comes_from_one_directory() {
    with_store(async |_place, store| {
        let (shuffle, mut batches) = pushed(&store, "app", &[1000]);
        for (map, directory) in [(1, 0), (2, 1), (3, 0)] {
            batches.push(batch(map, 0, 1, 1000));
            assert!(append(&store, &shuffle, 0, batches.last().unwrap()));
            assert!(spill(&store, directory).await.unwrap());
        }
        batches.push(batch(4, 0, 1, 1000)); // stays in memory
        assert!(append(&store, &shuffle, 0, batches.last().unwrap()));
        commit(&shuffle, 1);
        let stream = Arc::new(store.open_stream(&shuffle, file(0), MapRange::Whole, 1 << 20).unwrap());
        let mut reader = ChunkReader::new(&stream, &store, 0, 0, u64::MAX).unwrap();
        let mut pieces = Vec::new();
        while let Some(parts) = reader.next().await.unwrap() {
            pieces.push(parts.concat());
        }
        let expected = [&batches[..2], &batches[2..3], &batches[3..]].map(|part| part.concat());
        assert_eq!(pieces, expected);
    });
}
