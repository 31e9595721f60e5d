//! Goal: a restart finds what was committed and on disk, takes nothing else for it, and deletes nothing that another restart
//! would find. Method: a store ends, and the next one opens the same directories, in which the test has removed, damaged or
//! aged something.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use rustix::io::Errno;
use yeoul_disk::{Fault, Operation};

use super::super::directory::{Health, STEP_MAX};
use super::super::record::{RunRow, Seal};
use super::super::segment::{self, Batches, RunToWrite, Segment};
use super::super::shuffle::Shuffle;
use super::super::target::Target;
use super::super::{NEW_FOR, NEWER_BY, Store};
use super::{
    CALM, append, batch, commit, file, open, open_faulty, pushed, read_all, reserve, restart, runtime,
    segments_below, spill, until, with_store,
};
use crate::error::Kind;
use crate::ids::{AttemptId, DriverId, FileName, LocationId, MapId, Mode, ShuffleKey};
use crate::wire::batch::{BatchHeader, ByteOrder};
use crate::worker::index::MapRange;
use crate::worker::state::{Commit, PushKind, Reservation, ReserveRefusal, SplitPolicy};

#[test]
fn locations_to_which_nobody_pushed_come_back_empty() {
    with_store(async |place, store| {
        let (partly, batches) = pushed(&store, "partly", &[1000]);
        reserve(&partly, 1..3);
        let empty = store.find_or_insert(&ShuffleKey::new("empty", 1)).unwrap();
        reserve(&empty, 0..2);
        [&partly, &empty].into_iter().for_each(|shuffle| commit(shuffle, 2));
        // A shuffle that lives only in memory needs no file.
        assert!(store.write_seals(&partly, STEP_MAX).await && store.write_seals(&empty, STEP_MAX).await);
        assert!(segments_below(place.path()).is_empty());

        assert!(store.flush().await.is_empty());
        let written = segments_below(place.path());
        assert!(store.flush().await.is_empty());
        assert_eq!((written.len(), segments_below(place.path())), (2, written), "they are sealed once");
        drop(partly);
        let (store, locations) = restart(&place, store, empty);
        assert_eq!(locations, 4);
        for (name, expected) in [("partly", &batches[..]), ("empty", &[])] {
            let shuffle = store.find(&ShuffleKey::new(name, 1)).unwrap();
            let whole = MapRange::Whole;
            assert_eq!(read_all(&store, &shuffle, 0, whole).await.unwrap(), expected, "{name}");
            assert!(read_all(&store, &shuffle, 1, whole).await.unwrap().is_empty(), "{name}");
            let open = read_all(&store, &shuffle, 2, whole).await.unwrap_err();
            assert_eq!(open.kind(), Kind::NotFound, "{name}: it was never committed");
        }
    });
}

#[test]
fn a_file_that_cannot_be_read_costs_nothing_that_another_restart_would_find() {
    with_store(async |place, store| {
        let (shuffle, batches) = pushed(&store, "app", &[1000]);
        assert!(spill(&store, 0).await.unwrap());
        commit(&shuffle, 1);
        store.directories()[0].hangs();
        assert!(store.write_seals(&shuffle, STEP_MAX).await);
        let [run, seal] = [0, 1].map(|at| shuffle.lock().segments[at].path().to_owned());
        let before = std::fs::read(&run).unwrap();
        // A folder can be opened like a file, but every read of it fails.
        let aside = seal.with_extension("aside");
        std::fs::rename(&seal, &aside).unwrap();
        std::fs::create_dir(&seal).unwrap();
        drop((store, shuffle));
        let store = open(&place);
        let recovered = store.recover();
        assert_eq!((recovered.locations, recovered.unreadable_files, recovered.damaged_files), (0, 1, 0));
        assert_eq!(std::fs::read(&run).unwrap(), before);
        // New files are numbered after those that were not seen.
        assert!(store.with_shuffle(&ShuffleKey::new("app", 1), |_| ()).is_none());
        let other = store.find_or_insert(&ShuffleKey::new("other", 1)).unwrap();
        assert!(other.lock().next_segment_number() > 1 << 24);
        drop((store, other));
        std::fs::remove_dir(&seal).unwrap();
        std::fs::rename(&aside, &seal).unwrap();
        let store = open(&place);
        assert_eq!(store.recover().locations, 1);
        let shuffle = store.find(&ShuffleKey::new("app", 1)).unwrap();
        assert_eq!(read_all(&store, &shuffle, 0, MapRange::Whole).await.unwrap(), batches);
    });
}

#[test]
fn a_disk_that_is_away_at_the_start_takes_nothing_of_the_others_with_it() {
    with_store(async |place, store| {
        for (name, seal_on) in [("whole", 0), ("parted", 1)] {
            let (shuffle, _) = pushed(&store, name, &[1000]);
            assert!(spill(&store, 0).await.unwrap());
            commit(&shuffle, 1);
            let other = &store.directories()[1 - seal_on];
            other.hangs();
            assert!(store.write_seals(&shuffle, STEP_MAX).await);
            other.probe().unwrap();
        }
        let [near, away] = [0, 1].map(|at| store.directories()[at].root().to_owned());
        let before = segments_below(&near).len();
        drop(store);
        let aside = away.with_extension("aside");
        std::fs::rename(&away, &aside).unwrap();
        std::fs::write(&away, "").unwrap();
        let store = open(&place);
        assert_eq!((store.directories().len(), store.recover().locations), (1, 1));
        assert_eq!(segments_below(&near).len(), before, "the other half may come back");
        drop(store);
        std::fs::remove_file(&away).unwrap();
        // Not mounted: an empty folder in its place, for two starts.
        std::fs::create_dir(&away).unwrap();
        let lock = std::fs::File::options().write(true).open(near.join("yeoul-shuffle/lock")).unwrap();
        lock.set_modified(SystemTime::now() - 2 * NEWER_BY).unwrap();
        for _ in 0..2 {
            let store = open(&place);
            assert_eq!((store.directories().len(), store.recover().locations), (2, 1));
            assert_eq!(segments_below(&near).len(), before, "the other half may come back");
        }
        std::fs::remove_dir_all(&away).unwrap();
        std::fs::rename(&aside, &away).unwrap();
        assert_eq!(open(&place).recover().locations, 2);
        // A disk that is not new any more is really meant to be used: incomplete data is deleted.
        std::fs::remove_dir_all(&away).unwrap();
        drop(open(&place));
        for (root, age) in [(&near, 2 * NEW_FOR), (&away, NEW_FOR)] {
            let lock = std::fs::File::options().write(true).open(root.join("yeoul-shuffle/lock")).unwrap();
            lock.set_modified(SystemTime::now() - age).unwrap();
        }
        assert_eq!(open(&place).recover().locations, 1);
        assert!(segments_below(&near).len() < before);
    });
}

#[test]
fn the_winners_are_known_without_the_other_disk() {
    with_store(async |place, store| {
        let (shuffle, batches) = pushed(&store, "app", &[5000, 1000]);
        assert!(append(&store, &shuffle, 1, &batch(1, 1, 1, 800)));
        let near = Arc::clone(&store.directories()[0]);
        let first = store.plan(&near, 1).expect("the larger location");
        assert!(store.spill(first, near).await);
        let primaries = (0..2).map(|id| file(id).location).collect();
        let attempts = vec![AttemptId(0); 2];
        shuffle.lock().state.commit(&Commit { primaries, attempts, ..Commit::default() });
        // The winners and the first location's seal go to one disk, the second location to the other.
        store.directories()[1].hangs();
        assert!(store.write_seals(&shuffle, STEP_MAX).await);
        store.directories()[1].probe().unwrap();
        assert!(spill(&store, 1).await.unwrap());
        store.directories()[0].hangs();
        assert!(store.write_seals(&shuffle, STEP_MAX).await);
        let away = store.directories()[0].root().to_owned();
        drop((store, shuffle));
        std::fs::remove_dir_all(&away).unwrap();
        std::fs::write(&away, "").unwrap();
        let store = open(&place);
        assert_eq!(store.recover().locations, 1);
        let shuffle = store.find(&ShuffleKey::new("app", 1)).unwrap();
        assert_eq!(read_all(&store, &shuffle, 1, MapRange::Whole).await.unwrap(), [batches[1].clone()]);
    });
}

#[test]
fn a_shuffle_that_comes_back_has_files_of_its_own() {
    with_store(async |place, store| {
        let key = ShuffleKey::new("app", 1);
        let (shuffle, _) = pushed(&store, "app", &[1000]);
        assert!(spill(&store, 0).await.unwrap());
        let earlier = store.remove(&key).unwrap().files;
        drop(shuffle);
        // The disk does not delete them.
        let (shuffle, batches) = pushed(&store, "app", &[2000]);
        assert!(spill(&store, 0).await.unwrap());
        assert_eq!(store.directories()[0].health(), Health::Healthy);
        earlier.into_iter().for_each(|segment| segment.delete().unwrap());
        commit(&shuffle, 1);
        assert!(store.flush().await.is_empty());
        let (store, locations) = restart(&place, store, shuffle);
        assert_eq!(locations, 1);
        // Files of a shuffle that was restored by a restart are not deleted either.
        let earlier = store.remove(&key).unwrap().files;
        let (shuffle, later) = pushed(&store, "app", &[3000]);
        assert!(spill(&store, 0).await.unwrap());
        earlier.iter().for_each(|segment| segment.delete().unwrap());
        commit(&shuffle, 1);
        assert!(batches != later);
        assert_eq!(read_all(&store, &shuffle, 0, MapRange::Whole).await.unwrap(), later);
        assert_eq!(segments_below(place.path()).len(), 1);
    });
}

#[test]
fn a_number_that_a_file_has_is_passed_over() {
    with_store(async |place, store| {
        let (shuffle, batches) = pushed(&store, "app", &[1000]);
        let number = shuffle.lock().next_segment_number();
        let folder = segment::folder(&store.directories()[0], shuffle.key());
        std::fs::create_dir_all(&folder).unwrap();
        for number in [number + 1, number + 2] {
            std::fs::write(folder.join(format!("{number:08}.segment")), "").unwrap();
        }
        assert!(spill(&store, 0).await.unwrap());
        assert_eq!(store.directories()[0].health(), Health::Healthy);
        assert_eq!(segments_below(place.path()).len(), 3);
        commit(&shuffle, 1);
        assert_eq!(read_all(&store, &shuffle, 0, MapRange::Whole).await.unwrap(), batches);
    });
}

fn commit_won_by(shuffle: &Shuffle, partitions: i32, attempts: &[i32]) {
    let primaries = (0..partitions).map(|id| file(id).location).collect();
    let attempts = attempts.iter().copied().map(AttemptId).collect();
    shuffle.lock().state.commit(&Commit { primaries, attempts, ..Commit::default() });
}

#[test]
fn what_an_earlier_shuffle_of_that_number_left_is_nothing_to_the_next_one() {
    with_store(async |place, store| {
        let (shuffle, _) = pushed(&store, "app", &[1000, 1000]);
        let key = shuffle.key().clone();
        commit_won_by(&shuffle, 2, &[1, 1]);
        assert!(store.flush().await.is_empty());
        drop(store.remove(&key)); // the worker is killed before it has deleted them
        let (shuffle, batches) = pushed(&store, "app", &[2000]);
        commit_won_by(&shuffle, 1, &[0]);
        assert!(store.flush().await.is_empty());
        assert_eq!(segments_below(place.path()).len(), 2);
        let (mut store, mut shuffle) = (store, shuffle);
        for later in [&[0, 7][..], &[0, 7, 7]] {
            let locations;
            (store, locations) = restart(&place, store, shuffle);
            assert_eq!(locations, 1);
            shuffle = store.find(&key).unwrap();
            assert_eq!(read_all(&store, &shuffle, 0, MapRange::Whole).await.unwrap(), batches);
            // Its next winners are written under its own birth, too.
            commit_won_by(&shuffle, 1, later);
            assert!(shuffle.lock().wants_seals());
            assert!(store.flush().await.is_empty());
        }
    });
}

/// A folder with this in its path cannot be listed.
fn cannot_list(folder: &str) -> Fault {
    Fault::fails(Operation::List, Errno::IO).within(folder)
}

#[test]
fn a_folder_that_cannot_be_listed_costs_what_is_in_it() {
    with_store(async |place, store| {
        let names = ["lost", "app", "away"];
        let shuffles = names.map(|name| pushed(&store, name, &[1000]));
        shuffles.iter().for_each(|(shuffle, _)| commit(shuffle, 1));
        assert!(store.flush().await.is_empty());
        let all = segments_below(place.path());
        let batches = shuffles.map(|(_, batches)| batches);
        drop(store);
        let (disk, store) = open_faulty(&place);
        // The folder of an application, and the one of a shuffle.
        let unlisted = ["lost", "away/1"].map(|folder| disk.inject(cannot_list(folder)));
        let found = store.recover();
        assert_eq!((unlisted.map(|fault| fault.happened()), found.locations), ([1, 1], 1));
        assert!(store.directories().iter().all(|directory| directory.health() == Health::Healthy));
        let shuffle = store.find(&ShuffleKey::new("app", 1)).unwrap();
        assert_eq!(read_all(&store, &shuffle, 0, MapRange::Whole).await.unwrap(), batches[1]);
        // It is known that this shuffle has files. A new one would be taken for another shuffle.
        let away = ShuffleKey::new("away", 1);
        assert!(store.find(&away).is_some(), "the master is to hear of it");
        assert!(store.with_shuffle(&away, |_| ()).is_none());
        let unread = read_all(&store, &store.find(&away).unwrap(), 0, MapRange::Whole).await.unwrap_err();
        assert_eq!(unread.kind(), Kind::Unavailable, "it may be found yet");
        let may_be_there = ["lost", "other"].map(|name| store.may_have_unseen(&ShuffleKey::new(name, 1)));
        assert_eq!(may_be_there, [true, false]);
        // It is not known that this one has. New files have later numbers than those that were not seen.
        let (later, _) = pushed(&store, "lost", &[1000]);
        for directory in [0, 1] {
            assert!(append(&store, &later, 0, &batch(7, 0, directory as i32, 1000)));
            assert!(spill(&store, directory).await.unwrap());
        }
        let (mut left, mut new): (Vec<_>, _) =
            segments_below(place.path()).into_iter().partition(|path| all.contains(path));
        assert_eq!(left.len(), all.len(), "nothing is deleted");
        let names = |paths: &mut Vec<PathBuf>| {
            let mut names: Vec<_> =
                paths.drain(..).map(|path| path.file_name().unwrap().to_owned()).collect();
            names.sort_unstable();
            names
        };
        assert!(names(&mut new).first() > names(&mut left).last());
        drop((shuffle, later));
        // Only winners of the later shuffle are complete: the earlier one's location is neither served for it nor deleted.
        let shuffle = store.find(&ShuffleKey::new("lost", 1)).unwrap();
        commit_won_by(&shuffle, 0, &[5]);
        assert!(store.write_seals(&shuffle, STEP_MAX).await);
        let before = segments_below(place.path()).len();
        let (store, locations) = restart(&place, store, shuffle);
        assert_eq!((locations, segments_below(place.path()).len()), (2, before));
        let read = async |name: &str| {
            let shuffle = store.find(&ShuffleKey::new(name, 1)).unwrap();
            read_all(&store, &shuffle, 0, MapRange::Whole).await.map_err(|error| error.kind())
        };
        assert_eq!(read("away").await, Ok(batches[2].clone()));
        assert_eq!(read("lost").await, Err(Kind::NotFound));
        assert!(store.with_shuffle(&away, |_| ()).is_some());
        store.delete(store.remove(&ShuffleKey::new("lost", 1)).unwrap());
        until(|| segments_below(place.path()).iter().all(|path| !path.to_string_lossy().contains("lost")))
            .await;
    });
}

/// In each of two directories a location with a batch of this map, and its seal.
async fn sealed_in_each_directory(store: &Arc<Store>, shuffle: &Arc<Shuffle>, map: i32) {
    for directory in [0, 1] {
        reserve(shuffle, directory..directory + 1);
        assert!(append(store, shuffle, directory, &batch(map, 0, 1, 1000)));
        assert!(spill(store, directory as usize).await.unwrap());
        commit(shuffle, directory + 1);
        let other = &store.directories()[1 - directory as usize];
        other.hangs();
        assert!(store.write_seals(shuffle, STEP_MAX).await);
        other.probe().unwrap();
    }
}

#[test]
fn what_may_be_on_a_disk_that_is_left_out_is_not_lost() {
    with_store(async |place, store| {
        let (shuffle, _) = pushed(&store, "app", &[1000]);
        sealed_in_each_directory(&store, &shuffle, 7).await;
        let far = store.directories()[1].root().to_owned();
        drop((store, shuffle));
        let away = far.with_extension("away");
        std::fs::rename(&far, &away).unwrap();
        std::fs::write(&far, "").unwrap();
        let store = open(&place);
        assert_eq!(store.recover().locations, 1);
        let key = ShuffleKey::new("app", 1);
        let shuffle = store.find(&key).unwrap();
        let read = async |partition| {
            read_all(&store, &shuffle, partition, MapRange::Whole)
                .await
                .map(drop)
                .map_err(|error| error.kind())
        };
        assert_eq!([read(0).await, read(1).await], [Ok(()), Err(Kind::Unavailable)]);
        assert!(store.may_have_unseen(&ShuffleKey::new("unknown", 1)));
        std::fs::remove_file(&far).unwrap();
        std::fs::rename(&away, &far).unwrap();
        let (store, locations) = restart(&place, store, shuffle);
        assert_eq!(locations, 2);
        let shuffle = store.find(&key).unwrap();
        let lost = read_all(&store, &shuffle, 2, MapRange::Whole).await.unwrap_err();
        assert_eq!((lost.kind(), store.may_have_unseen(&key)), (Kind::NotFound, false));
    });
}

#[test]
fn what_could_not_be_read_goes_when_the_master_says_so() {
    with_store(async |place, store| {
        let (shuffle, _) = pushed(&store, "app", &[1000]);
        commit(&shuffle, 1);
        assert!(store.flush().await.is_empty());
        let key = shuffle.key().clone();
        drop((store, shuffle));
        let (disk, store) = open_faulty(&place);
        let unlisted = disk.inject(cannot_list("app/1"));
        let found = store.recover();
        assert_eq!(unlisted.happened(), 1);
        drop(unlisted);
        assert_eq!((found.shuffles, found.locations), (0, 0));
        assert_eq!(segments_below(place.path()).len(), 1);
        store.delete(store.remove(&key).unwrap());
        until(|| store.with_shuffle(&key, |_| ()).is_some()).await;
        assert_eq!(segments_below(place.path()), Vec::<PathBuf>::new());
    });
}

#[test]
fn what_was_not_seen_of_a_shuffle_goes_with_it() {
    with_store(async |place, store| {
        let key = ShuffleKey::new("app", 1);
        let shuffle = store.find_or_insert(&key).unwrap();
        sealed_in_each_directory(&store, &shuffle, 0).await;
        let far = store.directories()[1].root().to_owned();
        drop((store, shuffle));
        let (disk, store) = open_faulty(&place);
        let unlisted = disk.inject(cannot_list("app/1").within(far.to_string_lossy()));
        let found = store.recover();
        assert_eq!(unlisted.happened(), 1);
        drop(unlisted);
        assert_eq!((found.locations, segments_below(place.path()).len()), (1, 2));
        assert!(store.with_shuffle(&key, |_| ()).is_some(), "what was found of it is served");
        store.delete(store.remove(&key).unwrap());
        until(|| store.with_shuffle(&key, |_| ()).is_some()).await;
        assert_eq!(segments_below(place.path()), Vec::<PathBuf>::new());
    });
}

#[test]
fn what_was_not_seen_at_all_goes_when_the_master_says_so() {
    with_store(async |place, store| {
        for number in [1, 2] {
            let shuffle = store.find_or_insert(&ShuffleKey::new("app", number)).unwrap();
            reserve(&shuffle, 0..1);
            assert!(append(&store, &shuffle, 0, &batch(0, 0, 1, 1000)));
            commit(&shuffle, 1);
        }
        assert!(store.flush().await.is_empty());
        drop(store);
        let (disk, store) = open_faulty(&place);
        let unlisted = disk.inject(cannot_list("yeoul-shuffle/app"));
        let found = store.recover();
        assert_eq!(unlisted.happened(), 1);
        drop(unlisted);
        assert_eq!((found.shuffles, segments_below(place.path()).len()), (0, 2));
        let [unknown, known] = [1, 2].map(|number| ShuffleKey::new("app", number));
        for elsewhere in [ShuffleKey::new("other", 1), ShuffleKey::new("app", -1)] {
            assert!(store.remove(&elsewhere).is_none(), "{elsewhere}");
        }
        let removed = store.remove(&unknown).expect("there may be files");
        assert!(store.with_shuffle(&unknown, |_| ()).is_none());
        assert!(store.remove(&unknown).is_none(), "it is on its way");
        store.delete(removed);
        until(|| store.deleting().is_empty()).await;
        assert_eq!(segments_below(place.path()).len(), 1);
        // Nor are a later shuffle's files all that there may be under that number.
        assert!(store.with_shuffle(&known, |_| ()).is_some());
        store.delete(store.remove(&known).unwrap());
        until(|| store.deleting().is_empty()).await;
        assert_eq!(segments_below(place.path()), Vec::<PathBuf>::new());
    });
}

#[test]
fn what_was_written_twice_is_found_whichever_is_read_last() {
    with_store(async |place, store| {
        let key = ShuffleKey::new("app", 1);
        let batches: Vec<_> = (0..3).map(|map| batch(map, 0, 1, 1000)).collect();
        let run = |first: usize, end: usize| RunToWrite {
            file: file(0),
            life: 7,
            first: first as u32,
            rows: (first..end)
                .map(|map| RunRow {
                    len: 1000,
                    map: MapId(map as i32),
                    attempt: AttemptId(0),
                    batch: 1.into(),
                    checksum: 0,
                })
                .collect(),
        };
        let mut store = store;
        // The first of each alone leads to the end, or together with another one, or not at all.
        for runs in [[(0, 2), (0, 3), (1, 2)], [(0, 3), (0, 2), (1, 2)], [(2, 3), (0, 2), (0, 1)]] {
            for (number, (first, end)) in runs.into_iter().enumerate() {
                let segment = Segment::create(&store.directories()[0], &key, number as u32).unwrap();
                let batches = Batches::new(batches[first..end].to_vec());
                segment.append(&mut [run(first, end)], &batches).unwrap();
                let seal = Seal {
                    file: file(0),
                    life: 7,
                    count: 3,
                    bytes: 3000,
                    order: Some(ByteOrder::Little),
                    replicated: false,
                };
                segment.seal(Some((1, &[], None)), &[seal]).unwrap();
            }
            drop(store);
            store = open(&place);
            assert_eq!(store.recover().locations, 1, "{runs:?}");
            let shuffle = store.find(&key).unwrap();
            assert_eq!(read_all(&store, &shuffle, 0, MapRange::Whole).await.unwrap(), batches);
            drop(shuffle);
            store.delete(store.remove(&key).unwrap());
            until(|| segments_below(place.path()).is_empty() && Arc::strong_count(&store) == 1).await;
        }
    });
}

#[test]
fn runs_go_on_after_a_single_batch_file() {
    with_store(async |_place, store| {
        let (shuffle, _) = pushed(&store, "app", &[1000]);
        assert!(spill(&store, 0).await.unwrap());
        let directory = &store.directories()[0];
        let mut contents = shuffle.lock();
        let number = contents.next_segment_number();
        contents.adopt(&Arc::new(Segment::create_for_one(directory, shuffle.key(), number).unwrap()));
        let Target::Open(found) = contents.target(directory) else { panic!("the first one takes more") };
        assert!(Arc::ptr_eq(&found, &contents.segments[0]));
        let target = contents.target(&store.directories()[1]);
        assert!(matches!(target, Target::New(_)), "another disk has none");
    });
}

#[test]
fn whose_shuffle_it_is_is_known_after_a_restart() {
    with_store(async |place, store| {
        let (shuffle, _) = pushed(&store, "app", &[1000]);
        let [own, other] = [1, 2].map(|port| Some(DriverId::at(b"host", port)));
        let at =
            |partition| [Reservation { file: file(partition), peer: None, split: SplitPolicy::default() }];
        shuffle.lock().state.reserve(own, &at(1), CALM, 10).unwrap();
        assert!(spill(&store, 0).await.unwrap());
        commit(&shuffle, 1);
        assert!(store.write_seals(&shuffle, STEP_MAX).await);
        let (store, locations) = restart(&place, store, shuffle);
        assert_eq!(locations, 1);
        let shuffle = store.find(&ShuffleKey::new("app", 1)).unwrap();
        let mut contents = shuffle.lock();
        let refused = Err(ReserveRefusal::OtherDriver);
        assert_eq!(contents.state.reserve(other, &at(1), CALM, 10), refused);
        assert_eq!(contents.state.reserve(own, &at(1), CALM, 10), Ok(()));
    });
}

#[test]
fn an_earlier_location_is_not_taken_for_one_that_is_incomplete() {
    with_store(async |place, store| {
        let (shuffle, _) = pushed(&store, "app", &[1000]);
        reserve(&shuffle, 1..2);
        assert!(spill(&store, 0).await.unwrap());
        commit(&shuffle, 2);
        assert!(store.write_seals(&shuffle, STEP_MAX).await);
        shuffle.lock().state.destroy([file(1)]);
        reserve(&shuffle, 1..2);
        assert!(append(&store, &shuffle, 1, &batch(0, 0, 1, 500)));
        assert!(spill(&store, 0).await.unwrap());
        let (store, locations) = restart(&place, store, shuffle);
        assert_eq!(locations, 1);
        let shuffle = store.find(&ShuffleKey::new("app", 1)).unwrap();
        let error = read_all(&store, &shuffle, 1, MapRange::Whole).await.unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
    });
}

/// Sail's readers rely on the worker to drop the batches that an earlier epoch of the partition has too, which would be
/// wrong if they read that epoch from its other copy.
#[test]
fn a_restart_remembers_which_batches_earlier_epochs_have() {
    runtime().block_on(async {
        for (peer, expected) in [(None, [40, 40]), (Some("host:1"), [40, 80])] {
            let place = tempfile::tempdir().unwrap();
            let mut store = open(&place);
            let key = ShuffleKey::new("app", 1);
            let epochs =
                [0, 1].map(|epoch| FileName { location: LocationId::new(0, epoch), mode: Mode::Primary });
            let shuffle = store.find_or_insert(&key).unwrap();
            let wanted = epochs.map(|file| Reservation {
                file,
                peer: peer.map(Into::into),
                split: SplitPolicy::default(),
            });
            {
                let mut contents = shuffle.lock();
                contents.order = Some(ByteOrder::Big); // as the first push told
                contents.state.reserve(None, &wanted, CALM, 10).unwrap();
                for (file, number) in [(epochs[0], 0), (epochs[1], 0), (epochs[1], 1)] {
                    let header =
                        BatchHeader { map: MapId(1), attempt: 0.into(), batch: number.into(), len: 24 };
                    let mut bytes = bytes::BytesMut::new();
                    header.encode(ByteOrder::Big, &mut bytes);
                    bytes.resize(40, number as u8);
                    let admission = contents.state.judge(file, header.map, PushKind::Single, CALM).unwrap();
                    contents.state.appended(file, 40);
                    contents.copy_mut(admission.slot, file).append(&header, bytes.freeze());
                    shuffle.grew(40, 0);
                }
                let primaries = epochs.map(|file| file.location).to_vec();
                contents.state.commit(&Commit { primaries, ..Commit::default() });
            }
            let read = |store: &Store| {
                let shuffle = store.find(&key).unwrap();
                epochs.map(|file| {
                    let stream = store.open_stream(&shuffle, file, MapRange::Whole, 900).unwrap();
                    stream.chunks().iter().map(|chunk| chunk.bytes).sum::<u64>()
                })
            };
            assert_eq!(read(&store), expected);
            assert!(store.flush().await.is_empty());
            let locations;
            (store, locations) = restart(&place, store, shuffle);
            assert_eq!((locations, read(&store)), (2, expected));
            let order = store.find(&key).unwrap().lock().order;
            assert_eq!(order, Some(ByteOrder::Big), "late pushes are understood");
        }
    });
}
