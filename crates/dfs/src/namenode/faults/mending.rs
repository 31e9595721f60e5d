//! What is lost in the simulation, what nodes rebuild, and what must hold of units and copies.

use std::collections::BTreeSet;

use yeoul_erasure::{StripeGeometry, UnitIndex, UnitSet};

use super::clients::{Client, POLICY};
use super::nodes::Node;
use super::world::{NODES, RACKS, World};
use crate::ids::BlockId;
use crate::policy::geometry_of;
use crate::wire::proto::cluster::Unit;
use crate::wire::proto::shared::{ExtendedBlock, LocatedBlock};

/// Steps within which a node has told the NameNode of a loss, or is known to be silent.
const NOTICE_STEPS_MAX: u64 = 300;

/// Places of the bytes of a group; none for a block of whole replicas.
pub fn geometry(id: i64) -> Option<StripeGeometry> {
    (id < 0).then(|| geometry_of(POLICY).expect("there is one"))
}

/// The number and the length of the replica of a unit; of a block of whole replicas each is the same.
pub fn unit(group: i64, length: u64, index: u8) -> (i64, u64) {
    match geometry(group) {
        None => (group, length),
        Some(geometry) => (group + i64::from(index), geometry.unit_len(length, UnitIndex(index))),
    }
}

/// How many distinct units give all bytes.
fn needed(group: i64, length: u64) -> usize {
    geometry(group).map_or(1, |geometry| geometry.data_units_used(length))
}

fn number(uuid: &str) -> usize {
    uuid[3..].parse().expect("a number")
}

fn has_promised(node: &Node, block: &ExtendedBlock, promised: u64) -> bool {
    node.has(block.id.cast_signed()).is_some_and(|has| has.0 >= block.stamp && has.1 >= promised)
}

impl World {
    /// The block, if a client needs it, and its length.
    fn needed_block(&self, id: i64) -> Option<(i64, u64)> {
        let group = BlockId(id).group().0;
        self.clients.iter().flat_map(Client::needed).find(|(needed, _)| *needed == group)
    }

    /// The distinct units of a block that some disk has as they were written.
    fn units_of(&self, group: i64) -> UnitSet {
        let units = geometry(group).map_or(1, |geometry| geometry.schema().units()) as u8;
        let is_there =
            |index: &u8| self.nodes.iter().any(|node| self.has_good(node, group + i64::from(*index)));
        (0..units).filter(is_there).map(UnitIndex).collect()
    }

    /// True if a node has a replica that is what was written, with the stamp of the last pipeline.
    fn has_good(&self, node: &Node, id: i64) -> bool {
        self.stamps.get(&BlockId(id).group().0).is_some_and(|stamp| node.has_good(id, *stamp))
    }

    /// A replica has been deleted: what is needed of it is elsewhere.
    pub fn check_deleted(&mut self, at: usize, (id, stamp, was_damaged): (i64, u64, bool)) {
        let Some((group, length)) = self.needed_block(id) else { return };
        self.tally.needless_deleted += 1;
        // One that missed a pipeline counts for nothing.
        let was_damaged = was_damaged || self.stamps.get(&group) != Some(&stamp);
        let there = self.units_of(group);
        let has_unit = there.contains(BlockId(id).index().unit());
        let is_enough = there.len() >= needed(group, length);
        assert!(is_enough, "{id} is deleted from node {at}, and of {group} there is {there:?}");
        // A damaged one may go before the unit is there again, and the NameNode may not know yet that another one is gone.
        assert!(
            has_unit || was_damaged || self.has_lost_lately(group),
            "{id} is deleted from node {at}, and is nowhere else"
        );
    }

    /// Of each block of which a writer was promised bytes that is gone, they are somewhere.
    pub fn check_promised(&self) {
        for client in &self.clients {
            let Some((block, promised)) = client.promised_of_last() else { continue };
            assert!(
                self.nodes.iter().any(|node| has_promised(node, block, promised)),
                "{promised} bytes of {} were promised to {}, and are nowhere",
                block.id.cast_signed(),
                client.name()
            );
        }
    }

    /// True for a node without which bytes that were promised to a writer that is gone are on none that is up. What is flushed is in the
    /// memory of machines: if one has lost it, the block is closed without it while the other one is away, as with HDFS.
    pub fn is_last_with_promised(&self, at: usize) -> bool {
        let mut promised = self.clients.iter().filter_map(Client::promised_of_last);
        promised.any(|(block, promised)| {
            let has_them = |node: &&Node| node.is_up && has_promised(node, block, promised);
            let mut with_them = self.nodes.iter().filter(has_them);
            with_them.next().is_some_and(|node| node.number == at) && with_them.next().is_none()
        })
    }

    /// Checks that what a node has that may go is on others, as often as it is to be, but for what the NameNode is having `mended`, as
    /// it was being written when the node was found to be free: false if something may have been lost meanwhile that the NameNode
    /// does not know of yet, or is being written.
    pub fn check_leaving(&self, at: usize, mended: &str) -> bool {
        let (mut is_sure, mut lacking) = (true, Vec::new());
        for id in self.nodes[at].replicas.keys() {
            let is_closed = |group: i64| {
                let files = self.clients.iter().flat_map(|client| client.files.values());
                files.flatten().any(|(block, _)| *block == group)
            };
            let needed_of_closed = self.needed_block(*id).filter(|(group, _)| is_closed(*group));
            let Some((group, length)) = needed_of_closed else {
                // It may belong to a file that is open: of that enough is elsewhere to go on, as with HDFS.
                is_sure = false;
                continue;
            };
            let others = self.nodes.iter().filter(|node| node.number != at && self.has_good(node, *id));
            let wanted = if geometry(group).is_some() { 1 } else { 3 };
            let units = self.units_of(group);
            if self.has_lost_lately(group) || units.len() < needed(group, length) {
                is_sure = false;
            } else if self.has_good(&self.nodes[at], *id) && others.count() < wanted {
                match mended.contains(&format!("blk_{group}_")) {
                    true => is_sure = false,
                    false => lacking.push(*id),
                }
            }
        }
        assert!(
            !is_sure || lacking.is_empty(),
            "node {at} may go, and {lacking:?} are not on enough others:\n{mended}"
        );
        is_sure
    }

    /// True while the NameNode may not know yet that a replica of a block is gone.
    fn has_lost_lately(&self, group: i64) -> bool {
        self.lost_in.get(&group).is_some_and(|step| self.steps - step < NOTICE_STEPS_MAX)
    }

    /// A balancer moves a replica to another node, which may have another unit of its group, but not this one.
    pub fn balance(&mut self) {
        let (from, to) = (self.random.usize(..NODES), self.random.usize(..NODES));
        let nth = self.random.usize(..self.nodes[from].replicas.len().max(1));
        let Some(id) = self.nodes[from].replicas.keys().copied().nth(nth) else { return };
        let target = &self.nodes[to];
        let has_it = target.replicas.contains_key(&id) || target.unfinished.contains_key(&id);
        let is_source = self.nodes[from].is_up && self.has_good(&self.nodes[from], id);
        if !is_source || has_it || !target.is_up || target.is_full || self.needed_block(id).is_none() {
            return;
        }
        self.tally.replicas_moved += 1;
        let (kept, hint) = (self.nodes[from].replicas[&id], self.nodes[from].uuid());
        self.nodes[to].replace(id, kept, hint);
    }

    /// A replica is damaged or gone, of a block that has more than it needs: no more is lost than can be mended. Not one of
    /// twins, of which the NameNode may be about to delete the other.
    pub fn lose_replica(&mut self) {
        let at = self.random.usize(..NODES);
        let nth = self.random.usize(..self.nodes[at].replicas.len().max(1));
        let Some(id) = self.nodes[at].replicas.keys().copied().nth(nth) else { return };
        let Some((group, length)) = self.needed_block(id) else { return };
        let copies = self.nodes.iter().filter(|node| self.has_good(node, id)).count();
        let has_more = match geometry(group) {
            Some(_) => copies == 1 && self.units_of(group).len() > needed(group, length),
            None => copies > 2,
        };
        if self.has_lost_lately(group)
            || !has_more
            || !self.nodes[at].is_up
            || !self.has_good(&self.nodes[at], id)
        {
            return;
        }
        self.lost_in.insert(group, self.steps);
        if self.random.bool() {
            self.tally.replicas_damaged += 1;
            self.nodes[at].damage(id);
        } else {
            // The next report shows it.
            self.tally.replicas_gone += 1;
            self.nodes[at].replicas.remove(&id);
            self.nodes[at].reconnect();
        }
    }

    /// A node does a repair, as far as those that it needs are there.
    pub fn work(&mut self) {
        let at = self.random.usize(..NODES);
        if !self.nodes[at].is_up {
            return;
        }
        let Some((_, repair)) = self.nodes[at].work.pop_first() else { return };
        let can_read = |source: &&Unit| {
            let node = &self.nodes[number(&source.uuid)];
            node.is_up && self.has_good(node, repair.id + i64::from(source.index))
        };
        let sources = repair.sources.iter().filter(can_read).map(|source| UnitIndex(source.index as u8));
        let sources: UnitSet = sources.collect();
        let fails = self.has_faults && self.random.u8(..10) == 0;
        if fails || sources.len() < needed(repair.id, repair.length) {
            self.tally.repairs_failed += 1;
            return;
        }
        for target in &repair.targets {
            let (id, length) = unit(repair.id, repair.length, target.index as u8);
            let node = &mut self.nodes[number(&target.uuid)];
            let is_in_the_way = node.unfinished.get(&id).is_some_and(|has| has.0 >= repair.stamp);
            if !node.is_up || node.is_full || node.replicas.contains_key(&id) || is_in_the_way {
                continue;
            }
            node.finish(id, repair.stamp, length);
            let tally = &mut self.tally;
            *if repair.id < 0 { &mut tally.units_rebuilt } else { &mut tally.replicas_copied } += 1;
        }
    }

    /// Each copy, or each unit that holds bytes, is on a node of its own, once, and whole; the NameNode knows where.
    pub fn check_block(&self, path: &str, block: &LocatedBlock) {
        let (group, stamp, length) = (block.block.id.cast_signed(), block.block.stamp, block.block.length());
        let places: Vec<usize> = block.locations.iter().map(|node| number(&node.id.uuid)).collect();
        let different: BTreeSet<usize> = places.iter().copied().collect();
        assert_eq!(different.len(), places.len(), "{path}: one node has two of {group}: {places:?}");
        let indices =
            block.indices.as_ref().map_or_else(|| vec![0; places.len()], |indices| indices.to_vec());
        let expected: Vec<u8> = match geometry(group) {
            None => vec![0; 3],
            Some(_) => (0..5).filter(|index| unit(group, length, *index).1 > 0).collect(),
        };
        assert_eq!(indices, expected, "{path}: {group} is whole again");
        let racks: BTreeSet<usize> = places.iter().map(|place| place % RACKS).collect();
        assert!(geometry(group).is_some() || racks.len() == RACKS, "{path}: all of {group} is on one rack");
        for (index, place) in indices.into_iter().zip(places) {
            let ((id, length), node) = (unit(group, length, index), &self.nodes[place]);
            assert!(node.has_good(id, stamp), "{path}: {id} of node {place} is damaged");
            assert_eq!(node.replicas.get(&id), Some(&(stamp, length)), "{path}: {id}");
        }
        let of_it = |node: &Node| {
            let all = node.replicas.keys().chain(node.unfinished.keys());
            all.filter(|id| BlockId(**id).group().0 == group).count()
        };
        let kept: usize = self.nodes.iter().map(of_it).sum();
        assert_eq!(kept, expected.len(), "{path}: what is needless of {group} is gone");
    }
}
