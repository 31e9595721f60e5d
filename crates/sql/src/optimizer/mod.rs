//! Rules over DataFusion's plans.
//!
//! - [`fenced_limits`]: what operators tell scans stays above the limits between them;
//! - [`in_subqueries`]: `IN` with subqueries, of which nulls are neither true nor false;
//! - [`late_materialization`]: scans that a join filters may filter before they decode;
//! - [`null_equal_joins`]: joins of which nulls are equal stay as they are;
//! - [`parts_apart`]: rules that look only at the part of a plan that they understand;
//! - [`spilling_joins`]: hash joins become joins that spill, when memory has run out once.

pub(crate) mod fenced_limits;
pub(crate) mod in_subqueries;
pub(crate) mod late_materialization;
pub(crate) mod null_equal_joins;
pub(crate) mod parts_apart;
pub(crate) mod spilling_joins;
