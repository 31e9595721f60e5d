//! The world: who is there, what happens, and what fails.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use prost::Message as _;

use super::clients::{Client, POLICY, Work};
use super::nodes::{Message, Node};
use super::tally::Tally;
use crate::ids::CallerId;
use crate::namenode::hosts::Hosts;
use crate::namenode::namespace::User;
use crate::namenode::state::{Image, State};
use crate::namenode::{Context, Now, Rules};
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::cluster::{
    Answer, HeartbeatRequest, HeartbeatResponse, NoticeRequest, RegisterRequest, ReportRequest, Storage,
};
use crate::wire::proto::journal::Record;
use crate::wire::proto::namenode as calls;

pub const NODES: usize = 8;
/// Racks on which they stand in turn.
pub const RACKS: usize = 2;
pub const CLIENTS: usize = 3;

/// Milliseconds after which a file is taken from a writer that is gone. One that is there calls each second or so.
const LEASE_MS_MAX: u64 = 30_000;
/// Notices that a heartbeat overtakes at most: a link sends them as they come.
const NOTICES_OVERTAKEN_MAX: usize = 3;

/// An answer that waits for its record to be on disk.
struct Answered {
    client: usize,
    after: u64,
    outcome: Result<Vec<u8>, Refusal>,
}

pub struct World {
    pub(super) random: fastrand::Rng,
    pub(super) now: Now,
    pub(super) state: State,
    /// Turned into records after a crash only, when the state has long gone on.
    image: Option<Image>,
    /// Records after the image, synced or not.
    journal: Vec<Record>,
    /// How many of them are on disk.
    synced: usize,
    /// Number of the last record before the journal.
    before_journal: u64,
    pub(super) nodes: Vec<Node>,
    pub(super) clients: Vec<Client>,
    answers: Vec<Answered>,
    chance: fastrand::Rng,
    pub(super) has_faults: bool,
    pub(super) steps: u64,
    /// In which step a block last lost a replica.
    pub(super) lost_in: BTreeMap<i64, u64>,
    /// The stamp of the last pipeline of each block.
    pub(super) stamps: BTreeMap<i64, u64>,
    /// The node that an operator has told to leave or to be away for a while.
    pub(super) hosts: Hosts,
    pub tally: Tally,
}

fn rules() -> Rules {
    Rules {
        superuser: "root".to_owned(),
        block_size_min: 0,
        safe_mode_extension_ms: 500,
        lease_ms_max: LEASE_MS_MAX,
        ..Rules::default()
    }
}

fn root() -> User {
    User { name: "root".to_owned(), groups: Vec::new(), is_superuser: true }
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut state = State::new(rules());
        let now = Now { wall_ms: 1_000_000, steady_ms: 10_000 };
        state.format(now.wall_ms, "CID".to_owned(), "BP".to_owned());
        state.begin_term(now.wall_ms, now.steady_ms);
        let user = root();
        let mut random = fastrand::Rng::with_seed(seed);
        let mut context = Context { now, user: &user, caller: None, ip: None, random: &mut random };
        let enable = calls::PolicyNameRequest { name: POLICY.to_owned() }.encode_to_vec();
        state.call(&mut context, "enableErasureCodingPolicy", enable.into()).expect("there is one");
        let mut nodes: Vec<Node> = (0..NODES).map(Node::new).collect();
        nodes.iter_mut().for_each(Node::reconnect);
        let mut world = Self {
            random: fastrand::Rng::with_seed(seed),
            now,
            journal: state.take_records(),
            state,
            image: None,
            synced: 0,
            before_journal: 0,
            nodes,
            clients: (0..CLIENTS).map(Client::new).collect(),
            answers: Vec::new(),
            chance: fastrand::Rng::with_seed(!seed),
            has_faults: true,
            steps: 0,
            lost_in: BTreeMap::new(),
            stamps: BTreeMap::new(),
            hosts: Hosts::default(),
            tally: Tally::default(),
        };
        world.sync(usize::MAX);
        world
    }

    /// Something happens.
    pub fn step(&mut self) {
        self.steps += 1;
        self.now.steady_ms += self.random.u64(..200);
        self.now.wall_ms += self.random.u64(..200);
        let faulty = |at: u32| self.has_faults.then_some(at);
        match self.random.u32(..1000) {
            0..300 => self.client_calls(),
            300..500 => (0..6).for_each(|_| self.deliver()),
            500..600 => self.sync_some(),
            600..780 => (0..3).for_each(|_| self.beat()),
            780..860 => self.work(),
            860..870 => self.take_image(),
            870..880 if self.has_faults => self.lose_replica(),
            at => match faulty(at) {
                Some(880..888) => self.crash_namenode(),
                Some(888..903) => self.crash_node(),
                Some(903..925) => self.lose_connection(),
                Some(925..940) => self.lose_answer(),
                Some(940..950) => self.fill_node(),
                Some(956..962) => self.change_hosts(),
                Some(962..974) => self.balance(),
                Some(950..956) => self.now.wall_ms = self.random.u64(..4_000_000),
                _ => self.start_node(),
            },
        }
        self.tick();
        self.state.check_counts();
        if self.has_faults && self.steps.is_multiple_of(4) {
            self.take_away();
        }
    }

    pub(super) fn context<R>(
        &mut self,
        caller: Option<CallerId>,
        run: impl FnOnce(&mut State, &mut Context<'_>) -> R,
    ) -> R {
        let user = root();
        let mut context = Context { now: self.now, user: &user, caller, ip: None, random: &mut self.chance };
        let result = run(&mut self.state, &mut context);
        self.journal.extend(self.state.take_records());
        assert_eq!(self.before_journal + self.journal.len() as u64, self.state.sequence());
        result
    }

    /// The NameNode looks at its clock, and keeps what it has changed by that.
    pub(super) fn tick(&mut self) {
        self.state.tick(self.now, &mut self.chance);
        self.journal.extend(self.state.take_records());
    }

    fn client_calls(&mut self) {
        let at = self.random.usize(..CLIENTS);
        if !matches!(self.clients[at].work, Work::Gone { .. }) {
            let renew = calls::RenewLeaseRequest { client_name: self.clients[at].name() }.encode_to_vec();
            let renewed =
                self.context(None, |state, context| state.call(context, "renewLease", renew.into()));
            renewed.expect("it may always be said");
        }
        if self.answers.iter().any(|answer| answer.client == at) {
            return; // it waits
        }
        if !self.has_faults && self.clients[at].work == Work::Idle {
            return; // the run is over
        }
        self.clients[at].prepare(&mut self.random);
        let call = self.clients[at].pending.clone().expect("it was prepared");
        let caller = CallerId { client: [at as u8; 16], call: call.id };
        let before = self.state.sequence();
        let argument = Bytes::from(call.argument);
        let outcome = self.context(Some(caller), |state, context| state.call(context, call.method, argument));
        if outcome.is_ok() && self.state.sequence() == before && ["rename", "delete"].contains(&call.method) {
            self.tally.answers_repeated += 1;
        }
        self.answers.push(Answered { client: at, after: self.state.sequence(), outcome });
        self.release();
    }

    /// Gives clients the answers whose records are on disk.
    fn release(&mut self) {
        let synced = self.before_journal + self.synced as u64;
        let (ready, waiting) =
            std::mem::take(&mut self.answers).into_iter().partition(|answer| answer.after <= synced);
        self.answers = waiting;
        for Answered { client, outcome, .. } in ready {
            self.answer(client, outcome);
        }
    }

    fn answer(&mut self, at: usize, outcome: Result<Vec<u8>, Refusal>) {
        let client = &mut self.clients[at];
        let result = match outcome {
            Ok(result) => result,
            Err(refusal) => {
                client.pending = None;
                match (refusal.exception, &mut client.work) {
                    (Exception::SafeMode, _) => self.tally.safe_mode_refusals += 1,
                    (Exception::NotReplicatedYet, Work::Adding { .. }) => {}
                    // No node is left: it tries all of them again.
                    (Exception::TooFewDatanodes, Work::Adding { excluded, .. }) => excluded.clear(),
                    // No node that has its last block is there.
                    (Exception::Io, work @ Work::Appending { .. }) => *work = Work::Idle,
                    (_, work) => panic!("{work:?} is refused: {refusal}"),
                }
                return;
            }
        };
        let was_flushing = matches!(client.work, Work::Flushing { .. });
        let was_completing = matches!(client.work, Work::Completing { .. });
        let (was_stamping, was_looking) =
            (matches!(client.work, Work::Stamping { .. }), matches!(client.work, Work::Looking { .. }));
        let was_truncating = matches!(client.work, Work::Truncating { .. });
        self.tally.files_joined += u64::from(matches!(client.work, Work::Joining { .. }));
        self.tally.files_appended += u64::from(matches!(client.work, Work::Appending { .. }));
        let located = client.answered(&result);
        if was_truncating {
            self.tally.files_truncated += 1;
            if let Work::Gone { blocks, .. } = &mut client.work {
                let last = blocks.last_mut().expect("one stays");
                last.stamp = self.stamps[&last.id.cast_signed()];
                self.tally.files_cut += 1;
            }
        }
        if let Work::Gone { .. } = client.work {
            self.tally.writers_gone += u64::from(was_flushing);
        }
        if was_looking {
            self.tally.files_recovered += 1;
            let located = calls::BlockLocationsResponse::decode(&result[..]).expect("it is one");
            for block in located.locations.into_iter().flat_map(|located| located.blocks) {
                self.stamps.insert(block.block.id.cast_signed(), block.block.stamp);
            }
        }
        if let Some(located) = located {
            self.write(at, &located);
        } else if was_stamping && self.has_faults && self.random.u8(..4) == 0 {
            self.die_with_new_stamp(at);
        } else if was_completing && self.clients[at].work == Work::Idle {
            self.tally.files_closed += 1;
        }
    }

    /// A message of a node arrives, sometimes twice.
    fn deliver(&mut self) {
        let at = self.random.usize(..NODES);
        let Some(message) = self.nodes[at].outbox.pop_front().filter(|_| self.nodes[at].is_up) else {
            return;
        };
        let is_notice = matches!(message, Message::Notices(_));
        self.arrive(at, message.clone());
        // The answer was lost, and the node says it again, before anything else.
        if self.has_faults && is_notice && self.random.u8(..10) == 0 {
            self.tally.messages_doubled += 1;
            self.arrive(at, message);
        }
    }

    pub(super) fn arrive(&mut self, at: usize, message: Message) {
        let (uuid, storage) = (self.nodes[at].uuid(), self.nodes[at].storage());
        let report = |is_first, is_last, replicas| {
            ReportRequest { uuid: uuid.clone(), storage: storage.clone(), is_first, is_last, replicas }
                .encode_to_vec()
        };
        let (method, argument) = match message {
            Message::Register => ("register", self.registration(at).encode_to_vec()),
            Message::ReportBegins => ("report", report(true, false, Vec::new())),
            Message::ReportPart(replicas) => ("report", report(false, false, replicas)),
            Message::ReportEnds => ("report", report(false, true, Vec::new())),
            Message::Notices(notices) => {
                ("notice", NoticeRequest { uuid: uuid.clone(), notices }.encode_to_vec())
            }
        };
        let argument = Bytes::from(argument);
        let result = self.context(None, |state, context| state.cluster_call(context, method, argument));
        let result = result.expect("nodes say what makes sense");
        if method != "register" && Answer::decode(&result[..]).expect("it is one").must_register {
            self.nodes[at].reconnect();
        }
    }

    fn registration(&self, at: usize) -> RegisterRequest {
        let node = &self.nodes[at];
        RegisterRequest {
            layout_version: 1,
            uuid: node.uuid(),
            host: node.uuid(),
            ip: format!("10.0.0.{at}"),
            transfer_port: 1,
            ipc_port: 2,
            rack: format!("/rack{}", at % RACKS),
            pool: "BP".to_owned(),
            storages: vec![self.storage(at)],
            ..RegisterRequest::default()
        }
    }

    fn storage(&self, at: usize) -> Storage {
        let node = &self.nodes[at];
        // What it says of its room is not always true yet.
        let remaining = if node.is_full && self.now.steady_ms.is_multiple_of(2) { 0 } else { 100 << 20 };
        Storage { uuid: node.storage(), kind: 1, capacity: 1 << 30, used: 0, remaining, failed: false }
    }

    pub(super) fn beat(&mut self) {
        let at = self.random.usize(..NODES);
        self.beat_of(at);
    }

    pub(super) fn beat_of(&mut self, at: usize) {
        // As in a link: a report is sent as a whole before the next heartbeat, and only notices are overtaken.
        let is_reporting =
            self.nodes[at].outbox.iter().any(|message| !matches!(message, Message::Notices(_)));
        if !self.nodes[at].is_up || is_reporting || self.nodes[at].outbox.len() > NOTICES_OVERTAKEN_MAX {
            return;
        }
        let (uuid, storages) = (self.nodes[at].uuid(), vec![self.storage(at)]);
        let repairs = self.nodes[at].work.keys().copied().collect();
        let held = self.nodes[at].held.values().copied().collect();
        let argument = HeartbeatRequest { uuid, storages, transfers: 0, repairs, held }.encode_to_vec();
        let argument = Bytes::from(argument);
        let result = self.context(None, |state, context| state.cluster_call(context, "heartbeat", argument));
        let orders = HeartbeatResponse::decode(&result.expect("it makes sense")[..]).expect("it is one");
        if orders.must_register {
            return self.nodes[at].reconnect();
        }
        let gone = self.nodes[at].delete(&orders.delete);
        self.tally.deletions += gone.len() as u64;
        for id in gone {
            self.check_deleted(at, id);
        }
        if self.has_faults && self.random.u8(..8) == 0 {
            self.tally.orders_lost += orders.recoveries.len() as u64;
        } else {
            self.tally.replicas_ended += self.nodes[at].recover(&orders.recoveries);
        }
        self.check_promised();
        for repair in orders.repairs {
            let places: BTreeSet<_> = repair.targets.iter().map(|target| target.index).collect();
            let is_clear = places.len() == repair.targets.len() && !places.is_empty();
            assert!(is_clear, "each unit has one place: {repair:?}");
            let known = self.nodes[at].work.insert(repair.number, repair);
            assert_eq!(known, None, "a number is used once");
        }
        for number in orders.cancelled {
            self.tally.repairs_dropped += u64::from(self.nodes[at].work.remove(&number).is_some());
        }
        if orders.must_report {
            self.nodes[at].report();
        }
    }

    fn sync_some(&mut self) {
        let count = self.random.usize(..=self.journal.len() - self.synced);
        self.sync(count);
    }

    pub(super) fn sync(&mut self, more: usize) {
        self.synced = self.synced.saturating_add(more).min(self.journal.len());
        self.state.note_synced(self.before_journal + self.synced as u64);
        self.release();
    }

    /// An image takes the place of the journal, as it is when all is synced.
    fn take_image(&mut self) {
        self.sync(usize::MAX);
        self.image = Some(self.state.image());
        self.before_journal += self.journal.len() as u64;
        self.journal.clear();
        self.synced = 0;
        self.tally.images += 1;
    }

    /// The NameNode's machine loses its power: of what was not synced, some records may have come to the disk.
    fn crash_namenode(&mut self) {
        self.tally.namenode_crashes += 1;
        let kept = self.random.usize(self.synced..=self.journal.len());
        self.tally.records_lost += (self.journal.len() - kept) as u64;
        self.journal.truncate(kept);
        self.answers.clear();
        let mut state = State::new(rules());
        let image = self.image.iter().flat_map(Image::records);
        for record in image.chain(self.journal.iter().cloned()) {
            state.apply(&record);
        }
        self.before_journal = state.sequence() - self.journal.len() as u64;
        self.synced = self.journal.len();
        // A new process has a new steady clock.
        self.now.steady_ms = self.random.u64(..10_000);
        state.begin_term(self.now.wall_ms, self.now.steady_ms);
        state.set_hosts(self.hosts.clone(), self.now);
        self.journal.extend(state.take_records());
        self.state = state;
        self.state.note_synced(self.before_journal + self.synced as u64);
        self.nodes.iter_mut().for_each(Node::reconnect);
    }

    fn crash_node(&mut self) {
        let at = self.random.usize(..NODES);
        if self.nodes.iter().filter(|node| node.is_up).count() > 4 && !self.is_last_with_promised(at) {
            self.tally.node_crashes += 1;
            // The machine takes what it had not brought to its disk, if another one is left that has it.
            let has_more = |id: i64, stamp| {
                self.nodes.iter().any(|node| {
                    let has_it = node.has(id).is_some_and(|has| has.0 >= stamp);
                    node.number != at && has_it && !node.from_disk.contains(&id)
                })
            };
            let unfinished = self.nodes[at].unfinished.iter();
            let lost: BTreeMap<i64, bool> =
                unfinished.map(|(id, (stamp, _))| (*id, *id < 0 || has_more(*id, *stamp))).collect();
            let random = &mut self.random;
            self.nodes[at].crash(
                |id, length| {
                    if lost[&id] && random.bool() { random.u64(..=length) } else { length }
                },
            );
        }
    }

    fn start_node(&mut self) {
        let at = self.random.usize(..NODES);
        if !self.nodes[at].is_up {
            self.nodes[at].is_up = true;
            self.nodes[at].reconnect();
        }
        self.nodes[at].is_full = false;
    }

    fn lose_connection(&mut self) {
        let at = self.random.usize(..NODES);
        self.tally.connections_lost += 1;
        self.nodes[at].reconnect();
    }

    fn lose_answer(&mut self) {
        if !self.answers.is_empty() {
            let at = self.random.usize(..self.answers.len());
            self.answers.swap_remove(at);
            self.tally.answers_lost += 1;
        }
    }

    fn fill_node(&mut self) {
        let at = self.random.usize(..NODES);
        self.nodes[at].is_full = true;
        self.tally.full_nodes += 1;
    }
}
