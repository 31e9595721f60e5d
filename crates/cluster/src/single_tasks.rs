//! Operators that only one process can run: tasks share nothing, and know what messages say.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use yeoul_base::ErrorKind;
use yeoul_dialect::Error;

/// Refuses such operators.
///
/// # Errors
/// `Invalid` for a recursive query, whose rounds share a table.
pub(crate) fn check(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    match plan.exists(|node| Ok(node.is::<RecursiveQueryExec>()))? {
        true => Err(refused("WITH RECURSIVE cannot run on a cluster")),
        false => Ok(()),
    }
}

/// Refuses a query with what DataFusion's messages lose, and its plans do not tell: the filter of an aggregate with `OVER`.
///
/// # Errors
/// `Invalid` for one.
pub(crate) fn check_query(query: &LogicalPlan) -> Result<()> {
    let is_filtered =
        |expr: &Expr| matches!(expr, Expr::WindowFunction(window) if window.params.filter.is_some());
    query.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| match expr.exists(|expr| Ok(is_filtered(expr)))? {
            true => Err(refused("FILTER of an aggregate with OVER cannot run on a cluster")),
            false => Ok(TreeNodeRecursion::Continue),
        })
    })?;
    Ok(())
}

fn refused(what: &str) -> DataFusionError {
    Error::new(ErrorKind::Invalid, what).with_hint("yeoul sql without --cluster runs it").into()
}
