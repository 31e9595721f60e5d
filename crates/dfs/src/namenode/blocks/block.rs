use yeoul_erasure::{StripeGeometry, UnitIndex, UnitSet};

use super::places::{GoodPlace, Places, Target, Unsettled};
use super::{Coding, Lack, Replica, ReplicaState};
use crate::ids::{BlockId, GenerationStamp, InodeId};
use crate::namenode::table::Row;

/// A block of a file, or a block group of a striped one.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its number.
    pub id: BlockId,
    /// The file that it belongs to.
    pub file: InodeId,
    /// Coding of a group, or of a block of whole replicas.
    pub(super) coding: Coding,
    /// The stamp that its replicas must have.
    pub stamp: GenerationStamp,
    /// Its bytes: final once it is committed; before that, those that the writer has made visible.
    pub length: u64,
    /// The writer has said what its last stamp and length are.
    pub is_committed: bool,
    /// What was promised of it before that.
    pub promise: Promise,
    /// Where it is, as reported. Never in the journal.
    pub(super) places: Places,
    /// It has not been looked at since it changed. Never in the journal.
    pub is_changed: bool,
    /// It has not been counted again since it changed. Never in the journal.
    pub is_uncounted: bool,
    /// What it lacks, as counted last. Never in the journal.
    pub lack: Lack,
}

/// What was promised of a block that is not committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Promise {
    /// Nothing.
    #[default]
    None,
    /// What its writer has written so far is kept.
    Beginning,
    /// It has exactly its length, whatever its replicas have: it was longer.
    Exactly,
}

/// What a replica is worth to its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It can be read.
    Good,
    /// It is of an earlier stamp: it missed something.
    Stale,
    /// It has the right stamp and is not what was written.
    Corrupt,
    /// It is still being written, or its writer was lost.
    Unfinished,
    /// It is about to be deleted.
    Leaving,
}

impl Block {
    /// A block of no bytes that is to be written.
    pub fn new(id: BlockId, file: InodeId, geometry: Option<StripeGeometry>, stamp: GenerationStamp) -> Self {
        Self {
            id,
            file,
            coding: Coding::of(geometry),
            stamp,
            length: 0,
            is_committed: false,
            promise: Promise::None,
            places: Places::default(),
            is_changed: false,
            is_uncounted: false,
            lack: Lack::default(),
        }
    }

    /// True if its writer was told that what it has written so far is kept.
    pub fn is_flushed(&self) -> bool {
        self.promise == Promise::Beginning
    }

    /// True if it was longer, and its replicas are still to be cut.
    pub fn is_truncated(&self) -> bool {
        self.promise == Promise::Exactly
    }

    /// Places of the bytes of a group; none for a block of whole replicas.
    pub fn geometry(&self) -> Option<StripeGeometry> {
        self.coding.geometry()
    }

    /// True if nobody will find another length of it than it has now.
    pub fn is_length_final(&self) -> bool {
        self.is_committed || self.is_truncated()
    }

    /// The units that a group has: those that hold no byte are never written. A block of whole replicas has unit 0 only.
    pub fn units(&self) -> UnitSet {
        let Some(geometry) = self.geometry() else { return UnitSet::first(1) };
        let all = UnitSet::first(geometry.schema().units());
        if !self.is_committed {
            return all;
        }
        let data = UnitSet::first(geometry.schema().data_units());
        let parity = if self.length > 0 { all.without(data) } else { UnitSet::EMPTY };
        UnitSet::first(geometry.data_units_used(self.length)).union(parity)
    }

    /// How many of its units give all of its bytes.
    pub fn units_needed(&self) -> usize {
        match self.geometry() {
            None => 1,
            Some(geometry) if self.is_committed => geometry.data_units_used(self.length),
            Some(geometry) => geometry.schema().data_units(),
        }
    }

    /// The length of the replica of a unit, if the block is as long as it is now.
    pub fn unit_length(&self, unit: UnitIndex) -> u64 {
        self.geometry().map_or(self.length, |geometry| geometry.unit_len(self.length, unit))
    }

    /// The units that can be read from the replicas that `is_there` admits.
    pub fn readable_units(&self, is_there: impl Fn(&Replica) -> bool) -> UnitSet {
        let there = self.good().filter(&is_there);
        there.map(|replica| replica.index.unit()).collect::<UnitSet>().intersection(self.units())
    }

    /// True if all of its bytes can be had from the replicas that `is_there` admits.
    pub fn is_readable(&self, is_there: impl Fn(&Replica) -> bool) -> bool {
        self.readable_units(is_there).len() >= self.units_needed()
    }

    /// What a replica is worth.
    pub fn fit(&self, replica: &Replica) -> Fit {
        match () {
            () if !self.has_unit(replica.index.unit()) => Fit::Corrupt,
            () if replica.stamp < self.stamp => Fit::Stale,
            () if replica.is_corrupt => Fit::Corrupt,
            () if replica.is_leaving => Fit::Leaving,
            () if replica.state != ReplicaState::Finalized => Fit::Unfinished,
            () if !self.is_committed => Fit::Good,
            () if replica.length != self.unit_length(replica.index.unit()) => Fit::Corrupt,
            () => Fit::Good,
        }
    }

    /// True for a unit that its policy knows, be it empty or not.
    pub fn has_unit(&self, unit: UnitIndex) -> bool {
        usize::from(unit.0) < self.geometry().map_or(1, |geometry| geometry.schema().units())
    }

    /// Replicas, as reported.
    pub fn replicas(&self) -> impl Iterator<Item = Replica> {
        let good = self.places.good().iter().map(|place| self.good_replica(*place));
        let unsettled = self.places.unsettled().into_iter().flat_map(|unsettled| unsettled.replicas.iter());
        good.chain(unsettled.copied())
    }

    /// Number of known replicas.
    pub fn replica_count(&self) -> usize {
        self.places.good().len() + self.places.unsettled().map_or(0, |unsettled| unsettled.replicas.len())
    }

    /// The replicas that can be read.
    pub fn good(&self) -> impl Iterator<Item = Replica> {
        let is_settled = self.places.unsettled().is_none();
        self.replicas().filter(move |replica| is_settled || self.fit(replica) == Fit::Good)
    }

    /// Where the writer writes to: of a group one place for each unit that it has not lost.
    pub fn targets(&self) -> &[Target] {
        self.places.unsettled().map_or(&[], |unsettled| &unsettled.targets)
    }

    /// True if it is known of all places that may have a replica of the last pipeline.
    pub fn are_targets_all(&self) -> bool {
        self.places.unsettled().is_some_and(|unsettled| unsettled.are_targets_all)
    }

    /// The same block with its replicas and targets spread out, to be changed.
    pub fn unsettled(&mut self) -> &mut Unsettled {
        if self.places.unsettled().is_none() {
            let (replicas, targets) = (self.replicas().collect(), Vec::new());
            let are_targets_all = false;
            self.places = Places::Unsettled(Box::new(Unsettled { replicas, targets, are_targets_all }));
        }
        match &mut self.places {
            Places::Unsettled(unsettled) => unsettled,
            Places::Few { .. } | Places::Many(_) => unreachable!("it was just spread out"),
        }
    }

    /// Packs the replicas of a block that is at rest: it is committed, and all of them are good.
    pub fn settle(&mut self) {
        let Some(unsettled) = self.places.unsettled() else { return };
        if self.is_committed && unsettled.targets.is_empty() {
            let place = |replica| (self.fit(replica) == Fit::Good).then(|| GoodPlace::of(replica)).flatten();
            let good: Option<Vec<GoodPlace>> = unsettled.replicas.iter().map(place).collect();
            if let Some(good) = good {
                self.places = Places::of(good);
            }
        } else if unsettled.targets.is_empty() && unsettled.replicas.is_empty() {
            self.places = Places::default();
        }
    }

    /// The same block as if its writer had said that this is its last stamp and length.
    pub fn committed_as(&self, stamp: GenerationStamp, length: u64) -> Self {
        let mut block = self.clone();
        // What its replicas are does not change with what they are to be.
        block.unsettled();
        (block.stamp, block.length, block.is_committed) = (stamp, length, true);
        block
    }

    fn good_replica(&self, place: GoodPlace) -> Replica {
        place.replica(self.stamp, self.unit_length(place.index().unit()))
    }
}

impl Row for Block {
    type Key = BlockId;

    fn key(&self) -> BlockId {
        self.id
    }

    fn page_of(id: BlockId) -> u64 {
        let numbers_per_page = if id.is_striped() { 64 * BlockId::INDEXES_PER_GROUP } else { 64 };
        id.0.div_euclid(numbers_per_page).cast_unsigned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{BlockIndex, DatanodeHandle, StorageHandle};
    use crate::policy::geometry_of;

    #[test]
    fn a_replica_is_good_with_the_stamp_the_length_and_the_end_that_were_committed() {
        let replica = Replica {
            index: BlockIndex(0),
            datanode: DatanodeHandle(0),
            storage: StorageHandle(0),
            stamp: GenerationStamp(1002),
            length: 700,
            state: ReplicaState::Finalized,
            is_corrupt: false,
            is_leaving: false,
        };
        let block = |stamp, length, is_committed| Block {
            length,
            is_committed,
            ..Block::new(BlockId::FIRST, InodeId(20_000), None, GenerationStamp(stamp))
        };
        assert_eq!(block(1002, 700, true).fit(&replica), Fit::Good);
        assert_eq!(block(1002, 701, true).fit(&replica), Fit::Corrupt);
        assert_eq!(
            block(1002, 0, false).fit(&replica),
            Fit::Good,
            "the writer has yet to say how long it is"
        );
        assert_eq!(block(1003, 700, true).fit(&replica), Fit::Stale);
        let unfinished = Replica { state: ReplicaState::WaitingForRecovery, ..replica };
        assert_eq!(block(1002, 700, true).fit(&unfinished), Fit::Unfinished);
        assert_eq!(block(1002, 700, true).fit(&Replica { is_corrupt: true, ..replica }), Fit::Corrupt);
    }
    #[test]
    fn a_group_is_readable_from_as_many_units_as_hold_data_and_no_empty_one_is_missed() {
        const MIB: u64 = 1 << 20;
        let unit = |index, length| Replica {
            index: BlockIndex(index),
            datanode: DatanodeHandle(index.into()),
            storage: StorageHandle(index.into()),
            stamp: GenerationStamp(1002),
            length,
            state: ReplicaState::Finalized,
            is_corrupt: false,
            is_leaving: false,
        };
        let group = |length, is_committed| Block {
            length,
            is_committed,
            ..Block::new(
                BlockId::FIRST_GROUP,
                InodeId(20_000),
                geometry_of("RS-6-3-1024k"),
                GenerationStamp(1002),
            )
        };
        let units = |indexes: &[u8]| indexes.iter().map(|index| UnitIndex(*index)).collect::<UnitSet>();
        // One cell and a byte: units 0 and 1, and the parity units, as long as the longer one.
        let mut block = group(MIB + 1, true);
        assert_eq!((block.units(), block.units_needed()), (units(&[0, 1, 6, 7, 8]), 2));
        assert_eq!((group(0, true).units(), group(0, true).units_needed()), (UnitSet::EMPTY, 0));
        assert_eq!((group(0, false).units().len(), group(0, false).units_needed()), (9, 6));
        assert_eq!(block.fit(&unit(1, 1)), Fit::Good);
        assert_eq!(block.fit(&unit(1, MIB)), Fit::Corrupt);
        assert_eq!(block.fit(&unit(8, MIB)), Fit::Good);
        assert_eq!(block.fit(&unit(9, MIB)), Fit::Corrupt, "the policy has nine units");
        block.unsettled().replicas = vec![unit(8, MIB), unit(8, MIB), unit(5, 0), unit(1, 0)];
        assert!(!block.is_readable(|_| true), "one unit twice, one without bytes, and a damaged one");
        block.unsettled().replicas.push(unit(1, 1));
        assert!(block.is_readable(|_| true) && !block.is_readable(|replica| replica.index.0 != 1));
    }

    #[test]
    fn a_block_at_rest_is_packed_and_spreads_out_to_what_it_was() {
        assert_eq!(size_of::<Block>(), 64);
        const MIB: u64 = 1 << 20;
        let (stamp, length) = (GenerationStamp(1002), 3 * MIB + 5);
        for (id, policy, count) in [
            (BlockId::FIRST, None, 3),
            (BlockId::FIRST, None, 4),
            (BlockId::FIRST_GROUP, geometry_of("RS-6-3-1024k"), 9),
        ] {
            let block = Block::new(id, InodeId(20_000), policy, stamp);
            let mut block = Block { length, is_committed: true, ..block };
            let used =
                (0..count).filter(|index| !id.is_striped() || block.units().contains(UnitIndex(*index)));
            let replicas: Vec<Replica> = used
                .map(|at| {
                    let index = BlockIndex(if id.is_striped() { at } else { 0 });
                    Replica {
                        index,
                        datanode: DatanodeHandle(at.into()),
                        storage: StorageHandle(u32::from(at) << 20),
                        stamp,
                        length: block.unit_length(index.unit()),
                        state: ReplicaState::Finalized,
                        is_corrupt: false,
                        is_leaving: false,
                    }
                })
                .collect();
            block.unsettled().replicas.clone_from(&replicas);
            block.settle();
            assert!(block.places.unsettled().is_none());
            assert_eq!((block.replica_count(), block.good().count()), (replicas.len(), replicas.len()));
            assert!(block.replicas().eq(replicas.iter().copied()));
            // With another stamp they are what they were, and so worth less.
            let later = block.committed_as(GenerationStamp(1003), length);
            assert!(later.replicas().eq(replicas.iter().copied()) && later.good().next().is_none());
            for (at, change) in [(0, true), (1, false)] {
                let mut block = block.clone();
                let changed = &mut block.unsettled().replicas[at];
                (changed.is_corrupt, changed.is_leaving) = (change, !change);
                let replicas = block.unsettled().replicas.clone();
                block.settle();
                assert!(block.places.unsettled().is_some() && block.replicas().eq(replicas));
            }
            let target = Target { index: BlockIndex(0), storage: StorageHandle(7) };
            block.unsettled().targets = vec![target];
            block.settle();
            assert_eq!(block.targets(), [target]);
        }
    }
}
