//! Goal: each call has the effect and the answer that HDFS's has. Method: calls go into a state as bytes, as from the wire.

mod acls;
mod administering;
mod appending;
mod balancing;
mod bounds;
mod checking;
mod concatenating;
mod counts;
mod leaving;
mod listings;
mod names;
mod operating;
mod pipelines;
mod policies;
mod quotas;
mod recovering;
mod repairing;
mod reports;
mod restarts;
mod storage_policies;
mod striped;
mod trash;
mod truncating;
mod writing;
mod xattrs;

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

    /// The NameNode as it starts again from its image, and from its whole journal, with so many DataNodes.
    fn started_again(&mut self, datanodes: usize) -> [Self; 2] {
        let records = self.state.take_records();
        let image: Vec<_> = self.state.image().records().collect();
        [image, records].map(|records| {
            let mut state = State::new(rules());
            records.iter().for_each(|record| state.apply(record));
            assert_eq!(fingerprint(&state), fingerprint(&self.state));
            let mut fixture = Self::of(state);
            fixture.state.begin_term(3_000_000, 0);
            (0..datanodes).for_each(|number| fixture.register(number));
            fixture.context(None, |state, _| state.safe_mode.leave());
            fixture
        })
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
        self.register_on("", number);
    }

    fn register_on(&mut self, rack: &str, number: usize) {
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
            rack: rack.to_owned(),
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
        let notice = Notice {
            storage: format!("DS-{number}"),
            replica: Some(replica),
            is_deleted,
            ..Notice::default()
        };
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
        self.state.tick(self.now, &mut self.random);
    }

    fn sync_all(&mut self) {
        self.state.note_synced(self.state.sequence());
    }
}

/// All that the journal keeps, as text.
fn fingerprint(state: &State) -> String {
    fingerprint_of(&state.image())
}

fn fingerprint_of(image: &Image) -> String {
    let mut lines: Vec<String> = image.records().map(|record| format!("{record:?}")).collect();
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
