//! How an application uses the service.

use std::time::Duration;

use crate::client::tasks::TaskOptions;
use crate::error::{Error, Kind, Result};
use crate::ids::SplitMode;

/// Options of an application that uses the service.
#[derive(Debug, Clone)]
pub struct Options {
    /// The masters, `host:port` each, tried in turn.
    pub masters: Vec<String>,
    /// The application's name; drawn anew if not given. What an earlier application of this name has left is removed, so two
    /// that run at a time need two names.
    pub application: Option<String>,
    /// True if each location has a copy on a second worker.
    pub replicate: bool,
    /// Workers that a shuffle is spread over at most; 0 leaves it to the master.
    pub workers_max: i32,
    /// Bytes of a location at which it splits.
    pub split_threshold: i64,
    /// Kind of the split.
    pub split_mode: SplitMode,
    /// Connections to one server.
    pub connections: usize,
    /// Batches on their way to one worker, at least 1; one more waits.
    pub window: usize,
    /// Batches smaller than this wait to be pushed together, until they have this size, in bytes; at most 8 MiB, for a worker
    /// holds them in memory together.
    pub merge_len: usize,
    /// Times that one batch turns to a new location before its push fails. A hard split counts for the batch for which the
    /// new location was made, and not for those that found it; a failure counts for each batch that met it.
    pub revives_max: usize,
    /// Time that a push may take, its replication included; at most a year, as the next one and `retry_wait`.
    pub push_max: Duration,
    /// Time that any other request may take.
    pub request_max: Duration,
    /// The wait before a worker that could not be reached is asked again for what only it has; it is asked three times
    /// more, and the wait doubles each time.
    pub retry_wait: Duration,
    /// Chunks requested ahead of the reader.
    pub chunks_ahead: usize,
    /// The interval of the heartbeat, whose answer names leaving workers: their locations are committed then, if they
    /// wait that long.
    pub heartbeat: Duration,
}

impl Options {
    /// The defaults with these masters.
    pub fn new(masters: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            masters: masters.into_iter().map(Into::into).collect(),
            application: None,
            replicate: false,
            workers_max: 0,
            split_threshold: 1 << 30,
            split_mode: SplitMode::Soft,
            connections: 2,
            window: 32,
            merge_len: 64 << 10,
            revives_max: 5,
            push_max: Duration::from_secs(120),
            request_max: Duration::from_secs(60),
            retry_wait: Duration::from_secs(1),
            chunks_ahead: 3,
            heartbeat: Duration::from_secs(10),
        }
    }

    /// Refuses what cannot work.
    pub(super) fn check(&self) -> Result<()> {
        if self.masters.is_empty() {
            return Err(Error::new(Kind::Invalid, "no master is given, expected `host:port`"));
        }
        self.of_tasks().check()
    }

    /// Knowledge that tasks need of it.
    pub(in crate::client) fn of_tasks(&self) -> TaskOptions {
        TaskOptions {
            window: self.window,
            merge_len: self.merge_len,
            revives_max: self.revives_max,
            push_max: self.push_max,
            request_max: self.request_max,
            retry_wait: self.retry_wait,
            chunks_ahead: self.chunks_ahead,
        }
    }
}
