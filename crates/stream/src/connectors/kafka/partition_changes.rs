use std::collections::{BTreeMap, BTreeSet};

use super::TopicPartition;

/// Looks in a row that have to miss a partition before it is gone: a broker that has just started may not know all topics yet.
const MISSES_TO_BE_GONE: u32 = 5;

/// Partitions of a subscription, as brokers list them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Listing {
    /// Partitions that are there.
    pub there: BTreeSet<TopicPartition>,
    /// Topics that are there, of which brokers cannot say now which partitions they have.
    pub unsettled: BTreeSet<String>,
}

/// Partitions that appear and vanish while a query runs.
#[derive(Debug)]
pub(super) struct PartitionChanges {
    /// Partitions that the query reads.
    known: BTreeSet<TopicPartition>,
    /// Looks in a row that missed a known partition.
    misses: BTreeMap<TopicPartition, u32>,
}

/// Changes that a look at the brokers' list found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Partitions that the query does not read yet. They are found again until they are [`added`](PartitionChanges::added).
    pub new: Vec<TopicPartition>,
    /// Partitions that are gone. One that comes back is new.
    pub gone: Vec<TopicPartition>,
}

impl PartitionChanges {
    /// Changes from these partitions on.
    pub fn new(known: BTreeSet<TopicPartition>) -> Self {
        Self { known, misses: BTreeMap::new() }
    }

    /// Takes what brokers list now.
    pub fn look(&mut self, listing: &Listing) -> Found {
        let mut found = Found::default();
        found.new.extend(listing.there.difference(&self.known).cloned());
        let is_missed = |place: &&TopicPartition| {
            !listing.there.contains(*place) && !listing.unsettled.contains(&place.topic)
        };
        let missed: BTreeSet<TopicPartition> = self.known.iter().filter(is_missed).cloned().collect();
        self.misses.retain(|place, _| missed.contains(place));
        for place in missed {
            let misses = self.misses.entry(place.clone()).or_default();
            *misses += 1;
            if *misses >= MISSES_TO_BE_GONE {
                self.misses.remove(&place);
                self.known.remove(&place);
                found.gone.push(place);
            }
        }
        found
    }

    /// A new partition is read from now on.
    pub fn added(&mut self, place: TopicPartition) {
        self.known.insert(place);
    }

    /// Partitions that are read.
    pub fn known(&self) -> &BTreeSet<TopicPartition> {
        &self.known
    }

    /// True if a partition is missing and not gone yet: the next look should come soon.
    pub fn is_unsure(&self) -> bool {
        !self.misses.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(names: &[(&str, i32)]) -> BTreeSet<TopicPartition> {
        names
            .iter()
            .map(|(topic, partition)| TopicPartition { topic: (*topic).into(), partition: *partition })
            .collect()
    }

    fn listing(there: &[(&str, i32)], unsettled: &[&str]) -> Listing {
        Listing {
            there: places(there),
            unsettled: unsettled.iter().map(|topic| (*topic).to_owned()).collect(),
        }
    }

    #[test]
    fn a_new_partition_is_found_until_it_is_read() {
        let mut changes = PartitionChanges::new(places(&[("a", 0)]));
        let there = listing(&[("a", 0), ("a", 1), ("b", 0)], &[]);
        assert_eq!(changes.look(&listing(&[("a", 0)], &[])), Found::default());
        let found = changes.look(&there);
        assert_eq!((found.new.len(), found.gone.len()), (2, 0));
        assert_eq!(changes.look(&there), found, "nobody could read them yet");
        found.new.into_iter().for_each(|place| changes.added(place));
        assert_eq!(changes.look(&there), Found::default());
        assert_eq!(changes.known(), &there.there);
    }

    #[test]
    fn a_partition_is_gone_after_several_looks_in_a_row_and_new_when_it_comes_back() {
        let mut changes = PartitionChanges::new(places(&[("a", 0), ("b", 0)]));
        let (all, one) = (listing(&[("a", 0), ("b", 0)], &[]), listing(&[("a", 0)], &[]));
        for _ in 0..3 {
            for _ in 1..MISSES_TO_BE_GONE {
                assert_eq!(changes.look(&one), Found::default());
                assert!(changes.is_unsure());
            }
            // A broker that had just started knows it now.
            assert_eq!(changes.look(&all), Found::default());
            assert!(!changes.is_unsure());
        }
        let gone: Vec<Found> = (0..MISSES_TO_BE_GONE).map(|_| changes.look(&one)).collect();
        let b = Vec::from_iter(places(&[("b", 0)]));
        assert_eq!(gone.last(), Some(&Found { new: Vec::new(), gone: b.clone() }));
        assert_eq!(changes.look(&one), Found::default(), "it is said once");
        assert_eq!(changes.look(&all), Found { new: b, gone: Vec::new() });
    }

    #[test]
    fn a_topic_whose_leaders_are_being_found_is_not_gone() {
        let mut changes = PartitionChanges::new(places(&[("a", 0)]));
        for _ in 0..3 * MISSES_TO_BE_GONE {
            assert_eq!(changes.look(&listing(&[], &["a"])), Found::default());
            assert!(!changes.is_unsure());
        }
    }
}
