use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;

use crate::operators::round_limit::RoundLimitExec;

/// The most rounds of a recursive query: some ten seconds of one that finds a row a round.
const ROUNDS_MAX: u64 = 100_000;

/// Stops recursive queries that never end.
#[derive(Debug)]
pub(super) struct RoundLimits;

impl PhysicalOptimizerRule for RoundLimits {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(query) = node.downcast_ref::<RecursiveQueryExec>() else {
                return Ok(Transformed::no(node));
            };
            let term = RoundLimitExec::new(Arc::clone(query.recursive_term()), query.name(), ROUNDS_MAX);
            let terms = vec![Arc::clone(query.static_term()), Arc::new(term)];
            let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Ok(Transformed::yes(Arc::clone(&node).replace_children(terms, recompute)?))
        })
        .data()
    }

    fn name(&self) -> &str {
        "RoundLimits"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
