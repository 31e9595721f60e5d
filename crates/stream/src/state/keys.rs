use hashbrown::HashTable;

/// How many virtual partitions keys are spread over: as many threads at most can share a table. It stands in each file of state.
pub const VIRTUAL_PARTITIONS: u16 = 128;

/// Time at which a key is over, in microseconds since 1970: the end of its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(pub i64);

impl Bucket {
    /// Bucket of keys that are never over.
    pub const FOR_EVER: Self = Self(i64::MAX);

    /// Bucket of keys, in a version, that were taken out by name: they have no values there.
    pub const REMOVED: Self = Self(i64::MIN);
}

/// Hash of a key: CRC-32C of its bytes, the same on every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub u32);

/// Part of the keys that stays together when they are divided among threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualPartition(pub u16);

impl KeyHash {
    /// Hash of these bytes.
    pub fn of(key: &[u8]) -> Self {
        Self(crc32c::crc32c(key))
    }

    /// The partition that its key is in.
    pub fn partition(self) -> VirtualPartition {
        let scaled = (u64::from(self.0) * u64::from(VIRTUAL_PARTITIONS)) >> 32;
        VirtualPartition(u16::try_from(scaled).expect("it is less than the number of partitions"))
    }

    /// 64 bits for a hash table, which looks at the highest ones and the lowest ones.
    pub(super) fn spread(self) -> u64 {
        u64::from(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Keys, each once, in the order in which they came: bytes of Arrow's row format.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    index: HashTable<u32>,
    hashes: Vec<KeyHash>,
    buckets: Vec<Bucket>,
    bytes: Vec<u8>,
    /// Where each key ends in the bytes.
    ends: Vec<usize>,
}

impl Keys {
    /// Number of keys.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of a key.
    pub fn key(&self, at: usize) -> &[u8] {
        let begin = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[begin..self.ends[at]]
    }

    /// Hash of a key.
    pub fn hash(&self, at: usize) -> KeyHash {
        self.hashes[at]
    }

    /// Bucket of a key.
    pub fn bucket(&self, at: usize) -> Bucket {
        self.buckets[at]
    }

    /// Buckets of all keys.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// Place of a key that is there.
    pub fn find(&self, hash: KeyHash, key: &[u8]) -> Option<usize> {
        let is_same = |at: &u32| self.hashes[*at as usize] == hash && self.key(*at as usize) == key;
        self.index.find(hash.spread(), is_same).map(|at| *at as usize)
    }

    /// Place of a key, which is added if it is not there; whether it was added.
    ///
    /// # Panics
    /// At 2^32 keys: the memory for them ends long before.
    pub fn insert(&mut self, bucket: Bucket, hash: KeyHash, key: &[u8]) -> (usize, bool) {
        if let Some(at) = self.find(hash, key) {
            return (at, false);
        }
        let at = self.ends.len();
        let slot = u32::try_from(at).expect("there are less than 2^32 keys");
        self.hashes.push(hash);
        self.buckets.push(bucket);
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        let hashes = &self.hashes;
        self.index.insert_unique(hash.spread(), slot, |at| hashes[*at as usize].spread());
        (at, true)
    }

    /// Forgets a key, which is found no more; its place stays taken.
    pub fn remove(&mut self, at: usize) {
        let slot = u32::try_from(at).expect("there are less than 2^32 keys");
        if let Ok(entry) = self.index.find_entry(self.hashes[at].spread(), |other| *other == slot) {
            entry.remove();
        }
    }

    /// Keys that are wanted, in their order.
    #[must_use]
    pub fn filtered(&self, is_wanted: impl Fn(usize) -> bool) -> Self {
        let mut kept = Self::default();
        for at in (0..self.len()).filter(|at| is_wanted(*at)) {
            kept.insert(self.buckets[at], self.hashes[at], self.key(at));
        }
        kept
    }

    /// Memory that they take.
    pub fn memory_bytes(&self) -> usize {
        self.index.allocation_size()
            + self.bytes.capacity()
            + self.hashes.capacity() * size_of::<KeyHash>()
            + self.buckets.capacity() * size_of::<Bucket>()
            + self.ends.capacity() * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_there_once_and_in_its_order() {
        let mut keys = Keys::default();
        for round in 0..2 {
            for number in 0..1000_u32 {
                let key = number.to_be_bytes();
                let inserted = keys.insert(Bucket(i64::from(number % 7)), KeyHash::of(&key), &key);
                assert_eq!(inserted, (number as usize, round == 0));
            }
        }
        assert_eq!(
            (keys.len(), keys.key(513), keys.bucket(513)),
            (1000, &513_u32.to_be_bytes()[..], Bucket(2))
        );
        assert_eq!(keys.find(KeyHash::of(b"other"), b"other"), None);
        let even = keys.filtered(|at| at % 2 == 0);
        assert_eq!((even.len(), even.key(3)), (500, &6_u32.to_be_bytes()[..]));
    }

    #[test]
    fn the_hash_is_the_published_one_and_partitions_are_used_evenly() {
        // The check value of CRC-32C.
        assert_eq!(KeyHash::of(b"123456789"), KeyHash(0xe306_9283));
        assert_eq!(KeyHash(0).partition(), VirtualPartition(0));
        assert_eq!(KeyHash(u32::MAX).partition(), VirtualPartition(127));
        let mut counts = [0; VIRTUAL_PARTITIONS as usize];
        for number in 0..128_000_u64 {
            counts[KeyHash::of(&number.to_le_bytes()).partition().0 as usize] += 1;
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }
}
