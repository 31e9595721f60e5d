//! Looks at blocks that changed, plans repairs, and tells DataNodes what to mend and what to delete.

use std::collections::BTreeSet;

use yeoul_erasure::UnitSet;

use super::State;
use crate::ids::{BlockId, DatanodeHandle};
use crate::namenode::blocks::{Block, Fit, Replica};
use crate::namenode::placement::{self, Candidate};
use crate::namenode::repair::{Need, Order, Place, Standing, Urgency, surplus};
use crate::policy::name_of;
use crate::wire::proto::cluster::{BlockRef, Repair, Unit};

/// Blocks that one tick looks at again, at a microsecond or two each.
const CHANGED_PER_TICK_MAX: usize = 20_000;
/// Blocks for which one tick tries to plan a repair.
const PLANNED_PER_TICK_MAX: usize = 1_000;
/// Milliseconds for which a block may lack something before it is mended: the notices of the other DataNodes are on their way.
const SETTLE_MS: u64 = 1_000;
/// Milliseconds after which a block is tried again that nobody could mend.
const RETRY_MS: u64 = 2_000;
/// Replicas from which one is copied.
const COPY_SOURCES_MAX: usize = 3;
/// Needless replicas that one heartbeat tells a DataNode to delete.
const SURPLUS_PER_HEARTBEAT_MAX: usize = 1_000;

impl State {
    /// Looks at what changed and plans repairs: not in safe mode, and not before DataNodes that start later than others have
    /// had time to report.
    pub(super) fn look_after_blocks(&mut self, steady_ms: u64, random: &mut fastrand::Rng) {
        let (changed, has_come_back) = self.datanodes.note_dead(steady_ms, self.rules.repair_after_ms);
        for storage in changed {
            self.blocks.mark_storage_changed(storage);
        }
        self.count_lacks();
        if has_come_back {
            for block in std::mem::take(&mut self.crowded) {
                self.blocks.mark_changed(block);
            }
        }
        if self.safe_mode.is_on() {
            self.repair_from_ms = steady_ms.saturating_add(self.rules.repair_after_ms);
            return;
        }
        let rules = (self.rules.silent_ms_max, self.rules.repair_after_ms);
        let is_live = |node| self.datanodes.is_live(node, steady_ms, rules.0.max(rules.1));
        for lost in self.orders.give_up(steady_ms, is_live) {
            self.end_order(&lost, steady_ms);
        }
        for _ in 0..CHANGED_PER_TICK_MAX {
            let Some(block) = self.blocks.take_changed() else { break };
            self.look_at(block, steady_ms);
        }
        if steady_ms >= self.repair_from_ms {
            self.plan(steady_ms, random);
        }
    }

    fn look_at(&mut self, id: BlockId, steady_ms: u64) {
        let Some(block) = self.blocks.get(id).filter(|block| block.is_committed) else {
            self.queue.remove(id);
            self.hints.forget(id);
            self.call_off(id, |_| false);
            return;
        };
        let need = self.need(block, steady_ms);
        if !need.missing.is_empty() || need.copies_missing > 0 {
            self.leaving.note_lacking(block.replicas().map(|replica| replica.datanode));
        }
        let (stamp, standing) = (block.stamp, |replica: &Replica| self.standing(replica, steady_ms));
        let rack = |node| self.datanodes.node(node).rack.clone();
        let has_place = || self.has_place(block, steady_ms);
        let is_moved = |replica: &Replica| self.hints.has(id, replica.index, replica.datanode);
        let going = surplus(block, self.copies(block), standing, rack, has_place, is_moved);
        if going.is_empty() {
            self.hints.forget(id);
        }
        for (storage, _) in going {
            let node = self.datanodes.storage(storage).datanode;
            self.surplus.entry(node).or_default().insert(id, self.sequence);
        }
        let has_place = self.has_better_place(block, &need, steady_ms);
        // An order that makes what is there again goes first: the block may lack something else.
        self.call_off(id, |order| order.stamp == stamp && is_wanted(order, &need));
        match need.urgency() {
            // It waits for a DataNode that comes (back).
            Some(Urgency::MISPLACED) if !has_place => {
                self.crowded.insert(id);
                self.queue.remove(id);
            }
            Some(urgency) if !self.orders.has(id) => self.queue.insert(id, urgency, steady_ms + SETTLE_MS),
            _ => self.queue.remove(id),
        }
    }

    /// True if there is a DataNode, or one on another rack, for what is where one failure takes too much.
    fn has_better_place(&self, block: &Block, need: &Need, steady_ms: u64) -> bool {
        let used: BTreeSet<_> = block.good().map(|replica| replica.datanode).collect();
        let racks = if need.is_on_one_rack { self.racks(block, steady_ms) } else { BTreeSet::new() };
        self.datanodes.iter().any(|node| {
            !used.contains(&node.handle)
                && node.admin.is_in_service()
                && !racks.contains(node.rack.as_str())
                && self.datanodes.is_live(node.handle, steady_ms, self.rules.repair_after_ms)
        })
    }

    /// The racks with good replicas of a block that are not missed.
    fn racks(&self, block: &Block, steady_ms: u64) -> BTreeSet<&str> {
        let there = block.good().filter(|replica| self.standing(replica, steady_ms).stays());
        there.map(|replica| self.datanodes.node(replica.datanode).rack.as_str()).collect()
    }

    /// An order is over, well or not: its block is looked at again.
    fn end_order(&mut self, order: &Order, steady_ms: u64) {
        let blocks = &self.blocks;
        let has_come = |target: &Place| {
            let of_it =
                |replica: Replica| (replica.datanode, replica.index) == (target.datanode, target.index);
            blocks.get(order.block).is_none_or(|block| block.replicas().any(of_it))
        };
        self.orders.doubt(order, steady_ms, has_come);
        self.blocks.mark_changed(order.block);
    }

    /// Calls the order of a block off if it is not wanted any more.
    fn call_off(&mut self, id: BlockId, is_wanted: impl Fn(&Order) -> bool) {
        let Some(order) = self.orders.of_mut(id).filter(|order| !is_wanted(order)) else { return };
        order.is_cancelled = true;
        let (number, is_given) = (order.number, order.is_given);
        if !is_given {
            self.orders.remove(number);
        }
    }

    /// Copies that a block of whole replicas is to have.
    pub(super) fn copies(&self, block: &Block) -> usize {
        self.tree.inode(block.file).file().map_or(1, |file| file.replication).into()
    }

    pub(super) fn need(&self, block: &Block, steady_ms: u64) -> Need {
        let standing = |replica: &Replica| self.standing(replica, steady_ms);
        let rack = |node| self.datanodes.node(node).rack.as_str();
        let copies = (self.copies(block), self.rules.away_copies_min);
        let need = Need::of(block, copies, standing, rack);
        Need { is_on_one_rack: need.is_on_one_rack && self.datanodes.has_racks(), ..need }
    }

    pub(super) fn standing(&self, replica: &Replica, steady_ms: u64) -> Standing {
        let storage = self.datanodes.storage(replica.storage);
        let is_heard = |within| self.datanodes.is_live(replica.datanode, steady_ms, within);
        let (admin, is_live) =
            (self.datanodes.node(replica.datanode).admin, is_heard(self.rules.silent_ms_max));
        match () {
            () if storage.has_failed => Standing::Dead,
            () if admin.is_in_maintenance() => Standing::Paused { is_live },
            () if !is_heard(self.rules.repair_after_ms) => Standing::Dead,
            () if admin.is_leaving() => Standing::Leaving { is_live },
            () if !admin.is_in_service() => Standing::Paused { is_live },
            () if !is_heard(self.rules.silent_ms_max) => Standing::Silent,
            () => Standing::Live { is_fresh: storage.has_reported },
        }
    }

    fn plan(&mut self, steady_ms: u64, random: &mut fastrand::Rng) {
        let ready: Vec<BlockId> = self.queue.ready(steady_ms).take(PLANNED_PER_TICK_MAX).collect();
        for id in ready {
            let mut workers = self.datanodes.iter();
            let is_free = workers.any(|node| {
                self.datanodes.is_live(node.handle, steady_ms, self.rules.silent_ms_max)
                    && self.orders.may_work(node.handle, 0, self.rules.repair_streams_hard_max)
            });
            if !is_free {
                return;
            }
            match self.plan_one(id, steady_ms, random) {
                Planned::Order(order) => {
                    self.queue.remove(id);
                    self.orders.add(self.term, order);
                }
                Planned::Busy => {}
                Planned::Impossible => self.queue.postpone(id, steady_ms + RETRY_MS),
            }
        }
    }

    fn plan_one(&self, id: BlockId, steady_ms: u64, random: &mut fastrand::Rng) -> Planned {
        let Some(block) = self.blocks.get(id) else { return Planned::Impossible };
        let need = self.need(block, steady_ms);
        let streams = match need.tolerance {
            Some(0) => self.rules.repair_streams_hard_max,
            _ => self.rules.repair_streams_max,
        };
        let is_live = |replica: &Replica| self.standing(replica, steady_ms).is_live();
        let place = |replica: Replica| {
            let Replica { index, datanode, storage, .. } = replica;
            Place { index, datanode, storage }
        };
        let sources: Vec<Place> = block.good().filter(is_live).map(place).collect();
        // What moves is computed from the others: so many of them have to stay.
        let movable = need.crowded.iter().take(need.tolerance.unwrap_or(0));
        let units = if need.missing.is_empty() {
            movable.collect()
        } else {
            self.units_to_make(block, &need, &sources)
        };
        let targets = match block.geometry() {
            Some(_) => self.unit_targets(block, units, &need, steady_ms, random),
            None => self.copy_target(block, &need, steady_ms, random).into_iter().collect(),
        };
        let sources: Vec<Place> = match block.geometry() {
            Some(_) => {
                let mut sources = sources;
                sources.retain(|source| !units.contains(source.index.unit()));
                sources.sort_by_key(|source| source.index);
                sources.dedup_by_key(|source| source.index);
                if sources.len() < block.units_needed() {
                    return Planned::Impossible;
                }
                sources
            }
            None => {
                // Who has it and is free sends it; the others are there in case that what it has is damaged.
                let (free, others): (Vec<Place>, Vec<Place>) =
                    sources.into_iter().partition(|source| self.may_copy(source, block.length, streams));
                let others =
                    others.into_iter().filter(|source| self.orders.may_read(source.datanode, block.length));
                if free.is_empty() {
                    return Planned::Busy;
                }
                free.into_iter().chain(others).take(COPY_SOURCES_MAX).collect()
            }
        };
        let is_copy = block.geometry().is_none();
        if targets.is_empty() || (sources.is_empty() && !is_copy) {
            return Planned::Impossible;
        }
        let may_write = targets.iter().all(|target| self.orders.may_write(target.datanode, block.length));
        let may_read = sources.iter().all(|source| self.orders.may_read(source.datanode, block.length));
        // A copy is sent by who has it, and a unit is computed where one is to be.
        let mut workers = if is_copy { sources.iter() } else { targets.iter() };
        let may_work = |place: &&Place| self.orders.may_work(place.datanode, block.length, streams);
        let worker = workers.find(may_work).map(|place| place.datanode);
        let Some(worker) = worker.filter(|_| may_read && may_write) else { return Planned::Busy };
        Planned::Order(Order {
            number: 0,
            block: id,
            stamp: block.stamp,
            length: block.length,
            worker,
            sources,
            targets,
            made_ms: steady_ms,
            is_given: false,
            is_cancelled: false,
        })
    }

    /// The missing units that one repair makes: those that are nowhere, and so many of those that only DataNodes have that are to
    /// leave that the others suffice to compute them.
    fn units_to_make(&self, block: &Block, need: &Need, sources: &[Place]) -> UnitSet {
        let there: UnitSet = sources.iter().map(|source| source.index.unit()).collect();
        let leaving = need.missing.intersection(there);
        let spare = there.len().saturating_sub(block.units_needed());
        need.missing.without(there).union(leaving.iter().take(spare).collect())
    }

    fn may_copy(&self, source: &Place, bytes: u64, streams: usize) -> bool {
        self.orders.may_work(source.datanode, bytes, streams) && self.orders.may_read(source.datanode, bytes)
    }

    /// True if a DataNode without a replica of a block could take one.
    fn has_place(&self, block: &Block, steady_ms: u64) -> bool {
        let bytes = block.units().iter().map(|unit| block.unit_length(unit)).max().unwrap_or(0);
        !self.room(block, bytes, steady_ms, |_| true).is_empty()
    }

    /// DataNodes that are there, with room, and without the replicas that `is_in_the_way`.
    fn room(
        &self,
        block: &Block,
        bytes: u64,
        steady_ms: u64,
        is_in_the_way: impl Fn(&Replica) -> bool,
    ) -> Vec<Candidate<'_>> {
        let mut candidates = self.datanodes.candidates(bytes, steady_ms, self.rules.silent_ms_max);
        candidates.retain(|candidate| {
            let mut of_it = block.replicas().filter(|replica| replica.datanode == candidate.datanode);
            !of_it.any(|replica| is_in_the_way(&replica))
        });
        candidates
    }

    /// Where the units of a group go that it lacks, or that have to move.
    fn unit_targets(
        &self,
        block: &Block,
        units: UnitSet,
        need: &Need,
        steady_ms: u64,
        random: &mut fastrand::Rng,
    ) -> Vec<Place> {
        let bytes = units.iter().map(|unit| block.unit_length(unit)).max().unwrap_or(0);
        let is_moved = need.missing.is_empty();
        // A DataNode does not take a unit that it has, in whatever state.
        let candidates = self.room(block, bytes, steady_ms, |replica| {
            units.contains(replica.index.unit()) || (is_moved && block.fit(replica) == Fit::Good)
        });
        let there = block.good().filter(|replica| self.standing(replica, steady_ms).stays());
        let taken: Vec<_> = there
            .map(|replica| (replica.datanode, self.datanodes.node(replica.datanode).rack.as_str()))
            .collect();
        let count = if is_moved { units.len().min(candidates.len()) } else { units.len() };
        let is_in_doubt = |node| self.orders.is_in_doubt(node, steady_ms);
        let chosen = placement::choose_striped(&candidates, &taken, count, is_in_doubt, random);
        let place = |(unit, storage): (yeoul_erasure::UnitIndex, &crate::ids::StorageHandle)| Place {
            index: crate::ids::BlockIndex(unit.0),
            datanode: self.datanodes.storage(*storage).datanode,
            storage: *storage,
        };
        units.iter().zip(&chosen).map(place).collect()
    }

    /// Place of the next copy of a block.
    fn copy_target(
        &self,
        block: &Block,
        need: &Need,
        steady_ms: u64,
        random: &mut fastrand::Rng,
    ) -> Option<Place> {
        let candidates = self.room(block, block.length, steady_ms, |_| true);
        let racks = self.racks(block, steady_ms);
        let is_in_doubt = |node| self.orders.is_in_doubt(node, steady_ms);
        let is_move = need.copies_missing == 0;
        let storage = placement::choose_copy(&candidates, &racks, is_move, is_in_doubt, random)?;
        let index = crate::ids::BlockIndex(0);
        Some(Place { index, datanode: self.datanodes.storage(storage).datanode, storage })
    }

    /// Takes what a worker says it works at, and tells it what else to do: new repairs, and those that it is to drop.
    pub(super) fn give_orders(
        &mut self,
        node: DatanodeHandle,
        numbers: &[u64],
        steady_ms: u64,
    ) -> (Vec<Repair>, Vec<u64>) {
        let (over, dropped) = self.orders.hear(node, numbers);
        for order in over {
            self.end_order(&order, steady_ms);
        }
        let mut repairs = Vec::new();
        if self.safe_mode.is_on() {
            return (repairs, dropped);
        }
        for order in self.orders.to_give(node) {
            // What was planned may be wrong by now.
            if self.makes_sense(&order, steady_ms) {
                self.orders.given(order.number);
                repairs.push(self.repair(&order));
            } else {
                self.orders.remove(order.number);
                self.blocks.mark_changed(order.block);
            }
        }
        (repairs, dropped)
    }

    fn makes_sense(&self, order: &Order, steady_ms: u64) -> bool {
        let Some(block) = self.blocks.get(order.block).filter(|block| block.is_committed) else {
            return false;
        };
        let need = self.need(block, steady_ms);
        let is_source = |place: &Place| {
            block.good().any(|replica| {
                (replica.storage, replica.index) == (place.storage, place.index)
                    && self.standing(&replica, steady_ms).is_live()
            })
        };
        let is_live = |place: &Place| {
            self.datanodes.is_live(place.datanode, steady_ms, self.rules.silent_ms_max)
                && !block
                    .replicas()
                    .any(|known| known.datanode == place.datanode && known.index == place.index)
        };
        (block.stamp, block.length) == (order.stamp, order.length)
            && is_wanted(order, &need)
            && order.sources.iter().all(is_source)
            && order.targets.iter().all(is_live)
    }

    fn repair(&self, order: &Order) -> Repair {
        let geometry = self.blocks.get(order.block).and_then(|block| block.geometry());
        let unit = |place: &Place| {
            let (node, storage) =
                (self.datanodes.node(place.datanode), self.datanodes.storage(place.storage));
            Unit {
                index: place.index.0.into(),
                uuid: node.uuid.clone(),
                host: node.host.clone(),
                ip: node.ip.clone(),
                transfer_port: node.transfer_port.into(),
                ipc_port: node.ipc_port.into(),
                storage: storage.uuid.clone(),
                kind: u32::try_from(storage.kind).unwrap_or(1),
            }
        };
        Repair {
            number: order.number,
            id: order.block.0,
            stamp: order.stamp.0,
            length: order.length,
            policy: geometry.map_or(String::new(), name_of),
            sources: order.sources.iter().map(unit).collect(),
            targets: order.targets.iter().map(unit).collect(),
        }
    }

    /// The needless replicas that a DataNode is to delete now: it is looked at again whether they are needless, and from now on
    /// they count for nothing.
    pub(super) fn take_surplus(&mut self, node: DatanodeHandle, steady_ms: u64) -> Vec<BlockRef> {
        let mut delete = Vec::new();
        if self.safe_mode.is_on() {
            return delete;
        }
        let synced = self.synced;
        let Some(waiting) = self.surplus.get_mut(&node) else { return delete };
        // The record by which a replica became needless has to be on disk.
        let ready = waiting.iter().filter(|(_, after)| **after <= synced).map(|(id, _)| *id);
        let ready: Vec<BlockId> = ready.take(SURPLUS_PER_HEARTBEAT_MAX).collect();
        for id in &ready {
            waiting.remove(id);
        }
        for id in ready {
            // One that changed since is looked at with the next tick.
            let Some(block) = self.blocks.get(id).filter(|block| !block.is_changed) else { continue };
            let standing = |replica: &Replica| self.standing(replica, steady_ms);
            let rack = |node| self.datanodes.node(node).rack.clone();
            let has_place = || self.has_place(block, steady_ms);
            let is_moved = |replica: &Replica| self.hints.has(id, replica.index, replica.datanode);
            let mut going = surplus(block, self.copies(block), standing, rack, has_place, is_moved);
            going.retain(|(storage, _)| self.datanodes.storage(*storage).datanode == node);
            if going.is_empty() {
                // One that would have to stay is silent at the moment.
                self.blocks.mark_changed(id);
            }
            for (storage, index) in going {
                let stamp = self.blocks.set_leaving(id, storage, index);
                let storage = self.datanodes.storage(storage).uuid.clone();
                delete.push(BlockRef { storage, id: id.internal(index).0, stamp: stamp.0 });
            }
        }
        delete
    }

    /// How many blocks lack something, and how many repairs are under way.
    pub fn repairs(&self) -> (usize, usize) {
        (self.queue.count() + self.orders.count(), self.orders.count())
    }
}

enum Planned {
    Order(Order),
    /// It is for later: who would do it has enough to do.
    Busy,
    /// Nobody can do it as things are.
    Impossible,
}

/// True if a block still lacks something that an order makes.
fn is_wanted(order: &Order, need: &Need) -> bool {
    let wanted = need.missing.union(need.crowded);
    let is_copy = need.copies_missing > 0 || need.is_on_one_rack;
    is_copy || order.targets.iter().any(|target| wanted.contains(target.index.unit()))
}
