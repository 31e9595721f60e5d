use std::collections::{HashMap, VecDeque};

use roaring::RoaringTreemap;

use super::{Block, Fit, Lack, LacksByForm, Promise, Replica, Target};
use crate::ids::{BlockId, BlockIndex, DatanodeHandle, GenerationStamp, InodeId, StorageHandle};
use crate::namenode::table::Table;

/// All blocks, and what each storage has.
///
/// It counts the committed blocks that can be read, so that safe mode knows when enough have been reported.
#[derive(Debug)]
pub struct BlockTable {
    blocks: Table<Block>,
    /// The blocks of each storage, by their numbers as the wire has them.
    by_storage: HashMap<StorageHandle, RoaringTreemap>,
    /// What changed and has not been looked at since.
    changed: VecDeque<BlockId>,
    /// What changed and has not been counted since.
    uncounted: VecDeque<BlockId>,
    lacks: LacksByForm,
    /// The blocks that are counted as missing, by their numbers as the wire has them.
    missing: RoaringTreemap,
    committed: u64,
    stored: u64,
    replicas: u64,
    next: BlockId,
    next_group: BlockId,
    last_stamp: GenerationStamp,
}

/// What a report of a replica came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// It belongs to a block, for which it is worth this much.
    Known(Fit),
    /// No file has the block: it can go.
    Unneeded,
    /// Its stamp is from the future: the namespace may be an old one, and nothing may go.
    Future,
}

impl Default for BlockTable {
    fn default() -> Self {
        Self {
            blocks: Table::default(),
            by_storage: HashMap::new(),
            changed: VecDeque::new(),
            uncounted: VecDeque::new(),
            lacks: LacksByForm::default(),
            missing: RoaringTreemap::new(),
            committed: 0,
            stored: 0,
            replicas: 0,
            next: BlockId::FIRST,
            next_group: BlockId::FIRST_GROUP,
            last_stamp: GenerationStamp::LAST_RESERVED,
        }
    }
}

impl BlockTable {
    /// The number of the next block, of the next group, and the last stamp: none is given out twice.
    pub fn counters(&self) -> (BlockId, BlockId, GenerationStamp) {
        (self.next, self.next_group, self.last_stamp)
    }

    /// Never gives out again what was given out before.
    pub fn reserve(&mut self, next: BlockId, next_group: BlockId, last_stamp: GenerationStamp) {
        self.next = self.next.max(next);
        self.next_group = self.next_group.max(next_group);
        self.last_stamp = self.last_stamp.max(last_stamp);
    }

    /// Never gives out again this stamp, or one before it.
    pub fn reserve_stamp(&mut self, stamp: GenerationStamp) {
        self.last_stamp = self.last_stamp.max(stamp);
    }

    /// How many blocks there are.
    pub fn count(&self) -> usize {
        self.blocks.count()
    }

    /// Blocks whose length is final.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Blocks whose length is final and that can be read from what has been reported.
    pub fn stored(&self) -> u64 {
        self.stored
    }

    /// Replicas of all blocks.
    pub fn replicas(&self) -> u64 {
        self.replicas
    }

    /// A block by its number.
    pub fn get(&self, id: BlockId) -> Option<&Block> {
        self.blocks.get(id)
    }

    /// A block that is known to be there.
    ///
    /// # Panics
    /// If it is not.
    pub fn block(&self, id: BlockId) -> &Block {
        self.blocks.get(id).expect("files name only blocks that there are")
    }

    /// All blocks.
    pub fn iter(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter()
    }

    /// The blocks as they are now, whatever happens to them later: it shares those that do not change.
    pub fn frozen(&self) -> Table<Block> {
        self.blocks.clone()
    }

    /// Adds a block without replicas.
    ///
    /// # Panics
    /// If there is one of this number.
    pub fn insert(&mut self, block: Block) {
        let (id, is_committed) = (block.id, block.is_committed);
        assert!(block.replica_count() == 0 && block.targets().is_empty(), "a new block is nowhere");
        assert_eq!(id.is_striped(), block.geometry().is_some(), "{id} has the form that its number says");
        let step = |next: BlockId, by| next.max(BlockId(id.0 + by));
        if id.is_striped() {
            self.next_group = step(self.next_group, BlockId::INDEXES_PER_GROUP);
        } else {
            self.next = step(self.next, 1);
        }
        self.last_stamp = self.last_stamp.max(block.stamp);
        self.stored += u64::from(is_stored(&block));
        self.blocks.insert(block);
        self.committed += u64::from(is_committed);
        self.mark_changed(id);
    }

    /// Removes a block; what it was is the answer, with the replicas that can go.
    ///
    /// # Panics
    /// If it is not there.
    pub fn remove(&mut self, id: BlockId) -> Block {
        let block = self.blocks.remove(id).expect("files name only blocks that there are");
        self.committed -= u64::from(block.is_committed);
        self.stored -= u64::from(is_stored(&block));
        self.replicas -= block.replica_count() as u64;
        self.lacks.of_form(id.is_striped()).subtract(block.lack);
        if block.lack.is_missing() {
            self.missing.remove(id.to_wire());
        }
        // Its repair is to be called off.
        self.changed.push_back(id);
        for replica in block.replicas() {
            if let Some(blocks) = self.by_storage.get_mut(&replica.storage) {
                blocks.remove(id.to_wire());
            }
        }
        block
    }

    /// Gives a block to another file, which may want more or fewer copies.
    pub fn give(&mut self, id: BlockId, file: InodeId) {
        self.change(id, |block| block.file = file);
    }

    /// Makes a block's stamp and length final.
    pub fn commit(&mut self, id: BlockId, stamp: GenerationStamp, length: u64) {
        self.last_stamp = self.last_stamp.max(stamp);
        self.change(id, |block| {
            (block.stamp, block.length, block.is_committed) = (stamp, length, true);
            block.promise = Promise::None;
            block.unsettled().targets = Vec::new();
        });
    }

    /// Makes a committed block shorter. Its replicas have more until they are cut.
    pub fn truncate(&mut self, id: BlockId, length: u64) {
        self.change(id, |block| {
            assert!(block.is_committed && length < block.length, "a block at rest is truncated");
            (block.length, block.is_committed, block.promise) = (length, false, Promise::Exactly);
        });
    }

    /// Gives a committed block to a writer again. What it has is kept.
    pub fn reopen(&mut self, id: BlockId) {
        self.change(id, |block| {
            assert!(block.is_committed, "a block at rest is appended to");
            (block.is_committed, block.promise) = (false, Promise::Beginning);
        });
    }

    /// Gives a block that is being written the stamp of another pipeline, and makes its first bytes visible.
    pub fn restamp(&mut self, id: BlockId, stamp: GenerationStamp, length: u64) {
        self.reserve_stamp(stamp);
        self.change(id, |block| {
            assert!(!block.is_committed && block.stamp < stamp, "stamps grow while a block is written");
            (block.stamp, block.length) = (stamp, length);
        });
    }

    /// Makes the first bytes of a block that is being written visible, and keeps them from then on.
    pub fn set_flushed(&mut self, id: BlockId, length: u64) {
        self.change(id, |block| (block.length, block.promise) = (length, Promise::Beginning));
    }

    /// Notes where a writer was sent to, and whether these are all places that it writes to.
    pub fn set_targets(&mut self, id: BlockId, targets: Vec<Target>, is_all: bool) {
        self.change(id, |block| {
            let unsettled = block.unsettled();
            (unsettled.targets, unsettled.are_targets_all) = (targets, is_all);
        });
    }

    /// Takes what a DataNode says of a replica, and says what it is worth.
    pub fn report(&mut self, id: BlockId, replica: Replica) -> Reported {
        let group = id.group();
        let Some(block) = self.blocks.get(group) else {
            return if replica.stamp > self.last_stamp { Reported::Future } else { Reported::Unneeded };
        };
        if !block.has_unit(replica.index.unit()) {
            return Reported::Unneeded;
        }
        let fit = block.fit(&replica);
        let is_same = |known: &Replica| known.storage == replica.storage && known.index == replica.index;
        if block.replicas().any(|known| is_same(&known) && known == replica) {
            return Reported::Known(fit);
        }
        self.by_storage.entry(replica.storage).or_default().insert(group.to_wire());
        self.change(group, |block| {
            let replicas = &mut block.unsettled().replicas;
            match replicas.iter_mut().find(|known| is_same(known)) {
                // What a reader found stays found, until the replica is another one.
                Some(known) => {
                    let was_corrupt = known.is_corrupt && known.stamp == replica.stamp;
                    let is_corrupt = replica.is_corrupt || was_corrupt;
                    *known = Replica { is_corrupt, ..replica };
                }
                None => replicas.push(replica),
            }
        });
        Reported::Known(fit)
    }

    /// Forgets a replica that a DataNode no longer has.
    pub fn forget(&mut self, id: BlockId, storage: StorageHandle, index: BlockIndex) {
        let group = id.group();
        if self.blocks.get(group).is_none() {
            return;
        }
        self.change(group, |block| {
            block.unsettled().replicas.retain(|known| known.storage != storage || known.index != index);
        });
        if !self.block(group).replicas().any(|known| known.storage == storage)
            && let Some(blocks) = self.by_storage.get_mut(&storage)
        {
            blocks.remove(group.to_wire());
        }
    }

    /// Notes that a reader found a replica damaged.
    pub fn mark_corrupt(&mut self, id: BlockId, datanode: DatanodeHandle) {
        let group = id.group();
        if self.blocks.get(group).is_none() {
            return;
        }
        self.change(group, |block| {
            let is_meant = |known: &&mut Replica| known.datanode == datanode && known.index == id.index();
            for known in block.unsettled().replicas.iter_mut().filter(is_meant) {
                known.is_corrupt = true;
            }
        });
    }

    /// Notes that a replica is about to be deleted; the stamp that it has.
    ///
    /// # Panics
    /// If it is not known.
    pub fn set_leaving(&mut self, id: BlockId, storage: StorageHandle, index: BlockIndex) -> GenerationStamp {
        let mut stamp = None;
        self.change(id, |block| {
            let is_meant = |known: &&mut Replica| known.storage == storage && known.index == index;
            for known in block.unsettled().replicas.iter_mut().filter(is_meant) {
                (known.is_leaving, stamp) = (true, Some(known.stamp));
            }
        });
        stamp.expect("what leaves is known")
    }

    /// Notes that a block is to be looked at again.
    pub fn mark_changed(&mut self, id: BlockId) {
        let Some(block) = self.blocks.get_mut(id) else { return self.changed.push_back(id) };
        if !std::mem::replace(&mut block.is_changed, true) {
            self.changed.push_back(id);
        }
        if !std::mem::replace(&mut block.is_uncounted, true) {
            self.uncounted.push_back(id);
        }
    }

    /// Notes that all blocks of a storage are to be looked at again.
    pub fn mark_storage_changed(&mut self, storage: StorageHandle) {
        let blocks: Vec<u64> = self.by_storage.get(&storage).into_iter().flatten().collect();
        blocks.into_iter().for_each(|id| self.mark_changed(BlockId::from_wire(id)));
    }

    /// The next block to be looked at again.
    pub fn take_changed(&mut self) -> Option<BlockId> {
        let id = self.changed.pop_front()?;
        if let Some(block) = self.blocks.get_mut(id) {
            block.is_changed = false;
        }
        Some(id)
    }

    /// The next block to be counted again.
    pub fn take_uncounted(&mut self) -> Option<&Block> {
        loop {
            // One that is gone was taken out when it went.
            let id = self.uncounted.pop_front()?;
            if let Some(block) = self.blocks.get_mut(id) {
                block.is_uncounted = false;
                return self.get(id);
            }
        }
    }

    /// Counts a block as one that lacks this.
    pub fn set_lack(&mut self, id: BlockId, lack: Lack) {
        let block = self.blocks.get_mut(id).expect("it was just taken");
        let counts = self.lacks.of_form(id.is_striped());
        let before = std::mem::replace(&mut block.lack, lack);
        counts.subtract(before);
        counts.add(lack);
        match (before.is_missing(), lack.is_missing()) {
            (false, true) => self.missing.insert(id.to_wire()),
            (true, false) => self.missing.remove(id.to_wire()),
            (true, true) | (false, false) => false,
        };
    }

    /// The blocks that are counted as missing behind one, in the order of their numbers on the wire.
    pub fn missing_behind(&self, after: Option<BlockId>) -> impl Iterator<Item = BlockId> {
        let mut behind = self.missing.iter();
        if let Some(after) = after {
            behind.advance_to(after.to_wire().saturating_add(1));
        }
        behind.map(BlockId::from_wire)
    }

    /// How many blocks lack something, as far as they have been counted.
    pub fn lacks(&self) -> LacksByForm {
        self.lacks
    }

    /// The replicas that a storage has, by their numbers.
    pub fn of_storage(&self, storage: StorageHandle) -> impl Iterator<Item = BlockId> {
        let ids = self.by_storage.get(&storage).into_iter().flatten().map(BlockId::from_wire);
        ids.flat_map(move |id| {
            let of_it = self.block(id).replicas().filter(move |known| known.storage == storage);
            of_it.map(move |replica| id.internal(replica.index))
        })
    }

    /// Up to `count` blocks of a storage behind one, in the order of their numbers on the wire.
    pub fn of_storage_behind(
        &self,
        storage: StorageHandle,
        after: Option<BlockId>,
        count: usize,
    ) -> Vec<BlockId> {
        let Some(blocks) = self.by_storage.get(&storage) else { return Vec::new() };
        let mut behind = blocks.iter();
        if let Some(after) = after {
            behind.advance_to(after.to_wire().saturating_add(1));
        }
        behind.take(count).map(BlockId::from_wire).collect()
    }

    /// The blocks of a storage, once each, from the one on that has so many before it in the order of their numbers on the wire.
    pub fn of_storage_from(&self, storage: StorageHandle, from: usize) -> impl Iterator<Item = BlockId> {
        let all = || self.by_storage.get(&storage).into_iter().flatten();
        let first = self.by_storage.get(&storage).and_then(|blocks| blocks.select(from as u64)).unwrap_or(0);
        let behind = self.by_storage.get(&storage).map(|blocks| {
            let mut behind = blocks.iter();
            behind.advance_to(first);
            behind
        });
        behind.into_iter().flatten().chain(all().take_while(move |id| *id < first)).map(BlockId::from_wire)
    }

    /// True if every change has been looked at.
    pub fn is_looked_at(&self) -> bool {
        self.changed.is_empty()
    }

    /// How many blocks a storage has.
    pub fn count_of(&self, storage: StorageHandle) -> usize {
        self.by_storage.get(&storage).map_or(0, |blocks| blocks.len() as usize)
    }

    /// Changes a block and keeps the counts right.
    fn change(&mut self, id: BlockId, change: impl FnOnce(&mut Block)) {
        let block = self.blocks.get_mut(id).expect("files name only blocks that there are");
        let state = |block: &Block| (block.is_committed, is_stored(block), block.replica_count() as u64);
        let before = state(block);
        // Replicas are what they are, whatever the block is to be from now on.
        block.unsettled();
        change(block);
        block.settle();
        let after = state(block);
        self.replicas = self.replicas + after.2 - before.2;
        self.committed = self.committed + u64::from(after.0) - u64::from(before.0);
        self.stored = self.stored + u64::from(after.1) - u64::from(before.1);
        self.mark_changed(id);
    }
}

/// True for a block that counts as reported: its length is final, and enough good replicas are known to read it.
fn is_stored(block: &Block) -> bool {
    block.is_committed && block.is_readable(|_| true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::ReplicaState;
    use super::*;
    use crate::policy::geometry_of;

    fn new_block(id: i64, stamp: u64, length: u64, is_committed: bool) -> Block {
        let id = BlockId(id);
        let policy = id.is_striped().then(|| geometry_of("RS-3-2-1024k")).flatten();
        Block { length, is_committed, ..Block::new(id, InodeId(1), policy, GenerationStamp(stamp)) }
    }

    fn replica(storage: u32, stamp: u64, length: u64) -> Replica {
        Replica {
            index: BlockIndex(0),
            datanode: DatanodeHandle(storage),
            storage: StorageHandle(storage),
            stamp: GenerationStamp(stamp),
            length,
            state: ReplicaState::Finalized,
            is_corrupt: false,
            is_leaving: false,
        }
    }

    #[test]
    fn what_no_file_has_can_go_unless_it_is_from_the_future() {
        let mut table = BlockTable::default();
        table.insert(new_block(2_000_000_000, 1005, 10, true));
        table.insert(new_block(i64::MIN + 16, 1005, 10, true));
        let mut report = |id, stamp| table.report(BlockId(id), replica(0, stamp, 10));
        assert_eq!(report(2_000_000_000, 1005), Reported::Known(Fit::Good));
        assert_eq!(report(2_000_000_000, 1004), Reported::Known(Fit::Stale));
        assert_eq!(report(1_999_999_999, 1005), Reported::Unneeded);
        assert_eq!(report(1_999_999_999, 1006), Reported::Future);
        let mut unit = |index| {
            let id = BlockId(i64::MIN + 16).internal(BlockIndex(index));
            table.report(id, Replica { index: id.index(), ..replica(0, 1005, 10) })
        };
        assert_eq!((unit(4), unit(5)), (Reported::Known(Fit::Good), Reported::Unneeded));
    }

    #[test]
    fn numbers_and_stamps_are_never_given_out_again() {
        let mut table = BlockTable::default();
        assert_eq!(table.counters(), (BlockId(1_073_741_825), BlockId(i64::MIN + 16), GenerationStamp(1000)));
        table.insert(new_block(1_073_741_825, 1001, 0, false));
        table.insert(new_block(i64::MIN + 16, 1002, 0, false));
        let after = (BlockId(1_073_741_826), BlockId(i64::MIN + 32), GenerationStamp(1002));
        assert_eq!(table.counters(), after);
        table.remove(BlockId(1_073_741_825));
        assert_eq!(table.counters(), after);
    }

    #[test]
    fn a_replica_stays_what_it_was_when_its_block_gets_another_stamp() {
        let (mut table, id) = (BlockTable::default(), BlockId(2_000_000_000));
        table.insert(new_block(id.0, 1001, 10, true));
        table.report(id, replica(0, 1001, 10));
        assert_eq!(table.stored(), 1);
        table.commit(id, GenerationStamp(1002), 10);
        assert!(table.block(id).replicas().eq([replica(0, 1001, 10)]));
        assert_eq!((table.stored(), table.block(id).good().count()), (0, 0));
    }

    proptest! {
        /// The counts by which safe mode ends are those of a recount, whatever happens.
        #[test]
        fn the_counts_are_those_of_a_recount(steps in prop::collection::vec((0..6u8, 0..4i64, 0..3u32, 0..2u64), 0..120)) {
            let mut table = BlockTable::default();
            for (step, block, storage, more) in steps {
                let id = BlockId(BlockId::FIRST.0 + block);
                let is_there = table.get(id).is_some();
                match step {
                    0 if !is_there => table.insert(new_block(id.0, 1001, 10, more == 1)),
                    1 if is_there => { table.remove(id); }
                    2 if is_there => table.commit(id, GenerationStamp(1001 + more), 10),
                    3 => { table.report(id, replica(storage, 1001 + more, 10)); }
                    4 => table.forget(id, StorageHandle(storage), BlockIndex(0)),
                    5 => table.mark_corrupt(id, DatanodeHandle(storage)),
                    _ => {}
                }
                let committed = table.iter().filter(|block| block.is_committed).count() as u64;
                let stored = table.iter().filter(|block| is_stored(block)).count() as u64;
                prop_assert_eq!((table.committed(), table.stored()), (committed, stored));
                let replicas = table.iter().map(|block| block.replica_count() as u64).sum::<u64>();
                prop_assert_eq!(table.replicas(), replicas);
                for storage in 0..3 {
                    let has = |block: &&Block| block.replicas().any(|r| r.storage == StorageHandle(storage));
                    prop_assert_eq!(table.count_of(StorageHandle(storage)), table.iter().filter(has).count());
                }
            }
        }
    }
}
