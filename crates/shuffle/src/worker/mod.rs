//! The worker: takes batches, keeps them, and gives them back.
//!
//! - [`state`], [`index`]: what a worker decides about a shuffle and what it knows about each batch; no I/O.
//! - [`memory`]: the ledger that every kept byte is charged to; [`shares`]: who may take of it next; [`buffers`]: what
//!   they lie in; [`governor`]: the ledger's limit follows the process.
//! - [`store`]: batches in memory and in segments on disk.
//! - [`control`], [`push`] (and `large`), [`replicate`] (and `forward`, [`peers`]), [`fetch`], [`streams`]: the four listeners.
//! - [`registration`]: the conversation with the master; [`node`], [`server`], [`options`], `host`: the worker as a whole.
//! - [`answer`], [`meters`]: what is counted; `pages`, `view`: where it is shown.

pub mod answer;
pub mod buffers;
pub mod control;
pub mod fetch;
mod forward;
pub mod governor;
mod host;
pub mod index;
mod large;
pub mod memory;
pub mod meters;
pub mod node;
pub mod options;
mod pages;
pub mod peers;
pub mod push;
pub mod registration;
pub mod replicate;
pub mod server;
pub mod shares;
pub mod state;
pub mod store;
pub mod streams;
mod view;

pub use options::Options;
pub use server::{Handle, Server};
