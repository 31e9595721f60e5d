//! The identifiers of files, blocks and DataNodes.

use std::fmt;

use yeoul_erasure::UnitIndex;

/// Number of an inode, never used again. HDFS's root is 16385, and what is made later counts on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InodeId(pub u64);

impl InodeId {
    /// The root directory's, as in HDFS.
    pub const ROOT: Self = Self(16385);
}

/// Number of a block or, if it is negative, of a block group, whose low four bits are zero: the internal block with index i
/// has the number of the group plus i.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub i64);

impl BlockId {
    /// The first one of a replicated block, as in HDFS: 2^30 + 1.
    pub const FIRST: Self = Self((1 << 30) + 1);
    /// The first one of a block group, as in HDFS.
    pub const FIRST_GROUP: Self = Self(i64::MIN + 16);
    /// The internal blocks that a group has at most: the step from one group's number to the next.
    pub const INDEXES_PER_GROUP: i64 = 16;

    /// As protobuf messages carry it.
    pub fn to_wire(self) -> u64 {
        self.0.cast_unsigned()
    }

    /// From a protobuf message.
    pub fn from_wire(id: u64) -> Self {
        Self(id.cast_signed())
    }

    /// True for a block group and for its internal blocks.
    pub fn is_striped(self) -> bool {
        self.0 < 0
    }

    /// The block that a file's layout names: the group of an internal block, else the block itself.
    pub fn group(self) -> Self {
        if self.is_striped() { Self(self.0 & !(Self::INDEXES_PER_GROUP - 1)) } else { self }
    }

    /// An internal block of a group; the block itself for index 0.
    pub fn internal(self, index: BlockIndex) -> Self {
        Self(self.0 + i64::from(index.0))
    }

    /// The index of an internal block in its group; 0 for a replicated block.
    pub fn index(self) -> BlockIndex {
        BlockIndex(if self.is_striped() { (self.0 & (Self::INDEXES_PER_GROUP - 1)) as u8 } else { 0 })
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blk_{}", self.0)
    }
}

/// Place of an internal block in its block group: the data units first, then the parity units. 0 for a replica of a
/// replicated block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BlockIndex(pub u8);

impl BlockIndex {
    /// As the codes name it.
    pub fn unit(self) -> UnitIndex {
        UnitIndex(self.0)
    }
}

/// Version of a block's replicas: it grows with each recovery, so that a replica that missed one is known to be old.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GenerationStamp(pub u64);

impl GenerationStamp {
    /// The last one that HDFS reserves: the first block has the one after it.
    pub const LAST_RESERVED: Self = Self(1000);
}

/// Handle of a DataNode in the NameNode's table, for as long as the NameNode runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatanodeHandle(pub u32);

/// Handle of a storage (a directory of a DataNode) in the NameNode's table, for as long as the NameNode runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorageHandle(pub u32);

/// The client instance and the call of it: what makes a repeated call known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallerId {
    /// 16 random bytes that a client has for its lifetime.
    pub client: [u8; 16],
    /// Number of the call within the client.
    pub call: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_internal_block_knows_its_group_and_its_index() {
        let group = BlockId::FIRST_GROUP;
        assert_eq!(group.to_wire(), 9_223_372_036_854_775_824, "as the recorded traffic has it");
        let internal = BlockId::from_wire(9_223_372_036_854_775_826);
        assert_eq!((internal.group(), internal.index()), (group, BlockIndex(2)));
        assert_eq!(BlockId::FIRST.group(), BlockId::FIRST);
        assert_eq!(BlockId(BlockId::FIRST.0 + 5).index(), BlockIndex(0));
    }
}
