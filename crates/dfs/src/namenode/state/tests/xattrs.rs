//! Extended attributes.

use super::*;
use crate::wire::proto::attributes::{
    GetXAttrsRequest, RemoveXAttrRequest, SetXAttrRequest, XAttr, XAttrsResponse,
};

const USER: i32 = 0;
const TRUSTED: i32 = 1;
const SECURITY: i32 = 2;
const SYSTEM: i32 = 3;
const RAW: i32 = 4;
const CREATE: u32 = 1;
const REPLACE: u32 = 2;

fn named(namespace: i32, name: &str) -> XAttr {
    XAttr { namespace, name: name.to_owned(), value: None }
}

fn set(path: &str, namespace: i32, name: &str, value: &[u8], flags: u32) -> SetXAttrRequest {
    let value = Some(Bytes::copy_from_slice(value));
    let xattr = Some(XAttr { value, ..named(namespace, name) });
    SetXAttrRequest { src: path.to_owned(), xattr, flags: Some(flags) }
}

fn get(path: &str, xattrs: &[XAttr]) -> GetXAttrsRequest {
    GetXAttrsRequest { src: path.to_owned(), xattrs: xattrs.to_vec() }
}

fn remove(path: &str, namespace: i32, name: &str) -> RemoveXAttrRequest {
    RemoveXAttrRequest { src: path.to_owned(), xattr: Some(named(namespace, name)) }
}

impl Fixture {
    fn set_xattr(&mut self, path: &str, namespace: i32, name: &str, value: &[u8]) {
        let _: calls::Empty =
            self.call("setXAttr", &set(path, namespace, name, value, CREATE | REPLACE)).unwrap();
    }

    fn xattrs(&mut self, path: &str) -> Vec<(i32, String, Option<Bytes>)> {
        let answer: XAttrsResponse = self.call("getXAttrs", &get(path, &[])).unwrap();
        let of = |xattr: XAttr| (xattr.namespace, xattr.name, xattr.value);
        answer.xattrs.into_iter().map(of).collect()
    }
}

fn one(namespace: i32, name: &str, value: &'static [u8]) -> (i32, String, Option<Bytes>) {
    (namespace, name.to_owned(), Some(Bytes::from_static(value)))
}

#[test]
fn attributes_are_set_read_replaced_and_removed() {
    let mut fixture = Fixture::new(1);
    fixture.mkdir("/d");
    assert!(fixture.xattrs("/d").is_empty());
    let missing = fixture.refused("setXAttr", &set("/d", USER, "a", b"1", REPLACE));
    let text = "XAttr: a does not exist. The CREATE flag must be specified.";
    assert_eq!(missing, (Exception::Io, text.to_owned()));
    let _: calls::Empty = fixture.call("setXAttr", &set("/d", USER, "a", b"1", CREATE)).unwrap();
    let there = fixture.refused("setXAttr", &set("/d", USER, "a", b"2", CREATE)).1;
    assert_eq!(there, "XAttr: a already exists. The REPLACE flag must be specified.");
    assert_eq!(
        fixture.refused("setXAttr", &set("/d", USER, "a", b"2", 0)).0,
        Exception::HadoopIllegalArgument
    );
    fixture.set_xattr("/d", USER, "b", b"");
    fixture.set_xattr("/d", USER, "a", b"2");
    assert_eq!(fixture.xattrs("/d"), [one(USER, "a", b"2"), one(USER, "b", b"")]);
    let answer: XAttrsResponse = fixture.call("getXAttrs", &get("/d", &[named(USER, "b")])).unwrap();
    assert_eq!(answer.xattrs.len(), 1);
    let none = fixture.refused("getXAttrs", &get("/d", &[named(USER, "b"), named(USER, "c")])).0;
    assert_eq!(none, Exception::XAttrNotFound);
    let list = calls::PathRequest { src: "/d".to_owned() };
    let listed: XAttrsResponse = fixture.call("listXAttrs", &list).unwrap();
    assert_eq!(listed.xattrs, [named(USER, "a"), named(USER, "b")]);
    let _: calls::Empty = fixture.call("removeXAttr", &remove("/d", USER, "a")).unwrap();
    let gone = fixture.refused("removeXAttr", &remove("/d", USER, "a")).1;
    assert_eq!(gone, "No matching attributes found for remove operation");
    assert_eq!(fixture.xattrs("/d"), [one(USER, "b", b"")]);
    assert_eq!(fixture.refused("getXAttrs", &get("/none", &[])).0, Exception::FileNotFound);
}

#[test]
fn limits_are_on_the_number_and_on_the_bytes_of_attributes() {
    let mut fixture = Fixture::new(1);
    fixture.mkdir("/d");
    let before = fixture.state.bytes();
    for number in 0..32 {
        fixture.set_xattr("/d", USER, &format!("a{number}"), b"x");
    }
    assert!(fixture.state.bytes() > before + 32 * 64, "they are charged");
    let (exception, message) = fixture.refused("setXAttr", &set("/d", USER, "a32", b"x", CREATE));
    assert_eq!(exception, Exception::Io);
    assert_eq!(message, "Cannot add additional XAttr to inode, would exceed limit of 32");
    fixture.set_xattr("/d", USER, "a31", &[7; 16 * 1024 - 3]);
    let big = set("/d", USER, "a31", &[7; 16 * 1024 - 2], REPLACE);
    assert_eq!(fixture.refused("setXAttr", &big).0, Exception::HadoopIllegalArgument);
    let huge = set("/d", USER, "a31", &[7; 64 * 1024], REPLACE);
    assert!(fixture.refused("setXAttr", &huge).1.starts_with("The XAttr is too big."));
    for number in 0..32 {
        let _: calls::Empty =
            fixture.call("removeXAttr", &remove("/d", USER, &format!("a{number}"))).unwrap();
    }
    assert_eq!(fixture.state.tree.attached.bytes(), 0);
}

#[test]
fn each_namespace_has_its_own_permissions() {
    let mut fixture = Fixture::new(1);
    fixture.mkdir("/d");
    let file = fixture.create("/d/f");
    assert!(fixture.complete("/d/f", file, None));
    fixture.set_xattr("/d/f", USER, "u", b"1");
    fixture.set_xattr("/d/f", TRUSTED, "t", b"2");
    assert_eq!(fixture.xattrs("/d/f"), [one(USER, "u", b"1"), one(TRUSTED, "t", b"2")]);
    let denied = |fixture: &mut Fixture, namespace, name: &str| {
        let refused = fixture.refused("setXAttr", &set("/d/f", namespace, name, b"1", 3));
        assert_eq!(refused.0, Exception::AccessControl, "{namespace} {name}");
        refused.1
    };
    assert_eq!(denied(&mut fixture, SYSTEM, "x"), "User doesn't have permission for xattr: system.x");
    denied(&mut fixture, SECURITY, "x");
    denied(&mut fixture, RAW, "x");
    denied(&mut fixture, SECURITY, "hdfs.unreadable.by.superuser");
    let unreadable = XAttr { value: None, ..named(SECURITY, "hdfs.unreadable.by.superuser") };
    let set_it = |path: &str| SetXAttrRequest {
        src: path.to_owned(),
        xattr: Some(unreadable.clone()),
        flags: Some(1),
    };
    assert_eq!(fixture.refused("setXAttr", &set_it("/d")).0, Exception::Io, "it is of files");
    let closed = fixture.create("/d/closed");
    assert!(fixture.complete("/d/closed", closed, None));
    let _: calls::Empty = fixture.call("setXAttr", &set_it("/d/closed")).unwrap();
    let keep = remove("/d/closed", SECURITY, "hdfs.unreadable.by.superuser");
    assert_eq!(fixture.refused("removeXAttr", &keep).0, Exception::AccessControl);
    let read = calls::BlockLocationsRequest { src: "/d/closed".to_owned(), offset: 0, length: 1 };
    let (exception, message) = fixture.refused("getBlockLocations", &read);
    assert_eq!(exception, Exception::AccessControl);
    assert!(message.contains("the superuser is not allowed"), "{message}");
    // Below the raw folder the superuser has names of its own.
    fixture.set_xattr("/.reserved/raw/d/f", RAW, "r", b"3");
    assert_eq!(fixture.xattrs("/d/f").len(), 2);
    assert_eq!(fixture.xattrs("/.reserved/raw/d/f").len(), 3);

    fixture.user = user("alice", &[]);
    assert_eq!(fixture.xattrs("/d/f"), [one(USER, "u", b"1")]);
    assert_eq!(fixture.refused("getXAttrs", &get("/.reserved/raw/d/f", &[])).0, Exception::AccessControl);
    assert_eq!(
        fixture.refused("getXAttrs", &get("/d/f", &[named(TRUSTED, "t")])).0,
        Exception::AccessControl
    );
    denied(&mut fixture, USER, "u");
    assert_eq!(fixture.refused("removeXAttr", &remove("/d/f", USER, "u")).0, Exception::AccessControl);
    fixture.user = user("root", &[]);
    let mode = calls::SetPermissionRequest { src: "/d/f".to_owned(), permission: Permission { mode: 0o602 } };
    let _: calls::Empty = fixture.call("setPermission", &mode).unwrap();
    fixture.user = user("alice", &[]);
    fixture.set_xattr("/d/f", USER, "u", b"4");
    assert_eq!(fixture.refused("getXAttrs", &get("/d/f", &[])).0, Exception::AccessControl);
}

#[test]
fn attributes_go_with_their_file_and_outlive_a_restart() {
    let mut fixture = Fixture::new(1);
    fixture.mkdir("/d/sub");
    fixture.mkdir("/z");
    fixture.set_xattr("/d", USER, "a", b"1");
    fixture.set_xattr("/d/sub", USER, "gone", b"2");
    fixture.set_xattr("/d", USER, "b", b"3");
    let _: calls::Empty = fixture.call("removeXAttr", &remove("/d", USER, "b")).unwrap();
    let _: BoolResponse = fixture.call("delete", &delete("/d/sub", true)).unwrap();
    let _: BoolResponse = fixture.call("rename", &rename("/d", "/z/e", false)).unwrap();
    fixture.mkdir("/d/sub");
    assert!(fixture.xattrs("/d").is_empty() && fixture.xattrs("/d/sub").is_empty());
    for mut again in fixture.started_again(1) {
        assert_eq!(again.xattrs("/z/e"), [one(USER, "a", b"1")]);
        assert!(again.xattrs("/d/sub").is_empty());
        assert_eq!(again.state.tree.attached.bytes(), fixture.state.tree.attached.bytes());
    }
}

#[test]
fn switched_off_no_call_about_attributes_is_carried_out() {
    let mut fixture = Fixture::new(1);
    fixture.mkdir("/d");
    fixture.set_xattr("/d", USER, "a", b"1");
    fixture.state.rules.xattrs_enabled = false;
    let list = calls::PathRequest { src: "/d".to_owned() };
    let refused = [
        fixture.refused("setXAttr", &set("/d", USER, "a", b"2", REPLACE)),
        fixture.refused("removeXAttr", &remove("/d", USER, "a")),
        fixture.refused("getXAttrs", &get("/d", &[])),
        fixture.refused("getXAttrs", &get("/d", &[named(USER, "a")])),
        fixture.refused("listXAttrs", &list),
    ];
    for (exception, message) in refused {
        assert_eq!(exception, Exception::Io);
        assert!(message.contains("dfs.namenode.xattrs.enabled"), "{message}");
    }
}

#[test]
fn attributes_of_a_sticky_directory_are_its_owner_s_and_each_has_a_name() {
    let mut fixture = Fixture::new(1);
    fixture.mkdir("/s");
    let mode = calls::SetPermissionRequest { src: "/s".to_owned(), permission: Permission { mode: 0o1777 } };
    let _: calls::Empty = fixture.call("setPermission", &mode).unwrap();
    fixture.set_xattr("/s", TRUSTED, "t", b"1");
    let nameless = fixture.refused("setXAttr", &set("/s", USER, "", b"1", CREATE));
    assert_eq!(nameless, (Exception::HadoopIllegalArgument, "XAttr name cannot be empty.".to_owned()));
    fixture.user = user("alice", &[]);
    assert_eq!(fixture.refused("setXAttr", &set("/s", USER, "u", b"1", CREATE)).0, Exception::AccessControl);
    assert_eq!(fixture.refused("removeXAttr", &remove("/s", TRUSTED, "t")).0, Exception::AccessControl);
    fixture.user = user("root", &[]);
    assert_eq!(fixture.xattrs("/s"), [one(TRUSTED, "t", b"1")]);
}
