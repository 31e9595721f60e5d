//! Files as they are written: blocks, writers, targets.

use super::*;

#[test]
fn a_file_is_written_block_by_block_and_read_where_it_is() {
    let mut fixture = Fixture::new(4);
    let file = fixture.create("/d/f");
    let first = fixture.add_block("/d/f", file, None);
    assert_eq!((first.offset, first.locations.len(), first.storage_ids.len()), (0, 3, 3));
    for number in numbers(&first) {
        fixture.notice(number, &first.block, MIB, false);
    }
    let second = fixture.add_block("/d/f", file, Some(sized(&first, MIB)));
    assert_eq!(
        (second.offset, second.block.id, second.block.stamp),
        (MIB, first.block.id + 1, first.block.stamp + 1)
    );
    let last = sized(&second, 700);
    assert!(!fixture.complete("/d/f", file, Some(last.clone())), "no node has the last block");
    let open = fixture.locations("/d/f");
    assert_eq!((open.file_length, open.under_construction, open.is_last_complete), (MIB, true, false));
    let writers = numbers(open.last_block.as_ref().unwrap());
    assert_eq!(writers.len(), 3, "readers of an open file ask the nodes that are written to");
    fixture.notice(numbers(&second)[1], &second.block, 699, false);
    assert!(!fixture.complete("/d/f", file, Some(last.clone())), "a byte is missing");
    fixture.notice(numbers(&second)[2], &second.block, 700, false);
    assert!(fixture.complete("/d/f", file, Some(last.clone())));
    assert!(fixture.complete("/d/f", file, Some(last)), "the answer was lost, and the client asks again");

    let closed = fixture.locations("/d/f");
    assert_eq!(
        (closed.file_length, closed.under_construction, closed.is_last_complete),
        (MIB + 700, false, true)
    );
    let found: Vec<_> = closed.blocks.iter().map(|block| (block.offset, block.locations.len())).collect();
    assert_eq!(found, [(0, 3), (MIB, 1)]);
    let summary = calls::PathRequest { src: "/".to_owned() };
    let summary =
        fixture.call::<_, calls::ContentSummaryResponse>("getContentSummary", &summary).unwrap().summary;
    assert_eq!((summary.length, summary.space_consumed), (MIB + 700, 3 * (MIB + 700)));
    assert_eq!((summary.files, summary.directories), (1, 2));
}

#[test]
fn a_client_that_asks_again_for_a_block_gets_the_same_one() {
    let mut fixture = Fixture::new(3);
    let file = fixture.create("/f");
    let first = fixture.add_block("/f", file, None);
    let again = fixture.add_block("/f", file, None);
    assert_eq!(first, again);
    // After a restart nobody knows where it was sent.
    let mut state = State::new(rules());
    fixture.state.image().records().for_each(|record| state.apply(&record));
    let mut restarted = Fixture::of(state);
    (0..3).for_each(|number| restarted.register(number));
    restarted.state.safe_mode.leave();
    let again = restarted.add_block("/f", file, None);
    assert_eq!((again.block, again.locations.len()), (first.block.clone(), 3));
    let unstored = add_block("/f", file, Some(sized(&first, 5)));
    let second: calls::AddBlockResponse = fixture.call("addBlock", &unstored).unwrap();
    let third = add_block("/f", file, Some(sized(&second.block, 5)));
    assert_eq!(
        fixture.refused("addBlock", &third).0,
        Exception::NotReplicatedYet,
        "the first block is nowhere"
    );
    let again: calls::AddBlockResponse = fixture.call("addBlock", &unstored).unwrap();
    assert_eq!(again, second);
    fixture.notice(numbers(&first)[0], &first.block, 5, false);
    let unrelated = ExtendedBlock { id: 99, ..sized(&first, 5) };
    assert_eq!(fixture.refused("addBlock", &add_block("/f", file, Some(unrelated))).0, Exception::Io);
    let stale = ExtendedBlock { stamp: 5, ..sized(&second.block, 5) };
    assert_eq!(fixture.refused("addBlock", &add_block("/f", file, Some(stale))).0, Exception::Io);
}

#[test]
fn a_writer_is_found_by_its_file_wherever_that_has_gone() {
    let mut fixture = Fixture::new(3);
    let file = fixture.create("/tmp/task/f");
    let _: calls::Empty = fixture.call("rename2", &rename("/tmp/task", "/done", false)).unwrap();
    let located = fixture.add_block("/tmp/task/f", file, None);
    fixture.notice(numbers(&located)[0], &located.block, 3, false);
    assert!(fixture.complete("/tmp/task/f", file, Some(sized(&located, 3))));
    assert_eq!(fixture.status("/done/f").unwrap().length, 3);

    let file = fixture.create("/g");
    let _: BoolResponse = fixture.call("delete", &delete("/g", false)).unwrap();
    let (exception, message) = fixture.refused("addBlock", &add_block("/g", file, None));
    assert_eq!(exception, Exception::FileNotFound);
    assert!(message.contains(&format!("(inode {file})")), "{message}");
    assert_eq!(fixture.refused("complete", &complete("/g", file, None)).0, Exception::FileNotFound);
}

#[test]
fn only_the_holder_writes_and_nobody_a_closed_file() {
    let mut fixture = Fixture::new(3);
    let file = fixture.create("/f");
    let other = calls::AddBlockRequest { client_name: "other".to_owned(), ..add_block("/f", file, None) };
    assert_eq!(fixture.refused("addBlock", &other).0, Exception::LeaseExpired);
    let second = calls::CreateRequest { client_name: "other".to_owned(), ..create("/f", 1) };
    assert_eq!(fixture.refused("create", &second).0, Exception::AlreadyBeingCreated);
    assert!(fixture.complete("/f", file, None));
    assert_eq!(fixture.refused("addBlock", &add_block("/f", file, None)).0, Exception::LeaseExpired);
    assert_eq!(fixture.refused("create", &second).0, Exception::FileAlreadyExists);
    // Over an open file of somebody else.
    let file = fixture.create("/g");
    let over = calls::CreateRequest { client_name: "other".to_owned(), ..create("/g", 3) };
    let _: calls::FileInfoResponse = fixture.call("create", &over).unwrap();
    assert_eq!(fixture.refused("addBlock", &add_block("/g", file, None)).0, Exception::FileNotFound);
}

#[test]
fn without_nodes_or_room_a_block_is_refused() {
    let mut fixture = Fixture::new(1);
    let file = fixture.create("/f");
    let info = DatanodeInfo {
        id: DatanodeId { uuid: "dn-0".to_owned(), ..DatanodeId::default() },
        ..DatanodeInfo::default()
    };
    let excluded = calls::AddBlockRequest { excluded: vec![info], ..add_block("/f", file, None) };
    let (exception, message) = fixture.refused("addBlock", &excluded);
    assert_eq!(exception, Exception::TooFewDatanodes);
    assert!(message.contains("could only be written to 0 of the 1 minReplication nodes"), "{message}");
    let large = calls::CreateRequest { block_size: 91 * MIB, ..create("/large", 1) };
    let answer: calls::FileInfoResponse = fixture.call("create", &large).unwrap();
    let large = add_block("/large", answer.status.unwrap().id.unwrap(), None);
    assert_eq!(fixture.refused("addBlock", &large).0, Exception::TooFewDatanodes);
}
