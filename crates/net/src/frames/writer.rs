//! Sends the frames of a connection.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;

use super::payload::{Guard, Payload, PieceSource, Source};
use super::protocol::Protocol;
use crate::stream::StreamWriter;

/// Bytes that are gathered for one write, if so much is waiting.
const GATHER: usize = 256 * 1024;

/// The first piece of a body may take `idle_max` divided by this: without it, another frame can be sent instead.
const FIRST_PART: u32 = 2;

/// The divisor after a first piece that was late. Otherwise answers from other disks would wait behind each body of a
/// disk that hangs.
const FIRST_PART_NEXT: u32 = 24;

/// A frame on its way out.
pub(super) struct Outgoing<P: Protocol> {
    pub header: P::Header,
    pub payload: Payload<P>,
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
pub(super) async fn write_frames<P: Protocol>(
    half: OwnedWriteHalf,
    queue: mpsc::UnboundedReceiver<Outgoing<P>>,
    idle_max: Duration,
) -> io::Result<()> {
    let gathered = Gathered { stream: StreamWriter::new(half, idle_max), kept: Vec::new() };
    FrameWriter { idle_max, heads: BytesMut::new(), gathered, first_part: FIRST_PART }.run(queue).await
}

struct FrameWriter {
    idle_max: Duration,
    /// Where heads are encoded.
    heads: BytesMut,
    gathered: Gathered,
    /// The divisor of `idle_max` for the first piece of the next pulled body.
    first_part: u32,
}

impl FrameWriter {
    async fn run<P: Protocol>(mut self, mut queue: mpsc::UnboundedReceiver<Outgoing<P>>) -> io::Result<()> {
        while let Some(first) = queue.recv().await {
            let mut next = Some(first);
            while let Some(outgoing) = next {
                if !outgoing.place.is_abandoned() {
                    self.take(outgoing).await?;
                }
                let is_full = self.gathered.stream.gathered() >= GATHER;
                next = if is_full { None } else { queue.try_recv().ok() };
            }
            self.gathered.write().await?;
            // An idle connection costs no buffer.
            self.gathered.stream.shrink();
            self.gathered.kept = Vec::new();
        }
        self.gathered.stream.close().await
    }

    /// Gathers a frame, or sends it if its body is pulled.
    async fn take<P: Protocol>(&mut self, outgoing: Outgoing<P>) -> io::Result<()> {
        let Outgoing { header, payload, place } = outgoing;
        let len = payload.len();
        let (source, guard) = payload.open();
        match source {
            Source::Bytes(parts) => {
                self.gather_head::<P>(&header, len);
                parts.into_iter().for_each(|part| self.gathered.stream.gather(part));
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

    async fn pull<P: Protocol>(
        &mut self,
        header: P::Header,
        len: usize,
        source: &mut dyn PieceSource<P>,
        place: Place,
    ) -> io::Result<()> {
        let first = self.first_piece(source).await?;
        self.gathered.kept.push(Kept { _place: place, _guard: None });
        match first {
            Ok(first) => {
                self.gather_head::<P>(&header, len);
                self.pieces(source, first, len).await
            }
            Err(error) => {
                // Nothing of the frame has left, so the connection can go on.
                let instead = source.broke(&error).ok_or(error)?;
                self.gather_head::<P>(&instead, 0);
                Ok(())
            }
        }
    }

    /// The first piece of a body, or why there is none. Frames before it are written without waiting for its disk.
    async fn first_piece<P: Protocol>(
        &mut self,
        source: &mut dyn PieceSource<P>,
    ) -> io::Result<io::Result<Piece>> {
        let first = next_of(source, self.idle_max / self.first_part);
        let first = self.gathered.write_while_waiting(first).await?;
        let is_late = first.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
        self.first_part = if is_late { FIRST_PART_NEXT } else { FIRST_PART };
        Ok(first)
    }

    /// Sends what is gathered, and a body from its first piece on.
    async fn pieces<P: Protocol>(
        &mut self,
        source: &mut dyn PieceSource<P>,
        first: Piece,
        len: usize,
    ) -> io::Result<()> {
        let (mut piece, mut left, idle_max) = (first, len, self.idle_max);
        while let Some(parts) = piece {
            for part in parts {
                left = left.checked_sub(part.len()).ok_or_else(|| wrong_total(len))?;
                self.gathered.stream.gather(part);
            }
            // The next piece is read from disk while this one leaves.
            let write = self.gathered.write();
            let ((), next) = tokio::try_join!(write, async { Ok(next_of(source, idle_max).await) })?;
            piece = next.inspect_err(|error| _ = source.broke(error))?;
        }
        if left == 0 { Ok(()) } else { Err(wrong_total(len)) }
    }

    fn gather_head<P: Protocol>(&mut self, header: &P::Header, len: usize) {
        P::encode(header, len, &mut self.heads);
        self.gathered.stream.gather(self.heads.split().freeze());
    }
}

/// The next piece of a body, which holds up the connection: it must come within `idle_max`.
async fn next_of<P: Protocol>(source: &mut dyn PieceSource<P>, idle_max: Duration) -> io::Result<Piece> {
    timeout(idle_max, source.next()).await.unwrap_or_else(|_| {
        let text = format!("a body that is sent had no next piece for {idle_max:?}");
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })
}

fn wrong_total(len: usize) -> io::Error {
    io::Error::other(format!("a body of {len} bytes came out with another length"))
}

/// What a frame holds until it has left.
struct Kept {
    _place: Place,
    _guard: Guard,
}

/// What goes out with the next write, and what is released after it.
struct Gathered {
    stream: StreamWriter,
    kept: Vec<Kept>,
}

impl Gathered {
    async fn write(&mut self) -> io::Result<()> {
        self.stream.write().await?;
        self.kept.clear();
        Ok(())
    }

    /// Waits for a piece. What is gathered is written meanwhile, or together with a piece that is ready at once.
    async fn write_while_waiting<T>(&mut self, piece: impl Future<Output = T>) -> io::Result<T> {
        let mut piece = pin!(piece);
        match poll_fn(|context| Poll::Ready(piece.as_mut().poll(context))).await {
            Poll::Ready(piece) => Ok(piece),
            Poll::Pending => {
                // A peer that reads nothing any more needs no piece.
                let ((), piece) = tokio::try_join!(self.write(), async { Ok(piece.await) })?;
                Ok(piece)
            }
        }
    }
}
