//! Rules over DataFusion's plans.
//!
//! - [`fenced_limits`]: what operators tell scans stays above the limits between them;
//! - [`late_materialization`]: scans that a join filters may filter before they decode;
//! - [`not_in`]: `NOT IN` with subqueries that give nulls;
//! - [`null_equal_joins`]: joins of which nulls are equal stay as they are;
//! - [`parts_apart`]: rules that look only at the part of a plan that they understand;
//! - [`spilling_joins`]: hash joins become joins that spill, when memory has run out once;
//! - [`unbounded_floats`]: Parquet's ranges of floats, which leave out NaN, skip nothing.

pub(crate) mod fenced_limits;
pub(crate) mod late_materialization;
pub(crate) mod not_in;
pub(crate) mod null_equal_joins;
pub(crate) mod parts_apart;
pub(crate) mod spilling_joins;
pub(crate) mod unbounded_floats;
