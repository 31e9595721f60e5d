//! Streams.

mod batch_id;
pub mod error;
pub mod plan;

pub use batch_id::BatchId;
