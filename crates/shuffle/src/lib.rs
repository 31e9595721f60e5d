//! A remote shuffle service that speaks Apache Celeborn's protocol, so that the unmodified client in Spark 3.5 and the
//! one in Sail use it.
//!
//! - [`ids`]: the identifiers, [`error`]: the public error.
//! - [`wire`]: bytes to values and back; no I/O.
//! - [`master`]: applications, workers, shuffles, slots.
//! - [`client`]: a client of our own, for engines, benchmarks and tests.
//! - [`worker`]: takes batches, keeps them, and gives them back.
//! - [`net`]: Celeborn's frames on the connections of `yeoul-net`.
//! - [`settings`]: Celeborn's keys and what they do here.
//! - inside: `report`, what workers tell the master and what it tells them to do; `api`, `host_pages` and `metrics`, pages and
//!   numbers for people, scripts and Prometheus; `stored_name`, what applications are called on a disk; `faults`, which simulates all
//!   of it under crashes and lost messages.

pub(crate) mod api;
pub mod client;
pub mod error;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod heard;
pub(crate) mod host_pages;
pub mod ids;
pub(crate) mod loggers;
pub mod master;
pub(crate) mod metrics;
pub mod net;
pub(crate) mod report;
pub mod settings;
pub(crate) mod stored_name;
pub mod wire;
pub mod worker;

pub use error::{Error, Kind, Result};
