use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode, SortMergeJoinExec};

use crate::rewrite::TreeWalk;

/// Joins by hashing where floats are keys: DataFusion's merge of sorted sides panics at a NaN.
#[derive(Debug)]
pub(super) struct FloatMerges;

impl PhysicalOptimizerRule for FloatMerges {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.rewrite_up(&mut |node| {
            let Some(join) = node.downcast_ref::<SortMergeJoinExec>() else {
                return Ok(Transformed::no(node));
            };
            let schema = join.left().schema();
            let mut is_of_floats = false;
            for (left, _) in join.on() {
                is_of_floats |= left.data_type(&schema)?.is_floating();
            }
            if !is_of_floats {
                return Ok(Transformed::no(node));
            }
            let join = HashJoinExec::try_new(
                Arc::clone(join.left()),
                Arc::clone(join.right()),
                join.on().to_vec(),
                join.filter().clone(),
                &join.join_type(),
                None,
                PartitionMode::Partitioned,
                join.null_equality(),
                false,
            )?;
            Ok(Transformed::yes(Arc::new(join) as _))
        });
        plan.data()
    }

    fn name(&self) -> &str {
        "FloatMerges"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
