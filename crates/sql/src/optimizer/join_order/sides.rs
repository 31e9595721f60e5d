//! The sides of single joins.
//!
//! DataFusion's `join_selection` keeps the sides of a join if it has no statistics of one, such as of an aggregate of a shared subplan.

use std::sync::Arc;
use std::time::Instant;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::build::{HashTable, partition_mode};
use crate::optimizer::estimates::of_plan;

/// The fewest rows of a side held in memory whose place another takes, and how many times fewer rows that has.
const HELD_ROWS_MIN: f64 = 100_000.0;
const LARGER: f64 = 8.0;

/// The plan whose joins hold the side in memory that has far fewer rows, for as many joins as there is time for.
pub(super) fn with_small_sides(
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
    deadline: Instant,
) -> Result<Arc<dyn ExecutionPlan>> {
    let exchanged = |plan: Arc<dyn ExecutionPlan>| {
        if Instant::now() > deadline {
            return Ok(Transformed::no(plan));
        }
        Ok(match exchanged(&plan, config)? {
            Some(exchanged) => Transformed::yes(exchanged),
            None => Transformed::no(plan),
        })
    };
    plan.transform_up(exchanged).data()
}

/// A join with its sides exchanged; `None` if they stay.
fn exchanged(
    plan: &Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if plan.fetch().is_some() || plan.boundedness().is_unbounded() {
        return Ok(None);
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        if !join.join_type().supports_swap() || join.null_aware {
            return Ok(None);
        }
        let Some((table, lookups)) = misplaced(join.left(), join.right()) else { return Ok(None) };
        let table = HashTable { rows: table, schema: &join.right().schema(), lookups };
        return join.swap_inputs(partition_mode(config, &table)).map(Some);
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        let is_misplaced = join.join_type().supports_swap() && misplaced(join.left(), join.right()).is_some();
        return is_misplaced.then(|| join.swap_inputs()).transpose();
    }
    if let Some(join) = plan.downcast_ref::<CrossJoinExec>() {
        return misplaced(join.left(), join.right()).map(|_| join.swap_inputs()).transpose();
    }
    Ok(None)
}

/// The rows of the right side and of the left if the left one, which is kept in memory, has far more.
fn misplaced(left: &Arc<dyn ExecutionPlan>, right: &Arc<dyn ExecutionPlan>) -> Option<(f64, f64)> {
    let (left, right) = (of_plan(left)?.rows, of_plan(right)?.rows);
    (left >= HELD_ROWS_MIN && left >= LARGER * right).then_some((right, left))
}
