//! What a protocol says of its frames.

use std::error::Error;
use std::fmt::{Debug, Display};
use std::hash::Hash;

use bytes::{Bytes, BytesMut};

/// A protocol whose connections carry frames: a head, and a body that is opaque here.
pub trait Protocol: Send + Sync + 'static {
    /// The head of a frame that is sent.
    type Header: Send + 'static;

    /// The head of a frame that is received.
    type Received: Send + 'static;

    /// What a connection takes.
    type Limits: Clone + Send + Sync + 'static;

    /// Why bytes are not a frame within the limits.
    type Error: Into<Box<dyn Error + Send + Sync>>;

    /// The most frames that one client has in flight, as far as it is known. Frames that waited behind so many others are
    /// as late as those are, and at most a quarter of so many answers is held back to be sent together.
    const WINDOW: usize;

    /// Takes a head from the front of `bytes`, with the length of the body behind it, and leaves the body there. `None`
    /// means that more bytes are needed, and nothing was taken. A frame that is too long may be given as a head of its
    /// own, so that the service can refuse it and the connection goes on: what the service does not read of a body is
    /// skipped.
    ///
    /// # Errors
    /// The bytes are not a frame within the limits; the connection ends. So does one whose head grows without end: a
    /// decoder must not ask for more bytes than its limits allow.
    fn decode(
        bytes: &mut BytesMut,
        limits: &Self::Limits,
    ) -> Result<Option<(Self::Received, usize)>, Self::Error>;

    /// Appends a head, behind which `body_len` bytes of body are sent.
    fn encode(header: &Self::Header, body_len: usize, bytes: &mut BytesMut);
}

/// A protocol that is request and response: what a [`Client`](super::Client) needs to know of it.
pub trait Calls: Protocol + Sized {
    /// What a request and its answer have in common.
    type Key: Copy + Eq + Hash + Send + 'static;

    /// The content of an answer.
    type Answer: Send + 'static;

    /// Why a server refused.
    type Failure: Debug + Display + Clone + Send + Sync + 'static;

    /// What a client takes unless it is told otherwise.
    fn answer_limits() -> Self::Limits;

    /// Numbers a request, with `next` if its kind has a number, and returns the key of its answer.
    fn number(header: &mut Self::Header, next: impl FnOnce() -> i64) -> Self::Key;

    /// The answer in a frame, and whose it is; `None` if the frame is something else, which is passed over.
    fn answer(head: Self::Received, body: Bytes) -> Option<(Self::Key, Outcome<Self>)>;
}

/// What a server said to a request.
pub type Outcome<P> = Result<<P as Calls>::Answer, <P as Calls>::Failure>;
