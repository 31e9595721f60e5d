//! The body of a frame on its way in.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::reader::FrameReader;

/// The body of the frame whose head has been read: read it whole, in pieces, or not at all.
pub struct Body<'a> {
    reader: &'a mut FrameReader,
    remaining: usize,
}

impl<'a> Body<'a> {
    pub(super) fn new(reader: &'a mut FrameReader, len: usize) -> Self {
        Self { reader, remaining: len }
    }

    /// Bytes that have not been read yet.
    pub fn remaining(&self) -> usize {
        self.remaining
    }

    /// Until when this frame may wait, if its peer is not to wait longer for an answer than that: what stood in line behind
    /// others has been waiting while those were answered.
    pub fn deadline(&self, patience: Duration) -> Instant {
        self.reader.deadline(patience)
    }

    /// The rest, in an allocation of its own that can be stored as it is. While it arrives it takes at most twice the bytes
    /// received plus 64 KiB.
    ///
    /// # Errors
    /// The connection ended, or the peer stood still for too long. The connection is of no further use.
    pub async fn whole(&mut self) -> io::Result<Bytes> {
        let len = std::mem::take(&mut self.remaining);
        self.reader.take(len).await
    }

    /// The next `len` bytes, or the rest if it is shorter, behind what a vector has. Where the vector's capacity is large
    /// enough it stays where it is.
    ///
    /// # Errors
    /// As for [`Body::whole`].
    pub async fn read_into(&mut self, bytes: &mut Vec<u8>, len: usize) -> io::Result<()> {
        let len = self.remaining.min(len);
        self.remaining -= len;
        self.reader.take_into(bytes, len).await
    }

    /// The next piece, as long as `len_max` or the rest, in an allocation of its own; `None` behind the last.
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

    /// Whether the peer has closed the connection and nothing is left on it: nobody waits for an answer.
    pub fn is_orphaned(&self) -> bool {
        self.remaining == 0 && self.reader.is_at_end()
    }

    /// Reads the rest and forgets it.
    ///
    /// # Errors
    /// As for [`Body::whole`].
    pub async fn skip(&mut self) -> io::Result<()> {
        let len = std::mem::take(&mut self.remaining);
        self.reader.skip(len).await
    }
}
