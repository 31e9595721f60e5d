//! The writing half of a connection.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::pin;
use std::sync::Arc;
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

/// The part of the time that a body may stand still which its first piece has: without one, another frame can go.
const FIRST_PART: u32 = 2;

/// The part that it has where the one before did not come in time: what is behind the two on the connection, and lies
/// elsewhere, would wait for all of a disk that stands still.
const FIRST_PART_NEXT: u32 = 24;

/// A frame on its way out.
pub(super) struct Outgoing {
    pub header: Header,
    pub payload: Payload,
    pub place: Place,
}

/// A place among the connection's requests in flight.
pub(super) enum Place {
    /// Such a frame needs none.
    Unlimited,
    /// That of the answer's request. It is free again when the answer has left.
    Answer { _place: OwnedSemaphorePermit },
    /// That of the request itself, which whoever asked has a share in. It is free again when the frame has left and there is
    /// an answer, or nobody waits for one.
    Request(Arc<OwnedSemaphorePermit>),
}

impl Place {
    /// Whether whoever asked has given up.
    fn is_abandoned(&self) -> bool {
        matches!(self, Self::Request(place) if Arc::strong_count(place) == 1)
    }
}

/// Writes the frames of `queue` until it is closed, or until the peer is gone or reads nothing for `idle_max`, or a body
/// that is pulled stands still for as long. A frame whose asker gave up before it began to leave is left out.
pub(super) async fn write_frames(
    mut half: OwnedWriteHalf,
    mut queue: mpsc::UnboundedReceiver<Outgoing>,
    idle_max: Duration,
) -> io::Result<()> {
    let mut heads = BytesMut::new();
    let mut first_part = FIRST_PART;
    while let Some(first) = queue.recv().await {
        let mut gathered = Gathered::default();
        let mut next = Some(first);
        while let Some(Outgoing { header, payload, place }) = next.take() {
            if place.is_abandoned() {
                next = queue.try_recv().ok();
                continue;
            }
            let len = payload.len();
            header.encode(len, &mut heads);
            let head = heads.split().freeze();
            match payload.source {
                Source::Bytes(ref parts) => {
                    gathered.push(head);
                    gathered.places.push(place);
                    parts.iter().for_each(|part| gathered.push(part.clone()));
                    gathered.payloads.push(payload);
                }
                Source::Pull(mut source) => {
                    let mut left = len;
                    // What others asked for does not wait for this one's disk.
                    let first = next_of(source.as_mut(), idle_max / first_part);
                    let first = gathered.write_while_waiting(first, &mut half, idle_max).await?;
                    let is_late = first.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
                    first_part = if is_late { FIRST_PART_NEXT } else { FIRST_PART };
                    gathered.places.push(place);
                    let mut piece = match first {
                        Ok(piece) => {
                            gathered.push(head);
                            piece
                        }
                        Err(error) => {
                            // Nothing of the frame has left: others on the connection need not suffer.
                            source.broke(&error).ok_or(error)?.encode(0, &mut heads);
                            gathered.push(heads.split().freeze());
                            left = 0;
                            None
                        }
                    };
                    while let Some(parts) = piece {
                        for part in parts {
                            left = left.checked_sub(part.len()).ok_or_else(|| wrong_total(len))?;
                            gathered.push(part);
                        }
                        // The next piece comes from its disk while this one leaves.
                        let write = gathered.write(&mut half, idle_max);
                        let ((), next) =
                            tokio::try_join!(write, async { Ok(next_of(source.as_mut(), idle_max).await) })?;
                        piece = next.inspect_err(|error| _ = source.broke(error))?;
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
    places: Vec<Place>,
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
        piece: impl Future<Output = T>,
        half: &mut OwnedWriteHalf,
        idle_max: Duration,
    ) -> io::Result<T> {
        let mut piece = pin!(piece);
        match poll_fn(|context| Poll::Ready(piece.as_mut().poll(context))).await {
            Poll::Ready(piece) => Ok(piece),
            Poll::Pending => {
                // Who reads nothing any more needs no piece.
                let ((), piece) = tokio::try_join!(self.write(half, idle_max), async { Ok(piece.await) })?;
                Ok(piece)
            }
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
        self.places.clear();
        Ok(())
    }
}
