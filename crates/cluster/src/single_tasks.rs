//! Operators whose partitions share what they know, and therefore run in one task.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use yeoul_base::ErrorKind;
use yeoul_dialect::Error;

/// The plan with such operators in one task.
///
/// The partitions of a join by nested loops share which rows of the left side have met one of the right. In several tasks, each would
/// give those that have met none of its own.
///
/// # Errors
/// `Invalid` for a recursive query, whose rounds share a table.
pub(crate) fn in_single_tasks(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let single = plan.transform_up(|node| {
        if node.is::<RecursiveQueryExec>() {
            let error = Error::new(ErrorKind::Invalid, "WITH RECURSIVE cannot run on a cluster");
            return Err(error.with_hint("yeoul sql without --cluster runs it").into());
        }
        let gives_left =
            node.downcast_ref::<NestedLoopJoinExec>().is_some_and(|join| gives_left(*join.join_type()));
        if !gives_left {
            return Ok(Transformed::no(node));
        }
        let [left, right] = node.children()[..] else { return Ok(Transformed::no(node)) };
        if right.is::<CoalescePartitionsExec>() {
            return Ok(Transformed::no(node));
        }
        // Of one partition, too: a scan may be divided into more when its stage is made.
        let right: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(Arc::clone(right)));
        let left = Arc::clone(left);
        Ok(Transformed::yes(replace_children_if_necessary(node, vec![left, right])?))
    });
    single.data()
}

/// True of a join that gives rows of the left side for having met one of the right, or none.
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
