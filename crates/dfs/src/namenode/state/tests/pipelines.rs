//! Writers that go on after a DataNode of their pipeline has failed.

use super::*;

fn stamp_for(block: &ExtendedBlock) -> calls::UpdateBlockRequest {
    calls::UpdateBlockRequest { block: block.clone(), client_name: "client".to_owned() }
}

/// Goes on with a block of another stamp and length on these DataNodes; "null" for none.
pub(super) fn update(
    old: &ExtendedBlock,
    stamp: u64,
    length: u64,
    nodes: &[Option<usize>],
) -> calls::UpdatePipelineRequest {
    let uuid = |node: &Option<usize>| node.map_or("null".to_owned(), |node| format!("dn-{node}"));
    calls::UpdatePipelineRequest {
        client_name: "client".to_owned(),
        old: old.clone(),
        new: ExtendedBlock { stamp, length: Some(length), ..old.clone() },
        nodes: nodes.iter().map(|node| DatanodeId { uuid: uuid(node), ..DatanodeId::default() }).collect(),
        storage_ids: nodes
            .iter()
            .map(|node| node.map_or(String::new(), |node| format!("DS-{node}")))
            .collect(),
    }
}

pub(super) fn new_stamp(fixture: &mut Fixture, block: &ExtendedBlock) -> LocatedBlock {
    let given: calls::UpdateBlockResponse =
        fixture.call("updateBlockForPipeline", &stamp_for(block)).unwrap();
    given.block
}

#[test]
fn a_writer_goes_on_with_a_later_stamp_and_what_missed_it_does_not_count() {
    let mut fixture = Fixture::new(3);
    let file = fixture.create("/d/f");
    let located = fixture.add_block("/d/f", file, None);
    // The directory is renamed meanwhile: a writer is known by its block.
    let _: calls::Empty = fixture.call("rename2", &rename("/d", "/e", false)).unwrap();
    let given = new_stamp(&mut fixture, &located.block);
    assert_eq!((given.block.id, given.block.stamp), (located.block.id, located.block.stamp + 1));
    assert_eq!((given.offset, given.locations.len(), given.indices.clone()), (u64::MAX, 0, None));
    let [left, lost, also_left] = numbers(&located)[..] else { panic!("it is on three") };
    let request = update(&located.block, given.block.stamp, 500, &[Some(left), Some(also_left)]);
    let _: calls::Empty = fixture.call_as(77, "updatePipeline", &request).unwrap();
    // The answer was lost, and the client asks again.
    let _: calls::Empty = fixture.call_as(77, "updatePipeline", &request).unwrap();
    let open = fixture.locations("/e/f").last_block.unwrap();
    assert_eq!((open.block.stamp, open.block.length()), (given.block.stamp, 500));
    let mut writers = numbers(&open);
    writers.sort_unstable();
    let mut expected = vec![left, also_left];
    expected.sort_unstable();
    assert_eq!(writers, expected, "readers are sent to where it goes on");

    let last = ExtendedBlock { length: Some(700), ..given.block.clone() };
    fixture.notice(lost, &located.block, 700, false);
    assert!(!fixture.complete("/e/f", file, Some(last.clone())), "that one missed the new stamp");
    fixture.notice(left, &given.block, 700, false);
    assert_eq!(
        fixture.refused("complete", &complete("/e/f", file, Some(sized(&located, 700)))).0,
        Exception::Io
    );
    assert!(fixture.complete("/e/f", file, Some(last)));
    assert_eq!(numbers(&fixture.locations("/e/f").blocks[0]), [left]);
}

#[test]
fn no_stamp_is_given_out_twice_also_after_a_restart() {
    let mut fixture = Fixture::new(3);
    let file = fixture.create("/f");
    let located = fixture.add_block("/f", file, None);
    let first = new_stamp(&mut fixture, &located.block).block.stamp;
    let second = new_stamp(&mut fixture, &located.block).block.stamp;
    assert_eq!((first, second), (located.block.stamp + 1, located.block.stamp + 2));
    let _: calls::Empty =
        fixture.call("updatePipeline", &update(&located.block, second, 9, &[Some(0)])).unwrap();
    let (image, records) = (fixture.state.image(), fixture.state.take_records());
    for from_image in [false, true] {
        let mut state = State::new(rules());
        if from_image {
            image.records().for_each(|record| state.apply(&record));
        } else {
            records.iter().for_each(|record| state.apply(record));
        }
        assert_eq!(fingerprint(&state), fingerprint(&fixture.state));
        let mut restarted = Fixture::of(state);
        (0..3).for_each(|number| restarted.register(number));
        restarted.state.safe_mode.leave();
        let block = ExtendedBlock { stamp: second, ..located.block.clone() };
        assert_eq!(new_stamp(&mut restarted, &block).block.stamp, second + 1);
    }
}

#[test]
fn an_older_pipeline_another_writer_and_a_block_that_has_ended_are_refused() {
    let mut fixture = Fixture::new(3);
    let file = fixture.create("/f");
    let located = fixture.add_block("/f", file, None);
    let block = &located.block;
    let given = new_stamp(&mut fixture, block).block.stamp;
    let nodes = [Some(0), Some(1)];
    let _: calls::Empty = fixture.call("updatePipeline", &update(block, given, 500, &nodes)).unwrap();
    let later = new_stamp(&mut fixture, block).block.stamp;
    let other = ExtendedBlock { id: block.id + 9, ..block.clone() };
    for (what, request) in [
        ("the same stamp", update(block, given, 500, &nodes)),
        ("an older stamp", update(block, block.stamp, 500, &nodes)),
        ("one that nobody has given", update(block, later + 1, 500, &nodes)),
        ("fewer bytes", update(block, later, 499, &nodes)),
        ("more than a block has", update(block, later, MIB + 1, &nodes)),
        ("no such block", update(&other, later, 500, &nodes)),
    ] {
        assert_eq!(fixture.refused("updatePipeline", &request).0, Exception::Io, "{what}");
    }
    let of_other = |client_name: &str| calls::UpdatePipelineRequest {
        client_name: client_name.to_owned(),
        ..update(block, later, 500, &nodes)
    };
    assert_eq!(fixture.refused("updatePipeline", &of_other("other")).0, Exception::LeaseExpired);
    let request = calls::UpdateBlockRequest { client_name: "other".to_owned(), ..stamp_for(block) };
    assert_eq!(fixture.refused("updateBlockForPipeline", &request).0, Exception::LeaseExpired);
    assert_eq!(fixture.refused("updateBlockForPipeline", &stamp_for(&other)).0, Exception::Io);
    // It has ended, and then its file.
    let last = ExtendedBlock { stamp: given, length: Some(600), ..block.clone() };
    fixture.notice(0, &last, 600, false);
    fixture.add_block("/f", file, Some(last.clone()));
    let refused = fixture.refused("updateBlockForPipeline", &stamp_for(block));
    assert!(refused.1.contains("Unexpected BlockUCState"), "{refused:?}");
    let whole = fixture.write("/g", 10);
    assert_eq!(
        fixture.refused("updateBlockForPipeline", &stamp_for(&whole.block)).0,
        Exception::LeaseExpired
    );
}

#[test]
fn another_datanode_joins_where_there_is_one_and_the_client_knows_if_not() {
    let mut fixture = Fixture::new(5);
    let file = fixture.create("/f");
    let located = fixture.add_block("/f", file, None);
    let existing = &located.locations[..2];
    let ask = |excluded: &[usize], count| calls::AdditionalDatanodeRequest {
        src: "/f".to_owned(),
        block: located.block.clone(),
        existing: existing.to_vec(),
        existing_storage_ids: located.storage_ids[..2].to_vec(),
        excluded: excluded
            .iter()
            .map(|node| DatanodeInfo {
                id: DatanodeId { uuid: format!("dn-{node}"), ..DatanodeId::default() },
                ..DatanodeInfo::default()
            })
            .collect(),
        count,
        client_name: "client".to_owned(),
        file_id: Some(file),
    };
    let there = &numbers(&located)[..2];
    let free: Vec<usize> = (0..5).filter(|node| !there.contains(node)).collect();
    let early = fixture.refused("getAdditionalDatanode", &ask(&free, 1));
    assert_eq!(early.0, Exception::TooFewDatanodes, "there may be another one in a moment");
    fixture.now.steady_ms += 10_000;
    (0..5).for_each(|node| drop(fixture.heartbeat(node)));
    let mut answer = |excluded: &[usize], count| {
        let given: calls::AdditionalDatanodeResponse =
            fixture.call("getAdditionalDatanode", &ask(excluded, count)).unwrap();
        let block = given.block;
        assert_eq!(block.locations.len(), block.storage_ids.len());
        assert_eq!(
            (block.storage_types.len(), block.is_cached.len()),
            (block.locations.len(), block.locations.len())
        );
        let numbers = numbers(&block);
        assert_eq!(numbers[..2], *there, "those that are in it come first, in their order");
        assert_eq!(block.block, located.block);
        numbers[2..].to_vec()
    };
    assert_eq!(answer(&free[1..], 1), free[..1]);
    assert_eq!(answer(&free, 1), [] as [usize; 0]);
    let mut all = answer(&[], 9);
    all.sort_unstable();
    assert_eq!(all, free, "each once");
}

#[test]
fn a_coded_writer_goes_on_without_the_units_that_it_has_lost() {
    let mut fixture = Fixture::new(9);
    let made: calls::FileInfoResponse =
        fixture.call("create", &super::striped::coded("/f", super::striped::RS_6_3)).unwrap();
    let file = made.status.unwrap().id.unwrap();
    let located = fixture.add_block("/f", file, None);
    let given = new_stamp(&mut fixture, &located.block);
    assert_eq!(given.indices.as_deref(), Some(&[0, 1, 2, 3, 4, 5, 6, 7, 8][..]));
    assert_eq!(given.tokens.len(), 9, "the client looks for the token of each");
    let nodes: Vec<Option<usize>> =
        numbers(&located).into_iter().enumerate().map(|(at, node)| (at != 1).then_some(node)).collect();
    let _: calls::Empty =
        fixture.call("updatePipeline", &update(&located.block, given.block.stamp, 0, &nodes)).unwrap();
    let open = fixture.locations("/f").last_block.unwrap();
    assert_eq!(open.indices.as_deref(), Some(&[0, 2, 3, 4, 5, 6, 7, 8][..]), "each unit stays where it was");
    let expected: Vec<usize> = nodes.into_iter().flatten().collect();
    assert_eq!(numbers(&open), expected);
}
