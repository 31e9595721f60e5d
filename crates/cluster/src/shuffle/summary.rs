//! Summary of a map, for the scheduler: how many rows it has written to each partition.

use ballista_core::serde::protobuf::ShuffleWritePartition;
use datafusion::common::Result;
use prost::Message;

use super::corrupt;
use super::place::Place;

/// Counts of a map, by partition. Numbers of partitions that got nothing are left out.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Summary {
    #[prost(uint32, repeated, tag = "1")]
    partitions: Vec<u32>,
    #[prost(uint64, repeated, tag = "2")]
    rows: Vec<u64>,
    #[prost(uint64, repeated, tag = "3")]
    payloads: Vec<u64>,
    #[prost(uint64, repeated, tag = "4")]
    bytes: Vec<u64>,
}

/// Counts of what a map has written to one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub rows: u64,
    pub payloads: u64,
    pub bytes: u64,
}

impl Summary {
    /// The summary of what was written, by partition.
    pub fn of(written: &[Written]) -> Self {
        let mut summary = Self::default();
        for (partition, written) in (0..).zip(written) {
            if written.payloads > 0 {
                summary.partitions.push(partition);
                summary.rows.push(written.rows);
                summary.payloads.push(written.payloads);
                summary.bytes.push(written.bytes);
            }
        }
        summary
    }

    /// The summary that a map has given.
    ///
    /// # Errors
    /// `Corrupt` for what is none.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let summary = Self::decode(bytes).ok().filter(|summary| {
            let count = summary.partitions.len();
            [summary.rows.len(), summary.payloads.len(), summary.bytes.len()] == [count; 3]
        });
        summary.ok_or_else(|| corrupt("a map of a shuffle says nothing of itself that can be read"))
    }

    /// The same for the scheduler, with the place of the map.
    ///
    /// # Errors
    /// As for [`Place::number`].
    pub fn at(&self, place: Place) -> Result<Vec<ShuffleWritePartition>> {
        let number = place.number()?;
        let counts = self.rows.iter().zip(&self.payloads).zip(&self.bytes);
        let each = self.partitions.iter().zip(counts);
        Ok(each
            .map(|(partition, ((rows, payloads), bytes))| ShuffleWritePartition {
                partition_id: u64::from(*partition),
                num_batches: *payloads,
                num_rows: *rows,
                num_bytes: *bytes,
                file_id: Some(number),
                is_sort_shuffle: true,
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use yeoul_shuffle::ids::{AttemptId, MapId};

    use super::*;

    #[test]
    fn a_summary_tells_of_each_partition_that_got_rows() {
        let some = Written { rows: 7, payloads: 2, bytes: 300 };
        let summary = Summary::of(&[Written::default(), some, Written::default(), some]);
        let summary = Summary::read(&summary.encode_to_vec()).unwrap();
        let place = Place { partitions: 4, map: MapId(5), attempt: AttemptId(1) };
        let told = summary.at(place).unwrap();
        let numbers: Vec<_> = told.iter().map(|told| (told.partition_id, told.num_rows)).collect();
        assert_eq!(numbers, [(1, 7), (3, 7)]);
        assert!(told.iter().all(|told| told.file_id.map(Place::of_number) == Some(place)));
        assert!(Summary::of(&[]).at(place).unwrap().is_empty());
    }

    #[test]
    fn what_lacks_a_count_is_no_summary() {
        let torn = Summary { partitions: vec![1, 2], rows: vec![3], payloads: vec![1, 1], bytes: vec![4, 5] };
        for bytes in [torn.encode_to_vec(), b"\xff\xff".to_vec()] {
            assert!(Summary::read(&bytes).is_err());
        }
    }
}
