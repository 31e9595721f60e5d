//! All that the NameNode decides: calls go in, answers and records come out.
//!
//! A call first looks whether it may be carried out, changing nothing; then it makes a record with all that was chosen, and
//! the application of that record makes the change. A restart applies the same records again.

mod acls;
mod appending;
mod apply;
mod attributes;
mod balancing;
mod checking;
mod cluster;
mod concatenating;
mod counting;
mod creating;
mod figures;
mod image;
mod leaving;
mod listings;
mod metasave;
mod methods;
mod moving;
mod operating;
mod pipelines;
mod policies;
mod quotas;
mod reading;
mod recovering;
mod repairing;
mod statuses;
mod storage_policies;
mod trash;
mod truncating;
mod writing;
mod xattrs;

#[cfg(test)]
mod tests;

pub use checking::{Check, LostFile, refused_check};
pub use figures::{Figures, NodeFigures};
pub use image::Image;
use leaving::Leaving;
pub use methods::{Kind, kind_of};
use recovering::Recoveries;
use trash::Emptying;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;

use super::blocks::BlockTable;
use super::datanodes::Datanodes;
use super::hosts::Hosts;
use super::leases::Leases;
use super::namespace::{Access, Counts, Inode, Mode, Path, Place, Tree, User};
use super::policies::Policies;
use super::repair::{Hints, Orders, Queue};
use super::retry_cache::RetryCache;
use super::rules::Rules;
use super::safe_mode::{SafeMode, Seen};
use super::{Context, Now};
use crate::ids::{BlockId, DatanodeHandle};
use crate::policy::Policy;
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::journal::record::Change;
use crate::wire::proto::journal::{Caller, Record};

/// Milliseconds after its start for which a NameNode waits for DataNodes before it answers a call for lack of them: they try to
/// reach it each second.
const DATANODES_AWAITED_MS: u64 = 10_000;
/// Bytes of an inode: its row, its name, its place in its directory.
const INODE_BYTES: u64 = 160;
/// Bytes of a block without its replicas.
const BLOCK_BYTES: u64 = 80;
/// Bytes of a replica: in its block, if that has more than three, and in the list of its storage.
const REPLICA_BYTES: u64 = 8;
/// Bytes of an answer that is kept for a client that asks again.
const ANSWER_BYTES: u64 = 112;

/// Repairs under way that [`State::upkeep`] tells of.
const REPAIRS_SHOWN_MAX: usize = 200;

/// What is being mended, and what is known of the blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upkeep {
    /// Blocks and block groups.
    pub blocks: usize,
    /// Replicas and units that DataNodes have reported.
    pub replicas: u64,
    /// Blocks that lack something and wait for a DataNode to mend them.
    pub waiting: usize,
    /// Repairs that DataNodes do, or are about to.
    pub under_way: usize,
    /// The first of them.
    pub repairs: Vec<RepairUnderWay>,
    /// Why safe mode is on; none while it is off.
    pub safe_mode: Option<String>,
}

/// A repair that a DataNode does, or is about to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairUnderWay {
    /// The block or the group.
    pub block: BlockId,
    /// The path of its file.
    pub file: String,
    /// Bytes of the block, or of the data of the group.
    pub bytes: u64,
    /// The DataNode that does it.
    pub worker: String,
    /// How many replicas or units it reads.
    pub sources: usize,
    /// The DataNodes that get what it makes.
    pub targets: Vec<String>,
    /// True if the DataNode has been told.
    pub is_given: bool,
}

/// The NameNode's whole state.
#[derive(Debug)]
pub struct State {
    rules: Rules,
    tree: Tree,
    blocks: BlockTable,
    datanodes: Datanodes,
    leases: Leases,
    retry_cache: RetryCache,
    safe_mode: SafeMode,
    /// What lacks something, and who has been told to mend it.
    queue: Queue,
    orders: Orders,
    /// Whose replicas are to go as a balancer has moved them.
    hints: Hints,
    /// Groups with two units on one DataNode for which there is no other, and blocks on one rack likewise.
    crowded: BTreeSet<BlockId>,
    /// Blocks of which a DataNode has a needless replica, and the record that has to be on disk before that goes.
    surplus: HashMap<DatanodeHandle, BTreeMap<BlockId, u64>>,
    /// The hosts that may have DataNodes, and those that are to leave.
    hosts: Hosts,
    /// What is looked at of DataNodes that are to leave.
    leaving: Leaving,
    /// What is emptied of users' trash.
    emptying: Emptying,
    /// The last blocks of files whose writers are gone.
    recoveries: Recoveries,
    /// When repairs begin: DataNodes that start later than others have had time to report.
    repair_from_ms: u64,
    /// The erasure coding policies.
    policies: Policies,
    cluster: String,
    pool: String,
    /// Grows with each start; DataNodes obey the highest.
    term: u64,
    /// Records that have been made or replayed; the number of the last one.
    sequence: u64,
    /// When this NameNode began to lead.
    began_ms: u64,
    /// Number of the last record that is on disk.
    synced: u64,
    /// A DataNode has named a replica in safe mode that no file needs: all are to report again when it ends.
    has_passed_over: bool,
    /// There is memory for more names, files and blocks.
    may_grow: bool,
    /// Records that the driver has yet to take.
    records: Vec<Record>,
}

impl State {
    /// A state before its first record.
    pub fn new(rules: Rules) -> Self {
        let safe_mode = SafeMode::at_start(rules.safe_mode_extension_ms, rules.safe_mode_datanodes_min);
        Self {
            tree: Tree::new(&rules.superuser, &rules.supergroup, Mode::new(0o755), 0),
            rules,
            blocks: BlockTable::default(),
            datanodes: Datanodes::default(),
            leases: Leases::default(),
            retry_cache: RetryCache::default(),
            safe_mode,
            queue: Queue::default(),
            orders: Orders::default(),
            hints: Hints::default(),
            crowded: BTreeSet::new(),
            surplus: HashMap::new(),
            hosts: Hosts::default(),
            leaving: Leaving::default(),
            emptying: Emptying::default(),
            recoveries: Recoveries::default(),
            repair_from_ms: 0,
            policies: Policies::default(),
            cluster: String::new(),
            pool: String::new(),
            term: 0,
            sequence: 0,
            began_ms: 0,
            synced: 0,
            has_passed_over: false,
            may_grow: true,
            records: Vec::new(),
        }
    }

    /// Bytes of the tables, about: what they have times what one entry takes with its share of free places, as measured with
    /// a hundred thousand files.
    pub fn bytes(&self) -> u64 {
        let of = |count: usize, each: u64| count as u64 * each;
        of(self.tree.count(), INODE_BYTES)
            + of(self.blocks.count(), BLOCK_BYTES)
            + self.blocks.replicas() * REPLICA_BYTES
            + of(self.retry_cache.count(), ANSWER_BYTES)
            + self.tree.attached.bytes()
    }

    /// Says whether there is memory for more names, files and blocks. What makes more of them is refused while there is none.
    pub fn set_may_grow(&mut self, may_grow: bool) {
        self.may_grow = may_grow;
    }

    /// True before the first record of a new cluster.
    pub fn is_blank(&self) -> bool {
        self.cluster.is_empty()
    }

    /// Begins a new cluster.
    ///
    /// # Panics
    /// If there is one already.
    pub fn format(&mut self, wall_ms: u64, cluster: String, pool: String) {
        assert!(self.is_blank(), "a cluster begins once");
        let (owner, group) = (self.rules.superuser.clone(), self.rules.supergroup.clone());
        let layout_version = crate::wire::protocol::LAYOUT_VERSION;
        let format =
            crate::wire::proto::journal::Format { layout_version, cluster, pool, owner, group, mode: 0o755 };
        self.make(wall_ms, None, Change::Format(format));
    }

    /// Begins to lead, after the journal has been replayed.
    pub fn begin_term(&mut self, wall_ms: u64, steady_ms: u64) {
        let term = self.term + 1;
        self.make(wall_ms, None, Change::BeginTerm(crate::wire::proto::journal::BeginTerm { term }));
        self.began_ms = steady_ms;
        self.leases.renew_all(steady_ms);
        self.look_at_safe_mode(steady_ms);
    }

    /// Takes a term above one that a DataNode has obeyed: this state comes from an older copy of its directory, and its orders
    /// would count for nothing.
    fn rise_above(&mut self, wall_ms: u64, seen: u64) {
        if let Some(term) = seen.checked_add(1).filter(|_| seen > self.term) {
            self.make(wall_ms, None, Change::BeginTerm(crate::wire::proto::journal::BeginTerm { term }));
        }
    }

    /// True for a user who may do everything: the one whose process this is, and the members of the supergroup.
    pub fn is_superuser(&self, user: &str, groups: &[String]) -> bool {
        user == self.rules.superuser || groups.contains(&self.rules.supergroup)
    }

    /// The block pool, which clients repeat to DataNodes.
    pub fn pool(&self) -> &str {
        &self.pool
    }

    /// What is being mended, and what is known of the blocks.
    pub fn upkeep(&self, steady_ms: u64) -> Upkeep {
        let orders = self.orders.iter().take(REPAIRS_SHOWN_MAX);
        let address = |node: DatanodeHandle| {
            let node = self.datanodes.node(node);
            format!("{}:{}", node.host, node.transfer_port)
        };
        let repairs = orders.map(|order| RepairUnderWay {
            block: order.block,
            file: self.blocks.get(order.block).map(|block| self.tree.path_of(block.file)).unwrap_or_default(),
            bytes: order.length,
            worker: address(order.worker),
            sources: order.sources.len(),
            targets: order.targets.iter().map(|place| address(place.datanode)).collect(),
            is_given: order.is_given,
        });
        Upkeep {
            blocks: self.blocks.count(),
            replicas: self.blocks.replicas(),
            waiting: self.queue.count(),
            under_way: self.orders.count(),
            repairs: repairs.collect(),
            safe_mode: self.safe_mode.is_on().then(|| self.safe_mode.why(self.seen(steady_ms))),
        }
    }

    /// The records that have been made since the last time, in order.
    pub fn take_records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }

    /// Number of the last record that was made.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// All records up to this number are on disk: what they make unneeded may be deleted.
    pub fn note_synced(&mut self, sequence: u64) {
        assert!(sequence <= self.sequence, "only what was made is on disk");
        self.synced = self.synced.max(sequence);
    }

    /// Looks at the clock: safe mode, what may be forgotten, what is to be mended, and who is gone.
    pub fn tick(&mut self, now: Now, random: &mut fastrand::Rng) {
        let steady_ms = now.steady_ms;
        self.retry_cache.expire(steady_ms);
        self.datanodes.give_up_on_silent(steady_ms, self.rules.silent_ms_max);
        self.look_at_safe_mode(steady_ms);
        self.look_after_blocks(steady_ms, random);
        self.look_after_leaving(now);
        self.look_after_leases(now);
        self.look_after_trash(now, random);
    }

    /// What safe mode looks at. DataNodes are counted only if a number of them is wanted: each report asks.
    fn seen(&self, steady_ms: u64) -> Seen {
        let (committed, stored) = (self.blocks.committed(), self.blocks.stored());
        let is_live =
            |node: DatanodeHandle| self.datanodes.is_live(node, steady_ms, self.rules.silent_ms_max);
        let is_wanted = self.rules.safe_mode_datanodes_min > 0;
        let live = self.datanodes.iter().filter(|node| is_wanted && is_live(node.handle));
        Seen { committed, stored, datanodes: live.count() }
    }

    /// True while DataNodes may still be on their way to a NameNode that has just started, so that a call that finds too few waits.
    pub fn awaits_datanodes(&self, steady_ms: u64) -> bool {
        steady_ms.saturating_sub(self.began_ms) < DATANODES_AWAITED_MS
    }

    fn look_at_safe_mode(&mut self, steady_ms: u64) {
        if self.safe_mode.awaits_reports() {
            let seen = self.seen(steady_ms);
            self.safe_mode.look(steady_ms, seen);
        }
        if !self.safe_mode.is_on() && std::mem::take(&mut self.has_passed_over) {
            self.datanodes.ask_all_to_report();
        }
    }

    /// Makes a change, with the answer that the same call gets if it comes again.
    fn commit_once(
        &mut self,
        context: &Context<'_>,
        change: Change,
        answer: &impl prost::Message,
    ) -> Vec<u8> {
        let answer = answer.encode_to_vec();
        let caller = context
            .caller
            .map(|caller| Caller { client_id: Bytes::copy_from_slice(&caller.client), call_id: caller.call });
        let caller = caller.map(|caller| (caller, Bytes::from(answer.clone())));
        self.make(context.now.wall_ms, caller, change);
        answer
    }

    /// Makes a change of a call that may be carried out again.
    fn commit(&mut self, context: &Context<'_>, change: Change) {
        self.make(context.now.wall_ms, None, change);
    }

    fn make(&mut self, time_ms: u64, caller: Option<(Caller, Bytes)>, change: Change) {
        let (caller, answer) = caller.map_or((None, Bytes::new()), |(caller, answer)| (Some(caller), answer));
        let record = Record { time_ms, caller, answer, change: Some(change) };
        self.apply(&record);
        self.records.push(record);
    }

    /// Where a path leads.
    /// Follows a path to what is there.
    ///
    /// # Errors
    /// As of [`Tree::resolve`]; `AccessControl`, as HDFS has it, if a file is on the way.
    fn place(&self, path: &Path<'_>, user: &User) -> Result<Place, Refusal> {
        self.place_unless_behind_file(path, user, Exception::AccessControl)
    }

    /// Follows a path at which something is to be made.
    ///
    /// # Errors
    /// As of [`Tree::resolve`]; `ParentNotDirectory` if a file is on the way.
    fn place_of_new(&self, path: &Path<'_>, user: &User) -> Result<Place, Refusal> {
        self.place_unless_behind_file(path, user, Exception::ParentNotDirectory)
    }

    fn place_unless_behind_file(
        &self,
        path: &Path<'_>,
        user: &User,
        exception: Exception,
    ) -> Result<Place, Refusal> {
        let place = self.tree.resolve(path, user)?;
        if place.missing > 0 && !self.tree.inode(place.deepest()).is_directory() {
            let message = format!("{} (is not a directory)", self.tree.path_of(place.deepest()));
            return Err(Refusal::new(exception, message));
        }
        Ok(place)
    }

    /// The inode at a path.
    fn existing(&self, path: &Path<'_>, user: &User) -> Result<&Inode, Refusal> {
        let place = self.place(path, user)?;
        let id = place.inode().ok_or_else(|| Refusal::missing(path.text()))?;
        Ok(self.tree.inode(id))
    }

    /// Checks that a user may change what the directories of a path have: the one with its last name, or else the last one that is there.
    fn check_ancestor(&self, place: &Place, user: &User) -> Result<(), Refusal> {
        let above = if place.missing > 0 { Some(place.deepest()) } else { place.parent() };
        let Some(above) = above else { return Ok(()) };
        user.check(self.tree.inode(above), &self.tree, Access::Write)
    }

    /// The policy by which a file is laid out, or a new file in a directory would be; none for whole replicas.
    fn policy_of(&self, id: crate::ids::InodeId) -> Option<&Policy> {
        self.policies.of(self.tree.policy_of(id))
    }

    /// What a file counts for in the directories above it.
    fn file_counts(&self, inode: &Inode) -> Counts {
        let Some(file) = inode.file() else { return Counts::default() };
        let mut counts = Counts { files: 1, ..Counts::default() };
        for block in file.layout.blocks().iter().map(|id| self.blocks.block(*id)) {
            counts.bytes += block.length;
            let copies = || block.length * u64::from(file.replication);
            let space = block.geometry().map_or_else(copies, |geometry| geometry.space(block.length));
            counts.space += space;
            if !block.is_committed {
                counts.reserved += quotas::full_block_space(file, block.geometry()).saturating_sub(space);
            }
        }
        counts
    }

    /// What an inode counts for in the directories above it.
    fn counts_of(&self, id: crate::ids::InodeId) -> Counts {
        self.tree.counts_of(id, |inode| self.file_counts(inode))
    }

    fn is_live(&self, node: crate::ids::DatanodeHandle, context: &Context<'_>) -> bool {
        self.datanodes.is_live(node, context.now.steady_ms, self.rules.silent_ms_max)
    }

    fn safe_mode_refusal(&self, what: &str, steady_ms: u64) -> Refusal {
        let why = self.safe_mode.why(self.seen(steady_ms));
        Refusal::new(Exception::SafeMode, format!("Cannot {what}. Name node is in safe mode. {why}"))
    }
}
