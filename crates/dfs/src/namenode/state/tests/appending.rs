//! Files that are written to again once they were closed.

use super::*;
use crate::wire::proto::shared::DatanodeId;

const NEW_BLOCK: u32 = 0x24;

fn request(path: &str, flags: Option<u32>) -> calls::AppendRequest {
    calls::AppendRequest { src: path.to_owned(), client_name: "client".to_owned(), flags }
}

/// The answer to a writer that appends, with the number of its file.
fn append(fixture: &mut Fixture, path: &str, flags: Option<u32>) -> (Option<LocatedBlock>, u64) {
    let answer: calls::AppendResponse = fixture.call("append", &request(path, flags)).unwrap();
    (answer.block, answer.status.unwrap().id.unwrap())
}

fn is_closed(fixture: &mut Fixture, path: &str) -> bool {
    let request = calls::PathRequest { src: path.to_owned() };
    fixture.call::<_, BoolResponse>("isFileClosed", &request).unwrap().result
}

/// Brings a block to the stamp of another pipeline, on some DataNodes; the block as it is then.
fn begin_pipeline(fixture: &mut Fixture, block: &ExtendedBlock, on: &[usize]) -> ExtendedBlock {
    let client_name = "client".to_owned();
    let update = calls::UpdateBlockRequest { block: block.clone(), client_name: client_name.clone() };
    let stamped: calls::UpdateBlockResponse = fixture.call("updateBlockForPipeline", &update).unwrap();
    let new = ExtendedBlock { stamp: stamped.block.block.stamp, ..block.clone() };
    let node = |number: &usize| DatanodeId { uuid: format!("dn-{number}"), ..DatanodeId::default() };
    let update = calls::UpdatePipelineRequest {
        client_name,
        old: block.clone(),
        new: new.clone(),
        nodes: on.iter().map(node).collect(),
        storage_ids: on.iter().map(|number| format!("DS-{number}")).collect(),
    };
    let _: calls::Empty = fixture.call("updatePipeline", &update).unwrap();
    new
}

#[test]
fn a_writer_goes_on_within_the_last_block_and_what_it_had_can_be_read_all_the_time() {
    let mut fixture = Fixture::new(3);
    let before = fixture.write("/f", 100);
    let (block, file) = append(&mut fixture, "/f", None);
    let block = block.expect("it is not full");
    assert_eq!((block.block.id, block.block.stamp), (before.block.id, before.block.stamp));
    assert_eq!((block.block.length(), block.locations.len(), block.offset), (100, 3, 0));
    assert!(!is_closed(&mut fixture, "/f") && fixture.status("/f").unwrap().length == 100);
    let found = fixture.locations("/f");
    let last = found.last_block.unwrap();
    assert_eq!((found.under_construction, found.is_last_complete, last.locations.len()), (true, false, 3));
    // One DataNode misses it.
    let new = begin_pipeline(&mut fixture, &block.block, &[0, 1]);
    assert!(new.stamp > block.block.stamp);
    [0, 1].into_iter().for_each(|number| fixture.notice(number, &new, 130, false));
    assert!(fixture.complete("/f", file, Some(ExtendedBlock { length: Some(130), ..new.clone() })));
    let found = fixture.locations("/f");
    assert_eq!((found.file_length, found.blocks[0].locations.len()), (130, 2), "the third has what it had");
    assert!(is_closed(&mut fixture, "/f"));
    fixture.sync_all();
    for (number, block, length) in [(0, &new, 130), (1, &new, 130), (2, &block.block, 100)] {
        fixture.report(number, true, true, vec![replica(block, length, ReplicaState::Finalized)]);
    }
    fixture.tick();
    let deleted: Vec<u64> = fixture.heartbeat(2).delete.iter().map(|gone| gone.stamp).collect();
    assert_eq!(deleted, [block.block.stamp]);
    fixture.state.check_counts();
}

#[test]
fn behind_a_full_block_and_for_a_block_of_its_own_a_writer_gets_another_one() {
    let mut fixture = Fixture::new(3);
    let full = fixture.write("/full", MIB);
    let (block, file) = append(&mut fixture, "/full", None);
    assert!(block.is_none());
    // It names no block before the new one, and asks twice.
    let added = fixture.add_block("/full", file, None);
    assert_eq!(fixture.add_block("/full", file, None).block, added.block);
    assert!(added.offset == MIB && added.block.id != full.block.id);
    numbers(&added).into_iter().for_each(|number| fixture.notice(number, &added.block, 7, false));
    assert!(fixture.complete("/full", file, Some(sized(&added, 7))));
    assert_eq!(fixture.locations("/full").file_length, MIB + 7);

    let short = fixture.write("/short", 100);
    let (block, file) = append(&mut fixture, "/short", Some(NEW_BLOCK));
    let block = block.expect("the one before").block;
    assert_eq!((block.id, block.length()), (short.block.id, 100));
    let added = fixture.add_block("/short", file, Some(block));
    assert_eq!(added.offset, 100);
    numbers(&added).into_iter().for_each(|number| fixture.notice(number, &added.block, 7, false));
    assert!(fixture.complete("/short", file, Some(sized(&added, 7))));
    assert_eq!(fixture.locations("/short").file_length, 107);
    // None of it has to be written.
    let (_, file) = append(&mut fixture, "/short", None);
    assert!(fixture.complete("/short", file, Some(sized(&added, 7))) && is_closed(&mut fixture, "/short"));
    let refused = fixture.refused("addBlock", &add_block("/short", file, None));
    assert_eq!(refused.0, Exception::LeaseExpired);
    fixture.state.check_counts();
}

#[test]
fn a_block_is_not_added_behind_one_that_is_not_full() {
    let mut fixture = Fixture::new(3);
    fixture.write("/f", 100);
    let (_, file) = append(&mut fixture, "/f", Some(NEW_BLOCK));
    let (_, text) = fixture.refused("addBlock", &add_block("/f", file, None));
    assert!(text.contains("Cannot allocate block in /f"), "{text}");
}

#[test]
fn the_answer_is_kept_for_who_asks_twice_and_a_namenode_that_starts_again_knows_the_writer() {
    let mut fixture = Fixture::new(3);
    fixture.write("/f", 100);
    let first: calls::AppendResponse = fixture.call_as(77, "append", &request("/f", None)).unwrap();
    let again: calls::AppendResponse = fixture.call_as(77, "append", &request("/f", None)).unwrap();
    assert_eq!(first, again);
    let block = first.block.unwrap().block;
    for mut fixture in fixture.started_again(3) {
        let (file, new) =
            (fixture.status("/f").unwrap().id.unwrap(), begin_pipeline(&mut fixture, &block, &[0, 1, 2]));
        (0..3).for_each(|number| fixture.notice(number, &new, 130, false));
        assert!(fixture.complete("/f", file, Some(ExtendedBlock { length: Some(130), ..new })));
    }
}

#[test]
fn what_cannot_be_appended_to_is_refused_as_hdfs_does_it() {
    let mut fixture = Fixture::new(9);
    let located = fixture.write("/f", 100);
    fixture.mkdir("/d");
    fixture.create("/open");
    let coded = calls::CreateRequest { policy: Some("RS-6-3-1024k".to_owned()), ..create("/coded", 1) };
    let coded: calls::FileInfoResponse = fixture.call("create", &coded).unwrap();
    assert!(fixture.complete("/coded", coded.status.unwrap().id.unwrap(), None));
    for (path, exception, text) in [
        ("/none", Exception::FileNotFound, "Failed to append to non-existent file /none for client 10.9.9.9"),
        ("/d", Exception::FileAlreadyExists, "Cannot append to directory /d; already exists as a directory."),
        ("/open", Exception::AlreadyBeingCreated, "Failed to APPEND_FILE /open for client"),
        ("/coded", Exception::UnsupportedOperation, "NEW_BLOCK"),
    ] {
        let refused = fixture.refused("append", &request(path, None));
        assert!(refused.0 == exception && refused.1.contains(text), "{path}: {refused:?}");
    }
    assert_eq!(append(&mut fixture, "/coded", Some(NEW_BLOCK)).0, None);
    // No DataNode has it any more.
    numbers(&located).into_iter().for_each(|number| fixture.notice(number, &located.block, 100, true));
    let (_, text) = fixture.refused("append", &request("/f", None));
    assert!(text.contains("of src=/f is not sufficiently replicated yet."), "{text}");
    fixture.user = user("eve", &[]);
    assert_eq!(fixture.refused("append", &request("/f", None)).0, Exception::AccessControl);
}
