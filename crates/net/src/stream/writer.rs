//! The writing half of a connection.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::timeout;

/// Slices passed to the kernel in one call.
const SLICES: usize = 64;

/// Gathers parts and writes them together, without joining them first.
#[derive(Debug)]
pub struct StreamWriter {
    half: OwnedWriteHalf,
    /// How long the peer may read nothing while there are parts for it.
    idle_max: Duration,
    parts: VecDeque<Bytes>,
    len: usize,
}

impl StreamWriter {
    /// A writer to this half of a connection.
    pub fn new(half: OwnedWriteHalf, idle_max: Duration) -> Self {
        Self { half, idle_max, parts: VecDeque::new(), len: 0 }
    }

    /// Adds a part to what the next [`StreamWriter::write`] sends.
    pub fn gather(&mut self, part: Bytes) {
        if !part.is_empty() {
            self.len += part.len();
            self.parts.push_back(part);
        }
    }

    /// Bytes that are gathered.
    pub fn gathered(&self) -> usize {
        self.len
    }

    /// Sends what is gathered.
    ///
    /// # Errors
    /// `TimedOut` if the peer reads nothing for `idle_max`, or what the socket says. The connection cannot be used further.
    pub async fn write(&mut self) -> io::Result<()> {
        let Self { half, idle_max, parts, len } = self;
        while !parts.is_empty() {
            let mut written = {
                let mut slices = [IoSlice::new(&[]); SLICES];
                let count = parts.len().min(SLICES);
                for (slice, part) in slices.iter_mut().zip(&*parts) {
                    *slice = IoSlice::new(part);
                }
                let write = half.write_vectored(&slices[..count]);
                timeout(*idle_max, write).await.map_err(|_| {
                    io::Error::new(io::ErrorKind::TimedOut, format!("the peer read nothing for {idle_max:?}"))
                })??
            };
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            *len -= written;
            while written > 0 {
                let front = parts.front_mut().expect("no more was written than there was");
                let step = written.min(front.len());
                front.advance(step);
                written -= step;
                if front.is_empty() {
                    parts.pop_front();
                }
            }
        }
        Ok(())
    }

    /// Gives back the memory of what was gathered: an idle connection costs no buffer.
    pub fn shrink(&mut self) {
        assert!(self.parts.is_empty(), "what was gathered is written before its memory is given back");
        self.parts = VecDeque::new();
    }

    /// Closes this direction, once everything has been written.
    ///
    /// # Errors
    /// What the socket says.
    pub async fn close(&mut self) -> io::Result<()> {
        self.half.shutdown().await
    }
}
