//! DataNodes that are to leave, or to be away for a while: whether all that they have is on others.

use std::collections::{BTreeSet, HashMap};

use super::State;
use crate::ids::{BlockId, DatanodeHandle, InodeId};
use crate::namenode::blocks::{Block, Fit, Replica};
use crate::namenode::hosts::{Duty, Hosts};
use crate::namenode::repair::{Need, Standing};
use crate::namenode::{AdminState, Now};

/// Blocks that one tick looks at for all these DataNodes, at a microsecond or two each.
const LOOKED_AT_MAX: usize = 20_000;

/// What is looked at of DataNodes that are on their way.
#[derive(Debug, Default)]
pub(super) struct Leaving(HashMap<DatanodeHandle, Pass>);

/// A pass over the blocks of a DataNode. All of them are looked at, and those that change meanwhile once more: so if none was found
/// that lacks something, none does.
#[derive(Debug, Default)]
struct Pass {
    /// The storage that is looked at, of those that the DataNode has.
    storage: usize,
    after: Option<BlockId>,
    /// The last of the open files that were looked at; none before all storages are over.
    open_after: Option<InodeId>,
    is_over: bool,
    lacking: u64,
    /// How many lacked something in the pass before.
    lacking_before: Option<u64>,
}

impl Leaving {
    /// Notes that a block with replicas on these DataNodes lacks something: their passes have not found all whole.
    pub fn note_lacking(&mut self, datanodes: impl Iterator<Item = DatanodeHandle>) {
        if self.0.is_empty() {
            return;
        }
        for datanode in datanodes {
            if let Some(pass) = self.0.get_mut(&datanode) {
                pass.lacking += 1;
            }
        }
    }
}

impl State {
    /// Takes what the files of hosts say: who may not be here any more is gone, and who is to leave begins to.
    pub fn set_hosts(&mut self, hosts: Hosts, now: Now) {
        self.hosts = hosts;
        let nodes: Vec<DatanodeHandle> = self.datanodes.iter().map(|node| node.handle).collect();
        for handle in nodes {
            let node = self.datanodes.node(handle);
            let duty = self.hosts.duty_of(&node.host, &node.ip, node.transfer_port);
            if duty.is_some() == node.is_disallowed {
                // One that may be here again registers by itself; until then it is as silent as it was.
                self.datanodes.node_mut(handle).is_disallowed = duty.is_none();
            }
            self.set_duty(handle, duty.unwrap_or_default(), now.wall_ms);
        }
    }

    /// Gives a DataNode a duty.
    pub(super) fn set_duty(&mut self, handle: DatanodeHandle, duty: Duty, wall_ms: u64) {
        let admin = self.datanodes.node(handle).admin.with_duty(duty, wall_ms);
        self.set_admin(handle, admin);
    }

    fn set_admin(&mut self, handle: DatanodeHandle, admin: AdminState) {
        let node = self.datanodes.node_mut(handle);
        if admin.is_on_its_way() {
            self.leaving.0.entry(handle).or_default();
        } else {
            self.leaving.0.remove(&handle);
        }
        if std::mem::replace(&mut node.admin, admin) == admin {
            return;
        }
        for storage in node.storages.clone() {
            self.blocks.mark_storage_changed(storage);
        }
        // Those that were where one failure takes too much may have a better place, or none any more.
        for block in std::mem::take(&mut self.crowded) {
            self.blocks.mark_changed(block);
        }
    }

    /// Goes on with the DataNodes that are on their way, and ends maintenance that is over.
    pub(super) fn look_after_leaving(&mut self, now: Now) {
        let over = self
            .datanodes
            .iter()
            .filter(|node| node.admin.until_ms().is_some_and(|until_ms| until_ms <= now.wall_ms));
        let over: Vec<DatanodeHandle> = over.map(|node| node.handle).collect();
        for handle in over {
            self.set_admin(handle, AdminState::InService);
        }
        if self.safe_mode.is_on() {
            return;
        }
        let (mut left, handles) = (LOOKED_AT_MAX, self.leaving.0.keys().copied().collect::<BTreeSet<_>>());
        for handle in handles {
            let mut pass = self.leaving.0.remove(&handle).expect("it was just there");
            let looked_at = self.look_further_at(handle, &mut pass, left, now.steady_ms);
            left -= looked_at;
            let (storages, is_over) = (&self.datanodes.node(handle).storages, pass.is_over);
            let has_reported =
                || storages.iter().all(|storage| self.datanodes.storage(*storage).has_reported);
            if is_over && pass.lacking == 0 && has_reported() && self.blocks.is_looked_at() {
                let admin = self.datanodes.node(handle).admin.completed();
                self.set_admin(handle, admin);
                continue;
            }
            let lacking_before = if is_over { Some(pass.lacking) } else { pass.lacking_before };
            let next = if is_over { Pass { lacking_before, ..Pass::default() } } else { pass };
            self.leaving.0.insert(handle, next);
        }
    }

    /// Goes on with a pass for up to `count` blocks; how many there were.
    fn look_further_at(
        &self,
        handle: DatanodeHandle,
        pass: &mut Pass,
        count: usize,
        steady_ms: u64,
    ) -> usize {
        let (storages, mut looked_at) = (&self.datanodes.node(handle).storages, 0);
        while let Some(storage) = storages.get(pass.storage).filter(|_| looked_at < count) {
            let some = self.blocks.of_storage_behind(*storage, pass.after, count - looked_at);
            looked_at += some.len();
            pass.after = some.last().copied();
            if pass.after.is_none() {
                pass.storage += 1;
            }
            let lacking =
                some.iter().filter(|id| !self.can_do_without(self.blocks.block(**id), handle, steady_ms));
            pass.lacking += lacking.count() as u64;
        }
        // What is being written may be on no list of what storages have.
        while looked_at < count && !pass.is_over && pass.storage >= storages.len() {
            let after = pass.open_after.unwrap_or(InodeId(0));
            let some: Vec<InodeId> =
                self.tree.open_files_behind(after).take(count - looked_at).map(|(file, _)| file).collect();
            looked_at += some.len();
            pass.open_after = some.last().copied();
            pass.is_over = some.is_empty();
            let held_up = some.iter().filter(|file| self.holds_up(**file, |node| node == handle, steady_ms));
            pass.lacking += held_up.count() as u64;
        }
        looked_at
    }

    /// True if a DataNode may go, as far as one block is concerned: others have it.
    fn can_do_without(&self, block: &Block, handle: DatanodeHandle, steady_ms: u64) -> bool {
        // Who is silent may not come back.
        let standing = |replica: &Replica| match self.standing(replica, steady_ms) {
            Standing::Silent => Standing::Dead,
            other => other,
        };
        if !block.is_committed {
            return self.is_written_elsewhere(block, steady_ms);
        }
        let mut own = block.replicas().filter(|replica| replica.datanode == handle);
        if !own.any(|replica| block.fit(&replica) == Fit::Good) {
            // It has nothing of it that anybody would miss.
            return true;
        }
        let rack = |node| self.datanodes.node(node).rack.as_str();
        let copies = self.copies(block);
        let need = Need::of(block, (copies, self.rules.away_copies_min), standing, rack);
        let others = block.good().filter(|replica| standing(replica).stays()).count();
        // As in HDFS: as many copies as files have if nobody says so are enough to let it go.
        let are_enough = block.geometry().is_none() && others >= copies.min(self.rules.replication.into());
        need.missing.is_empty() && (need.copies_missing == 0 || are_enough)
    }

    /// True if enough of a block that is being written is on DataNodes that stay.
    fn is_written_elsewhere(&self, block: &Block, steady_ms: u64) -> bool {
        let stays = |datanode: DatanodeHandle| {
            self.datanodes.node(datanode).admin.is_in_service()
                && self.datanodes.is_live(datanode, steady_ms, self.rules.silent_ms_max)
        };
        let written = self.written_to(block).into_iter().map(|place| (place.index, place.datanode));
        let reported = block.replicas().map(|replica| (replica.index, replica.datanode));
        let units: BTreeSet<_> =
            written.chain(reported).filter(|(_, node)| stays(*node)).map(|(index, _)| index).collect();
        units.len() >= block.units_needed()
    }

    /// True for a file that a client writes and for which a DataNode waits that is to leave.
    pub(super) fn is_in_the_way(&self, file: InodeId, steady_ms: u64) -> bool {
        let is_leaving = |node| self.datanodes.node(node).admin == AdminState::Decommissioning;
        self.holds_up(file, is_leaving, steady_ms)
    }

    /// True for a file whose last block is being written on such a DataNode, and not enough of it on DataNodes that stay.
    fn holds_up(&self, file: InodeId, is_such: impl Fn(DatanodeHandle) -> bool, steady_ms: u64) -> bool {
        let found = self.tree.inode(file).file();
        let last = found.and_then(|file| file.layout.blocks().last()).map(|id| self.blocks.block(*id));
        last.filter(|block| !block.is_committed).is_some_and(|block| {
            let is_there = self.written_to(block).into_iter().any(|place| is_such(place.datanode))
                || block.replicas().any(|replica| is_such(replica.datanode));
            is_there && !self.is_written_elsewhere(block, steady_ms)
        })
    }

    /// Blocks of a DataNode that is to leave that others do not have yet, as the last pass found them.
    pub(super) fn lacking_of(&self, handle: DatanodeHandle) -> u64 {
        let pass = self.leaving.0.get(&handle);
        pass.map_or(0, |pass| pass.lacking_before.unwrap_or(0).max(pass.lacking))
    }
}
