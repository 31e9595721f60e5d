use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::operators::grace_hash_join::GraceHashJoinExec;

/// The plan with joins that spill in the place of hash joins. It has no other order of rows than the new joins have, which is none.
///
/// # Errors
/// DataFusion's.
pub(crate) fn spilling(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    plan.transform_up(|node| match node.downcast_ref::<HashJoinExec>() {
        // A guard: `in_subqueries` leaves no null-aware anti join. A null anywhere decides the answer of such a one, which a bucket
        // cannot know. Nor can one be made of a left side that all partitions of the right one share.
        Some(join) if !join.null_aware && has_pairs(join) => {
            Ok(Transformed::yes(Arc::new(GraceHashJoinExec::try_new(join)?) as _))
        }
        _ => Ok(Transformed::no(node)),
    })
}

/// True of a join each of whose partitions has a part of the left side, or all of it.
fn has_pairs(join: &HashJoinExec) -> bool {
    join.left().output_partitioning().partition_count()
        == join.right().output_partitioning().partition_count()
}

/// Replaces each hash join with one that spills.
#[derive(Debug)]
pub(super) struct SpillingJoins;

impl PhysicalOptimizerRule for SpillingJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        spilling(plan).data()
    }

    fn name(&self) -> &str {
        "SpillingJoins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
