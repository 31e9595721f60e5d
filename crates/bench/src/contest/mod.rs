//! Contestants: processes that answer the same queries on the same files, and are measured meanwhile.
//!
//! Each uses the small protocol of [`protocol`] on its stdin and stdout. Ours is a verb of this binary; the peers are short
//! Python programs (`crates/bench/peers/`) in environments of their own.

mod peers;
pub(crate) mod process;
pub mod protocol;
pub(crate) mod venv;

pub use peers::{CONTESTANT_VERB, Peer};
