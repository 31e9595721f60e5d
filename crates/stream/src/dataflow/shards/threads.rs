use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::operators::{Exchange, FromShard, Shard, ToShard};

/// Most messages that wait for a shard. A message has at most what one poll gives.
const MESSAGES_MAX: usize = 16;
/// Most answers and batches of rows that wait for the query's thread, for each shard.
const TOLD_MAX: usize = 16;

/// Shards of a step on threads of their own, with bounded channels.
struct Threads {
    to_shards: Vec<SyncSender<ToShard>>,
    told: Option<Receiver<FromShard>>,
    threads: Vec<JoinHandle<()>>,
}

/// Starts the shards of a step, whose first table has this name.
///
/// # Errors
/// If the system has no threads.
pub fn start_shards(table: &str, shards: Vec<Shard>) -> Result<Box<dyn Exchange>> {
    let (tell, told) = sync_channel(TOLD_MAX * shards.len());
    let mut all = Threads { to_shards: Vec::new(), told: Some(told), threads: Vec::new() };
    for shard in shards {
        let (to_shard, messages) = sync_channel(MESSAGES_MAX);
        let name = format!("{table}-{}", shard.number());
        let tell = tell.clone();
        let thread = thread::Builder::new().name(name.clone()).spawn(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| work(shard, &messages, &tell)));
            let error = match outcome {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error,
                Err(panic) => broke(&name, &*panic),
            };
            // A query that is gone has no use for it.
            let _ = tell.send(FromShard::Failed(error));
        })?;
        all.to_shards.push(to_shard);
        all.threads.push(thread);
    }
    Ok(Box::new(all))
}

/// Carries messages out until the query's thread sends no more.
fn work(mut shard: Shard, messages: &Receiver<ToShard>, tell: &SyncSender<FromShard>) -> Result<()> {
    for message in messages {
        shard.handle(message, &mut |told| {
            tell.send(told).map_err(|_| Error::new(ErrorKind::Internal, "the query's thread is gone"))
        })?;
    }
    Ok(())
}

impl Exchange for Threads {
    fn offer(&mut self, shard: usize, message: ToShard) -> Result<Option<ToShard>> {
        match self.to_shards[shard].try_send(message) {
            Ok(()) => Ok(None),
            // A shard that has ended has told why, which is taken next.
            Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) => Ok(Some(message)),
        }
    }

    fn take(&mut self, wait: Duration) -> Result<Option<FromShard>> {
        let told = self.told.as_ref().expect("it is there until the threads are to end");
        let gone = || Err(Error::new(ErrorKind::Internal, "the shards of a query are gone"));
        if wait.is_zero() {
            return match told.try_recv() {
                Ok(told) => Ok(Some(told)),
                Err(TryRecvError::Empty) => Ok(None),
                Err(TryRecvError::Disconnected) => gone(),
            };
        }
        match told.recv_timeout(wait) {
            Ok(told) => Ok(Some(told)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => gone(),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // A thread that waits for a message, and one that waits to tell something, find nobody.
        self.to_shards.clear();
        self.told = None;
        for thread in self.threads.drain(..) {
            // What a thread failed with, it has told.
            let _ = thread.join();
        }
    }
}

fn broke(thread: &str, panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = format!("the shard '{thread}' of a query broke: {}", text.unwrap_or("no message"));
    Error::new(ErrorKind::Internal, text).with_hint("start it again: it goes on from its last checkpoint")
}
