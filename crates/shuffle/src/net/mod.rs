//! The connections that every server and client of this crate runs on.
//!
//! A server is a [`Listener`] with a [`Service`]. Each connection has a reader, which calls the service for each frame
//! in order, and a writer, which sends the answers in the order in which they are ready. The service sees a frame's
//! head before its body, and decides where the body goes and when there is room for it; while it waits, only this
//! connection waits. A [`Client`] keeps one or a few connections to each address, with many requests in flight.

mod arrivals;
mod body;
mod client;
mod door;
mod duplex;
mod listener;
mod payload;
mod reader;
mod reply;
mod service;
mod unsent;
mod writer;

pub use body::Body;
pub use client::{Client, ClientOptions, RequestError};
pub use door::ConnectionCount;
pub(crate) use door::Door;
pub use listener::{
    Listener, ListenerHandle, Options, cannot_bind, listen, notice_vanished_peers, raise_file_limit,
};
pub use payload::{Payload, PieceFuture, PieceSource};
pub use reply::Reply;
pub(crate) use reply::cut;
pub use service::{ConnectionId, Service};

#[cfg(test)]
mod tests;
