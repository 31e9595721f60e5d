//! Numbers for Prometheus: a server counts in [`Counter`]s and [`Timer`]s, and writes an [`Exposition`] when it is asked.

mod exposition;
mod timer;

pub use exposition::Exposition;
pub use timer::{Counter, Reading, Timer};
