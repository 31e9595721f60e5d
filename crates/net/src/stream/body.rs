//! The body behind a head.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::reader::StreamReader;

/// The body of the frame whose head has been read: read it whole, in pieces, or not at all.
#[derive(Debug)]
pub struct Body<'a> {
    reader: &'a mut StreamReader,
    remaining: usize,
}

impl<'a> Body<'a> {
    pub(super) fn new(reader: &'a mut StreamReader, len: usize) -> Self {
        Self { reader, remaining: len }
    }

    /// Bytes that have not been read yet.
    pub fn remaining(&self) -> usize {
        self.remaining
    }

    /// Until when this frame may wait, if its peer is to wait no longer than `patience` for an answer: a frame that
    /// stood behind others was already waiting while those were answered.
    pub fn deadline(&self, patience: Duration) -> Instant {
        self.reader.deadline(patience)
    }

    /// The rest, in an allocation of its own that can be stored as it is. While it arrives it takes at most twice the bytes
    /// received plus 64 KiB.
    ///
    /// # Errors
    /// The connection ended, or no byte came for too long. The connection cannot be used further.
    pub async fn whole(&mut self) -> io::Result<Bytes> {
        let len = std::mem::take(&mut self.remaining);
        self.reader.take(len).await
    }

    /// Appends the next `len` bytes, or the rest if it is shorter, to a vector. If its capacity is large enough it is
    /// not reallocated.
    ///
    /// # Errors
    /// As for [`Body::whole`].
    pub async fn read_into(&mut self, bytes: &mut Vec<u8>, len: usize) -> io::Result<()> {
        let len = self.remaining.min(len);
        self.remaining -= len;
        self.reader.take_into(bytes, len).await
    }

    /// The next piece, `len_max` bytes or the rest, in an allocation of its own; `None` after the last.
    ///
    /// # Errors
    /// As for [`Body::whole`].
    pub async fn piece(&mut self, len_max: usize) -> io::Result<Option<Bytes>> {
        if self.remaining == 0 {
            return Ok(None);
        }
        let len = self.remaining.min(len_max.max(1));
        self.remaining -= len;
        self.reader.take(len).await.map(Some)
    }

    /// Whether the peer has closed the connection and nothing is left to read: nobody waits for an answer.
    pub fn is_orphaned(&self) -> bool {
        self.remaining == 0 && self.reader.is_at_end()
    }

    /// Reads the rest and drops it.
    ///
    /// # Errors
    /// As for [`Body::whole`].
    pub async fn skip(&mut self) -> io::Result<()> {
        let len = std::mem::take(&mut self.remaining);
        self.reader.skip(len).await
    }
}
