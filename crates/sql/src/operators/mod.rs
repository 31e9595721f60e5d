//! Operators that DataFusion lacks.
//!
//! - [`grace_hash_join`]: a hash join that spills, and [`buckets`], the division of its input on disk.

mod buckets;
pub(crate) mod grace_hash_join;
