use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use yeoul_base::without_users;

use super::events::{Progress, QueryEvent};
use super::opened::{Checked, Opened, connectors, is_taken, taken_over};
use super::query_loop::{Ended, QueryLoop, now_ms};
use crate::checkpoint::storage::CheckpointAddress;
use crate::checkpoint::{Loss, Resumption};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::Query;
use crate::state::MemoryShare;

/// Time between looks of a query that pauses whether it is stopped.
const PAUSE_LOOK: Duration = Duration::from_millis(20);
/// Time between its looks, after it was fenced, whether another process has claimed it.
const CLAIM_LOOK: Duration = Duration::from_millis(250);

/// A query that was started.
pub struct QueryHandle {
    name: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<()>>>,
}

/// What a query and its handle share.
pub(super) struct Shared {
    is_stopped: AtomicBool,
    tell: Box<dyn Fn(&QueryEvent) + Send + Sync>,
}

/// Checks all of a query that can be known before it starts.
///
/// # Errors
/// As [`start`], of what is `Invalid`.
pub fn check(query: &Query) -> Result<()> {
    connectors(query).map(drop)
}

/// Checks a query against its checkpoint below `checkpoint` and, if another process may have it, that its connectors can be used.
/// Nothing is taken over. [`start`] does the same; who starts several queries knows before the first that the last is right.
///
/// # Errors
/// As [`start`], of what can be known before the query is taken over.
pub fn check_checkpoint(query: &Query, checkpoint: impl Into<CheckpointAddress>) -> Result<()> {
    Checked::new(query, &checkpoint.into())?.check_connectors()
}

/// Starts a query on a thread of its own, with its checkpoint in a folder of its name below `checkpoint`; `tell` gets its
/// events, from that thread. Its state grows into `memory`.
///
/// # Errors
/// If the system has no thread. What goes wrong later, [`QueryHandle::wait`] says.
pub fn start(
    query: Query,
    checkpoint: impl Into<CheckpointAddress>,
    memory: MemoryShare,
    tell: impl Fn(&QueryEvent) + Send + Sync + 'static,
) -> Result<QueryHandle> {
    let shared = Arc::new(Shared { is_stopped: AtomicBool::new(false), tell: Box::new(tell) });
    let (name, checkpoint) = (query.name.clone(), checkpoint.into());
    let run = {
        let shared = Arc::clone(&shared);
        move || {
            let outcome = run(&query, &checkpoint, &memory, &shared);
            let exception = outcome.as_ref().err().map(exception);
            shared.tell(&QueryEvent::Terminated { name: query.name.clone(), exception });
            outcome
        }
    };
    let thread = thread::Builder::new().name(format!("stream-{name}")).spawn(run)?;
    Ok(QueryHandle { name, shared, thread: Some(thread) })
}

/// Text of an error with its causes, in a line. Many errors print their cause themselves.
fn exception(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let own = error.to_string();
        let own = without_users(&own);
        if !text.contains(own.as_ref()) {
            text.push_str(&format!("; caused by: {own}"));
        }
        cause = error.source();
    }
    text
}

fn run(query: &Query, checkpoint: &CheckpointAddress, memory: &MemoryShare, shared: &Shared) -> Result<()> {
    let (mut resumption, mut lost) = (Resumption::default(), None);
    loop {
        let opened = Opened::open(query, checkpoint, memory, &mut resumption, lost.as_ref(), now_ms());
        let error = match opened.and_then(|opened| QueryLoop::new(query, opened, shared)) {
            Ok(query_loop) => match query_loop.run(&mut resumption) {
                Ended::Done => return Ok(()),
                Ended::Failed(error) => return Err(error),
                Ended::Lost(error) => error,
            },
            // What took the transaction may still keep brokers away.
            Err(error) if lost.is_some() && error.kind() == ErrorKind::Unavailable => error,
            Err(error) => return Err(error),
        };
        let loss = if error.kind() == ErrorKind::Conflict { Loss::Fenced } else { Loss::Broken };
        let Some(pause) = resumption.lost(loss) else { return Err(error) };
        let until = Instant::now() + pause;
        loop {
            // What cannot be known now is asked again before anybody is fenced.
            if loss == Loss::Fenced && matches!(is_taken(query, checkpoint, &resumption), Ok(true)) {
                return Err(taken_over(&query.name).with_source(error));
            }
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            if !shared.pause(rest.min(CLAIM_LOOK)) {
                return Err(error);
            }
        }
        lost = Some(error);
    }
}

impl QueryHandle {
    /// Name of the query.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it still runs.
    pub fn is_active(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Asks it to end: it takes no further rows, brings what it has to the sink, and takes a last checkpoint.
    pub fn stop(&self) {
        self.shared.is_stopped.store(true, Ordering::Release);
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// Why it failed.
    pub fn wait(mut self) -> Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| {
            let text = format!("the query '{}' broke", self.name);
            Err(Error::new(ErrorKind::Internal, text)
                .with_hint("start it again: it goes on from its last checkpoint"))
        })
    }
}

impl Shared {
    /// Waits for so long; false if the query was stopped meanwhile.
    fn pause(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while !self.is_stopped() && Instant::now() < until {
            thread::sleep(PAUSE_LOOK);
        }
        !self.is_stopped()
    }

    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    pub fn tell(&self, event: &QueryEvent) {
        (self.tell)(event);
    }

    pub fn progressed(&self, progress: Progress) {
        self.tell(&QueryEvent::Progress(progress));
    }
}
