//! The two halves of a connection as one future.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Runs the two halves of a connection as one future.
///
/// Each answer that the reading half gives wakes the writing half. With the task's own waker, the runtime would queue
/// the task again for each answer and wake another thread to look for work, while this one could simply go on. So the
/// writing half has its own waker: it is polled after the reading half in the same turn, and the task is woken only for
/// answers from elsewhere.
pub(super) struct Duplex(Arc<Wish>);

impl Duplex {
    pub fn new() -> Self {
        let turn = Turn { wanted: true, again: false, here: false, task: Waker::noop().clone() };
        Self(Arc::new(Wish(Mutex::new(turn))))
    }

    /// For the reading half: lets the writing half send the answers so far, although there is more to read.
    pub async fn let_write(&self) {
        let mut has_waited = false;
        poll_fn(|_| {
            let mut turn = self.0.turn();
            if has_waited || !turn.wanted {
                return Poll::Ready(());
            }
            has_waited = true;
            turn.again = true;
            Poll::Pending
        })
        .await;
    }

    /// Runs `reading` and `writing` until one of them ends.
    pub async fn run<T>(&self, reading: impl Future<Output = T>, writing: impl Future<Output = T>) -> T {
        let (mut reading, mut writing) = (pin!(reading), pin!(writing));
        let waker = Waker::from(Arc::clone(&self.0));
        poll_fn(|context| {
            self.0.turn().begin(context.waker());
            loop {
                if let Poll::Ready(ended) = reading.as_mut().poll(context) {
                    return Poll::Ready(ended);
                }
                let wanted = std::mem::take(&mut self.0.turn().wanted);
                if wanted && let Poll::Ready(ended) = writing.as_mut().poll(&mut Context::from_waker(&waker))
                {
                    return Poll::Ready(ended);
                }
                let mut turn = self.0.turn();
                if std::mem::take(&mut turn.again) {
                    continue;
                }
                turn.here = false;
                if turn.wanted {
                    // It used up its budget for this turn, or was woken after it was polled.
                    context.waker().wake_by_ref();
                }
                return Poll::Pending;
            }
        })
        .await
    }
}

/// The waker of `writing`, which notes that it is to be polled.
struct Wish(Mutex<Turn>);

struct Turn {
    wanted: bool,
    /// The reading half has more to do once `writing` has been polled.
    again: bool,
    /// The task is being polled, and looks at `wanted` before it returns.
    here: bool,
    task: Waker,
}

impl Turn {
    fn begin(&mut self, task: &Waker) {
        self.here = true;
        self.task.clone_from(task);
    }
}

impl Wish {
    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Wish {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let task = {
            let mut turn = self.turn();
            turn.wanted = true;
            (!turn.here).then(|| turn.task.clone())
        };
        if let Some(task) = task {
            task.wake(); // outside the lock: it may run anything
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::mpsc;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Task<F> {
        future: Pin<Box<F>>,
        wakes: Arc<Wakes>,
    }

    impl<F: Future> Task<F> {
        fn new(future: F) -> Self {
            Self { future: Box::pin(future), wakes: Arc::default() }
        }

        fn poll(&mut self) -> Poll<F::Output> {
            self.future.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&self.wakes))))
        }

        fn wakes(&self) -> usize {
            self.wakes.0.swap(0, Ordering::Relaxed)
        }
    }

    #[test]
    fn an_answer_leaves_in_the_turn_in_which_it_is_given_and_wakes_nobody() {
        let (requests, mut requested) = mpsc::unbounded_channel::<u32>();
        let (answers, mut answered) = mpsc::unbounded_channel::<u32>();
        let (elsewhere, left, duplex) = (answers.clone(), AtomicUsize::new(0), Duplex::new());
        let mut task = Task::new(duplex.run(
            async {
                while let Some(request) = requested.recv().await {
                    answers.send(request).unwrap();
                }
            },
            async {
                while let Some(answer) = answered.recv().await {
                    left.store(answer as usize, Ordering::Relaxed);
                }
            },
        ));
        let left = || left.load(Ordering::Relaxed);
        assert!(task.poll().is_pending());
        for request in 1..=3 {
            requests.send(request).unwrap();
            assert_eq!(task.wakes(), 1);
            assert!(task.poll().is_pending());
            assert_eq!((left(), task.wakes()), (request as usize, 0));
        }
        // An answer from another task wakes it.
        elsewhere.send(7).unwrap();
        assert_eq!(task.wakes(), 1);
        assert!(task.poll().is_pending());
        assert_eq!((left(), task.wakes()), (7, 0));
        drop(requests);
        assert!(task.poll().is_ready());
    }

    #[test]
    fn answers_leave_before_all_is_read_if_the_reader_lets_them() {
        let (answers, mut answered) = mpsc::unbounded_channel::<u32>();
        let (left, duplex) = (Mutex::new(Vec::new()), Duplex::new());
        let mut task = Task::new(duplex.run(
            async {
                for request in 0..6 {
                    answers.send(request).unwrap();
                    if request % 2 == 1 {
                        duplex.let_write().await;
                        // All answers so far have left, and the next call does not wait.
                        assert_eq!(left.lock().unwrap().len(), request as usize + 1);
                        duplex.let_write().await;
                    }
                }
            },
            async {
                while let Some(answer) = answered.recv().await {
                    left.lock().unwrap().push(answer);
                }
            },
        ));
        assert!(task.poll().is_ready());
        assert_eq!(task.wakes(), 0);
    }

    #[test]
    fn who_wakes_itself_gets_another_turn() {
        let (mut polls, duplex) = (0, Duplex::new());
        let mut task = Task::new(duplex.run(
            std::future::pending(),
            poll_fn(|context| {
                polls += 1;
                context.waker().wake_by_ref();
                if polls < 3 { Poll::Pending } else { Poll::Ready(()) }
            }),
        ));
        assert!(task.poll().is_pending());
        assert_eq!(task.wakes(), 1);
        assert!(task.poll().is_pending());
        assert_eq!(task.wakes(), 1);
        assert!(task.poll().is_ready());
    }
}
