use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;

use crate::operators::grace_hash_join::GraceHashJoinExec;

/// Joins are replaced before this rule, which gives each operator the order and partitions that it requires: it may
/// rely on the probe side's order, which a stock hash join keeps and ours does not.
const ARRANGES_INPUTS: &str = "EnsureRequirements";

/// Replaces each hash join with one that spills.
#[derive(Debug, Default)]
pub(crate) struct SpillingJoins;

impl SpillingJoins {
    /// `state` with this rule in its place.
    pub(crate) fn add_to(state: SessionState) -> SessionState {
        let mut rules = state.physical_optimizers().to_vec();
        let place = rules.iter().position(|rule| rule.name() == ARRANGES_INPUTS).unwrap_or(0);
        rules.insert(place, Arc::new(Self));
        SessionStateBuilder::new_from_existing(state).with_physical_optimizer_rules(rules).build()
    }
}

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

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    #[test]
    fn the_rule_stands_before_the_one_that_arranges_inputs() {
        let state = SpillingJoins::add_to(SessionContext::new().state());
        let names: Vec<&str> = state.physical_optimizers().iter().map(|rule| rule.name()).collect();
        let place = names.iter().position(|name| *name == "SpillingJoins").unwrap();
        assert_eq!(names[place + 1], ARRANGES_INPUTS, "{names:?}");
    }
}
