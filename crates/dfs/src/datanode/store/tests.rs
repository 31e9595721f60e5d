use rustix::io::Errno;
use yeoul_disk::{Fault, FaultyDisk, Operation, RealDisk};

use super::*;
use crate::memory::MEMORY_BYTES_MIN;

const POOL: &str = "BP-1-127.0.0.1-5";
const STAMP: GenerationStamp = GenerationStamp(1001);

fn memory() -> Memory {
    Memory::new(MEMORY_BYTES_MIN).unwrap()
}

/// A store of so many volumes, on a disk that fails when it is told to.
fn store(place: &tempfile::TempDir, volumes: usize) -> (Store, Arc<FaultyDisk>) {
    let disk = FaultyDisk::over(Arc::new(RealDisk));
    let dirs: Vec<_> = (0..volumes).map(|number| place.path().join(number.to_string())).collect();
    let number = std::cell::Cell::new(0);
    let name = || {
        number.set(number.get() + 1);
        number.get().to_string()
    };
    let shared: Arc<dyn Disk> = disk.clone();
    let store = Store::open(&dirs, 0, &shared, memory(), name).unwrap();
    store.join_pool(POOL, "CID-1").unwrap();
    (store, disk)
}

fn create(store: &Store, id: i64) -> NewReplica<'_> {
    store.create(POOL, (BlockId(id), STAMP), &Wanted { bytes: 1024, ..Wanted::default() }).unwrap()
}

/// Data of a block, and its checksums.
fn written(replica: &mut NewReplica<'_>, length: usize) -> io::Result<Visible> {
    let data: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
    let mut checksums = Vec::new();
    Chunking::default().compute(&data, &mut checksums);
    replica.write(0, &data, &checksums)
}

fn used(store: &Store) -> u64 {
    store.storages().iter().map(|storage| storage.used).sum()
}

#[test]
fn a_pool_whose_name_leads_elsewhere_is_not_joined() {
    let place = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let dir = place.path().join("dn");
    let store = Store::open(std::slice::from_ref(&dir), 0, &disk, memory(), || "one".to_owned()).unwrap();
    for pool in ["../../../elsewhere", "/tmp/elsewhere", "..", "a/b"] {
        assert_eq!(store.join_pool(pool, "CID-1").unwrap_err().kind(), Kind::Invalid, "{pool}");
    }
    assert!(store.join_pool(POOL, "CID-1\ndatanodeUuid=x").is_err());
    assert!(!place.path().join("elsewhere").exists() && store.pool().is_empty());
    store.join_pool(POOL, "CID-1").unwrap();
}

#[test]
fn the_space_of_a_replica_counts_until_its_files_are_gone() {
    let place = tempfile::tempdir().unwrap();
    let (store, _disk) = store(&place, 1);
    let mut whole = create(&store, 1);
    written(&mut whole, 1300).unwrap();
    written(&mut whole, 1400).unwrap();
    assert_eq!(used(&store), 1400, "what is written again counts once");
    whole.finalize().unwrap();
    let mut abandoned = create(&store, 2);
    written(&mut abandoned, 100).unwrap();
    abandoned.abandoned().unwrap();
    let mut deleted = create(&store, 3);
    written(&mut deleted, 50).unwrap();
    assert_eq!(used(&store), 1550);
    assert!(store.delete(BlockId(3), STAMP).is_some());
    assert!(matches!(deleted.finalize(), Err(StoreError::Missing(_))));
    assert_eq!(used(&store), 1500, "its writer knows that it is gone");
    assert!(store.delete(BlockId(1), STAMP).is_some() && store.delete(BlockId(2), STAMP).is_some());
    assert_eq!(used(&store), 0);
}

#[test]
fn a_store_that_is_opened_again_has_what_it_had() {
    let place = tempfile::tempdir().unwrap();
    let (first, _disk) = store(&place, 2);
    let mut whole = create(&first, 7);
    written(&mut whole, 700).unwrap();
    whole.finalize().unwrap();
    let storages = first.storages();
    let dirs: Vec<_> = (0..2).map(|number| place.path().join(number.to_string())).collect();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let refused = Store::open(&dirs, 0, &disk, memory(), || "new".to_owned()).unwrap_err();
    assert_eq!(refused.kind(), Kind::Conflict, "{refused}");
    drop(first);
    let second = Store::open(&dirs, 0, &disk, memory(), || panic!("it has its names")).unwrap();
    let names = |storages: Vec<cluster::Storage>| {
        storages.into_iter().map(|storage| storage.uuid).collect::<Vec<_>>()
    };
    assert_eq!(used(&second), 700);
    assert_eq!(second.visible_length(POOL, BlockId(7), STAMP).unwrap(), 700);
    assert_eq!(names(second.storages()), names(storages));
}

#[test]
fn a_full_disk_takes_nothing_and_keeps_what_it_has_and_a_failed_sync_retires_the_volume() {
    let place = tempfile::tempdir().unwrap();
    let (store, disk) = store(&place, 2);
    let mut kept = create(&store, 1);
    let kept_on = kept.volume;
    written(&mut kept, 600).unwrap();
    kept.finalize().unwrap();

    let mut first = create(&store, 2);
    let fault = disk.inject(Fault::fails(Operation::Write, Errno::NOSPC).times(1));
    assert!(written(&mut first, 600).is_err() && fault.happened() == 1);
    let full = first.volume;
    assert!(!store.volumes[full.0].has_failed(), "it can be read");
    let next = create(&store, 3);
    assert_ne!(next.volume, full, "the other one has room");
    store.volumes[full.0].measure().unwrap();
    assert!(store.volumes[full.0].usable() > 0, "it has room again");

    let mut second = next;
    written(&mut second, 600).unwrap();
    let fault = disk.inject(Fault::fails(Operation::Sync, Errno::IO).times(1));
    assert!(second.sync().is_err() && fault.happened() == 1);
    let failed: Vec<_> = store.storages().iter().map(|storage| storage.failed).collect();
    let retired = second.volume;
    let expected: Vec<_> = (0..2).map(|at| at == retired.0).collect();
    assert_eq!(failed, expected);
    assert_eq!(store.storages()[retired.0].remaining, 0);
    for id in 10..20 {
        assert_ne!(create(&store, id).volume, retired, "nothing new comes to it");
    }
    assert_eq!(store.open_replica(POOL, BlockId(1), STAMP).unwrap().visible.length, 600, "{kept_on:?}");
}

#[test]
fn a_copy_is_reported_once_it_is_whole_and_nothing_is_left_of_one_that_fails() {
    let place = tempfile::tempdir().unwrap();
    let (first, _disk) = store(&place, 1);
    let temporary = place.path().join("0").join(Folder::Temporary.path(POOL));
    let files = || std::fs::read_dir(&temporary).unwrap().count();
    let copy = |id| {
        let mut copy =
            first.create(POOL, (BlockId(id), STAMP), &Wanted { is_copy: true, ..Wanted::default() }).unwrap();
        written(&mut copy, 600).unwrap();
        copy
    };
    let failed = copy(1);
    assert_eq!((files(), used(&first)), (2, 600));
    assert_eq!(first.report(&first.storages()[0].uuid, None, 9), [], "nobody knows of it");
    drop(failed);
    assert_eq!((files(), used(&first)), (0, 0));
    assert!(copy(1).abandoned().is_none() && files() == 0, "nobody goes on with it");
    let (_, whole) = copy(2).finalize().unwrap();
    assert_eq!(first.report(&first.storages()[0].uuid, None, 9), [whole]);
    // A process that is killed leaves what it has.
    std::mem::forget(copy(3));
    assert_eq!(files(), 2);
    drop(first);
    let dirs = [place.path().join("0")];
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let second = Store::open(&dirs, 0, &disk, memory(), || panic!("it has its names")).unwrap();
    let ids: Vec<_> =
        second.report(&second.storages()[0].uuid, None, 9).iter().map(|replica| replica.id).collect();
    assert_eq!((ids, files(), used(&second)), (vec![2], 0, 600));
}

#[test]
fn damage_is_told_once_and_again_with_each_report_until_the_replica_is_gone() {
    let place = tempfile::tempdir().unwrap();
    let (store, _disk) = store(&place, 1);
    let mut whole = create(&store, 1);
    written(&mut whole, 600).unwrap();
    let (storage, reported) = whole.finalize().unwrap();
    assert_eq!(store.mark_damaged(BlockId(1), STAMP), Some((storage.clone(), reported)));
    assert_eq!(store.mark_damaged(BlockId(1), STAMP), None);
    assert_eq!((store.damaged(&storage), store.damaged("another")), (vec![reported], vec![]));
    store.delete(BlockId(1), STAMP).unwrap();
    assert_eq!((store.damaged(&storage), store.damaged_count()), (vec![], 0));
}

#[test]
fn a_replica_for_which_the_table_has_no_memory_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let memory = memory();
    let store =
        Store::open(&[place.path().join("0")], 0, &disk, memory.clone(), || "new".to_owned()).unwrap();
    store.join_pool(POOL, "CID-1").unwrap();
    create(&store, 1).finalize().unwrap();
    assert_eq!(memory.used(), REPLICA_BYTES);
    let (mut tables, mut bytes) = (memory.tables(), 0);
    while memory.has_room_in_tables(REPLICA_BYTES) {
        bytes += REPLICA_BYTES;
        tables.set(bytes);
    }
    let refused = store.create(POOL, (BlockId(2), STAMP), &Wanted::default());
    assert!(matches!(refused, Err(StoreError::NoMemory)));
    assert!(store.delete(BlockId(1), STAMP).is_some());
    create(&store, 2).finalize().unwrap();
    assert_eq!(memory.used(), bytes + REPLICA_BYTES);
}
