use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use super::shape::gives_one_row;
use crate::rewrite::{PlanWalk, TreeWalk, map_expressions};
use crate::types::identity::Identity;

/// A subquery that stands for a value may be null: without a row it is.
///
/// DataFusion asks only whether its column may be (datafusion#24513, mended after 55.2). If not, it takes `IS NULL` for false and
/// `coalesce` for its first argument, and refuses an answer that has the null. It asks again in each round of the optimizer, by when
/// `upper('a')`, which may be null, has become `'A'`: only a column that a table says may be null stays so.
#[derive(Debug)]
pub(crate) struct EmptySubqueries;

impl AnalyzerRule for EmptySubqueries {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut has_any = false;
        plan.each_with_subqueries(&mut |node| {
            node.each_expression(&mut |expr| {
                has_any |= expr.has_any(&mut |expr| Ok(is_mistaken(expr)))?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        if !has_any {
            return Ok(plan);
        }
        let plan = plan.rewrite_up_with_subqueries(&mut |node| {
            let node = map_expressions(node, &mut |expr| {
                expr.rewrite_up(&mut |expr| {
                    Ok(if is_mistaken(&expr) {
                        Transformed::yes(Identity::Nullable.call(expr))
                    } else {
                        Transformed::no(expr)
                    })
                })
            })?;
            // What stands above computes with it, and may be null too.
            node.map_data(LogicalPlan::recompute_schema)
        });
        plan.data()
    }

    fn name(&self) -> &str {
        "empty_subqueries"
    }
}

/// True if it is a subquery that may have no row, and of which DataFusion may know no null.
fn is_mistaken(expr: &Expr) -> bool {
    let Expr::ScalarSubquery(subquery) = expr else { return false };
    !stays_nullable(&subquery.subquery, 0) && !gives_one_row(&subquery.subquery)
}

/// True if a column of a plan is one of a table that may be null there.
fn stays_nullable(plan: &LogicalPlan, column: usize) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => {
            scan.projected_schema.fields().get(column).is_some_and(|field| field.is_nullable())
        }
        LogicalPlan::Projection(projection) => {
            let below = projection.expr.get(column).map(|expr| expr.clone().unalias());
            let Some(Expr::Column(below)) = below else { return false };
            let below = projection.input.schema().maybe_index_of_column(&below);
            below.is_some_and(|below| stays_nullable(&projection.input, below))
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Distinct(Distinct::All(_)) => stays_nullable(plan.inputs()[0], column),
        _ => false,
    }
}
