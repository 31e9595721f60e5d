//! Pages of running queries over HTTP: figures that their events change.
//!
//! - [`QueryFigures`]: figures of all queries of a process
//! - [`StreamPages`]: a page for people, Prometheus metrics, the queries as JSON, and whether all of them run

mod console;
mod figures;
mod prometheus;
mod routes;

pub use figures::{QueryFigures, QueryStatus};
pub use routes::StreamPages;

#[cfg(test)]
mod tests;
