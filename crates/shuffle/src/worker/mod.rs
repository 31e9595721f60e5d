//! The worker: takes batches, keeps them, and gives them back.
//!
//! - [`state`], [`index`]: what a worker decides about a shuffle and what it knows about each batch; no I/O.
//! - [`memory`]: the ledger that every kept byte is charged to.
//! - [`store`]: batches in memory and in segments on disk.

pub mod index;
pub mod memory;
pub mod state;
pub mod store;
