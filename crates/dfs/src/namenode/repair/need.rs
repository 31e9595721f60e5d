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
    /// The DataNode is to leave: what it has can be read, and is to be on others.
    Leaving {
        /// It has been heard of lately.
        is_live: bool,
    },
    /// The DataNode may be away for a while: what it has is not missed, as long as enough is on others.
    Paused {
        /// It has been heard of lately.
        is_live: bool,
    },
    /// The DataNode has been silent for too long, or its disk failed.
    Dead,
}

impl Standing {
    /// True for what can be read now.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Live { .. } | Self::Leaving { is_live: true } | Self::Paused { is_live: true })
    }

    /// True for what can be read now or soon.
    pub fn is_there(self) -> bool {
        self.is_live() || matches!(self, Self::Silent | Self::Leaving { .. })
    }

    /// True for what counts as a copy or a unit that a block has for good.
    pub fn stays(self) -> bool {
        matches!(self, Self::Live { .. } | Self::Silent)
    }
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
    /// What a block lacks that is to have so many copies, if it is one of whole replicas, and at least `away_min` of them where
    /// no DataNode may be away.
    pub fn of<'a>(
        block: &Block,
        (copies, away_min): (usize, usize),
        standing: impl Fn(&Replica) -> Standing,
        rack: impl Fn(DatanodeHandle) -> &'a str,
    ) -> Self {
        let is_there = |replica: &Replica| standing(replica).is_there();
        let stays = |replica: &Replica| standing(replica).stays();
        let is_paused = |replica: &Replica| matches!(standing(replica), Standing::Paused { .. });
        let needed = block.units_needed();
        if block.geometry().is_none() {
            let paused = block.good().filter(is_paused).count();
            let wanted = copies.saturating_sub(paused).max(away_min.min(copies));
            let kept = block.good().filter(|copy| stays(copy) || is_paused(copy));
            let racks: Vec<&str> = kept.map(|copy| rack(copy.datanode)).collect();
            return Self {
                missing: UnitSet::EMPTY,
                copies_missing: wanted.saturating_sub(racks.len() - paused),
                crowded: UnitSet::EMPTY,
                is_on_one_rack: racks.len() > 1 && racks.iter().all(|rack| *rack == racks[0]),
                tolerance: block.good().filter(is_there).count().checked_sub(needed),
            };
        }
        let there = block.readable_units(is_there);
        let mut by_node: BTreeMap<DatanodeHandle, UnitSet> = BTreeMap::new();
        for replica in block.good().filter(stays) {
            by_node.entry(replica.datanode).or_default().insert(replica.index.unit());
        }
        let mut crowded = UnitSet::EMPTY;
        for units in by_node.values() {
            // One stays; of the others those move that are nowhere else.
            crowded = crowded.union(units.iter().skip(1).collect());
        }
        let alone = by_node.values().filter(|units| units.len() == 1);
        let well_placed = alone.fold(UnitSet::EMPTY, |all, units| all.union(*units));
        let stay = block.readable_units(stays);
        let paused = block.readable_units(is_paused).without(stay);
        let lost = block.units().without(stay).without(paused);
        // Enough are to stay where no DataNode may be away.
        let too_few = needed.saturating_sub(stay.len() + lost.len());
        Self {
            missing: lost.union(paused.iter().take(too_few).collect()),
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
