//! The provider `memory`: columns in memory, a set of them for each span of time.

mod bucket;
mod chains;
mod column;
mod table;

pub use table::MemoryTable;
