use std::fs;

use yeoul_base::ErrorKind;

use super::*;
use crate::{Fault, FaultyDisk, Operation};

fn options(reserve_bytes: Option<u64>) -> VolumeOptions {
    VolumeOptions {
        reserve_bytes,
        lock_wait: Duration::ZERO,
        ..VolumeOptions::new("home", "blocks", "server")
    }
}

fn open(place: &tempfile::TempDir, reserve_bytes: Option<u64>) -> Volume {
    Volume::open(place.path(), options(reserve_bytes)).unwrap()
}

#[test]
fn a_volume_belongs_to_one_server() {
    let place = tempfile::tempdir().unwrap();
    let first = open(&place, None);
    let error = Volume::open(place.path(), options(None)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let since = first.used_since();
    drop(first);
    assert_eq!(open(&place, None).used_since(), since);
}

#[test]
fn the_reserve_is_left_alone_and_a_failed_volume_returns_with_a_probe() {
    let place = tempfile::tempdir().unwrap();
    let volume = open(&place, Some(u64::MAX));
    assert_eq!((volume.health(), volume.usable()), (Health::Full, 0));
    drop(volume);
    let volume = open(&place, Some(0));
    assert_eq!(volume.health(), Health::Healthy);
    volume.hangs();
    assert_eq!(volume.health(), Health::Failed);
    volume.probe().unwrap();
    assert_eq!(volume.health(), Health::Healthy);
    assert_eq!(fs::read_dir(volume.home()).unwrap().count(), 1, "only the lock is left");
}

#[test]
fn what_failed_comes_back_with_a_probe_and_with_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let volume = open(&place, Some(0));
    volume.hangs();
    // The write that hung fails for lack of space at last, and something is deleted.
    volume.failed(&io::ErrorKind::StorageFull.into());
    volume.measure().unwrap();
    let _ = volume.lacks_room();
    volume.measure().unwrap();
    assert_eq!(volume.health(), Health::Failed);
    volume.probe().unwrap();
    assert_eq!(volume.health(), Health::Healthy);
}

#[test]
fn a_probe_finds_a_disk_that_fails_in_any_of_its_steps() {
    let place = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new();
    let volume =
        Volume::open(place.path(), VolumeOptions { disk: disk.clone(), ..options(Some(0)) }).unwrap();
    for operation in [Operation::Open, Operation::Write, Operation::Sync, Operation::Read, Operation::Remove]
    {
        let fault = disk.inject(Fault::fails(operation, Errno::IO));
        volume.probe().unwrap_err();
        assert_eq!((volume.health(), fault.happened()), (Health::Failed, 1), "{operation:?}");
        drop(fault);
        volume.probe().unwrap();
        assert_eq!(volume.health(), Health::Healthy);
    }
    // Too many open files are not its fault.
    let fault = disk.inject(Fault::fails(Operation::Open, Errno::MFILE));
    volume.probe().unwrap_err();
    assert_eq!((volume.health(), volume.lacks_files(), fault.happened()), (Health::Healthy, true, 1));
    drop(fault);
    volume.look_for_file();
    assert!(!volume.lacks_files());
}

#[test]
fn what_is_precious_goes_into_the_reserve_and_not_where_a_write_found_no_space() {
    const LEAST: u64 = 1 << 20;
    let place = tempfile::tempdir().unwrap();
    let volume = open(&place, Some(0));
    let _ = volume.lacks_room();
    assert_eq!((volume.health(), volume.takes_into_reserve(LEAST)), (Health::Full, true));
    volume.failed(&io::ErrorKind::StorageFull.into());
    assert_eq!((volume.health(), volume.takes_into_reserve(LEAST)), (Health::Full, false));
    volume.measure().unwrap();
    assert!(volume.takes_into_reserve(LEAST), "there is space again");
    volume.hangs();
    assert!(!volume.takes_into_reserve(LEAST));
}

#[test]
fn a_volume_that_has_room_again_is_not_blamed_for_the_want_of_it_before() {
    let place = tempfile::tempdir().unwrap();
    let volume = open(&place, Some(0));
    let error = volume.lacks_room();
    assert_eq!((error.kind(), volume.health()), (io::ErrorKind::StorageFull, Health::Full));
    volume.measure().unwrap(); // something is deleted before the job says that it failed
    volume.refused(&error);
    assert_eq!(volume.health(), Health::Healthy);
    assert!(volume.takes_into_reserve(1) && volume.usable() > 0);
}

#[test]
fn a_volume_that_cannot_be_made_is_named() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    fs::write(&path, "").unwrap();
    let error = Volume::open(&path, options(None)).unwrap_err();
    let expected = format!("cannot use '{}' for blocks: it is not a directory", path.display());
    assert_eq!(error.to_string(), expected);
    let error = Volume::open(&path.join("below"), options(None)).unwrap_err();
    assert!(error.to_string().ends_with("(os error 20)"), "{error}");
}

#[test]
fn a_volume_of_which_little_is_not_reserved_comes_back() {
    let mib = |mib: u64| mib << 20;
    let wanted = |total, reserve, capacity| room_wanted(mib(16), total, reserve, capacity);
    assert_eq!(wanted(mib(1000), mib(50), u64::MAX), mib(16));
    assert_eq!(wanted(mib(64), mib(56), u64::MAX), mib(2), "of the 8 that it has when it is empty");
    assert_eq!(wanted(mib(1000), mib(50), mib(8)), mib(2));
    assert_eq!(wanted(mib(64), mib(65), u64::MAX), 0);
}

#[test]
fn a_volume_that_is_nearly_full_does_not_come_and_go() {
    const ROOM: u64 = 16 << 20;
    let place = tempfile::tempdir().unwrap();
    let volume = open(&place, Some(0));
    volume.limit(4 * ROOM);
    volume.count_stored(4 * ROOM - 10);
    for _ in 0..3 {
        let _ = volume.lacks_room(); // a job
        volume.measure().unwrap(); // something is deleted
        assert_eq!(volume.health(), Health::Full);
    }
    assert!(volume.may_take(10) && !volume.may_take(11));
    volume.count_gone(ROOM);
    volume.measure().unwrap();
    assert_eq!(volume.health(), Health::Healthy);
    // It is filled up, and a small one becomes healthy again, too.
    volume.limit(3 * ROOM);
    volume.measure().unwrap();
    assert_eq!((volume.health(), volume.usable()), (Health::Healthy, 10));
    volume.limit(3 * ROOM - 10);
    volume.measure().unwrap();
    assert_eq!(volume.health(), Health::Full);
    volume.count_gone(3 * ROOM - 10);
    volume.limit(2);
    volume.measure().unwrap();
    assert_eq!(volume.health(), Health::Healthy);
}

#[tokio::test]
async fn who_waits_for_a_failure_hears_of_it() {
    let place = tempfile::tempdir().unwrap();
    let volume = Arc::new(open(&place, Some(0)));
    let waiting = tokio::spawn({
        let volume = volume.clone();
        async move { volume.until_failed().await }
    });
    tokio::task::yield_now().await;
    volume.failed(&io::ErrorKind::StorageFull.into());
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished(), "a full disk has not failed");
    volume.hangs();
    waiting.await.unwrap();
    volume.until_failed().await;
}

#[test]
#[should_panic(expected = "11 bytes removed of 10 that are stored")]
fn more_bytes_cannot_go_than_are_there() {
    let place = tempfile::tempdir().unwrap();
    let volume = open(&place, Some(0));
    volume.count_stored(10);
    volume.count_gone(11);
}
