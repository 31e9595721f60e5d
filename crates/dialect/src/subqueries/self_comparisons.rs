//! An outer column that is compared with itself, which is true but for a null.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlan, Operator};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::rewrite::PlanWalk;
use crate::types::Identity;

/// Makes `x IS NOT NULL` of a condition `x = x` in a correlated subquery, where `x` has an outer column.
///
/// DataFusion's joins of subqueries leave out such a condition, as if it were always true (`find_join_exprs`). People write
/// `x IN (x)`, of which `simplify_expressions` makes it: so this is behind that rule, and before those that make the joins.
#[derive(Debug)]
pub(crate) struct SelfComparisons;

impl OptimizerRule for SelfComparisons {
    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        plan.rewrite_up_with_subqueries(&mut |node| match node {
            LogicalPlan::Filter(filter) if split_conjunction(&filter.predicate).into_iter().any(is_own) => {
                let conditions = split_conjunction_owned(filter.predicate).into_iter().map(of_own);
                let predicate = conjunction(conditions).unwrap_or_default();
                Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
            }
            other => Ok(Transformed::no(other)),
        })
    }

    fn name(&self) -> &str {
        "self_comparisons"
    }
}

/// Whether a condition compares a value of an outer column with itself.
fn is_own(condition: &Expr) -> bool {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            left == right && left.contains_outer()
        }
        _ => false,
    }
}

/// The condition that holds for the same rows and is no comparison of a value with itself.
fn of_own(condition: Expr) -> Expr {
    match condition {
        own if !is_own(&own) => own,
        // Each side is a value of its own, which may be another one.
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if left.is_volatile() => {
            Expr::BinaryExpr(BinaryExpr { left: Box::new(Identity::Alone.call(*left)), op, right })
        }
        Expr::BinaryExpr(BinaryExpr { left, .. }) => left.is_not_null(),
        other => other,
    }
}
