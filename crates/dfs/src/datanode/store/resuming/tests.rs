use super::super::Wanted;
use super::super::one_replica::{ID, POOL, STAMP, content, open, read, used, write};
use super::*;
use crate::wire::checksum::Chunking;

/// A replica of so many bytes whose writer is gone.
fn abandon(store: &Store, length: usize) {
    let mut replica = store.create(POOL, (ID, STAMP), &Wanted::default()).unwrap();
    write(&mut replica, 0, length);
    replica.abandoned().unwrap();
}

fn said(new: u64, acknowledged: u64, sent: u64) -> Resumed {
    Resumed { old: STAMP, new: GenerationStamp(new), acknowledged, sent }
}

#[test]
fn a_writer_goes_on_behind_what_was_acknowledged_also_after_a_restart() {
    for acknowledged in [0, 512, 700, 1500, 1536] {
        for is_restarted in [false, true] {
            let place = tempfile::tempdir().unwrap();
            let mut store = open(&place);
            abandon(&store, 1536);
            if is_restarted {
                drop(store);
                store = open(&place);
            }
            let mut resumed = store.resume(POOL, ID, &said(1005, acknowledged, 2000)).unwrap();
            assert_eq!((resumed.length(), resumed.stamp), (acknowledged, GenerationStamp(1005)));
            assert_eq!(read(&store), content(acknowledged as usize), "what was acknowledged can be read");
            assert_eq!(used(&store), acknowledged);
            write(&mut resumed, acknowledged as usize / 512 * 512, 2000);
            let (_, whole) = resumed.finalize().unwrap();
            assert_eq!((whole.stamp, whole.length), (1005, 2000));
            assert_eq!(read(&store), content(2000));
            drop(store);
            // Nothing is left of the old stamp.
            let store = open(&place);
            assert_eq!((store.report("DS-one", None, 9).len(), read(&store)), (1, content(2000)));
            assert!(store.open_replica(POOL, ID, GenerationStamp(1005)).is_ok());
        }
    }
}

#[test]
fn a_replica_that_is_not_as_the_writer_says_is_refused_and_stays_as_it_is() {
    let place = tempfile::tempdir().unwrap();
    let store = open(&place);
    let refused = |said| store.resume(POOL, ID, &said).map(|_| ()).unwrap_err();
    assert!(matches!(refused(said(1005, 0, 0)), StoreError::Missing(_)));
    abandon(&store, 1000);
    assert!(matches!(refused(said(1005, 1001, 2000)), StoreError::OtherLength { .. }), "it lacks a byte");
    assert!(matches!(refused(said(1005, 0, 999)), StoreError::OtherLength { .. }), "nobody sent that");
    assert!(matches!(refused(said(1001, 0, 2000)), StoreError::Newer { .. }), "no later stamp");
    let old = Resumed { old: GenerationStamp(1002), ..said(1005, 0, 2000) };
    assert!(matches!(refused(old), StoreError::Missing(_)), "it missed a pipeline");
    assert!(store.resume("BP-2", ID, &said(1005, 0, 2000)).is_err());
    assert_eq!(read(&store), content(1000));
    let resumed = store.resume(POOL, ID, &said(1005, 600, 2000)).unwrap();
    assert!(matches!(refused(said(1006, 0, 2000)), StoreError::NotUnfinished(_)), "it has a writer");
    resumed.finalize().unwrap();
    assert!(matches!(refused(said(1007, 0, 2000)), StoreError::NotUnfinished(_)), "it is whole");
    assert_eq!(read(&store), content(600));
}

#[test]
fn a_damaged_replica_is_not_gone_on_with_and_what_is_cut_off_may_be_damaged() {
    let place = tempfile::tempdir().unwrap();
    let store = open(&place);
    abandon(&store, 2000);
    let file = place.path().join(Folder::BeingWritten.path(POOL)).join(ID.to_string());
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[1100] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let resume = |acknowledged| store.resume(POOL, ID, &said(1005, acknowledged, 2000)).map(|_| ());
    assert!(matches!(resume(2000).unwrap_err(), StoreError::Damaged { .. }));
    assert!(matches!(resume(1030).unwrap_err(), StoreError::Damaged { .. }), "in the chunk that is cut");
    resume(1024).unwrap();
    assert_eq!(read(&store), content(1024));
}

#[test]
fn a_writer_that_has_sent_all_ends_the_replica_whatever_of_it_had_ended() {
    for is_whole in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let store = open(&place);
        if is_whole {
            let mut replica = store.create(POOL, (ID, STAMP), &Wanted::default()).unwrap();
            write(&mut replica, 0, 900);
            replica.finalize().unwrap();
        } else {
            abandon(&store, 900);
        }
        assert!(store.finalize_again(POOL, ID, &said(1005, 901, 901)).is_err(), "it lacks a byte");
        let (_, whole) = store.finalize_again(POOL, ID, &said(1005, 900, 900)).unwrap();
        assert_eq!((whole.stamp, whole.length, whole.state()), (1005, 900, ReplicaState::Finalized));
        // The answer was lost, or another node failed meanwhile.
        let (_, again) = store.finalize_again(POOL, ID, &said(1006, 900, 900)).unwrap();
        assert_eq!(again.stamp, 1006);
        assert_eq!(read(&store), content(900));
    }
}

#[test]
fn a_copy_that_joins_a_pipeline_waits_for_its_writer() {
    let place = tempfile::tempdir().unwrap();
    let store = open(&place);
    // An earlier pipeline went on without this DataNode.
    abandon(&store, 300);
    let wanted = Wanted { is_copy: true, ..Wanted::default() };
    assert!(store.create(POOL, (ID, STAMP), &wanted).is_err(), "it is of this pipeline");
    let mut copy = store.create(POOL, (ID, GenerationStamp(1003)), &wanted).unwrap();
    write(&mut copy, 0, 1000);
    let (_, left) = copy.leave_to_writer().unwrap();
    assert_eq!((left.stamp, left.length, left.state()), (1003, 1000, ReplicaState::WaitingForRecovery));
    assert_eq!(used(&store), 1000);
    drop(store);
    let store = open(&place);
    let resumed = store.resume(POOL, ID, &said(1005, 1000, 1000)).unwrap();
    resumed.finalize().unwrap();
    assert_eq!(read(&store), content(1000));
}

/// A whole replica of so many bytes.
fn finish(store: &Store, length: usize) {
    let mut replica = store.create(POOL, (ID, STAMP), &Wanted::default()).unwrap();
    write(&mut replica, 0, length);
    replica.finalize().unwrap();
}

/// Appends as the stock client does: what fills the last chunk comes by itself, and again as long as the chunk is not full.
fn append(replica: &mut NewReplica<'_>, from: usize, to: usize) {
    let chunk_end = (from / 512 + 1) * 512;
    for end in [(from + 3).min(to), to.min(chunk_end)] {
        let (data, mut checksum) = (content(end), Vec::new());
        Chunking::default().compute(&data[from..], &mut checksum);
        let visible = replica.write(from as u64, &data[from..], &checksum).unwrap();
        assert_eq!(visible.length, end as u64);
        NewReplica::show(replica.store, ID, replica.stamp, visible);
        assert_eq!(read(replica.store), content(end), "readers find checksums that agree");
    }
    if to > chunk_end {
        write(replica, chunk_end, to);
    }
}

#[test]
fn a_writer_appends_within_the_last_chunk_and_behind_it_also_after_a_restart() {
    for (length, to) in [(100, 110), (100, 512), (100, 2000), (700, 703), (1024, 1025), (1536, 4000)] {
        for is_restarted in [false, true] {
            let place = tempfile::tempdir().unwrap();
            let mut store = open(&place);
            finish(&store, length);
            if is_restarted {
                drop(store);
                store = open(&place);
            }
            let mut appended = store.append(POOL, ID, &said(1005, length as u64, length as u64)).unwrap();
            assert_eq!((appended.length(), appended.stamp), (length as u64, GenerationStamp(1005)));
            assert_eq!(read(&store), content(length), "what was there can be read");
            append(&mut appended, length, to);
            appended.finalize().unwrap();
            drop(store);
            let store = open(&place);
            assert_eq!((read(&store), used(&store)), (content(to), to as u64));
        }
    }
}

#[test]
fn what_is_damaged_or_another_one_is_not_appended_to_and_stays_whole() {
    let place = tempfile::tempdir().unwrap();
    let store = open(&place);
    finish(&store, 700);
    for wrong in [said(1005, 699, 700), said(1005, 701, 701), said(1001, 700, 700)] {
        assert!(store.append(POOL, ID, &wrong).is_err(), "{wrong:?}");
    }
    let replica = *store.replicas().get(ID).unwrap();
    let (data, _) = store.volumes[0].files(POOL, ID, STAMP, replica.folder());
    let mut bytes = std::fs::read(&data).unwrap();
    bytes[699] ^= 1;
    std::fs::write(&data, &bytes).unwrap();
    assert!(store.append(POOL, ID, &said(1005, 700, 700)).is_err());
    // Found elsewhere in it.
    let other_place = tempfile::tempdir().unwrap();
    let other = open(&other_place);
    finish(&other, 700);
    other.mark_damaged(ID, STAMP).unwrap();
    assert!(matches!(other.append(POOL, ID, &said(1005, 700, 700)), Err(StoreError::Damaged { .. })));
    assert_eq!((replica.state, store.replicas().get(ID)), (ReplicaState::Finalized, Some(&replica)));
    bytes[699] ^= 1;
    std::fs::write(&data, &bytes).unwrap();
    let mut appended = store.append(POOL, ID, &said(1005, 700, 700)).unwrap();
    // A chunk that is damaged while it is open gets no checksum that agrees.
    let mut bytes = std::fs::read(store.volumes[0].files(POOL, ID, STAMP, Folder::BeingWritten).0).unwrap();
    bytes[600] ^= 1;
    std::fs::write(store.volumes[0].files(POOL, ID, STAMP, Folder::BeingWritten).0, &bytes).unwrap();
    let error = appended.write(700, b"more", &[0; CHECKSUM_BYTES]).unwrap_err();
    assert!(error.to_string().contains("is not what they are"), "{error}");
    assert!(
        appended.write(600, &[7; 500], &[0; CHECKSUM_BYTES]).is_err(),
        "more than the chunk has room for"
    );
}

#[test]
fn a_replica_whose_datanode_dies_while_its_files_move_is_found_unfinished() {
    for is_data_moved in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let store = open(&place);
        finish(&store, 700);
        let files = |folder| store.volumes[0].files(POOL, ID, STAMP, folder);
        let ((data, meta), (new_data, new_meta)) = (files(Folder::Finalized), files(Folder::BeingWritten));
        let (from, to) = if is_data_moved { (data, new_data) } else { (meta, new_meta) };
        std::fs::rename(from, to).unwrap();
        drop(store);
        let store = open(&place);
        assert_eq!((store.report("DS-one", None, 9).len(), used(&store)), (1, 700));
        let left = store.left(ID, GenerationStamp(1005)).unwrap().expect("it is there");
        assert_eq!((left.length, read(&store)), (700, content(700)));
        store.end_left(ID, GenerationStamp(1005), 700).unwrap();
        assert_eq!(read(&store), content(700));
    }
}
