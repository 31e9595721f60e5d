//! Rules that give expressions the meaning that SQL has, once their types are known. [`add_to`] is the table of them, in their order.
//!
//! - [`dates_as_timestamps`]: dates compared with timestamps;
//! - [`interval_frames`]: windows ordered by an interval;
//! - [`interval_order`]: intervals compared, sorted and grouped by their length;
//! - [`list_casts`]: refuses to make a list of one value of what is none;
//! - [`patterns`]: refuses patterns of `to_char` that are those of another system;
//! - [`time_values`]: casts of times, and the parts of intervals.

mod dates_as_timestamps;
mod interval_frames;
mod interval_order;
mod list_casts;
mod patterns;
mod time_values;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::optimizer::kept_names::map_expressions;

/// `state` with these rules: the first before DataFusion adds casts of its own, the others behind all.
pub(crate) fn add_to(state: SessionState) -> SessionState {
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![
        Arc::new(list_casts::ListCasts),
        Arc::new(dates_as_timestamps::DatesAsTimestamps),
        Arc::new(interval_frames::IntervalFrames),
    ];
    rules.extend(state.analyzer().rules.iter().cloned());
    rules.push(Arc::new(patterns::Patterns));
    rules.push(Arc::new(time_values::TimeValues));
    rules.push(Arc::new(interval_order::IntervalOrder));
    SessionStateBuilder::new_from_existing(state).with_analyzer_rules(rules).build()
}

/// The columns that the expressions of a node are about.
fn columns_below(node: &LogicalPlan) -> DFSchema {
    match node {
        LogicalPlan::TableScan(scan) => scan.projected_schema.as_ref().clone(),
        other => merge_schema(&other.inputs()),
    }
}

/// Rewrites each expression of a node, from the innermost outwards; its columns keep their names.
fn rewrite_expressions(
    node: LogicalPlan,
    rewrite: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let columns = columns_below(&node);
    map_expressions(node, |expr| expr.transform_up(|expr| rewrite(expr, &columns)))
}

/// Rewrites each expression of a plan and its subqueries.
fn rewrite_plan(
    plan: LogicalPlan,
    rewrite: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| rewrite_expressions(node, &rewrite)).data()
}
