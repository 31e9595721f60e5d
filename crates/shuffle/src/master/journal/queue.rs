//! The orders that wait for the writing thread, with a limit.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::segment::Unsynced;
use crate::Result;

/// The most bytes of records queued for a disk that does not answer.
pub const WAITING_MAX_BYTES: usize = 16 << 20;

/// Something for the writing thread to do.
pub enum Order {
    /// Write records, each as its payload.
    Append { payloads: Vec<Vec<u8>>, written: Written },
    /// Report when everything before it is written.
    Reach { written: Written },
    /// Records were refused here: nothing may follow them before the next segment.
    Gap,
    /// Begin a segment, and report it and what the previous one holds.
    Begin { begun: SyncSender<Result<Begun>> },
    /// Show its state to a test.
    #[cfg(test)]
    Show(Box<dyn FnOnce(&mut super::writer::Writer) + Send>),
}

/// Reports to whoever waits whether something was written.
pub type Written = oneshot::Sender<Result<()>>;

/// The segment that was begun, and what the one before it holds.
pub struct Begun {
    pub first: u64,
    pub before: Unsynced,
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
    bytes: usize,
    /// The thread is working on an order.
    is_busy: bool,
    stopped: bool,
    ended: bool,
}

impl Queue {
    /// Appends records, or a gap if too much is queued; an empty queue takes any number. Returns whether they were accepted.
    pub fn append(&self, payloads: Vec<Vec<u8>>, written: Written) -> bool {
        let bytes = payloads.iter().map(Vec::len).sum::<usize>();
        let mut state = self.lock();
        let fits = state.bytes == 0 || state.bytes + bytes <= WAITING_MAX_BYTES;
        if fits {
            state.bytes += bytes;
            state.orders.push_back(Order::Append { payloads, written });
        } else if !matches!(state.orders.back(), Some(Order::Gap)) {
            state.orders.push_back(Order::Gap);
        }
        self.changed.notify_all();
        fits
    }

    /// Asks for a report when everything queued so far is done. Returns whether there is anything to wait for.
    pub fn reach(&self, written: Written) -> bool {
        let mut state = self.lock();
        let waits = state.is_busy || !state.orders.is_empty();
        if waits {
            state.orders.push_back(Order::Reach { written });
            self.changed.notify_all();
        }
        waits
    }

    /// Appends an order without data. There is at most one for each snapshot.
    pub fn push(&self, order: Order) {
        self.lock().orders.push_back(order);
        self.changed.notify_all();
    }

    /// Waits for the next order; `None` once the queue is stopped and empty.
    pub fn next(&self) -> Option<Order> {
        let mut state = self.lock();
        state.is_busy = false;
        while state.orders.is_empty() && !state.stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let order = state.orders.pop_front();
        state.is_busy = order.is_some();
        if let Some(Order::Append { payloads, .. }) = &order {
            state.bytes -= payloads.iter().map(Vec::len).sum::<usize>();
        }
        order
    }

    /// The thread has ended.
    pub fn end(&self) {
        self.lock().ended = true;
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

    #[test]
    fn there_is_something_to_wait_for_until_the_thread_asks_for_more() {
        let queue = Queue::default();
        let reach = || queue.reach(oneshot::channel().0);
        assert!(!reach());
        assert!(queue.append(vec![vec![7; WAITING_MAX_BYTES + 1]], oneshot::channel().0));
        assert!(reach(), "it has no bytes, and is refused by no limit");
        assert!(matches!(queue.next(), Some(Order::Append { .. })));
        assert!(matches!(queue.next(), Some(Order::Reach { .. })));
        assert!(reach(), "that is not done yet");
        assert!(matches!(queue.next(), Some(Order::Reach { .. })));
        queue.lock().stopped = true;
        assert!(queue.next().is_none());
        assert!(!reach());
    }

    #[test]
    fn what_is_above_the_limit_is_one_gap_until_there_is_room() {
        let queue = Queue::default();
        let append = |len: usize| queue.append(vec![vec![7; len]], oneshot::channel().0);
        assert!(append(WAITING_MAX_BYTES + 1), "it would never fit");
        assert!(!append(1));
        assert!(!append(1));
        assert!(matches!(queue.next(), Some(Order::Append { .. })));
        assert!(append(WAITING_MAX_BYTES - 1));
        assert!(append(1));
        assert!(!append(1));
        queue.lock().stopped = true;
        let mut rest = std::iter::from_fn(|| queue.next());
        assert!(matches!(rest.next(), Some(Order::Gap)), "what follows is behind what was refused");
        assert!(matches!(rest.next(), Some(Order::Append { .. })));
        assert!(matches!(rest.next(), Some(Order::Append { .. })));
        assert!(matches!(rest.next(), Some(Order::Gap)));
        assert!(rest.next().is_none());
    }
}
