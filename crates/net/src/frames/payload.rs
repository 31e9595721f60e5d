//! The bodies of frames that are sent.

use std::future::Future;
use std::io;
use std::pin::Pin;

use bytes::Bytes;

use super::protocol::Protocol;

/// What [`PieceSource::next`] returns.
pub type PieceFuture<'a> = Pin<Box<dyn Future<Output = io::Result<Option<Vec<Bytes>>>> + Send + 'a>>;

/// Gives a body piece by piece. A piece is asked for while the one before leaves, so a peer that does not read pins two
/// pieces and not the whole body.
pub trait PieceSource<P: Protocol>: Send {
    /// The parts of the next piece, or `None` after the last.
    fn next(&mut self) -> PieceFuture<'_>;

    /// There is no next piece, or it did not come in time. What is returned is sent in place of the frame if this was the
    /// first piece; otherwise the connection ends, because the frame cannot be finished.
    fn broke(&mut self, error: &io::Error) -> Option<P::Header> {
        let _ = error;
        None
    }
}

/// What is kept alive until a body has been sent or given up.
pub(super) type Guard = Option<Box<dyn Send>>;

pub(super) enum Source<P: Protocol> {
    Bytes(Vec<Bytes>),
    Pull(Box<dyn PieceSource<P>>),
}

/// The body of a frame that is sent: bytes at hand, or a source that is pulled meanwhile.
pub struct Payload<P: Protocol> {
    source: Source<P>,
    len: usize,
    guard: Guard,
}

impl<P: Protocol> Payload<P> {
    /// No body.
    pub fn empty() -> Self {
        Self::parts(Vec::new())
    }

    /// Parts that are sent one after the other, without being joined first.
    pub fn parts(parts: Vec<Bytes>) -> Self {
        let len = parts.iter().map(Bytes::len).sum();
        Self { source: Source::Bytes(parts), len, guard: None }
    }

    /// A body of exactly `len` bytes from a source. If the source gives another number the connection ends.
    pub fn pull(len: usize, source: Box<dyn PieceSource<P>>) -> Self {
        Self { source: Source::Pull(source), len, guard: None }
    }

    /// Also keeps `guard` alive until the body has been sent or given up: a memory permit, a pinned file.
    #[must_use]
    pub fn with_guard(mut self, guard: impl Send + 'static) -> Self {
        self.guard = Some(Box::new((self.guard.take(), guard)));
        self
    }

    /// Bytes of the body.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of the body that are in memory until it has been sent.
    pub(super) fn held(&self) -> usize {
        match &self.source {
            Source::Bytes(_) => self.len,
            Source::Pull(_) => 0,
        }
    }

    /// The body, and what is kept until it has been sent.
    pub(super) fn open(self) -> (Source<P>, Guard) {
        (self.source, self.guard)
    }

    /// Whether there is no body.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<P: Protocol> From<Bytes> for Payload<P> {
    fn from(bytes: Bytes) -> Self {
        Self::parts(vec![bytes])
    }
}

impl<P: Protocol> std::fmt::Debug for Payload<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload({} bytes)", self.len)
    }
}
