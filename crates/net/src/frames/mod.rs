//! Frames: a head, and a body that is opaque here, in both directions of a connection.
//!
//! A server is a [`Listener`](crate::Listener) with a [`Service`]. Each connection has a reader, which calls the service
//! for each frame in order, and a writer, which sends the answers in the order in which they are ready. The service sees a
//! frame's head before its body, and decides where the body goes and when there is room for it; while it waits, only this
//! connection waits. A [`Client`] keeps one or a few connections to each address, with many requests in flight.

mod client;
mod duplex;
mod payload;
mod protocol;
mod reply;
mod server;
mod service;
mod unsent;
mod writer;

pub use client::{Client, ClientOptions, RequestError};
pub use payload::{Payload, PieceFuture, PieceSource};
pub use protocol::{Calls, Outcome, Protocol};
pub use reply::Reply;
pub use server::{FrameOptions, serve_frames, serve_frames_of};
pub use service::Service;

#[cfg(test)]
mod letters;
#[cfg(test)]
mod tests;
