//! The replicas of a DataNode.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::layout::Folder;
use crate::ids::{BlockId, GenerationStamp};
use crate::wire::checksum::CHECKSUM_BYTES;
use crate::wire::proto::cluster::ReplicaState;

/// Number of a volume among those of its DataNode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeIndex(pub usize);

/// A replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    /// The volume that its files are on.
    pub volume: VolumeIndex,
    /// Its stamp.
    pub stamp: GenerationStamp,
    /// Whether it is whole.
    pub state: ReplicaState,
    /// What of it can be read.
    pub visible: Visible,
    /// Another DataNode makes it: nobody knows of it before it is whole.
    pub is_copy: bool,
    /// The DataNode has found it when it started, and no writer has gone on with it since.
    pub is_from_disk: bool,
}

impl Replica {
    /// The folder that its files are in.
    pub fn folder(&self) -> Folder {
        match self.state {
            ReplicaState::Finalized => Folder::Finalized,
            _ if self.is_copy => Folder::Temporary,
            _ => Folder::BeingWritten,
        }
    }
}

/// The bytes of a replica that can be read. While it grows, its last chunk may have more bytes on disk, and another checksum
/// there: length and checksum belong together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visible {
    /// Bytes.
    pub length: u64,
    /// Checksum of the last chunk, if the file's own may be that of more bytes.
    pub tail: Option<[u8; CHECKSUM_BYTES]>,
}

/// All replicas of a DataNode, by block.
#[derive(Debug, Default)]
pub struct Replicas {
    by_block: BTreeMap<BlockId, Replica>,
    /// Whole ones that are not what was written.
    damaged: BTreeSet<BlockId>,
    /// Blocks whose writers are gone, and the stamps that they are to get: no writer goes on with an older one.
    held: BTreeMap<BlockId, GenerationStamp>,
}

impl Replicas {
    /// The replica of a block.
    pub fn get(&self, id: BlockId) -> Option<&Replica> {
        self.by_block.get(&id)
    }

    /// Those behind a block, or all of them, in the order of their blocks.
    pub fn behind(&self, block: Option<BlockId>) -> impl Iterator<Item = (&BlockId, &Replica)> {
        let from = block.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_block.range((from, Bound::Unbounded))
    }

    /// Number of all of them.
    pub fn count(&self) -> usize {
        self.by_block.len()
    }

    /// Takes a replica that was found on disk, or that a writer begins. False if the block has one already.
    pub fn insert(&mut self, id: BlockId, replica: Replica) -> bool {
        match self.by_block.entry(id) {
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(replica);
                true
            }
            std::collections::btree_map::Entry::Occupied(_) => false,
        }
    }

    /// Makes more bytes of a replica that is being written readable.
    pub fn show(&mut self, id: BlockId, stamp: GenerationStamp, visible: Visible) {
        if let Some(replica) = self.being_written(id, stamp)
            && visible.length >= replica.visible.length
        {
            replica.visible = visible;
        }
    }

    /// Ends a replica that is being written: it is whole, or its writer is gone. False if it has been deleted meanwhile.
    pub fn end(&mut self, id: BlockId, stamp: GenerationStamp, state: ReplicaState, length: u64) -> bool {
        let Some(replica) = self.being_written(id, stamp) else { return false };
        (replica.state, replica.visible) = (state, Visible { length, tail: None });
        true
    }

    /// Gives an unfinished replica to its writer again.
    ///
    /// # Panics
    /// If it is not there, or not unfinished.
    pub fn resume(&mut self, id: BlockId) {
        let replica = self.by_block.get_mut(&id).expect("what is resumed is there");
        assert_eq!(replica.state, ReplicaState::WaitingForRecovery, "it has no writer");
        (replica.state, replica.is_from_disk) = (ReplicaState::BeingWritten, false);
    }

    /// Keeps writers from a block that have an older stamp.
    pub fn hold(&mut self, id: BlockId, stamp: GenerationStamp) {
        let held = self.held.entry(id).or_insert(stamp);
        *held = stamp.max(*held);
    }

    /// Lets all writers go on with a block again.
    pub fn release(&mut self, id: BlockId) {
        self.held.remove(&id);
    }

    /// True for a block whose writer is kept from it.
    pub fn is_held(&self, id: BlockId, stamp: GenerationStamp) -> bool {
        self.held.get(&id).is_some_and(|held| stamp < *held)
    }

    /// Makes a whole replica one without a writer.
    ///
    /// # Panics
    /// If it is not there, or not whole.
    pub fn reopen(&mut self, id: BlockId) {
        let replica = self.by_block.get_mut(&id).expect("what is opened again is there");
        assert_eq!(replica.state, ReplicaState::Finalized, "it is whole");
        replica.state = ReplicaState::WaitingForRecovery;
    }

    /// Cuts off the end of a replica that was found on disk.
    ///
    /// # Panics
    /// If it is not there.
    pub fn cut(&mut self, id: BlockId, length: u64) {
        let replica = self.by_block.get_mut(&id).expect("what is cut is there");
        replica.visible = Visible { length, tail: None };
    }

    /// Gives a replica a later stamp, and says what of it can be read.
    ///
    /// # Panics
    /// If it is not there, or the stamp is not later.
    pub fn restamp(&mut self, id: BlockId, stamp: GenerationStamp, visible: Visible) {
        let replica = self.by_block.get_mut(&id).expect("what gets a stamp is there");
        assert!(replica.stamp < stamp, "stamps grow");
        (replica.stamp, replica.visible) = (stamp, visible);
    }

    /// Makes a copy that has been made one that waits for its writer.
    ///
    /// # Panics
    /// If it is not there.
    pub fn leave_to_writer(&mut self, id: BlockId, length: u64) {
        let replica = self.by_block.get_mut(&id).expect("a copy that is made is there");
        (replica.state, replica.is_copy) = (ReplicaState::WaitingForRecovery, false);
        replica.visible = Visible { length, tail: None };
    }

    /// Removes a replica that is no newer than `stamp`.
    pub fn remove(&mut self, id: BlockId, stamp: GenerationStamp) -> Option<Replica> {
        self.by_block.get(&id).filter(|replica| replica.stamp <= stamp)?;
        self.damaged.remove(&id);
        self.by_block.remove(&id)
    }

    /// Notes that a whole replica is not what was written. False if it is gone, not whole, or known to be so.
    pub fn mark_damaged(&mut self, id: BlockId, stamp: GenerationStamp) -> bool {
        let is_meant =
            |replica: &&Replica| replica.stamp == stamp && replica.state == ReplicaState::Finalized;
        self.by_block.get(&id).filter(is_meant).is_some() && self.damaged.insert(id)
    }

    /// True for a replica that is known to be damaged.
    pub fn is_damaged(&self, id: BlockId) -> bool {
        self.damaged.contains(&id)
    }

    /// The replicas that are known to be damaged.
    pub fn damaged(&self) -> impl Iterator<Item = (BlockId, &Replica)> {
        self.damaged.iter().map(|id| (*id, &self.by_block[id]))
    }

    /// The first whole replica of a volume behind a block, or of all, that is not known to be damaged.
    pub fn next_whole(
        &self,
        volume: VolumeIndex,
        after: Option<BlockId>,
    ) -> Option<(BlockId, GenerationStamp)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut behind = self.by_block.range((from, Bound::Unbounded));
        let found = behind.find(|(id, replica)| {
            replica.volume == volume
                && replica.state == ReplicaState::Finalized
                && !self.damaged.contains(*id)
        });
        found.map(|(id, replica)| (*id, replica.stamp))
    }

    fn being_written(&mut self, id: BlockId, stamp: GenerationStamp) -> Option<&mut Replica> {
        let replica = self.by_block.get_mut(&id)?;
        (replica.stamp == stamp && replica.state == ReplicaState::BeingWritten).then_some(replica)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_grows_ends_once_and_goes_unless_it_is_newer() {
        let (id, stamp) = (BlockId(7), GenerationStamp(1001));
        let new = Replica {
            volume: VolumeIndex(0),
            stamp,
            state: ReplicaState::BeingWritten,
            visible: Visible::default(),
            is_copy: false,
            is_from_disk: false,
        };
        let mut replicas = Replicas::default();
        assert!(replicas.insert(id, new));
        assert!(!replicas.insert(id, new), "a block has one replica here");
        let visible = |length| Visible { length, tail: Some([1, 2, 3, 4]) };
        replicas.show(id, stamp, visible(700));
        replicas.show(id, stamp, visible(512));
        assert_eq!(replicas.get(id).unwrap().visible, visible(700), "it never shrinks");
        assert!(replicas.end(id, stamp, ReplicaState::Finalized, 900));
        replicas.show(id, stamp, visible(1000));
        assert!(!replicas.end(id, stamp, ReplicaState::WaitingForRecovery, 1));
        assert_eq!(replicas.get(id).unwrap().visible, Visible { length: 900, tail: None });
        assert_eq!(replicas.remove(id, GenerationStamp(1000)), None);
        assert!(replicas.remove(id, stamp).is_some() && replicas.get(id).is_none());
    }

    #[test]
    fn what_is_damaged_is_noted_once_while_it_is_there_and_passed_over_by_the_check() {
        let (stamp, visible) = (GenerationStamp(1001), Visible::default());
        let state = ReplicaState::Finalized;
        let mut replicas = Replicas::default();
        for (id, volume, state) in
            [(3, 0, state), (5, 1, state), (7, 0, ReplicaState::BeingWritten), (9, 0, state)]
        {
            let replica = Replica {
                volume: VolumeIndex(volume),
                stamp,
                state,
                visible,
                is_copy: false,
                is_from_disk: false,
            };
            assert!(replicas.insert(BlockId(id), replica));
        }
        let next = |replicas: &Replicas, after: Option<i64>| {
            replicas.next_whole(VolumeIndex(0), after.map(BlockId)).map(|(id, _)| id.0)
        };
        assert_eq!(
            [next(&replicas, None), next(&replicas, Some(3)), next(&replicas, Some(9))],
            [Some(3), Some(9), None]
        );
        assert!(!replicas.mark_damaged(BlockId(3), GenerationStamp(1000)), "it is another one");
        assert!(!replicas.mark_damaged(BlockId(7), stamp), "it is not whole");
        assert!(replicas.mark_damaged(BlockId(3), stamp) && !replicas.mark_damaged(BlockId(3), stamp));
        assert_eq!(next(&replicas, None), Some(9));
        assert_eq!(replicas.damaged().map(|(id, _)| id.0).collect::<Vec<_>>(), [3]);
        replicas.remove(BlockId(3), stamp).unwrap();
        assert_eq!(replicas.damaged().count(), 0, "it is gone");
    }

    #[test]
    fn a_copy_is_among_the_temporary_files_until_it_is_whole() {
        let (stamp, visible) = (GenerationStamp(1001), Visible::default());
        let state = ReplicaState::BeingWritten;
        let copy =
            Replica { volume: VolumeIndex(0), stamp, state, visible, is_copy: true, is_from_disk: false };
        let folder = |state, is_copy| Replica { state, is_copy, ..copy }.folder();
        assert_eq!(folder(state, true), Folder::Temporary);
        assert_eq!(folder(state, false), Folder::BeingWritten);
        assert_eq!(folder(ReplicaState::WaitingForRecovery, true), Folder::Temporary);
        assert_eq!(folder(ReplicaState::Finalized, true), Folder::Finalized);
    }
}
