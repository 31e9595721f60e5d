//! The worker: takes batches, keeps them, and gives them back.
//!
//! - [`state`], [`index`]: what a worker decides about a shuffle and what it knows about each batch; no I/O.
//! - [`memory`]: whom every kept byte is charged to.
//! - [`store`]: batches in memory and in segments on disk.
//! - [`control`], [`push`] (and `large`), [`replicate`] (and `forward`, [`peers`]), [`fetch`], [`streams`]: the four listeners.
//! - [`registration`]: the conversation with the master; [`node`], [`server`], `lifecycle` (and `orders`), [`options`], `host`:
//!   the worker as a whole.
//! - [`answer`], [`meters`]: what is counted; `pages`, `view`: where it is shown.

mod admission;
pub(crate) mod answer;
mod console;
pub(crate) mod control;
pub(crate) mod fetch;
mod forward;
mod host;
pub(crate) mod index;
mod large;
mod lifecycle;
mod listeners;
pub mod memory;
pub(crate) mod meters;
pub(crate) mod node;
pub(crate) mod options;
mod orders;
mod pages;
pub(crate) mod peers;
pub(crate) mod push;
pub(crate) mod registration;
pub(crate) mod replicate;
pub(crate) mod server;
pub(crate) mod state;
pub mod store;
pub(crate) mod streams;
mod view;

pub use options::Options;
pub use server::{Handle, Server};
