use super::super::one_replica::{ID, POOL, STAMP, content, open, read, used, write};
use super::super::{NewReplica, Wanted};
use super::*;
use crate::datanode::layout::Folder;

const NEW: GenerationStamp = GenerationStamp(1005);

fn begin(store: &Store, length: usize) -> NewReplica<'_> {
    let mut replica = store.create(POOL, (ID, STAMP), &Wanted::default()).unwrap();
    write(&mut replica, 0, length);
    replica
}

fn files(place: &tempfile::TempDir) -> (std::path::PathBuf, std::path::PathBuf) {
    let folder = place.path().join(Folder::BeingWritten.path(POOL));
    (folder.join(ID.to_string()), folder.join(format!("{ID}_{}.meta", STAMP.0)))
}

#[test]
fn a_replica_ends_with_what_it_is_told_whether_its_writer_had_ended_it_or_not() {
    for (is_whole, is_restarted, length) in [
        (false, false, 1536),
        (false, true, 700),
        (true, false, 2000),
        (true, true, 1000),
        (false, true, 2000),
    ] {
        let place = tempfile::tempdir().unwrap();
        let mut store = open(&place);
        let replica = begin(&store, 2000);
        if is_whole {
            replica.finalize().unwrap();
        } else {
            replica.abandoned().unwrap();
        }
        if is_restarted {
            drop(store);
            store = open(&place);
        }
        let left = Left { stamp: STAMP, length: 2000, is_from_disk: is_restarted };
        assert_eq!(store.left(ID, NEW).unwrap(), Some(left));
        assert!(matches!(store.end_left(ID, STAMP, 9), Err(StoreError::Newer { .. })), "no later stamp");
        assert!(store.end_left(ID, NEW, 2001).is_err(), "it lacks a byte");
        // Told twice, as the NameNode may not have heard.
        for _ in 0..2 {
            let (_, whole) = store.end_left(ID, NEW, length).unwrap();
            assert_eq!((whole.stamp, whole.length, whole.state()), (NEW.0, length, ReplicaState::Finalized));
        }
        assert!(
            matches!(store.end_left(ID, NEW, length - 1), Err(StoreError::Newer { .. })),
            "it has its end"
        );
        assert_eq!(read(&store), content(length as usize));
        drop(store);
        let store = open(&place);
        assert_eq!(read(&store), content(length as usize));
        assert_eq!(used(&store), length);
    }
}

#[test]
fn a_writer_does_not_go_on_with_a_replica_that_is_taken_from_it() {
    let place = tempfile::tempdir().unwrap();
    let store = open(&place);
    assert_eq!(store.left(ID, NEW).unwrap(), None);
    let refused = |new: u64| {
        let said = Resumed { old: STAMP, new: GenerationStamp(new), acknowledged: 0, sent: 2000 };
        store.resume(POOL, ID, &said).map(|_| ()).unwrap_err()
    };
    assert!(matches!(store.create(POOL, (ID, STAMP), &Wanted::default()), Err(StoreError::Taken(_))));
    store.release(ID);
    let replica = begin(&store, 1000);
    assert!(matches!(store.left(ID, NEW), Err(StoreError::NotUnfinished(_))), "its writer is there");
    replica.abandoned().unwrap();
    assert!(store.left(ID, NEW).unwrap().is_some());
    assert!(matches!(refused(1004), StoreError::Taken(_)));
    store.release(ID);
    let said = Resumed { old: STAMP, new: GenerationStamp(1004), acknowledged: 1000, sent: 2000 };
    store.resume(POOL, ID, &said).unwrap();
}

#[test]
fn what_a_datanode_had_begun_to_write_when_it_died_is_left_out_and_nothing_before_it() {
    for (has, data, checksums) in [
        // The next packet was in the data file, and its checksums not yet: those of the last chunk are of fewer bytes.
        (700, 900, 2),
        (512, 900, 1),
        (1024, 3000, 2),
        // The checksums came to the disk, and the data not.
        (700, 700, 6),
        (700, 600, 2),
    ] {
        let place = tempfile::tempdir().unwrap();
        begin(&open(&place), has).abandoned().unwrap();
        let (data_file, meta_file) = files(&place);
        let mut all = content(3000);
        all.truncate(data);
        std::fs::write(&data_file, &all).unwrap();
        let mut meta = std::fs::read(&meta_file).unwrap();
        meta.resize(meta_file::HEADER_BYTES + checksums * CHECKSUM_BYTES, 9);
        std::fs::write(&meta_file, &meta).unwrap();
        let store = open(&place);
        let expected = if data < has { 512 } else { has as u64 };
        let left = Left { stamp: STAMP, length: expected, is_from_disk: true };
        assert_eq!(store.left(ID, NEW).unwrap(), Some(left), "{has} {data} {checksums}");
        store.end_left(ID, NEW, expected).unwrap();
        assert_eq!(read(&store), content(expected as usize));
    }
}

#[test]
fn a_damaged_replica_of_a_datanode_that_never_ended_is_none() {
    let place = tempfile::tempdir().unwrap();
    let store = open(&place);
    begin(&store, 2000).abandoned().unwrap();
    let (data_file, _) = files(&place);
    let mut bytes = std::fs::read(&data_file).unwrap();
    bytes[1100] ^= 1;
    std::fs::write(&data_file, bytes).unwrap();
    assert_eq!(store.left(ID, NEW).unwrap(), None);
}
