//! Which repairs a DataNode works at, and which wait.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::wire::proto::cluster::Repair;

/// Repairs that wait at most. What is over is not taken, and the NameNode sees that it is not in the next heartbeat.
const WAITING_MAX: usize = 256;

/// Says that a repair is no longer wanted.
#[derive(Clone, Debug, Default)]
pub struct Cancelled(Arc<AtomicBool>);

impl Cancelled {
    /// True once the repair is to end.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Number of a NameNode's term, which grows with each one that leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term(pub u64);

/// A repair's number, within its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RepairKey {
    /// The term of the NameNode that ordered it.
    pub term: Term,
    /// The number that it chose.
    pub number: u64,
}

/// The repairs of one term. Those of an older one are not obeyed.
#[derive(Debug)]
pub struct Repairs {
    term: Term,
    running_max: usize,
    waiting: VecDeque<Repair>,
    running: BTreeMap<RepairKey, Cancelled>,
}

impl Repairs {
    /// At most `running_max` repairs run at a time.
    pub fn new(running_max: usize) -> Self {
        Self { term: Term::default(), running_max, waiting: VecDeque::new(), running: BTreeMap::new() }
    }

    /// A NameNode leads: what an older term ordered ends.
    pub fn begin_term(&mut self, term: Term) {
        if term <= self.term {
            return;
        }
        self.term = term;
        self.waiting.clear();
        for cancelled in self.running.values() {
            cancelled.0.store(true, Ordering::Relaxed);
        }
    }

    /// Takes an order: false if it is of an old term, known already, or one too many.
    pub fn order(&mut self, term: Term, repair: Repair) -> bool {
        self.begin_term(term);
        let is_known = self.numbers().contains(&repair.number);
        if term < self.term || is_known || self.waiting.len() >= WAITING_MAX {
            return false;
        }
        self.waiting.push_back(repair);
        true
    }

    /// Ends a repair that is no longer wanted.
    pub fn cancel(&mut self, term: Term, number: u64) {
        if term != self.term {
            return;
        }
        self.waiting.retain(|repair| repair.number != number);
        if let Some(cancelled) = self.running.get(&RepairKey { term, number }) {
            cancelled.0.store(true, Ordering::Relaxed);
        }
    }

    /// The next repair to begin, if there may be one more.
    pub fn next(&mut self) -> Option<(RepairKey, Repair, Cancelled)> {
        if self.running.len() >= self.running_max {
            return None;
        }
        let repair = self.waiting.pop_front()?;
        let (key, cancelled) = (RepairKey { term: self.term, number: repair.number }, Cancelled::default());
        self.running.insert(key, cancelled.clone());
        Some((key, repair, cancelled))
    }

    /// A repair has ended, well or not.
    pub fn ended(&mut self, key: RepairKey) {
        self.running.remove(&key);
    }

    /// The numbers of this term's repairs that run or wait.
    pub fn numbers(&self) -> Vec<u64> {
        let running = self.running.keys().filter(|key| key.term == self.term).map(|key| key.number);
        running.chain(self.waiting.iter().map(|repair| repair.number)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repair(number: u64) -> Repair {
        Repair { number, ..Repair::default() }
    }

    #[test]
    fn so_many_run_and_the_others_wait_in_order() {
        let mut repairs = Repairs::new(2);
        for number in [5, 3, 4] {
            assert!(repairs.order(Term(1), repair(number)));
        }
        assert!(!repairs.order(Term(1), repair(3)), "it is known");
        let (first, ..) = repairs.next().unwrap();
        let (second, ..) = repairs.next().unwrap();
        assert_eq!((first.number, second.number), (5, 3));
        assert!(repairs.next().is_none());
        assert!(!repairs.order(Term(1), repair(5)), "it runs");
        repairs.ended(first);
        assert_eq!(repairs.next().unwrap().0.number, 4);
        assert_eq!(repairs.numbers(), [3, 4]);
    }

    #[test]
    fn what_is_cancelled_or_of_an_old_term_ends() {
        let mut repairs = Repairs::new(1);
        repairs.order(Term(2), repair(1));
        repairs.order(Term(2), repair(2));
        let (key, _, cancelled) = repairs.next().unwrap();
        repairs.cancel(Term(1), 1);
        assert!(!cancelled.is_set() && repairs.numbers() == [1, 2], "an old term cancels nothing");
        repairs.cancel(Term(2), 2);
        assert_eq!(repairs.numbers(), [1]);
        assert!(!repairs.order(Term(1), repair(7)), "an old term orders nothing");
        repairs.begin_term(Term(3));
        assert!(cancelled.is_set() && repairs.numbers().is_empty());
        // Its place is free only once it has ended.
        assert!(repairs.order(Term(3), repair(1)) && repairs.next().is_none());
        repairs.ended(key);
        let (_, _, cancelled) = repairs.next().unwrap();
        repairs.cancel(Term(3), 1);
        assert!(cancelled.is_set());
    }

    #[test]
    fn no_more_wait_than_may() {
        let mut repairs = Repairs::new(1);
        let taken = (0..2 * WAITING_MAX as u64).filter(|number| repairs.order(Term(1), repair(*number)));
        assert_eq!(taken.count(), WAITING_MAX);
    }
}
