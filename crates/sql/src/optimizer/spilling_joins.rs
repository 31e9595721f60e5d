use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;

use crate::operators::grace_hash_join::GraceHashJoinExec;

/// Replaces each hash join with one that spills.
#[derive(Debug)]
pub(super) struct SpillingJoins;

impl PhysicalOptimizerRule for SpillingJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| match node.downcast_ref::<HashJoinExec>() {
            // A guard: `in_subqueries` leaves no null-aware anti join. A null anywhere decides the answer of such a one, which a bucket
            // cannot know.
            Some(join) if !join.null_aware => {
                Ok(Transformed::yes(Arc::new(GraceHashJoinExec::try_new(join)?) as _))
            }
            _ => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "SpillingJoins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
