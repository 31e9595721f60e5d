//! The body of an answer on its way out.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::pages::Response;
use crate::gate::{Held, Standing};

/// A body that is given away whole, or piece by piece as it is read. When all of it has been given the connection waits for
/// its peer again, and a newcomer may have its place.
pub(super) struct Answer {
    response: Response,
    is_begun: bool,
    standing: Standing,
    turn: Arc<Semaphore>,
    /// Pieces that have been taken on this connection.
    taken: Arc<AtomicU64>,
    /// The turn that is waited for.
    waiting: Option<Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>>,
}

impl Answer {
    /// The body of `response`, whose memory is charged as `memory` until it has left. Each further piece of it is made when
    /// `turn` has a permit, and counted in `taken`.
    pub fn new(
        mut response: Response,
        memory: Option<Held>,
        standing: Standing,
        turn: Arc<Semaphore>,
        taken: Arc<AtomicU64>,
    ) -> Self {
        if response.body.is_empty() && response.rest.is_nothing() {
            standing.wait();
        }
        if let Some(memory) = memory {
            response.body = Bytes::from_owner(Charged { bytes: response.body, _memory: memory });
        }
        Self { response, is_begun: false, standing, turn, taken, waiting: None }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        // From here on it is the peer that has to read.
        self.standing.wait();
        if !std::mem::replace(&mut self.is_begun, true) && !self.response.body.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.response.body)))));
        }
        if self.response.rest.is_nothing() {
            return Poll::Ready(None);
        }
        let turn = Arc::clone(&self.turn);
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(async { turn.acquire_owned().await.ok() }));
        let _turn = ready!(waiting.as_mut().poll(context));
        self.waiting = None;
        // Nobody waits for its turn while a piece is waited for.
        let piece = ready!(self.response.rest.poll_next(context));
        self.taken.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.response.rest.is_nothing() && self.response.body.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        match self.response.rest.is_nothing() {
            true => SizeHint::with_exact(self.response.body.len() as u64),
            false => SizeHint::new(),
        }
    }
}

/// Bytes with what they are charged as.
struct Charged {
    bytes: Bytes,
    _memory: Held,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
