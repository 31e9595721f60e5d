//! Files that are made shorter: at once, or once their replicas are cut.

use super::*;
use crate::wire::proto::cluster::{Held, Recovery};

fn truncate(path: &str, length: u64) -> calls::TruncateRequest {
    calls::TruncateRequest { src: path.to_owned(), length, client_name: "client".to_owned() }
}

fn truncated(fixture: &mut Fixture, path: &str, length: u64) -> bool {
    let done: BoolResponse = fixture.call("truncate", &truncate(path, length)).unwrap();
    fixture.sync_all();
    done.result
}

fn is_closed(fixture: &mut Fixture, path: &str) -> bool {
    let request = calls::PathRequest { src: path.to_owned() };
    fixture.call::<_, BoolResponse>("isFileClosed", &request).unwrap().result
}

fn beat(fixture: &mut Fixture, number: usize, held: &[Held]) -> Vec<Recovery> {
    let request =
        HeartbeatRequest { uuid: format!("dn-{number}"), held: held.to_vec(), ..HeartbeatRequest::default() };
    fixture.cluster::<_, HeartbeatResponse>("heartbeat", &request).unwrap().recoveries
}

/// A file of two blocks.
fn two_blocks(fixture: &mut Fixture, path: &str) -> [LocatedBlock; 2] {
    let file = fixture.create(path);
    let first = fixture.add_block(path, file, None);
    numbers(&first).into_iter().for_each(|number| fixture.notice(number, &first.block, 100, false));
    let second = fixture.add_block(path, file, Some(sized(&first, 100)));
    numbers(&second).into_iter().for_each(|number| fixture.notice(number, &second.block, 50, false));
    assert!(fixture.complete(path, file, Some(sized(&second, 50))));
    fixture.sync_all();
    [first, second]
}

/// What there is of a block, said by some DataNodes; then they cut it, as they are told.
fn cut(fixture: &mut Fixture, block: &ExtendedBlock, has: &[(usize, u64, u64)]) {
    for (number, stamp, length) in has {
        let orders = beat(fixture, *number, &[]);
        let [order] = orders[..] else { panic!("{orders:?}") };
        assert_eq!((order.id, order.length), (block.id.cast_signed(), None));
        let held = Held {
            id: order.id,
            stamp: order.stamp,
            has_replica: true,
            replica_stamp: *stamp,
            length: *length,
            is_from_disk: true,
        };
        beat(fixture, *number, &[held]);
    }
    fixture.tick();
    for (number, ..) in has {
        let orders = beat(fixture, *number, &[]);
        let [Recovery { stamp, length: Some(length), .. }] = orders[..] else { panic!("{orders:?}") };
        fixture.notice(*number, &ExtendedBlock { stamp, ..block.clone() }, length, false);
    }
    fixture.tick();
}

#[test]
fn at_the_end_of_a_block_it_is_done_at_once_and_what_is_behind_goes() {
    let mut fixture = Fixture::new(3);
    let [first, second] = two_blocks(&mut fixture, "/f");
    fixture.now.wall_ms += 5_000;
    assert!(truncated(&mut fixture, "/f", 150), "it has that length");
    assert!(truncated(&mut fixture, "/f", 100) && is_closed(&mut fixture, "/f"));
    let found = fixture.locations("/f");
    assert_eq!((found.file_length, found.blocks.len(), found.blocks[0].block.id), (100, 1, first.block.id));
    assert_eq!(fixture.status("/f").unwrap().modified_ms, fixture.now.wall_ms);
    for number in 0..3 {
        let delete: Vec<i64> = fixture.heartbeat(number).delete.iter().map(|gone| gone.id).collect();
        assert_eq!(delete, [second.block.id.cast_signed()]);
    }
    assert!(truncated(&mut fixture, "/f", 0));
    assert_eq!((fixture.status("/f").unwrap().length, fixture.locations("/f").blocks.len()), (0, 0));
    fixture.state.check_counts();
}

#[test]
fn within_a_block_its_replicas_are_cut_while_readers_find_the_new_length() {
    let mut fixture = Fixture::new(3);
    let [first, _] = two_blocks(&mut fixture, "/f");
    assert!(!truncated(&mut fixture, "/f", 70) && !is_closed(&mut fixture, "/f"));
    let found = fixture.locations("/f");
    assert_eq!((found.file_length, found.is_last_complete, found.under_construction), (70, true, true));
    assert_eq!((found.blocks[0].block.length(), found.blocks[0].block.stamp), (70, first.block.stamp));
    assert_eq!((found.blocks[0].locations.len(), fixture.status("/f").unwrap().length), (3, 70));
    assert!(!truncated(&mut fixture, "/f", 70), "it is told twice");
    let (exception, text) = fixture.refused("truncate", &truncate("/f", 60));
    assert!(exception == Exception::AlreadyBeingCreated && text.contains("/f is being truncated."), "{text}");
    let stamp = first.block.stamp;
    cut(&mut fixture, &first.block, &[(0, stamp, 100), (1, stamp, 100), (2, stamp, 100)]);
    assert!(is_closed(&mut fixture, "/f") && truncated(&mut fixture, "/f", 70));
    let found = fixture.locations("/f");
    assert_eq!(
        (found.file_length, found.under_construction, found.blocks[0].locations.len()),
        (70, false, 3)
    );
    assert!(found.blocks[0].block.stamp > stamp, "what was not cut is known by its stamp");
    fixture.state.check_counts();
}

#[test]
fn a_namenode_that_starts_again_goes_on_with_it() {
    let mut fixture = Fixture::new(3);
    let [first, _] = two_blocks(&mut fixture, "/f");
    assert!(!truncated(&mut fixture, "/f", 70));
    for mut fixture in fixture.started_again(3) {
        // One has cut it before, and tells so; one has died.
        let early = ExtendedBlock { stamp: first.block.stamp + 2, ..first.block.clone() };
        let whole = |block: &ExtendedBlock, length| vec![replica(block, length, ReplicaState::Finalized)];
        fixture.report(0, true, true, whole(&early, 70));
        fixture.report(1, true, true, whole(&first.block, 100));
        assert_eq!(fixture.locations("/f").file_length, 70);
        fixture.tick();
        fixture.sync_all();
        cut(&mut fixture, &first.block, &[(0, early.stamp, 70), (1, first.block.stamp, 100)]);
        assert!(is_closed(&mut fixture, "/f"));
        assert_eq!((fixture.locations("/f").file_length, fixture.status("/f").unwrap().length), (70, 70));
    }
}

#[test]
fn what_cannot_be_truncated_is_refused_as_hdfs_does_it() {
    let mut fixture = Fixture::new(9);
    two_blocks(&mut fixture, "/f");
    fixture.mkdir("/d");
    fixture.create("/open");
    let coded = calls::CreateRequest { policy: Some("RS-6-3-1024k".to_owned()), ..create("/coded", 1) };
    let _: calls::FileInfoResponse = fixture.call("create", &coded).unwrap();
    for (path, length, exception, text) in [
        ("/none", 1, Exception::FileNotFound, "File does not exist: /none"),
        ("/d", 1, Exception::FileNotFound, "Path is not a file: /d"),
        ("/f", 151, Exception::HadoopIllegalArgument, "Current size: 150, truncate size: 151."),
        ("/f", u64::MAX, Exception::HadoopIllegalArgument, "Cannot truncate to a larger file size."),
        ("/open", 0, Exception::AlreadyBeingCreated, "Failed to TRUNCATE_FILE /open for client"),
        ("/coded", 0, Exception::UnsupportedOperation, "Cannot truncate file with striped block /coded"),
    ] {
        let refused = fixture.refused("truncate", &truncate(path, length));
        assert!(refused.0 == exception && refused.1.contains(text), "{path} {length}: {refused:?}");
    }
    fixture.user = user("eve", &[]);
    assert_eq!(fixture.refused("truncate", &truncate("/f", 1)).0, Exception::AccessControl);
}
