//! Calls that come again, and a NameNode that is started again.

use super::*;

/// A call with an id, and its answer's bytes.
type Repeatable = Box<dyn Fn(&mut Fixture, i32) -> Vec<u8>>;

#[test]
fn a_call_that_comes_again_gets_its_answer_and_changes_nothing() {
    let mut fixture = Fixture::new(3);
    fixture.mkdir("/d");
    fixture.create("/d/f");
    let cases: [(&str, Repeatable); 4] = [
        (
            "create",
            Box::new(|f, id| {
                f.call_as::<_, calls::FileInfoResponse>(id, "create", &create("/d/g", 1))
                    .unwrap()
                    .encode_to_vec()
            }),
        ),
        (
            "rename",
            Box::new(|f, id| {
                f.call_as::<_, BoolResponse>(id, "rename", &rename("/d/g", "/d/h", false))
                    .unwrap()
                    .encode_to_vec()
            }),
        ),
        (
            "rename2",
            Box::new(|f, id| {
                f.call_as::<_, calls::Empty>(id, "rename2", &rename("/d/h", "/d/f", true))
                    .unwrap()
                    .encode_to_vec()
            }),
        ),
        (
            "delete",
            Box::new(|f, id| {
                f.call_as::<_, BoolResponse>(id, "delete", &delete("/d/f", false)).unwrap().encode_to_vec()
            }),
        ),
    ];
    for (at, (method, call)) in cases.iter().enumerate() {
        let id = 1000 + at as i32;
        let first = call(&mut fixture, id);
        let before = fingerprint(&fixture.state);
        assert_eq!(call(&mut fixture, id), first, "{method}");
        assert_eq!(fingerprint(&fixture.state), before, "{method}");
        // The same from the journal, and from the image.
        let mut image = State::new(rules());
        fixture.state.image().records().for_each(|record| image.apply(&record));
        let mut restarted = Fixture::of(image);
        restarted.state.safe_mode.leave();
        assert_eq!(call(&mut restarted, id), first, "{method} after a restart");
    }
    assert_eq!(fixture.status("/d").unwrap().children, Some(0));
}

#[test]
fn the_image_and_the_records_make_the_same_state() {
    let mut fixture = Fixture::new(3);
    let mut records = fixture.state.take_records();
    fixture.mkdir("/a/b/c");
    fixture.write("/a/f", 700);
    fixture.write("/a/b/g", 5);
    let open = fixture.create("/a/b/open");
    fixture.add_block("/a/b/open", open, None);
    let abandoned = fixture.create("/a/b/abandoned");
    let located = fixture.add_block("/a/b/abandoned", abandoned, None);
    let abandon = calls::AbandonBlockRequest {
        block: located.block,
        src: "/a/b/abandoned".to_owned(),
        holder: "client".to_owned(),
        file_id: Some(abandoned),
    };
    let _: calls::Empty = fixture.call("abandonBlock", &abandon).unwrap();
    let fsync = calls::FsyncRequest {
        src: "/a/b/open".to_owned(),
        client_name: "client".to_owned(),
        last_block_length: Some(100),
        file_id: Some(open),
    };
    let _: calls::Empty = fixture.call("fsync", &fsync).unwrap();
    // What is decided from here on is not in this image.
    let (early, then) = (fixture.state.image(), fingerprint(&fixture.state));
    let _: BoolResponse = fixture.call("rename", &rename("/a/b", "/z", false)).unwrap();
    let owner = calls::SetOwnerRequest {
        src: "/z/g".to_owned(),
        owner: Some("alice".to_owned()),
        group: Some("staff".to_owned()),
    };
    let _: calls::Empty = fixture.call("setOwner", &owner).unwrap();
    let replication = calls::SetReplicationRequest { src: "/z/g".to_owned(), replication: 2 };
    let _: BoolResponse = fixture.call("setReplication", &replication).unwrap();
    let _: BoolResponse = fixture.call("delete", &delete("/a", true)).unwrap();
    records.extend(fixture.state.take_records());

    let mut replayed = State::new(rules());
    records.iter().for_each(|record| replayed.apply(record));
    assert_eq!(fingerprint(&replayed), fingerprint(&fixture.state));
    let mut loaded = State::new(rules());
    fixture.state.image().records().for_each(|record| loaded.apply(&record));
    assert_eq!(fingerprint(&loaded), fingerprint(&fixture.state));
    assert_eq!(loaded.leases.files(), 2);
    assert_eq!(fingerprint_of(&early), then);
    assert_ne!(then, fingerprint(&fixture.state));
    let counts = |state: &State| state.tree.inode(crate::ids::InodeId::ROOT).directory().unwrap().counts;
    assert_eq!(counts(&loaded), counts(&fixture.state));
    assert_eq!((counts(&loaded).bytes, counts(&loaded).space), (105, 2 * 5 + 3 * 100));
}

#[test]
fn after_a_restart_nothing_changes_until_the_blocks_are_reported() {
    let mut fixture = Fixture::new(1);
    let (one, two) = (fixture.write("/one", 10), fixture.write("/two", 20));
    let mut state = State::new(rules());
    fixture.state.image().records().for_each(|record| state.apply(&record));
    state.begin_term(3_000_000, 0);
    let mut restarted = Fixture::of(state);
    assert_eq!(restarted.state.term, 2);
    restarted.register(0);
    assert_eq!(restarted.refused("mkdirs", &mkdirs("/d", 0o755, true)).0, Exception::SafeMode);
    let read = calls::BlockLocationsRequest { src: "/one".to_owned(), offset: 0, length: 10 };
    assert_eq!(
        restarted.refused("getBlockLocations", &read).0,
        Exception::SafeMode,
        "it has not been reported yet"
    );
    restarted.report(0, true, false, vec![replica(&one.block, 10, ReplicaState::Finalized)]);
    assert_eq!(restarted.locations("/one").blocks[0].locations.len(), 1);
    restarted.report(0, false, false, vec![replica(&two.block, 19, ReplicaState::Finalized)]);
    restarted.report(0, false, true, Vec::new());
    assert_eq!(
        restarted.refused("mkdirs", &mkdirs("/d", 0o755, true)).0,
        Exception::SafeMode,
        "a byte is missing"
    );
    restarted.report(
        0,
        true,
        true,
        [&one, &two]
            .map(|located| {
                replica(
                    &located.block,
                    located.block.id.wrapping_sub(one.block.id) * 10 + 10,
                    ReplicaState::Finalized,
                )
            })
            .to_vec(),
    );
    restarted.mkdir("/d");
}

#[test]
fn a_namenode_that_hears_of_a_higher_term_takes_one_above_it() {
    let mut fixture = Fixture::new(1);
    let mut request = RegisterRequest {
        layout_version: 1,
        uuid: "dn-0".to_owned(),
        host: "host-0".to_owned(),
        ip: "10.0.0.0".to_owned(),
        transfer_port: 9866,
        ipc_port: 9867,
        pool: "BP-1".to_owned(),
        term: 41,
        ..RegisterRequest::default()
    };
    let own = fixture.state.term;
    // Of another cluster: what it obeys is of no interest.
    let other = RegisterRequest { pool: "BP-2".to_owned(), ..request.clone() };
    assert!(fixture.cluster::<_, RegisterResponse>("register", &other).is_err());
    assert_eq!(fixture.state.term, own);
    let told: RegisterResponse = fixture.cluster("register", &request).unwrap();
    assert_eq!((told.term, fixture.heartbeat(0).term), (42, 42));
    // It is kept: the next start goes on from there.
    let kept = fixture.state.take_records();
    let mut again = State::new(rules());
    kept.iter().for_each(|record| again.apply(record));
    assert_eq!(again.term, 42);
    for (term, expected) in [(42, 42), (7, 42), (u64::MAX, 42)] {
        request.term = term;
        let told: RegisterResponse = fixture.cluster("register", &request).unwrap();
        assert_eq!(told.term, expected, "{term}");
    }
}
