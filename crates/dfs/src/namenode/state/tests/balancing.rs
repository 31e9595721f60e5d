//! Goal: a balancer learns where blocks are, and what it moves stands no worse than before. Method: as in the file above.

use super::striped::unit;
use super::*;
use crate::wire::proto::shared::DatanodeId;

impl Fixture {
    fn balancer<A: Message, R: Message + Default>(
        &mut self,
        method: &str,
        argument: &A,
    ) -> Result<R, Refusal> {
        let argument = Bytes::from(argument.encode_to_vec());
        let result = self.context(None, |state, context| state.balancer_call(context, method, argument))?;
        Ok(R::decode(&result[..]).unwrap())
    }

    fn blocks_of(&mut self, number: usize, size: u64, block_size_min: u64) -> Vec<calls::BalancedBlock> {
        let request =
            calls::GetBlocksRequest { size, block_size_min: Some(block_size_min), ..of_node(number) };
        self.balancer::<_, calls::GetBlocksResponse>("getBlocks", &request).unwrap().blocks.blocks
    }

    /// A DataNode has taken a replica from another one, as a balancer wanted it.
    fn moved(&mut self, block: &ExtendedBlock, length: u64, to: usize, from: usize) {
        let replica = Some(replica(block, length, ReplicaState::Finalized));
        let (storage, delete_hint) = (format!("DS-{to}"), format!("dn-{from}"));
        let notice = Notice { storage, replica, delete_hint, ..Notice::default() };
        let request = NoticeRequest { uuid: format!("dn-{to}"), notices: vec![notice] };
        let _: Answer = self.cluster("notice", &request).unwrap();
    }

    /// Who is told to delete, within some seconds, and what.
    fn told_to_delete(&mut self, datanodes: usize) -> Vec<(usize, i64)> {
        let mut told = Vec::new();
        for _ in 0..6 {
            self.now.steady_ms += 500;
            self.tick();
            self.sync_all();
            for number in 0..datanodes {
                let deleted = self.heartbeat(number).delete;
                told.extend(deleted.iter().map(|order| (number, order.id)));
            }
        }
        told
    }

    /// DataNodes on racks, each with a whole report of nothing.
    fn on_racks(racks: &[&str]) -> Self {
        let mut fixture = Self::new(0);
        for (number, rack) in racks.iter().enumerate() {
            fixture.register_on(rack, number);
            fixture.report(number, true, true, Vec::new());
        }
        fixture
    }
}

fn of_node(number: usize) -> calls::GetBlocksRequest {
    let datanode = DatanodeId { uuid: format!("dn-{number}"), ..DatanodeId::default() };
    calls::GetBlocksRequest { datanode, size: u64::MAX, ..calls::GetBlocksRequest::default() }
}

#[test]
fn the_blocks_of_a_datanode_come_with_all_their_places() {
    let mut fixture = Fixture::new(9);
    let large = fixture.write("/large", 700_000);
    let small = fixture.write("/small", 700);
    let open = fixture.create("/open");
    let unfinished = fixture.add_block("/open", open, None);
    let coded = fixture.write_coded("/coded", 7 * MIB);
    let of_any = |fixture: &mut Fixture, size, least| -> Vec<_> {
        (0..9).flat_map(|number| fixture.blocks_of(number, size, least)).collect()
    };
    let all = of_any(&mut fixture, u64::MAX, 0);
    let count = |all: &[calls::BalancedBlock], of: &LocatedBlock| {
        all.iter().filter(|one| one.block.id == of.block.id).count()
    };
    let counts = [&large, &small, &unfinished, &coded].map(|of| count(&all, of));
    assert_eq!(counts, [3, 3, 0, 9], "each at each of its places");
    let found = all.iter().find(|one| one.block.id == large.block.id).unwrap();
    let mut places: Vec<usize> = found.datanodes.iter().map(|uuid| uuid[3..].parse().unwrap()).collect();
    let mut expected = numbers(&large);
    places.sort_unstable();
    expected.sort_unstable();
    assert_eq!((places, found.block.length, found.block.stamp), (expected, Some(700_000), large.block.stamp));
    assert_eq!((found.storage_types.as_slice(), found.indices.as_ref()), (&[1, 1, 1][..], None));
    let group = all.iter().find(|one| one.block.id == coded.block.id).unwrap();
    let indices = group.indices.clone().unwrap();
    assert_eq!((group.data_units, group.cell_size, indices.len()), (Some(6), Some(1 << 20), 9));
    for (index, uuid) in indices.iter().zip(&group.datanodes) {
        assert_eq!(*uuid, format!("dn-{}", numbers(&coded)[usize::from(*index)]));
    }
    let large_only = of_any(&mut fixture, u64::MAX, 10_000);
    assert_eq!([&large, &small].map(|of| count(&large_only, of)), [3, 0]);
    let one = numbers(&large)[0];
    assert_eq!(fixture.blocks_of(one, 1, 0).len(), 1, "no more than it wants to move");
    let hot = calls::GetBlocksRequest { hot_ms: Some(60_000), block_size_min: Some(0), ..of_node(one) };
    let found: calls::GetBlocksResponse = fixture.balancer("getBlocks", &hot).unwrap();
    assert_eq!(found.blocks.blocks, [], "all files were just written");
    let elsewhere = calls::GetBlocksRequest { storage_type: Some(2), ..of_node(one) };
    let found: calls::GetBlocksResponse = fixture.balancer("getBlocks", &elsewhere).unwrap();
    assert_eq!(found.blocks.blocks, [], "there is no SSD");
}

#[test]
fn a_balancer_is_for_the_superuser_and_others_methods_are_refused_by_name() {
    let mut fixture = Fixture::new(1);
    let version: calls::VersionResponse = fixture.balancer("versionRequest", &calls::Empty {}).unwrap();
    assert_eq!((version.info.pool.as_str(), version.info.storage.cluster.as_str()), ("BP-1", "CID-1"));
    let keys: calls::BlockKeysResponse = fixture.balancer("getBlockKeys", &calls::Empty {}).unwrap();
    assert!(!keys.keys.unwrap().is_enabled);
    let finalized: calls::UpgradeFinalizedResponse =
        fixture.balancer("isUpgradeFinalized", &calls::Empty {}).unwrap();
    assert!(finalized.is_finalized);
    let query = |action| calls::RollingUpgradeRequest { action };
    let _: calls::RollingUpgradeResponse = fixture.call("rollingUpgrade", &query(1)).unwrap();
    assert_eq!(fixture.refused("rollingUpgrade", &query(2)).0, Exception::UnsupportedOperation);
    let refusal = fixture.balancer::<_, calls::Empty>("rollEditLog", &calls::Empty {}).unwrap_err();
    assert_eq!(refusal, Refusal::unsupported("rollEditLog"));
    let unknown = fixture.balancer::<_, calls::Empty>("getListing", &calls::Empty {}).unwrap_err();
    assert_eq!(unknown.exception, Exception::NoSuchMethod);
    let nobody = fixture.balancer::<_, calls::GetBlocksResponse>("getBlocks", &of_node(7)).unwrap_err();
    assert_eq!(nobody.exception, Exception::HadoopIllegalArgument);
    let request = calls::DatanodeReportRequest { kind: 2 };
    let report: calls::DatanodeStorageReportResponse =
        fixture.call("getDatanodeStorageReport", &request).unwrap();
    let [of_node_0] = &report.reports[..] else { panic!("{report:?}") };
    let [storage] = &of_node_0.storages[..] else { panic!("{report:?}") };
    assert_eq!((storage.capacity, storage.remaining), (Some(100 * MIB), Some(90 * MIB)));
    assert_eq!(storage.storage.as_ref().unwrap().uuid, "DS-0");
    fixture.user = user("visitor", &[]);
    for method in ["getBlocks", "getBlockKeys", "versionRequest", "isUpgradeFinalized", "isRollingUpgrade"] {
        let refusal = fixture.balancer::<_, calls::Empty>(method, &of_node(0)).unwrap_err();
        assert_eq!(refusal.exception, Exception::AccessControl, "{method}");
    }
    assert_eq!(fixture.refused("getDatanodeStorageReport", &request).0, Exception::AccessControl);
}

#[test]
fn what_was_moved_goes_from_where_it_was() {
    // Without racks any of four copies could go: in turn each of the former three is moved away.
    for moved in 0..3 {
        let mut fixture = Fixture::on_racks(&["", "", "", ""]);
        let located = fixture.write("/f", 700);
        let from = numbers(&located)[moved];
        let to = (0..4).find(|number| !numbers(&located).contains(number)).unwrap();
        fixture.moved(&located.block, 700, to, from);
        assert_eq!(fixture.told_to_delete(4), [(from, located.block.id.cast_signed())]);
        fixture.notice(from, &located.block, 700, true);
        assert_eq!(fixture.told_to_delete(4), []);
        assert_eq!(fixture.state.hints.count(), 0, "it is forgotten");
        let mut places = numbers(&fixture.locations("/f").blocks[0]);
        places.sort_unstable();
        assert_eq!(places, (0..4).filter(|number| *number != from).collect::<Vec<_>>());
    }
}

#[test]
fn copies_stay_on_as_many_racks_as_before_whatever_a_balancer_moves() {
    let mut fixture = Fixture::on_racks(&["/a", "/b", "/b", "/b"]);
    let located = fixture.write("/f", 700);
    let mut places = numbers(&located);
    places.sort_unstable();
    assert!(places[0] == 0, "one copy is on the other rack: {places:?}");
    let to = (1..4).find(|number| !places.contains(number)).unwrap();
    fixture.moved(&located.block, 700, to, 0);
    let [(gone, _)] = fixture.told_to_delete(4)[..] else { panic!("one of four goes") };
    assert_ne!(gone, 0, "the others are all on one rack");
}

#[test]
fn units_of_a_group_move_alone_and_never_two_to_one_datanode() {
    let mut fixture = Fixture::new(11);
    let located = fixture.write_coded("/f", 12 * MIB);
    for number in 0..11 {
        let of_it = numbers(&located).iter().position(|node| *node == number);
        let of_it =
            of_it.map(|index| replica(&unit(&located, index as u8), 2 * MIB, ReplicaState::Finalized));
        fixture.report(number, true, true, of_it.into_iter().collect());
    }
    let places = numbers(&located);
    let free = (0..11).find(|number| !places.contains(number)).unwrap();
    fixture.moved(&unit(&located, 4), 2 * MIB, free, places[4]);
    let fifth = unit(&located, 4).id.cast_signed();
    assert_eq!(fixture.told_to_delete(11), [(places[4], fifth)]);
    fixture.notice(places[4], &unit(&located, 4), 2 * MIB, true);
    // A DataNode that has a unit is given another one: that one goes again, and not the one that was moved.
    fixture.moved(&unit(&located, 5), 2 * MIB, places[6], places[5]);
    let sixth = unit(&located, 5).id.cast_signed();
    assert_eq!(fixture.told_to_delete(11), [(places[6], sixth)]);
}

#[test]
fn a_move_from_who_does_not_have_it_changes_nothing() {
    let mut fixture = Fixture::on_racks(&["", "", "", "", ""]);
    let located = fixture.write("/f", 700);
    let others: Vec<usize> = (0..5).filter(|number| !numbers(&located).contains(number)).collect();
    fixture.moved(&located.block, 700, others[0], others[1]);
    let told = fixture.told_to_delete(5);
    assert!(told.len() == 1 && told[0].0 != others[1], "{told:?}");
    let unknown = ExtendedBlock { id: 77, ..located.block };
    fixture.moved(&unknown, 700, others[0], others[1]);
    assert_eq!(fixture.state.hints.count(), 0);
}
