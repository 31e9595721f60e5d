//! Files that are joined: the blocks of all in their order, and nothing where HDFS refuses it.

use super::*;
use crate::ids::InodeId;

fn concat(target: &str, sources: &[&str]) -> calls::ConcatRequest {
    let sources = sources.iter().map(|path| (*path).to_owned()).collect();
    calls::ConcatRequest { target: target.to_owned(), sources }
}

fn joined(fixture: &mut Fixture, target: &str, sources: &[&str]) {
    let _: calls::Empty = fixture.call("concat", &concat(target, sources)).unwrap();
}

fn blocks(fixture: &mut Fixture, path: &str) -> Vec<(u64, u64, u64)> {
    let located = fixture.locations(path);
    located.blocks.iter().map(|one| (one.offset, one.block.id, one.block.length())).collect()
}

#[test]
fn a_file_has_the_blocks_of_the_others_behind_its_own_and_they_are_gone() {
    let mut fixture = Fixture::new(3);
    let ids = [("/d/a", 7), ("/d/b", 1_000_000), ("/d/c", 9)]
        .map(|(path, length)| fixture.write(path, length).block.id);
    let before = fixture.state.tree.inode(InodeId::ROOT).directory().unwrap().counts;
    fixture.now.wall_ms += 5_000;
    joined(&mut fixture, "/d/a", &["/d/c", "/d/b"]);
    let expected = [(0, ids[0], 7), (7, ids[2], 9), (16, ids[1], 1_000_000)];
    assert_eq!(blocks(&mut fixture, "/d/a"), expected);
    assert!(!fixture.exists("/d/b") && !fixture.exists("/d/c"));
    let status = fixture.status("/d/a").unwrap();
    assert_eq!((status.length, status.modified_ms), (1_000_016, fixture.now.wall_ms));
    assert_eq!(fixture.status("/d").unwrap().modified_ms, fixture.now.wall_ms);
    let after = fixture.state.tree.inode(InodeId::ROOT).directory().unwrap().counts;
    assert_eq!((after.bytes, after.space), (before.bytes, before.space));
    assert_eq!((after.files, after.directories), (before.files - 2, before.directories));
    fixture.state.check_counts();
    fixture.sync_all();
    for number in 0..3 {
        assert_eq!(fixture.heartbeat(number).delete, [], "no replica goes");
    }
    // With the file go all of them.
    let gone: BoolResponse = fixture.call("delete", &delete("/d/a", false)).unwrap();
    fixture.sync_all();
    let deleted: usize = (0..3).map(|number| fixture.heartbeat(number).delete.len()).sum();
    assert_eq!((gone.result, deleted), (true, 9));
}

#[test]
fn what_was_joined_is_so_after_a_restart_and_a_call_that_comes_again_is_not_carried_out() {
    let mut fixture = Fixture::new(3);
    for path in ["/a", "/b", "/c"] {
        fixture.write(path, 10);
    }
    let _: calls::Empty = fixture.call_as(77, "concat", &concat("/a", &["/b"])).unwrap();
    let records = fixture.state.take_records();
    let _: calls::Empty = fixture.call_as(77, "concat", &concat("/a", &["/b"])).unwrap();
    assert_eq!(fixture.state.take_records(), [], "it has been carried out");
    let mut again = State::new(rules());
    records.iter().for_each(|record| again.apply(record));
    assert_eq!(fingerprint(&again), fingerprint(&fixture.state));
    let mut loaded = State::new(rules());
    fixture.state.image().records().for_each(|record| loaded.apply(&record));
    assert_eq!(fingerprint(&loaded), fingerprint(&fixture.state));
    let mut fixture = Fixture::of(again);
    fixture.state.begin_term(3_000_000, 0);
    (0..3).for_each(|number| fixture.register(number));
    fixture.context(None, |state, _| state.safe_mode.leave());
    let _: calls::Empty = fixture.call_as(77, "concat", &concat("/a", &["/b"])).unwrap();
    assert_eq!(fixture.status("/a").unwrap().length, 20);
}

#[test]
fn what_cannot_be_joined_is_refused_as_hdfs_does_it() {
    let mut fixture = Fixture::new(3);
    for path in ["/d/a", "/d/b", "/e/c"] {
        fixture.write(path, 10);
    }
    let empty = fixture.create("/d/empty");
    assert!(fixture.complete("/d/empty", empty, None));
    fixture.create("/d/open");
    let large = calls::CreateRequest { block_size: 2 * MIB, ..create("/d/large", 1) };
    let file: calls::FileInfoResponse = fixture.call("create", &large).unwrap();
    let file = file.status.unwrap().id.unwrap();
    let located = fixture.add_block("/d/large", file, None);
    for number in numbers(&located) {
        fixture.notice(number, &located.block, 10, false);
    }
    assert!(fixture.complete("/d/large", file, Some(sized(&located, 10))));
    let illegal = Exception::HadoopIllegalArgument;
    for (target, sources, exception, text) in [
        ("/d/a", &[][..], Exception::IllegalArgument, "No sources given"),
        ("/d/a", &["/d/a"], illegal, "the same with the target"),
        ("/d/a", &["/d/b", "/d/b"], illegal, "at least two of the source files are the same"),
        ("/d/a", &["/e/c"], illegal, "not in the same directory"),
        ("/d/a", &["/d/empty"], illegal, "empty or underConstruction"),
        ("/d/a", &["/d/open"], illegal, "empty or underConstruction"),
        ("/d/a", &["/d/large"], illegal, "preferred block size 2097152"),
        ("/d/open", &["/d/a"], illegal, "target file /d/open is under construction"),
        ("/d/a", &["/d/none"], Exception::FileNotFound, "does not exist: /d/none"),
        ("/d/none", &["/d/a"], Exception::FileNotFound, "does not exist: /d/none"),
        ("/d", &["/d/a"], Exception::FileNotFound, "not a file: /d"),
        ("/d/a", &["/e"], Exception::FileNotFound, "not a file: /e"),
        ("/d/a", &["/"], Exception::FileNotFound, "not a file: /"),
        ("/d/a", &["/.reserved/.inodes/16386"], Exception::Io, "doesn't support"),
    ] {
        let refused = fixture.refused("concat", &concat(target, sources));
        assert_eq!(refused.0, exception, "{target} {sources:?}: {}", refused.1);
        assert!(refused.1.contains(text), "{target} {sources:?}: {}", refused.1);
    }
    joined(&mut fixture, "/d/large", &["/d/b"]);
    joined(&mut fixture, "/d/empty", &["/d/a"]);
    assert_eq!(fixture.status("/d/empty").unwrap().length, 10);
}

#[test]
fn who_may_not_read_or_remove_a_file_may_not_join_it() {
    let mut fixture = Fixture::new(3);
    for path in ["/d/a", "/d/b"] {
        fixture.write(path, 10);
    }
    let mode = |src: &str, mode| calls::SetPermissionRequest {
        src: src.to_owned(),
        permission: Permission { mode },
    };
    let set = |fixture: &mut Fixture, path: &str, bits| {
        fixture.user = user("root", &[]);
        let _: calls::Empty = fixture.call("setPermission", &mode(path, bits)).unwrap();
        fixture.user = user("eve", &[]);
    };
    set(&mut fixture, "/d", 0o777);
    let refused = fixture.refused("concat", &concat("/d/a", &["/d/b"]));
    assert!(refused.0 == Exception::AccessControl && refused.1.contains("access=WRITE, inode=\"/d/a\""));
    set(&mut fixture, "/d/a", 0o666);
    set(&mut fixture, "/d/b", 0o600);
    let refused = fixture.refused("concat", &concat("/d/a", &["/d/b"]));
    assert!(refused.0 == Exception::AccessControl && refused.1.contains("access=READ, inode=\"/d/b\""));
    set(&mut fixture, "/d/b", 0o644);
    set(&mut fixture, "/d", 0o755);
    assert_eq!(fixture.refused("concat", &concat("/d/a", &["/d/b"])).0, Exception::AccessControl);
    set(&mut fixture, "/d", 0o1777);
    let refused = fixture.refused("concat", &concat("/d/a", &["/d/b"]));
    assert!(refused.0 == Exception::AccessControl && refused.1.contains("sticky bit"), "{}", refused.1);
    set(&mut fixture, "/d", 0o777);
    joined(&mut fixture, "/d/a", &["/d/b"]);
}
