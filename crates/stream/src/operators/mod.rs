//! What is done with rows. Operators push: each takes a batch and gives what comes of it.
//!
//! - [`Operators`]: a query's operators in their order; rows go in, and now and then a batch of Spark's ends
//! - [`Calc`]: filters and projections; [`WindowAssigner`]: windows of a row; [`Aggregate`]: groups, in a table of state
//! - [`Watermark`]: which rows are late and which windows are over

mod accumulation;
mod aggregate;
mod calc;
mod chain;
mod watermark;
mod window_assigner;

pub use aggregate::{Aggregate, AggregateCounts};
pub use calc::Calc;
pub use chain::Operators;
pub use watermark::{Ended, Watermark};
pub use window_assigner::WindowAssigner;
