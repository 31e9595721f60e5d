//! ACLs.

use super::*;
use crate::wire::proto::attributes::{AclEntry, AclRequest, AclStatus, AclStatusResponse};

const ACCESS: i32 = 0;
const DEFAULT: i32 = 1;
const USER: i32 = 0;
const GROUP: i32 = 1;
const MASK: i32 = 2;
const OTHER: i32 = 3;

fn entry(scope: i32, kind: i32, name: &str, permissions: i32) -> AclEntry {
    let name = Some(name.to_owned()).filter(|name| !name.is_empty());
    AclEntry { kind, scope, permissions, name }
}

fn request(path: &str, entries: &[AclEntry]) -> AclRequest {
    AclRequest { src: path.to_owned(), entries: entries.to_vec() }
}

impl Fixture {
    fn change_acl(&mut self, method: &str, path: &str, entries: &[AclEntry]) {
        let _: calls::Empty = self.call(method, &request(path, entries)).unwrap();
    }

    fn acl(&mut self, path: &str) -> AclStatus {
        let request = calls::PathRequest { src: path.to_owned() };
        self.call::<_, AclStatusResponse>("getAclStatus", &request).unwrap().status
    }

    fn mode(&mut self, path: &str) -> (u32, bool) {
        let status = self.status(path).unwrap();
        let has_acl = status.flags.unwrap() & 1 != 0;
        assert_eq!(status.permission.mode & 1 << 12 != 0, has_acl);
        (status.permission.mode & 0o1777, has_acl)
    }

    fn may_read(&mut self, name: &str, groups: &[&str], path: &str) -> bool {
        let before = std::mem::replace(&mut self.user, user(name, groups));
        let request = calls::CheckAccessRequest { src: path.to_owned(), mode: 4 };
        let answer = self.call::<_, calls::Empty>("checkAccess", &request);
        self.user = before;
        assert!(answer.as_ref().err().is_none_or(|error| error.exception == Exception::AccessControl));
        answer.is_ok()
    }
}

#[test]
fn entries_for_users_and_groups_decide_within_the_mask() {
    let mut fixture = Fixture::new(1);
    fixture.mkdir("/d");
    let mode = |mode| calls::SetPermissionRequest { src: "/d".to_owned(), permission: Permission { mode } };
    let _: calls::Empty = fixture.call("setPermission", &mode(0o740)).unwrap();
    assert!(!fixture.may_read("bob", &["dev"], "/d"));
    let entries =
        [entry(ACCESS, USER, "bob", 4), entry(ACCESS, GROUP, "dev", 0), entry(ACCESS, GROUP, "qa", 4)];
    fixture.change_acl("modifyAclEntries", "/d", &entries);
    assert_eq!(fixture.mode("/d"), (0o740, true));
    assert!(fixture.may_read("bob", &["dev"], "/d"), "the user's own entry comes first");
    assert!(fixture.may_read("eve", &["dev", "qa"], "/d"), "one group of several is enough");
    assert!(!fixture.may_read("eve", &["dev"], "/d") && !fixture.may_read("eve", &[], "/d"));
    assert!(fixture.may_read("eve", &["supergroup"], "/d"), "the group of the directory");
    fixture.change_acl("modifyAclEntries", "/d", &[entry(ACCESS, OTHER, "", 4)]);
    assert!(fixture.may_read("eve", &[], "/d") && !fixture.may_read("eve", &["dev"], "/d"));

    // A change of the mode changes the mask, which bounds all but the owner and others.
    let _: calls::Empty = fixture.call("setPermission", &mode(0o714)).unwrap();
    assert!(!fixture.may_read("bob", &[], "/d") && !fixture.may_read("eve", &["qa"], "/d"));
    let refused = fixture.refused("modifyAclEntries", &request("/none", &entries));
    assert_eq!(refused.0, Exception::FileNotFound);
    fixture.user = user("bob", &[]);
    assert_eq!(fixture.refused("setAcl", &request("/d", &entries)).0, Exception::AccessControl);
    let look = calls::CheckAccessRequest { src: "/d".to_owned(), mode: 4 };
    assert!(fixture.refused("checkAccess", &look).1.ends_with("inode=\"/d\":root:supergroup:drwx--xr--+"));
    fixture.user = user("root", &[]);

    let remove = calls::PathRequest { src: "/d".to_owned() };
    let _: calls::Empty = fixture.call("removeAcl", &remove).unwrap();
    assert_eq!(fixture.mode("/d"), (0o744, false), "the group has what its entry said");
    assert_eq!(fixture.state.tree.attached.bytes(), 0);
}

#[test]
fn what_is_no_acl_is_refused_and_changes_nothing() {
    let mut fixture = Fixture::new(1);
    fixture.mkdir("/d");
    let file = fixture.create("/d/f");
    assert!(fixture.complete("/d/f", file, None));
    let many: Vec<AclEntry> = (0..33).map(|number| entry(ACCESS, USER, &format!("u{number}"), 4)).collect();
    let refused = fixture.refused("modifyAclEntries", &request("/d", &many));
    let message = "Invalid ACL: ACL has 33 access entries, which exceeds maximum of 32. Path: /d";
    assert_eq!(refused, (Exception::Acl, message.to_owned()));
    let default = [entry(DEFAULT, USER, "bob", 4)];
    assert_eq!(fixture.refused("modifyAclEntries", &request("/d/f", &default)).0, Exception::Acl);
    let long = [entry(ACCESS, USER, &"x".repeat(256), 4)];
    for wrong in [long, [entry(2, USER, "", 4)], [entry(ACCESS, 4, "", 4)], [entry(ACCESS, USER, "", 8)]] {
        assert_eq!(fixture.refused("modifyAclEntries", &request("/d", &wrong)).0, Exception::Acl);
    }
    let mask = [entry(ACCESS, MASK, "", 0)];
    fixture.change_acl("modifyAclEntries", "/d", &[entry(ACCESS, USER, "bob", 4)]);
    assert_eq!(fixture.refused("removeAclEntries", &request("/d", &mask)).0, Exception::Acl);
}

#[test]
fn children_inherit_default_entries_and_all_of_it_outlives_a_restart() {
    let mut fixture = Fixture::new(1);
    fixture.mkdir("/d");
    fixture.change_acl(
        "modifyAclEntries",
        "/d",
        &[entry(DEFAULT, USER, "bob", 7), entry(DEFAULT, OTHER, "", 0)],
    );
    assert_eq!(fixture.mode("/d"), (0o755, true));
    let unmasked = |mode| Some(Permission { mode });
    // The client's umask does not count where there is a default ACL.
    let make = calls::MkdirsRequest { unmasked: unmasked(0o777), ..mkdirs("/d/a/b", 0o700, true) };
    let _: BoolResponse = fixture.call("mkdirs", &make).unwrap();
    assert_eq!((fixture.mode("/d/a"), fixture.mode("/d/a/b")), ((0o770, true), (0o770, true)));
    let make = calls::CreateRequest { unmasked: unmasked(0o666), ..create("/d/x/f", 1) };
    let answer: calls::FileInfoResponse = fixture.call("create", &make).unwrap();
    let status = answer.status.unwrap();
    assert_eq!((status.permission.mode & 0o777, status.flags), (0o660, Some(1)));
    assert_eq!(fixture.mode("/d/x/f"), (0o660, true));
    let of_file = [entry(ACCESS, USER, "bob", 7), entry(ACCESS, GROUP, "", 5)];
    assert_eq!(fixture.acl("/d/x/f").entries, of_file);
    let expected = fixture.acl("/d/a/b");
    assert_eq!(expected.entries.len(), 2 + 5);
    let gone = calls::PathRequest { src: "/d/a".to_owned() };
    let _: calls::Empty = fixture.call("removeDefaultAcl", &gone).unwrap();
    assert_eq!(fixture.acl("/d/a").entries, of_file);
    let of_b: Vec<_> =
        [(USER, 7), (GROUP, 5), (OTHER, 0)].map(|(kind, bits)| entry(ACCESS, kind, "", bits)).to_vec();
    let _: BoolResponse = fixture.call("rename", &rename("/d/x", "/y", false)).unwrap();
    for mut again in fixture.started_again(1) {
        // Calls of another client, not those of before.
        again.next_call = 1_000;
        assert_eq!(again.acl("/d/a/b"), expected);
        assert_eq!(again.acl("/y/f").entries, of_file);
        assert_eq!((again.mode("/y/f"), again.mode("/d")), ((0o660, true), (0o755, true)));
        again.change_acl("setAcl", "/d/a", &of_b);
        assert_eq!(again.mode("/d/a"), (0o750, false));
        let _: BoolResponse = again.call("delete", &delete("/d", true)).unwrap();
        let _: BoolResponse = again.call("delete", &delete("/y", true)).unwrap();
        assert_eq!(again.state.tree.attached.bytes(), 0);
    }
}

#[test]
fn without_posix_inheritance_the_umask_counts_and_acls_can_be_switched_off() {
    let mut fixture = Fixture::new(1);
    fixture.state.rules.posix_acl_inheritance = false;
    fixture.mkdir("/d");
    fixture.change_acl("modifyAclEntries", "/d", &[entry(DEFAULT, USER, "bob", 7)]);
    let make =
        calls::MkdirsRequest { unmasked: Some(Permission { mode: 0o777 }), ..mkdirs("/d/a", 0o700, true) };
    let _: BoolResponse = fixture.call("mkdirs", &make).unwrap();
    assert_eq!(fixture.mode("/d/a"), (0o700, true));
    fixture.state.rules.acls_enabled = false;
    let (path, bob) = (calls::PathRequest { src: "/d".to_owned() }, [entry(ACCESS, USER, "bob", 4)]);
    let refused = [
        fixture.refused("setAcl", &request("/d", &[])),
        fixture.refused("modifyAclEntries", &request("/d", &bob)),
        fixture.refused("removeDefaultAcl", &path),
        fixture.refused("removeAcl", &path),
        fixture.refused("getAclStatus", &path),
    ];
    for (exception, message) in refused {
        assert_eq!(exception, Exception::Acl);
        assert!(message.contains("dfs.namenode.acls.enabled"), "{message}");
    }
}
