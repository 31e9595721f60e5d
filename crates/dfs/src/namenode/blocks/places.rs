use super::{Replica, ReplicaState};
use crate::ids::{BlockIndex, DatanodeHandle, GenerationStamp, StorageHandle};

/// Replicas that fit into a block's own row: most blocks have three copies.
const FEW: usize = 3;
/// Bits of a storage's handle beside the index of a group's unit.
const STORAGE_BITS: u32 = 28;

/// Places of a block's replicas. Of a block at rest, all of whose replicas are what they are to be, only the places are
/// kept, because the block says the rest.
#[derive(Clone, Debug)]
pub(super) enum Places {
    /// Good replicas, up to [`FEW`].
    Few {
        /// Number of them.
        count: u8,
        /// That many, and then anything.
        places: [GoodPlace; FEW],
    },
    /// More good replicas.
    Many(Box<[GoodPlace]>),
    /// At least one replica is not good, or the block is not at rest.
    Unsettled(Box<Unsettled>),
}

/// Knowledge of a block that is not at rest.
#[derive(Clone, Debug, Default)]
pub struct Unsettled {
    /// Replicas, as reported.
    pub replicas: Vec<Replica>,
    /// Where the writer writes to: of a group one place for each unit that it has not lost.
    pub targets: Vec<Target>,
    /// No other place can have a replica of the last pipeline: not so once the NameNode has started again.
    pub are_targets_all: bool,
}

/// A place that a writer writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The unit; 0 for a replica.
    pub index: BlockIndex,
    /// The storage.
    pub storage: StorageHandle,
}

/// The place of a good replica: two bytes of the storage's handle, two with its other twelve bits above the four of the index,
/// and two of the DataNode's handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GoodPlace([u16; 3]);

impl GoodPlace {
    /// The place of a replica, if its handles are not too large.
    pub fn of(replica: &Replica) -> Option<Self> {
        let Replica { index: BlockIndex(index), storage: StorageHandle(storage), .. } = *replica;
        let datanode = u16::try_from(replica.datanode.0).ok()?;
        let fits = storage < 1 << STORAGE_BITS && index < 16;
        let high = (storage >> 16) as u16;
        fits.then(|| Self([storage as u16, high << 4 | u16::from(index), datanode]))
    }

    /// The index.
    pub fn index(self) -> BlockIndex {
        BlockIndex((self.0[1] & 15) as u8)
    }

    /// The replica at this place, with what the block says of it.
    pub fn replica(self, stamp: GenerationStamp, length: u64) -> Replica {
        let [low, high, datanode] = self.0.map(u32::from);
        Replica {
            index: self.index(),
            datanode: DatanodeHandle(datanode),
            storage: StorageHandle((high >> 4) << 16 | low),
            stamp,
            length,
            state: ReplicaState::Finalized,
            is_corrupt: false,
            is_leaving: false,
        }
    }
}

impl Default for Places {
    fn default() -> Self {
        Self::Few { count: 0, places: Default::default() }
    }
}

impl Places {
    /// These places and no other ones.
    pub fn of(good: Vec<GoodPlace>) -> Self {
        if good.len() > FEW {
            return Self::Many(good.into_boxed_slice());
        }
        let mut places = [GoodPlace::default(); FEW];
        places[..good.len()].copy_from_slice(&good);
        Self::Few { count: good.len() as u8, places }
    }

    /// The places of good replicas, if the block is at rest.
    pub fn good(&self) -> &[GoodPlace] {
        match self {
            Self::Few { count, places } => &places[..usize::from(*count)],
            Self::Many(places) => places,
            Self::Unsettled(_) => &[],
        }
    }

    /// Knowledge of a block that is not at rest.
    pub fn unsettled(&self) -> Option<&Unsettled> {
        match self {
            Self::Unsettled(unsettled) => Some(unsettled),
            Self::Few { .. } | Self::Many(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_comes_back_and_one_with_large_handles_is_none() {
        for (storage, datanode, index) in [(0, 0, 0), (0x0123_4567, 0xabcd, 15), (0x0fff_ffff, 0xffff, 9)] {
            let place = GoodPlace::default().replica(GenerationStamp(7), 9);
            let (storage, datanode) = (StorageHandle(storage), DatanodeHandle(datanode));
            let replica = Replica { storage, datanode, index: BlockIndex(index), ..place };
            assert_eq!(GoodPlace::of(&replica).unwrap().replica(GenerationStamp(7), 9), replica);
            for large in [
                Replica { storage: StorageHandle(1 << 28), ..replica },
                Replica { datanode: DatanodeHandle(1 << 16), ..replica },
                Replica { index: BlockIndex(16), ..replica },
            ] {
                assert_eq!(GoodPlace::of(&large), None);
            }
        }
    }
}
