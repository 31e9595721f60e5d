//! Goal: the NameNode answers however much has changed, and repairs leave DataNodes to their clients. Method: more blocks change than one
//! tick looks at, and more groups lack a unit than may be mended at a time.

use super::*;
use crate::namenode::AdminState;
use crate::namenode::hosts::Hosts;

/// Blocks that one tick looks at.
const PER_TICK: usize = 20_000;
/// More of them.
const MANY: usize = 25_000;
/// Repairs of large blocks that read from one DataNode.
const LARGE_READS: usize = 16;
/// Bytes of a group of which so many are more than repairs may read from a DataNode.
const GROUP_BYTES: u64 = 12 * MIB;

/// Files of one block, each on all three DataNodes, which were looked at since; the blocks.
fn many_files() -> (Fixture, Vec<ExtendedBlock>) {
    let mut fixture = Fixture::new(3);
    (0..3).for_each(|number| fixture.report(number, true, true, Vec::new()));
    let blocks = (0..MANY).map(|number| fixture.write(&format!("/d{}/f{number}", number / 1000), 100).block);
    let blocks = blocks.collect();
    (0..3).for_each(|_| fixture.tick());
    (fixture, blocks)
}

/// Puts DataNodes into maintenance.
fn pause(fixture: &mut Fixture, numbers: &[usize]) {
    let host = |number: &usize| format!(r#"{{"hostName": "host-{number}", "adminState": "IN_MAINTENANCE"}}"#);
    let hosts: Vec<String> = numbers.iter().map(host).collect();
    fixture.state.set_hosts(Hosts::of_json(&hosts.join("\n")).unwrap(), fixture.now);
}

fn is_paused(fixture: &Fixture, number: usize) -> bool {
    let handle = fixture.state.datanodes.by_uuid(&format!("dn-{number}")).unwrap();
    matches!(fixture.state.datanodes.node(handle).admin, AdminState::InMaintenance { .. })
}

#[test]
fn the_loss_of_a_datanode_with_many_blocks_holds_nobody_up_for_all_of_them() {
    let (mut fixture, _) = many_files();
    assert_eq!(fixture.state.repairs().0, 0);
    fixture.now.steady_ms += 60_000;
    (0..2).for_each(|number| drop(fixture.heartbeat(number)));
    fixture.tick();
    let counted = fixture.state.blocks.lacks().total().under_replicated;
    assert!((1..=PER_TICK as u64).contains(&counted), "one tick counts {counted} blocks");
    let found = fixture.state.repairs().0;
    assert!((1..=PER_TICK).contains(&found), "one tick looks at {found} blocks");
    fixture.tick();
    assert_eq!(fixture.state.repairs().0, MANY, "the next one goes on");
    assert_eq!(fixture.state.blocks.lacks().total().under_replicated, MANY as u64);
}

#[test]
fn a_datanode_with_many_blocks_may_go_once_all_were_looked_at() {
    let (mut fixture, blocks) = many_files();
    pause(&mut fixture, &[0]);
    (1..3).for_each(|number| fixture.notice(number, &blocks[0], 100, true));
    for _ in 0..6 {
        fixture.tick();
        assert!(!is_paused(&fixture, 0), "its copy is the only one");
    }
    (1..3).for_each(|number| fixture.notice(number, &blocks[0], 100, false));
    fixture.tick();
    assert!(!is_paused(&fixture, 0), "one tick does not look at all that it has");
    (0..4).for_each(|_| fixture.tick());
    assert!(is_paused(&fixture, 0));
}

#[test]
fn no_datanode_may_go_that_has_the_only_copy_of_a_block_that_was_whole_when_it_was_looked_at() {
    let (mut fixture, blocks) = many_files();
    pause(&mut fixture, &[0]);
    fixture.tick();
    // It was among the first; the rest is looked at with the next tick.
    (1..3).for_each(|number| fixture.notice(number, &blocks[0], 100, true));
    for _ in 0..4 {
        fixture.tick();
        assert!(!is_paused(&fixture, 0), "its copy is the only one");
    }
}

#[test]
fn repairs_of_large_groups_leave_the_datanodes_that_are_read_to_others() {
    let mut fixture = Fixture::new(9);
    for number in 0..100 {
        let located = fixture.write_coded(&format!("/f{number}"), GROUP_BYTES);
        let lost = number % 9;
        fixture.notice(numbers(&located)[usize::from(lost)], &striped::unit(&located, lost), 2 * MIB, true);
    }
    // So many could work at them that all would be mended at once.
    (9..99).for_each(|number| fixture.register(number));
    let mut reads = std::collections::BTreeMap::<String, usize>::new();
    for _ in 0..6 {
        fixture.now.steady_ms += 1_000;
        fixture.tick();
        for number in 0..99 {
            let held = fixture.state.orders.iter().filter(|order| order.is_given).map(|order| order.number);
            let held: Vec<u64> = held.collect();
            for repair in fixture.beat(number, held).repairs {
                for source in repair.sources {
                    *reads.entry(source.uuid).or_default() += 1;
                }
            }
        }
    }
    let most = reads.values().max().copied();
    assert_eq!(most, Some(LARGE_READS), "repairs that read from one DataNode at a time: {reads:?}");
}

#[test]
fn a_copy_is_made_though_one_of_those_that_have_it_is_read_by_as_many_as_may_be() {
    let mut fixture = Fixture::new(9);
    for number in 0..LARGE_READS {
        let located = fixture.write_coded(&format!("/coded{number}"), GROUP_BYTES);
        let at = numbers(&located).iter().position(|holder| *holder == 8).unwrap() as u8;
        fixture.notice(8, &striped::unit(&located, at), 2 * MIB, true);
    }
    (9..99).for_each(|number| fixture.register(number));
    let repairs = |fixture: &mut Fixture| {
        fixture.now.steady_ms += 1_100;
        fixture.tick();
        let mut given = Vec::new();
        for number in 0..99 {
            let held = fixture.state.orders.iter().filter(|order| order.is_given).map(|order| order.number);
            let held = held.collect();
            given.extend(fixture.beat(number, held).repairs.into_iter().map(|repair| (number, repair)));
        }
        given
    };
    let of_groups: Vec<_> = (0..3).flat_map(|_| repairs(&mut fixture)).collect();
    assert_eq!(of_groups.len(), LARGE_READS, "each of them reads from DataNode 0");
    let located = fixture.write("/copied", 100);
    let (busy, idle) = (0, 98);
    numbers(&located).into_iter().for_each(|number| fixture.notice(number, &located.block, 100, true));
    [busy, idle].into_iter().for_each(|number| fixture.notice(number, &located.block, 100, false));
    let given: Vec<_> = (0..3).flat_map(|_| repairs(&mut fixture)).collect();
    let [(worker, repair)] = &given[..] else { panic!("a repair of the copy: {given:?}") };
    let sources: Vec<_> = repair.sources.iter().map(|source| source.uuid.as_str()).collect();
    assert_eq!((*worker, sources), (idle, vec!["dn-98"]), "the other one has enough to do");
}

#[test]
fn units_that_share_a_datanode_move_to_one_that_is_to_stay_after_all() {
    let mut fixture = Fixture::new(8);
    let set_hosts = |fixture: &mut Fixture, excluded: &str| {
        fixture.state.set_hosts(Hosts::of_lists("", excluded).unwrap(), fixture.now);
    };
    set_hosts(&mut fixture, "host-7");
    let located = fixture.write_coded("/f", GROUP_BYTES);
    assert!(!numbers(&located).contains(&7));
    let all: Vec<usize> = (0..8).collect();
    let targets = |told: Vec<(usize, HeartbeatResponse)>| {
        let repairs = told.into_iter().flat_map(|(_, response)| response.repairs);
        repairs.flat_map(|repair| repair.targets).map(|target| target.uuid).collect::<Vec<_>>()
    };
    assert_eq!(targets(fixture.pass(20_000, &all)), [""; 0], "there is no place for them");
    set_hosts(&mut fixture, "");
    assert_eq!(targets(fixture.pass(5_000, &all)), ["dn-7"]);
}
