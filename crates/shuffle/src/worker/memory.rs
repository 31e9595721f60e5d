//! The ledger of the worker's memory: every byte of a batch, of an index and of a read buffer is charged here before it
//! is used, and given back when its owner is dropped.
//!
//! A request for more than there is waits, one for each connection; [`Shares`] decides which is next, so that no party
//! waits for one that has more than its share. Before that, [`Level`] tells pushes to split softly and the spiller to
//! work.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{Notify, oneshot};

pub use super::shares::{Level, Party};
use super::shares::{Shares, Ticket};

/// Bytes that all ledgers of the process have in use: a process may run several workers, but has one RSS.
static ACCOUNTED: AtomicU64 = AtomicU64::new(0);

/// Bytes that all ledgers of the process have in use.
pub fn accounted() -> u64 {
    ACCOUNTED.load(Ordering::Relaxed)
}

#[derive(Debug)]
struct Ledger {
    shares: Shares,
    /// By waiting request, where its charge is sent.
    waiters: HashMap<Ticket, oneshot::Sender<Charge>>,
}

/// The ledger, shared by everything that holds memory. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Memory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    ledger: Mutex<Ledger>,
    spill: Notify,
    /// Bytes that were ever taken, and how many [`Memory::until_pressed`] waits for.
    taken: AtomicU64,
    awaited: AtomicU64,
    pressed: Notify,
    started: Instant,
}

impl Shared {
    fn count_taken(&self, bytes: u64) {
        ACCOUNTED.fetch_add(bytes, Ordering::Relaxed);
        // Sequentially consistent with the waiter, which sets `awaited` before it reads `taken`.
        let before = self.taken.fetch_add(bytes, Ordering::SeqCst);
        let awaited = self.awaited.load(Ordering::SeqCst);
        if before < awaited && before + bytes >= awaited {
            self.pressed.notify_one();
        }
    }
}

/// Whom a charge is counted for.
#[derive(Debug, Clone)]
enum Owner {
    Party(Party),
    Nobody,
    /// No spill gives them back: nobody's, or a party's.
    Fixed(Option<Party>),
}

/// Bytes of memory that are in use until this is dropped.
#[derive(Debug)]
pub struct Charge {
    memory: Memory,
    bytes: u64,
    owner: Owner,
}

impl Memory {
    /// A ledger that lets `limit` bytes be in use.
    pub fn new(limit: u64) -> Self {
        let ledger = Ledger { shares: Shares::new(limit), waiters: HashMap::new() };
        Self(Arc::new(Shared {
            ledger: Mutex::new(ledger),
            spill: Notify::new(),
            taken: AtomicU64::new(0),
            awaited: AtomicU64::new(u64::MAX),
            pressed: Notify::new(),
            started: Instant::now(),
        }))
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Numbers and a line that no panic leaves half changed.
        self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.0.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.ledger().shares.used()
    }

    /// Bytes that may be in use.
    pub fn limit(&self) -> u64 {
        self.ledger().shares.limit()
    }

    /// The most bytes that ever were in use.
    pub fn high_water(&self) -> u64 {
        self.ledger().shares.high_water()
    }

    /// Bytes that a party has in use, without those of its indexes.
    pub fn held(&self, party: &Party) -> u64 {
        self.ledger().shares.held(party)
    }

    /// Requests that wait for their turn.
    pub fn waiting(&self) -> usize {
        self.ledger().shares.waiting()
    }

    /// Changes the limit, as the process needs more or less memory besides the ledger's. It is called regularly,
    /// because shares change with time, too.
    pub fn set_limit(&self, limit: u64) {
        let now_ms = self.now_ms();
        let (granted, crossed) = {
            let mut ledger = self.ledger();
            ledger.shares.set_limit(limit, now_ms);
            (self.grant(&mut ledger, now_ms), ledger.shares.wants_spill())
        };
        deliver(granted);
        if crossed {
            self.0.spill.notify_one();
        }
    }

    /// How full the ledger is.
    pub fn level(&self) -> Level {
        self.ledger().shares.level()
    }

    /// How full the ledger is for a party.
    pub fn level_for(&self, party: &Party) -> Level {
        self.ledger().shares.level_for(party, self.now_ms())
    }

    /// Bytes that must be given back until the spiller may rest; zero below the mark at which it begins.
    pub fn excess(&self) -> u64 {
        self.ledger().shares.excess()
    }

    /// Wakes the spiller.
    pub fn wake_spiller(&self) {
        self.0.spill.notify_one();
    }

    /// Returns when spilling may be needed; may return early.
    pub async fn spill_wanted(&self) {
        self.0.spill.notified().await;
    }

    /// Bytes that were ever taken, whatever was given back since.
    pub fn taken(&self) -> u64 {
        self.0.taken.load(Ordering::Relaxed)
    }

    /// Returns when `taken` bytes have ever been taken, or a request waits. For one caller at a time.
    pub async fn until_pressed(&self, taken: u64) {
        self.0.awaited.store(taken, Ordering::SeqCst);
        while self.0.taken.load(Ordering::SeqCst) < taken && self.waiting() == 0 {
            self.0.pressed.notified().await;
        }
    }

    /// Waits for room for bytes of a party. A request for more than the whole limit gets its turn when nothing else
    /// is in use.
    pub async fn acquire(&self, party: &Party, bytes: u64) -> Charge {
        let now_ms = self.now_ms();
        let (turn, granted, crossed) = {
            let mut ledger = self.ledger();
            if ledger.shares.take_at_once(party, bytes, now_ms) {
                self.0.count_taken(bytes);
                (None, Vec::new(), ledger.shares.wants_spill())
            } else {
                let ticket = ledger.shares.join(party, bytes, now_ms);
                let (sender, receiver) = oneshot::channel();
                ledger.waiters.insert(ticket, sender);
                let turn = Turn { memory: self, party, ticket, receiver, has_come: false };
                self.0.pressed.notify_one();
                // Its turn may come before those that joined earlier.
                (Some(turn), self.grant(&mut ledger, now_ms), true)
            }
        };
        deliver(granted);
        if crossed {
            self.0.spill.notify_one();
        }
        let Some(mut turn) = turn else { return self.granted(party.clone(), bytes) };
        let charge = (&mut turn.receiver).await.expect("the ledger keeps a waiter until it grants it");
        turn.has_come = true;
        charge
    }

    /// For tests: charges bytes that are nobody's, without waiting.
    #[doc(hidden)]
    pub fn charge(&self, bytes: u64) -> Charge {
        let mut charge = Charge { memory: self.clone(), bytes: 0, owner: Owner::Nobody };
        charge.grow(bytes);
        charge
    }

    /// Charges, without waiting, bytes that stay in memory for as long as their shuffle is here: indexes, streams.
    pub fn charge_fixed(&self, bytes: u64) -> Charge {
        let mut charge = Charge { memory: self.clone(), bytes: 0, owner: Owner::Fixed(None) };
        charge.grow(bytes);
        charge
    }

    /// The same for a party, whose part of such bytes is limited.
    pub fn charge_fixed_of(&self, party: &Party, bytes: u64) -> Charge {
        let mut charge = Charge { memory: self.clone(), bytes: 0, owner: Owner::Fixed(Some(party.clone())) };
        charge.grow(bytes);
        charge
    }

    /// Whether a party has to do with what it has of bytes that no spill gives back.
    pub fn has_its_part_of_fixed(&self, party: &Party) -> bool {
        self.ledger().shares.has_its_part_of_fixed(party)
    }

    /// Whether what no spill gives back takes most of the limit.
    pub fn is_mostly_fixed(&self) -> bool {
        self.ledger().shares.is_mostly_fixed()
    }

    /// Whether there is room for so many more fixed bytes.
    pub fn has_room_for_fixed(&self, bytes: u64) -> bool {
        self.ledger().shares.has_room_for_fixed(bytes)
    }

    fn granted(&self, party: Party, bytes: u64) -> Charge {
        Charge { memory: self.clone(), bytes, owner: Owner::Party(party) }
    }

    /// Changes the ledger, and serves the line as far as there is room then.
    fn give_back(&self, change: impl FnOnce(&mut Shares)) {
        let granted = {
            let mut ledger = self.ledger();
            change(&mut ledger.shares);
            if ledger.shares.waiting() == 0 {
                return;
            }
            self.grant(&mut ledger, self.now_ms())
        };
        deliver(granted);
    }

    /// Serves the line as far as there is room. The charges are handed over outside the lock, because a waiter that has
    /// left gives its charge back at once.
    fn grant(&self, ledger: &mut Ledger, now_ms: u64) -> Vec<(oneshot::Sender<Charge>, Charge)> {
        let mut granted = Vec::new();
        while let Some(grant) = ledger.shares.next(now_ms) {
            self.0.count_taken(grant.bytes);
            let sender = ledger.waiters.remove(&grant.ticket).expect("who is in line has a sender");
            granted.push((sender, self.granted(grant.party, grant.bytes)));
        }
        granted
    }
}

/// A request in line; dropping it lets the next ones move up.
struct Turn<'a> {
    memory: &'a Memory,
    party: &'a Party,
    ticket: Ticket,
    receiver: oneshot::Receiver<Charge>,
    has_come: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.has_come {
            return;
        }
        self.receiver.close();
        let sender = {
            let mut ledger = self.memory.ledger();
            ledger.shares.leave(self.party, self.ticket);
            ledger.waiters.remove(&self.ticket)
        };
        drop(sender); // with the charge, if it was already sent
        self.memory.give_back(|_| ());
    }
}

fn deliver(granted: Vec<(oneshot::Sender<Charge>, Charge)>) {
    for (sender, charge) in granted {
        drop(sender.send(charge)); // fails for a waiter that has left: its charge drops, and the next in line is served
    }
}

impl Charge {
    /// Bytes that this charge holds.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes a part of the charge out of it.
    pub fn split(&mut self, bytes: u64) -> Self {
        assert!(bytes <= self.bytes, "{bytes} of {} bytes", self.bytes);
        self.bytes -= bytes;
        Self { memory: self.memory.clone(), bytes, owner: self.owner.clone() }
    }

    /// Charges more, without waiting.
    pub fn grow(&mut self, bytes: u64) {
        let crossed = {
            let mut ledger = self.memory.ledger();
            match &self.owner {
                Owner::Party(party) => ledger.shares.take(party, bytes),
                Owner::Nobody => ledger.shares.count(bytes),
                Owner::Fixed(party) => ledger.shares.count_fixed(party.as_ref(), bytes),
            }
            ledger.shares.wants_spill()
        };
        self.memory.0.count_taken(bytes);
        if crossed {
            self.memory.0.spill.notify_one();
        }
        self.bytes += bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let bytes = self.bytes;
        if bytes == 0 {
            return;
        }
        let before = ACCOUNTED.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "more memory is given back than was charged");
        self.memory.give_back(|shares| match &self.owner {
            Owner::Party(party) => shares.give_back(party, bytes),
            Owner::Nobody => shares.uncount(bytes),
            Owner::Fixed(party) => shares.uncount_fixed(party.as_ref(), bytes),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use proptest::prelude::*;

    use super::*;
    use crate::ids::ApplicationId;

    fn poll<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn app(name: &str) -> Party {
        Party::pushes(&ApplicationId::from(name))
    }

    #[test]
    fn who_waits_gets_its_charge_when_room_comes() {
        let (memory, greedy, modest) = (Memory::new(1600), app("greedy"), app("modest"));
        let first = poll(pin!(memory.acquire(&greedy, 1400))).expect("there is room");
        let mut more = pin!(memory.acquire(&greedy, 100));
        assert!(poll(more.as_mut()).is_none());
        assert_eq!((memory.level(), memory.level_for(&greedy)), (Level::Full, Level::Full));
        let other = poll(pin!(memory.acquire(&modest, 100))).expect("it does not wait for the greedy one");
        drop(first);
        let more = poll(more.as_mut()).expect("its turn");
        assert_eq!((more.bytes(), other.bytes(), memory.used()), (100, 100, 200));
        assert_eq!((memory.held(&greedy), memory.held(&modest), memory.waiting()), (100, 100, 0));
    }

    #[test]
    fn a_waiter_that_leaves_is_skipped() {
        let (memory, app) = (Memory::new(1600), app("app"));
        let first = poll(pin!(memory.acquire(&app, 1400))).expect("there is room");
        let mut stays = pin!(memory.acquire(&app, 1000));
        {
            let mut leaves = pin!(memory.acquire(&app, 900));
            assert!(poll(leaves.as_mut()).is_none());
            assert!(poll(stays.as_mut()).is_none());
        }
        drop(first);
        assert!(poll(stays.as_mut()).is_some());
        // One whose charge was already sent when it leaves gives it back.
        let mut leaves = Box::pin(memory.acquire(&app, 1400));
        {
            let held = poll(pin!(memory.acquire(&app, 1400))).expect("there is room");
            assert!(poll(leaves.as_mut()).is_none());
            drop(held);
        }
        assert_eq!(memory.used(), 1400);
        drop(leaves);
        assert_eq!((memory.used(), memory.waiting()), (0, 0));
    }

    #[test]
    fn more_than_the_limit_waits_for_an_empty_ledger() {
        let (memory, app) = (Memory::new(100), app("app"));
        let small = memory.charge(1);
        let mut giant = pin!(memory.acquire(&app, 500));
        assert!(poll(giant.as_mut()).is_none());
        drop(small);
        assert_eq!(poll(giant.as_mut()).map(|charge| charge.bytes()), Some(500));
        assert_eq!((memory.used(), memory.high_water()), (0, 500));
    }

    #[test]
    fn who_follows_the_ledger_is_told_when_much_was_taken_or_somebody_waits() {
        let (memory, app) = (Memory::new(1600), app("app"));
        let mut pressed = pin!(memory.until_pressed(1000));
        assert!(poll(pressed.as_mut()).is_none());
        drop(poll(pin!(memory.acquire(&app, 600))).expect("there is room"));
        assert!(poll(pressed.as_mut()).is_none());
        drop(memory.charge(400));
        assert!(poll(pressed.as_mut()).is_some());
        assert_eq!((memory.taken(), memory.used()), (1000, 0));
        // What was taken before it waits counts, too.
        drop(memory.charge(500));
        assert!(poll(pin!(memory.until_pressed(1500))).is_some());
        let mut pressed = pin!(memory.until_pressed(5000));
        assert!(poll(pressed.as_mut()).is_none());
        let _most = poll(pin!(memory.acquire(&app, 1400))).expect("there is room");
        assert!(poll(pressed.as_mut()).is_none());
        let mut waits = pin!(memory.acquire(&app, 1000));
        assert!(poll(waits.as_mut()).is_none());
        assert!(poll(pressed.as_mut()).is_some());
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
        assert_eq!((memory.level(), memory.excess()), (Level::Spilling, 0), "nothing is left to spill");
        drop(index);
        assert_eq!((memory.is_mostly_fixed(), memory.used()), (false, 0));
    }

    proptest! {
        /// The ledger is the sum of what is held, whoever leaves the line and when.
        #[test]
        fn the_ledger_is_the_sum_of_what_is_held(
            steps in prop::collection::vec((0..3u8, 1..600u64, 0..8usize, 0..3usize), 1..200),
        ) {
            let memory = Memory::new(1600);
            let mut held: Vec<Charge> = Vec::new();
            let mut line: Vec<Pin<Box<dyn Future<Output = Charge>>>> = Vec::new();
            for (step, bytes, which, number) in steps {
                match step {
                    0 => {
                        let (memory, app) = (memory.clone(), app(["a", "b", "c"][number]));
                        line.push(Box::pin(async move { memory.acquire(&app, bytes).await }));
                    }
                    1 if !held.is_empty() => drop(held.swap_remove(which % held.len())),
                    2 if !line.is_empty() => drop(line.swap_remove(which % line.len())),
                    _ => {}
                }
                // A request that joins changes the shares, which may be the turn of one that was asked before it.
                let mut before = usize::MAX;
                while std::mem::replace(&mut before, line.len()) > line.len() {
                    line.retain_mut(|request| match poll(request.as_mut()) {
                        Some(charge) => {
                            held.push(charge);
                            false
                        }
                        None => true,
                    });
                }
                prop_assert_eq!(memory.used(), held.iter().map(Charge::bytes).sum::<u64>());
                prop_assert_eq!(memory.waiting(), line.len());
                prop_assert!(memory.used() <= 1600);
            }
            while !line.is_empty() {
                let before = line.len();
                held.clear();
                line.retain_mut(|request| poll(request.as_mut()).is_none());
                prop_assert!(line.len() < before, "nothing is held, and still they wait");
            }
        }
    }
}
