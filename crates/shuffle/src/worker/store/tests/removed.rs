//! Goal: a directory that somebody deletes under a running worker takes nothing more, and a stop says what was lost with it.
//! Method: the test deletes folders and files of a store, makes some of them again, and compares what the store says with
//! what the next one finds.

use std::fs;
use std::path::Path;

use super::super::directory::Health;
use super::{commit, pushed, read_all, restart, segments_below, spill, with_store};
use crate::heard::Heard;
use crate::worker::index::MapRange;

/// What happens to a folder.
const BLOWS: [fn(&Path); 4] = [
    |home| fs::remove_dir_all(home).unwrap(),
    |home| {
        fs::remove_dir_all(home).unwrap();
        fs::create_dir(home).unwrap();
    },
    |home| {
        // As another worker would make it, or a mount point that shows again once its disk is unmounted.
        fs::rename(home, home.with_extension("away")).unwrap();
        fs::create_dir(home).unwrap();
        fs::write(home.join("lock"), "").unwrap();
    },
    |home| fs::remove_file(home.join("lock")).unwrap(),
];

#[test]
fn a_directory_that_is_not_the_one_that_was_opened_takes_nothing_more() {
    for blow in BLOWS {
        for is_probed in [false, true] {
            with_store(async |_place, store| {
                let (heard, _listening) = Heard::begin();
                let directory = &store.directories()[0];
                blow(directory.home());
                let was_there = directory.home().exists();
                let (shuffle, batches) = pushed(&store, "app", &[1000, 70_000]);
                commit(&shuffle, 2);
                if is_probed {
                    directory.probe().unwrap_err();
                } else {
                    assert!(!spill(&store, 0).await.unwrap());
                }
                assert_eq!(directory.health(), Health::Failed);
                assert_eq!(directory.home().exists(), was_there, "it is not made again");
                directory.probe().unwrap_err();
                assert_eq!(directory.health(), Health::Failed, "nor is it ever healthy");
                assert_eq!(store.flush().await.len(), 0, "the other directory takes everything");
                assert_eq!(segments_below(directory.root()), <[&Path; 0]>::default());
                for (partition, batch) in batches.iter().enumerate() {
                    let read = read_all(&store, &shuffle, partition as i32, MapRange::Whole).await;
                    assert_eq!(read.unwrap(), std::slice::from_ref(batch));
                }
                // What a thread for files says is not heard here.
                let said = heard.text();
                let times = usize::from(is_probed);
                assert_eq!(said.matches("directory excluded: it failed").count(), times, "{said}");
                assert!(said.contains("it was removed, replaced or unmounted"), "{said}");
            });
        }
    }
}

#[test]
fn a_directory_that_is_moved_away_is_used_again_once_it_is_back() {
    with_store(async |_place, store| {
        let directory = &store.directories()[0];
        let away = directory.root().with_extension("away");
        fs::rename(directory.root(), &away).unwrap();
        directory.probe().unwrap_err();
        assert_eq!(directory.health(), Health::Failed);
        fs::rename(&away, directory.root()).unwrap();
        directory.probe().unwrap();
        assert_eq!(directory.health(), Health::Healthy);
        let (shuffle, _) = pushed(&store, "app", &[1000]);
        commit(&shuffle, 1);
        assert!(spill(&store, 0).await.unwrap());
    });
}

/// The shuffles that a stop names are those of which the next process lacks something.
#[test]
fn a_stop_names_what_was_deleted_under_it() {
    let of_files = |home: &Path| segments_below(home).iter().for_each(|path| fs::remove_file(path).unwrap());
    let blows = BLOWS[..3].iter().copied().map(|blow| blow as fn(&Path)).chain([of_files as fn(&Path)]);
    for (number, blow) in blows.enumerate() {
        for is_synced_before in [false, true] {
            with_store(async |place, store| {
                let (other, _) = pushed(&store, "other", &[2000]);
                commit(&other, 1);
                assert!(spill(&store, 1).await.unwrap());
                let (shuffle, _) = pushed(&store, "app", &[1000, 70_000]);
                commit(&shuffle, 2);
                assert!(spill(&store, 0).await.unwrap());
                if is_synced_before {
                    assert!(store.make_durable(&shuffle).await);
                }
                blow(store.directories()[0].home());
                assert!(
                    !store.make_durable(&shuffle).await,
                    "blow {number}, {is_synced_before}: no commit promises it"
                );
                let failed: Vec<_> =
                    store.flush().await.iter().map(|shuffle| shuffle.key().clone()).collect();
                assert_eq!(failed, [shuffle.key().clone()], "blow {number}");
                drop(other);
                let (store, locations) = restart(&place, store, shuffle);
                assert_eq!(locations, 1, "that of the other shuffle");
                drop(store);
            });
        }
    }
}

#[test]
fn a_shuffle_that_is_deleted_while_everything_goes_to_disk_is_no_loss() {
    with_store(async |_place, store| {
        let (shuffle, _) = pushed(&store, "app", &[1000]);
        commit(&shuffle, 1);
        assert!(spill(&store, 0).await.unwrap());
        let removed = store.remove(shuffle.key()).unwrap();
        for segment in &removed.files {
            segment.delete().unwrap();
        }
        assert!(store.make_durable(&shuffle).await || shuffle.lock().gone);
        assert_eq!(store.directories()[0].health(), Health::Healthy);
        assert_eq!(store.flush().await.len(), 0);
    });
}
