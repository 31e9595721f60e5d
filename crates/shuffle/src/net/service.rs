//! What a server does with the frames of its connections.

use std::future::Future;
use std::io;
use std::sync::Arc;

use yeoul_net::{Body, ConnectionId};

use super::protocol::Celeborn;
use super::reply::Reply;
use crate::wire::{Head, Incoming};

/// Handles frames.
pub trait Service: Send + Sync + 'static {
    /// Handles one frame; it is called in the order of their arrival. The next frame is read when this returns; work
    /// that takes longer keeps `reply` and goes on in a task of its own. What is left of the body is skipped.
    ///
    /// # Errors
    /// An error ends the connection: use it for broken bodies, and answer every other failure through `reply`.
    fn call(
        &self,
        head: Head,
        body: &mut Body<'_>,
        reply: Reply,
    ) -> impl Future<Output = io::Result<()>> + Send;

    /// Refuses a push above the limits, of which only the request id was read.
    fn refused_push(&self, reply: Reply, text: String) {
        reply.fail(text);
    }

    /// A connection has ended. Calls that it began may still go on; their answers go nowhere.
    fn closed(&self, connection: ConnectionId) {
        let _ = connection;
    }
}

/// A service as the connections see it.
pub(super) struct Frames<S>(pub Arc<S>);

impl<S: Service> yeoul_net::Service<Celeborn> for Frames<S> {
    async fn call(
        &self,
        incoming: Incoming,
        body: &mut Body<'_>,
        reply: yeoul_net::Reply<Celeborn>,
    ) -> io::Result<()> {
        let reply = Reply::new(reply, incoming.request_id().unwrap_or_default());
        match incoming {
            Incoming::Frame(head) => self.0.call(head, body, reply).await,
            Incoming::LongPush { error, .. } => {
                self.0.refused_push(reply, format!("the push is longer than this server takes: {error}"));
                Ok(())
            }
        }
    }

    fn closed(&self, connection: ConnectionId) {
        self.0.closed(connection);
    }
}
