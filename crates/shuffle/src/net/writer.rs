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

use super::payload::{Guard, Payload, PieceSource, Source};
use crate::wire::Header;

/// Bytes that are gathered for one write, if so much is waiting.
const GATHER: usize = 256 * 1024;

/// Slices passed to the kernel in one call.
const SLICES: usize = 64;

/// The first piece of a body may take `idle_max` divided by this: without it, another frame can be sent instead.
const FIRST_PART: u32 = 2;

/// The divisor after a first piece that was late. Otherwise answers from other disks would wait behind each body of a
/// disk that hangs.
const FIRST_PART_NEXT: u32 = 24;

/// A frame on its way out.
pub(super) struct Outgoing {
    pub header: Header,
    pub payload: Payload,
    pub place: Place,
}

/// A place among the connection's requests in flight.
pub(super) enum Place {
    /// The frame needs none.
    Unlimited,
    /// That of the answer's request. It is free again when the answer has left.
    Answer { _place: OwnedSemaphorePermit },
    /// That of the request itself, shared with the caller. It is free again when the frame has left and there is an
    /// answer, or the caller has given up.
    Request(Arc<OwnedSemaphorePermit>),
}

impl Place {
    /// Whether the caller has given up.
    fn is_abandoned(&self) -> bool {
        matches!(self, Self::Request(place) if Arc::strong_count(place) == 1)
    }
}

/// The parts of a piece, or `None` after the last piece.
type Piece = Option<Vec<Bytes>>;

/// Writes the frames of `queue` until it is closed, the peer is gone or reads nothing for `idle_max`, or a pulled body
/// makes no progress for as long. A frame whose caller gave up before it began to leave is skipped.
pub(super) async fn write_frames(
    half: OwnedWriteHalf,
    queue: mpsc::UnboundedReceiver<Outgoing>,
    idle_max: Duration,
) -> io::Result<()> {
    let (heads, gathered, first_part) = (BytesMut::new(), Gathered::default(), FIRST_PART);
    FrameWriter { half, idle_max, heads, gathered, first_part }.run(queue).await
}

struct FrameWriter {
    half: OwnedWriteHalf,
    idle_max: Duration,
    /// Where heads are encoded.
    heads: BytesMut,
    gathered: Gathered,
    /// The divisor of `idle_max` for the first piece of the next pulled body.
    first_part: u32,
}

impl FrameWriter {
    async fn run(mut self, mut queue: mpsc::UnboundedReceiver<Outgoing>) -> io::Result<()> {
        while let Some(first) = queue.recv().await {
            let mut next = Some(first);
            while let Some(outgoing) = next {
                if !outgoing.place.is_abandoned() {
                    self.take(outgoing).await?;
                }
                let is_full = self.gathered.len >= GATHER;
                next = if is_full { None } else { queue.try_recv().ok() };
            }
            self.gathered.write(&mut self.half, self.idle_max).await?;
            self.gathered = Gathered::default(); // an idle connection costs no buffer
        }
        self.half.shutdown().await
    }

    /// Gathers a frame, or sends it if its body is pulled.
    async fn take(&mut self, Outgoing { header, payload, place }: Outgoing) -> io::Result<()> {
        let len = payload.len();
        let (source, guard) = payload.open();
        match source {
            Source::Bytes(parts) => {
                self.gather_head(&header, len);
                parts.into_iter().for_each(|part| self.gathered.push(part));
                self.gathered.kept.push(Kept { _place: place, _guard: guard });
                Ok(())
            }
            Source::Pull(mut source) => {
                let pulled = self.pull(header, len, source.as_mut(), place).await;
                drop(guard);
                pulled
            }
        }
    }

    async fn pull(
        &mut self,
        header: Header,
        len: usize,
        source: &mut dyn PieceSource,
        place: Place,
    ) -> io::Result<()> {
        let first = self.first_piece(source).await?;
        self.gathered.kept.push(Kept { _place: place, _guard: None });
        match first {
            Ok(first) => {
                self.gather_head(&header, len);
                self.pieces(source, first, len).await
            }
            Err(error) => {
                // Nothing of the frame has left, so the connection can go on.
                let instead = source.broke(&error).ok_or(error)?;
                self.gather_head(&instead, 0);
                Ok(())
            }
        }
    }

    /// The first piece of a body, or why there is none. Frames before it are written without waiting for its disk.
    async fn first_piece(&mut self, source: &mut dyn PieceSource) -> io::Result<io::Result<Piece>> {
        let first = next_of(source, self.idle_max / self.first_part);
        let first = self.gathered.write_while_waiting(first, &mut self.half, self.idle_max).await?;
        let is_late = first.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
        self.first_part = if is_late { FIRST_PART_NEXT } else { FIRST_PART };
        Ok(first)
    }

    /// Sends what is gathered, and a body from its first piece on.
    async fn pieces(&mut self, source: &mut dyn PieceSource, first: Piece, len: usize) -> io::Result<()> {
        let (mut piece, mut left, idle_max) = (first, len, self.idle_max);
        while let Some(parts) = piece {
            for part in parts {
                left = left.checked_sub(part.len()).ok_or_else(|| wrong_total(len))?;
                self.gathered.push(part);
            }
            // The next piece is read from disk while this one leaves.
            let write = self.gathered.write(&mut self.half, idle_max);
            let ((), next) = tokio::try_join!(write, async { Ok(next_of(source, idle_max).await) })?;
            piece = next.inspect_err(|error| _ = source.broke(error))?;
        }
        if left == 0 { Ok(()) } else { Err(wrong_total(len)) }
    }

    fn gather_head(&mut self, header: &Header, len: usize) {
        header.encode(len, &mut self.heads);
        self.gathered.push(self.heads.split().freeze());
    }
}

/// The next piece of a body, which holds up the connection: it must come within `idle_max`.
async fn next_of(source: &mut dyn PieceSource, idle_max: Duration) -> io::Result<Piece> {
    timeout(idle_max, source.next()).await.unwrap_or_else(|_| {
        let text = format!("a body that is sent had no next piece for {idle_max:?}");
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })
}

fn wrong_total(len: usize) -> io::Error {
    io::Error::other(format!("a body of {len} bytes came out with another length"))
}

/// What goes out with the next write, and what is released after it.
#[derive(Default)]
struct Gathered {
    parts: VecDeque<Bytes>,
    len: usize,
    kept: Vec<Kept>,
}

/// What a frame holds until it has left.
struct Kept {
    _place: Place,
    _guard: Guard,
}

impl Gathered {
    fn push(&mut self, part: Bytes) {
        if !part.is_empty() {
            self.len += part.len();
            self.parts.push_back(part);
        }
    }

    /// Waits for a piece. What is gathered is written meanwhile, or together with a piece that is ready at once.
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
                // A peer that reads nothing any more needs no piece.
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
        self.kept.clear();
        Ok(())
    }
}
