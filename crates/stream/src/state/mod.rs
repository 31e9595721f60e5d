//! State of operators: values by key, in buckets of time, so that what is over goes at once.
//!
//! - [`StateTable`]: what an operator asks of a provider; its unit is a batch of [`Keys`]
//! - [`StateRows`], [`Version`], [`StoredVersion`]: state on its way to a checkpoint and back
//! - [`MemoryTable`]: the provider `memory`: columns in memory
//! - [`MemoryShare`]: the memory that state may grow into

mod keys;
mod layout;
mod memory;
mod memory_share;
mod rows;
mod table;

#[cfg(test)]
mod contract;

pub use keys::{Bucket, KeyHash, Keys, VIRTUAL_PARTITIONS, VirtualPartition};
pub use layout::Layout;
pub use memory::MemoryTable;
pub use memory_share::MemoryShare;
pub use rows::StateRows;
pub use table::{Found, FoundRows, StateTable, StateUsage, StoredVersion, Version, VersionKind};
