use crate::rewrite::TreeWalk;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawAggregateExpr, RawWindowExpr};

/// Names casts in the arguments of aggregates and window functions, so that `sum(a)` and `sum(CAST(a AS DOUBLE))` may stand in one
/// `SELECT`.
///
/// DataFusion tells columns apart by their names, and leaves casts out of them.
#[derive(Debug)]
pub(crate) struct CastNames;

impl ExprPlanner for CastNames {
    fn plan_aggregate(&self, mut call: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        call.args = all_named(call.args)?;
        call.filter = call.filter.map(|filter| named(*filter).map(Box::new)).transpose()?;
        call.order_by = sorts_named(call.order_by)?;
        Ok(PlannerResult::Original(call))
    }

    fn plan_window(&self, mut call: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        call.args = all_named(call.args)?;
        call.filter = call.filter.map(|filter| named(*filter).map(Box::new)).transpose()?;
        Ok(PlannerResult::Original(call))
    }
}

fn named(expr: Expr) -> Result<Expr> {
    let named = expr.rewrite_up(&mut |expr| {
        Ok(match expr {
            Expr::Cast(_) | Expr::TryCast(_) => {
                let name = expr.to_string();
                Transformed::yes(expr.alias(name))
            }
            other => Transformed::no(other),
        })
    });
    named.data()
}

fn all_named(exprs: Vec<Expr>) -> Result<Vec<Expr>> {
    exprs.into_iter().map(named).collect()
}

fn sorts_named(sorts: Vec<Sort>) -> Result<Vec<Sort>> {
    sorts.into_iter().map(|sort| Ok(Sort { expr: named(sort.expr)?, ..sort })).collect()
}
