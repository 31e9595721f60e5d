use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use super::in_subqueries::gives_one_row;
use super::kept_names::map_expressions;
use crate::identity::Identity;

/// A subquery that stands for a value may be null: without a row it is.
///
/// DataFusion asks only whether its column may be (datafusion#24513, mended after 55.2). If not, it takes `IS NULL` for false and
/// `coalesce` for its first argument, and refuses an answer that has the null.
#[derive(Debug)]
pub(super) struct EmptySubqueries;

impl AnalyzerRule for EmptySubqueries {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut has_any = false;
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                has_any |= expr.exists(|expr| Ok(is_mistaken(expr)))?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        if !has_any {
            return Ok(plan);
        }
        let plan = plan.transform_up_with_subqueries(|node| {
            let node = map_expressions(node, |expr| {
                expr.transform_up(|expr| {
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

/// Whether it is a subquery that may have no row, and of which DataFusion knows no null.
fn is_mistaken(expr: &Expr) -> bool {
    let Expr::ScalarSubquery(subquery) = expr else { return false };
    let may_be_null = subquery.subquery.schema().fields().first().is_none_or(|column| column.is_nullable());
    !may_be_null && !gives_one_row(&subquery.subquery)
}
