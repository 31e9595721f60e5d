//! Data generators, workloads and the comparison with our peers.
//!
//! - [`generate`]: the tables of TPC-H and TPC-DS as Parquet (`yeoul generate`)
//! - [`tpc`]: our engine and its peers on the queries of TPC-H and TPC-DS (`yeoul bench tpch|tpcds`)
//! - [`contestant`]: our own engine as a contestant (`yeoul bench-contestant`)
//! - `contest`: contestants as processes: the protocol, the peers, their memory
//! - `report`: cases, contestants and measurements as a table, as JSON and as a page
//! - `compare`: whether an answer equals the oracle's
//! - [`Error`]: what went wrong and what to do about it

mod compare;
mod contest;
pub mod contestant;
mod error;
pub mod generate;
mod report;
pub mod tpc;

pub use contest::CONTESTANT_VERB;
pub use error::{Error, Result};
