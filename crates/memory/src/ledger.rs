//! The ledger of a server's memory: every byte that grows with load is charged here before it is used, and given back when
//! its owner is dropped.
//!
//! A request for more than there is waits, one for each connection; [`Shares`] decides which is next, so that no party
//! waits for one that has more than its share. Before that, [`Level`] tells who brings more to slow down, and the spiller
//! to work.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{Notify, oneshot};

use crate::Party;
use crate::shares::{Level, Shares, Ticket};

/// Bytes that all ledgers of the process have in use: a process may run several servers, but has one resident set.
static ACCOUNTED: AtomicU64 = AtomicU64::new(0);

/// Bytes that all ledgers of the process have in use.
pub fn accounted() -> u64 {
    ACCOUNTED.load(Ordering::Relaxed)
}

#[derive(Debug)]
struct Books<P: Party> {
    shares: Shares<P>,
    /// By waiting request, where its charge is sent.
    waiters: HashMap<Ticket, oneshot::Sender<Charge<P>>>,
}

/// The ledger, shared by everything that holds memory. Cheap to clone.
#[derive(Debug)]
pub struct Ledger<P: Party>(Arc<Shared<P>>);

impl<P: Party> Clone for Ledger<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct Shared<P: Party> {
    books: Mutex<Books<P>>,
    spill: Notify,
    /// Bytes that were ever taken, and how many [`Ledger::until_pressed`] waits for.
    taken: AtomicU64,
    awaited: AtomicU64,
    pressed: Notify,
    started: Instant,
}

impl<P: Party> Shared<P> {
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
enum Owner<P> {
    Party(P),
    Nobody,
    /// No spill gives them back: nobody's, or a party's.
    Fixed(Option<P>),
}

/// Bytes of memory that are in use until this is dropped.
#[derive(Debug)]
pub struct Charge<P: Party> {
    ledger: Ledger<P>,
    bytes: u64,
    owner: Owner<P>,
}

impl<P: Party> Ledger<P> {
    /// A ledger that lets `limit` bytes be in use.
    pub fn new(limit: u64) -> Self {
        let books = Books { shares: Shares::new(limit), waiters: HashMap::new() };
        Self(Arc::new(Shared {
            books: Mutex::new(books),
            spill: Notify::new(),
            taken: AtomicU64::new(0),
            awaited: AtomicU64::new(u64::MAX),
            pressed: Notify::new(),
            started: Instant::now(),
        }))
    }

    fn books(&self) -> MutexGuard<'_, Books<P>> {
        // Numbers and a line that no panic leaves half changed.
        self.0.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.0.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.books().shares.used()
    }

    /// Bytes that may be in use.
    pub fn limit(&self) -> u64 {
        self.books().shares.limit()
    }

    /// The most bytes that ever were in use.
    pub fn high_water(&self) -> u64 {
        self.books().shares.high_water()
    }

    /// Bytes that a party has in use, without those that no spill gives back.
    pub fn held(&self, party: &P) -> u64 {
        self.books().shares.held(party)
    }

    /// Requests that wait for their turn.
    pub fn waiting(&self) -> usize {
        self.books().shares.waiting()
    }

    /// Changes the limit, as the process needs more or less memory besides the ledger's. It is called regularly,
    /// because shares change with time, too.
    pub fn set_limit(&self, limit: u64) {
        let now_ms = self.now_ms();
        let (granted, crossed) = {
            let mut books = self.books();
            books.shares.set_limit(limit, now_ms);
            (self.grant(&mut books, now_ms), books.shares.wants_spill())
        };
        deliver(granted);
        if crossed {
            self.0.spill.notify_one();
        }
    }

    /// How full the ledger is.
    pub fn level(&self) -> Level {
        self.books().shares.level()
    }

    /// How full the ledger is for a party.
    pub fn level_for(&self, party: &P) -> Level {
        self.books().shares.level_for(party, self.now_ms())
    }

    /// Bytes that must be given back until the spiller may rest; zero below the mark at which it begins.
    pub fn excess(&self) -> u64 {
        self.books().shares.excess()
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
    pub async fn acquire(&self, party: &P, bytes: u64) -> Charge<P> {
        let now_ms = self.now_ms();
        let (turn, granted, crossed) = {
            let mut books = self.books();
            if books.shares.take_at_once(party, bytes, now_ms) {
                self.0.count_taken(bytes);
                (None, Vec::new(), books.shares.wants_spill())
            } else {
                let ticket = books.shares.join(party, bytes, now_ms);
                let (sender, receiver) = oneshot::channel();
                books.waiters.insert(ticket, sender);
                let turn = Turn { ledger: self, party, ticket, receiver, has_come: false };
                self.0.pressed.notify_one();
                // Its turn may come before those that joined earlier.
                (Some(turn), self.grant(&mut books, now_ms), true)
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
    pub fn charge(&self, bytes: u64) -> Charge<P> {
        let mut charge = Charge { ledger: self.clone(), bytes: 0, owner: Owner::Nobody };
        charge.grow(bytes);
        charge
    }

    /// Charges, without waiting, bytes that no spill gives back: what an entry of an index or a table takes for as long as
    /// it is there. The caller asks [`has_room_for_fixed`](Self::has_room_for_fixed) first, and refuses what brings more.
    pub fn charge_fixed(&self, bytes: u64) -> Charge<P> {
        let mut charge = Charge { ledger: self.clone(), bytes: 0, owner: Owner::Fixed(None) };
        charge.grow(bytes);
        charge
    }

    /// The same for a party, whose part of such bytes is limited.
    pub fn charge_fixed_of(&self, party: &P, bytes: u64) -> Charge<P> {
        let mut charge = Charge { ledger: self.clone(), bytes: 0, owner: Owner::Fixed(Some(party.clone())) };
        charge.grow(bytes);
        charge
    }

    /// Whether a party has to do with what it has of bytes that no spill gives back.
    pub fn has_its_part_of_fixed(&self, party: &P) -> bool {
        self.books().shares.has_its_part_of_fixed(party)
    }

    /// Whether what no spill gives back takes most of the limit.
    pub fn is_mostly_fixed(&self) -> bool {
        self.books().shares.is_mostly_fixed()
    }

    /// Whether there is room for so many more fixed bytes.
    pub fn has_room_for_fixed(&self, bytes: u64) -> bool {
        self.books().shares.has_room_for_fixed(bytes)
    }

    fn granted(&self, party: P, bytes: u64) -> Charge<P> {
        Charge { ledger: self.clone(), bytes, owner: Owner::Party(party) }
    }

    /// Changes the ledger, and serves the line as far as there is room then.
    fn give_back(&self, change: impl FnOnce(&mut Shares<P>)) {
        let granted = {
            let mut books = self.books();
            change(&mut books.shares);
            if books.shares.waiting() == 0 {
                return;
            }
            self.grant(&mut books, self.now_ms())
        };
        deliver(granted);
    }

    /// Serves the line as far as there is room. The charges are handed over outside the lock, because a waiter that has
    /// left gives its charge back at once.
    fn grant(&self, books: &mut Books<P>, now_ms: u64) -> Vec<(oneshot::Sender<Charge<P>>, Charge<P>)> {
        let mut granted = Vec::new();
        while let Some(grant) = books.shares.next(now_ms) {
            self.0.count_taken(grant.bytes);
            let sender = books.waiters.remove(&grant.ticket).expect("who is in line has a sender");
            granted.push((sender, self.granted(grant.party, grant.bytes)));
        }
        granted
    }
}

/// A request in line; dropping it lets the next ones move up.
struct Turn<'a, P: Party> {
    ledger: &'a Ledger<P>,
    party: &'a P,
    ticket: Ticket,
    receiver: oneshot::Receiver<Charge<P>>,
    has_come: bool,
}

impl<P: Party> Drop for Turn<'_, P> {
    fn drop(&mut self) {
        if self.has_come {
            return;
        }
        self.receiver.close();
        let sender = {
            let mut books = self.ledger.books();
            books.shares.leave(self.party, self.ticket);
            books.waiters.remove(&self.ticket)
        };
        drop(sender); // with the charge, if it was already sent
        self.ledger.give_back(|_| ());
    }
}

fn deliver<P: Party>(granted: Vec<(oneshot::Sender<Charge<P>>, Charge<P>)>) {
    for (sender, charge) in granted {
        drop(sender.send(charge)); // fails for a waiter that has left: its charge drops, and the next in line is served
    }
}

impl<P: Party> Charge<P> {
    /// Bytes that this charge holds.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes a part of the charge out of it.
    pub fn split(&mut self, bytes: u64) -> Self {
        assert!(bytes <= self.bytes, "{bytes} of {} bytes", self.bytes);
        self.bytes -= bytes;
        Self { ledger: self.ledger.clone(), bytes, owner: self.owner.clone() }
    }

    /// Charges more, without waiting.
    pub fn grow(&mut self, bytes: u64) {
        let crossed = {
            let mut books = self.ledger.books();
            match &self.owner {
                Owner::Party(party) => books.shares.take(party, bytes),
                Owner::Nobody => books.shares.count(bytes),
                Owner::Fixed(party) => books.shares.count_fixed(party.as_ref(), bytes),
            }
            books.shares.wants_spill()
        };
        self.ledger.0.count_taken(bytes);
        if crossed {
            self.ledger.0.spill.notify_one();
        }
        self.bytes += bytes;
    }
}

impl<P: Party> Drop for Charge<P> {
    fn drop(&mut self) {
        let bytes = self.bytes;
        if bytes == 0 {
            return;
        }
        let before = ACCOUNTED.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "more memory is given back than was charged");
        self.ledger.give_back(|shares| match &self.owner {
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
    use crate::Reserve;
    use crate::test_party::TestParty;

    fn poll<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    type Memory = Ledger<TestParty>;

    fn app(name: &str) -> TestParty {
        TestParty::new(name, Reserve::Leaves)
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
            let mut held: Vec<Charge<TestParty>> = Vec::new();
            let mut line: Vec<Pin<Box<dyn Future<Output = Charge<TestParty>>>>> = Vec::new();
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
