//! The replicas of a DataNode.

use std::collections::BTreeMap;
use std::ops::Bound;

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
pub struct Replicas(BTreeMap<BlockId, Replica>);

impl Replicas {
    /// The replica of a block.
    pub fn get(&self, id: BlockId) -> Option<&Replica> {
        self.0.get(&id)
    }

    /// Those behind a block, or all of them, in the order of their blocks.
    pub fn behind(&self, block: Option<BlockId>) -> impl Iterator<Item = (&BlockId, &Replica)> {
        let from = block.map_or(Bound::Unbounded, Bound::Excluded);
        self.0.range((from, Bound::Unbounded))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes a replica that was found on disk, or that a writer begins. False if the block has one already.
    pub fn insert(&mut self, id: BlockId, replica: Replica) -> bool {
        match self.0.entry(id) {
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

    /// Removes a replica that is no newer than `stamp`.
    pub fn remove(&mut self, id: BlockId, stamp: GenerationStamp) -> Option<Replica> {
        self.0.get(&id).filter(|replica| replica.stamp <= stamp)?;
        self.0.remove(&id)
    }

    fn being_written(&mut self, id: BlockId, stamp: GenerationStamp) -> Option<&mut Replica> {
        let replica = self.0.get_mut(&id)?;
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
}
