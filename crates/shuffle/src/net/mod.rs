//! Celeborn's frames on the connections of `yeoul-net`: what a protocol says of itself there, and what only Celeborn's
//! clients want.
//!
//! A server is a [`Listener`] with a [`Service`]. The service sees a frame's head before its body, and decides where the
//! body goes and when there is room for it; while it waits, only this connection waits. A [`Client`] keeps one or a few
//! connections to each address, with many requests in flight.

mod listener;
mod protocol;
mod reply;
mod service;

pub use listener::{Listener, Options};
pub use protocol::{Celeborn, Key};
pub use reply::Reply;
pub(crate) use reply::cut;
pub use service::Service;
pub use yeoul_net::{
    Body, ConnectionCount, ConnectionId, PieceFuture, PieceSource, RequestError, Serving, cannot_bind,
    raise_file_limit,
};

/// A client of servers that speak Celeborn's protocol.
pub type Client = yeoul_net::Client<Celeborn>;

/// How a client treats its connections.
pub type ClientOptions = yeoul_net::ClientOptions<crate::wire::Limits>;

/// The body of a frame that is sent.
pub type Payload = yeoul_net::Payload<Celeborn>;

#[cfg(test)]
mod tests;
