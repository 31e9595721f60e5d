use std::collections::VecDeque;
use std::io::{self, Write};

use bytes::Bytes;
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};
use tokio::task::JoinHandle;

use super::object_storage::{Failure, ObjectStorage, within};
use super::{Storage, Unfinished};
use crate::error::{Error, ErrorKind, Result};

/// Bytes of a part, and of the largest object that is sent as one. S3 takes 10,000 parts, of at least 5 MiB and the same length.
pub(super) const PART_BYTES: usize = 8 << 20;
/// Parts that are on their way at the same time; with the one that is being filled they are in memory.
const PARTS_IN_FLIGHT_MAX: usize = 2;
/// Factor by which a part is waited for longer than another answer: it is large, and its client sends it again by itself.
const PART_PATIENCE: u32 = 4;

/// A large object on its way to a store.
///
/// A small one is sent as one, again and again if need be. Parts are sent again by the store's client alone: what is in
/// them is not kept.
pub(super) struct Upload {
    storage: ObjectStorage,
    path: String,
    buffer: Vec<u8>,
    bytes: u64,
    parts: Option<Parts>,
}

struct Parts {
    upload: Box<dyn MultipartUpload>,
    in_flight: VecDeque<JoinHandle<Result<(), Failure>>>,
    is_complete: bool,
}

impl Upload {
    /// Nothing is sent yet.
    pub fn new(storage: ObjectStorage, path: &str) -> Self {
        Self { storage, path: path.to_owned(), buffer: Vec::new(), bytes: 0, parts: None }
    }

    /// Sends what was gathered as the next part.
    fn send(&mut self) -> Result<()> {
        let storage = &self.storage;
        if self.parts.is_none() {
            let object = storage.path(&self.path);
            let begin = || storage.within(storage.store.put_multipart(&object));
            let upload = storage.request("write", &self.path, begin)?;
            self.parts = Some(Parts { upload, in_flight: VecDeque::new(), is_complete: false });
        }
        let parts = self.parts.as_mut().expect("it was begun");
        let part = PutPayload::from_bytes(Bytes::from(std::mem::take(&mut self.buffer)));
        let time = storage.patience.answer * PART_PATIENCE;
        let runtime = storage.io.runtime();
        let sent = {
            // Some clients look for their runtime when a part is given to them.
            let _entered = runtime.enter();
            parts.upload.put_part(part)
        };
        parts.in_flight.push_back(runtime.spawn(within(time, sent)));
        self.wait(PARTS_IN_FLIGHT_MAX)
    }

    /// Waits until no more than so many parts are on their way.
    fn wait(&mut self, count: usize) -> Result<()> {
        let Some(parts) = &mut self.parts else { return Ok(()) };
        while parts.in_flight.len() > count {
            let Some(part) = parts.in_flight.pop_front() else { break };
            let sent = self.storage.io.run(part).map_err(|error| {
                Error::new(ErrorKind::Internal, "a part of a file of state broke").with_source(error)
            })?;
            sent.map_err(|failure| self.storage.error("write", &self.path, failure))?;
        }
        Ok(())
    }

    /// Makes the parts one object.
    fn complete(&mut self) -> Result<()> {
        self.wait(0)?;
        let Some(parts) = &mut self.parts else { return Ok(()) };
        let time = self.storage.patience.answer * PART_PATIENCE;
        let completed = self.storage.io.run(within(time, parts.upload.complete()));
        parts.is_complete = true;
        let Err(failure) = completed else { return Ok(()) };
        // Its answer may be lost: the name is this process's own, so an object of this length is what was sent.
        let object = self.storage.path(&self.path);
        let found = self.storage.io.run(self.storage.within(self.storage.store.head(&object)));
        if found.is_ok_and(|found| found.size == self.bytes) {
            return Ok(());
        }
        Err(self.storage.error("write", &self.path, failure))
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PART_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        self.bytes += taken as u64;
        if self.buffer.len() == PART_BYTES {
            self.send().map_err(io::Error::other)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Unfinished for Upload {
    fn finish(mut self: Box<Self>) -> Result<()> {
        if self.parts.is_none() {
            return self.storage.replace(&self.path, &std::mem::take(&mut self.buffer));
        }
        if !self.buffer.is_empty() {
            self.send()?;
        }
        self.complete()
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(parts) = self.parts.take() else { return };
        let Parts { mut upload, is_complete, in_flight } = parts;
        if !is_complete {
            in_flight.iter().for_each(JoinHandle::abort);
            // Stores keep parts of what was never completed, and let them be paid for. A failure leaves them.
            let aborted = within(self.storage.patience.answer, async move { upload.abort().await });
            let _ = self.storage.io.run(aborted);
        }
    }
}
