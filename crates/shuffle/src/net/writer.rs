//! The writing half of a connection.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;

use super::payload::{Payload, PieceSource, Source};
use crate::wire::Header;

/// Bytes that are gathered for one write, as far as frames are waiting.
const GATHER: usize = 256 * 1024;

/// Slices handed to the kernel at once.
const SLICES: usize = 64;

/// A frame on its way out.
pub(super) struct Outgoing {
    pub header: Header,
    pub payload: Payload,
    /// The place among the connection's requests in flight, free again when the frame has left.
    pub permit: Option<OwnedSemaphorePermit>,
}

/// Writes the frames of `queue` until it is closed, or until the peer is gone or reads nothing for `idle_max`, or a body
/// that is pulled stands still for as long.
pub(super) async fn write_frames(
    mut half: OwnedWriteHalf,
    mut queue: mpsc::UnboundedReceiver<Outgoing>,
    idle_max: Duration,
) -> io::Result<()> {
    let mut heads = BytesMut::new();
    while let Some(first) = queue.recv().await {
        let mut gathered = Gathered::default();
        let mut next = Some(first);
        while let Some(Outgoing { header, payload, permit }) = next.take() {
            let len = payload.len();
            header.encode(len, &mut heads);
            let head = heads.split().freeze();
            match payload.source {
                Source::Bytes(ref parts) => {
                    gathered.push(head);
                    gathered.permits.extend(permit);
                    parts.iter().for_each(|part| gathered.push(part.clone()));
                    gathered.payloads.push(payload);
                }
                Source::Pull(mut source) => {
                    let mut left = len;
                    // What others asked for does not wait for this one's disk.
                    let first = next_of(source.as_mut(), idle_max);
                    let mut piece = gathered.write_while_waiting(first, &mut half, idle_max).await?;
                    gathered.push(head);
                    gathered.permits.extend(permit);
                    while let Some(parts) = piece {
                        for part in parts {
                            left = left.checked_sub(part.len()).ok_or_else(|| wrong_total(len))?;
                            gathered.push(part);
                        }
                        // The next piece comes from its disk while this one leaves.
                        let write = gathered.write(&mut half, idle_max);
                        ((), piece) = tokio::try_join!(write, next_of(source.as_mut(), idle_max))?;
                    }
                    if left != 0 {
                        return Err(wrong_total(len));
                    }
                }
            }
            if gathered.len < GATHER {
                next = queue.try_recv().ok();
            }
        }
        gathered.write(&mut half, idle_max).await?;
    }
    half.shutdown().await
}

/// The next piece of a body, which has begun to take up the connection: it may not stand still for ever.
async fn next_of(source: &mut dyn PieceSource, idle_max: Duration) -> io::Result<Option<Vec<Bytes>>> {
    timeout(idle_max, source.next()).await.unwrap_or_else(|_| {
        let text = format!("a body that is sent had no next piece for {idle_max:?}");
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })
}

fn wrong_total(len: usize) -> io::Error {
    io::Error::other(format!("a body of {len} bytes came out with another length"))
}

/// What goes out with the next write, and what may be let go after it.
#[derive(Default)]
struct Gathered {
    parts: VecDeque<Bytes>,
    len: usize,
    payloads: Vec<Payload>,
    permits: Vec<OwnedSemaphorePermit>,
}

impl Gathered {
    fn push(&mut self, part: Bytes) {
        if !part.is_empty() {
            self.len += part.len();
            self.parts.push_back(part);
        }
    }

    /// Waits for a piece. What is gathered goes out meanwhile, or together with a piece that is at hand.
    async fn write_while_waiting<T>(
        &mut self,
        piece: impl Future<Output = io::Result<T>>,
        half: &mut OwnedWriteHalf,
        idle_max: Duration,
    ) -> io::Result<T> {
        let mut piece = pin!(piece);
        match poll_fn(|context| Poll::Ready(piece.as_mut().poll(context))).await {
            Poll::Ready(piece) => piece,
            Poll::Pending => tokio::try_join!(self.write(half, idle_max), piece).map(|((), piece)| piece),
        }
    }

    async fn write(&mut self, half: &mut OwnedWriteHalf, idle_max: Duration) -> io::Result<()> {
        while !self.parts.is_empty() {
            let mut written = {
                let mut slices = [IoSlice::new(&[]); SLICES];
                let count = self.parts.len().min(SLICES);
                for (slice, part) in slices.iter_mut().zip(&self.parts) {
                    *slice = IoSlice::new(part);
                }
                let write = half.write_vectored(&slices[..count]);
                timeout(idle_max, write).await.map_err(|_| {
                    io::Error::new(io::ErrorKind::TimedOut, format!("the peer read nothing for {idle_max:?}"))
                })??
            };
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.len -= written;
            while written > 0 {
                let front = self.parts.front_mut().expect("no more was written than there was");
                let step = written.min(front.len());
                front.advance(step);
                written -= step;
                if front.is_empty() {
                    self.parts.pop_front();
                }
            }
        }
        self.payloads.clear();
        self.permits.clear();
        Ok(())
    }
}
