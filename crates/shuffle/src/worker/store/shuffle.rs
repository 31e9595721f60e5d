//! One shuffle on this worker: what it decides, and the batches that it decided about, behind one lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::copy::LocationCopy;
use super::directory::Directory;
use super::lease::Lease;
use super::segment::Segment;
use super::target::Target;
use crate::ids::ShuffleKey;
use crate::wire::batch::ByteOrder;
use crate::worker::index::Winners;
use crate::worker::memory::{Charge, Memory};
use crate::worker::state::{ShuffleState, Slot};

/// One shuffle. The lock is held for as long as a decision and its bookkeeping take, never across I/O.
#[derive(Debug)]
pub struct Shuffle {
    key: ShuffleKey,
    inner: Mutex<Contents>,
    /// Bytes in memory, for who looks for something to spill.
    resident: AtomicU64,
    /// When the last batch came, in milliseconds of the worker's clock.
    touched_ms: AtomicU64,
}

/// What the lock of a shuffle protects.
#[derive(Debug)]
pub struct Contents {
    /// The decisions.
    pub state: ShuffleState,
    /// The batches of each slot.
    pub copies: HashMap<Slot, LocationCopy>,
    /// The byte order of its batch headers, once a header told.
    pub order: Option<ByteOrder>,
    /// Readers want to know which maps wrote to each location.
    pub wants_map_bitmap: bool,
    /// How long a client waits for a push, if one said.
    pub push_timeout: Option<Duration>,
    /// The shuffle has been deleted: whoever still holds it stores nothing any more.
    pub gone: bool,
    /// The worker is about to stop: what is committed is to be found by the next one, empty locations of a shuffle without
    /// files, too.
    pub stopping: bool,
    /// For whoever writes a file of it, until it is deleted.
    pub lease: Option<Arc<Lease>>,
    /// When it was made, in the order of lives: what lies on disk from before is another one's that had its number.
    pub birth: u64,
    /// What lies on disk of it could not be read, and nothing else is known of it: it takes no locations, so that the next
    /// start of the worker may still find what there is.
    pub is_unread: bool,
    /// There may be files of it besides `segments`, which could not be read or listed when the worker started.
    pub has_unseen_files: bool,
    /// Files, the newest of each directory last.
    pub segments: Vec<Arc<Segment>>,
    /// What the files say about winners.
    pub winners_on_disk: Winners,
    /// What its locations cost besides their batches.
    slots_charge: Charge,
    memory: Memory,
    numbers: Arc<Numbers>,
}

/// What a location costs besides its batches and their index: what is decided about it, its place in two tables with their
/// slack, its copy and what comes with the first batch.
pub const SLOT_BYTES: u64 = 512;

/// How many numbers copies and files may have that were not seen, because what they lie in could not be read, above those of
/// all others. All shuffles together take them from one count, and even a long run gives fewer. Where the numbers of files
/// begin again after very many starts, a file takes the next that is free.
const UNSEEN_SEGMENTS_MAX: u32 = 1 << 24;
const UNSEEN_LIVES_MAX: u64 = 1 << 40;

/// The last numbers that a store gave, at least as large as any on disk. A shuffle may come back under its name while what
/// it had before is still being deleted, so they do not begin again with it.
#[derive(Debug, Default)]
pub struct Numbers {
    last_life: AtomicU64,
    last_segment: AtomicU32,
}

impl Numbers {
    /// For a new copy of a location, and for a new shuffle.
    fn life(&self) -> u64 {
        self.last_life.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// For a new file.
    fn segment(&self) -> u32 {
        self.last_segment.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// Takes in a copy of an earlier run of this worker.
    pub fn found_life(&self, life: u64) {
        self.last_life.fetch_max(life, Ordering::Relaxed);
    }

    /// Takes in that there may be files and copies of earlier runs of this worker that were not found.
    pub fn leave_room(&self) {
        self.last_life.fetch_add(UNSEEN_LIVES_MAX, Ordering::Relaxed);
        self.last_segment.fetch_add(UNSEEN_SEGMENTS_MAX, Ordering::Relaxed);
    }

    /// Takes in a file of an earlier run of this worker.
    pub fn found_segment(&self, number: u32) {
        self.last_segment.fetch_max(number, Ordering::Relaxed);
    }
}

impl Shuffle {
    /// An empty shuffle.
    pub fn new(key: ShuffleKey, lease: Arc<Lease>, memory: Memory, numbers: Arc<Numbers>) -> Self {
        let contents = Contents {
            state: ShuffleState::default(),
            copies: HashMap::new(),
            order: None,
            wants_map_bitmap: false,
            push_timeout: None,
            gone: false,
            stopping: false,
            lease: Some(lease),
            birth: numbers.life(),
            is_unread: false,
            has_unseen_files: false,
            segments: Vec::new(),
            winners_on_disk: Winners::default(),
            slots_charge: memory.charge_fixed(0),
            memory,
            numbers,
        };
        Self { key, inner: Mutex::new(contents), resident: AtomicU64::new(0), touched_ms: AtomicU64::new(0) }
    }

    /// Whose shuffle it is.
    pub fn key(&self) -> &ShuffleKey {
        &self.key
    }

    /// The contents, locked.
    pub fn lock(&self) -> MutexGuard<'_, Contents> {
        // A panic while it was held would be a defect; the other shuffles' data must stay reachable all the same.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes in memory.
    pub fn resident(&self) -> u64 {
        self.resident.load(Ordering::Relaxed)
    }

    /// Counts bytes that came into memory, under the lock.
    pub fn grew(&self, bytes: u64, now_ms: u64) {
        self.resident.fetch_add(bytes, Ordering::Relaxed);
        self.touched_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Counts bytes that left memory, under the lock.
    pub fn shrank(&self, bytes: u64) {
        self.resident.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// When the last batch came.
    pub fn touched_ms(&self) -> u64 {
        self.touched_ms.load(Ordering::Relaxed)
    }
}

impl Contents {
    /// The copy of a slot, made when it is first written to.
    pub fn copy_mut(&mut self, slot: Slot, file: crate::ids::FileName) -> &mut LocationCopy {
        self.copies.entry(slot).or_insert_with(|| LocationCopy::new(file, self.numbers.life(), &self.memory))
    }

    /// Where something is written in a directory: to its file that still takes runs, or to a new one.
    pub fn target(&self, directory: &Arc<Directory>) -> Target {
        match self.open_segment(directory) {
            Some(segment) => Target::Open(Arc::clone(segment)),
            None => Target::New(self.next_segment_number()),
        }
    }

    /// The file of a directory that still takes runs.
    pub fn open_segment(&self, directory: &Arc<Directory>) -> Option<&Arc<Segment>> {
        // The newest may be a large batch's own.
        let takes_runs =
            |segment: &&Arc<Segment>| Arc::ptr_eq(segment.directory(), directory) && segment.is_writable();
        self.segments.iter().rev().find(takes_runs)
    }

    /// Charges the locations that there are now. What is not needed any more is returned, to be dropped without the lock:
    /// giving back memory wakes who waits for it.
    pub fn charge_slots(&mut self) -> Option<Charge> {
        let (charged, wanted) = (self.slots_charge.bytes(), SLOT_BYTES * self.state.len() as u64);
        if wanted >= charged {
            self.slots_charge.grow(wanted - charged);
            return None;
        }
        Some(self.slots_charge.split(charged - wanted))
    }

    /// Gives back what its locations were charged, for the same.
    pub fn take_slots_charge(&mut self) -> Charge {
        self.slots_charge.split(self.slots_charge.bytes())
    }

    /// The number of a new file.
    pub fn next_segment_number(&self) -> u32 {
        self.numbers.segment()
    }

    /// Takes in a file, if it is not here yet.
    pub fn adopt(&mut self, segment: &Arc<Segment>) {
        if !self.segments.iter().any(|known| Arc::ptr_eq(known, segment)) {
            self.segments.push(Arc::clone(segment));
        }
    }

    /// Bytes of all batches, in memory and on disk.
    pub fn bytes(&self) -> u64 {
        self.copies.values().map(|copy| copy.index().bytes()).sum()
    }
}
