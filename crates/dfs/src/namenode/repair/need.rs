use std::collections::BTreeMap;

use yeoul_erasure::UnitSet;

use super::Urgency;
use crate::ids::DatanodeHandle;
use crate::namenode::blocks::{Block, Replica};

/// What the place of a replica is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The DataNode is there. A storage that has sent a whole report since it registered is fresh: what is known of it is so.
    Live {
        /// It has.
        is_fresh: bool,
    },
    /// The DataNode has been silent for a while and may come back: what it has is not missed yet, and cannot be read.
    Silent,
    /// The DataNode has been silent for too long, or its disk failed.
    Dead,
}

/// What a block lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Units of a group without a good replica, not even on a DataNode that may come back.
    pub missing: UnitSet,
    /// Copies that a block of whole replicas lacks, counted likewise.
    pub copies_missing: usize,
    /// Units that are on one DataNode with another one of their group.
    pub crowded: UnitSet,
    /// Two or more copies of a block, and all of them, are on one rack.
    pub is_on_one_rack: bool,
    /// How many more replicas or units may be lost before bytes are; none if it cannot be read as it is.
    pub tolerance: Option<usize>,
}

impl Need {
    /// What a block lacks that is to have so many copies, if it is one of whole replicas.
    pub fn of<'a>(
        block: &Block,
        copies: usize,
        standing: impl Fn(&Replica) -> Standing,
        rack: impl Fn(DatanodeHandle) -> &'a str,
    ) -> Self {
        let is_there = |replica: &Replica| standing(replica) != Standing::Dead;
        let needed = block.units_needed();
        if block.geometry().is_none() {
            let racks: Vec<&str> = block.good().filter(is_there).map(|copy| rack(copy.datanode)).collect();
            return Self {
                missing: UnitSet::EMPTY,
                copies_missing: copies.saturating_sub(racks.len()),
                crowded: UnitSet::EMPTY,
                is_on_one_rack: racks.len() > 1 && racks.iter().all(|rack| *rack == racks[0]),
                tolerance: racks.len().checked_sub(needed),
            };
        }
        let there = block.readable_units(is_there);
        let mut by_node: BTreeMap<DatanodeHandle, UnitSet> = BTreeMap::new();
        for replica in block.good().filter(is_there) {
            by_node.entry(replica.datanode).or_default().insert(replica.index.unit());
        }
        let mut crowded = UnitSet::EMPTY;
        for units in by_node.values() {
            // One stays; of the others those move that are nowhere else.
            crowded = crowded.union(units.iter().skip(1).collect());
        }
        let alone = by_node.values().filter(|units| units.len() == 1);
        let well_placed = alone.fold(UnitSet::EMPTY, |all, units| all.union(*units));
        Self {
            missing: block.units().without(there),
            copies_missing: 0,
            crowded: crowded.without(well_placed).intersection(block.units()),
            is_on_one_rack: false,
            tolerance: there.len().checked_sub(needed),
        }
    }

    /// How soon it is to be mended: none if nothing can be done.
    pub fn urgency(&self) -> Option<Urgency> {
        let tolerance = self.tolerance?;
        if !self.missing.is_empty() || self.copies_missing > 0 {
            return Some(Urgency::after_losses(tolerance));
        }
        (!self.crowded.is_empty() || self.is_on_one_rack).then_some(Urgency::MISPLACED)
    }
}
