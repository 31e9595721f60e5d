//! Buffers for bodies and for reads from disk, used again and again.
//!
//! Data comes and goes by the gigabyte, in all sizes, received by one thread and freed by another. General allocators
//! then keep much memory to themselves, and fresh memory costs a page fault for every 4 KiB. Here a buffer has one of a
//! few sizes and goes back to a shelf when its last reader drops it; what is on the shelves is known to the byte, so
//! that the process stays below its limit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::{Charge, Ledger, Party};

/// Below this a buffer is of its exact size and not kept.
const SHELF_BYTES_MIN: usize = 4 << 10;

/// Above this a buffer is of its exact size and not kept.
const SHELF_BYTES_MAX: usize = 8 << 20;

/// Sizes between a power of two and the next: a buffer wastes less than an eighth of itself.
const STEPS: usize = 8;

/// What a buffer costs besides itself: the allocations of its owner and its handle.
const OVERHEAD_BYTES: u64 = 192;

/// Bytes on all shelves of the process: they are in its memory, but in nobody's use.
static SHELVED: AtomicU64 = AtomicU64::new(0);

/// Bytes on all shelves of the process.
pub fn shelved() -> u64 {
    SHELVED.load(Ordering::Relaxed)
}

#[derive(Debug, Default)]
struct Shelves {
    free: BTreeMap<usize, Vec<Vec<u8>>>,
    bytes: u64,
    /// Buffers were taken or given back since the last look.
    busy: bool,
}

/// The shelves of one server. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Buffers(Arc<Mutex<Shelves>>);

/// A buffer that goes back to its shelf when it is dropped.
#[derive(Debug)]
pub struct Buffer<P: Party> {
    bytes: Vec<u8>,
    shelf: Option<Buffers>,
    _charge: Charge<P>,
}

/// The capacity of a buffer that holds `len` bytes.
fn capacity(len: usize) -> usize {
    if !(SHELF_BYTES_MIN..=SHELF_BYTES_MAX).contains(&len) {
        return len;
    }
    let step = (len.next_power_of_two() / 2 / STEPS).max(SHELF_BYTES_MIN / STEPS);
    len.next_multiple_of(step)
}

impl Buffers {
    /// Bytes that a buffer for `len` bytes is charged.
    pub fn cost(len: usize) -> u64 {
        capacity(len) as u64 + OVERHEAD_BYTES
    }

    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        // A list of buffers, each whole: no panic leaves it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the ledger has room for a buffer of `len` bytes for a party, and takes one. It is empty, with that
    /// capacity.
    pub async fn take<P: Party>(&self, len: usize, ledger: &Ledger<P>, party: &P) -> Buffer<P> {
        let charge = ledger.acquire(party, Self::cost(len)).await;
        self.take_charged(len, charge, ledger)
    }

    /// Takes a buffer whose room was waited for: the charge is the [`cost`](Self::cost) of its length.
    pub fn take_charged<P: Party>(&self, len: usize, charge: Charge<P>, ledger: &Ledger<P>) -> Buffer<P> {
        let capacity = capacity(len);
        if !(SHELF_BYTES_MIN..=SHELF_BYTES_MAX).contains(&capacity) {
            return Buffer { bytes: Vec::with_capacity(capacity), shelf: None, _charge: charge };
        }
        let found = {
            let mut shelves = self.shelves();
            shelves.busy = true;
            let found = shelves.free.get_mut(&capacity).and_then(Vec::pop);
            if found.is_some() {
                shelves.removed(capacity as u64);
            }
            found
        };
        let bytes = found.unwrap_or_else(|| {
            // Buffers of other sizes on the shelves make room first.
            let in_use = ledger.used();
            self.shrink_to(ledger.limit().saturating_sub(in_use));
            Vec::with_capacity(capacity)
        });
        Buffer { bytes, shelf: Some(self.clone()), _charge: charge }
    }

    /// Gives buffers back to the system until the shelves hold at most `bytes_max`, the largest first.
    pub fn shrink_to(&self, bytes_max: u64) {
        let mut freed = Vec::new();
        {
            let mut shelves = self.shelves();
            while shelves.bytes > bytes_max {
                let Some(mut largest) = shelves.free.last_entry() else { break };
                match largest.get_mut().pop() {
                    Some(buffer) => {
                        shelves.removed(buffer.capacity() as u64);
                        freed.push(buffer);
                    }
                    None => drop(largest.remove()),
                }
            }
        }
        drop(freed); // outside the lock: it takes system calls
    }

    /// Empties the shelves if nobody used them since the last call.
    pub fn shrink_if_idle(&self) {
        let idle = !std::mem::take(&mut self.shelves().busy);
        if idle {
            self.shrink_to(0);
        }
    }

    /// Bytes on the shelves.
    pub fn bytes(&self) -> u64 {
        self.shelves().bytes
    }

    fn put_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let capacity = buffer.capacity();
        let mut shelves = self.shelves();
        shelves.busy = true;
        shelves.bytes += capacity as u64;
        SHELVED.fetch_add(capacity as u64, Ordering::Relaxed);
        shelves.free.entry(capacity).or_default().push(buffer);
    }
}

impl Shelves {
    fn removed(&mut self, bytes: u64) {
        self.bytes -= bytes;
        SHELVED.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Shelves {
    fn drop(&mut self) {
        self.removed(self.bytes);
    }
}

impl<P: Party> Buffer<P> {
    /// The bytes, to be filled up to their capacity. A vector that grows beyond it is not kept.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The bytes, to be shared: the buffer goes back when the last handle is dropped.
    pub fn share(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl<P: Party> AsRef<[u8]> for Buffer<P> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<P: Party> Drop for Buffer<P> {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        // Only a size that is asked for: a buffer that has grown would lie on a shelf for ever.
        if let Some(shelf) = self.shelf.take().filter(|_| capacity(bytes.capacity()) == bytes.capacity()) {
            shelf.put_back(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_party::TestParty;

    #[test]
    fn a_buffer_comes_back_and_is_used_again() {
        let (memory, buffers) = (Ledger::<TestParty>::new(1 << 20), Buffers::default());
        let buffer = |len| buffers.take_charged(len, memory.charge(Buffers::cost(len)), &memory);
        let mut first = buffer(60_000);
        first.bytes_mut().extend_from_slice(b"body");
        let place = first.bytes_mut().as_ptr();
        let shared = first.share();
        let part = shared.slice(1..3);
        drop(shared);
        assert_eq!((buffers.bytes(), &part[..]), (0, &b"od"[..]));
        assert_eq!(memory.used(), Buffers::cost(60_000));
        drop(part);
        assert_eq!((buffers.bytes(), memory.used()), (61_440, 0));
        let mut second = buffer(60_001);
        assert_eq!((second.bytes_mut().as_ptr(), second.as_ref().len()), (place, 0), "the same one, empty");
        drop(second);
        drop(buffer(100));
        drop(buffer(SHELF_BYTES_MAX + 1));
        assert_eq!(buffers.bytes(), 61_440, "the smallest and the largest are not kept");
        buffers.shrink_if_idle();
        assert_eq!(buffers.bytes(), 61_440, "used since the last look");
        buffers.shrink_if_idle();
        assert_eq!(buffers.bytes(), 0);
    }

    #[test]
    fn other_sizes_make_room() {
        let (memory, buffers) = (Ledger::<TestParty>::new(200_000), Buffers::default());
        let buffer = |len| buffers.take_charged(len, memory.charge(Buffers::cost(len)), &memory);
        let many: Vec<_> = (0..4).map(|_| buffer(40_000)).collect();
        drop(many);
        assert_eq!(buffers.bytes(), 4 * 40_960);
        let large = buffer(120_000);
        assert!(buffers.bytes() <= 200_000 - memory.used(), "shelves and use together are below the limit");
        drop(large);
    }

    proptest! {
        #[test]
        fn a_size_wastes_little_and_is_its_own_size(len in SHELF_BYTES_MIN..=SHELF_BYTES_MAX) {
            let found = capacity(len);
            prop_assert!(found >= len && found - len < len / STEPS + 1, "{} for {}", found, len);
            prop_assert_eq!(capacity(found), found);
            prop_assert!(found <= SHELF_BYTES_MAX);
        }
    }
}
