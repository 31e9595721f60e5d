//! Running counts of blocks that lack something: whoever asks for them waits for no walk over all blocks.

use std::collections::HashMap;

use super::State;
use crate::ids::InodeId;
use crate::namenode::blocks::{Block, Lack, LacksByForm, Replica};
use crate::namenode::namespace::Counts;

/// Blocks that are counted again at a time, at a microsecond or less each.
const COUNTED_MAX: usize = 20_000;

impl State {
    /// Counts again what has changed, or the first part of it: a tick and whoever asks for the counts goes on with the rest.
    pub(super) fn count_lacks(&mut self) {
        for _ in 0..COUNTED_MAX {
            let Some(block) = self.blocks.take_uncounted() else { return };
            let id = block.id;
            let lack = self.lack(self.blocks.block(id));
            self.blocks.set_lack(id, lack);
        }
    }

    /// What a block lacks, with what storages have that are not missed: their DataNode has been silent for too long, or their
    /// disk failed.
    fn lack(&self, block: &Block) -> Lack {
        if !block.is_committed {
            return Lack::default();
        }
        let is_there = |replica: &Replica| !self.datanodes.storage(replica.storage).is_missed;
        let stays = |replica: &Replica| {
            is_there(replica) && !self.datanodes.node(replica.datanode).admin.is_leaving()
        };
        let (good, wanted) = match block.geometry() {
            Some(_) => (block.readable_units(stays).len(), block.units().len()),
            None => (block.good().filter(stays).count(), self.copies(block)),
        };
        let is_readable = block.is_readable(is_there);
        Lack::default()
            .and(Lack::UNDER_REPLICATED, is_readable && good < wanted)
            .and(Lack::MISSING, !is_readable)
            .and(Lack::CORRUPT, block.replicas().any(|replica| replica.is_corrupt))
    }

    /// Compares the counts with a walk over all blocks. For simulations.
    ///
    /// # Panics
    /// If they differ: something changed without being counted again.
    pub fn check_counts(&self) {
        let mut lacks = LacksByForm::default();
        for block in self.blocks.iter() {
            lacks.of_form(block.id.is_striped()).add(block.lack);
            let found = self.lack(block);
            assert!(
                block.is_uncounted || block.lack == found,
                "{}: {:?}, not {found:?}",
                block.id,
                block.lack
            );
        }
        assert_eq!(self.blocks.lacks(), lacks);
        let missing = self.blocks.iter().filter(|block| block.lack.is_missing()).count();
        assert_eq!(self.blocks.missing_behind(None).count(), missing);
        self.check_usage();
    }

    /// Compares what directories count with what is below them.
    fn check_usage(&self) {
        let mut found: HashMap<InodeId, Counts> = HashMap::new();
        for id in self.tree.subtree(InodeId::ROOT) {
            let inode = self.tree.inode(id);
            let below = found.remove(&id).unwrap_or_default();
            let own = match inode.directory() {
                Some(directory) => {
                    assert_eq!(directory.counts, below, "{}", self.tree.path_of(id));
                    Counts { directories: below.directories + 1, ..below }
                }
                None => self.file_counts(inode),
            };
            if id != InodeId::ROOT {
                *found.entry(inode.parent).or_default() += own;
            }
        }
    }
}
