//! Reading a partition.

use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;
use tracing::debug;

use super::once::Once;
use super::{Files, RETRIES_MAX, Tasks};
use crate::error::{Error, Kind, Result};
use crate::ids::{AttemptId, FileName, WorkerId};
use crate::net::RequestError;
use crate::wire::batch::{Batch, BatchHeader, Batches, ByteOrder};
use crate::wire::executor::Readable;
use crate::wire::message::Message;
use crate::wire::{ChunkSlice, Header, Received, proto, received, refusal};

/// Reads the batches of a partition: each once, and only those of winning attempts.
pub struct Reader {
    tasks: Arc<Tasks>,
    /// By map id: the attempt whose batches count.
    winners: Arc<[AttemptId]>,
    /// The first is being read, until its stream has ended.
    files: VecDeque<Readable>,
    maps: (i32, i32),
    open: Option<Stream>,
    batches: Option<Batches>,
    once: Once,
    /// The copies of the first file that failed, and are not tried now.
    failed: Vec<Failure>,
    /// How often its copies have been tried again.
    retries: u32,
    /// When they are tried again, if they are.
    retry_at: Option<Instant>,
    /// Why there is no more to read.
    broken: Option<Error>,
}

/// A copy that could not be read.
struct Failure {
    worker: WorkerId,
    error: Error,
    /// True if it may be readable later.
    is_passing: bool,
}

impl Failure {
    /// True if the worker says that it does not have the copy, or has it damaged. Whatever else it refuses may pass: it
    /// may have too many streams open.
    fn is_loss(error: &Error) -> bool {
        matches!(error.kind(), Kind::Corrupt | Kind::DataLoss)
    }
}

/// Why a worker does not give what it is asked for. It says in its text whether that is lost.
fn refused(error: RequestError) -> Error {
    match &error {
        RequestError::Failed { text, .. } if refusal::is_final(text) => {
            Error::new(Kind::DataLoss, error.to_string()).with_source(error)
        }
        _ => error.into(),
    }
}

/// An open stream of one copy of one location. When it is dropped, its worker is told that it has ended.
struct Stream {
    tasks: Arc<Tasks>,
    /// For telling the worker that it has ended: it may be dropped outside of a runtime.
    runtime: Handle,
    worker: WorkerId,
    id: i64,
    chunks: i32,
    next: i32,
    ahead: VecDeque<JoinHandle<Result<Bytes>>>,
}

impl Reader {
    pub(in crate::client) fn new(tasks: Arc<Tasks>, files: Files, maps: impl RangeBounds<i32>) -> Self {
        let start = match maps.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        }
        .max(0);
        let end = match maps.end_bound() {
            Bound::Included(end) => end.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => i32::MAX,
        };
        Self {
            tasks,
            files: files.files.into(),
            winners: files.winners,
            // A range that ends before it begins, or before 0, means the whole location on the wire.
            maps: (start, end.max(start)),
            open: None,
            batches: None,
            once: Once::default(),
            failed: Vec::new(),
            retries: 0,
            retry_at: None,
            broken: None,
        }
    }

    /// The next batch, or `None` after the last. If it is cancelled, the next call goes on where it was.
    ///
    /// # Errors
    /// `Unavailable` if no copy of a location can be reached or opened, after several attempts; `DataLoss` if all are lost or
    /// damaged; `Corrupt` if what was read is no batch; `Conflict` if the shuffle was unregistered. Each further call gives the same error.
    pub async fn next(&mut self) -> Result<Option<Batch>> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let next = self.advance().await;
        self.broken = next.as_ref().err().cloned();
        next
    }

    /// What a call has begun stays in `self` while it waits, because it may be cancelled there.
    async fn advance(&mut self) -> Result<Option<Batch>> {
        loop {
            if let Some(batches) = &mut self.batches {
                match batches.next() {
                    None => self.batches = None,
                    Some(batch) => {
                        let batch = batch?;
                        let BatchHeader { map, attempt, batch: number, .. } = batch.header;
                        if self.once.admits(&self.winners, map, attempt, number) {
                            return Ok(Some(batch));
                        }
                    }
                }
            } else if let Some(stream) = &mut self.open {
                match stream.chunk().await {
                    Ok(Some(chunk)) => self.batches = Some(Batches::new(chunk, ByteOrder::Little)),
                    Ok(None) => self.end_file(),
                    // What was read of this copy is read again, and not returned twice. A worker that was restarted
                    // does not know the stream, but may still have the copy.
                    Err(error) => {
                        let worker = stream.worker.clone();
                        self.tasks.workers.reached(&worker, error.kind() != Kind::Unavailable);
                        self.failed.push(Failure { worker, error, is_passing: true });
                        self.open = None;
                    }
                }
            } else if self.maps.0 == self.maps.1 || self.files.is_empty() {
                return Ok(None);
            } else {
                self.open().await?;
            }
        }
    }

    /// Goes to the next file.
    fn end_file(&mut self) {
        self.files.pop_front();
        self.failed.clear();
        self.retries = 0;
        self.open = None;
    }

    /// Opens the next copy of the first file; after the last, decides to wait for those that may be readable later.
    async fn open(&mut self) -> Result<()> {
        if let Some(retry_at) = self.retry_at {
            tokio::time::sleep_until(retry_at).await;
            self.retry_at = None;
        }
        self.tasks.source.check()?;
        let workers = self.tasks.workers.clone();
        let untried = |worker: &WorkerId| self.failed.iter().all(|failure| failure.worker != *worker);
        let copies = self.files[0].copies.iter().filter(|(worker, _)| untried(worker));
        let copy = copies.min_by_key(|(worker, _)| workers.is_unreached(worker)).cloned();
        let Some((worker, name)) = copy else { return self.retry_later().await };
        // In a task of its own, so that the stream it opens is ended even if this call is cancelled.
        let opening = tokio::spawn(Stream::open(self.tasks.clone(), worker.clone(), name, self.maps));
        let opened = opening.await.unwrap_or_else(|error| Err(did_not_end(error)));
        // If the shuffle's id was released meanwhile, this may be a file of the next shuffle with that id.
        self.tasks.source.check()?;
        match opened {
            Ok(stream) => {
                workers.reached(&worker, true);
                self.open = Some(stream);
            }
            Err(error) => {
                debug!(shuffle = %self.tasks.key, %worker, %name, ?error, "cannot open a copy");
                workers.reached(&worker, error.kind() != Kind::Unavailable);
                let is_passing = !Failure::is_loss(&error);
                self.failed.push(Failure { worker, error, is_passing });
            }
        }
        Ok(())
    }

    async fn retry_later(&mut self) -> Result<()> {
        if self.retries == RETRIES_MAX || !self.failed.iter().any(|failure| failure.is_passing) {
            // Workers have deleted what was unregistered: that is no loss.
            self.tasks.source.confirm(self.files[0].location.partition).await?;
            return Err(self.unreadable());
        }
        self.failed.retain(|failure| !failure.is_passing);
        self.retries += 1;
        self.retry_at = Some(Instant::now() + self.tasks.limits.retry_wait(self.retries));
        Ok(())
    }

    fn unreadable(&self) -> Error {
        let is_lost = self.failed.iter().all(|failure| Failure::is_loss(&failure.error));
        let kind = if is_lost { Kind::DataLoss } else { Kind::Unavailable };
        let reasons = self.failed.iter().map(|failure| format!("{}: {}", failure.worker, failure.error));
        let text = format!(
            "location {} of shuffle {} cannot be read: {}",
            self.files[0].location,
            self.tasks.key,
            reasons.collect::<Vec<_>>().join("; ")
        );
        Error::new(kind, text)
    }
}

impl Stream {
    async fn open(tasks: Arc<Tasks>, worker: WorkerId, name: FileName, maps: (i32, i32)) -> Result<Self> {
        let request = proto::OpenStream {
            shuffle_key: tasks.key.to_string(),
            file_name: name.to_string(),
            start_index: maps.0,
            end_index: maps.1,
            ..Default::default()
        };
        let body = Message::of(&request).to_bare();
        let header = Header::RpcRequest { request_id: 0 };
        let within = tasks.limits.request_max;
        let answer = tasks.workers.client.request(&fetch_address(&worker), header, body, within).await;
        let answer = answer.map_err(refused)?;
        let handler: Received<received::StreamHandler> = Message::decode_bare(answer)?.parse()?;
        let (id, chunks, runtime) = (handler.stream_id, handler.num_chunks, Handle::current());
        Ok(Self { tasks, runtime, worker, id, chunks, next: 0, ahead: VecDeque::new() })
    }

    /// The next chunk, or `None` after the last; requests the following ones ahead.
    async fn chunk(&mut self) -> Result<Option<Bytes>> {
        while self.next < self.chunks && self.ahead.len() <= self.tasks.limits.chunks_ahead {
            let slice =
                ChunkSlice { stream_id: self.id, chunk_index: self.next, offset: 0, len: ChunkSlice::TO_END };
            self.next += 1;
            let (tasks, address) = (self.tasks.clone(), fetch_address(&self.worker));
            self.ahead.push_back(tokio::spawn(async move {
                let header = Header::ChunkFetchRequest(slice);
                let within = tasks.limits.request_max;
                let chunk = tasks.workers.client.request(&address, header, Bytes::new(), within).await;
                chunk.map_err(refused)
            }));
        }
        let Some(chunk) = self.ahead.front_mut() else { return Ok(None) };
        let chunk = chunk.await;
        self.ahead.pop_front();
        chunk.unwrap_or_else(|error| Err(did_not_end(error))).map(Some)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.ahead.iter().for_each(JoinHandle::abort);
        let end = Message::of(&proto::BufferStreamEnd { stream_type: 0, stream_id: self.id }).to_bare();
        let (workers, address) = (self.tasks.workers.clone(), fetch_address(&self.worker));
        self.runtime.spawn(async move {
            let header = Header::RpcRequest { request_id: 0 };
            // A worker that is not reached drops the stream in the end, or has done so.
            let _ = workers.client.send(&address, header, end).await;
        });
    }
}

fn did_not_end(error: JoinError) -> Error {
    Error::new(Kind::Internal, "a fetch did not end").with_source(error)
}

fn fetch_address(worker: &WorkerId) -> String {
    worker.address(worker.fetch_port)
}
