//! Operators that only one process can run: tasks share nothing, and know what messages say.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, JoinType, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use yeoul_base::ErrorKind;
use yeoul_dialect::Error;
use yeoul_dialect::sent::is_outer_side;

/// Refuses such operators.
///
/// The partitions of a join by nested loops share which rows of the left side have met one of the right. In several tasks, each would give
/// those that have met none of its own. A merge of the right side's partitions does not help: Ballista takes it out again.
///
/// # Errors
/// `Invalid` for an outer join or `EXISTS` without an equality, and for a recursive query, whose rounds share a table.
pub(crate) fn check(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    plan.apply(|node| {
        let what = match node.downcast_ref::<NestedLoopJoinExec>() {
            Some(join) if gives_left(*join.join_type()) && !is_one_row(join.right()) => {
                "an outer join, IN or EXISTS whose condition has no equality cannot run on a cluster"
            }
            _ if node.is::<RecursiveQueryExec>() => "WITH RECURSIVE cannot run on a cluster",
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        Err(refused(what))
    })?;
    Ok(())
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

/// True of a join that gives rows of its left side for having met one of the right, or none.
fn gives_left(kind: JoinType) -> bool {
    match kind {
        JoinType::Left | JoinType::Full | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
            true
        }
        JoinType::Inner
        | JoinType::Right
        | JoinType::RightSemi
        | JoinType::RightAnti
        | JoinType::RightMark => false,
    }
}

/// True of a plan that has one row at most, and therefore one partition however it is divided: a grand total, or a row of constants.
fn is_one_row(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if plan.output_partitioning().partition_count() != 1 {
        return false;
    }
    if plan.is::<ProjectionExec>() || plan.is::<FilterExec>() || is_outer_side(plan.as_ref()) {
        return plan.children().into_iter().all(is_one_row);
    }
    let is_total = plan.downcast_ref::<AggregateExec>().is_some_and(|total| total.group_expr().is_empty());
    is_total || plan.is::<PlaceholderRowExec>()
}
