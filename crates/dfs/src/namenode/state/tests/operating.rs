//! Calls of operators, and the words of refusals.

use super::*;

fn path(src: &str) -> calls::PathRequest {
    calls::PathRequest { src: src.to_owned() }
}

#[test]
fn a_report_of_the_cluster_counts_blocks_and_groups_apart() {
    let mut fixture = Fixture::new(9);
    fixture.write("/plain", 700);
    fixture.write_coded("/coded", 6 * MIB);
    let more = calls::SetReplicationRequest { src: "/plain".to_owned(), replication: 4 };
    let _: BoolResponse = fixture.call("setReplication", &more).unwrap();
    let blocks: calls::ReplicatedBlockStats =
        fixture.call("getFsReplicatedBlockStats", &calls::Empty {}).unwrap();
    let groups: calls::BlockGroupStats = fixture.call("getFsECBlockGroupStats", &calls::Empty {}).unwrap();
    assert_eq!((blocks.low_redundancy, groups.low_redundancy), (1, 0));
    let slow: calls::DatanodeReportResponse =
        fixture.call("getSlowDatanodeReport", &calls::Empty {}).unwrap();
    assert_eq!(slow.datanodes, []);
}

#[test]
fn access_quota_and_the_enclosing_root_are_answered() {
    let mut fixture = Fixture::new(3);
    let _: BoolResponse = fixture.call("mkdirs", &mkdirs("/own", 0o744, true)).unwrap();
    let check = |src: &str, mode| calls::CheckAccessRequest { src: src.to_owned(), mode };
    let root: calls::EnclosingRootResponse = fixture.call("getEnclosingRoot", &path("/own/x")).unwrap();
    assert_eq!(root.path(), "/");
    let usage: calls::QuotaUsageResponse = fixture.call("getQuotaUsage", &path("/own")).unwrap();
    assert_eq!((usage.usage.inodes, usage.usage.quota), (1, u64::MAX));
    fixture.user = user("alice", &[]);
    let _: calls::Empty = fixture.call("checkAccess", &check("/own", 4)).unwrap();
    for mode in [1, 2, 5] {
        let (exception, message) = fixture.refused("checkAccess", &check("/own", mode));
        assert_eq!(exception, Exception::AccessControl, "{message}");
    }
    assert_eq!(fixture.refused("checkAccess", &check("/none", 4)).0, Exception::FileNotFound);
}

#[test]
fn what_is_not_there_is_refused_by_its_name() {
    let mut fixture = Fixture::new(1);
    for method in ["satisfyStoragePolicy", "listReencryptionStatus", "getDataEncryptionKey"] {
        let (exception, message) = fixture.refused(method, &calls::Empty {});
        assert_eq!(exception, Exception::UnsupportedOperation);
        assert_eq!(message, format!("{method} is not supported by yeoul dfs"));
    }
}

#[test]
fn refusals_are_in_the_words_of_hdfs() {
    let mut fixture = Fixture::new(1);
    let missing = "Path not found: /ecdir".to_owned();
    let set = calls::PolicyRequest { src: "/ecdir".to_owned(), policy: None };
    for method in ["setErasureCodingPolicy", "unsetErasureCodingPolicy", "getErasureCodingPolicy"] {
        assert_eq!(fixture.refused(method, &set), (Exception::FileNotFound, missing.clone()), "{method}");
    }
    let enter = calls::SafeModeRequest { action: 2, checked: None };
    let _: BoolResponse = fixture.call("setSafeMode", &enter).unwrap();
    let permission = Permission { mode: 0o700 };
    let set = calls::SetPermissionRequest { src: "/test/file1".to_owned(), permission };
    let message = fixture.refused("setPermission", &set).1;
    assert!(
        message.starts_with("Cannot set permission for /test/file1. Name node is in safe mode."),
        "{message}"
    );
    let message = fixture.refused("mkdirs", &mkdirs("/dir0", 0o755, true)).1;
    assert!(message.starts_with("Cannot create directory /dir0. Name node is in safe mode."), "{message}");
}

#[test]
fn the_journal_begins_a_file_for_the_superuser_and_not_in_safe_mode() {
    let mut fixture = Fixture::new(1);
    let Fixture { state, now, user: root, .. } = &fixture;
    assert_eq!(state.check_may_roll(root, *now), Ok(()));
    let refusal = state.check_may_roll(&user("eve", &[]), *now).unwrap_err();
    assert_eq!(refusal.exception, Exception::AccessControl);
    let enter = calls::SafeModeRequest { action: 2, checked: None };
    let _: BoolResponse = fixture.call("setSafeMode", &enter).unwrap();
    let refusal = fixture.state.check_may_roll(&fixture.user, fixture.now).unwrap_err();
    assert_eq!(refusal.exception, Exception::SafeMode);
    assert!(refusal.message.starts_with("Log not rolled. Name node is in safe mode."), "{}", refusal.message);
}

#[test]
fn open_files_come_in_pages_and_below_a_path_alone() {
    let mut fixture = Fixture::new(0);
    let list = |after, types: &[i32], path: Option<&str>| calls::OpenFilesRequest {
        after,
        types: types.to_vec(),
        path: path.map(str::to_owned),
    };
    for number in 0..1500 {
        fixture.create(&format!("/d/{number:04}"));
    }
    let other = calls::CreateRequest { client_name: "other".to_owned(), ..create("/dd", 1) };
    let _: calls::FileInfoResponse = fixture.call("create", &other).unwrap();
    let closed = fixture.create("/d/closed");
    assert!(fixture.complete("/d/closed", closed, None));
    let page = |fixture: &mut Fixture, request: &calls::OpenFilesRequest| {
        let page: calls::OpenFilesResponse = fixture.call("listOpenFiles", request).unwrap();
        (page.files, page.has_more)
    };
    let (mut files, has_more) = page(&mut fixture, &list(0, &[1], Some("/")));
    assert_eq!((files.len(), has_more), (1000, true));
    let (rest, has_more) = page(&mut fixture, &list(files[999].id, &[1], None));
    assert_eq!((rest.len(), has_more), (501, false));
    files.extend(rest);
    let paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
    let expected: Vec<String> =
        (0..1500).map(|number| format!("/d/{number:04}")).chain(["/dd".to_owned()]).collect();
    assert_eq!(paths, expected);
    let last = files.last().unwrap();
    assert_eq!((last.client_name.as_str(), last.client_host.as_str()), ("other", "10.9.9.9"));
    assert_eq!(page(&mut fixture, &list(0, &[1], Some("/dd"))).0.len(), 1);
    assert_eq!(page(&mut fixture, &list(files[998].id, &[1], Some("/d"))).0.len(), 501, "not /dd");
    assert_eq!(page(&mut fixture, &list(0, &[1], Some("/none"))).0, []);
    assert_eq!(page(&mut fixture, &list(0, &[2], None)).0, [], "nothing is decommissioned");
    fixture.user = user("eve", &[]);
    assert_eq!(fixture.refused("listOpenFiles", &list(0, &[1], None)).0, Exception::AccessControl);
}
