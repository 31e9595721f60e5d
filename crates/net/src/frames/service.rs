//! What a server does with the frames of its connections.

use std::future::Future;
use std::io;

use super::protocol::Protocol;
use super::reply::Reply;
use crate::connections::ConnectionId;
use crate::stream::Body;

/// Handles frames.
pub trait Service<P: Protocol>: Send + Sync + 'static {
    /// Handles one frame; it is called in the order of their arrival. The next frame is read when this returns; work
    /// that takes longer keeps `reply` and goes on in a task of its own. What is left of the body is skipped.
    ///
    /// # Errors
    /// An error ends the connection: use it for broken bodies, and answer every other failure through `reply`.
    fn call(
        &self,
        head: P::Received,
        body: &mut Body<'_>,
        reply: Reply<P>,
    ) -> impl Future<Output = io::Result<()>> + Send;

    /// A connection has ended. Calls that it began may still go on; their answers go nowhere.
    fn closed(&self, connection: ConnectionId) {
        let _ = connection;
    }
}
