//! What was removed, for some hours.

use std::collections::BTreeMap;
use std::time::Duration;

/// How long a removal is remembered: far longer than any message is on its way or any worker stays away with its data.
pub(super) const KEPT: Duration = Duration::from_secs(6 * 3600);
/// The most removals of each kind that are remembered; the oldest are dropped first.
pub(in crate::master::state) const COUNT_MAX: usize = 1 << 16;

/// Keys with the times of their removal.
#[derive(Debug)]
pub(super) struct Expiring<K> {
    /// Each key with the number of its removal. A time would not tell removals apart: those of a journal that is read back are
    /// of one instant.
    numbers: BTreeMap<K, u64>,
    /// The same in the other direction, with the time: oldest first.
    order: BTreeMap<u64, (Duration, K)>,
    /// The number of the next removal.
    next: u64,
}

impl<K> Default for Expiring<K> {
    fn default() -> Self {
        Self { numbers: BTreeMap::new(), order: BTreeMap::new(), next: 0 }
    }
}

impl<K: Ord + Clone> Expiring<K> {
    /// Removes a key; the last removal counts. Returns the key that has to go for it, if there are too many.
    pub(super) fn remove(&mut self, now: Duration, key: K) -> Option<K> {
        self.restore(&key);
        self.numbers.insert(key.clone(), self.next);
        self.order.insert(self.next, (now, key));
        self.next += 1;
        if self.order.len() > COUNT_MAX { self.drop_oldest() } else { None }
    }

    pub(super) fn restore(&mut self, key: &K) {
        if let Some(number) = self.numbers.remove(key) {
            self.order.remove(&number);
        }
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.numbers.contains_key(key)
    }

    /// All keys, sorted.
    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.numbers.keys()
    }

    /// The keys from one to another, both included.
    pub(super) fn keys_in(&self, first: K, last: K) -> impl Iterator<Item = &K> {
        self.numbers.range(first..=last).map(|(key, _)| key)
    }

    /// Forgets what was removed too long ago, and returns it.
    pub(super) fn expire(&mut self, now: Duration) -> Vec<K> {
        let mut expired = Vec::new();
        while self.order.first_key_value().is_some_and(|(_, (at, _))| now.saturating_sub(*at) >= KEPT) {
            expired.extend(self.drop_oldest());
        }
        expired
    }

    fn drop_oldest(&mut self) -> Option<K> {
        let (_, (_, key)) = self.order.pop_first()?;
        self.numbers.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_for_hours_and_a_bounded_number() {
        let mut expiring = Expiring::default();
        let hour = Duration::from_secs(3600);
        assert_eq!(expiring.remove(hour, 1), None);
        assert_eq!(expiring.remove(2 * hour, 1), None);
        assert!(expiring.expire(hour + KEPT).is_empty(), "the second removal counts");
        assert!(expiring.contains(&1));
        assert_eq!(expiring.expire(2 * hour + KEPT), [1]);
        assert!(!expiring.contains(&1));
        assert!((0..COUNT_MAX).all(|key| expiring.remove(hour, key).is_none()));
        assert_eq!(expiring.remove(hour, COUNT_MAX), Some(0));
        assert!(!expiring.contains(&0) && expiring.contains(&1));
    }

    #[test]
    fn of_removals_in_one_instant_the_last_counts() {
        let mut expiring = Expiring::default();
        let now = Duration::from_secs(1);
        assert_eq!(expiring.remove(now, 0), None);
        expiring.restore(&0);
        (1..COUNT_MAX).for_each(|key| assert_eq!(expiring.remove(now, key), None));
        assert_eq!(expiring.remove(now, 0), None);
        assert_eq!(expiring.remove(now, COUNT_MAX), Some(1), "the first removal of the other does not count");
        assert!(expiring.contains(&0));
    }
}
