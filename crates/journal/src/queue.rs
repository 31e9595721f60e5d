//! The orders that wait for the writing thread, with a limit.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use yeoul_base::Result;

use crate::Promise;
use crate::health::SnapshotError;

/// The most bytes of records queued for a disk that does not answer.
pub const WAITING_MAX_BYTES: usize = 16 << 20;

/// The most bytes that the writing thread takes at once: so many share a write.
const GROUP_MAX_BYTES: usize = 4 << 20;

/// Tells whoever waits how an order ended.
pub type Answer<T> = Box<dyn FnOnce(T) + Send>;

/// Records to be written together.
pub struct Append {
    /// The number of the first one.
    pub first: u64,
    /// Each as it is encoded.
    pub records: Vec<Vec<u8>>,
    /// When they are kept.
    pub promise: Promise,
    /// Told that they are.
    pub kept: Answer<Result<()>>,
}

impl Append {
    fn bytes(&self) -> usize {
        self.records.iter().map(Vec::len).sum()
    }
}

/// Something for the writing thread to do.
pub enum Order {
    /// Write records.
    Append(Vec<Append>),
    /// Tell when everything before it is kept.
    Reach {
        /// As what.
        promise: Promise,
        /// Told that it is.
        kept: Answer<Result<()>>,
    },
    /// So many records were refused, the first of this number: nothing may follow them before the next segment.
    Gap {
        /// The number of the first one.
        first: u64,
        /// How many.
        records: u64,
    },
    /// Bring everything before it to the disk, and begin a segment. Told the number of its first record.
    Begin(Answer<Result<u64, SnapshotError>>),
    /// The same if nothing is missing, for who wants the files so far to change no more: no snapshot begins.
    Roll(Answer<Result<u64, SnapshotError>>),
    /// Bring everything before it to the disk, if nothing is missing in the segment.
    Settle(Answer<Result<(), SnapshotError>>),
}

/// The queue of orders for the writing thread.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    orders: VecDeque<Order>,
    /// Bytes of the records that wait or are being written.
    bytes: usize,
    /// Since when the thread has been working on what it took last.
    busy_since: Option<Instant>,
    /// Bytes of the records that it works on.
    busy_bytes: usize,
    stopped: bool,
    /// The thread takes no more.
    closed: bool,
    ended: bool,
}

impl Queue {
    /// Appends records, or a gap if too much is queued; an empty queue takes any number. Returns whether they were accepted.
    pub fn append(&self, append: Append) -> bool {
        let bytes = append.bytes();
        let mut state = self.lock();
        if state.closed {
            return true; // who waits hears that the thread has ended
        }
        let fits = state.bytes == 0 || state.bytes + bytes <= WAITING_MAX_BYTES;
        if fits {
            state.bytes += bytes;
            match state.orders.back_mut() {
                Some(Order::Append(group)) => group.push(append),
                _ => state.orders.push_back(Order::Append(vec![append])),
            }
        } else {
            let (first, count) = (append.first, append.records.len() as u64);
            match state.orders.back_mut() {
                Some(Order::Gap { first: begin, records }) => {
                    assert_eq!(*begin + *records, first, "records are numbered one after the other");
                    *records += count;
                }
                _ => state.orders.push_back(Order::Gap { first, records: count }),
            }
        }
        self.changed.notify_all();
        fits
    }

    /// Whether the thread has done everything so far.
    pub fn is_idle(&self) -> bool {
        let state = self.lock();
        state.busy_since.is_none() && state.orders.is_empty()
    }

    /// Whether the thread has worked on the same thing for as long as `limit`.
    pub fn is_stalled(&self, now: Instant, limit: Duration) -> bool {
        self.lock().busy_since.is_some_and(|since| now.saturating_duration_since(since) >= limit)
    }

    /// Appends an order without records. There are few: each reply and each snapshot waits for one at most. Once the thread
    /// has ended the order is dropped, and nobody is told anything.
    pub fn push(&self, order: Order) {
        let mut state = self.lock();
        if !state.closed {
            state.orders.push_back(order);
            self.changed.notify_all();
        }
    }

    /// Waits for the next order; `None` once the queue is stopped and empty. Of appends it takes as many as share a write.
    pub fn next(&self) -> Option<Order> {
        let mut state = self.lock();
        state.busy_since = None;
        state.bytes -= std::mem::take(&mut state.busy_bytes);
        self.changed.notify_all();
        while state.orders.is_empty() && !state.stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let Some(order) = state.orders.pop_front() else {
            state.closed = true;
            return None;
        };
        state.busy_since = Some(Instant::now());
        let Order::Append(mut group) = order else { return Some(order) };
        let mut bytes = 0;
        let fits = |append: &Append| {
            bytes += append.bytes();
            bytes <= GROUP_MAX_BYTES
        };
        let taken = group.iter().map(fits).take_while(|fits| *fits).count().max(1);
        let rest = group.split_off(taken);
        if !rest.is_empty() {
            state.orders.push_front(Order::Append(rest));
        }
        state.busy_bytes = group.iter().map(Append::bytes).sum();
        Some(Order::Append(group))
    }

    /// The thread has ended. What it has not done is dropped.
    pub fn end(&self) {
        let mut state = self.lock();
        (state.closed, state.ended) = (true, true);
        let left = std::mem::take(&mut state.orders);
        drop(state);
        drop(left); // outside the lock: whoever waits for them is woken
        self.changed.notify_all();
    }

    /// Lets the thread end once the queue is empty, and waits for it. Returns whether it has ended in time.
    pub fn stop(&self, wait_max: Duration) -> bool {
        let mut state = self.lock();
        state.stopped = true;
        self.changed.notify_all();
        let waited = self.changed.wait_timeout_while(state, wait_max, |state| !state.ended);
        waited.unwrap_or_else(PoisonError::into_inner).0.ended
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(first: u64, lens: &[usize]) -> Append {
        let records = lens.iter().map(|len| vec![7; *len]).collect();
        Append { first, records, promise: Promise::Written, kept: Box::new(|_| ()) }
    }

    /// How many appends there are in the next order, and the number of its first record.
    fn taken(queue: &Queue) -> (usize, u64) {
        match queue.next() {
            Some(Order::Append(group)) => (group.len(), group[0].first),
            Some(Order::Gap { first, records }) => panic!("a gap of {records} from {first}"),
            _ => panic!("another order"),
        }
    }

    #[test]
    fn appends_that_wait_are_taken_together_up_to_a_limit_and_in_order() {
        let queue = Queue::default();
        assert!(queue.is_idle());
        for number in 0..9 {
            assert!(queue.append(of(number, &[GROUP_MAX_BYTES / 4])));
        }
        queue.push(Order::Reach { promise: Promise::Written, kept: Box::new(|_| ()) });
        assert!(queue.append(of(9, &[GROUP_MAX_BYTES + 1])), "more than a group");
        assert!(queue.append(of(10, &[1])));
        assert_eq!([taken(&queue), taken(&queue), taken(&queue)], [(4, 0), (4, 4), (1, 8)]);
        assert!(matches!(queue.next(), Some(Order::Reach { .. })));
        assert_eq!([taken(&queue), taken(&queue)], [(1, 9), (1, 10)]);
        assert!(!queue.is_idle(), "that is not done yet");
        queue.lock().stopped = true;
        assert!(queue.next().is_none() && queue.is_idle());
    }

    #[test]
    fn what_is_above_the_limit_is_one_gap_until_there_is_room() {
        let queue = Queue::default();
        assert!(queue.append(of(0, &[WAITING_MAX_BYTES + 1])), "it would never fit");
        assert!(!queue.append(of(1, &[1])));
        assert!(!queue.append(of(2, &[1, 1])));
        assert_eq!(taken(&queue), (1, 0));
        assert!(!queue.append(of(4, &[1])), "it is being written");
        let Some(Order::Gap { first: 1, records: 4 }) = queue.next() else {
            panic!("what follows is behind")
        };
        assert!(queue.append(of(5, &[WAITING_MAX_BYTES - 1])));
        assert!(queue.append(of(6, &[1])));
        assert!(!queue.append(of(7, &[1])));
        assert_eq!([taken(&queue), taken(&queue)], [(1, 5), (1, 6)]);
        assert!(matches!(queue.next(), Some(Order::Gap { first: 7, records: 1 })));
        queue.lock().stopped = true;
        assert!(queue.next().is_none());
    }

    #[test]
    fn a_thread_that_does_not_come_back_is_noticed() {
        let (queue, limit) = (Queue::default(), Duration::from_secs(3));
        assert!(queue.append(of(0, &[1])));
        assert!(!queue.is_stalled(Instant::now() + limit, limit), "nobody works");
        assert_eq!(taken(&queue), (1, 0));
        assert!(!queue.is_stalled(Instant::now(), limit));
        assert!(queue.is_stalled(Instant::now() + limit, limit));
    }
}
