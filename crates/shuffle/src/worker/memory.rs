//! The ledger of the worker's memory: every byte of a batch, of an index and of a read buffer is charged here before it
//! is used, and given back when its owner is dropped.
//!
//! Who wants more than there is waits in line, first come first served, one request for each connection: no one else is
//! paused. Before that, [`Level`] tells the pushes to split softly and the spiller to work.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

/// What all ledgers of the process have in use: a process may be several workers, and has one RSS.
static ACCOUNTED: AtomicU64 = AtomicU64::new(0);

/// Bytes that all ledgers of the process have in use.
pub fn accounted() -> u64 {
    ACCOUNTED.load(Ordering::Relaxed)
}

/// How full the ledger is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Below the spill mark.
    Calm,
    /// The spiller moves cold batches to disk.
    Spilling,
    /// The spiller does not keep up: large locations should split.
    Tight,
    /// Someone is waiting.
    Full,
}

/// Spilling begins above this share of the limit, in 1/16.
const SPILL_SIXTEENTHS: u64 = 8;
/// Spilling ends below this share.
const REST_SIXTEENTHS: u64 = 4;
/// Nothing new is taken above this share of what no spill gives back.
const FIXED_SIXTEENTHS: u64 = 10;
/// Locations split above this share.
const TIGHT_SIXTEENTHS: u64 = 13;

#[derive(Debug)]
struct Ledger {
    used: u64,
    /// The part of it that no spill gives back.
    fixed: u64,
    limit: u64,
    waiting: VecDeque<(u64, oneshot::Sender<Charge>)>,
    high_water: u64,
}

/// The ledger, shared by everything that holds memory. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Memory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    ledger: Mutex<Ledger>,
    spill: Notify,
}

/// Bytes of memory that are in use until this is dropped.
#[derive(Debug)]
pub struct Charge {
    memory: Memory,
    bytes: u64,
    /// No spill gives it back.
    fixed: bool,
}

impl Memory {
    /// A ledger that lets `limit` bytes be in use.
    pub fn new(limit: u64) -> Self {
        let ledger = Ledger { used: 0, fixed: 0, limit, waiting: VecDeque::new(), high_water: 0 };
        Self(Arc::new(Shared { ledger: Mutex::new(ledger), spill: Notify::new() }))
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // The ledger is two numbers and a queue that no panic leaves half changed.
        self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.ledger().used
    }

    /// Bytes that may be in use.
    pub fn limit(&self) -> u64 {
        self.ledger().limit
    }

    /// The most bytes that ever were in use.
    pub fn high_water(&self) -> u64 {
        self.ledger().high_water
    }

    /// Changes the limit: the process as the operating system sees it needs more or less besides.
    pub fn set_limit(&self, limit: u64) {
        self.ledger().limit = limit;
        self.serve_line();
        self.0.spill.notify_one();
    }

    /// How full the ledger is.
    pub fn level(&self) -> Level {
        let ledger = self.ledger();
        if !ledger.waiting.is_empty() {
            return Level::Full;
        }
        if ledger.used > share(ledger.limit, TIGHT_SIXTEENTHS) {
            Level::Tight
        } else if ledger.used > share(ledger.limit, SPILL_SIXTEENTHS) {
            Level::Spilling
        } else {
            Level::Calm
        }
    }

    /// Bytes that must be given back until the spiller may rest; zero below the mark at which it begins.
    pub fn excess(&self) -> u64 {
        let ledger = self.ledger();
        if ledger.waiting.is_empty() && ledger.used <= share(ledger.limit, SPILL_SIXTEENTHS) {
            return 0;
        }
        ledger.used.saturating_sub(share(ledger.limit, REST_SIXTEENTHS))
    }

    /// Has the spiller look again.
    pub fn wake_spiller(&self) {
        self.0.spill.notify_one();
    }

    /// Returns when spilling may be needed; may return early.
    pub async fn spill_wanted(&self) {
        self.0.spill.notified().await;
    }

    /// Waits for room. A request for more than the whole limit gets its turn when nothing else is in use.
    pub async fn acquire(&self, bytes: u64) -> Charge {
        let (granted, crossed, turn) = {
            let mut ledger = self.ledger();
            if ledger.waiting.is_empty() && ledger.has_room(bytes) {
                let crossed = ledger.take(bytes);
                (Some(self.granted(bytes)), crossed, None)
            } else {
                let (sender, receiver) = oneshot::channel();
                ledger.waiting.push_back((bytes, sender));
                (None, true, Some(receiver))
            }
        };
        if crossed {
            self.0.spill.notify_one();
        }
        match (granted, turn) {
            (Some(charge), _) => charge,
            (None, Some(receiver)) => {
                let mut turn = Turn { memory: self, receiver };
                (&mut turn.receiver).await.expect("the ledger keeps a waiter until it grants it")
            }
            (None, None) => unreachable!("either granted or waiting"),
        }
    }

    fn serve_line(&self) {
        let granted = self.grant(&mut self.ledger());
        deliver(granted);
    }

    /// Charges without waiting: for what has to be kept now that its bytes are here.
    pub fn charge(&self, bytes: u64) -> Charge {
        let crossed = self.ledger().take(bytes);
        if crossed {
            self.0.spill.notify_one();
        }
        self.granted(bytes)
    }

    /// Charges without waiting what stays in memory for as long as its shuffle is here: indexes, streams.
    pub fn charge_fixed(&self, bytes: u64) -> Charge {
        let mut charge = Charge { memory: self.clone(), bytes: 0, fixed: true };
        charge.grow(bytes);
        charge
    }

    /// Whether what no spill gives back takes most of the limit.
    pub fn is_mostly_fixed(&self) -> bool {
        let ledger = self.ledger();
        ledger.fixed > share(ledger.limit, FIXED_SIXTEENTHS)
    }

    fn granted(&self, bytes: u64) -> Charge {
        Charge { memory: self.clone(), bytes, fixed: false }
    }

    fn release(&self, bytes: u64, fixed: bool) {
        if bytes == 0 {
            return;
        }
        let granted = {
            let mut ledger = self.ledger();
            debug_assert!(ledger.used >= bytes, "more given back than taken");
            ledger.used = ledger.used.saturating_sub(bytes);
            ledger.fixed -= if fixed { bytes } else { 0 };
            ACCOUNTED.fetch_sub(bytes, Ordering::Relaxed);
            self.grant(&mut ledger)
        };
        deliver(granted);
    }

    /// Serves the line as far as there is room. The charges are handed over outside the lock, because a waiter that has
    /// left gives its charge back at once.
    fn grant(&self, ledger: &mut Ledger) -> Vec<(oneshot::Sender<Charge>, Charge)> {
        let mut granted = Vec::new();
        while let Some((bytes, sender)) = ledger.waiting.pop_front() {
            if sender.is_closed() {
                continue;
            }
            if !ledger.has_room(bytes) {
                ledger.waiting.push_front((bytes, sender));
                break;
            }
            ledger.take(bytes);
            granted.push((sender, self.granted(bytes)));
        }
        granted
    }
}

/// A place in the line; leaving it lets the next ones move up.
struct Turn<'a> {
    memory: &'a Memory,
    receiver: oneshot::Receiver<Charge>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.receiver.close();
        self.memory.serve_line();
    }
}

fn deliver(granted: Vec<(oneshot::Sender<Charge>, Charge)>) {
    for (sender, charge) in granted {
        drop(sender.send(charge)); // fails for a waiter that has left: its charge drops, and the next in line is served
    }
}

fn share(limit: u64, sixteenths: u64) -> u64 {
    limit / 16 * sixteenths
}

impl Ledger {
    fn has_room(&self, bytes: u64) -> bool {
        self.used == 0 || self.used.saturating_add(bytes) <= self.limit
    }

    /// Takes bytes; true if spilling may be needed.
    fn take(&mut self, bytes: u64) -> bool {
        self.used = self.used.saturating_add(bytes);
        ACCOUNTED.fetch_add(bytes, Ordering::Relaxed);
        self.high_water = self.high_water.max(self.used);
        self.used > share(self.limit, SPILL_SIXTEENTHS)
    }
}

impl Charge {
    /// Bytes that this charge holds.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Charges more, without waiting.
    pub fn grow(&mut self, bytes: u64) {
        let mut more = self.memory.charge(bytes);
        if self.fixed {
            self.memory.ledger().fixed += bytes;
        }
        self.bytes += std::mem::take(&mut more.bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.release(self.bytes, self.fixed);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use proptest::prelude::*;

    use super::*;

    fn poll<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn the_line_is_served_in_order_even_when_a_small_request_would_fit() {
        let memory = Memory::new(100);
        let first = memory.charge(90);
        let (mut large, mut small) = (pin!(memory.acquire(50)), pin!(memory.acquire(5)));
        assert!(poll(large.as_mut()).is_none());
        assert!(poll(small.as_mut()).is_none(), "it came later");
        assert_eq!(memory.level(), Level::Full);
        drop(first);
        let large = poll(large.as_mut()).expect("its turn");
        let small = poll(small.as_mut()).expect("its turn");
        assert_eq!((large.bytes(), small.bytes(), memory.used()), (50, 5, 55));
    }

    #[test]
    fn a_waiter_that_leaves_is_skipped() {
        let memory = Memory::new(100);
        let first = memory.charge(100);
        let mut stays = pin!(memory.acquire(60));
        {
            let mut leaves = pin!(memory.acquire(90));
            assert!(poll(leaves.as_mut()).is_none());
            assert!(poll(stays.as_mut()).is_none());
        }
        drop(first);
        assert!(poll(stays.as_mut()).is_some());
    }

    #[test]
    fn more_than_the_limit_waits_for_an_empty_ledger() {
        let memory = Memory::new(100);
        let small = memory.charge(1);
        let mut giant = pin!(memory.acquire(500));
        assert!(poll(giant.as_mut()).is_none());
        drop(small);
        assert_eq!(poll(giant.as_mut()).map(|charge| charge.bytes()), Some(500));
        assert_eq!((memory.used(), memory.high_water()), (0, 500));
    }

    #[test]
    fn levels_follow_the_marks() {
        let memory = Memory::new(1600);
        let mut charge = memory.charge(800);
        assert_eq!((memory.level(), memory.excess()), (Level::Calm, 0));
        charge.grow(1);
        assert_eq!((memory.level(), memory.excess()), (Level::Spilling, 401));
        charge.grow(500);
        assert_eq!(memory.level(), Level::Tight);
    }

    #[test]
    fn what_no_spill_gives_back_is_counted_by_itself() {
        let memory = Memory::new(1600);
        let mut index = memory.charge_fixed(900);
        let batch = memory.charge(600);
        assert!(!memory.is_mostly_fixed());
        index.grow(101);
        assert!(memory.is_mostly_fixed());
        drop(batch);
        assert_eq!((memory.is_mostly_fixed(), memory.used()), (true, 1001));
        drop(index);
        assert_eq!((memory.is_mostly_fixed(), memory.used()), (false, 0));
    }

    proptest! {
        /// The ledger is the sum of what is held, and never above the limit by what waited for its turn.
        #[test]
        fn the_ledger_is_the_sum_of_what_is_held(steps in prop::collection::vec((0..3u8, 1..60u64, 0..8usize), 1..200)) {
            let memory = Memory::new(100);
            let mut held: Vec<Charge> = Vec::new();
            let mut line: VecDeque<Pin<Box<dyn Future<Output = Charge>>>> = VecDeque::new();
            for (step, bytes, which) in steps {
                match step {
                    0 => {
                        let memory = memory.clone();
                        line.push_back(Box::pin(async move { memory.acquire(bytes).await }));
                    }
                    1 if !held.is_empty() => drop(held.swap_remove(which % held.len())),
                    2 if !line.is_empty() => drop(line.remove(which % line.len())),
                    _ => {}
                }
                let mut waiting = VecDeque::new();
                for mut request in line.drain(..) {
                    match poll(request.as_mut()) {
                        Some(charge) => held.push(charge),
                        None => waiting.push_back(request),
                    }
                }
                line = waiting;
                prop_assert_eq!(memory.used(), held.iter().map(Charge::bytes).sum::<u64>());
                prop_assert!(memory.used() <= 100);
                prop_assert!(line.is_empty() || memory.used() > 40, "someone waits although there is room");
            }
        }
    }
}
