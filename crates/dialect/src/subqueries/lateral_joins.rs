use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::rewrite::{LogicalRule, PlanWalk};

/// Keeps joins below a `JOIN LATERAL` until that is a join of its own.
///
/// DataFusion drops a side of an outer join of which no node above uses a column, where it does not matter how often a row is there. What
/// the right side of a `JOIN LATERAL` uses of the left one it does not count.
#[derive(Debug)]
pub(crate) struct LateralJoins(pub(crate) LogicalRule);

impl OptimizerRule for LateralJoins {
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if has_lateral(&plan)? { Ok(Transformed::no(plan)) } else { self.0.rewrite(plan, config) }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }
}

fn has_lateral(plan: &LogicalPlan) -> Result<bool> {
    let mut has_any = false;
    plan.each_with_subqueries(&mut |node| {
        has_any |= node.inputs().iter().any(|input| matches!(input, LogicalPlan::Subquery(_)));
        Ok(if has_any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(has_any)
}
