//! Goal: each call has the effect and the answer that HDFS's has. Method: calls go into a state as bytes, as from the wire.

mod striped;

use bytes::Bytes;
use prost::Message;

use super::*;
use crate::ids::CallerId;
use crate::namenode::Now;
use crate::wire::proto::cluster::{
    Answer, BlockRef, HeartbeatRequest, HeartbeatResponse, Notice, NoticeRequest, RegisterRequest,
    RegisterResponse, Replica, ReplicaState, ReportRequest, Storage,
};
use crate::wire::proto::namenode as calls;
use crate::wire::proto::namenode::BoolResponse;
use crate::wire::proto::shared::{DatanodeId, DatanodeInfo, ExtendedBlock, LocatedBlock, Permission};

const MIB: u64 = 1 << 20;

/// A state, a clock, and some DataNodes with a storage each.
struct Fixture {
    state: State,
    now: Now,
    random: fastrand::Rng,
    user: User,
    next_call: i32,
}

fn rules() -> Rules {
    Rules { superuser: "root".to_owned(), block_size_min: 0, ..Rules::default() }
}

fn user(name: &str, groups: &[&str]) -> User {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    User { name: name.to_owned(), groups, is_superuser: name == "root" }
}

impl Fixture {
    fn new(datanodes: usize) -> Self {
        let mut state = State::new(rules());
        state.format(1_000_000, "CID-1".to_owned(), "BP-1".to_owned());
        state.begin_term(1_000_000, 0);
        let mut fixture = Self::of(state);
        for number in 0..datanodes {
            fixture.register(number);
        }
        fixture
    }

    fn of(state: State) -> Self {
        let now = Now { wall_ms: 2_000_000, steady_ms: 1_000 };
        Self { state, now, random: fastrand::Rng::with_seed(7), user: user("root", &[]), next_call: 0 }
    }

    fn context<R>(
        &mut self,
        caller: Option<CallerId>,
        run: impl FnOnce(&mut State, &mut Context<'_>) -> R,
    ) -> R {
        let Self { state, now, random, user, .. } = self;
        let mut context = Context { now: *now, user, caller, ip: Some("10.9.9.9"), random };
        run(state, &mut context)
    }

    fn call_as<A: Message, R: Message + Default>(
        &mut self,
        call: i32,
        method: &str,
        argument: &A,
    ) -> Result<R, Refusal> {
        let (argument, caller) = (Bytes::from(argument.encode_to_vec()), CallerId { client: [3; 16], call });
        let result = self.context(Some(caller), |state, context| state.call(context, method, argument))?;
        Ok(R::decode(&result[..]).unwrap())
    }

    fn call<A: Message, R: Message + Default>(&mut self, method: &str, argument: &A) -> Result<R, Refusal> {
        self.next_call += 1;
        self.call_as(self.next_call, method, argument)
    }

    fn refused<A: Message>(&mut self, method: &str, argument: &A) -> (Exception, String) {
        let before = (self.state.sequence, fingerprint(&self.state));
        let refusal = self.call::<_, calls::Empty>(method, argument).unwrap_err();
        assert_eq!((self.state.sequence, fingerprint(&self.state)), before, "a refusal changes nothing");
        (refusal.exception, refusal.message)
    }

    fn cluster<A: Message, R: Message + Default>(
        &mut self,
        method: &str,
        argument: &A,
    ) -> Result<R, Refusal> {
        let argument = Bytes::from(argument.encode_to_vec());
        let result = self.context(None, |state, context| state.cluster_call(context, method, argument))?;
        Ok(R::decode(&result[..]).unwrap())
    }

    fn register(&mut self, number: usize) {
        let storage = Storage {
            uuid: format!("DS-{number}"),
            kind: 1,
            capacity: 100 * MIB,
            used: 0,
            remaining: 90 * MIB,
            failed: false,
        };
        let request = RegisterRequest {
            layout_version: 1,
            uuid: format!("dn-{number}"),
            host: format!("host-{number}"),
            ip: format!("10.0.0.{number}"),
            transfer_port: 9866,
            ipc_port: 9867,
            storages: vec![storage],
            pool: self.state.pool().to_owned(),
            ..RegisterRequest::default()
        };
        let response: RegisterResponse = self.cluster("register", &request).unwrap();
        assert_eq!((response.pool.as_str(), response.term), (self.state.pool(), self.state.term));
    }

    fn heartbeat(&mut self, number: usize) -> HeartbeatResponse {
        let uuid = format!("dn-{number}");
        self.cluster("heartbeat", &HeartbeatRequest { uuid, ..HeartbeatRequest::default() }).unwrap()
    }

    fn notice(&mut self, number: usize, block: &ExtendedBlock, length: u64, is_deleted: bool) {
        let replica = replica(block, length, ReplicaState::Finalized);
        let notice =
            Notice { storage: format!("DS-{number}"), replica: Some(replica), is_deleted, is_corrupt: false };
        let request = NoticeRequest { uuid: format!("dn-{number}"), notices: vec![notice] };
        let _: Answer = self.cluster("notice", &request).unwrap();
    }

    fn report(&mut self, number: usize, is_first: bool, is_last: bool, replicas: Vec<Replica>) {
        let (uuid, storage) = (format!("dn-{number}"), format!("DS-{number}"));
        let request = ReportRequest { uuid, storage, is_first, is_last, replicas };
        let answer: Answer = self.cluster("report", &request).unwrap();
        assert!(!answer.must_register);
    }

    fn mkdir(&mut self, path: &str) {
        let answer: BoolResponse = self.call("mkdirs", &mkdirs(path, 0o755, true)).unwrap();
        assert!(answer.result);
    }

    /// Creates a file; its number.
    fn create(&mut self, path: &str) -> u64 {
        let answer: calls::FileInfoResponse = self.call("create", &create(path, 1)).unwrap();
        answer.status.unwrap().id.unwrap()
    }

    fn add_block(&mut self, path: &str, file: u64, previous: Option<ExtendedBlock>) -> LocatedBlock {
        let answer: calls::AddBlockResponse =
            self.call("addBlock", &add_block(path, file, previous)).unwrap();
        answer.block
    }

    fn complete(&mut self, path: &str, file: u64, last: Option<ExtendedBlock>) -> bool {
        let answer: BoolResponse = self.call("complete", &complete(path, file, last)).unwrap();
        answer.result
    }

    /// Writes a file of one block, which all its nodes have.
    fn write(&mut self, path: &str, length: u64) -> LocatedBlock {
        let file = self.create(path);
        let located = self.add_block(path, file, None);
        for number in numbers(&located) {
            self.notice(number, &located.block, length, false);
        }
        assert!(self.complete(path, file, Some(sized(&located, length))));
        located
    }

    fn exists(&mut self, path: &str) -> bool {
        self.status(path).is_some()
    }

    fn status(&mut self, path: &str) -> Option<crate::wire::proto::shared::FileStatus> {
        let request = calls::PathRequest { src: path.to_owned() };
        self.call::<_, calls::FileInfoResponse>("getFileInfo", &request).unwrap().status
    }

    fn locations(&mut self, path: &str) -> crate::wire::proto::shared::LocatedBlocks {
        let request = calls::BlockLocationsRequest { src: path.to_owned(), offset: 0, length: u64::MAX };
        self.call::<_, calls::BlockLocationsResponse>("getBlockLocations", &request)
            .unwrap()
            .locations
            .unwrap()
    }

    fn tick(&mut self) {
        self.state.tick(self.now.steady_ms, &mut self.random);
    }

    fn sync_all(&mut self) {
        self.state.note_synced(self.state.sequence());
    }
}

/// All that the journal keeps, as text.
fn fingerprint(state: &State) -> String {
    let mut lines: Vec<String> = state.image().map(|record| format!("{record:?}")).collect();
    lines.sort();
    lines.join("\n")
}

fn mkdirs(path: &str, mode: u32, create_parent: bool) -> calls::MkdirsRequest {
    calls::MkdirsRequest { src: path.to_owned(), masked: Permission { mode }, create_parent, unmasked: None }
}

fn create(path: &str, flags: u32) -> calls::CreateRequest {
    calls::CreateRequest {
        src: path.to_owned(),
        masked: Permission { mode: 0o644 },
        client_name: "client".to_owned(),
        flags,
        create_parent: true,
        replication: 3,
        block_size: MIB,
        ..calls::CreateRequest::default()
    }
}

fn add_block(path: &str, file: u64, previous: Option<ExtendedBlock>) -> calls::AddBlockRequest {
    let (src, client_name) = (path.to_owned(), "client".to_owned());
    calls::AddBlockRequest {
        src,
        client_name,
        previous,
        file_id: Some(file),
        ..calls::AddBlockRequest::default()
    }
}

fn complete(path: &str, file: u64, last: Option<ExtendedBlock>) -> calls::CompleteRequest {
    let (src, client_name) = (path.to_owned(), "client".to_owned());
    calls::CompleteRequest { src, client_name, last, file_id: Some(file) }
}

fn rename(src: &str, dst: &str, overwrite: bool) -> calls::RenameRequest {
    let (src, dst) = (src.to_owned(), dst.to_owned());
    calls::RenameRequest { src, dst, overwrite: Some(overwrite), move_to_trash: None }
}

fn delete(path: &str, recursive: bool) -> calls::DeleteRequest {
    calls::DeleteRequest { src: path.to_owned(), recursive }
}

fn replica(block: &ExtendedBlock, length: u64, state: ReplicaState) -> Replica {
    Replica { id: block.id.cast_signed(), stamp: block.stamp, length, state: state.into() }
}

/// A block as its writer commits it.
fn sized(located: &LocatedBlock, length: u64) -> ExtendedBlock {
    ExtendedBlock { length: Some(length), ..located.block.clone() }
}

/// The numbers of the DataNodes of a block.
fn numbers(located: &LocatedBlock) -> Vec<usize> {
    located.locations.iter().map(|node| node.id.uuid[3..].parse().unwrap()).collect()
}

#[test]
fn a_file_is_written_block_by_block_and_read_where_it_is() {
    let mut fixture = Fixture::new(4);
    let file = fixture.create("/d/f");
    let first = fixture.add_block("/d/f", file, None);
    assert_eq!((first.offset, first.locations.len(), first.storage_ids.len()), (0, 3, 3));
    for number in numbers(&first) {
        fixture.notice(number, &first.block, MIB, false);
    }
    let second = fixture.add_block("/d/f", file, Some(sized(&first, MIB)));
    assert_eq!(
        (second.offset, second.block.id, second.block.stamp),
        (MIB, first.block.id + 1, first.block.stamp + 1)
    );
    let last = sized(&second, 700);
    assert!(!fixture.complete("/d/f", file, Some(last.clone())), "no node has the last block");
    let open = fixture.locations("/d/f");
    assert_eq!((open.file_length, open.under_construction, open.is_last_complete), (MIB, true, false));
    let writers = numbers(open.last_block.as_ref().unwrap());
    assert_eq!(writers.len(), 3, "readers of an open file ask the nodes that are written to");
    fixture.notice(numbers(&second)[1], &second.block, 699, false);
    assert!(!fixture.complete("/d/f", file, Some(last.clone())), "a byte is missing");
    fixture.notice(numbers(&second)[2], &second.block, 700, false);
    assert!(fixture.complete("/d/f", file, Some(last.clone())));
    assert!(fixture.complete("/d/f", file, Some(last)), "the answer was lost, and the client asks again");

    let closed = fixture.locations("/d/f");
    assert_eq!(
        (closed.file_length, closed.under_construction, closed.is_last_complete),
        (MIB + 700, false, true)
    );
    let found: Vec<_> = closed.blocks.iter().map(|block| (block.offset, block.locations.len())).collect();
    assert_eq!(found, [(0, 3), (MIB, 1)]);
    let summary = calls::PathRequest { src: "/".to_owned() };
    let summary =
        fixture.call::<_, calls::ContentSummaryResponse>("getContentSummary", &summary).unwrap().summary;
    assert_eq!((summary.length, summary.space_consumed), (MIB + 700, 3 * (MIB + 700)));
    assert_eq!((summary.files, summary.directories), (1, 2));
}

#[test]
fn a_client_that_asks_again_for_a_block_gets_the_same_one() {
    let mut fixture = Fixture::new(3);
    let file = fixture.create("/f");
    let first = fixture.add_block("/f", file, None);
    let again = fixture.add_block("/f", file, None);
    assert_eq!(first, again);
    // After a restart nobody knows where it was sent.
    let mut state = State::new(rules());
    fixture.state.image().for_each(|record| state.apply(&record));
    let mut restarted = Fixture::of(state);
    (0..3).for_each(|number| restarted.register(number));
    restarted.state.safe_mode.leave();
    let again = restarted.add_block("/f", file, None);
    assert_eq!((again.block, again.locations.len()), (first.block.clone(), 3));
    let unstored = add_block("/f", file, Some(sized(&first, 5)));
    let second: calls::AddBlockResponse = fixture.call("addBlock", &unstored).unwrap();
    let third = add_block("/f", file, Some(sized(&second.block, 5)));
    assert_eq!(
        fixture.refused("addBlock", &third).0,
        Exception::NotReplicatedYet,
        "the first block is nowhere"
    );
    let again: calls::AddBlockResponse = fixture.call("addBlock", &unstored).unwrap();
    assert_eq!(again, second);
    fixture.notice(numbers(&first)[0], &first.block, 5, false);
    let unrelated = ExtendedBlock { id: 99, ..sized(&first, 5) };
    assert_eq!(fixture.refused("addBlock", &add_block("/f", file, Some(unrelated))).0, Exception::Io);
    let stale = ExtendedBlock { stamp: 5, ..sized(&second.block, 5) };
    assert_eq!(fixture.refused("addBlock", &add_block("/f", file, Some(stale))).0, Exception::Io);
}

#[test]
fn a_writer_is_found_by_its_file_wherever_that_has_gone() {
    let mut fixture = Fixture::new(3);
    let file = fixture.create("/tmp/task/f");
    let _: calls::Empty = fixture.call("rename2", &rename("/tmp/task", "/done", false)).unwrap();
    let located = fixture.add_block("/tmp/task/f", file, None);
    fixture.notice(numbers(&located)[0], &located.block, 3, false);
    assert!(fixture.complete("/tmp/task/f", file, Some(sized(&located, 3))));
    assert_eq!(fixture.status("/done/f").unwrap().length, 3);

    let file = fixture.create("/g");
    let _: BoolResponse = fixture.call("delete", &delete("/g", false)).unwrap();
    let (exception, message) = fixture.refused("addBlock", &add_block("/g", file, None));
    assert_eq!(exception, Exception::FileNotFound);
    assert!(message.contains(&format!("(inode {file})")), "{message}");
    assert_eq!(fixture.refused("complete", &complete("/g", file, None)).0, Exception::FileNotFound);
}

#[test]
fn only_the_holder_writes_and_nobody_a_closed_file() {
    let mut fixture = Fixture::new(3);
    let file = fixture.create("/f");
    let other = calls::AddBlockRequest { client_name: "other".to_owned(), ..add_block("/f", file, None) };
    assert_eq!(fixture.refused("addBlock", &other).0, Exception::LeaseExpired);
    let second = calls::CreateRequest { client_name: "other".to_owned(), ..create("/f", 1) };
    assert_eq!(fixture.refused("create", &second).0, Exception::AlreadyBeingCreated);
    assert!(fixture.complete("/f", file, None));
    assert_eq!(fixture.refused("addBlock", &add_block("/f", file, None)).0, Exception::LeaseExpired);
    assert_eq!(fixture.refused("create", &second).0, Exception::FileAlreadyExists);
    // Over an open file of somebody else.
    let file = fixture.create("/g");
    let over = calls::CreateRequest { client_name: "other".to_owned(), ..create("/g", 3) };
    let _: calls::FileInfoResponse = fixture.call("create", &over).unwrap();
    assert_eq!(fixture.refused("addBlock", &add_block("/g", file, None)).0, Exception::FileNotFound);
}

#[test]
fn a_call_that_comes_again_gets_its_answer_and_changes_nothing() {
    let mut fixture = Fixture::new(3);
    fixture.mkdir("/d");
    fixture.create("/d/f");
    let cases: [(&str, Box<dyn Fn(&mut Fixture, i32) -> Vec<u8>>); 4] = [
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
        fixture.state.image().for_each(|record| image.apply(&record));
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
    fixture.state.image().for_each(|record| loaded.apply(&record));
    assert_eq!(fingerprint(&loaded), fingerprint(&fixture.state));
    assert_eq!(loaded.leases.files(), 2);
    let counts = |state: &State| state.tree.inode(crate::ids::InodeId::ROOT).directory().unwrap().counts;
    assert_eq!(counts(&loaded), counts(&fixture.state));
    assert_eq!((counts(&loaded).bytes, counts(&loaded).space), (105, 2 * 5 + 3 * 100));
}

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
fn without_nodes_or_room_a_block_is_refused() {
    let mut fixture = Fixture::new(1);
    let file = fixture.create("/f");
    let info = DatanodeInfo {
        id: DatanodeId { uuid: "dn-0".to_owned(), ..DatanodeId::default() },
        ..DatanodeInfo::default()
    };
    let excluded = calls::AddBlockRequest { excluded: vec![info], ..add_block("/f", file, None) };
    let (exception, message) = fixture.refused("addBlock", &excluded);
    assert_eq!(exception, Exception::Io);
    assert!(message.contains("could only be written to 0 of the 1 minReplication nodes"), "{message}");
    let large = calls::CreateRequest { block_size: 91 * MIB, ..create("/large", 1) };
    let answer: calls::FileInfoResponse = fixture.call("create", &large).unwrap();
    let large = add_block("/large", answer.status.unwrap().id.unwrap(), None);
    assert_eq!(fixture.refused("addBlock", &large).0, Exception::Io);
}

#[test]
fn after_a_restart_nothing_changes_until_the_blocks_are_reported() {
    let mut fixture = Fixture::new(1);
    let (one, two) = (fixture.write("/one", 10), fixture.write("/two", 20));
    let mut state = State::new(rules());
    fixture.state.image().for_each(|record| state.apply(&record));
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
        "Permission denied: user=alice, access=WRITE, inode=\"/people/g\":root:supergroup:drwxr-xr-x";
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
    assert!(!old("/a/f", "/none/f") && !old("/a/f", "/c/f/g"));
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
    for method in ["append", "truncate", "concat", "createSnapshot", "setXAttr", "setAcl", "setQuota"] {
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
