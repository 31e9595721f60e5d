//! State of operators: values by key, in buckets of time, so that what is over goes at once.
//!
//! - [`StateTable`]: what an operator asks of a provider; its unit is a batch of [`Keys`]
//! - [`StateRows`], [`Version`], [`StoredVersion`]: state on its way to a checkpoint and back
//! - [`VirtualPartition`], [`PartitionSet`]: keys in parts, of which each thread has its own; [`TablePart`], [`PartVersion`]
//! - [`MemoryTable`]: the provider `memory`: columns in memory
//! - [`MemoryShare`]: the memory that state may grow into

mod keys;
mod layout;
mod memory;
mod memory_share;
mod partition_set;
mod rows;
mod table;

#[cfg(test)]
mod contract;

pub use keys::{Bucket, KeyHash, Keys, VIRTUAL_PARTITIONS, VirtualPartition};
pub use layout::Layout;
pub use memory::MemoryTable;
pub use memory_share::MemoryShare;
pub use partition_set::PartitionSet;
pub use rows::StateRows;
pub use table::{
    Found, FoundRows, PartVersion, StateTable, StateUsage, StoredVersion, TablePart, Version, VersionKind,
};
