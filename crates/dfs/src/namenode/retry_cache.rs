//! The answers of calls that are carried out at most once, for clients that ask again.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;

use crate::ids::CallerId;

/// Milliseconds after which an answer may be forgotten, as in HDFS (`dfs.namenode.retrycache.expirytime.millis`).
const KEPT_MS: u64 = 600_000;
/// Answers in a generation; one that is full makes room before its time.
const GENERATION_ENTRIES_MAX: usize = 500_000;
/// Bytes of the answers of a generation, likewise.
const GENERATION_BYTES_MAX: usize = 64 << 20;
/// Bytes of a chunk of answers. A longer answer has one of its own.
const CHUNK_BYTES: usize = 32 << 10;
/// Bytes before an answer: the client, the call, and the answer's length.
const HEAD_BYTES: usize = 24;

/// Answers by caller and call.
///
/// There are two generations, and each [`KEPT_MS`] the older one is dropped: an answer is kept for at least that long, and at
/// most for twice as long. No entry has a time of its own, so a clock that jumps changes nothing.
#[derive(Debug, Default)]
pub struct RetryCache {
    young: Generation,
    old: Generation,
    turned_ms: u64,
    hasher: RandomState,
}

/// The answers as they were at one moment: it shares the chunks of them.
#[derive(Debug)]
pub struct Answers([Log; 2]);

/// Answers one behind the other, and where each begins.
#[derive(Debug, Default)]
struct Generation {
    log: Log,
    index: HashTable<Position>,
}

/// Answers one behind the other. Each has 16 bytes of the client's id, four each of the call's number and of the length,
/// low bytes first, and then its own.
#[derive(Clone, Debug, Default)]
struct Log {
    chunks: Vec<Arc<Vec<u8>>>,
    bytes: usize,
}

/// Place of an answer: the number of its chunk times [`CHUNK_BYTES`], and the byte in it.
#[derive(Clone, Copy, Debug)]
struct Position(u32);

impl RetryCache {
    /// The answer that the call got before.
    pub fn get(&self, caller: &CallerId) -> Option<&[u8]> {
        let hash = self.hasher.hash_one(caller);
        self.young.get(hash, caller).or_else(|| self.old.get(hash, caller))
    }

    /// Keeps an answer.
    pub fn insert(&mut self, caller: CallerId, answer: &[u8]) {
        let needed = HEAD_BYTES + answer.len();
        if self.young.index.len() >= GENERATION_ENTRIES_MAX
            || self.young.log.bytes + needed > GENERATION_BYTES_MAX
        {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(&self.hasher, &caller, answer);
    }

    /// How many answers there are.
    pub fn count(&self) -> usize {
        self.old.index.len() + self.young.index.len()
    }

    /// Drops the older generation when it is time; `steady_ms` never jumps.
    pub fn expire(&mut self, steady_ms: u64) {
        if steady_ms.saturating_sub(self.turned_ms) >= KEPT_MS {
            self.old = std::mem::take(&mut self.young);
            self.turned_ms = steady_ms;
        }
    }

    /// All answers as they are now.
    pub fn answers(&self) -> Answers {
        Answers([self.old.log.clone(), self.young.log.clone()])
    }
}

impl Answers {
    /// All of them, the older ones first.
    pub fn iter(&self) -> impl Iterator<Item = (CallerId, &[u8])> {
        self.0.iter().flat_map(Log::iter)
    }
}

impl Generation {
    fn get(&self, hash: u64, caller: &CallerId) -> Option<&[u8]> {
        let position = self.index.find(hash, |position| self.log.at(*position).0 == *caller)?;
        Some(self.log.at(*position).1)
    }

    fn insert(&mut self, hasher: &RandomState, caller: &CallerId, answer: &[u8]) {
        let (hash, position) = (hasher.hash_one(caller), self.log.push(caller, answer));
        let log = &self.log;
        match self.index.find_mut(hash, |position| log.at(*position).0 == *caller) {
            Some(known) => *known = position,
            None => {
                let hash_of = |position: &Position| hasher.hash_one(log.at(*position).0);
                self.index.insert_unique(hash, position, hash_of);
            }
        }
    }
}

impl Log {
    fn push(&mut self, caller: &CallerId, answer: &[u8]) -> Position {
        let needed = HEAD_BYTES + answer.len();
        if self.chunks.last().is_none_or(|chunk| chunk.len() + needed > CHUNK_BYTES) {
            self.chunks.push(Arc::new(Vec::with_capacity(CHUNK_BYTES.max(needed))));
        }
        let number = self.chunks.len() - 1;
        let chunk = Arc::make_mut(&mut self.chunks[number]);
        // Only an answer that is alone in its chunk is longer than that.
        let position = u32::try_from(number * CHUNK_BYTES + chunk.len()).expect("a generation is small");
        let length = u32::try_from(answer.len()).expect("an answer is shorter than a frame");
        chunk.extend_from_slice(&caller.client);
        chunk.extend_from_slice(&caller.call.to_le_bytes());
        chunk.extend_from_slice(&length.to_le_bytes());
        chunk.extend_from_slice(answer);
        self.bytes += needed;
        Position(position)
    }

    fn at(&self, Position(position): Position) -> (CallerId, &[u8]) {
        let (number, at) = (position as usize / CHUNK_BYTES, position as usize % CHUNK_BYTES);
        entry(&self.chunks[number][at..]).expect("an answer is at its position")
    }

    fn iter(&self) -> impl Iterator<Item = (CallerId, &[u8])> {
        self.chunks.iter().flat_map(|chunk| {
            let mut left = &chunk[..];
            std::iter::from_fn(move || {
                let found = entry(left)?;
                left = &left[HEAD_BYTES + found.1.len()..];
                Some(found)
            })
        })
    }
}

/// The answer with which some bytes begin; none at the end.
fn entry(bytes: &[u8]) -> Option<(CallerId, &[u8])> {
    let (client, bytes) = bytes.split_first_chunk::<16>()?;
    let (call, bytes) = bytes.split_first_chunk::<4>()?;
    let (length, bytes) = bytes.split_first_chunk::<4>()?;
    let caller = CallerId { client: *client, call: i32::from_le_bytes(*call) };
    Some((caller, &bytes[..u32::from_le_bytes(*length) as usize]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(call: i32) -> CallerId {
        CallerId { client: [7; 16], call }
    }

    #[test]
    fn an_answer_is_kept_for_ten_minutes_at_least_and_twenty_at_most() {
        let mut cache = RetryCache::default();
        cache.expire(KEPT_MS);
        cache.insert(caller(1), b"one");
        cache.expire(2 * KEPT_MS - 1);
        cache.insert(caller(2), b"two");
        cache.expire(2 * KEPT_MS);
        assert_eq!(cache.get(&caller(1)), Some(&b"one"[..]));
        cache.insert(caller(3), b"three");
        cache.expire(3 * KEPT_MS);
        assert_eq!([1, 2, 3].map(|call| cache.get(&caller(call)).is_some()), [false, false, true]);
    }

    #[test]
    fn answers_of_any_length_are_found_again_and_a_copy_stays_as_it_was() {
        let answer = |call: i32| -> Vec<u8> {
            let length = if call % 1000 == 7 { CHUNK_BYTES + 3 } else { call as usize % 300 };
            (0..length).map(|at| (at as i32 * 31 + call) as u8).collect()
        };
        let mut cache = RetryCache::default();
        (0..3000).for_each(|call| cache.insert(caller(call), &answer(call)));
        let copy = cache.answers();
        (3000..4000).for_each(|call| cache.insert(caller(call), &answer(call)));
        assert_eq!(cache.count(), 4000);
        for call in 0..4000 {
            assert_eq!(cache.get(&caller(call)), Some(&answer(call)[..]), "{call}");
        }
        assert_eq!(cache.get(&caller(4000)), None);
        assert_eq!(cache.get(&CallerId { client: [8; 16], call: 1 }), None);
        let kept: Vec<_> = copy.iter().map(|(caller, answer)| (caller.call, answer.to_vec())).collect();
        assert_eq!(kept, (0..3000).map(|call| (call, answer(call))).collect::<Vec<_>>());
        // The last answer to a call counts.
        cache.insert(caller(5), b"another");
        assert_eq!((cache.get(&caller(5)), cache.count()), (Some(&b"another"[..]), 4000));
    }

    #[test]
    fn a_generation_that_is_full_makes_room_before_its_time() {
        let mut cache = RetryCache::default();
        let long = vec![5; 16 << 20];
        (0..4).for_each(|call| cache.insert(caller(call), &long));
        assert_eq!((cache.old.index.len(), cache.young.index.len()), (3, 1));
        (4..8).for_each(|call| cache.insert(caller(call), &long));
        assert!(cache.get(&caller(0)).is_none() && cache.get(&caller(7)).is_some());
        let mut cache = RetryCache::default();
        (0..GENERATION_ENTRIES_MAX as i32 + 1).for_each(|call| cache.insert(caller(call), b""));
        assert_eq!((cache.old.index.len(), cache.young.index.len()), (GENERATION_ENTRIES_MAX, 1));
    }
}
