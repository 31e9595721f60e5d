//! Contestants: processes that answer the same queries on the same files, and are measured meanwhile.
//!
//! Each uses the small protocol of [`protocol`] on its stdin and stdout. Ours is a verb of this binary; the peers are short
//! Python programs (`crates/bench/peers/`) in environments of their own. Streams have a protocol of their own
//! (`stream::spark`), with the same environments and processes.

pub(crate) mod java;
pub(crate) mod line_process;
#[cfg(feature = "stream")]
pub(crate) mod maven;
#[cfg(feature = "sql")]
mod peers;
#[cfg(feature = "sql")]
pub(crate) mod process;
#[cfg(feature = "sql")]
pub mod protocol;
pub(crate) mod venv;

#[cfg(feature = "cluster")]
pub(crate) use peers::own_program;
#[cfg(feature = "sql")]
pub use peers::{CONTESTANT_VERB, Peer};
