//! The answers of calls that are carried out at most once, for clients that ask again.

use std::collections::HashMap;

use bytes::Bytes;

use crate::ids::CallerId;

/// Milliseconds after which an answer may be forgotten, as in HDFS (`dfs.namenode.retrycache.expirytime.millis`).
const KEPT_MS: u64 = 600_000;
/// Answers in a generation; one that is full makes room before its time.
const GENERATION_ENTRIES_MAX: usize = 500_000;

/// Answers by caller and call.
///
/// There are two generations, and each [`KEPT_MS`] the older one is dropped: an answer is kept for at least that long, and at
/// most for twice as long. No entry has a time of its own, so a clock that jumps changes nothing.
#[derive(Debug, Default)]
pub struct RetryCache {
    young: HashMap<CallerId, Bytes>,
    old: HashMap<CallerId, Bytes>,
    turned_ms: u64,
}

impl RetryCache {
    /// The answer that the call got before.
    pub fn get(&self, caller: &CallerId) -> Option<Bytes> {
        self.young.get(caller).or_else(|| self.old.get(caller)).cloned()
    }

    /// Keeps an answer.
    pub fn insert(&mut self, caller: CallerId, answer: &[u8]) {
        if self.young.len() >= GENERATION_ENTRIES_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        // An answer of its own: a shared one keeps a count beside its bytes.
        self.young.insert(caller, Bytes::copy_from_slice(answer));
    }

    /// How many answers there are.
    pub fn count(&self) -> usize {
        self.old.len() + self.young.len()
    }

    /// Drops the older generation when it is time; `steady_ms` never jumps.
    pub fn expire(&mut self, steady_ms: u64) {
        if steady_ms.saturating_sub(self.turned_ms) >= KEPT_MS {
            self.old = std::mem::take(&mut self.young);
            self.turned_ms = steady_ms;
        }
    }

    /// All answers, the older generation first.
    pub fn iter(&self) -> impl Iterator<Item = (&CallerId, &Bytes)> {
        self.old.iter().chain(&self.young)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_kept_for_ten_minutes_at_least_and_twenty_at_most() {
        let caller = |call| CallerId { client: [7; 16], call };
        let mut cache = RetryCache::default();
        cache.expire(KEPT_MS);
        cache.insert(caller(1), b"one");
        cache.expire(2 * KEPT_MS - 1);
        cache.insert(caller(2), b"two");
        cache.expire(2 * KEPT_MS);
        assert_eq!(cache.get(&caller(1)).as_deref(), Some(&b"one"[..]));
        cache.insert(caller(3), b"three");
        cache.expire(3 * KEPT_MS);
        assert_eq!([1, 2, 3].map(|call| cache.get(&caller(call)).is_some()), [false, false, true]);
    }
}
