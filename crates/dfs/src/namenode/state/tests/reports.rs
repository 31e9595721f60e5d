//! What DataNodes report, and what they are to delete.

use super::*;

#[test]
fn what_is_deleted_goes_from_the_nodes_once_the_journal_has_it() {
    let mut fixture = Fixture::new(3);
    let located = fixture.write("/f", 700);
    fixture.sync_all();
    let _: BoolResponse = fixture.call("delete", &delete("/f", false)).unwrap();
    assert_eq!(fixture.heartbeat(0).delete, [], "a power failure would bring the file back");
    fixture.sync_all();
    let expected = [BlockRef {
        storage: "DS-0".to_owned(),
        id: located.block.id.cast_signed(),
        stamp: located.block.stamp,
    }];
    assert_eq!(fixture.heartbeat(0).delete, expected);
    assert_eq!(fixture.heartbeat(0).delete, [], "it is told once");
    // One that still has it says so, and is told again.
    fixture.report(0, true, true, vec![replica(&located.block, 700, ReplicaState::Finalized)]);
    assert_eq!(fixture.heartbeat(0).delete, expected);
}

#[test]
fn nothing_goes_that_is_from_the_future_or_reported_in_safe_mode() {
    let mut fixture = Fixture::new(1);
    let located = fixture.write("/f", 700);
    let unknown = |stamp| Replica { id: 5, stamp, length: 9, state: 0 };
    fixture.report(0, true, true, vec![unknown(located.block.stamp + 1)]);
    fixture.sync_all();
    assert_eq!(fixture.heartbeat(0).delete, []);
    let enter = calls::SafeModeRequest { action: 2, checked: None };
    let _: BoolResponse = fixture.call("setSafeMode", &enter).unwrap();
    fixture.report(0, true, true, vec![unknown(located.block.stamp)]);
    fixture.sync_all();
    assert_eq!(fixture.heartbeat(0).delete, []);
    let leave = calls::SafeModeRequest { action: 1, checked: None };
    let _: BoolResponse = fixture.call("setSafeMode", &leave).unwrap();
    assert!(fixture.heartbeat(0).must_report, "what was passed over is looked at again");
    fixture.report(0, true, true, vec![unknown(located.block.stamp)]);
    assert_eq!(fixture.heartbeat(0).delete.len(), 1);
}

#[test]
fn a_report_ends_with_what_it_named_and_what_came_meanwhile() {
    let mut fixture = Fixture::new(1);
    let (kept, lost) = (fixture.write("/kept", 10), fixture.write("/lost", 10));
    let file = fixture.create("/new");
    let new = fixture.add_block("/new", file, None);
    fixture.report(0, true, false, Vec::new());
    fixture.notice(0, &new.block, 10, false);
    fixture.report(0, false, true, vec![replica(&kept.block, 10, ReplicaState::Finalized)]);
    assert!(fixture.complete("/new", file, Some(sized(&new, 10))));
    let mut count = |path: &str| fixture.locations(path).blocks[0].locations.len();
    assert_eq!([count("/kept"), count("/lost"), count("/new")], [1, 0, 1]);
    assert_ne!(kept.block.id, lost.block.id);
}

#[test]
fn a_silent_node_is_named_to_nobody_until_it_is_heard_of_again() {
    let mut fixture = Fixture::new(3);
    fixture.write("/f", 700);
    let count = |fixture: &mut Fixture| fixture.locations("/f").blocks[0].locations.len();
    assert_eq!(count(&mut fixture), 3);
    fixture.now.steady_ms += 2_999;
    fixture.heartbeat(1);
    fixture.now.steady_ms += 2;
    assert_eq!(count(&mut fixture), 1);
    let file = fixture.create("/g");
    assert_eq!(numbers(&fixture.add_block("/g", file, None)), [1]);
    fixture.tick();
    assert!(fixture.heartbeat(0).must_report, "what it was to delete has been forgotten");
    assert_eq!(count(&mut fixture), 2);
}

#[test]
fn what_is_to_be_deleted_waits_for_the_end_of_safe_mode() {
    let mut fixture = Fixture::new(3);
    let located = fixture.write("/f", 700);
    let needless = fixture.write("/needless", 900);
    let all = [0, 1, 2];
    for number in all {
        // A copy becomes needless only where the storage has said all that it has.
        let has = [(&located.block, 700), (&needless.block, 900)];
        let has = has.map(|(block, length)| replica(block, length, ReplicaState::Finalized));
        fixture.report(number, true, true, has.to_vec());
    }
    let fewer = calls::SetReplicationRequest { src: "/f".to_owned(), replication: 2 };
    let _: BoolResponse = fixture.call("setReplication", &fewer).unwrap();
    let _: BoolResponse = fixture.call("delete", &delete("/needless", false)).unwrap();
    fixture.tick();
    fixture.sync_all();
    let enter = calls::SafeModeRequest { action: 2, checked: None };
    let _: BoolResponse = fixture.call("setSafeMode", &enter).unwrap();
    let told = |fixture: &mut Fixture| {
        let told = all.map(|number| fixture.beat(number, Vec::new()).delete);
        let gone = told.iter().flatten();
        let of_f = gone.clone().filter(|gone| gone.id == located.block.id.cast_signed()).count();
        (of_f, gone.count() - of_f)
    };
    assert_eq!(told(&mut fixture), (0, 0), "neither a needless copy nor what no file has");
    let leave = calls::SafeModeRequest { action: 1, checked: None };
    let _: BoolResponse = fixture.call("setSafeMode", &leave).unwrap();
    assert_eq!(told(&mut fixture), (1, 3));
}

#[test]
fn a_datanode_without_a_pool_is_told_it_and_is_there_once_it_has_it() {
    let mut fixture = Fixture::new(0);
    let mut request = RegisterRequest {
        layout_version: 1,
        uuid: "dn-0".to_owned(),
        host: "host-0".to_owned(),
        ip: "10.0.0.1".to_owned(),
        transfer_port: 9866,
        ipc_port: 9867,
        ..RegisterRequest::default()
    };
    let told: RegisterResponse = fixture.cluster("register", &request).unwrap();
    assert_eq!(told.pool, fixture.state.pool());
    let beat = HeartbeatRequest { uuid: "dn-0".to_owned(), ..HeartbeatRequest::default() };
    let answered: HeartbeatResponse = fixture.cluster("heartbeat", &beat).unwrap();
    assert!(answered.must_register, "nobody is sent to it yet");
    request.pool = told.pool;
    let _: RegisterResponse = fixture.cluster("register", &request).unwrap();
    let answered: HeartbeatResponse = fixture.cluster("heartbeat", &beat).unwrap();
    assert!(!answered.must_register);
}
