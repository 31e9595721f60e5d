//! What a server does with the frames of its connections.

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::body::Body;
use super::reply::Reply;
use crate::wire::Head;

/// The id of a connection, unique within this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

impl ConnectionId {
    pub(super) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The bare number, for decision modules, which know nothing of connections.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

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
