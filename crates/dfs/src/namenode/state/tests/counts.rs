//! What a cluster lacks, as it is counted, and a NameNode without memory for more.

use super::striped::unit;
use super::*;

/// Blocks with too few copies, damaged ones, and missing ones.
fn lacks(fixture: &mut Fixture) -> (u64, u64, u64) {
    let stats: calls::FsStatsResponse = fixture.call("getFsStats", &calls::Empty {}).unwrap();
    fixture.state.check_counts();
    (stats.under_replicated, stats.corrupt_blocks, stats.missing_blocks)
}

#[test]
fn blocks_are_counted_as_nodes_come_and_go() {
    let mut fixture = Fixture::new(9);
    let plain = numbers(&fixture.write("/plain", 700));
    let coded = fixture.write_coded("/coded", 6 * MIB);
    assert_eq!(lacks(&mut fixture), (0, 0, 0));
    let without = |gone: &[usize]| (0..9).filter(|node| !gone.contains(node)).collect::<Vec<_>>();
    fixture.pass(5_000, &without(&plain[..2]));
    assert_eq!(lacks(&mut fixture), (0, 0, 0), "they may come back");
    fixture.pass(6_000, &without(&plain[..2]));
    assert_eq!(lacks(&mut fixture), (2, 0, 0), "a copy is left, and seven units");
    fixture.pass(11_000, &without(&plain[..3]));
    assert_eq!(lacks(&mut fixture), (1, 0, 1));
    fixture.pass(11_000, &without(&numbers(&coded)[..4]));
    assert_eq!(lacks(&mut fixture).2, 1, "five units of nine");
    fixture.pass(1_000, &without(&[]));
    assert_eq!(lacks(&mut fixture), (0, 0, 0), "all are back");
}

#[test]
fn damaged_deleted_and_differently_replicated_blocks_are_counted() {
    let mut fixture = Fixture::new(9);
    fixture.write("/plain", 700);
    let coded = fixture.write_coded("/coded", 6 * MIB);
    let more = calls::SetReplicationRequest { src: "/plain".to_owned(), replication: 4 };
    let _: BoolResponse = fixture.call("setReplication", &more).unwrap();
    assert_eq!(lacks(&mut fixture), (1, 0, 0));
    let bad = LocatedBlock {
        block: unit(&coded, 3),
        locations: vec![coded.locations[3].clone()],
        ..LocatedBlock::default()
    };
    let _: calls::Empty =
        fixture.call("reportBadBlocks", &calls::ReportBadBlocksRequest { blocks: vec![bad] }).unwrap();
    assert_eq!(lacks(&mut fixture), (2, 1, 0));
    let _: BoolResponse = fixture.call("delete", &delete("/coded", false)).unwrap();
    assert_eq!(lacks(&mut fixture), (1, 0, 0));
    let _: BoolResponse = fixture.call("delete", &delete("/plain", false)).unwrap();
    assert_eq!(lacks(&mut fixture), (0, 0, 0));
}

#[test]
fn without_memory_nothing_is_added_and_what_is_there_can_be_deleted() {
    let mut fixture = Fixture::new(3);
    fixture.write("/f", 700);
    let file = fixture.create("/open");
    let bytes = fixture.state.bytes();
    fixture.state.set_may_grow(false);
    let refusals = [
        fixture.refused("mkdirs", &mkdirs("/d", 0o755, true)),
        fixture.refused("create", &create("/g", 1)),
        fixture.refused("addBlock", &add_block("/open", file, None)),
    ];
    for (exception, message) in refusals {
        assert_eq!(exception, Exception::Io);
        assert!(message.contains("more --memory"), "{message}");
    }
    assert!(fixture.complete("/open", file, None));
    assert!(fixture.exists("/f"));
    let _: BoolResponse = fixture.call("delete", &delete("/f", false)).unwrap();
    assert!(fixture.state.bytes() < bytes, "its inode and its block are gone");
    fixture.state.set_may_grow(true);
    fixture.mkdir("/d");
}
