//! Joins that give way: many rows of a join may come of one row of its input, and whoever takes all of them does not let go of its thread.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};

/// The plan whose joins give way after some batches, so that its task can be ended. DataFusion has only its sources do that.
///
/// # Errors
/// None but for a fault of ours.
pub(crate) fn yielding(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let yielding = plan.transform_up(|node| {
        let is_join = node.is::<NestedLoopJoinExec>()
            || node.is::<CrossJoinExec>()
            || node.is::<HashJoinExec>()
            || node.is::<SortMergeJoinExec>();
        Ok(match is_join {
            true => Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>),
            false => Transformed::no(node),
        })
    });
    yielding.data()
}
