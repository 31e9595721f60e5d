//! Goal: too many open files make no directory fail, and stop only what needs a new file. Method: directories that refuse as
//! many files as the test asks for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use yeoul_disk::{Fault, FaultyDisk, Injection, Operation};

use super::super::Store;
use super::super::directory::{Directory, DirectoryOptions, Health, STEP_MAX};
use super::super::shuffle::Shuffle;
use super::{
    WITHIN, append, batch, commit, pushed, quick, read_all, reserve, restart, runtime, segments_below, spill,
    until, with_faulty_store,
};
use crate::ids::ShuffleKey;
use crate::worker::index::MapRange;

/// There is no descriptor for a file in a directory.
fn no_file(directory: &Directory) -> Fault {
    Fault::fails(Operation::Open, Errno::MFILE).within(directory.home().to_string_lossy())
}

#[test]
fn a_directory_is_not_left_out_because_too_many_files_are_open() {
    with_faulty_store(async |place, disk, store| {
        let (shuffle, batches) = pushed(&store, "app", &[1000]);
        let directory = Arc::clone(&store.directories()[0]);
        // Some are closed in time.
        let too_many = disk.inject(no_file(&directory).times(2));
        assert!(spill(&store, 0).await.unwrap());
        assert_eq!(too_many.happened(), 2);
        let (other, _) = pushed(&store, "other", &[1000]);
        assert!(spill(&store, 0).await.unwrap());
        commit(&other, 1);
        assert!(append(&store, &shuffle, 0, &batch(7, 0, 1, 1000)));
        for shuffle in [&shuffle, &other] {
            let mut contents = shuffle.lock();
            contents.segments.clear(); // what is written now needs a file
            contents.is_durable = true;
        }
        // None are closed, and what could not be written stays.
        store.directories()[1].hangs();
        let too_many = disk.inject(no_file(&directory));
        assert!(!spill(&store, 0).await.unwrap());
        assert!(directory.lacks_files() && !directory.takes_files(), "the next job would meet it at once");
        assert!((1..=100).contains(&too_many.happened()), "{} attempts", too_many.happened());
        assert_eq!(shuffle.resident(), 1000);
        assert!(!store.write_seals(&other, STEP_MAX).await);
        assert!(store.unsealed().iter().any(|waiting| Arc::ptr_eq(waiting, &other)));
        assert!(directory.probe().is_err());
        // The end of the worker does not wait for ever either.
        assert_eq!(store.flush_in_steps(Duration::from_secs(3)).await.len(), 2);
        assert_eq!(directory.health(), Health::Healthy);
        assert!((1..=200).contains(&too_many.happened()), "{} attempts", too_many.happened());
        drop(too_many);
        commit(&shuffle, 1);
        assert!(store.flush().await.is_empty());
        assert!(!directory.lacks_files());
        drop(directory);
        drop(shuffle);
        let (store, locations) = restart(&place, store, other);
        assert_eq!(locations, 2);
        let shuffle = store.find(&ShuffleKey::new("app", 1)).unwrap();
        let expected = [batches[0].clone(), batch(7, 0, 1, 1000)];
        assert_eq!(read_all(&store, &shuffle, 0, MapRange::Whole).await.unwrap(), expected);
    });
}

/// The directory to which a shuffle without files would be spilled, and the other one.
fn preferred(store: &Store) -> (usize, usize) {
    let shuffle = store.find_or_insert(&ShuffleKey::new("no files", 1)).unwrap();
    let directory = store.directory_for(&shuffle, Directory::takes_seals).unwrap();
    let at = usize::from(!Arc::ptr_eq(&directory, &store.directories()[0]));
    drop(store.remove(shuffle.key()));
    (at, 1 - at)
}

#[test]
fn what_has_a_file_needs_no_other() {
    with_faulty_store(async |place, disk, store| {
        let (would_take, has_file) = preferred(&store);
        let (shuffle, batches) = pushed(&store, "app", &[1000]);
        assert!(spill(&store, has_file).await.unwrap());
        assert!(append(&store, &shuffle, 0, &batch(7, 0, 1, 1000)));
        commit(&shuffle, 1);
        let too_many = disk.inject(no_file(&store.directories()[would_take]));
        assert!(store.flush().await.is_empty());
        assert_eq!((too_many.happened(), segments_below(place.path()).len()), (0, 1));
        let (store, locations) = restart(&place, store, shuffle);
        assert_eq!(locations, 1);
        let shuffle = store.find(&ShuffleKey::new("app", 1)).unwrap();
        let expected = [batches[0].clone(), batch(7, 0, 1, 1000)];
        assert_eq!(read_all(&store, &shuffle, 0, MapRange::Whole).await.unwrap(), expected);
    });
}

#[test]
fn without_files_to_open_those_that_are_open_are_written() {
    runtime().block_on(async {
        let place = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::new();
        let options = DirectoryOptions { disk: disk.clone(), ..quick() };
        let store = Arc::new(Store::open(&[place.path().into()], 1 << 20, &options).unwrap());
        let directory = Arc::clone(&store.directories()[0]);
        let unsealed: Vec<_> = (0..20)
            .map(|number| {
                let shuffle = store.find_or_insert(&ShuffleKey::new("unsealed", number)).unwrap();
                reserve(&shuffle, 0..1);
                commit(&shuffle, 1);
                shuffle.lock().is_durable = true;
                shuffle
            })
            .collect();
        let (open, _) = pushed(&store, "open", &[1000]);
        assert!(spill(&store, 0).await.unwrap());
        assert!(append(&store, &open, 0, &batch(7, 0, 1, 1000)));
        let (large, _) = pushed(&store, "large", &[300_000]);
        let too_many = disk.inject(no_file(&directory));
        let _short = store.memory().charge(store.memory().limit());
        assert!(!store.pressure(false, store.memory().level(), None).exhausted);
        let spiller = tokio::spawn(Arc::clone(&store).run_spiller());
        until(|| directory.lacks_files()).await;
        unsealed.iter().for_each(|shuffle| store.seal_later(shuffle));
        until(|| open.resident() == 0).await;
        assert_eq!(large.resident(), 300_000);
        assert!(store.pressure(false, store.memory().level(), None).exhausted, "pushes do not wait in vain");
        // Opening is tried again now and then.
        let tried = too_many.happened();
        until(|| too_many.happened() > tried).await;
        assert!(too_many.happened() - tried < 5);
        drop(too_many);
        until(|| large.resident() == 0 && unsealed.iter().all(|shuffle| !shuffle.lock().wants_seals())).await;
        assert!(!store.pressure(false, store.memory().level(), None).exhausted);
        assert_eq!(directory.health(), Health::Healthy);
        spiller.abort();
    });
}

#[test]
fn that_files_can_be_opened_again_is_found_out_though_none_is_needed() {
    runtime().block_on(async {
        let place = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::new();
        let options = DirectoryOptions { disk: disk.clone(), ..quick() };
        let store = Arc::new(Store::open(&[place.path().into()], 1 << 20, &options).unwrap());
        let directory = Arc::clone(&store.directories()[0]);
        let (open, _) = pushed(&store, "open", &[1000]);
        assert!(spill(&store, 0).await.unwrap());
        assert!(append(&store, &open, 0, &batch(7, 0, 1, 1000)));
        let too_many = disk.inject(no_file(&directory));
        assert!(directory.probe().is_err());
        let _short = store.memory().charge(store.memory().limit());
        let is_exhausted = || store.pressure(false, store.memory().level(), None).exhausted;
        let spiller = tokio::spawn(Arc::clone(&store).run_spiller());
        until(|| open.resident() == 0 && too_many.happened() > 1).await;
        assert!(is_exhausted() && directory.lacks_files());
        drop(too_many);
        until(|| !is_exhausted()).await;
        assert_eq!(directory.health(), Health::Healthy);
        spiller.abort();
    });
}

/// Committed shuffles with a batch in memory, the given numbers with and without a file; no more files can be opened.
async fn without_files(
    (disk, store): (&FaultyDisk, &Arc<Store>),
    with: usize,
    without: usize,
) -> ([Vec<Arc<Shuffle>>; 2], Injection) {
    let named = |name: &str, count| {
        (0..count).map(|number| pushed(store, &format!("{name} {number}"), &[1000]).0).collect::<Vec<_>>()
    };
    let with = named("with", with);
    while let Some(job) = store.plan(&store.directories()[0], u64::MAX) {
        assert!(store.spill(job, Arc::clone(&store.directories()[0])).await);
    }
    with.iter().for_each(|shuffle| assert!(append(store, shuffle, 0, &batch(7, 0, 1, 1000))));
    let shuffles = [with, named("without", without)];
    shuffles.iter().flatten().for_each(|shuffle| commit(shuffle, 1));
    (shuffles, disk.inject(Fault::fails(Operation::Open, Errno::MFILE)))
}

#[test]
fn a_stop_without_files_to_open_waits_for_them_once() {
    with_faulty_store(async |_place, disk, store| {
        let ([with, _without], _too_many) = without_files((&disk, &store), 10, 10).await;
        // Long beside what an fsync takes: they would be waited for ten times.
        let step = Duration::from_secs(5);
        let began = Instant::now();
        assert_eq!(store.flush_in_steps(step).await.len(), 10);
        let took = began.elapsed();
        assert!((step..5 * step).contains(&took), "{took:?}");
        assert!(with.iter().all(|shuffle| shuffle.resident() == 0 && !shuffle.lock().wants_seals()));
    });
}

#[test]
fn a_stop_writes_what_needs_no_other_file_before_it_waits_for_one() {
    with_faulty_store(async |_place, disk, store| {
        let ([with, without], _too_many) = without_files((&disk, &store), 10, 10).await;
        let flushing = Arc::clone(&store);
        let flushed = tokio::spawn(async move { flushing.flush().await.len() });
        until(|| with.iter().all(|shuffle| shuffle.resident() == 0 && !shuffle.lock().wants_seals())).await;
        assert!(!flushed.is_finished() && without.iter().all(|shuffle| shuffle.resident() == 1000));
        flushed.abort();
    });
}

#[test]
fn a_stop_does_not_wait_for_files_in_a_directory_that_is_full() {
    with_faulty_store(async |_place, disk, store| {
        let ([_, without], _too_many) = without_files((&disk, &store), 0, 1).await;
        for directory in store.directories() {
            assert!(directory.probe().is_err());
            directory.limit(0);
            directory.measure().unwrap();
            assert!(directory.lacks_files() && directory.takes_seals());
        }
        let failed = tokio::time::timeout(WITHIN, store.flush()).await.expect("it knows and does not wait");
        assert_eq!((failed.len(), without[0].resident()), (1, 1000));
    });
}
