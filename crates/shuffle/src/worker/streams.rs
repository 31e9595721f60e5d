//! The streams that readers have open. Their numbers are valid on the whole worker, because a client may go on with a
//! stream over another connection.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::memory::{Charge, Memory};
use super::store::read::Stream;
use crate::error::{Error, Kind, Result};
use crate::ids::ShuffleKey;

/// Streams open at once; a client opens one for each location that it reads.
const STREAMS_MAX: usize = 1 << 20;

/// With more than this, streams that have been idle for long make room.
const STREAMS_MANY: usize = STREAMS_MAX / 2;

/// The part of the memory, 1/16, above which they make room, too.
const MEMORY_PART: u64 = 16;

/// The part of the memory, 1/4, beyond which none is opened: with the most indexes it leaves room for batches.
const MEMORY_PART_MAX: u64 = 4;

/// What a stream needs besides itself: its entries in the two tables, whose capacity may be twice what is in them.
const PLACE_BYTES: u64 = 2 * (size_of::<(i64, Open)>() + size_of::<i64>()) as u64;

#[derive(Debug)]
struct Open {
    stream: Arc<Stream>,
    used_ms: u64,
    cost: Charge,
}

#[derive(Debug, Default)]
struct Table {
    open: HashMap<i64, Open>,
    /// The numbers of each shuffle's streams: when it goes they go, without a search among a million others.
    of_shuffle: HashMap<ShuffleKey, HashSet<i64>>,
    /// What all of them are charged.
    bytes: u64,
    next: i64,
    /// Streams that were looked at to be closed.
    #[cfg(test)]
    looked_at: usize,
}

impl Table {
    /// A number that no stream has had.
    fn number(&mut self) -> i64 {
        let number = self.next;
        self.next = number.wrapping_add(1) & i64::MAX;
        number
    }

    fn insert(&mut self, number: i64, open: Open) {
        self.bytes += open.cost.bytes();
        self.of_shuffle.entry(open.stream.shuffle().key().clone()).or_default().insert(number);
        self.open.insert(number, open);
    }

    fn remove(&mut self, number: i64) -> Option<Open> {
        #[cfg(test)]
        {
            self.looked_at += 1;
        }
        let open = self.open.remove(&number)?;
        self.bytes -= open.cost.bytes();
        let key = open.stream.shuffle().key();
        if let Some(numbers) = self.of_shuffle.get_mut(key) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.of_shuffle.remove(key);
            }
        }
        Some(open)
    }

    fn is_crowded(&self, bytes_max: u64) -> bool {
        self.open.len() > STREAMS_MANY || self.bytes > bytes_max
    }
}

/// The open streams.
#[derive(Debug)]
pub struct Streams(Mutex<Table>);

impl Streams {
    /// No streams. Numbers begin at one that is drawn at random for each process, so that a number from before a restart
    /// does not reach another stream.
    pub fn new(incarnation: u64) -> Self {
        let next = (incarnation >> 1).cast_signed();
        Self(Mutex::new(Table { next, ..Table::default() }))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a stream and numbers it. One without chunks is not kept: a client that knows from a location's maps that
    /// there are none for it opens a stream all the same, and never closes it.
    ///
    /// # Errors
    /// `ResourceExhausted` when there are too many.
    pub fn insert(&self, stream: Stream, memory: &Memory, now_ms: u64) -> Result<i64> {
        if stream.chunks().is_empty() {
            return Ok(self.table().number());
        }
        let cost = memory.charge_fixed(stream.cost() + PLACE_BYTES);
        let bytes_max = memory.limit() / MEMORY_PART_MAX;
        let mut table = self.table();
        let (count, bytes) = (table.open.len(), table.bytes + cost.bytes());
        if count >= STREAMS_MAX || bytes > bytes_max {
            let text =
                format!("{count} streams are open, and one more would have {bytes} of {bytes_max} bytes");
            return Err(Error::new(Kind::ResourceExhausted, text));
        }
        let number = table.number();
        table.insert(number, Open { stream: Arc::new(stream), used_ms: now_ms, cost });
        Ok(number)
    }

    /// A stream that is read now; it counts as used.
    ///
    /// # Errors
    /// `Conflict` if it is not open: what it was opened for may still be here.
    pub fn get(&self, number: i64, now_ms: u64) -> Result<Arc<Stream>> {
        let mut table = self.table();
        match table.open.get_mut(&number) {
            Some(open) => {
                open.used_ms = now_ms;
                Ok(Arc::clone(&open.stream))
            }
            None => Err(Error::new(Kind::Conflict, format!("stream {number} is not open"))),
        }
    }

    /// Closes a stream.
    pub fn remove(&self, number: i64) {
        let removed = self.table().remove(number);
        drop(removed); // outside the lock
    }

    /// Closes the streams of a shuffle that is deleted.
    pub fn remove_shuffle(&self, key: &ShuffleKey) {
        let mut table = self.table();
        let numbers = table.of_shuffle.remove(key).unwrap_or_default();
        let removed: Vec<_> = numbers.into_iter().filter_map(|number| table.remove(number)).collect();
        drop(table);
        drop(removed);
    }

    /// If streams are many or take much of the memory, closes some that nobody used since `before_ms`, the longest
    /// unused first. Otherwise they stay as long as their shuffle: a task opens all locations of a partition when it
    /// begins, and may come to the last of them hours later.
    pub fn make_room(&self, before_ms: u64, memory: &Memory) {
        // None may stand in the way of a push when memory is full of fixed bytes.
        let bytes_max = if memory.is_mostly_fixed() { 0 } else { memory.limit() / MEMORY_PART };
        let mut removed = Vec::new();
        let mut table = self.table();
        if table.is_crowded(bytes_max) {
            let unused = table.open.iter().filter(|(_, open)| open.used_ms < before_ms);
            let mut unused: Vec<_> = unused.map(|(number, open)| (open.used_ms, *number)).collect();
            unused.sort_unstable();
            for (_, number) in unused {
                if !table.is_crowded(bytes_max) {
                    break;
                }
                removed.extend(table.remove(number));
            }
        }
        drop(table);
        drop(removed);
    }

    /// Streams open now.
    pub fn len(&self) -> usize {
        self.table().open.len()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::ids::{FileName, LocationId, Mode};
    use crate::worker::index::MapRange;
    use crate::worker::node::Node;
    use crate::worker::node::tests::{committed, node};

    impl Streams {
        /// How many streams were looked at to be closed.
        pub fn looked_at(&self) -> usize {
            self.table().looked_at
        }
    }

    /// Opens the one location of a shuffle, which is made if there is none.
    pub fn open(node: &Node, key: &ShuffleKey, now_ms: u64) -> i64 {
        let file = FileName { location: LocationId::new(0, 0), mode: Mode::Primary };
        let shuffle = node.store.find(key).unwrap_or_else(|| committed(node, key, file));
        let stream = node.store.open_stream(&shuffle, file, MapRange::Whole, 1 << 20).unwrap();
        node.streams.insert(stream, node.store.memory(), now_ms).unwrap()
    }

    #[test]
    fn a_stream_lasts_as_long_as_its_shuffle_unless_the_room_is_wanted() {
        let place = tempfile::tempdir().unwrap();
        let node = node(&place);
        let (streams, memory) = (&node.streams, node.store.memory());
        let key = ShuffleKey::new("app", 1);
        streams.remove(open(&node, &key, 0)); // the shuffle stays
        let before = memory.used();
        let numbers = [10, 20, 30].map(|now_ms| open(&node, &key, now_ms));
        let left = || numbers.map(|number| streams.table().open.contains_key(&number));
        let charged = || streams.table().bytes;
        assert_eq!(memory.used(), before + charged());
        assert!(charged() > 0);

        streams.make_room(u64::MAX, memory);
        assert_eq!(left(), [true; 3], "there is room");
        streams.get(numbers[0], 40).unwrap();
        let room_for_two = Memory::new(charged() / 3 * 2 * MEMORY_PART);
        streams.make_room(15, &room_for_two);
        assert_eq!(left(), [true; 3], "none is idle");
        streams.make_room(u64::MAX, &room_for_two);
        assert_eq!(left(), [true, false, true], "the longest unused goes, and no more than have to");
        let full = Memory::new(1 << 20);
        let _index = full.charge_fixed(1 << 20);
        streams.make_room(35, &full);
        assert_eq!(left(), [true, false, false]);
        streams.remove(numbers[0]);
        assert_eq!((charged(), memory.used(), streams.table().of_shuffle.len()), (0, before, 0));
    }

    /// A client that opens streams and closes none fills the memory with bytes that no spill gives back.
    #[test]
    fn streams_take_a_part_of_the_memory_and_no_more() {
        let place = tempfile::tempdir().unwrap();
        let node = node(&place);
        let key = ShuffleKey::new("app", 1);
        let first = open(&node, &key, 0);
        let cost = node.streams.table().bytes;
        let memory = Memory::new(3 * cost * MEMORY_PART_MAX);
        let file = FileName { location: LocationId::new(0, 0), mode: Mode::Primary };
        let another = || {
            let stream =
                node.store.open_stream(&node.store.find(&key).unwrap(), file, MapRange::Whole, 1 << 20);
            node.streams.insert(stream.unwrap(), &memory, 0)
        };
        assert!(another().is_ok() && another().is_ok());
        assert_eq!(another().unwrap_err().kind(), Kind::ResourceExhausted);
        assert_eq!((node.streams.len(), memory.used()), (3, 2 * cost), "what was refused costs nothing");
        node.streams.remove(first);
        assert!(another().is_ok());
    }
}
