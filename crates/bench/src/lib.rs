//! Workloads, data generators, and the comparison with our peers, by part: each is behind a feature of its name, so that a
//! binary without SQL compiles no DataFusion.
//!
//! `sql`:
//! - [`generate`]: the tables of TPC-H and TPC-DS as Parquet (`yeoul generate`)
//! - [`tpc`]: our engine and its peers on the queries of TPC-H and TPC-DS (`yeoul bench tpch|tpcds`)
//! - [`contestant`]: our own engine as a contestant (`yeoul bench-contestant`)
//! - `contest`: contestants as processes: the protocol, the peers, their memory
//! - `report`: cases, contestants and measurements as a table, as JSON and as a page
//! - `compare`: whether an answer equals the oracle's
//! - [`Error`]: what went wrong and what to do about it
//!
//! `shuffle`:
//! - [`shuffle`]: one worker against plain copies (`yeoul bench shuffle`), and the act of `yeoul demo`

#[cfg(feature = "sql")]
mod compare;
#[cfg(feature = "sql")]
mod contest;
#[cfg(feature = "sql")]
pub mod contestant;
#[cfg(feature = "sql")]
mod error;
#[cfg(feature = "sql")]
pub mod generate;
#[cfg(feature = "sql")]
mod report;
#[cfg(feature = "shuffle")]
pub mod shuffle;
#[cfg(feature = "sql")]
pub mod tpc;

#[cfg(feature = "sql")]
pub use contest::CONTESTANT_VERB;
#[cfg(feature = "sql")]
pub use error::{Error, Result};
