//! Who may hold how much of the pool.
//!
//! DataFusion's operators come in two kinds. Spillers (sorts, aggregates, repartitions) write to disk when they are refused
//! memory; the others (hash joins, top-k) fail the query. No operator can be made to give memory back. So:
//!
//! - the shares of spillers are counted among those that hold something now, not among all that are registered, since a
//!   plan registers dozens that hold nothing;
//! - a part of the pool, the headroom, is kept from spillers, so that an operator that cannot spill finds room even when
//!   every spiller has taken its share;
//! - anybody may always reach a small floor out of the headroom, because a sort or merge that cannot get its first buffer
//!   fails;
//! - and beyond it nobody gets more than the process has left under its promise, whatever the pool's own count says.

use std::collections::HashMap;

/// The bounds of a pool, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The most that all reservations hold together.
    pub capacity: usize,
    /// What spillers leave free for operators that cannot spill and for each other's floors.
    pub headroom: usize,
    /// What anybody may hold, as long as `capacity` has room.
    pub floor: usize,
}

impl Bounds {
    /// The bounds for a process that promised to stay within `promise` bytes.
    ///
    /// About 60 % of the promise goes to the pool. The rest is for what the pool does not see: the program, decoded
    /// Parquet pages, batches between operators, hash tables at the moment they grow (old and new copy together), and the
    /// allocator's own slack. The share was found by running TPC-H at scale 10 and TPC-DS at scale 1 and watching the RSS.
    pub(crate) fn for_promise(promise: usize) -> Self {
        let capacity = promise.saturating_sub(PROGRAM_BYTES) / 100 * CAPACITY_PERCENT;
        let headroom = capacity / 4;
        Self { capacity, headroom, floor: (capacity / 16).min(FLOOR_BYTES_MAX) }
    }

    /// The promise under which the pool would have this capacity.
    pub(crate) fn promise_for(capacity: usize) -> usize {
        (capacity.div_ceil(CAPACITY_PERCENT)).saturating_mul(100).saturating_add(PROGRAM_BYTES + 100)
    }
}

/// What the program occupies with a scan running: its own pages, and the pages and batches that two threads decode.
const PROGRAM_BYTES: usize = 96 << 20;
const CAPACITY_PERCENT: usize = 62;
/// No sort needs a larger floor than this to start.
const FLOOR_BYTES_MAX: usize = 24 << 20;

/// Why a reservation may not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The pool as a whole is full.
    Capacity {
        /// Bytes that were still free.
        free: usize,
    },
    /// The spiller reached its share.
    Share {
        /// The bytes it may hold now.
        share: usize,
    },
    /// The process has no room left under its promise.
    Process {
        /// Bytes that were still free.
        free: usize,
    },
}

/// One consumer's name and holding, as error messages and `.memory` show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holding {
    pub name: String,
    pub can_spill: bool,
    pub bytes: usize,
    pub peak_bytes: usize,
}

/// The pool's books: what each consumer holds.
#[derive(Debug)]
pub(crate) struct Ledger {
    bounds: Bounds,
    consumers: HashMap<usize, Holding>,
    total: usize,
    unspillable: usize,
    active_spillers: usize,
    peak: usize,
}

impl Ledger {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self { bounds, consumers: HashMap::new(), total: 0, unspillable: 0, active_spillers: 0, peak: 0 }
    }

    pub(crate) fn register(&mut self, id: usize, name: &str, can_spill: bool) {
        let holding = Holding { name: name.to_owned(), can_spill, bytes: 0, peak_bytes: 0 };
        self.consumers.insert(id, holding);
    }

    pub(crate) fn unregister(&mut self, id: usize) {
        let held = self.consumers.get(&id).map_or(0, |holding| holding.bytes);
        self.shrink(id, held);
        self.consumers.remove(&id);
    }

    /// Grows without asking: DataFusion calls it for what is allocated already.
    pub(crate) fn grow(&mut self, id: usize, bytes: usize) {
        let Some(holding) = self.consumers.get_mut(&id) else { return };
        if holding.can_spill {
            self.active_spillers += usize::from(holding.bytes == 0 && bytes > 0);
        } else {
            self.unspillable += bytes;
        }
        holding.bytes += bytes;
        holding.peak_bytes = holding.peak_bytes.max(holding.bytes);
        self.total += bytes;
        self.peak = self.peak.max(self.total);
    }

    /// Grows if the rules of this module allow it; `process_free` is what the process has left under its promise.
    pub(crate) fn try_grow(&mut self, id: usize, bytes: usize, process_free: usize) -> Result<(), Refusal> {
        let Some(holding) = self.consumers.get(&id) else { return Ok(()) };
        let free = self.bounds.capacity.saturating_sub(self.total);
        if bytes > free {
            return Err(Refusal::Capacity { free });
        }
        let wanted = holding.bytes + bytes;
        let within_floor = wanted <= self.bounds.floor;
        if holding.can_spill && !within_floor {
            let share = self.share(holding.bytes == 0);
            if wanted > share || bytes > free.saturating_sub(self.bounds.headroom) {
                return Err(Refusal::Share { share });
            }
        }
        if !within_floor && bytes > process_free {
            return Err(Refusal::Process { free: process_free });
        }
        self.grow(id, bytes);
        Ok(())
    }

    /// What each active spiller may hold, with one more if `joining`.
    fn share(&self, joining: bool) -> usize {
        let spillers = (self.active_spillers + usize::from(joining)).max(1);
        self.bounds.capacity.saturating_sub(self.unspillable).saturating_sub(self.bounds.headroom) / spillers
    }

    pub(crate) fn shrink(&mut self, id: usize, bytes: usize) {
        let Some(holding) = self.consumers.get_mut(&id) else { return };
        let bytes = bytes.min(holding.bytes);
        holding.bytes -= bytes;
        if holding.can_spill {
            self.active_spillers -= usize::from(bytes > 0 && holding.bytes == 0);
        } else {
            self.unspillable -= bytes;
        }
        self.total -= bytes;
    }

    pub(crate) fn total(&self) -> usize {
        self.total
    }

    pub(crate) fn peak(&self) -> usize {
        self.peak
    }

    pub(crate) fn capacity(&self) -> usize {
        self.bounds.capacity
    }

    /// The `most` largest holders, largest first.
    pub(crate) fn largest(&self, most: usize) -> Vec<Holding> {
        let mut holders: Vec<Holding> = self.consumers.values().filter(|h| h.bytes > 0).cloned().collect();
        holders.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        holders.truncate(most);
        holders
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: Bounds = Bounds { capacity: 1000, headroom: 200, floor: 50 };
    const PLENTY: usize = usize::MAX;

    fn ledger(consumers: &[(usize, bool)]) -> Ledger {
        let mut ledger = Ledger::new(BOUNDS);
        for (id, can_spill) in consumers {
            ledger.register(*id, "operator", *can_spill);
        }
        ledger
    }

    #[test]
    fn the_promise_for_a_capacity_has_it() {
        for capacity in [0, 1, 100 << 20, 3 << 30, (3 << 30) + 17] {
            let promise = Bounds::promise_for(capacity);
            assert!(Bounds::for_promise(promise).capacity >= capacity, "{capacity}");
            assert!(Bounds::for_promise(promise - (1 << 20)).capacity < capacity.max(1), "{capacity}");
        }
    }

    #[test]
    fn one_active_spiller_gets_all_but_the_headroom_however_many_are_registered() {
        let mut ledger = ledger(&[(1, true), (2, true), (3, true), (4, true)]);
        assert_eq!(ledger.try_grow(1, 800, PLENTY), Ok(()));
        assert_eq!(ledger.try_grow(1, 1, PLENTY), Err(Refusal::Share { share: 800 }));
    }

    #[test]
    fn active_spillers_share_what_the_others_leave() {
        let mut ledger = ledger(&[(1, true), (2, true), (9, false)]);
        assert_eq!(ledger.try_grow(9, 300, PLENTY), Ok(()));
        assert_eq!(ledger.try_grow(1, 250, PLENTY), Ok(()));
        assert_eq!(ledger.try_grow(2, 251, PLENTY), Err(Refusal::Share { share: 250 }));
        assert_eq!(ledger.try_grow(2, 250, PLENTY), Ok(()));
    }

    #[test]
    fn the_headroom_is_for_operators_that_cannot_spill_and_for_floors() {
        let mut ledger = ledger(&[(1, true), (2, true), (9, false)]);
        assert_eq!(ledger.try_grow(1, 800, PLENTY), Ok(()));
        assert_eq!(ledger.try_grow(2, 51, PLENTY), Err(Refusal::Share { share: 400 }));
        assert_eq!(ledger.try_grow(2, 50, PLENTY), Ok(()));
        assert_eq!(ledger.try_grow(9, 150, PLENTY), Ok(()));
        assert_eq!(ledger.try_grow(9, 1, PLENTY), Err(Refusal::Capacity { free: 0 }));
    }

    #[test]
    fn a_full_process_refuses_all_but_floors() {
        let mut ledger = ledger(&[(1, true), (9, false)]);
        assert_eq!(ledger.try_grow(9, 51, 50), Err(Refusal::Process { free: 50 }));
        assert_eq!(ledger.try_grow(1, 51, 50), Err(Refusal::Process { free: 50 }));
        assert_eq!(ledger.try_grow(1, 50, 0), Ok(()));
        assert_eq!(ledger.try_grow(9, 50, 0), Ok(()));
    }

    #[test]
    fn what_is_given_back_can_be_had_again() {
        let mut ledger = ledger(&[(1, true), (2, true)]);
        assert_eq!(ledger.try_grow(1, 800, PLENTY), Ok(()));
        ledger.shrink(1, 800);
        assert_eq!(ledger.try_grow(2, 800, PLENTY), Ok(()));
        ledger.unregister(2);
        assert_eq!((ledger.total(), ledger.active_spillers, ledger.peak()), (0, 0, 800));
    }

    proptest! {
        /// Against the sum of a plain list: the books add up after any sequence, and granted growth never passes capacity.
        #[test]
        fn the_books_add_up(steps in prop::collection::vec((0usize..6, 0usize..4, 0usize..400, 0usize..1200), 1..200)) {
            let mut ledger = ledger(&[(0, true), (1, true), (2, true), (3, false), (4, false), (5, false)]);
            let mut held = [0usize; 6];
            for (id, action, bytes, process_free) in steps {
                match action {
                    0 | 1 => if ledger.try_grow(id, bytes, process_free).is_ok() {
                        held[id] += bytes;
                        prop_assert!(ledger.total() <= BOUNDS.capacity);
                    },
                    2 => { let bytes = bytes.min(held[id]); ledger.shrink(id, bytes); held[id] -= bytes; },
                    _ => { ledger.unregister(id); ledger.register(id, "again", id < 3); held[id] = 0; },
                }
                prop_assert_eq!(ledger.total(), held.iter().sum::<usize>());
                prop_assert_eq!(ledger.unspillable, held[3..].iter().sum::<usize>());
                prop_assert_eq!(ledger.active_spillers, held[..3].iter().filter(|bytes| **bytes > 0).count());
            }
        }
    }
}
