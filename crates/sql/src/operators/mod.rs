//! Operators that DataFusion lacks.
//!
//! - [`batch_rows`]: batches of another size for the operators below;
//! - [`copy_claim`]: the memory of the copies that an operator makes, asked for before;
//! - [`filtered_parquet`]: a Parquet scan that asks conditions and filters of its rows, the best way that it measures;
//! - [`grace_hash_join`]: a hash join that spills, [`buckets`], the division of its input on disk, and [`lent_memory`], what
//!   it leaves to the join of a bucket;
//! - [`grouping_levels`]: grouping sets, each computed from a larger one;
//! - [`passing`]: operators that give the rows of their input as they are;
//! - [`recorded_keys`]: the keys of a join's build side, for scans of the other side;
//! - [`round_limit`]: stops a recursive query that never ends;
//! - [`shared_subplan`]: a subplan that is computed once and read at several places, and [`shared_rows`], the rows of a partition.

pub(crate) mod batch_rows;
mod buckets;
pub(crate) mod copy_claim;
pub(crate) mod filtered_parquet;
pub(crate) mod grace_hash_join;
pub(crate) mod grouping_levels;
mod lent_memory;
mod passing;
pub(crate) mod recorded_keys;
pub(crate) mod round_limit;
mod shared_rows;
pub(crate) mod shared_subplan;
