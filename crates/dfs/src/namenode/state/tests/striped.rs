//! Goal: erasure-coded files are laid out, found and refused as in HDFS, and what they lose is made anew. Method: as in the
//! file above.

use super::*;
use crate::wire::proto::cluster::Repair;
use crate::wire::proto::shared::LocatedBlocks;

pub(super) const RS_6_3: &str = "RS-6-3-1024k";

pub(super) fn coded(path: &str, policy: &str) -> calls::CreateRequest {
    calls::CreateRequest { policy: Some(policy.to_owned()), block_size: 2 * MIB, ..create(path, 1) }
}

fn policy_of(path: &str, policy: &str) -> calls::PolicyRequest {
    calls::PolicyRequest { src: path.to_owned(), policy: Some(policy.to_owned()) }
}

/// The internal block of a unit.
pub(super) fn unit(located: &LocatedBlock, index: u8) -> ExtendedBlock {
    ExtendedBlock { id: located.block.id + u64::from(index), ..located.block.clone() }
}

impl Fixture {
    /// Writes a file of one group by RS-6-3: its unit of each index is on the node of the same place in the answer.
    pub(super) fn write_coded(&mut self, path: &str, length: u64) -> LocatedBlock {
        let answer: calls::FileInfoResponse = self.call("create", &coded(path, RS_6_3)).unwrap();
        let file = answer.status.unwrap().id.unwrap();
        let located = self.add_block(path, file, None);
        for (index, node) in (0..).zip(numbers(&located)) {
            let bytes = unit_length(length, index);
            if bytes > 0 {
                self.notice(node, &unit(&located, index), bytes, false);
            }
        }
        assert!(self.complete(path, file, Some(sized(&located, length))));
        located
    }

    /// Lets time pass in which only some DataNodes are heard of; what they are told. They work at that as long.
    pub(super) fn pass(&mut self, ms: u64, alive: &[usize]) -> Vec<(usize, HeartbeatResponse)> {
        let (mut told, mut work) = (Vec::new(), std::collections::BTreeMap::<usize, Vec<u64>>::new());
        for _ in 0..ms / 500 {
            self.now.steady_ms += 500;
            for node in alive {
                let numbers = work.entry(*node).or_default();
                let response = self.beat(*node, numbers.clone());
                numbers.extend(response.repairs.iter().map(|repair| repair.number));
                told.push((*node, response));
            }
            self.tick();
        }
        told
    }

    pub(super) fn beat(&mut self, number: usize, repairs: Vec<u64>) -> HeartbeatResponse {
        let uuid = format!("dn-{number}");
        self.cluster("heartbeat", &HeartbeatRequest { uuid, repairs, ..HeartbeatRequest::default() }).unwrap()
    }

    fn report_nothing_new(&mut self, located: &LocatedBlock, length: u64) {
        for (index, node) in (0..).zip(numbers(located)) {
            let of_it = replica(&unit(located, index), unit_length(length, index), ReplicaState::Finalized);
            self.report(node, true, true, vec![of_it]);
        }
    }
}

fn unit_length(length: u64, index: u8) -> u64 {
    let geometry = crate::policy::geometry_of(RS_6_3).unwrap();
    geometry.unit_len(length, yeoul_erasure::UnitIndex(index))
}

fn orders(told: &[(usize, HeartbeatResponse)]) -> Vec<(usize, Repair)> {
    let of = |(node, response): &(usize, HeartbeatResponse)| {
        response.repairs.iter().map(|repair| (*node, repair.clone())).collect::<Vec<_>>()
    };
    told.iter().flat_map(of).collect()
}

fn places(located: &LocatedBlocks) -> Vec<(u8, usize)> {
    let block = &located.blocks[0];
    block.indices.as_ref().unwrap().iter().copied().zip(numbers(block)).collect()
}

#[test]
fn a_group_is_written_to_nine_nodes_and_found_by_its_units() {
    let mut fixture = Fixture::new(11);
    let answer: calls::FileInfoResponse = fixture.call("create", &coded("/f", RS_6_3)).unwrap();
    let status = answer.status.unwrap();
    assert_eq!((status.policy.unwrap().id, status.replication, status.flags), (1, Some(1), Some(4)));
    let file = status.id.unwrap();
    let located = fixture.add_block("/f", file, None);
    assert_eq!(located.block.id, 9_223_372_036_854_775_824, "HDFS's first group");
    assert_eq!(located.indices.as_deref(), Some(&[0, 1, 2, 3, 4, 5, 6, 7, 8][..]));
    let counts = (located.locations.len(), located.storage_ids.len(), located.tokens.len());
    assert_eq!(counts, (9, 9, 9));
    // Two cells and 5 bytes: three data units hold something.
    let length = 2 * MIB + 5;
    let last = sized(&located, length);
    for index in [0, 1] {
        fixture.notice(numbers(&located)[usize::from(index)], &unit(&located, index), MIB, false);
    }
    fixture.notice(numbers(&located)[2], &unit(&located, 2), 4, false);
    assert!(!fixture.complete("/f", file, Some(last.clone())), "unit 2 lacks a byte");
    let eighth = numbers(&located)[8];
    fixture.notice(eighth, &unit(&located, 8), MIB, false);
    assert!(fixture.complete("/f", file, Some(last)), "three units give all bytes");
    let found = fixture.locations("/f");
    assert_eq!((found.file_length, found.policy.as_ref().unwrap().id), (length, 1));
    let nodes = numbers(&located);
    assert_eq!(places(&found), [(0, nodes[0]), (1, nodes[1]), (8, nodes[8])]);
    let summary = calls::PathRequest { src: "/f".to_owned() };
    let summary =
        fixture.call::<_, calls::ContentSummaryResponse>("getContentSummary", &summary).unwrap().summary;
    assert_eq!((summary.space_consumed, summary.policy()), (length + 3 * MIB, RS_6_3));
    let set = calls::SetReplicationRequest { src: "/f".to_owned(), replication: 2 };
    assert!(!fixture.call::<_, BoolResponse>("setReplication", &set).unwrap().result);
}

#[test]
fn with_seven_nodes_two_units_share_one_and_with_five_none_is_written() {
    let mut fixture = Fixture::new(7);
    let file: calls::FileInfoResponse = fixture.call("create", &coded("/f", RS_6_3)).unwrap();
    let located = fixture.add_block("/f", file.status.unwrap().id.unwrap(), None);
    let mut nodes = numbers(&located);
    assert_eq!(nodes.len(), 9);
    nodes.truncate(7);
    nodes.sort_unstable();
    assert_eq!(nodes, [0, 1, 2, 3, 4, 5, 6], "the first seven units are apart");
    let mut fixture = Fixture::new(5);
    let file: calls::FileInfoResponse = fixture.call("create", &coded("/f", RS_6_3)).unwrap();
    let refused = fixture.refused("addBlock", &add_block("/f", file.status.unwrap().id.unwrap(), None));
    assert_eq!((refused.0, refused.0.class_name()), (Exception::TooFewDatanodes, "java.io.IOException"));
    assert!(refused.1.contains("could only be written to 5 of the 6 required nodes for RS-6-3-1024k"));
}

#[test]
fn a_file_has_the_policy_of_the_nearest_directory_with_one() {
    let mut fixture = Fixture::new(9);
    fixture.mkdir("/cold/inner/deep");
    fixture.mkdir("/cold/plain");
    let set = |fixture: &mut Fixture, path: &str, policy: &str| {
        let _: calls::Empty = fixture.call("setErasureCodingPolicy", &policy_of(path, policy)).unwrap();
    };
    set(&mut fixture, "/cold", RS_6_3);
    set(&mut fixture, "/cold/plain", "replication");
    let policy = |fixture: &mut Fixture, path: &str| {
        let path = calls::PathRequest { src: path.to_owned() };
        let answer: calls::PolicyResponse = fixture.call("getErasureCodingPolicy", &path).unwrap();
        answer.policy.map(|policy| policy.id)
    };
    assert_eq!(policy(&mut fixture, "/cold/inner/deep"), Some(1));
    assert_eq!((policy(&mut fixture, "/cold/plain"), policy(&mut fixture, "/")), (None, None));
    let made = |fixture: &mut Fixture, path: &str, flags| {
        let request = calls::CreateRequest { block_size: 2 * MIB, ..create(path, flags) };
        let answer: calls::FileInfoResponse = fixture.call("create", &request).unwrap();
        answer.status.unwrap().policy.map(|policy| policy.id)
    };
    assert_eq!(made(&mut fixture, "/cold/inner/new/f", 1), Some(1));
    assert_eq!(made(&mut fixture, "/cold/plain/f", 1), None);
    assert_eq!(made(&mut fixture, "/cold/g", 1 | 0x80), None, "SHOULD_REPLICATE");
    // A file keeps its policy wherever it goes, and what becomes of the directory.
    let _: calls::Empty = fixture.call("rename2", &rename("/cold/inner/new/f", "/f", false)).unwrap();
    let path = calls::PathRequest { src: "/cold".to_owned() };
    let _: calls::Empty = fixture.call("unsetErasureCodingPolicy", &path).unwrap();
    assert_eq!((policy(&mut fixture, "/f"), policy(&mut fixture, "/cold/inner")), (Some(1), None));
    assert_eq!(fixture.refused("unsetErasureCodingPolicy", &path).0, Exception::NoEcPolicySet);

    let name = |name: &str| calls::PolicyNameRequest { name: name.to_owned() };
    let disabled = policy_of("/cold", "XOR-2-1-1024k");
    let (exception, message) = fixture.refused("setErasureCodingPolicy", &disabled);
    assert_eq!(exception, Exception::HadoopIllegalArgument);
    assert!(message.contains("coding policies: [RS-6-3-1024k]"), "{message}");
    let _: calls::Empty = fixture.call("enableErasureCodingPolicy", &name("XOR-2-1-1024k")).unwrap();
    set(&mut fixture, "/cold", "XOR-2-1-1024k");
    let file = policy_of("/f", RS_6_3);
    assert_eq!(fixture.refused("setErasureCodingPolicy", &file).0, Exception::Io);
    for (block_size, text) in [(MIB / 2, "is less than the cell size"), (3 * MIB / 2, "or 2097152")] {
        let odd = calls::CreateRequest { block_size, ..coded("/odd", RS_6_3) };
        let (exception, message) = fixture.refused("create", &odd);
        assert!(exception == Exception::Io && message.contains(text), "{message}");
    }
    // All of it is in the image.
    let mut loaded = State::new(rules());
    fixture.state.image().records().for_each(|record| loaded.apply(&record));
    assert_eq!(fingerprint(&loaded), fingerprint(&fixture.state));
    fixture.user = user("alice", &[]);
    assert_eq!(fixture.refused("disableErasureCodingPolicy", &name(RS_6_3)).0, Exception::AccessControl);
}

#[test]
fn what_two_silent_nodes_had_is_ordered_at_once_ten_seconds_later() {
    let mut fixture = Fixture::new(11);
    let length = 6 * MIB;
    let located = fixture.write_coded("/f", length);
    let nodes = numbers(&located);
    let alive: Vec<usize> = (0..11).filter(|node| ![nodes[1], nodes[7]].contains(node)).collect();
    assert_eq!(orders(&fixture.pass(10_000, &alive)), []);
    assert_eq!(places(&fixture.locations("/f")).len(), 7, "they are named to nobody");
    let told = orders(&fixture.pass(3_000, &alive));
    let [(worker, repair)] = &told[..] else { panic!("one order: {told:?}") };
    let indexes: Vec<u32> = repair.targets.iter().map(|target| target.index).collect();
    assert_eq!((indexes, repair.length, repair.policy.as_str()), (vec![1, 7], length, RS_6_3));
    assert_eq!(repair.sources.iter().map(|source| source.index).collect::<Vec<_>>(), [0, 2, 3, 4, 5, 6, 8]);
    let targets: Vec<usize> = repair.targets.iter().map(|unit| unit.uuid[3..].parse().unwrap()).collect();
    assert!(targets.contains(worker) && targets.iter().all(|node| !nodes.contains(node)), "{targets:?}");
    assert_eq!(repair.number >> 32, fixture.state.term);
    // It is worked at, and then it is done: nothing else is ordered.
    assert_eq!(fixture.beat(*worker, vec![repair.number]).cancelled, Vec::<u64>::new());
    for (index, node) in [1, 7].into_iter().zip(&targets) {
        fixture.notice(*node, &unit(&located, index), unit_length(length, index), false);
    }
    assert_eq!(orders(&fixture.pass(5_000, &alive)), []);
    assert_eq!((places(&fixture.locations("/f")).len(), fixture.state.repairs()), (9, (0, 0)));
    // One comes back: its unit is there twice, and one goes once both nodes have reported.
    fixture.sync_all();
    let mut all = alive.clone();
    all.push(nodes[1]);
    let deleted = |told: Vec<(usize, HeartbeatResponse)>| {
        told.into_iter().flat_map(|(_, response)| response.delete).collect::<Vec<_>>()
    };
    assert_eq!(deleted(fixture.pass(2_000, &all)), []);
    fixture.report_nothing_new(&located, length);
    for (index, node) in [1, 7].into_iter().zip(&targets) {
        let of_it = replica(&unit(&located, index), unit_length(length, index), ReplicaState::Finalized);
        fixture.report(*node, true, true, vec![of_it]);
    }
    let gone = deleted(fixture.pass(2_000, &all));
    assert_eq!(gone.len(), 1, "{gone:?}");
    assert_eq!(gone[0].id, unit(&located, 1).id.cast_signed(), "the other one is still silent");
}

#[test]
fn a_repair_is_called_off_when_the_node_is_back_and_planned_anew_when_nobody_does_it() {
    let mut fixture = Fixture::new(10);
    let located = fixture.write_coded("/f", 6 * MIB);
    let lost = numbers(&located)[4];
    let alive: Vec<usize> = (0..10).filter(|node| *node != lost).collect();
    let [(_, first)] = &orders(&fixture.pass(13_000, &alive))[..] else { panic!("one order") };
    // The next heartbeat does not name it: the answer was lost, or it failed.
    let second = orders(&fixture.pass(4_000, &alive));
    let numbers: Vec<u64> = second.iter().map(|(_, repair)| repair.number).collect();
    assert!(!numbers.is_empty() && !numbers.contains(&first.number), "{numbers:?}");
    // It works at the last one when the node comes back.
    let (worker, number) = second.last().map(|(worker, repair)| (worker, repair.number)).unwrap();
    let others: Vec<usize> = alive.iter().copied().filter(|node| node != worker).collect();
    fixture.now.steady_ms += 100;
    fixture.heartbeat(lost);
    fixture.pass(500, &[&others[..], &[lost]].concat());
    assert_eq!(fixture.beat(*worker, vec![number]).cancelled, [number]);
    assert_eq!(fixture.state.repairs().0, 1, "until the worker has dropped it");
    assert_eq!(fixture.beat(*worker, Vec::new()).repairs, []);
    fixture.pass(500, &[&alive[..], &[lost]].concat());
    assert_eq!(fixture.state.repairs(), (0, 0));
}

/// The DataNode that the only order writes to first.
fn target_of(told: &[(usize, HeartbeatResponse)]) -> usize {
    let [(_, repair)] = &orders(told)[..] else { panic!("one order: {:?}", orders(told)) };
    repair.targets[0].uuid[3..].parse().unwrap()
}

#[test]
fn what_a_target_does_not_get_goes_to_another_one_next_if_there_is_one() {
    for seed in 0..12 {
        let mut fixture = Fixture::new(11);
        fixture.random = fastrand::Rng::with_seed(seed);
        let coded = fixture.write_coded("/coded", 6 * MIB);
        let lost = numbers(&coded)[4];
        let alive: Vec<usize> = (0..11).filter(|node| *node != lost).collect();
        // The next heartbeat of its worker does not name it: it failed.
        let first = target_of(&fixture.pass(13_000, &alive));
        let second = target_of(&fixture.pass(3_000, &alive));
        assert_ne!(first, second, "seed {seed}");
        // Both are in doubt, and one of them has to take it.
        assert!([first, second].contains(&target_of(&fixture.pass(3_000, &alive))), "seed {seed}");
    }
}

#[test]
fn a_copy_that_a_target_does_not_get_goes_to_another_one_next() {
    for seed in 0..12 {
        let mut fixture = Fixture::new(5);
        fixture.random = fastrand::Rng::with_seed(seed);
        let plain = fixture.write("/plain", 700);
        fixture.notice(numbers(&plain)[0], &plain.block, 700, true);
        let all: Vec<usize> = (0..5).collect();
        let first = target_of(&fixture.pass(2_000, &all));
        let second = target_of(&fixture.pass(3_000, &all));
        let third = target_of(&fixture.pass(3_000, &all));
        assert_eq!(std::collections::BTreeSet::from([first, second, third]).len(), 3, "seed {seed}");
    }
}

#[test]
fn a_copy_is_made_on_the_same_rack_if_the_node_elsewhere_hangs_and_moves_later() {
    let mut fixture = Fixture::new(4);
    let plain = fixture.write("/plain", 700);
    let of_it = replica(&plain.block, 700, ReplicaState::Finalized);
    numbers(&plain).iter().for_each(|node| fixture.report(*node, true, true, vec![of_it]));
    fixture.sync_all();
    assert_eq!(orders(&fixture.pass(5_000, &[0, 1, 2, 3])), [], "all stand on one rack");
    let all: Vec<usize> = (0..5).collect();
    fixture.register_on("/elsewhere", 4);
    assert_eq!(target_of(&fixture.pass(3_000, &all)), 4, "a copy moves to another rack");
    // It hangs, and then a copy is lost.
    fixture.pass(500, &all);
    fixture.notice(numbers(&plain)[0], &plain.block, 700, true);
    let same_rack = target_of(&fixture.pass(3_000, &all));
    assert_ne!(same_rack, 4, "it does not wait for the one that hangs");
    fixture.report(same_rack, true, true, vec![of_it]);
    assert_eq!(orders(&fixture.pass(50_000, &all)), [], "that one is still in doubt");
    assert_eq!(target_of(&fixture.pass(12_000, &all)), 4);
    fixture.report(4, true, true, vec![of_it]);
    let deleted = |told: Vec<(usize, HeartbeatResponse)>| -> Vec<usize> {
        told.iter().flat_map(|(node, response)| response.delete.iter().map(|_| *node)).collect()
    };
    let [gone] = deleted(fixture.pass(3_000, &all))[..] else { panic!("one goes") };
    assert_ne!(gone, 4, "the others have one rack");
    assert_eq!(fixture.state.repairs(), (0, 0));
}

#[test]
fn a_damaged_unit_is_replaced_and_a_copy_that_is_missing_made() {
    let mut fixture = Fixture::new(10);
    let length = 6 * MIB;
    let located = fixture.write_coded("/f", length);
    let plain = fixture.write("/plain", 700);
    let nodes = numbers(&located);
    let all: Vec<usize> = (0..10).collect();
    fixture.sync_all();
    fixture.report_nothing_new(&located, length);
    for node in numbers(&plain) {
        fixture.notice(node, &plain.block, 700, false);
    }
    assert_eq!(orders(&fixture.pass(3_000, &all)), []);
    // A reader found unit 3 damaged: it is made elsewhere.
    let bad = LocatedBlock {
        block: unit(&located, 3),
        locations: vec![located.locations[3].clone()],
        ..LocatedBlock::default()
    };
    let _: calls::Empty =
        fixture.call("reportBadBlocks", &calls::ReportBadBlocksRequest { blocks: vec![bad] }).unwrap();
    let told = fixture.pass(2_000, &all);
    let made = orders(&told);
    let indexes: Vec<_> = made.iter().map(|(_, repair)| repair.targets[0].index).collect();
    assert_eq!(indexes.first(), Some(&3), "{made:?}");
    let deleted: Vec<_> = told
        .iter()
        .flat_map(|(node, response)| response.delete.iter().map(|gone| (*node, gone.id)))
        .collect();
    assert_eq!(deleted, [(nodes[3], unit(&located, 3).id.cast_signed())]);
    // One of three copies is gone.
    let kept = numbers(&plain);
    fixture.notice(kept[0], &plain.block, 700, true);
    let told = orders(&fixture.pass(2_000, &all));
    let copy = told.iter().map(|(_, repair)| repair).find(|repair| repair.policy.is_empty()).expect("a copy");
    assert_eq!((copy.id, copy.length, copy.sources.len()), (plain.block.id.cast_signed(), 700, 2));
    let target: usize = copy.targets[0].uuid[3..].parse().unwrap();
    assert!(!kept[1..].contains(&target));
}

#[test]
fn in_safe_mode_nothing_is_repaired_or_deleted() {
    let mut fixture = Fixture::new(10);
    let located = fixture.write_coded("/f", 6 * MIB);
    let enter = calls::SafeModeRequest { action: 2, checked: None };
    let _: BoolResponse = fixture.call("setSafeMode", &enter).unwrap();
    let lost = numbers(&located)[0];
    let alive: Vec<usize> = (0..10).filter(|node| *node != lost).collect();
    assert_eq!(orders(&fixture.pass(20_000, &alive)), []);
    let leave = calls::SafeModeRequest { action: 1, checked: None };
    let _: BoolResponse = fixture.call("setSafeMode", &leave).unwrap();
    assert_eq!(orders(&fixture.pass(9_500, &alive)), [], "others may start later");
    assert_ne!(orders(&fixture.pass(3_000, &alive)), []);
}

#[test]
fn an_order_that_was_planned_waits_for_the_end_of_safe_mode() {
    let mut fixture = Fixture::new(10);
    let located = fixture.write_coded("/f", 6 * MIB);
    let lost = numbers(&located)[0];
    let alive: Vec<usize> = (0..10).filter(|node| *node != lost).collect();
    while fixture.state.repairs().1 == 0 {
        assert_eq!(orders(&fixture.pass(500, &alive)), []);
        assert!(fixture.now.steady_ms < 60_000, "nothing is planned");
    }
    let told = |fixture: &mut Fixture| -> usize {
        alive.iter().map(|node| fixture.beat(*node, Vec::new()).repairs.len()).sum()
    };
    let enter = calls::SafeModeRequest { action: 2, checked: None };
    let _: BoolResponse = fixture.call("setSafeMode", &enter).unwrap();
    assert_eq!(told(&mut fixture), 0);
    let leave = calls::SafeModeRequest { action: 1, checked: None };
    let _: BoolResponse = fixture.call("setSafeMode", &leave).unwrap();
    assert_eq!(told(&mut fixture), 1);
}

#[test]
fn units_that_share_a_node_move_when_there_are_others() {
    let mut fixture = Fixture::new(7);
    let located = fixture.write_coded("/f", 6 * MIB);
    let all: Vec<usize> = (0..7).collect();
    assert_eq!(orders(&fixture.pass(5_000, &all)), [], "there is no other node");
    fixture.register(7);
    fixture.register(8);
    let told = orders(&fixture.pass(3_000, &(0..9).collect::<Vec<_>>()));
    let [(_, repair)] = &told[..] else { panic!("one order: {told:?}") };
    let nodes = numbers(&located);
    for target in &repair.targets {
        let at = nodes[target.index as usize];
        assert_eq!(nodes.iter().filter(|node| **node == at).count(), 2, "it shared its node");
        assert!(["dn-7", "dn-8"].contains(&target.uuid.as_str()), "{target:?}");
        assert!(repair.sources.iter().all(|source| source.index != target.index));
    }
    assert_eq!(repair.targets.len(), 2);
}
