use super::column::{ColumnKind, Incoming, ValueColumn};
use crate::state::{Bucket, KeyHash, Keys};

/// Keys of one bucket with their values.
#[derive(Debug, Clone)]
pub(super) struct MemoryBucket {
    pub keys: Keys,
    pub columns: Vec<ValueColumn>,
    /// Slots that changed since the last version, each once.
    changed: Vec<u32>,
    is_changed: Vec<bool>,
}

impl MemoryBucket {
    pub fn new(kinds: &[ColumnKind]) -> Self {
        Self {
            keys: Keys::default(),
            columns: kinds.iter().map(ColumnKind::empty).collect(),
            changed: Vec::new(),
            is_changed: Vec::new(),
        }
    }

    /// Gives a key a row of the incoming values; whether the key is new.
    pub fn set(&mut self, bucket: Bucket, hash: KeyHash, key: &[u8], from: &[Incoming], row: usize) -> bool {
        let (slot, is_new) = self.keys.insert(bucket, hash, key);
        for (column, incoming) in self.columns.iter_mut().zip(from) {
            column.set(slot, incoming, row);
        }
        if is_new {
            self.is_changed.push(false);
        }
        if !std::mem::replace(&mut self.is_changed[slot], true) {
            self.changed.push(u32::try_from(slot).expect("there are less than 2^32 keys"));
        }
        is_new
    }

    /// Slots that changed since this was asked last.
    pub fn take_changed(&mut self) -> Vec<u32> {
        for slot in &self.changed {
            self.is_changed[*slot as usize] = false;
        }
        std::mem::take(&mut self.changed)
    }

    pub fn memory_bytes(&self) -> usize {
        self.keys.memory_bytes()
            + self.columns.iter().map(ValueColumn::memory_bytes).sum::<usize>()
            + self.changed.capacity() * size_of::<u32>()
            + self.is_changed.capacity()
    }
}
