//! DataNodes that leave, are away for a while, or may not be there.

use super::*;
use crate::namenode::AdminState;
use crate::namenode::hosts::Hosts;

impl Fixture {
    fn hosts(&mut self, included: &str, excluded: &str) {
        let hosts = Hosts::of_lists(included, excluded).unwrap();
        self.state.set_hosts(hosts, self.now);
    }

    fn admin(&self, number: usize) -> AdminState {
        let handle = self.state.datanodes.by_uuid(&format!("dn-{number}")).unwrap();
        self.state.datanodes.node(handle).admin
    }

    /// Time passes, in which DataNodes show that they are there and report what they have: `repairs` are carried out.
    fn live_through(&mut self, datanodes: &[usize], seconds: u64) {
        for _ in 0..2 * seconds {
            self.now.steady_ms += 500;
            self.tick();
            self.sync_all();
            for number in datanodes {
                let orders = self.heartbeat(*number);
                for repair in orders.repairs {
                    for target in &repair.targets {
                        let at: usize = target.uuid[3..].parse().unwrap();
                        let id = repair.id + i64::from(target.index);
                        let length = match repair.policy.as_str() {
                            "" => repair.length,
                            name => {
                                let geometry = crate::policy::geometry_of(name).unwrap();
                                geometry.unit_len(repair.length, yeoul_erasure::UnitIndex(target.index as u8))
                            }
                        };
                        let made = ExtendedBlock {
                            id: id.cast_unsigned(),
                            stamp: repair.stamp,
                            ..ExtendedBlock::default()
                        };
                        self.notice(at, &made, length, false);
                    }
                }
                assert!(orders.delete.is_empty(), "nothing is deleted: {:?}", orders.delete);
            }
        }
    }

    fn reported(&mut self, datanodes: std::ops::Range<usize>) {
        for number in datanodes {
            self.report(number, true, true, Vec::new());
        }
    }

    fn kinds(&mut self, kind: i32) -> Vec<String> {
        let request = calls::DatanodeReportRequest { kind };
        let report: calls::DatanodeReportResponse = self.call("getDatanodeReport", &request).unwrap();
        report.datanodes.into_iter().map(|node| node.id.uuid).collect()
    }
}

#[test]
fn what_leaves_gives_its_copies_to_others_first_and_takes_nothing_new() {
    let mut fixture = Fixture::new(4);
    fixture.reported(0..4);
    let located = fixture.write("/f", 700);
    let there = numbers(&located);
    let (leaving, free) = (there[0], (0..4).find(|number| !there.contains(number)).unwrap());
    fixture.hosts("", &format!("host-{leaving}"));
    assert_eq!(fixture.admin(leaving), AdminState::Decommissioning);
    assert_eq!(fixture.kinds(4), [format!("dn-{leaving}")]);
    fixture.tick();
    assert_eq!(fixture.admin(leaving), AdminState::Decommissioning, "only it has the third copy");
    fixture.live_through(&[0, 1, 2, 3], 20);
    assert_eq!(fixture.admin(leaving), AdminState::Decommissioned);
    assert_eq!(fixture.kinds(4), [""; 0]);
    let mut after = numbers(&fixture.locations("/f").blocks[0]);
    assert_eq!(after.last(), Some(&leaving), "it can be read, for want of others");
    after.sort_unstable();
    assert!(after.len() == 4 && after.contains(&free), "{after:?}");
    for number in 0..20 {
        let path = format!("/n{number}");
        let file = fixture.create(&path);
        assert!(!numbers(&fixture.add_block(&path, file, None)).contains(&leaving));
    }
    // It is needed no more: what it had counts for nothing when it is gone.
    let stats: calls::FsStatsResponse = fixture.call("getFsStats", &calls::Empty {}).unwrap();
    assert_eq!((stats.under_replicated, stats.missing_blocks), (0, 0));
    fixture.hosts("", "");
    assert_eq!(fixture.admin(leaving), AdminState::InService);
}

#[test]
fn without_a_place_for_a_copy_nothing_leaves() {
    let mut fixture = Fixture::new(3);
    fixture.reported(0..3);
    fixture.write("/f", 700);
    fixture.hosts("", "10.0.0.1:9866");
    fixture.live_through(&[0, 1, 2], 30);
    assert_eq!(fixture.admin(1), AdminState::Decommissioning);
    let stats: calls::FsStatsResponse = fixture.call("getFsStats", &calls::Empty {}).unwrap();
    assert_eq!((stats.under_replicated, stats.missing_blocks), (1, 0));
    // With two copies wanted it may go.
    let request = calls::SetReplicationRequest { src: "/f".to_owned(), replication: 2 };
    let set: BoolResponse = fixture.call("setReplication", &request).unwrap();
    assert!(set.result);
    fixture.live_through(&[0, 1, 2], 5);
    assert_eq!(fixture.admin(1), AdminState::Decommissioned);
}

#[test]
fn a_group_gives_more_units_than_it_can_lose_in_turn() {
    let mut fixture = Fixture::new(9);
    fixture.reported(0..9);
    fixture.mkdir("/coded");
    let enable = calls::PolicyNameRequest { name: "RS-3-2-1024k".to_owned() };
    let _: calls::Empty = fixture.call("enableErasureCodingPolicy", &enable).unwrap();
    let request = calls::PolicyRequest { src: "/coded".to_owned(), policy: Some("RS-3-2-1024k".to_owned()) };
    let _: calls::Empty = fixture.call("setErasureCodingPolicy", &request).unwrap();
    let file = fixture.create("/coded/f");
    let located = fixture.add_block("/coded/f", file, None);
    let indices = located.indices.clone().unwrap();
    let holders = numbers(&located);
    for (number, index) in holders.iter().zip(&indices) {
        let unit = ExtendedBlock { id: located.block.id + u64::from(*index), ..located.block.clone() };
        fixture.notice(*number, &unit, MIB, false);
    }
    assert!(fixture.complete("/coded/f", file, Some(sized(&located, 3 * MIB))));
    let leaving: Vec<String> = holders[..4].iter().map(|number| format!("host-{number}")).collect();
    fixture.hosts("", &leaving.join("\n"));
    fixture.live_through(&(0..9).collect::<Vec<_>>(), 60);
    for number in &holders[..4] {
        assert_eq!(fixture.admin(*number), AdminState::Decommissioned);
    }
}

#[test]
fn what_may_be_away_is_not_missed_but_for_the_last_copy() {
    let mut fixture = Fixture::new(4);
    fixture.reported(0..4);
    let (many, single) = (fixture.write("/many", 700), fixture.write("/single", 50));
    let away = numbers(&many)[0];
    let request = calls::SetReplicationRequest { src: "/single".to_owned(), replication: 1 };
    let _: BoolResponse = fixture.call("setReplication", &request).unwrap();
    for number in numbers(&single).into_iter().filter(|number| *number != away) {
        fixture.notice(number, &single.block, 50, true);
    }
    if !numbers(&single).contains(&away) {
        fixture.notice(away, &single.block, 50, false);
    }
    let json = |until_ms: u64| {
        let text = format!(
            r#"[{{"hostName": "host-{away}", "adminState": "IN_MAINTENANCE", "maintenanceExpireTimeInMS": {until_ms}}}]"#
        );
        Hosts::of_json(&text).unwrap()
    };
    fixture.state.set_hosts(json(9_000_000), fixture.now);
    assert_eq!(fixture.admin(away), AdminState::EnteringMaintenance { until_ms: 9_000_000 });
    assert_eq!(fixture.kinds(5), [format!("dn-{away}")]);
    fixture.live_through(&[0, 1, 2, 3], 10);
    assert_eq!(fixture.admin(away), AdminState::InMaintenance { until_ms: 9_000_000 });
    assert_eq!(fixture.kinds(6), [format!("dn-{away}")]);
    assert_eq!(numbers(&fixture.locations("/single").blocks[0]).len(), 2, "the only copy has another one");
    let others: Vec<usize> = (0..4).filter(|number| *number != away).collect();
    fixture.live_through(&others, 60);
    assert_eq!(numbers(&fixture.locations("/many").blocks[0]).len(), 2, "nobody makes the third one");
    fixture.now.wall_ms = 9_000_000;
    fixture.live_through(&others, 20);
    assert_eq!(fixture.admin(away), AdminState::InService);
    assert_eq!(numbers(&fixture.locations("/many").blocks[0]).len(), 3, "it is not back: now it is missed");
}

#[test]
fn who_is_not_in_the_list_is_refused_and_what_it_had_is_missed() {
    let mut fixture = Fixture::new(4);
    fixture.reported(0..4);
    let located = fixture.write("/f", 700);
    let out = numbers(&located)[0];
    let names: Vec<String> =
        (0..4).filter(|number| *number != out).map(|number| format!("host-{number}")).collect();
    fixture.hosts(&names.join(" "), "");
    assert!(fixture.heartbeat(out).must_register);
    let request = RegisterRequest {
        layout_version: 1,
        uuid: format!("dn-{out}"),
        host: format!("host-{out}"),
        ip: format!("10.0.0.{out}"),
        transfer_port: 9866,
        pool: fixture.state.pool().to_owned(),
        ..RegisterRequest::default()
    };
    let refusal = fixture.cluster::<_, RegisterResponse>("register", &request).unwrap_err();
    assert!(refusal.message.contains("is not in the file of dfs.hosts"), "{refusal}");
    assert!(!fixture.kinds(1).contains(&format!("dn-{out}")));
    let others: Vec<usize> = (0..4).filter(|number| *number != out).collect();
    fixture.live_through(&others, 10);
    let mut after = numbers(&fixture.locations("/f").blocks[0]);
    after.sort_unstable();
    assert_eq!(after, others);
    fixture.hosts("", "");
    fixture.register(out);
    assert!(!fixture.heartbeat(out).must_register);
}

#[test]
fn an_open_file_holds_up_who_alone_has_its_last_block() {
    let mut fixture = Fixture::new(3);
    fixture.reported(0..3);
    let file = fixture.create("/open");
    let located = fixture.add_block("/open", file, None);
    assert_eq!(numbers(&located).len(), 3);
    fixture.hosts("", "host-0\nhost-1\nhost-2\n");
    fixture.live_through(&[0, 1, 2], 10);
    assert_eq!(fixture.admin(0), AdminState::Decommissioning);
    let request = calls::OpenFilesRequest { after: 0, types: vec![2], path: None };
    let open: calls::OpenFilesResponse = fixture.call("listOpenFiles", &request).unwrap();
    assert_eq!(open.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["/open"]);
    fixture.hosts("", "host-0\n");
    fixture.live_through(&[0, 1, 2], 10);
    assert_eq!(fixture.admin(0), AdminState::Decommissioned, "two others have it");
    let open: calls::OpenFilesResponse = fixture.call("listOpenFiles", &request).unwrap();
    assert_eq!(open.files.len(), 0);
}

#[test]
fn a_block_that_is_written_on_silent_datanodes_lets_nobody_go() {
    let mut fixture = Fixture::new(3);
    fixture.reported(0..3);
    let file = fixture.create("/open");
    let located = fixture.add_block("/open", file, None);
    assert_eq!(numbers(&located).len(), 3);
    fixture.now.steady_ms += 4_000;
    fixture.heartbeat(0);
    fixture.hosts("", "host-0");
    fixture.live_through(&[0], 5);
    assert_eq!(fixture.admin(0), AdminState::Decommissioning);
    fixture.live_through(&[0, 1], 3);
    assert_eq!(fixture.admin(0), AdminState::Decommissioned, "another one has it");
}

#[test]
fn who_has_not_said_what_it_has_does_not_leave() {
    let mut fixture = Fixture::new(2);
    fixture.hosts("", "host-0");
    fixture.live_through(&[0, 1], 5);
    assert_eq!(fixture.admin(0), AdminState::Decommissioning);
    fixture.report(0, true, true, Vec::new());
    fixture.live_through(&[0, 1], 2);
    assert_eq!(fixture.admin(0), AdminState::Decommissioned);
}

#[test]
fn as_many_copies_as_files_have_by_default_are_enough_to_leave() {
    let mut fixture = Fixture::new(4);
    fixture.reported(0..4);
    fixture.write("/f", 700);
    let request = calls::SetReplicationRequest { src: "/f".to_owned(), replication: 4 };
    let _: BoolResponse = fixture.call("setReplication", &request).unwrap();
    fixture.live_through(&[0, 1, 2, 3], 10);
    assert_eq!(numbers(&fixture.locations("/f").blocks[0]).len(), 4);
    fixture.hosts("", "host-0");
    fixture.live_through(&[0, 1, 2, 3], 5);
    assert_eq!(fixture.admin(0), AdminState::Decommissioned);
}

#[test]
fn of_a_group_enough_units_stay_where_no_datanode_may_be_away() {
    let mut fixture = Fixture::new(9);
    fixture.reported(0..9);
    let enable = calls::PolicyNameRequest { name: "RS-3-2-1024k".to_owned() };
    let _: calls::Empty = fixture.call("enableErasureCodingPolicy", &enable).unwrap();
    let request = calls::CreateRequest { policy: Some(enable.name), ..create("/f", 1) };
    let answer: calls::FileInfoResponse = fixture.call("create", &request).unwrap();
    let file = answer.status.unwrap().id.unwrap();
    let located = fixture.add_block("/f", file, None);
    let holders = numbers(&located);
    for (number, index) in holders.iter().zip(located.indices.clone().unwrap()) {
        let unit = ExtendedBlock { id: located.block.id + u64::from(index), ..located.block.clone() };
        fixture.notice(*number, &unit, MIB, false);
    }
    assert!(fixture.complete("/f", file, Some(sized(&located, 3 * MIB))));
    let away = &holders[..3];
    let hosts: Vec<String> = away
        .iter()
        .map(|number| format!(r#"{{"hostName": "host-{number}", "adminState": "IN_MAINTENANCE"}}"#))
        .collect();
    fixture.state.set_hosts(Hosts::of_json(&hosts.join("\n")).unwrap(), fixture.now);
    fixture.live_through(&(0..9).collect::<Vec<_>>(), 30);
    for number in away {
        assert_eq!(fixture.admin(*number), AdminState::InMaintenance { until_ms: u64::MAX });
    }
    let others: Vec<usize> = (0..9).filter(|number| !away.contains(number)).collect();
    fixture.live_through(&others, 5);
    let found = fixture.locations("/f");
    assert!(found.blocks[0].locations.len() >= 3, "it can be read while they are away");
    assert!(found.blocks[0].locations.len() < 5, "and no more than that is made anew");
}

#[test]
fn maintenance_that_is_over_does_not_begin() {
    let mut fixture = Fixture::new(1);
    let until_ms = fixture.now.wall_ms;
    let text = format!(
        r#"{{"hostName": "host-0", "adminState": "IN_MAINTENANCE", "maintenanceExpireTimeInMS": {until_ms}}}"#
    );
    fixture.state.set_hosts(Hosts::of_json(&text).unwrap(), fixture.now);
    assert_eq!(fixture.admin(0), AdminState::InService);
}
