//! What the throughput cases write, and the check that it comes back.

use bytes::Bytes;
use yeoul_base::SplitMix;

use super::baseline::PIECE;
use yeoul_base::{Error, ErrorKind, Result};
use yeoul_shuffle::ids::PartitionId;
use yeoul_shuffle::wire::batch::BatchHeader;

/// Map tasks and readers at a time.
pub(super) const TASKS: i32 = 4;
pub(super) const PARTITIONS: i32 = 16;

/// Batches start at this many places of the noise: more than 4 GiB of them begin to repeat.
const PLACES: u64 = 1 << 16;
/// Bytes from a place to the next: a cache line.
const PLACE: usize = 64;
/// Places from a batch to the next one, odd, so that all are used: neighbours share no bytes, which would make them
/// quicker to read from the cache.
const STEP: u64 = 1031;
/// Bytes at both ends of a batch that every read compares.
const END: usize = 16;

/// Batches of 64 KiB from each map task, to all partitions in turn. They are views of the same few MiB, so that it
/// costs no measured time to make each unlike the others.
#[derive(Clone)]
pub(super) struct Written {
    noise: Bytes,
    /// Of each map task.
    batches: u64,
}

impl Written {
    /// As many whole batches as fit into these bytes, the same number from each map task.
    pub(super) fn new(bytes: u64) -> Self {
        let len = PLACES as usize * PLACE + PIECE;
        // It is no easier for a disk or a file system than real data.
        let mut stream = SplitMix::new(0);
        let noise: Vec<u8> = (0..len / 8).flat_map(|_| stream.next_u64().to_le_bytes()).collect();
        Self { noise: noise.into(), batches: bytes / PIECE as u64 / TASKS as u64 }
    }

    /// Batches of each map task.
    pub(super) fn batches(&self) -> u64 {
        self.batches
    }

    /// Bytes in all.
    pub(super) fn bytes(&self) -> u64 {
        self.batches * PIECE as u64 * TASKS as u64
    }

    /// The partition to which a map task writes this batch, counted from 0.
    pub(super) fn partition(&self, batch: u64) -> PartitionId {
        PartitionId((batch % PARTITIONS as u64) as i32)
    }

    /// The batch of a map task.
    pub(super) fn payload(&self, map: i32, batch: u64) -> Bytes {
        // Wrapping changes nothing, because 2^64 is a multiple of `PLACES`.
        let number = (map as u64).wrapping_mul(self.batches).wrapping_add(batch);
        let place = number.wrapping_mul(STEP) % PLACES;
        let start = place as usize * PLACE;
        self.noise.slice(start..start + PIECE)
    }

    /// All batches: those of the first map task, then those of the next.
    pub(super) fn payloads(&self) -> impl Iterator<Item = Bytes> {
        (0..TASKS).flat_map(move |map| (0..self.batches).map(move |batch| self.payload(map, batch)))
    }

    /// Begins to read a partition.
    pub(super) fn read(&self, partition: PartitionId, compare: Compare) -> Reading {
        let rows = self.batches.div_ceil(PARTITIONS as u64);
        let there = (0..self.batches).filter(|batch| self.partition(*batch) == partition).count();
        Reading {
            written: self.clone(),
            partition,
            compare,
            seen: vec![false; rows as usize * TASKS as usize],
            missing: there * TASKS as usize,
        }
    }
}

/// How much of each batch is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compare {
    /// Its length and both ends: cheap enough for a read that is timed.
    Ends,
    /// Every byte.
    Whole,
}

/// A partition that is being read: what has come so far.
pub(super) struct Reading {
    written: Written,
    partition: PartitionId,
    compare: Compare,
    /// By map task, then in the order in which it wrote to this partition.
    seen: Vec<bool>,
    missing: usize,
}

impl Reading {
    /// Takes a batch.
    ///
    /// # Errors
    /// `DataLoss` if it was not written to this partition, is not what was written, or has come before.
    pub(super) fn take(&mut self, header: &BatchHeader, payload: &[u8]) -> Result<()> {
        let (partition, map, id) = (self.partition, header.map.0, header.batch.0);
        // The client's writer counts from 1.
        let batch = u64::try_from(id).ok().and_then(|id| id.checked_sub(1));
        let batch = batch.filter(|batch| {
            (0..TASKS).contains(&map)
                && *batch < self.written.batches
                && self.written.partition(*batch) == partition
        });
        let Some(batch) = batch else {
            return Err(lost(format!(
                "partition {partition} has batch {id} of map {map}, which is not its own"
            )));
        };
        let expected = self.written.payload(map, batch);
        let same = match self.compare {
            Compare::Whole => payload == &expected[..],
            Compare::Ends => {
                payload.len() == PIECE
                    && payload[..END] == expected[..END]
                    && payload[PIECE - END..] == expected[PIECE - END..]
            }
        };
        if !same {
            return Err(lost(format!(
                "partition {partition}: batch {id} of map {map} is not what was written"
            )));
        }
        let row = (batch / PARTITIONS as u64) as usize;
        if std::mem::replace(&mut self.seen[row * TASKS as usize + map as usize], true) {
            return Err(lost(format!("partition {partition}: batch {id} of map {map} came twice")));
        }
        self.missing -= 1;
        Ok(())
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// `DataLoss` if a batch did not come.
    pub(super) fn end(self) -> Result<()> {
        match self.missing {
            0 => Ok(()),
            missing => Err(lost(format!("partition {}: {missing} batches did not come", self.partition))),
        }
    }
}

pub(super) fn lost(message: String) -> Error {
    Error::new(ErrorKind::DataLoss, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use yeoul_shuffle::ids::{AttemptId, BatchId, MapId};

    const READ: PartitionId = PartitionId(3);

    /// 40 batches of each map: partition 3 has 3 of each.
    fn written() -> Written {
        Written::new(40 * TASKS as u64 * PIECE as u64 + 5)
    }

    fn header(map: i32, batch: u64) -> BatchHeader {
        BatchHeader {
            map: MapId(map),
            attempt: AttemptId(0),
            batch: BatchId(batch as i32 + 1),
            len: PIECE as u32,
        }
    }

    /// The outcome of reading the partition when these batches of these maps come.
    fn read(batches: &[(i32, u64)]) -> Result<()> {
        let written = written();
        let mut reading = written.read(READ, Compare::Ends);
        for (map, batch) in batches {
            reading.take(&header(*map, *batch), &written.payload(*map, *batch))?;
        }
        reading.end()
    }

    fn all() -> Vec<(i32, u64)> {
        (0..TASKS).flat_map(|map| [3, 19, 35].map(|batch| (map, batch))).collect()
    }

    #[test]
    fn each_batch_once_is_right_in_any_order() {
        let mut batches = all();
        read(&batches).unwrap();
        batches.reverse();
        read(&batches).unwrap();
        assert_eq!((written().batches(), written().bytes()), (40, 160 * PIECE as u64));
    }

    #[test]
    fn a_lost_batch_is_not_made_up_for_by_a_doubled_one() {
        let mut batches = all();
        let lost = batches.pop().unwrap();
        let text = |batches: &[_]| read(batches).unwrap_err().to_string();
        assert_eq!(text(&batches), "partition 3: 1 batches did not come");
        batches.push(batches[0]);
        assert_eq!(text(&batches), "partition 3: batch 4 of map 0 came twice");
        batches.pop();
        batches.push((lost.0, lost.1 + 1));
        assert_eq!(text(&batches), "partition 3 has batch 37 of map 3, which is not its own");
        for strange in [(TASKS, 3), (-1, 3), (0, 51), (0, u64::MAX - 1)] {
            assert!(text(&[strange]).contains("not its own"), "{strange:?}");
        }
    }

    #[test]
    fn a_batch_that_is_another_ones_is_not_right() {
        let written = written();
        let other = written.payload(1, 19);
        for (compare, payload) in [
            (Compare::Ends, other.clone()),
            (Compare::Whole, other),
            (Compare::Ends, written.payload(1, 3).slice(..PIECE - 1)),
        ] {
            let error = written.read(READ, compare).take(&header(1, 3), &payload).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DataLoss, "{error}");
        }
        let mut middle = written.payload(1, 3).to_vec();
        middle[PIECE / 2] ^= 1;
        written.read(READ, Compare::Whole).take(&header(1, 3), &middle).unwrap_err();
    }

    #[test]
    fn no_two_batches_are_alike() {
        let written = written();
        let ends: std::collections::HashSet<_> = (0..TASKS)
            .flat_map(|map| (0..40).map(move |batch| (map, batch)))
            .map(|(map, batch)| written.payload(map, batch).slice(..END))
            .collect();
        assert_eq!(ends.len(), 160);
    }
}
