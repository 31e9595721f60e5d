use std::collections::{BTreeMap, BTreeSet};

use crate::ids::BlockId;

/// How soon a block is to be mended: the less it can lose, the sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Urgency(u16);

impl Urgency {
    /// Nothing is missing, and two units, or all copies, are where one failure takes them.
    pub const MISPLACED: Self = Self(u16::MAX);

    /// Something is missing, and so many losses more would lose bytes if there were one more.
    pub fn after_losses(tolerance: usize) -> Self {
        Self(u16::try_from(tolerance).unwrap_or(u16::MAX - 1).min(u16::MAX - 1))
    }
}

/// The blocks that lack something and have no order.
#[derive(Debug, Default)]
pub struct Queue {
    urgencies: BTreeMap<BlockId, (Urgency, Option<u64>)>,
    ready: BTreeSet<(Urgency, BlockId)>,
    later: BTreeSet<(u64, BlockId)>,
}

impl Queue {
    /// Puts a block in, to be ready at a time; one that is in keeps its time.
    pub fn insert(&mut self, block: BlockId, urgency: Urgency, due_ms: u64) {
        match self.urgencies.get_mut(&block) {
            Some((known, due)) => {
                if due.is_none() && self.ready.remove(&(*known, block)) {
                    self.ready.insert((urgency, block));
                }
                *known = urgency;
            }
            None => {
                self.urgencies.insert(block, (urgency, Some(due_ms)));
                self.later.insert((due_ms, block));
            }
        }
    }

    /// Takes a block out.
    pub fn remove(&mut self, block: BlockId) {
        match self.urgencies.remove(&block) {
            Some((urgency, None)) => self.ready.remove(&(urgency, block)),
            Some((_, Some(due_ms))) => self.later.remove(&(due_ms, block)),
            None => false,
        };
    }

    /// Lets a block wait until a time: nobody can mend it now.
    pub fn postpone(&mut self, block: BlockId, due_ms: u64) {
        let Some((urgency, _)) = self.urgencies.get(&block).copied() else { return };
        self.remove(block);
        self.insert(block, urgency, due_ms);
    }

    /// The blocks that are ready, the most urgent first.
    pub fn ready(&mut self, now_ms: u64) -> impl Iterator<Item = BlockId> + '_ {
        while let Some(&(due_ms, block)) = self.later.first().filter(|(due_ms, _)| *due_ms <= now_ms) {
            self.later.remove(&(due_ms, block));
            let known = self.urgencies.get_mut(&block).expect("what waits is known");
            known.1 = None;
            self.ready.insert((known.0, block));
        }
        self.ready.iter().map(|(_, block)| *block)
    }

    /// True for a block that waits.
    pub fn has(&self, block: BlockId) -> bool {
        self.urgencies.contains_key(&block)
    }

    /// The blocks that lack something and have no order, by number.
    pub fn iter(&self) -> impl Iterator<Item = BlockId> {
        self.urgencies.keys().copied()
    }

    /// How many blocks lack something and have no order.
    pub fn count(&self) -> usize {
        self.urgencies.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_endangered_comes_first_once_it_is_ready() {
        let mut queue = Queue::default();
        let after = Urgency::after_losses;
        queue.insert(BlockId(1), after(2), 100);
        queue.insert(BlockId(2), Urgency::MISPLACED, 100);
        queue.insert(BlockId(3), after(0), 100);
        queue.insert(BlockId(4), after(0), 200);
        assert_eq!(queue.ready(99).count(), 0);
        assert_eq!(queue.ready(100).collect::<Vec<_>>(), [BlockId(3), BlockId(1), BlockId(2)]);
        queue.insert(BlockId(2), after(0), 500);
        queue.postpone(BlockId(3), 300);
        assert_eq!(queue.ready(200).collect::<Vec<_>>(), [BlockId(2), BlockId(4), BlockId(1)]);
        queue.remove(BlockId(2));
        queue.remove(BlockId(3));
        assert_eq!((queue.ready(300).collect::<Vec<_>>(), queue.count()), (vec![BlockId(4), BlockId(1)], 2));
    }
}
