use std::collections::BTreeMap;

use crate::ids::{BlockId, BlockIndex, DatanodeHandle};

/// Moves whose former places are remembered. Of more of them the usual choice goes.
const HINTS_MAX: usize = 100_000;

/// Whose replicas are to go, as others have taken their places: a balancer has moved them.
#[derive(Debug, Default)]
pub struct Hints {
    by_block: BTreeMap<BlockId, BTreeMap<BlockIndex, DatanodeHandle>>,
}

impl Hints {
    /// Remembers that a replica of a block was moved away from a DataNode.
    pub fn add(&mut self, block: BlockId, index: BlockIndex, from: DatanodeHandle) {
        if self.by_block.len() < HINTS_MAX || self.by_block.contains_key(&block) {
            self.by_block.entry(block).or_default().insert(index, from);
        }
    }

    /// True if the replica of a DataNode is the one that is to go.
    pub fn has(&self, block: BlockId, index: BlockIndex, datanode: DatanodeHandle) -> bool {
        self.by_block.get(&block).is_some_and(|hints| hints.get(&index) == Some(&datanode))
    }

    /// Forgets the moves of a block: nothing of it is there twice.
    pub fn forget(&mut self, block: BlockId) {
        self.by_block.remove(&block);
    }

    /// Blocks with moves that are remembered.
    pub fn count(&self) -> usize {
        self.by_block.len()
    }
}
