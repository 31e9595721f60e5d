use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{NullEquality, Result};
use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{Join, JoinType, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rule of DataFusion's that makes one join tree of several inner joins, left alone where a join of them has keys of
/// which nulls are equal (`IS NOT DISTINCT FROM`): it gives the nulls of the topmost one to all.
#[derive(Debug)]
pub(crate) struct NullEqualJoins(Rule);

impl NullEqualJoins {
    /// `state` with that rule so.
    pub(crate) fn add_to(state: SessionState) -> SessionState {
        let kept = |rule: &Rule| -> Rule {
            match rule.name() {
                "eliminate_cross_join" => Arc::new(Self(Arc::clone(rule))),
                _ => Arc::clone(rule),
            }
        };
        let rules = state.optimizers().iter().map(kept).collect();
        SessionStateBuilder::new_from_existing(state).with_optimizer_rules(rules).build()
    }
}

impl OptimizerRule for NullEqualJoins {
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut has_null_equal_join = false;
        plan.apply_with_subqueries(|node| {
            has_null_equal_join |= is_null_equal(node);
            Ok(if has_null_equal_join { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if has_null_equal_join { Ok(Transformed::no(plan)) } else { self.0.rewrite(plan, config) }
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

fn is_null_equal(node: &LogicalPlan) -> bool {
    let null_equality = NullEquality::NullEqualsNull;
    matches!(node, LogicalPlan::Join(Join { join_type: JoinType::Inner, null_equality: found, .. }) if *found == null_equality)
}
