//! Data generators, workloads and the comparison with our peers.
//!
//! - [`generate`]: the tables of TPC-H and TPC-DS as Parquet (`yeoul generate`)
//! - [`Error`]: what went wrong and what to do about it

mod error;
pub mod generate;
mod stdout;

pub use error::{Error, Result};
