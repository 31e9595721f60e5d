//! The answer to a frame.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::payload::Payload;
use super::protocol::Protocol;
use super::unsent::Unsent;
use super::writer::{Outgoing, Place};
use crate::connections::ConnectionId;

/// Answers one frame, once. It counts as one of the connection's requests in flight until its answer has been written, or
/// until it is dropped, which is how a frame without an answer ends.
pub struct Reply<P: Protocol> {
    pub(super) queue: mpsc::UnboundedSender<Outgoing<P>>,
    pub(super) permit: OwnedSemaphorePermit,
    pub(super) unsent: Arc<Unsent>,
    pub(super) connection: ConnectionId,
}

impl<P: Protocol> Reply<P> {
    /// The connection that the frame came on.
    pub fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// Whether the connection has ended, so that an answer would go nowhere.
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Sends any frame. The queue cannot overflow: each entry holds a permit of the connection's requests in flight.
    pub fn frame(self, header: P::Header, payload: impl Into<Payload<P>>) {
        let place = Place::Answer { _place: self.permit };
        let mut payload = payload.into();
        if let Some(counted) = self.unsent.count(payload.held()) {
            payload = payload.with_guard(counted);
        }
        let outgoing = Outgoing { header, payload, place };
        // The connection may have ended meanwhile, and nobody waits for the answer.
        let _ = self.queue.send(outgoing);
    }
}

impl<P: Protocol> fmt::Debug for Reply<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply(connection {})", self.connection)
    }
}
