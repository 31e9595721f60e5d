use std::fmt;

use serde::{Deserialize, Serialize};

use super::{StateRows, VIRTUAL_PARTITIONS, VirtualPartition};

/// Set of virtual partitions: those whose keys a part of a table has. In a manifest it is a list of ranges, each as its first and
/// its last partition: `[[0,42],[64,127]]`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<[u16; 2]>", into = "Vec<[u16; 2]>")]
pub struct PartitionSet(u128);

/// A bit for each partition.
const _: () = assert!(VIRTUAL_PARTITIONS as u32 == u128::BITS);

impl PartitionSet {
    /// Set of all partitions: of a table that is not divided.
    pub const ALL: Self = Self(u128::MAX);
    /// Set of none.
    pub const EMPTY: Self = Self(0);

    /// Sets of so many shards, each a range as long as the others or by one partition longer: every partition is in one of them.
    ///
    /// # Panics
    /// If there are none or more than partitions.
    pub fn of_shards(shards: usize) -> Vec<Self> {
        assert!((1..=usize::from(VIRTUAL_PARTITIONS)).contains(&shards), "{shards} shards");
        let mut sets = vec![Self::EMPTY; shards];
        for number in 0..VIRTUAL_PARTITIONS {
            sets[VirtualPartition(number).shard(shards)].0 |= 1_u128 << number;
        }
        sets
    }

    /// True if it is the set of all.
    pub fn is_all(&self) -> bool {
        *self == Self::ALL
    }

    /// True if a partition is in it.
    pub fn contains(self, partition: VirtualPartition) -> bool {
        (self.0 >> partition.0) & 1 == 1
    }

    /// True if a partition is in both.
    pub fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Set of the partitions of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if all of its partitions are in another set.
    pub fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Asserts that rows are of keys in it.
    ///
    /// # Panics
    /// If one is not: two shards would have its key, and each a part of its rows.
    pub fn assert_holds(self, rows: &StateRows) {
        let stray = rows.hashes.iter().map(|hash| hash.partition()).find(|of| !self.contains(*of));
        assert!(stray.is_none(), "a key of {stray:?} is in the state of the partitions {self:?}");
    }

    /// Ranges of it, each as its first and its last partition.
    pub fn ranges(self) -> Vec<[u16; 2]> {
        let mut ranges: Vec<[u16; 2]> = Vec::new();
        for number in (0..VIRTUAL_PARTITIONS).filter(|number| self.contains(VirtualPartition(*number))) {
            match ranges.last_mut() {
                Some([_, last]) if *last + 1 == number => *last = number,
                _ => ranges.push([number, number]),
            }
        }
        ranges
    }
}

impl VirtualPartition {
    /// Number of the shard that has it among so many.
    pub fn shard(self, shards: usize) -> usize {
        usize::from(self.0) * shards / usize::from(VIRTUAL_PARTITIONS)
    }
}

impl Default for PartitionSet {
    /// A manifest that says nothing of partitions is of tables that are not divided.
    fn default() -> Self {
        Self::ALL
    }
}

impl From<PartitionSet> for Vec<[u16; 2]> {
    fn from(set: PartitionSet) -> Self {
        set.ranges()
    }
}

impl TryFrom<Vec<[u16; 2]>> for PartitionSet {
    type Error = String;

    fn try_from(ranges: Vec<[u16; 2]>) -> Result<Self, String> {
        let mut set = Self::EMPTY;
        for [first, last] in ranges {
            if first > last || last >= VIRTUAL_PARTITIONS {
                return Err(format!("there are no virtual partitions from {first} to {last}"));
            }
            for number in first..=last {
                set.0 |= 1_u128 << number;
            }
        }
        Ok(set)
    }
}

/// Ranges, as in `0-42,64-127`.
impl fmt::Display for PartitionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, [first, last]) in self.ranges().into_iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{first}-{last}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for PartitionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Bucket, KeyHash};

    #[test]
    fn every_partition_is_in_the_set_of_one_shard() {
        for shards in [1, 2, 3, 7, 127, 128] {
            let sets = PartitionSet::of_shards(shards);
            assert_eq!(sets.len(), shards);
            let sizes: Vec<u32> = sets.iter().map(|set| set.0.count_ones()).collect();
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(*least > 0 && most - least <= 1, "{shards}: {sizes:?}");
            assert!(sets.iter().all(|set| set.ranges().len() == 1));
            for number in 0..VIRTUAL_PARTITIONS {
                let partition = VirtualPartition(number);
                let having: Vec<usize> = (0..shards).filter(|at| sets[*at].contains(partition)).collect();
                assert_eq!(having, [partition.shard(shards)]);
            }
        }
    }

    #[test]
    fn a_set_is_written_as_its_ranges() {
        assert_eq!(serde_json::to_string(&PartitionSet::ALL).unwrap(), "[[0,127]]");
        let set: PartitionSet = serde_json::from_str("[[0,42],[64,64],[100,127]]").unwrap();
        assert_eq!(set.to_string(), "0-42,64-64,100-127");
        assert_eq!(serde_json::to_string(&set).unwrap(), "[[0,42],[64,64],[100,127]]");
        for wrong in ["[[0,128]]", "[[3,2]]", "[[-1,2]]", "7"] {
            assert!(serde_json::from_str::<PartitionSet>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sets_are_compared_partition_by_partition() {
        let [low, high] = PartitionSet::of_shards(2)[..] else { unreachable!() };
        assert!(!low.overlaps(high) && low.with(high).is_all());
        assert!(low.overlaps(PartitionSet::ALL) && low.is_within(PartitionSet::ALL));
        assert!(!PartitionSet::ALL.is_within(low) && PartitionSet::EMPTY.is_within(low));
    }

    #[test]
    #[should_panic(expected = "a key of Some(VirtualPartition(127)) is in the state of the partitions 0-63")]
    fn a_key_of_another_shard_is_not_taken_for_one_of_its_own() {
        let hashes = vec![KeyHash(0), KeyHash(u32::MAX)];
        let rows = StateRows { buckets: vec![Bucket(1); 2], hashes, ..StateRows::default() };
        PartitionSet::of_shards(2)[0].assert_holds(&rows);
    }
}
