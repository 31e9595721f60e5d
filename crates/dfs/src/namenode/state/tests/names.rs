//! Names, owners, modes, and listings.

use super::*;

#[test]
fn owners_groups_and_modes_decide() {
    let mut fixture = Fixture::new(1);
    let _: BoolResponse = fixture.call("mkdirs", &mkdirs("/people/alice/deep", 0o555, true)).unwrap();
    let mode = |status: crate::wire::proto::shared::FileStatus| status.permission.mode;
    assert_eq!(
        fixture.status("/people").map(mode),
        Some(0o755),
        "implied directories can be written by their owner"
    );
    assert_eq!(fixture.status("/people/alice/deep").map(mode), Some(0o555));
    let own = |path: &str, owner: &str, group: &str| calls::SetOwnerRequest {
        src: path.to_owned(),
        owner: Some(owner.to_owned()),
        group: Some(group.to_owned()),
    };
    let _: calls::Empty = fixture.call("setOwner", &own("/people/alice", "alice", "staff")).unwrap();
    let set = |path: &str, mode| calls::SetPermissionRequest {
        src: path.to_owned(),
        permission: Permission { mode },
    };
    let _: calls::Empty = fixture.call("setPermission", &set("/people/alice", 0o750)).unwrap();

    fixture.user = user("alice", &["users"]);
    let file = fixture.create("/people/alice/f");
    assert!(fixture.complete("/people/alice/f", file, None));
    let status = fixture.status("/people/alice/f").unwrap();
    assert_eq!(
        (status.owner.as_str(), status.group.as_str()),
        ("alice", "staff"),
        "the group is that of the directory"
    );
    let (exception, message) = fixture.refused("create", &create("/people/g", 1));
    assert_eq!(exception, Exception::AccessControl);
    let expected =
        "Permission denied: user=alice, access=WRITE, inode=\"/people\":root:supergroup:drwxr-xr-x";
    assert_eq!(message, expected);
    let message = fixture.refused("setOwner", &own("/people/alice/f", "bob", "staff")).1;
    assert_eq!(message, "User alice is not a super user (non-super user cannot change owner).");
    let message = fixture.refused("setOwner", &own("/people/alice/f", "alice", "wheel")).1;
    assert_eq!(message, "User alice does not belong to wheel");
    let _: calls::Empty = fixture.call("setOwner", &own("/people/alice/f", "alice", "users")).unwrap();
    let message = fixture.refused("setSafeMode", &calls::SafeModeRequest { action: 2, checked: None }).1;
    assert!(
        message.starts_with("Access denied for user alice. Superuser privilege is required"),
        "{message}"
    );

    fixture.user = user("bob", &["staff"]);
    assert!(fixture.exists("/people/alice/f"), "its group may pass");
    assert_eq!(fixture.refused("delete", &delete("/people/alice/f", false)).0, Exception::AccessControl);
    fixture.user = user("carol", &[]);
    let look = calls::PathRequest { src: "/people/alice/f".to_owned() };
    assert_eq!(fixture.refused("getFileInfo", &look).0, Exception::AccessControl);

    // In a directory with the sticky bit each removes only what is theirs.
    fixture.user = user("root", &[]);
    let _: BoolResponse = fixture.call("mkdirs", &mkdirs("/tmp", 0o1777, true)).unwrap();
    fixture.user = user("alice", &[]);
    let file = fixture.create("/tmp/a");
    assert!(fixture.complete("/tmp/a", file, None));
    fixture.user = user("bob", &[]);
    let (exception, message) = fixture.refused("delete", &delete("/tmp/a", false));
    assert_eq!(exception, Exception::AccessControl);
    assert!(
        message.starts_with(
            "Permission denied by sticky bit: user=bob, path=\"/tmp/a\":alice:supergroup:-rw-r--r--"
        ),
        "{message}"
    );
}

#[test]
fn renames_and_deletions_go_as_in_hdfs() {
    let mut fixture = Fixture::new(1);
    fixture.mkdir("/a/b");
    fixture.mkdir("/c");
    fixture.create("/a/f");
    fixture.create("/c/f");
    let mut old = |src: &str, dst: &str| {
        fixture.call::<_, BoolResponse>("rename", &rename(src, dst, false)).unwrap().result
    };
    assert!(!old("/none", "/x") && !old("/", "/c") && !old("/a", "/a/b") && !old("/a", "/a"));
    assert!(!old("/a/f", "/c"), "the directory has that name");
    assert!(!old("/a/f", "/none/f"));
    assert!(old("/a/f", "/a/f") && old("/a/f", "/a"), "it is there already");
    assert!(old("/a/f", "/a/b") && old("/a/b/f", "/a/g"));
    let mut new =
        |src: &str, dst: &str, overwrite| fixture.refused("rename2", &rename(src, dst, overwrite)).0;
    assert_eq!(new("/none", "/x", false), Exception::FileNotFound);
    assert_eq!(new("/a/g", "/a/g", true), Exception::FileAlreadyExists);
    assert_eq!(new("/a/g", "/c/f", false), Exception::FileAlreadyExists);
    assert_eq!(new("/a", "/a/b/x", false), Exception::Io);
    assert_eq!(new("/a/g", "/c", true), Exception::Io, "a file is no directory");
    assert_eq!(new("/a/b", "/c", true), Exception::Io, "it is not empty");
    assert_eq!(new("/a/g", "/none/x", false), Exception::FileNotFound);
    assert_eq!(new("/a/g", "/c/f/x", false), Exception::ParentNotDirectory);
    assert_eq!(new("/a/g", "/c/x:y", false), Exception::InvalidPath);
    let _: calls::Empty = fixture.call("rename2", &rename("/a/g", "/c/f", true)).unwrap();

    assert_eq!(fixture.refused("delete", &delete("/c", false)).0, Exception::PathIsNotEmptyDirectory);
    assert_eq!(fixture.refused("delete", &delete("/", false)).0, Exception::PathIsNotEmptyDirectory);
    let answer: BoolResponse = fixture.call("delete", &delete("/", true)).unwrap();
    assert!(!answer.result, "the root stays");
    let mut gone = |path: &str, recursive| {
        fixture.call::<_, BoolResponse>("delete", &delete(path, recursive)).unwrap().result
    };
    assert!(!gone("/", true) && !gone("/none", true) && gone("/c", true) && gone("/a/b", false));
    assert!(!fixture.exists("/c/f"));
}

#[test]
fn behind_a_file_is_nothing_and_nothing_is_made() {
    let mut fixture = Fixture::new(1);
    let file = fixture.create("/d/f");
    assert!(fixture.complete("/d/f", file, None));
    let src = calls::PathRequest { src: "/d/f/g/h".to_owned() };
    let is_file = "/d/f (is not a directory)".to_owned();
    assert!(!fixture.exists("/d/f/g/h"), "the superuser is told that it is not there");
    for method in ["getContentSummary", "isFileClosed"] {
        assert_eq!(fixture.refused(method, &src), (Exception::AccessControl, is_file.clone()), "{method}");
    }
    fixture.user = user("alice", &[]);
    assert_eq!(fixture.refused("getFileInfo", &src), (Exception::AccessControl, is_file.clone()));
    fixture.user = user("root", &[]);
    let refused = [
        fixture.refused("delete", &delete("/d/f/g", true)),
        fixture.refused("rename", &rename("/d/f/g", "/e", false)),
        fixture.refused("rename2", &rename("/d/f/g", "/e", true)),
    ];
    assert_eq!(refused, [(); 3].map(|()| (Exception::AccessControl, is_file.clone())));
    let orphan = calls::CreateRequest { create_parent: false, ..create("/d/f/g/h", 1) };
    let refused = [
        fixture.refused("create", &orphan),
        fixture.refused("mkdirs", &mkdirs("/d/f/g/h", 0o755, false)),
        fixture.refused("rename", &rename("/d", "/d/f/g", false)),
        fixture.refused("rename2", &rename("/none", "/d/f/g", true)),
    ];
    assert_eq!(refused, [(); 4].map(|()| (Exception::ParentNotDirectory, is_file.clone())));
}

#[test]
fn who_may_not_change_a_directory_learns_that_first() {
    let mut fixture = Fixture::new(1);
    fixture.mkdir("/d/full/deep");
    let _: BoolResponse = fixture.call("mkdirs", &mkdirs("/own", 0o777, true)).unwrap();
    fixture.create("/d/f");
    fixture.user = user("alice", &[]);
    let file = fixture.create("/own/f");
    assert!(fixture.complete("/own/f", file, None));
    let denied = |inode: &str| {
        let message = format!(
            "Permission denied: user=alice, access=WRITE, inode=\"{inode}\":root:supergroup:drwxr-xr-x"
        );
        (Exception::AccessControl, message)
    };
    let none = calls::CreateRequest { replication: 0, ..create("/d/f", 1) };
    let orphan = calls::CreateRequest { create_parent: false, ..create("/d/x/y", 1) };
    let refused = [
        ("of a file that is there", fixture.refused("create", &none)),
        ("where a directory is", fixture.refused("create", &create("/d/full", 3))),
        ("without a parent", fixture.refused("create", &orphan)),
        ("without a parent", fixture.refused("mkdirs", &mkdirs("/d/x/y", 0o755, false))),
        ("of nothing", fixture.refused("delete", &delete("/d/none", true))),
        ("from there", fixture.refused("rename", &rename("/d/none", "/own/g", false))),
        ("to itself", fixture.refused("rename", &rename("/d/f", "/d/f", false))),
        ("into it", fixture.refused("rename", &rename("/own/f", "/d", false))),
        ("of nothing to there", fixture.refused("rename2", &rename("/own/none", "/d/g", false))),
        ("over what is there", fixture.refused("rename2", &rename("/own/f", "/d/full", false))),
    ];
    for (what, refused) in refused {
        assert_eq!(refused, denied("/d"), "{what}");
    }
    let set = calls::SetReplicationRequest { src: "/d/full".to_owned(), replication: 2 };
    assert_eq!(fixture.refused("setReplication", &set), denied("/d/full"));
    let recover =
        |src: &str| calls::RecoverLeaseRequest { src: src.to_owned(), client_name: "alice".to_owned() };
    let message = "Permission denied: user=alice, access=WRITE, inode=\"/d/f\":root:supergroup:-rw-r--r--";
    assert_eq!(
        fixture.refused("recoverLease", &recover("/d/f")),
        (Exception::AccessControl, message.to_owned())
    );
    fixture.user = user("root", &[]);
    assert_eq!(fixture.refused("create", &none).0, Exception::Io, "no copy at all");
    let _: BoolResponse = fixture.call("mkdirs", &mkdirs("/d/closed", 0o700, true)).unwrap();
    let file = fixture.create("/d/g");
    assert!(fixture.complete("/d/g", file, None));
    fixture.user = user("alice", &[]);
    let answer: BoolResponse = fixture.call("recoverLease", &recover("/d/g")).unwrap();
    assert!(answer.result, "it is closed already");
    let count = calls::PathRequest { src: "/d".to_owned() };
    let (exception, message) = fixture.refused("getContentSummary", &count);
    assert_eq!(exception, Exception::AccessControl, "an empty directory that may not be read is one, too");
    assert!(message.contains("access=READ_EXECUTE, inode=\"/d/closed\""), "{message}");
}

#[test]
fn wrong_calls_are_refused_with_the_class_that_clients_know() {
    let mut fixture = Fixture::new(1);
    fixture.mkdir("/d");
    let file = fixture.create("/f");
    assert!(fixture.complete("/f", file, None));
    let src = |path: &str| calls::PathRequest { src: path.to_owned() };
    assert_eq!(fixture.refused("mkdirs", &mkdirs("/f", 0o755, true)).0, Exception::FileAlreadyExists);
    assert_eq!(fixture.refused("mkdirs", &mkdirs("/f/g", 0o755, true)).0, Exception::ParentNotDirectory);
    assert_eq!(fixture.refused("mkdirs", &mkdirs("/x/y", 0o755, false)).0, Exception::FileNotFound);
    assert_eq!(fixture.refused("create", &create("/d", 3)).0, Exception::FileAlreadyExists);
    assert_eq!(fixture.refused("create", &create("/f/g", 1)).0, Exception::ParentNotDirectory);
    let orphan = calls::CreateRequest { create_parent: false, ..create("/x/y", 1) };
    assert_eq!(fixture.refused("create", &orphan).0, Exception::FileNotFound);
    for replication in [0, 513] {
        let many = calls::CreateRequest { replication, ..create("/g", 1) };
        assert_eq!(fixture.refused("create", &many).0, Exception::Io);
    }
    let coded = calls::CreateRequest { policy: Some("NOPE".to_owned()), ..create("/g", 1) };
    assert_eq!(fixture.refused("create", &coded).0, Exception::HadoopIllegalArgument);
    let directory = calls::BlockLocationsRequest { src: "/d".to_owned(), offset: 0, length: 1 };
    assert_eq!(fixture.refused("getBlockLocations", &directory).0, Exception::FileNotFound);
    assert_eq!(fixture.refused("isFileClosed", &src("/none")).0, Exception::FileNotFound);
    for method in ["createSnapshot", "createSymlink", "addCachePool"] {
        let (exception, message) = fixture.refused(method, &src("/f"));
        assert_eq!(exception, Exception::UnsupportedOperation, "{method}");
        assert!(message.contains(method), "{message}");
    }
    assert_eq!(fixture.refused("fly", &src("/f")).0, Exception::NoSuchMethod);
    let argument = Bytes::from_static(b"\xff\xff");
    let refused =
        fixture.context(None, |state, context| state.call(context, "create", argument)).unwrap_err();
    assert_eq!(refused.exception, Exception::HadoopIllegalArgument);
}

#[test]
fn a_listing_comes_in_pages_in_the_order_of_bytes() {
    let mut fixture = Fixture::new(1);
    for number in 0..1500 {
        fixture.mkdir(&format!("/d/{number:04}"));
    }
    let list = |start_after: &[u8]| calls::ListingRequest {
        src: "/d".to_owned(),
        start_after: Bytes::copy_from_slice(start_after),
        need_location: false,
    };
    let first: calls::ListingResponse = fixture.call("getListing", &list(b"")).unwrap();
    let first = first.listing.unwrap();
    assert_eq!(
        (first.entries.len(), first.remaining, &first.entries[999].path[..]),
        (1000, 500, &b"0999"[..])
    );
    let second: calls::ListingResponse = fixture.call("getListing", &list(b"0999")).unwrap();
    let second = second.listing.unwrap();
    assert_eq!((second.entries.len(), second.remaining, &second.entries[0].path[..]), (500, 0, &b"1000"[..]));
}
