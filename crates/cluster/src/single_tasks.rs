//! Operators whose partitions share what they know: tasks are other processes, and share nothing.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result};
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
    let hint = "yeoul sql without --cluster runs it";
    plan.apply(|node| {
        let what = match node.downcast_ref::<NestedLoopJoinExec>() {
            Some(join) if gives_left(*join.join_type()) && !is_one_row(join.right()) => {
                "an outer join, IN or EXISTS whose condition has no equality cannot run on a cluster"
            }
            _ if node.is::<RecursiveQueryExec>() => "WITH RECURSIVE cannot run on a cluster",
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        Err(Error::new(ErrorKind::Invalid, what).with_hint(hint).into())
    })?;
    Ok(())
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
