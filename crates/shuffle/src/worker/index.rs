//! The index of one copy of a partition location: every batch in the order of arrival, who wrote it and where it lies.
//!
//! The index is written when a batch is appended, so that a map range, the losers' batches and repeated batches are
//! found by walking it once; no batch is ever sorted or parsed again.

use std::collections::{HashMap, HashSet};

use crate::ids::{AttemptId, BatchId, MapId};

/// One batch: 16 bytes of memory for each, whether the batch itself is in memory or on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Bytes of the batch, its header included.
    pub len: u32,
    /// The map task that wrote it.
    pub map: MapId,
    /// The attempt of that task.
    pub attempt: AttemptId,
    /// The batch's number within (map, attempt).
    pub batch: BatchId,
}

/// Map ids that a reader asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapRange {
    /// All of them.
    Whole,
    /// From `start` (inclusive) to `end` (exclusive).
    Part {
        /// First map id.
        start: i32,
        /// The map id after the last.
        end: i32,
    },
}

impl MapRange {
    /// The range that an open request asks for. 0 to `i32::MAX` is a whole partition; clients from 0.6 on also say
    /// "whole, I pick the chunks" with a negative end or with start after end.
    pub fn from_wire(start: i32, end: i32) -> Self {
        if (start <= 0 && end == i32::MAX) || end < 0 || start > end {
            Self::Whole
        } else {
            Self::Part { start, end }
        }
    }

    fn contains(self, map: MapId) -> bool {
        match self {
            Self::Whole => true,
            Self::Part { start, end } => (start..end).contains(&map.0),
        }
    }
}

/// The winning attempt of each map task, from commits: `NONE`, or a map beyond the end, is not decided yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Winners {
    attempts: Vec<AttemptId>,
}

impl Winners {
    /// Takes over the winners of a commit; what is already decided stays, whatever comes later.
    pub fn merge(&mut self, attempts: &[AttemptId]) {
        if self.attempts.len() < attempts.len() {
            self.attempts.resize(attempts.len(), AttemptId::NONE);
        }
        for (known, told) in self.attempts.iter_mut().zip(attempts) {
            if *known == AttemptId::NONE {
                *known = *told;
            }
        }
    }

    /// The winner of a map, if it is decided.
    pub fn of(&self, map: MapId) -> Option<AttemptId> {
        let attempt = *self.attempts.get(usize::try_from(map.0).ok()?)?;
        (attempt != AttemptId::NONE).then_some(attempt)
    }

    /// Whether a batch of this attempt may be shown to a reader: its map is undecided, or it won.
    pub fn admits(&self, map: MapId, attempt: AttemptId) -> bool {
        self.of(map).is_none_or(|winner| winner == attempt)
    }

    /// The attempts by map id, for the journal of a shuffle.
    pub fn attempts(&self) -> &[AttemptId] {
        &self.attempts
    }
}

/// The batches of a location that one reader gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// Every entry.
    All,
    /// These entries, ascending.
    Some(Box<[u32]>),
}

impl Selection {
    /// The entry at a position of the selection.
    pub fn entry(&self, position: u32) -> u32 {
        match self {
            Self::All => position,
            Self::Some(entries) => entries[position as usize],
        }
    }
}

/// Consecutive positions of a selection that travel as one chunk: whole batches only, because the client parses each
/// chunk by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// First position in the selection.
    pub first: u32,
    /// The position after the last.
    pub end: u32,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// Entries of a block. All blocks but the last are full, so that a large index has little room that it does not use.
const BLOCK_LEN: usize = 1 << 10;

/// Entries between two of which the offset is kept: the others' are added up.
const MARK_EVERY: usize = 32;

/// The index of one copy of one location. Its batches have an address space of their own, which counts every appended byte.
#[derive(Debug, Clone, Default)]
pub struct Index {
    full: Vec<Box<[Entry]>>,
    last: Vec<Entry>,
    /// Where every batch of a multiple of [`MARK_EVERY`] begins.
    marks: Vec<u64>,
    bytes: u64,
}

impl Index {
    /// Appends a batch and returns its number.
    pub fn push(&mut self, map: MapId, attempt: AttemptId, batch: BatchId, len: u32) -> u32 {
        let number = self.len();
        if (number as usize).is_multiple_of(MARK_EVERY) {
            self.marks.push(self.bytes);
        }
        self.last.push(Entry { len, map, attempt, batch });
        if self.last.len() == BLOCK_LEN {
            self.full.push(std::mem::take(&mut self.last).into_boxed_slice());
        }
        self.bytes += u64::from(len);
        number
    }

    /// The number of batches.
    pub fn len(&self) -> u32 {
        let len = self.full.len() * BLOCK_LEN + self.last.len();
        u32::try_from(len).expect("a location has fewer than 2^32 batches, as many as its bytes allow")
    }

    /// All entries in the order of arrival.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + Clone + '_ {
        self.full.iter().flat_map(|block| block.iter()).chain(&self.last).copied()
    }

    /// The entries from a number on.
    pub fn entries_from(&self, number: u32) -> impl Iterator<Item = Entry> + '_ {
        (number..self.len()).map(|number| self.entry(number))
    }

    /// The entry of a number.
    pub fn entry(&self, number: u32) -> Entry {
        let (block, at) = (number as usize / BLOCK_LEN, number as usize % BLOCK_LEN);
        self.full.get(block).map_or_else(|| self.last[at], |block| block[at])
    }

    /// Where a batch begins.
    pub fn offset(&self, number: u32) -> u64 {
        let mark = number as usize / MARK_EVERY;
        let between = (mark * MARK_EVERY) as u32..number;
        self.marks[mark] + between.map(|number| u64::from(self.entry(number).len)).sum::<u64>()
    }

    /// Gives back the room for batches to come: there will be none.
    pub fn shrink(&mut self) {
        self.full.shrink_to_fit();
        self.last.shrink_to_fit();
        self.marks.shrink_to_fit();
    }

    /// Bytes of memory that it has allocated.
    pub fn allocated(&self) -> u64 {
        let full = self.full.len() * BLOCK_LEN * size_of::<Entry>();
        let blocks = self.full.capacity() * size_of::<Box<[Entry]>>();
        let last = self.last.capacity() * size_of::<Entry>();
        (full + blocks + last + self.marks.capacity() * size_of::<u64>()) as u64
    }

    /// Bytes of all batches.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether no batch was appended.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0 && self.len() == 0
    }

    /// Reads the ids of every entry in the other byte order: called once in the life of a shuffle whose first batches
    /// had lengths that read the same both ways.
    pub fn swap_byte_order(&mut self) {
        let entries = self.full.iter_mut().flat_map(|block| block.iter_mut()).chain(&mut self.last);
        for entry in entries {
            entry.map = MapId(entry.map.0.swap_bytes());
            entry.attempt = AttemptId(entry.attempt.0.swap_bytes());
            entry.batch = BatchId(entry.batch.0.swap_bytes());
        }
    }

    /// The entries that repeat an earlier (map, attempt, batch), ascending.
    ///
    /// A task's batches arrive in rising order unless something was sent again, so the first walk remembers one number
    /// for each attempt; only attempts that went backwards are compared batch by batch.
    pub fn repeated(&self) -> Box<[u32]> {
        let mut highest: HashMap<(MapId, AttemptId), BatchId> = HashMap::new();
        let mut suspects: HashSet<(MapId, AttemptId)> = HashSet::new();
        for entry in self.entries() {
            let task = (entry.map, entry.attempt);
            match highest.entry(task) {
                std::collections::hash_map::Entry::Vacant(vacant) => {
                    vacant.insert(entry.batch);
                }
                std::collections::hash_map::Entry::Occupied(mut occupied) => {
                    if entry.batch > *occupied.get() {
                        occupied.insert(entry.batch);
                    } else {
                        suspects.insert(task);
                    }
                }
            }
        }
        if suspects.is_empty() {
            return Box::default();
        }
        let mut seen = HashSet::new();
        let mut repeated = Vec::new();
        for (number, entry) in self.entries().enumerate() {
            let task = (entry.map, entry.attempt);
            if suspects.contains(&task) && !seen.insert((task, entry.batch)) {
                repeated.push(number as u32);
            }
        }
        repeated.into()
    }

    /// The batches that a reader of `range` gets: no loser's, none twice. `repeated` is from [`Index::repeated`].
    pub fn select(&self, range: MapRange, winners: &Winners, repeated: &[u32]) -> Selection {
        let wanted = |entry: &Entry| range.contains(entry.map) && winners.admits(entry.map, entry.attempt);
        if repeated.is_empty() && self.entries().all(|entry| wanted(&entry)) {
            return Selection::All;
        }
        let mut repeated = repeated.iter().copied().peekable();
        let mut selected = Vec::new();
        for (number, entry) in self.entries().enumerate() {
            let number = number as u32;
            if repeated.next_if_eq(&number).is_none() && wanted(&entry) {
                selected.push(number);
            }
        }
        Selection::Some(selected.into())
    }

    /// Cuts a selection into chunks: each ends with the first batch that brings it to `chunk_bytes` or more.
    pub fn cut(&self, selection: &Selection, chunk_bytes: u64) -> Vec<Chunk> {
        self.chunks(selection, chunk_bytes).collect()
    }

    /// Where each chunk of all batches ends, in bytes from the first batch; the last ends at [`Index::bytes`].
    pub fn chunk_ends(&self, chunk_bytes: u64) -> impl Iterator<Item = u64> {
        self.chunks(&Selection::All, chunk_bytes).scan(0, |end, chunk| {
            *end += chunk.bytes;
            Some(*end)
        })
    }

    fn chunks<'a>(&'a self, selection: &'a Selection, chunk_bytes: u64) -> impl Iterator<Item = Chunk> + 'a {
        let count = match selection {
            Selection::All => self.len(),
            Selection::Some(entries) => entries.len() as u32,
        };
        let mut next = 0;
        std::iter::from_fn(move || {
            let mut chunk = Chunk { first: next, end: next, bytes: 0 };
            while chunk.end < count && chunk.bytes < chunk_bytes {
                chunk.bytes += u64::from(self.entry(selection.entry(chunk.end)).len);
                chunk.end += 1;
            }
            next = chunk.end;
            (chunk.end > chunk.first).then_some(chunk)
        })
    }

    /// The map ids that wrote something, ascending, each once.
    pub fn maps(&self) -> Vec<MapId> {
        let mut maps: Vec<MapId> = self.entries().map(|entry| entry.map).collect();
        maps.sort_unstable();
        maps.dedup();
        maps
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index(batches: &[(i32, i32, i32, u32)]) -> Index {
        let mut index = Index::default();
        for (map, attempt, batch, len) in batches {
            index.push(MapId(*map), AttemptId(*attempt), BatchId(*batch), *len);
        }
        index
    }

    fn winners(attempts: &[i32]) -> Winners {
        let mut winners = Winners::default();
        winners.merge(&attempts.iter().copied().map(AttemptId).collect::<Vec<_>>());
        winners
    }

    #[test]
    fn the_first_decision_about_a_map_stays() {
        let mut known = winners(&[-1, 5]);
        known.merge(&[AttemptId(3), AttemptId(9), AttemptId(-1), AttemptId(1)]);
        assert_eq!(known, winners(&[3, 5, -1, 1]));
        assert!(known.admits(MapId(2), AttemptId(77)), "an undecided map's batches are shown");
        assert!(known.admits(MapId(4), AttemptId(0)), "as are those of maps that no commit named");
        assert!(!known.admits(MapId(1), AttemptId(9)));
        assert_eq!(known.of(MapId(-1)), None);
    }

    #[test]
    fn open_requests_name_the_whole_partition_in_four_ways() {
        assert_eq!(MapRange::from_wire(0, i32::MAX), MapRange::Whole);
        assert_eq!(MapRange::from_wire(0, -1), MapRange::Whole);
        assert_eq!(MapRange::from_wire(7, 3), MapRange::Whole);
        assert_eq!(MapRange::from_wire(3, 7), MapRange::Part { start: 3, end: 7 });
        assert_eq!(MapRange::from_wire(3, i32::MAX), MapRange::Part { start: 3, end: i32::MAX });
        assert_eq!(MapRange::from_wire(3, 3), MapRange::Part { start: 3, end: 3 }, "empty, not whole");
    }

    #[test]
    fn a_chunk_ends_with_the_batch_that_fills_it() {
        let index = index(&[(0, 0, 1, 40), (0, 0, 2, 60), (1, 0, 1, 10), (1, 0, 2, 500), (2, 0, 1, 1)]);
        let chunks = index.cut(&Selection::All, 100);
        let shape: Vec<_> = chunks.iter().map(|chunk| (chunk.first, chunk.end, chunk.bytes)).collect();
        assert_eq!(shape, [(0, 2, 100), (2, 4, 510), (4, 5, 1)]);
        assert_eq!(index.cut(&Selection::Some(Box::default()), 100), []);
    }

    #[test]
    fn a_swapped_index_reads_as_the_other_order() {
        let mut swapped = index(&[(1 << 24, 2 << 24, 3 << 24, 9)]);
        swapped.swap_byte_order();
        assert!(swapped.entries().eq(index(&[(1, 2, 3, 9)]).entries()));
    }

    /// The chunks that a client of 0.6 or later reads of each location as the sub-reader `index` of `readers`: the last
    /// chunk of a range may lie behind those that the location has. The rule is that of its class `CelebornPartitionUtil`.
    fn shared_out(locations: &[Vec<i64>], readers: i64, index: i64) -> Vec<Option<(usize, usize)>> {
        let sizes = locations.iter().map(|offsets| *offsets.last().unwrap());
        let total: i64 = sizes.clone().sum();
        let step = total / readers;
        let start = step * index;
        let end = if index < readers - 1 { step * (index + 1) } else { total + 1 };
        let mut before = 0;
        let mut ranges = Vec::new();
        for (offsets, size) in locations.iter().zip(sizes) {
            let ends = || offsets[1..].iter().map(|end| before + end);
            let first = ends().position(|end| end > start);
            let last = ends().rposition(|chunk_end| chunk_end <= end);
            let range = first.zip(last).filter(|(first, last)| before <= end && first <= last);
            ranges.push(range);
            before += size;
        }
        ranges
    }

    #[test]
    fn a_complete_index_takes_sixteen_bytes_a_batch() {
        assert_eq!(size_of::<Entry>(), 16);
        let mut index = Index::default();
        let mut begins = Vec::new();
        for number in 0..2_500_u32 {
            begins.push(index.bytes());
            index.push(MapId(number as i32), AttemptId(-1), BatchId(7), number * 31 % 101);
        }
        assert!((0..2_500).all(|number| index.offset(number) == begins[number as usize]));
        assert!((0..2_500).zip(index.entries()).all(|(number, entry)| index.entry(number) == entry));
        assert!(index.entries_from(1_023).eq(index.entries().skip(1_023)));
        assert!(index.allocated() < 2_500 * 16 + (BLOCK_LEN * 16) as u64 + 2_000, "{}", index.allocated());
        index.shrink();
        assert!((2_500 * 16..2_500 * 17).contains(&index.allocated()), "{}", index.allocated());
        assert_eq!((index.len(), index.entry(2_499).map), (2_500, MapId(2_499)));
    }

    proptest! {
        /// The offsets of a commit are those of all batches, and a reader's stream leaves some out: together all
        /// sub-readers get each chunk of each stream once nevertheless.
        #[test]
        fn sub_readers_of_a_skewed_partition_get_each_chunk_once(
            locations in prop::collection::vec(
                prop::collection::vec((0..4i32, 0..3i32, 0..5i32, 1..50u32), 0..80), 1..4),
            attempts in prop::collection::vec(-1..3i32, 0..4),
            chunk_bytes in 1..200u64,
            readers in 1..9i64,
        ) {
            let indexes: Vec<Index> = locations.iter().map(|batches| index(batches)).collect();
            let offsets = |index: &Index| {
                let ends = index.chunk_ends(chunk_bytes).map(|end| end.cast_signed());
                std::iter::once(0).chain(ends).collect::<Vec<i64>>()
            };
            let offsets: Vec<Vec<i64>> = indexes.iter().map(offsets).collect();
            for (index, offsets) in indexes.iter().zip(&offsets) {
                prop_assert_eq!(offsets.last().copied(), Some(index.bytes().cast_signed()));
                let chunks = index.cut(&Selection::All, chunk_bytes);
                let bytes: Vec<i64> = chunks.iter().map(|chunk| chunk.bytes.cast_signed()).collect();
                let between: Vec<i64> = offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
                prop_assert_eq!(bytes, between);
            }
            let stream = |index: &Index| {
                let selection = index.select(MapRange::Whole, &winners(&attempts), &index.repeated());
                index.cut(&selection, chunk_bytes).len()
            };
            let streams: Vec<usize> = indexes.iter().map(stream).collect();
            let mut read: Vec<Vec<usize>> = vec![Vec::new(); indexes.len()];
            for reader in 0..readers {
                for (number, range) in shared_out(&offsets, readers, reader).into_iter().enumerate() {
                    let Some((first, last)) = range else { continue };
                    read[number].extend(first..streams[number].min(last + 1));
                }
            }
            let all: Vec<Vec<usize>> = streams.iter().map(|count| (0..*count).collect()).collect();
            prop_assert_eq!(read, all);
        }

        /// Against a model that looks at each batch alone: what a reader gets is each wanted (map, attempt, batch) once,
        /// the first time it came, in the order of arrival, and the chunks hold exactly that.
        #[test]
        fn readers_get_each_wanted_batch_once(
            batches in prop::collection::vec((0..6i32, 0..3i32, 0..5i32, 1..50u32), 0..120),
            attempts in prop::collection::vec(-1..3i32, 0..6),
            range in prop_oneof![Just((0, i32::MAX)), (0..7i32, 0..7i32)],
            chunk_bytes in 1..200u64,
        ) {
            let index = index(&batches);
            let (range, winners) = (MapRange::from_wire(range.0, range.1), winners(&attempts));
            let mut seen = std::collections::BTreeSet::new();
            let mut expected = Vec::new();
            for (number, (map, attempt, batch, _)) in batches.iter().enumerate() {
                let first = seen.insert((map, attempt, batch));
                let in_range = match range {
                    MapRange::Whole => true,
                    MapRange::Part { start, end } => *map >= start && *map < end,
                };
                let decided = attempts.get(*map as usize).copied().filter(|winner| *winner >= 0);
                if first && in_range && decided.is_none_or(|winner| winner == *attempt) {
                    expected.push(number as u32);
                }
            }
            let selection = index.select(range, &winners, &index.repeated());
            let chunks = index.cut(&selection, chunk_bytes);
            let mut got = Vec::new();
            for (at, chunk) in chunks.iter().enumerate() {
                let entries: Vec<u32> = (chunk.first..chunk.end).map(|at| selection.entry(at)).collect();
                let bytes: u64 = entries.iter().map(|entry| u64::from(batches[*entry as usize].3)).sum();
                prop_assert_eq!(bytes, chunk.bytes);
                prop_assert!(at + 1 == chunks.len() || bytes >= chunk_bytes);
                let last = u64::from(batches[*entries.last().unwrap() as usize].3);
                prop_assert!(bytes - last < chunk_bytes, "a chunk goes on past its target");
                got.extend(entries);
            }
            prop_assert_eq!(got, expected);
        }
    }
}
