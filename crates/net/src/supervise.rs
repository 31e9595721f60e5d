//! What keeps a server from living on half dead.
//!
//! A server whose ticker, journal or spiller has panicked still answers, and no longer decides: nobody restarts it, and
//! what it promises is not kept. A decision that panicked half way has changed state of which the journal knows nothing.
//! In both cases the process ends with a message and exit code 1; its restart goes on from what is on disk.
//!
//! - [`Supervisor`]: tasks that must live; [`outcome`] of the tasks that those spawn; [`must_not_panic`] for work on other
//!   threads.
//! - [`DecisionLock`]: a lock around state that is changed before it is kept.

use std::any::Any;
use std::fmt::{self, Display};
use std::future::{Future, poll_fn};
use std::io::{self, Write};
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard};
use std::thread;

use tokio::task::{JoinError, JoinHandle};

/// The process's exit code when a part of it has died.
const EXIT_CODE: i32 = 1;

/// Ends the process. What is left of it would answer and decide nothing, or decide from half a change.
fn end_process(what: &str, how: &dyn Display) -> ! {
    let text = format!(
        "error: {what} {how}\nhint: this is a defect; the process ends, and goes on from what is on its disk when it is started again\n"
    );
    // A stderr that is gone leaves nobody to tell.
    let _ = io::stderr().write_all(text.as_bytes());
    std::process::exit(EXIT_CODE)
}

/// Tasks that a server must not go on without. They are aborted when this is dropped.
#[derive(Debug)]
pub struct Supervisor {
    server: &'static str,
    tasks: Vec<JoinHandle<()>>,
}

impl Supervisor {
    /// Tasks of a server, which is named in the message, such as "master".
    pub fn new(server: &'static str) -> Self {
        Self { server, tasks: Vec::new() }
    }

    /// Spawns a task that is to run for as long as the server: the process ends if it returns or panics.
    pub fn keep(&mut self, task: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let server = self.server;
        self.run(task, async move {
            work.await;
            end_process(&format!("the {server}'s {task}"), &"ended, which it must not")
        });
    }

    /// Spawns a task that waits for the failure of something that must live, and says why it failed: the process ends then.
    pub fn watch<W: Display>(
        &mut self,
        what: &'static str,
        failure: impl Future<Output = W> + Send + 'static,
    ) {
        let server = self.server;
        self.run(what, async move {
            let why = failure.await;
            end_process(&format!("the {server}'s {what}"), &format!("has failed: {why}"))
        });
    }

    /// Spawns a task that ends when its work is done: the process ends if it panics.
    pub fn run(&mut self, task: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let server = self.server;
        let task = tokio::spawn(async move {
            let mut work = pin!(work);
            poll_fn(|context| {
                // It is not polled again after a panic, and nobody else sees what it owns.
                catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)))
                    .unwrap_or_else(|panic| panicked(server, task, &*panic))
            })
            .await;
        });
        self.tasks.push(task);
    }

    /// Aborts the tasks, and returns when they have let go of what they held.
    pub async fn stop(mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        for task in std::mem::take(&mut self.tasks) {
            // An abort is no failure.
            let _ = task.await;
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// The outcome of a task, or `None` if it was aborted. If it panicked, the panic goes on here: a task that must live does not
/// outlive those that it has spawned.
pub fn outcome<T>(ended: Result<T, JoinError>) -> Option<T> {
    match ended.map_err(JoinError::try_into_panic) {
        Ok(outcome) => Some(outcome),
        Err(Ok(panic)) => resume_unwind(panic),
        Err(Err(_)) => None,
    }
}

/// Does a part of a server's work on this thread: the process ends if it panics.
pub fn must_not_panic<T>(server: &'static str, task: &'static str, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| panicked(server, task, &*panic))
}

fn panicked(server: &str, task: &str, panic: &(dyn Any + Send)) -> ! {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    end_process(&format!("the {server}'s {task}"), &format!("panicked: {}", text.unwrap_or("no message")))
}

/// A lock around state from which decisions are made, and which they change before they are kept. A panic under it may
/// leave half a change: the process ends before anybody else sees that.
pub struct DecisionLock<T> {
    what: &'static str,
    state: Mutex<T>,
}

impl<T> DecisionLock<T> {
    /// A lock around `state`, which is named in the message, such as "the master's state".
    pub const fn new(what: &'static str, state: T) -> Self {
        Self { what, state: Mutex::new(state) }
    }

    /// Waits for the lock. Hold it for as long as a decision takes, and never while waiting for anything.
    pub fn lock(&self) -> DecisionGuard<'_, T> {
        let was_panicking = thread::panicking();
        let state = self.state.lock();
        let state = state.unwrap_or_else(|_| end_process(self.what, &"was left by a panic"));
        DecisionGuard { what: self.what, was_panicking, state }
    }
}

impl<T> fmt::Debug for DecisionLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DecisionLock({})", self.what)
    }
}

/// The state, for one decision.
pub struct DecisionGuard<'a, T> {
    what: &'static str,
    /// It was locked by a destructor while a panic that does not concern it was under way.
    was_panicking: bool,
    state: MutexGuard<'a, T>,
}

impl<T> Deref for DecisionGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.state
    }
}

impl<T> DerefMut for DecisionGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.state
    }
}

impl<T> Drop for DecisionGuard<'_, T> {
    fn drop(&mut self) {
        if thread::panicking() && !self.was_panicking {
            end_process(self.what, &"was left half changed by a panic in a decision");
        }
    }
}

impl<T> fmt::Debug for DecisionGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DecisionGuard({})", self.what)
    }
}
