//! What is done with rows. Operators push: each takes a batch and gives what comes of it.
//!
//! - [`Operators`]: a query's operators, a tree of them; rows go in, and now and then a batch of Spark's ends
//! - [`Calc`]: filters and projections; [`WindowAssigner`]: windows of a row
//! - [`Aggregate`], [`Deduplicate`], [`Join`], [`Keyed`]: what keeps state, in tables
//! - [`Lookup`]: rows with those of a table at rest
//! - [`Shard`]: a part of what keeps state, for a thread of its own; [`Exchange`]: the way of rows to shards and back
//! - [`ArrangedQuery`]: a query with its keys in the order of its state, and what tells that state apart
//! - [`Watermark`]: which rows are late and which are over

mod accumulation;
mod aggregate;
mod calc;
mod chain;
mod deduplicate;
mod division;
mod event_time;
mod exchange;
mod join;
mod keyed;
mod lookup;
mod node;
mod shard;
mod sharded;
mod state_identity;
mod watermark;
mod window_assigner;

pub use aggregate::Aggregate;
pub use calc::Calc;
pub use chain::{FailingRow, Operators, Prepared};
pub use deduplicate::Deduplicate;
pub use exchange::{Done, Exchange, FromShard, OpenBatch, StartShards, ToShard};
pub use join::Join;
pub use keyed::Keyed;
pub use lookup::Lookup;
pub use shard::Shard;
pub use state_identity::ArrangedQuery;
pub use watermark::{Reach, Watermark};
pub use window_assigner::WindowAssigner;

/// Counts of an operator with state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OperatorCounts {
    /// Keys that changed: groups once for each batch of rows.
    pub updated: u64,
    /// Keys that went.
    pub removed: u64,
    /// Rows that were late; of an aggregation its groups, once for each batch of rows.
    pub late: u64,
}
