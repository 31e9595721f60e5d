//! Celeborn's wire format: bytes to values and back, without I/O.
//!
//! Layers, outermost first: a [`Frame`] carries either a push, a chunk, or an RPC payload. On the `rpc` ports the
//! payload is an [`rpc::Request`]; on the push and fetch ports it is a bare [`message::Message`]. Both hold one of the
//! protobuf messages of [`proto`]; what is received is decoded as its counterpart in [`received`].

pub mod batch;
mod cursor;
pub mod executor;
pub mod frame;
pub mod handshake;
pub mod java;
mod limits;
pub mod lists;
pub mod message;
pub mod packed;
#[cfg(test)]
mod properties;
pub mod refusal;
pub mod rpc;
mod status;

/// The protobuf messages that clients exchange with servers, generated from `proto/celeborn.proto`.
#[allow(missing_docs, clippy::all)]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/celeborn.rs"));
}

/// The protobuf messages between our own servers, generated from `proto/internal.proto`, and between the halves of our own
/// client, from `proto/executor.proto`.
#[allow(missing_docs, clippy::all)]
pub mod internal {
    include!(concat!(env!("OUT_DIR"), "/yeoul.shuffle.internal.rs"));
}

/// The messages of [`proto`] and [`internal`] without their lists, which [`lists`] reads from the received bytes.
#[allow(missing_docs, clippy::all)]
pub mod received {
    use super::lists::{Messages, Numbers, Part, Texts};

    include!(concat!(env!("OUT_DIR"), "/received/celeborn.rs"));
    include!(concat!(env!("OUT_DIR"), "/received/yeoul.shuffle.internal.rs"));
    include!(concat!(env!("OUT_DIR"), "/received/lists.rs"));
}

/// The records of a master's journal, generated from `proto/journal.proto`.
#[allow(missing_docs, clippy::all)]
pub(crate) mod journal {
    include!(concat!(env!("OUT_DIR"), "/yeoul.shuffle.journal.rs"));
}

pub use cursor::{DecodeError, Problem};
pub use frame::{ChunkSlice, Frame, FrameType, Head, Header, Incoming};
pub use limits::{Limits, WORKER_SHUFFLES_MAX};
pub use lists::Received;
pub use status::Status;
