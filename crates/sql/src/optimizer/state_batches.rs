use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};

use crate::memory::growing_state::GrowingState;
use crate::operators::batch_rows::BatchRowsExec;

/// How many rows a batch has that are states of groups, each of which may be a list of all the rows of its group. Batches of the usual
/// size, 8192 rows, would be the whole table where groups are few and large.
const ROWS: usize = 64;

/// Lets aggregates whose state grows with the rows hand on, spill and merge the states of their groups in small batches. What they read
/// still comes in batches of the usual size.
///
/// DataFusion's aggregates merge what they spilled into batches of so many rows, whatever these weigh.
#[derive(Debug)]
pub(crate) struct StateBatches;

impl PhysicalOptimizerRule for StateBatches {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let usual: usize = config.execution.batch_size.into();
        if usual <= ROWS {
            return Ok(plan);
        }
        let plan = plan.transform_up(|node| {
            let Some(aggregate) = node.downcast_ref::<AggregateExec>() else {
                return Ok(Transformed::no(node));
            };
            if !keeps_states(aggregate) {
                return Ok(Transformed::no(node));
            }
            let reads_states = matches!(
                aggregate.mode(),
                AggregateMode::Final | AggregateMode::FinalPartitioned | AggregateMode::PartialReduce
            );
            let aggregate = if reads_states {
                node
            } else {
                let input = BatchRowsExec::new(Arc::clone(aggregate.input()), usual);
                let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                Arc::clone(&node).replace_children(vec![Arc::new(input)], recompute)?
            };
            Ok(Transformed::yes(Arc::new(BatchRowsExec::new(aggregate, ROWS)) as Arc<dyn ExecutionPlan>))
        });
        plan.data()
    }

    fn name(&self) -> &str {
        "StateBatches"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether an aggregate has groups, and something of every row for each.
fn keeps_states(aggregate: &AggregateExec) -> bool {
    !aggregate.group_expr().is_empty()
        && aggregate.aggr_expr().iter().any(|call| GrowingState::is_called_by(call))
}
