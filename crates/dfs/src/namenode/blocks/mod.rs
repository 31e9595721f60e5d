//! The blocks of files, and where their replicas are.
//!
//! What the journal keeps of a block is its number, stamp, length and whether these are final; where its replicas are is
//! learned from DataNodes and never kept. Blocks stand side by side in the pages of a table, each with the places of its
//! replicas; only one that is being written, or has a replica that is not what it is to be, has more beside.

mod block;
mod block_table;
mod coding;
mod lack;
mod places;
mod replica;

pub use block::{Block, Fit, Promise};
pub use block_table::{BlockTable, Reported};
pub use coding::Coding;
pub use lack::{Lack, LackCounts, LacksByForm};
pub use places::{Target, Unsettled};
pub use replica::{Replica, ReplicaState};
