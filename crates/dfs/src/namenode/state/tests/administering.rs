//! Orders of operators that reach DataNodes, and reports for them.

use super::*;

#[test]
fn a_bandwidth_is_told_each_datanode_once_and_is_for_the_superuser() {
    let mut fixture = Fixture::new(2);
    let request = |bandwidth| calls::BandwidthRequest { bandwidth };
    let _: calls::Empty = fixture.call("setBalancerBandwidth", &request(5_000_000)).unwrap();
    assert_eq!(fixture.heartbeat(0).repair_bytes_per_second, 5_000_000);
    assert_eq!(fixture.heartbeat(0).repair_bytes_per_second, 0, "it has been told");
    assert_eq!(fixture.heartbeat(1).repair_bytes_per_second, 5_000_000);
    for bandwidth in [0, -1] {
        let (exception, _) = fixture.refused("setBalancerBandwidth", &request(bandwidth));
        assert_eq!(exception, Exception::HadoopIllegalArgument);
    }
    fixture.user = user("visitor", &[]);
    let (exception, message) = fixture.refused("setBalancerBandwidth", &request(1));
    assert_eq!(exception, Exception::AccessControl, "{message}");
    assert_eq!(fixture.heartbeat(0).repair_bytes_per_second, 0);
}

#[test]
fn an_image_is_written_in_safe_mode_only() {
    let mut fixture = Fixture::new(0);
    let root = fixture.user.clone();
    let refused = |fixture: &Fixture, user: &User| fixture.state.check_may_save(user).unwrap_err().exception;
    assert_eq!(refused(&fixture, &root), Exception::Io);
    let request = calls::SafeModeRequest { action: 2, checked: None };
    let _: BoolResponse = fixture.call("setSafeMode", &request).unwrap();
    assert_eq!(fixture.state.check_may_save(&root), Ok(()));
    assert_eq!(refused(&fixture, &user("visitor", &[])), Exception::AccessControl);
}

#[test]
fn a_metasave_names_what_waits_for_a_repair() {
    let mut fixture = Fixture::new(4);
    let located = fixture.write("/f", 700);
    let block = located.block.clone();
    fixture.notice(numbers(&located)[0], &block, 700, true);
    fixture.now.steady_ms += 20_000;
    (0..4).for_each(|number| drop(fixture.heartbeat(number)));
    // The first tick after safe mode only begins to wait.
    fixture.tick();
    fixture.now.steady_ms += 500;
    fixture.tick();
    let text = fixture.state.metasave(fixture.now);
    let line = format!(
        "/f: blk_{}_{} (replicas: live: 2 decommissioning and decommissioned: 0 corrupt: 0",
        block.id, block.stamp
    );
    for part in [
        "2 files and directories, 1 blocks = 3 total filesystem objects\nLive Datanodes: 4\nDead Datanodes: 0\n",
        &line,
        "Metasave: Number of datanodes: 4\n10.0.0.0:9866 /default-rack In Service ",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}
