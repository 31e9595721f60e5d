//! Rules of DataFusion's that leave a join alone whose keys have equal nulls (`IS NOT DISTINCT FROM`), and to which they would
//! give other keys, whose nulls are not equal.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::rewrite::{LogicalRule, PlanWalk};

/// The rule that makes keys of the equalities in a join's filter: they stay there.
#[derive(Debug)]
pub(super) struct KeysOfOneJoin(pub(super) LogicalRule);

impl OptimizerRule for KeysOfOneJoin {
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if is_null_equal(&plan) { Ok(Transformed::no(plan)) } else { self.0.rewrite(plan, config) }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }
}

/// The rule that makes one tree of inner joins that stand upon each other: such a join is a tree of its own.
#[derive(Debug)]
pub(super) struct TreesOfJoins(pub(super) LogicalRule);

impl OptimizerRule for TreesOfJoins {
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let plan = plan.rewrite_up_with_subqueries(&mut |node| {
            if !is_null_equal(&node) || !is_inner(&node) {
                return Ok(Transformed::no(node));
            }
            let join = node.map_children(|input| {
                if is_inner(&input) { apart(input).map(Transformed::yes) } else { Ok(Transformed::no(input)) }
            });
            apart(join.data()?).map(Transformed::yes)
        })?;
        plan.transform_data(|plan| self.0.rewrite(plan, config))
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

/// A plan below a projection to all of its columns, beyond which the rule does not look for joins of the same tree. Another
/// one removes it.
fn apart(plan: LogicalPlan) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

fn is_null_equal(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Join(Join { on, null_equality: NullEquality::NullEqualsNull, .. }) if !on.is_empty())
}

fn is_inner(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Join(Join { join_type: JoinType::Inner, .. }))
}
