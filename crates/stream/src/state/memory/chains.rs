use std::collections::VecDeque;

use hashbrown::HashTable;

use crate::state::{KeyHash, Keys, Layout};

/// End of a chain.
const NONE: u32 = u32::MAX;

/// Keys of a span by their prefixes: those of one prefix are a chain of slots, the newest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Chains {
    /// The newest slot of each prefix.
    heads: HashTable<u32>,
    /// The slot after each in its chain.
    next: Vec<u32>,
    /// Hash of each slot's prefix.
    hashes: Vec<KeyHash>,
}

impl Chains {
    /// Adds the newest slot; whether its prefix is new.
    pub fn add(&mut self, keys: &Keys, layout: &Layout, hash: KeyHash) -> bool {
        let slot = u32::try_from(self.next.len()).expect("there are less than 2^32 keys");
        let prefix = layout.prefix_of(keys.key(slot as usize));
        self.hashes.push(hash);
        let hashes = &self.hashes;
        let is_same = |other: &u32| {
            hashes[*other as usize] == hash && layout.prefix_of(keys.key(*other as usize)) == prefix
        };
        if let Some(head) = self.heads.find_mut(hash.spread(), is_same) {
            self.next.push(std::mem::replace(head, slot));
            return false;
        }
        self.next.push(NONE);
        self.heads.insert_unique(hash.spread(), slot, |other| hashes[*other as usize].spread());
        true
    }

    /// Slots of a prefix, the newest first, those of keys that have gone, too.
    pub fn slots<'a>(
        &'a self,
        keys: &Keys,
        layout: &Layout,
        hash: KeyHash,
        prefix: &[u8],
    ) -> impl Iterator<Item = usize> + use<'a> {
        let is_same = |other: &u32| {
            self.hashes[*other as usize] == hash && layout.prefix_of(keys.key(*other as usize)) == prefix
        };
        let head = self.heads.find(hash.spread(), is_same).copied().filter(|slot| *slot != NONE);
        std::iter::successors(head, |slot| Some(self.next[*slot as usize]).filter(|next| *next != NONE))
            .map(|slot| slot as usize)
    }

    /// A slot of each prefix with the prefix's hash.
    pub fn prefixes(&self) -> impl Iterator<Item = (usize, KeyHash)> {
        self.heads.iter().map(|slot| (*slot as usize, self.hashes[*slot as usize]))
    }

    pub fn memory_bytes(&self) -> usize {
        self.heads.allocation_size()
            + self.next.capacity() * size_of::<u32>()
            + self.hashes.capacity() * size_of::<KeyHash>()
    }
}

/// Spans of time in which there are keys of a prefix: a look-up goes to no others.
#[derive(Debug, Default)]
pub(super) struct PrefixSpans {
    spans: HashTable<PrefixEntry>,
    bytes: usize,
}

#[derive(Debug)]
struct PrefixEntry {
    hash: KeyHash,
    prefix: Box<[u8]>,
    /// In the order in which the prefix came to them, which is about that of time.
    spans: VecDeque<i64>,
}

impl PrefixSpans {
    /// Spans of a prefix.
    pub fn of(&self, hash: KeyHash, prefix: &[u8]) -> impl Iterator<Item = i64> {
        let is_same = |entry: &PrefixEntry| entry.hash == hash && *entry.prefix == *prefix;
        self.spans.find(hash.spread(), is_same).into_iter().flat_map(|entry| entry.spans.iter().copied())
    }

    /// Adds a span that it does not have yet.
    pub fn add(&mut self, hash: KeyHash, prefix: &[u8], span: i64) {
        let is_same = |entry: &PrefixEntry| entry.hash == hash && *entry.prefix == *prefix;
        self.bytes += size_of::<i64>();
        if let Some(entry) = self.spans.find_mut(hash.spread(), is_same) {
            entry.spans.push_back(span);
            return;
        }
        self.bytes += prefix.len();
        let entry = PrefixEntry { hash, prefix: prefix.into(), spans: VecDeque::from([span]) };
        self.spans.insert_unique(hash.spread(), entry, |entry| entry.hash.spread());
    }

    /// Removes a span.
    pub fn remove(&mut self, hash: KeyHash, prefix: &[u8], span: i64) {
        let is_same = |entry: &PrefixEntry| entry.hash == hash && *entry.prefix == *prefix;
        let Ok(mut found) = self.spans.find_entry(hash.spread(), is_same) else { return };
        let spans = &mut found.get_mut().spans;
        // The oldest go first, so it is one of the first.
        if let Some(at) = spans.iter().position(|other| *other == span) {
            spans.remove(at);
            self.bytes -= size_of::<i64>();
        }
        if spans.is_empty() {
            self.bytes -= prefix.len();
            found.remove();
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.spans.allocation_size() + self.bytes
    }
}
