//! Operators that DataFusion lacks.
//!
//! - [`grace_hash_join`]: a hash join that spills, and [`buckets`], the division of its input on disk;
//! - [`selective_parquet`]: a Parquet scan that filters before it decodes where a join keeps few rows.

mod buckets;
pub(crate) mod grace_hash_join;
pub(crate) mod selective_parquet;
