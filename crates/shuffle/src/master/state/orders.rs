//! Orders to a worker: deletions and commands, sent at once through its watch.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{ApplicationId, ShuffleKey};
use crate::report::Command;

/// The orders of a worker after the sequence number that it has confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderBatch {
    /// The number to send with the next watch.
    pub sequence: u64,
    /// Shuffles to delete.
    pub expired: Vec<ShuffleKey>,
    /// The last command, if there is one.
    pub command: Option<Command>,
}

/// Orders that a worker has not confirmed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Orders {
    /// The number of the last order; 0 for a worker that this process did not know. A worker watches from 0 after each
    /// registration.
    sequence: u64,
    /// Shuffles to delete, by the number of the order.
    expired: BTreeMap<u64, ShuffleKey>,
    /// The same in the other direction.
    waiting: BTreeMap<ShuffleKey, u64>,
    command: Option<(u64, Command)>,
    /// The number of the last order when a deletion was dropped; 0 if none was, or the worker has confirmed that number.
    dropped_at: u64,
}

impl Orders {
    /// Orders a deletion, with a new number if one is waiting: the worker may have deleted the shuffle before late data
    /// arrived. Until the order is confirmed, the shuffle's number is not used again on this worker.
    ///
    /// One more than `deletions_max` drops the oldest, which the worker has most likely heard: it may be waiting for nothing
    /// but a disk that deletes nothing. Whatever the worker has not deleted its next report lists, and is ordered again.
    pub(super) fn delete(&mut self, shuffle: ShuffleKey, deletions_max: usize) {
        self.keep(&shuffle);
        if self.expired.len() >= deletions_max
            && let Some((_, oldest)) = self.expired.pop_first()
        {
            self.waiting.remove(&oldest);
            self.dropped_at = self.sequence;
        }
        self.sequence += 1;
        self.waiting.insert(shuffle.clone(), self.sequence);
        self.expired.insert(self.sequence, shuffle);
    }

    /// Whether there are deletions that the worker may still have to carry out.
    pub(super) fn has_deletions(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Cancels the order to delete a shuffle that turns out to be needed.
    pub(super) fn keep(&mut self, shuffle: &ShuffleKey) {
        if let Some(sequence) = self.waiting.remove(shuffle) {
            self.expired.remove(&sequence);
        }
    }

    /// Whether the worker may still have to delete a shuffle.
    pub(super) fn deletes(&self, shuffle: &ShuffleKey) -> bool {
        self.waiting.contains_key(shuffle)
    }

    /// Whether the worker may still have to delete a shuffle of an application.
    pub(super) fn deletes_of(&self, application: &ApplicationId) -> bool {
        let [first, last] = [i32::MIN, i32::MAX].map(|number| ShuffleKey::new(application.clone(), number));
        self.waiting.range(first..=last).next().is_some()
    }

    /// Whether a deletion was dropped that the worker may still be about to carry out.
    pub(super) fn has_dropped(&self) -> bool {
        self.dropped_at > 0
    }

    pub(super) fn command(&mut self, command: Command) {
        self.sequence += 1;
        self.command = Some((self.sequence, command));
    }

    /// Whether a command may not have reached the worker yet.
    pub(super) fn has_command(&self) -> bool {
        self.command.is_some()
    }

    /// Whether the order to stop may not have reached it yet.
    pub(super) fn has_stop(&self) -> bool {
        self.command.is_some_and(|(_, command)| matches!(command, Command::StopNow | Command::StopGracefully))
    }

    /// A new process begins under the worker's name. The old one, told to stop, has ended, often before confirming; the new
    /// one must not obey that order.
    pub(super) fn begin_life(&mut self) {
        if self.has_stop() {
            self.command = None;
        }
        self.dropped_at = 0; // the process that may have heard of it has ended
    }

    /// Forgets the orders that the worker has carried out. Returns the shuffles that it has deleted.
    pub(super) fn confirm(&mut self, seen: u64) -> BTreeSet<ShuffleKey> {
        if seen > self.sequence {
            return BTreeSet::new();
        }
        if seen >= self.dropped_at {
            self.dropped_at = 0;
        }
        self.command = self.command.filter(|(sequence, _)| *sequence > seen);
        let open = self.expired.split_off(&(seen + 1));
        let done = std::mem::replace(&mut self.expired, open);
        for shuffle in done.values() {
            self.waiting.remove(shuffle);
        }
        done.into_values().collect()
    }

    pub(super) fn pending(&self) -> Option<OrderBatch> {
        if self.expired.is_empty() && self.command.is_none() {
            return None;
        }
        Some(OrderBatch {
            sequence: self.sequence,
            expired: self.expired.values().cloned().collect(),
            command: self.command.map(|(_, command)| command),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_waits_until_its_last_order_is_confirmed_or_taken_back() {
        let mut orders = Orders::default();
        let [first, second, third] = [1, 2, 3].map(|shuffle| ShuffleKey::new("app", shuffle));
        [&first, &second, &third, &first].into_iter().for_each(|shuffle| orders.delete(shuffle.clone(), 9));
        assert_eq!(orders.pending().unwrap().expired, [second.clone(), third.clone(), first.clone()]);
        orders.keep(&third);
        assert_eq!(orders.confirm(3), BTreeSet::from([second.clone()]));
        assert!(orders.deletes(&first) && !orders.deletes(&second) && !orders.deletes(&third));
        assert_eq!(orders.confirm(5), BTreeSet::new(), "no such order was given");
        assert_eq!(orders.confirm(4), BTreeSet::from([first.clone()]));
        assert!(!orders.deletes(&first));
        assert_eq!(orders.pending(), None);
    }

    #[test]
    fn the_newest_deletions_are_ordered_however_many_are_not_confirmed() {
        let mut orders = Orders::default();
        let [first, second, third, fourth] = [1, 2, 3, 4].map(|shuffle| ShuffleKey::new("app", shuffle));
        [&first, &second].into_iter().for_each(|shuffle| orders.delete(shuffle.clone(), 2));
        assert!(!orders.has_dropped());
        orders.delete(second.clone(), 2);
        assert!(!orders.has_dropped(), "it takes the place of its first order");
        orders.delete(third.clone(), 2);
        assert_eq!(orders.pending().unwrap().expired, [second.clone(), third.clone()]);
        assert!(!orders.deletes(&first));
        orders.delete(first.clone(), 2); // the worker has it still
        assert_eq!(orders.pending().unwrap().expired, [third.clone(), first.clone()]);
        let heard = orders.pending().unwrap().sequence;
        orders.delete(fourth.clone(), 2);
        assert_eq!(orders.confirm(heard - 2), BTreeSet::new());
        assert!(orders.has_dropped(), "what it has not confirmed named the third one");
        assert_eq!(orders.confirm(heard), BTreeSet::from([first.clone()]));
        assert!(!orders.has_dropped());
        assert_eq!(orders.pending().unwrap().expired, [fourth]);
        orders.delete(second, 1);
        assert!(orders.has_dropped());
        orders.begin_life();
        assert!(!orders.has_dropped(), "another process has heard nothing");
    }
}
