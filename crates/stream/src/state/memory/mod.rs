//! The provider `memory`: columns in memory, a set of them for each bucket.

mod bucket;
mod column;
mod table;

pub use table::MemoryTable;
