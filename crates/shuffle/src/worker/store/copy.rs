//! The batches of one copy of one location: the index, and where the bytes of each entry are.
//!
//! Batches arrive in memory and leave it from the front, in runs, so that a prefix of them is on disk:
//!
//! ```text
//! entries   0 ........ n ........ m ........
//! place     run 0      run 1      held (in memory, or a batch too large for it that went directly to disk)
//! ```

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use super::directory::Directory;
use super::record::{RunRow, Seal};
use super::segment::{RunToWrite, Segment, WrittenRun};
use crate::ids::{ApplicationId, FileName, Mode};
use crate::wire::batch::{BatchHeader, ByteOrder};
use crate::worker::index::Index;
use crate::worker::memory::{Charge, Memory, Party};

/// The checksum of a batch on disk.
const CHECKSUM_BYTES: u64 = 4;
/// Memory of a run besides its checksums: the run, with the vector's slack or in a box, and the allocation of the checksums.
const RUN_BYTES: u64 = 64;
/// Extra memory of a batch while it is being spilled: its row, a second handle, its checksum.
const SPILL_ROW_BYTES: u64 = 100;
/// Memory of a batch that is in no run: a handle, with the queue's slack.
const HANDLE_BYTES: u64 = 40;

/// Batches that follow each other in a segment.
#[derive(Debug)]
struct Run {
    /// The number of its first batch.
    first: u32,
    segment: Arc<Segment>,
    at: u64,
    checksums: Box<[u32]>,
}

#[derive(Debug)]
enum Held {
    Memory(Bytes),
    /// A single batch, not yet part of the prefix.
    Disk(Box<Run>),
}

/// Where a batch is.
#[derive(Debug, Clone)]
pub enum Place {
    /// In memory.
    Memory(Bytes),
    /// In a segment.
    Disk {
        /// The file.
        segment: Arc<Segment>,
        /// The file offset.
        at: u64,
        /// The CRC-32 that it must have.
        checksum: u32,
    },
}

impl Place {
    /// The directory of a batch on disk.
    pub fn directory(&self) -> Option<&Arc<Directory>> {
        match self {
            Self::Memory(_) => None,
            Self::Disk { segment, .. } => Some(segment.directory()),
        }
    }
}

/// A run that was on disk when the worker started.
#[derive(Debug)]
pub struct FoundRun {
    /// The file.
    pub segment: Arc<Segment>,
    /// Where its first batch begins.
    pub at: u64,
    /// The index data of each batch.
    pub rows: Vec<RunRow>,
}

/// The batches of one copy of one location.
#[derive(Debug)]
pub struct LocationCopy {
    file: FileName,
    /// Distinguishes locations that had the same name one after the other; see [`super::record`].
    life: u64,
    index: Index,
    runs: Vec<Run>,
    held: VecDeque<Held>,
    /// Bytes of the held batches that are in memory.
    resident: u64,
    /// Whether a run is being written; the next one waits, so that the prefix grows in order.
    spilling: bool,
    /// Whether the seal is on disk.
    seal_written: bool,
    overhead: Charge,
    /// How much of that is for the index.
    indexed: u64,
    /// How many handles are charged: the queue keeps room for them until it is shrunk.
    handles: u64,
    repeated: Option<Arc<[u32]>>,
    /// Batches that did not match their checksums, or were read together with one that did not.
    suspects: BTreeSet<u32>,
}

impl LocationCopy {
    /// A copy without batches.
    pub fn new(file: FileName, life: u64, application: &ApplicationId, memory: &Memory) -> Self {
        let party = match file.mode {
            Mode::Primary => Party::pushes(application),
            Mode::Replica => Party::copies(application),
        };
        Self {
            file,
            life,
            index: Index::default(),
            runs: Vec::new(),
            held: VecDeque::new(),
            resident: 0,
            spilling: false,
            seal_written: false,
            overhead: memory.charge_fixed_of(&party, 0),
            indexed: 0,
            handles: 0,
            repeated: None,
            suspects: BTreeSet::new(),
        }
    }

    /// A copy that was on disk when the worker started. The runs are in the order of their batches.
    pub fn recovered(
        file: FileName,
        life: u64,
        runs: Vec<FoundRun>,
        application: &ApplicationId,
        memory: &Memory,
    ) -> Self {
        let mut copy = Self::new(file, life, application, memory);
        copy.seal_written = true;
        for FoundRun { segment, at, rows } in runs {
            let first = copy.index.len();
            for row in &rows {
                copy.index.push(row.map, row.attempt, row.batch, row.len);
            }
            copy.overhead.grow(CHECKSUM_BYTES * rows.len() as u64 + RUN_BYTES);
            copy.runs.push(Run {
                first,
                segment,
                at,
                checksums: rows.iter().map(|row| row.checksum).collect(),
            });
        }
        copy.complete();
        copy
    }

    /// No batch will come any more: gives back the room for them.
    pub fn complete(&mut self) {
        self.index.shrink();
        self.charge_index();
    }

    /// Charges what the index has allocated.
    fn charge_index(&mut self) {
        let allocated = self.index.allocated();
        if allocated >= self.indexed {
            self.overhead.grow(allocated - self.indexed);
        } else {
            drop(self.overhead.split(self.indexed - allocated));
        }
        self.indexed = allocated;
        self.check();
    }

    /// Asserts that the ledger of this copy adds up.
    fn check(&self) {
        let in_runs = self.runs.last().map_or(0, |run| run.first + run.checksums.len() as u32);
        assert_eq!(in_runs, self.held_from(), "{}: batches that are neither held nor in a run", self.file);
        assert!(
            self.overhead.bytes() >= self.indexed + HANDLE_BYTES * self.handles,
            "{}: uncharged",
            self.file
        );
    }

    /// The location, and which of its copies this is.
    pub fn file(&self) -> FileName {
        self.file
    }

    /// Distinguishes locations that had the same name one after the other.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// The index of all batches.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Marks these batches as damaged.
    pub fn suspect(&mut self, entries: impl Iterator<Item = u32>) {
        self.suspects.extend(entries);
    }

    /// Batches that were damaged, or were read together with one that was.
    pub fn suspects(&self) -> &BTreeSet<u32> {
        &self.suspects
    }

    /// Reads the ids of all batches in the other byte order; see [`Index::swap_byte_order`]. The order of batches that are
    /// in runs on disk was decided before they were written.
    pub fn swap_byte_order(&mut self) {
        if self.runs.is_empty() {
            self.index.swap_byte_order();
        }
    }

    /// Bytes in memory.
    pub fn resident(&self) -> u64 {
        self.resident
    }

    /// Bytes in memory that may be spilled now.
    pub fn spillable(&self) -> u64 {
        if self.spilling { 0 } else { self.resident }
    }

    /// Whether a run is being written.
    pub fn is_spilling(&self) -> bool {
        self.spilling
    }

    /// Adds a batch in memory.
    pub fn append(&mut self, header: &BatchHeader, batch: Bytes) {
        self.resident += batch.len() as u64;
        self.push(header, batch.len() as u32);
        self.held.push_back(Held::Memory(batch));
    }

    /// Adds a batch that was written to disk while it arrived, and returns its number.
    pub fn append_on_disk(
        &mut self,
        header: &BatchHeader,
        len: u32,
        segment: Arc<Segment>,
        at: u64,
        checksum: u32,
    ) -> u32 {
        let first = self.push(header, len);
        self.overhead.grow(RUN_BYTES + CHECKSUM_BYTES);
        self.held.push_back(Held::Disk(Box::new(Run {
            first,
            segment,
            at,
            checksums: Box::new([checksum]),
        })));
        first
    }

    fn push(&mut self, header: &BatchHeader, len: u32) -> u32 {
        self.handles += 1;
        let (number, allocated) =
            (self.index.push(header.map, header.attempt, header.batch, len), self.index.allocated());
        assert!(allocated >= self.indexed, "an index that grows gives nothing back");
        self.overhead.grow(HANDLE_BYTES + allocated - self.indexed);
        self.indexed = allocated;
        number
    }

    fn held_from(&self) -> u32 {
        self.index.len() - self.held.len() as u32
    }

    /// Where a batch is.
    pub fn place(&self, entry: u32) -> Place {
        let run = match entry.checked_sub(self.held_from()) {
            Some(at) => match &self.held[at as usize] {
                Held::Memory(batch) => return Place::Memory(batch.clone()),
                Held::Disk(run) => run,
            },
            None => &self.runs[self.runs.partition_point(|run| run.first <= entry) - 1],
        };
        let at = run.at + (self.index.offset(entry) - self.index.offset(run.first));
        let checksum = run.checksums[(entry - run.first) as usize];
        Place::Disk { segment: Arc::clone(&run.segment), at, checksum }
    }

    /// Adds the batches to spill next to those of other locations: from the front, until they and their cost come to
    /// `bytes_max` or one is on disk already. Returns what they are, and how much that is. They stay readable until
    /// [`LocationCopy::spilled`].
    pub fn begin_spill(&mut self, bytes_max: u64, batches: &mut Vec<Bytes>) -> Option<(RunToWrite, u64)> {
        if self.spilling {
            return None;
        }
        self.absorb_disk_prefix();
        let first = self.held_from();
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for (held, entry) in self.held.iter().zip(self.index.entries_from(first)) {
            let Held::Memory(batch) = held else { break };
            if bytes >= bytes_max {
                break;
            }
            bytes += batch.len() as u64 + SPILL_ROW_BYTES;
            rows.push(RunRow {
                len: entry.len,
                map: entry.map,
                attempt: entry.attempt,
                batch: entry.batch,
                checksum: 0,
            });
            batches.push(batch.clone());
        }
        if rows.is_empty() {
            return None;
        }
        self.spilling = true;
        Some((RunToWrite { file: self.file, life: self.life, first, rows }, bytes))
    }

    fn absorb_disk_prefix(&mut self) {
        while let Some(Held::Disk(_)) = self.held.front() {
            if let Some(Held::Disk(run)) = self.held.pop_front() {
                self.runs.push(*run);
            }
        }
    }

    /// The run from [`LocationCopy::begin_spill`] that begins with batch `first` is on disk: drops the batches from memory.
    /// Returns false, and changes nothing, if they have left it already.
    pub fn spilled(&mut self, first: u32, segment: &Arc<Segment>, written: WrittenRun) -> bool {
        if first != self.held_from() {
            return false;
        }
        for held in self.held.drain(..written.checksums.len()) {
            if let Held::Memory(batch) = held {
                let len = batch.len() as u64;
                assert!(len <= self.resident, "{}: more leaves memory than was there", self.file);
                self.resident -= len;
            }
        }
        let WrittenRun { at, checksums } = written;
        self.overhead.grow(RUN_BYTES + CHECKSUM_BYTES * checksums.len() as u64);
        self.runs.push(Run { first, segment: Arc::clone(segment), at, checksums });
        self.absorb_disk_prefix();
        // While new batches arrive the queue is never empty, so it has to be shrunk here.
        self.held.shrink_to(2 * self.held.len());
        let handles = self.handles.min(self.held.capacity() as u64);
        drop(self.overhead.split(HANDLE_BYTES * (self.handles - handles)));
        self.handles = handles;
        self.check();
        self.spilling = false;
        true
    }

    /// The run that begins with batch `first` could not be written, or may be written by others as well: its batches are in
    /// memory, to be planned again. Returns whether they are; if they have left it, another run may be under way.
    pub fn spill_failed(&mut self, first: u32) -> bool {
        let is_held = first == self.held_from();
        if is_held {
            self.spilling = false;
        }
        is_held
    }

    /// Whether all batches, if there are any, are on disk where a restart finds them, and no seal says so yet.
    pub fn wants_seal(&self) -> bool {
        self.resident == 0 && !self.seal_written && self.segments().all(|segment| segment.is_finished())
    }

    /// The seal for that; `order` is the byte order of the shuffle's batch headers.
    pub fn seal(&self, order: Option<ByteOrder>, replicated: bool) -> Seal {
        let count = self.index.len();
        Seal { file: self.file, life: self.life, count, bytes: self.index.bytes(), order, replicated }
    }

    /// Notes that the seal is on disk.
    pub fn sealed_on_disk(&mut self) {
        self.seal_written = true;
    }

    /// Whether the seal is on disk.
    pub fn is_sealed_on_disk(&self) -> bool {
        self.seal_written
    }

    /// The segments that hold batches of this location.
    pub fn segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.runs.iter().map(|run| &run.segment).chain(self.held.iter().filter_map(|held| match held {
            Held::Disk(run) => Some(&run.segment),
            Held::Memory(_) => None,
        }))
    }

    /// The entries of a committed location that repeat earlier ones; computed once, for its first reader.
    pub fn repeated(&mut self) -> Arc<[u32]> {
        Arc::clone(self.repeated.get_or_insert_with(|| self.index.repeated().into()))
    }
}
