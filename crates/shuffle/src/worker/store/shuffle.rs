//! One shuffle on this worker: its decisions and its batches, behind one lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::copy::LocationCopy;
use super::directory::Directory;
use super::lease::Lease;
use super::segment::Segment;
use super::spill::Write;
use super::target::Target;
use crate::ids::{ApplicationId, FileName, ShuffleKey};
use crate::wire::batch::ByteOrder;
use crate::worker::index::Winners;
use crate::worker::memory::{Charge, Memory, Party};
use crate::worker::state::{ShuffleState, Slot};

/// One shuffle. The lock is held for a decision and its bookkeeping, never during I/O.
#[derive(Debug)]
pub struct Shuffle {
    key: ShuffleKey,
    inner: Mutex<Contents>,
    /// Bytes in memory, for choosing what to spill.
    resident: AtomicU64,
    /// When the last batch arrived (worker's clock, ms).
    touched_ms: AtomicU64,
}

/// What the shuffle's lock protects.
#[derive(Debug)]
pub struct Contents {
    /// The decisions.
    pub state: ShuffleState,
    /// The batches of each slot.
    pub copies: HashMap<Slot, LocationCopy>,
    /// Byte order of the batch headers, once one has shown it.
    pub order: Option<ByteOrder>,
    /// Whether readers want to know which maps wrote to each location.
    pub wants_map_bitmap: bool,
    /// How long a client waits for a push, if one has said so.
    pub push_timeout: Option<Duration>,
    /// Deleted: holders of this must store nothing more.
    pub gone: bool,
    /// Everything committed is to be found by the next process, even empty locations of a shuffle without files: the worker
    /// is about to stop, or commits are synced.
    pub is_durable: bool,
    /// The lease for whatever writes files of this shuffle, until it is deleted.
    pub lease: Option<Arc<Lease>>,
    /// Its number in the order of lives: what is on disk from before belongs to an earlier shuffle of the same number.
    pub birth: u64,
    /// Its files could not be read and nothing else is known: it takes no locations, so that the next start may still find
    /// them.
    pub is_unread: bool,
    /// There may be files besides `segments`, which could not be read or listed when the worker started.
    pub has_unseen_files: bool,
    /// Files, the newest of each directory last.
    pub segments: Vec<Arc<Segment>>,
    /// The jobs that write its batches now: at most one in each directory, and those that wait for its turn.
    pub writes: Vec<Write>,
    /// The winners as the files have them.
    pub winners_on_disk: Winners,
    /// The memory charged for its locations besides their batches.
    slots_charge: Charge,
    application: ApplicationId,
    memory: Memory,
    numbers: Arc<Numbers>,
}

/// Memory of a location besides its batches and index: its state, its slots in two tables with slack, its copy, and what the
/// first batch adds.
pub const SLOT_BYTES: u64 = 512;

/// Room for numbers of copies and files that could not be read: this far above the highest known ones. All shuffles share
/// one count, and even a long run uses up less. If the numbers of files wrap around after very many starts, a file takes the
/// next free one.
const UNSEEN_SEGMENTS_MAX: u32 = 1 << 24;
const UNSEEN_LIVES_MAX: u64 = 1 << 40;

/// The last numbers given, at least as large as any on disk. They do not restart with a shuffle, which may come back under
/// its name while its old files are being deleted.
#[derive(Debug, Default)]
pub struct Numbers {
    last_life: AtomicU64,
    last_segment: AtomicU32,
}

impl Numbers {
    /// A number for a new copy of a location, or for a new shuffle.
    fn life(&self) -> u64 {
        self.last_life.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// A number for a new file.
    fn segment(&self) -> u32 {
        self.last_segment.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// Notes a copy of an earlier process of this worker.
    pub fn found_life(&self, life: u64) {
        self.last_life.fetch_max(life, Ordering::Relaxed);
    }

    /// Leaves room for files and copies of earlier processes of this worker that were not found.
    pub fn leave_room(&self) {
        self.last_life.fetch_add(UNSEEN_LIVES_MAX, Ordering::Relaxed);
        self.last_segment.fetch_add(UNSEEN_SEGMENTS_MAX, Ordering::Relaxed);
    }

    /// Notes a file of an earlier process of this worker.
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
            is_durable: false,
            lease: Some(lease),
            birth: numbers.life(),
            is_unread: false,
            has_unseen_files: false,
            segments: Vec::new(),
            writes: Vec::new(),
            winners_on_disk: Winners::default(),
            slots_charge: memory.charge_fixed_of(&Party::pushes(&key.application), 0),
            application: key.application.clone(),
            memory,
            numbers,
        };
        Self { key, inner: Mutex::new(contents), resident: AtomicU64::new(0), touched_ms: AtomicU64::new(0) }
    }

    /// Its application and number.
    pub fn key(&self) -> &ShuffleKey {
        &self.key
    }

    /// The contents, locked.
    pub fn lock(&self) -> MutexGuard<'_, Contents> {
        // A panic while the lock was held would be a defect; the other shuffles' data must stay reachable anyway.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes in memory.
    pub fn resident(&self) -> u64 {
        self.resident.load(Ordering::Relaxed)
    }

    /// Counts bytes added to memory; called under the lock.
    pub fn grew(&self, bytes: u64, now_ms: u64) {
        self.resident.fetch_add(bytes, Ordering::Relaxed);
        self.touched_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Counts bytes removed from memory; called under the lock.
    pub fn shrank(&self, bytes: u64) {
        let before = self.resident.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "{}: more leaves memory than was there", self.key);
    }

    /// When the last batch arrived.
    pub fn touched_ms(&self) -> u64 {
        self.touched_ms.load(Ordering::Relaxed)
    }
}

impl Contents {
    /// The copy of a slot, created with its first write.
    pub fn copy_mut(&mut self, slot: Slot, file: FileName) -> &mut LocationCopy {
        self.copies
            .entry(slot)
            .or_insert_with(|| LocationCopy::new(file, self.numbers.life(), &self.application, &self.memory))
    }

    /// Where to write in a directory: its file that still takes runs, or a new one.
    pub fn target(&self, directory: &Arc<Directory>) -> Target {
        match self.open_segment(directory) {
            Some(segment) => Target::Open(Arc::clone(segment)),
            None => Target::New(self.next_segment_number()),
        }
    }

    /// The file of a directory that still takes runs.
    pub fn open_segment(&self, directory: &Arc<Directory>) -> Option<&Arc<Segment>> {
        // The newest may be a single-batch file.
        let takes_runs =
            |segment: &&Arc<Segment>| Arc::ptr_eq(segment.directory(), directory) && segment.is_writable();
        self.segments.iter().rev().find(takes_runs)
    }

    /// Charges its current locations. What is no longer needed is returned, to be dropped outside the lock: freeing memory
    /// wakes waiters.
    pub fn charge_slots(&mut self) -> Option<Charge> {
        let (charged, wanted) = (self.slots_charge.bytes(), SLOT_BYTES * self.state.len() as u64);
        if wanted >= charged {
            self.slots_charge.grow(wanted - charged);
            return None;
        }
        Some(self.slots_charge.split(charged - wanted))
    }

    /// Takes back what its locations were charged, to be dropped in the same way.
    pub fn take_slots_charge(&mut self) -> Charge {
        self.slots_charge.split(self.slots_charge.bytes())
    }

    /// Gives back the room that committed locations have for further batches.
    pub fn complete(&mut self, files: impl IntoIterator<Item = FileName>) {
        for file in files {
            let slot = self.state.find(file).filter(|_| self.state.is_sealed(file));
            if let Some(copy) = slot.and_then(|slot| self.copies.get_mut(&slot)) {
                let appended = self.state.bytes(file);
                assert_eq!(
                    copy.index().bytes(),
                    appended,
                    "{file} of {}: its index lacks batches",
                    self.application
                );
                copy.complete();
            }
        }
    }

    /// The number of a new file.
    pub fn next_segment_number(&self) -> u32 {
        self.numbers.segment()
    }

    /// Adds a file, unless it is known.
    pub fn adopt(&mut self, segment: &Arc<Segment>) {
        if !self.segments.iter().any(|known| Arc::ptr_eq(known, segment)) {
            self.segments.push(Arc::clone(segment));
        }
    }

    /// Adds a file, unless the shuffle is deleted, which is returned.
    pub fn adopt_unless_gone(&mut self, segment: &Arc<Segment>) -> bool {
        if !self.gone {
            self.adopt(segment);
        }
        self.gone
    }

    /// Bytes of all batches, in memory and on disk.
    pub fn bytes(&self) -> u64 {
        self.copies.values().map(|copy| copy.index().bytes()).sum()
    }
}
