use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::chains::Chains;
use super::column::{ColumnKind, Incoming, ValueColumn};
use crate::state::{Bucket, KeyHash, Keys, Layout};

/// Keys that have to have gone before the others are moved.
const SPARSE_KEYS_MIN: usize = 1000;

/// Keys of one span of time with their values.
#[derive(Debug, Clone)]
pub(super) struct MemoryBucket {
    /// Keys by their slots, those that have gone, too.
    pub keys: Keys,
    pub columns: Vec<ValueColumn>,
    /// Slots that changed since the last version, each once.
    changed: Vec<u32>,
    is_changed: Vec<bool>,
    /// Slots whose keys have gone one by one; empty as long as none has.
    has_gone: Vec<bool>,
    gone: usize,
    /// Buckets that go next, once a part has gone: a span that goes as a whole never orders its keys.
    due: Option<BinaryHeap<Reverse<(Bucket, u32)>>>,
    /// Keys by their prefixes, in a table that looks them up so.
    pub chains: Option<Chains>,
}

impl MemoryBucket {
    pub fn new(kinds: &[ColumnKind], layout: &Layout) -> Self {
        Self {
            keys: Keys::default(),
            columns: kinds.iter().map(ColumnKind::empty).collect(),
            changed: Vec::new(),
            is_changed: Vec::new(),
            has_gone: Vec::new(),
            gone: 0,
            due: None,
            chains: layout.has_prefix().then(Chains::default),
        }
    }

    /// Gives a key a row of the incoming values; the key's slot, and whether it is new.
    pub fn set(
        &mut self,
        bucket: Bucket,
        hash: KeyHash,
        key: &[u8],
        from: &[Incoming],
        row: usize,
    ) -> (usize, bool) {
        let (slot, is_new) = self.keys.insert(bucket, hash, key);
        let number = u32::try_from(slot).expect("there are less than 2^32 keys");
        for (column, incoming) in self.columns.iter_mut().zip(from) {
            column.set(slot, incoming, row);
        }
        if is_new {
            self.is_changed.push(false);
            if !self.has_gone.is_empty() {
                self.has_gone.push(false);
            }
            if let Some(due) = &mut self.due {
                due.push(Reverse((bucket, number)));
            }
        }
        if !std::mem::replace(&mut self.is_changed[slot], true) {
            self.changed.push(number);
        }
        (slot, is_new)
    }

    /// True if a slot's key is still there.
    pub fn is_there(&self, slot: usize) -> bool {
        self.has_gone.get(slot).is_none_or(|has_gone| !has_gone)
    }

    /// Number of keys that are there.
    pub fn len(&self) -> usize {
        self.keys.len() - self.gone
    }

    /// Slots of keys that are there.
    pub fn slots(&self) -> impl Iterator<Item = usize> + Clone {
        (0..self.keys.len()).filter(|slot| self.is_there(*slot))
    }

    /// Takes out keys at a time or before, and gives their slots. Nothing else moves: their memory goes with the span.
    pub fn evict(&mut self, until: Bucket) -> Vec<usize> {
        let mut slots = Vec::new();
        if self.due.is_none() {
            let all = self.keys.buckets().iter().zip(0_u32..);
            self.due = Some(all.map(|(bucket, slot)| Reverse((*bucket, slot))).collect());
        }
        let due = self.due.as_mut().expect("it was just made");
        while due.peek().is_some_and(|Reverse((bucket, _))| *bucket <= until) {
            let Some(Reverse((_, slot))) = due.pop() else { break };
            if self.has_gone.get(slot as usize).is_none_or(|has_gone| !has_gone) {
                slots.push(slot as usize);
            }
        }
        if slots.is_empty() {
            return slots;
        }
        self.has_gone.resize(self.keys.len(), false);
        for slot in &slots {
            self.has_gone[*slot] = true;
            self.keys.remove(*slot);
        }
        self.gone += slots.len();
        slots
    }

    /// Takes out a key, if it is there. Nothing else moves.
    pub fn remove(&mut self, hash: KeyHash, key: &[u8]) -> bool {
        let Some(slot) = self.keys.find(hash, key) else { return false };
        self.has_gone.resize(self.keys.len(), false);
        self.has_gone[slot] = true;
        self.keys.remove(slot);
        self.gone += 1;
        true
    }

    /// True if most of the memory is of keys that have gone.
    pub fn is_sparse(&self) -> bool {
        self.gone > SPARSE_KEYS_MIN && self.gone > self.len()
    }

    /// The same keys and values in memory of their own, without those that have gone; of a table without prefixes.
    pub fn compacted(&self, kinds: &[ColumnKind], layout: &Layout) -> Self {
        let mut compacted = Self::new(kinds, layout);
        for slot in self.slots() {
            let key = self.keys.key(slot);
            let (place, _) = compacted.keys.insert(self.keys.bucket(slot), self.keys.hash(slot), key);
            for (column, from) in compacted.columns.iter_mut().zip(&self.columns) {
                column.push_from(from, slot);
            }
            compacted.is_changed.push(self.is_changed[slot]);
            if self.is_changed[slot] {
                compacted.changed.push(u32::try_from(place).expect("there are less than 2^32 keys"));
            }
        }
        compacted
    }

    /// Slots that changed since this was asked last, and are there.
    pub fn take_changed(&mut self) -> Vec<u32> {
        let mut changed = std::mem::take(&mut self.changed);
        for slot in &changed {
            self.is_changed[*slot as usize] = false;
        }
        changed.retain(|slot| self.is_there(*slot as usize));
        changed
    }

    pub fn memory_bytes(&self) -> usize {
        self.keys.memory_bytes()
            + self.columns.iter().map(ValueColumn::memory_bytes).sum::<usize>()
            + self.changed.capacity() * size_of::<u32>()
            + self.is_changed.capacity()
            + self.has_gone.capacity()
            + self.due.as_ref().map_or(0, |due| due.capacity() * size_of::<Reverse<(Bucket, u32)>>())
            + self.chains.as_ref().map_or(0, Chains::memory_bytes)
    }
}
