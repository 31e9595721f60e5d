//! The batches of one copy of one location: the index, and for each entry where its bytes are.
//!
//! Batches arrive in memory and leave it from the front, in runs, so that what is on disk is a prefix:
//!
//! ```text
//! entries   0 ........ n ........ m ........
//! place     run 0      run 1      held (memory, or a batch too large for it that went to disk by itself)
//! ```

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use super::directory::Directory;
use super::record::{RunRow, Seal};
use super::segment::{RunToWrite, Segment, WrittenRun};
use crate::ids::FileName;
use crate::wire::batch::{BatchHeader, ByteOrder};
use crate::worker::index::Index;
use crate::worker::memory::{Charge, Memory};

/// What the index has of a batch, with the slack of its vector: an entry, and the checksum of one on disk.
const ENTRY_BYTES: u64 = 56;
/// What a run costs besides its checksums: itself, with the slack of its vector or in a box, and the allocation of those.
const RUN_BYTES: u64 = 64;
/// What a batch costs on its way to disk besides itself: its row, another handle, and its checksum.
const SPILL_ROW_BYTES: u64 = 100;
/// What a batch costs as long as it is not in a run, with the slack of its queue: a handle.
const HANDLE_BYTES: u64 = 40;

/// Batches that lie one after the other in a segment.
#[derive(Debug)]
struct Run {
    /// The number of the first one.
    first: u32,
    segment: Arc<Segment>,
    at: u64,
    checksums: Box<[u32]>,
}

#[derive(Debug)]
enum Held {
    Memory(Bytes),
    /// A run of one, not yet part of the prefix.
    Disk(Box<Run>),
}

/// Where a batch is.
#[derive(Debug, Clone)]
pub enum Place {
    /// In memory.
    Memory(Bytes),
    /// In a segment.
    Disk {
        /// Which.
        segment: Arc<Segment>,
        /// The file offset.
        at: u64,
        /// CRC-32 that it must have.
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

/// A run that lay on disk when the worker started.
#[derive(Debug)]
pub struct FoundRun {
    /// The file.
    pub segment: Arc<Segment>,
    /// Where its first batch begins.
    pub at: u64,
    /// What the index knows about each batch.
    pub rows: Vec<RunRow>,
}

/// The batches of one copy of one location.
#[derive(Debug)]
pub struct LocationCopy {
    file: FileName,
    /// Which of the locations that had this name; see [`super::record`].
    life: u64,
    index: Index,
    runs: Vec<Run>,
    held: VecDeque<Held>,
    /// Bytes of the held batches that are in memory.
    resident: u64,
    /// A run is being written; the next one waits, so that the prefix grows in order.
    spilling: bool,
    /// The seal is on disk.
    seal_written: bool,
    overhead: Charge,
    /// Handles that the queue has had room for since it was empty.
    handles: u64,
    repeated: Option<Arc<[u32]>>,
    /// Batches that did not match their checksums, or were read together with one.
    suspects: BTreeSet<u32>,
}

impl LocationCopy {
    /// An empty one.
    pub fn new(file: FileName, life: u64, memory: &Memory) -> Self {
        Self {
            file,
            life,
            index: Index::default(),
            runs: Vec::new(),
            held: VecDeque::new(),
            resident: 0,
            spilling: false,
            seal_written: false,
            overhead: memory.charge_fixed(0),
            handles: 0,
            repeated: None,
            suspects: BTreeSet::new(),
        }
    }

    /// One that lay on disk when the worker started. The runs are given in the order of their batches.
    pub fn recovered(file: FileName, life: u64, runs: Vec<FoundRun>, memory: &Memory) -> Self {
        let mut copy = Self::new(file, life, memory);
        copy.seal_written = true;
        for FoundRun { segment, at, rows } in runs {
            let first = copy.index.entries().len() as u32;
            for row in &rows {
                copy.index.push(row.map, row.attempt, row.batch, row.len);
            }
            copy.overhead.grow(ENTRY_BYTES * rows.len() as u64 + RUN_BYTES);
            copy.runs.push(Run {
                first,
                segment,
                at,
                checksums: rows.iter().map(|row| row.checksum).collect(),
            });
        }
        copy
    }

    /// Which copy of which location this is.
    pub fn file(&self) -> FileName {
        self.file
    }

    /// Which of the locations that had this name.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// What is known about each batch.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Remembers that something was wrong with these batches.
    pub fn suspect(&mut self, entries: impl Iterator<Item = u32>) {
        self.suspects.extend(entries);
    }

    /// Batches with which something was wrong, or with one beside them.
    pub fn suspects(&self) -> &BTreeSet<u32> {
        &self.suspects
    }

    /// Reads the ids of every batch in the other byte order; see [`Index::swap_byte_order`]. What has runs on disk was
    /// decided before they were written.
    pub fn swap_byte_order(&mut self) {
        if self.runs.is_empty() {
            self.index.swap_byte_order();
        }
    }

    /// Bytes in memory.
    pub fn resident(&self) -> u64 {
        self.resident
    }

    /// Bytes in memory that a spill may take now.
    pub fn spillable(&self) -> u64 {
        if self.spilling { 0 } else { self.resident }
    }

    /// Whether a run is on its way to disk.
    pub fn is_spilling(&self) -> bool {
        self.spilling
    }

    /// Adds a batch that is in memory.
    pub fn append(&mut self, header: &BatchHeader, batch: Bytes) {
        self.resident += batch.len() as u64;
        self.push(header, batch.len() as u32);
        self.held.push_back(Held::Memory(batch));
    }

    /// Adds a batch that went to disk while it arrived, and returns its number.
    pub fn append_on_disk(
        &mut self,
        header: &BatchHeader,
        len: u32,
        segment: Arc<Segment>,
        at: u64,
        checksum: u32,
    ) -> u32 {
        let first = self.push(header, len);
        self.overhead.grow(RUN_BYTES);
        self.held.push_back(Held::Disk(Box::new(Run {
            first,
            segment,
            at,
            checksums: Box::new([checksum]),
        })));
        first
    }

    fn push(&mut self, header: &BatchHeader, len: u32) -> u32 {
        self.overhead.grow(ENTRY_BYTES + HANDLE_BYTES);
        self.handles += 1;
        self.index.push(header.map, header.attempt, header.batch, len)
    }

    fn held_from(&self) -> u32 {
        (self.index.entries().len() - self.held.len()) as u32
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
        let entries = self.index.entries();
        let at = run.at + (entries[entry as usize].offset - entries[run.first as usize].offset);
        let checksum = run.checksums[(entry - run.first) as usize];
        Place::Disk { segment: Arc::clone(&run.segment), at, checksum }
    }

    /// What leaves memory next: the batches from the front on, until they and what they cost on their way are `bytes_max`, or
    /// one is on disk already; and how much that is.
    /// The batches stay readable here until [`LocationCopy::spilled`].
    pub fn begin_spill(&mut self, bytes_max: u64) -> Option<(RunToWrite, u64)> {
        if self.spilling {
            return None;
        }
        self.absorb_disk_prefix();
        let first = self.held_from();
        let (mut rows, mut batches, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (held, entry) in self.held.iter().zip(&self.index.entries()[first as usize..]) {
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
        if batches.is_empty() {
            return None;
        }
        self.spilling = true;
        Some((RunToWrite { file: self.file, life: self.life, first, rows, batches }, bytes))
    }

    fn absorb_disk_prefix(&mut self) {
        while let Some(Held::Disk(_)) = self.held.front() {
            if let Some(Held::Disk(run)) = self.held.pop_front() {
                self.runs.push(*run);
            }
        }
    }

    /// The run that [`LocationCopy::begin_spill`] gave is on disk: lets go of the batches.
    pub fn spilled(&mut self, segment: &Arc<Segment>, written: WrittenRun) {
        let first = self.held_from();
        for held in self.held.drain(..written.checksums.len()) {
            if let Held::Memory(batch) = held {
                self.resident -= batch.len() as u64;
            }
        }
        let WrittenRun { at, checksums } = written;
        self.overhead.grow(RUN_BYTES);
        self.runs.push(Run { first, segment: Arc::clone(segment), at, checksums });
        self.absorb_disk_prefix();
        // Where batches come while others go, the queue is never empty.
        self.held.shrink_to(2 * self.held.len());
        let handles = self.handles.min(self.held.capacity() as u64);
        drop(self.overhead.split(HANDLE_BYTES * (self.handles - handles)));
        self.handles = handles;
        self.spilling = false;
    }

    /// The run could not be written: the batches stay.
    pub fn spill_failed(&mut self) {
        self.spilling = false;
    }

    /// Whether every batch is on disk, if there is any, where a restarted worker finds it, and no seal says so yet.
    pub fn wants_seal(&self) -> bool {
        self.resident == 0 && !self.seal_written && self.segments().all(|segment| segment.is_finished())
    }

    /// The seal that says so, of a location in a shuffle whose batch headers have that order.
    pub fn seal(&self, order: Option<ByteOrder>, replicated: bool) -> Seal {
        let count = self.index.entries().len() as u32;
        Seal { file: self.file, life: self.life, count, bytes: self.index.bytes(), order, replicated }
    }

    /// Remembers that the seal is on disk.
    pub fn sealed_on_disk(&mut self) {
        self.seal_written = true;
    }

    /// The segments that hold batches of this location.
    pub fn segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.runs.iter().map(|run| &run.segment).chain(self.held.iter().filter_map(|held| match held {
            Held::Disk(run) => Some(&run.segment),
            Held::Memory(_) => None,
        }))
    }

    /// The entries of a committed location that repeat earlier ones; found once, when its first reader comes.
    pub fn repeated(&mut self) -> Arc<[u32]> {
        Arc::clone(self.repeated.get_or_insert_with(|| self.index.repeated().into()))
    }
}
