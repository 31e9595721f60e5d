//! The blocks of files, and where their replicas are.
//!
//! What the journal keeps of a block is its number, stamp, length and whether these are final; where its replicas are is
//! learned from DataNodes and never kept. Blocks stand behind a table of handles (their numbers), so that they can be packed
//! later.

mod block;
mod block_table;
mod lack;
mod replica;

pub use block::{Block, Fit};
pub use block_table::{BlockTable, Reported};
pub use lack::{Lack, LackCounts};
pub use replica::{Replica, ReplicaState};
