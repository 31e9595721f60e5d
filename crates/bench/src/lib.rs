//! Data generators, workloads, the comparison with our peers, and what `yeoul demo` shows of a part.
//!
//! What every suite can use:
//! - [`findings`]: rates and times against a peer or a limit, as a table and as JSON
//!
//! With the feature `sql`:
//! - [`generate`]: the tables of TPC-H and TPC-DS as Parquet (`yeoul generate`)
//! - [`tpc`]: our engine and its peers on the queries of TPC-H and TPC-DS (`yeoul bench tpch|tpcds`)
//! - [`contestant`]: our own engine as a contestant (`yeoul bench-contestant`)
//! - `report`: cases, contestants and measurements as a table, as JSON and as a page
//! - `compare`: whether an answer equals the oracle's
//!
//! With the feature `sql` or `stream`:
//! - `contest`: contestants as processes: the protocol, the peers, their memory
//! - [`Error`]: what went wrong and what to do about it
//!
//! With the feature `shuffle`:
//! - [`shuffle`]: a worker against plain copies (`yeoul bench shuffle`), and a demo act with a worker that dies
//!
//! With the feature `dfs`:
//! - [`dfs`]: the memory of the servers (`yeoul bench dfs`), and a demo act with an erasure-coded file and DataNodes that die
//!
//! With the feature `stream`:
//! - [`stream`]: latency and CPU time from Kafka to Kafka against a bare loop and Spark (`yeoul bench stream`); a windowed count that is
//!   killed (`demo`)
//!
//! With the feature `codec`:
//! - [`codec`]: erasure codes against ISA-L and the memory (`yeoul bench codec`)

#[cfg(feature = "codec")]
pub mod codec;
#[cfg(feature = "sql")]
mod compare;
#[cfg(any(feature = "sql", feature = "stream"))]
mod contest;
#[cfg(feature = "sql")]
pub mod contestant;
#[cfg(feature = "dfs")]
pub mod dfs;
#[cfg(any(feature = "sql", feature = "stream"))]
mod error;
pub mod findings;
#[cfg(feature = "sql")]
pub mod generate;
#[cfg(feature = "sql")]
mod report;
#[cfg(feature = "shuffle")]
pub mod shuffle;
#[cfg(feature = "stream")]
pub mod stream;
#[cfg(feature = "sql")]
pub mod tpc;

#[cfg(feature = "sql")]
pub use contest::CONTESTANT_VERB;
#[cfg(any(feature = "sql", feature = "stream"))]
pub use error::{Error, Result};
