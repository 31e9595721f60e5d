//! The body of an answer on its way out.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::pages::Response;
use crate::gate::{Held, Standing};

/// A body that is given away whole, or piece by piece as it is read. When all of it has been given the connection waits for
/// its peer again, and a newcomer may have its place.
pub(super) struct Answer {
    response: Response,
    is_begun: bool,
    standing: Standing,
}

impl Answer {
    /// The body of `response`, whose memory is charged as `memory` until it has left.
    pub fn new(mut response: Response, memory: Option<Held>, standing: Standing) -> Self {
        if response.body.is_empty() && response.rest.is_nothing() {
            standing.wait();
        }
        if let Some(memory) = memory {
            response.body = Bytes::from_owner(Charged { bytes: response.body, _memory: memory });
        }
        Self { response, is_begun: false, standing }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        let piece = match std::mem::take(&mut self.response.body) {
            body if is_first && !body.is_empty() => Some(body),
            _ => self.response.rest.next(),
        };
        // From here on it is the peer that has to read.
        self.standing.wait();
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
