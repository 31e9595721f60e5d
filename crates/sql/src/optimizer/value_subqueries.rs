use std::sync::Arc;

use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::functions_aggregate::count::count_all;
use datafusion::logical_expr::expr::Exists;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Subquery, lit, scalar_subquery};

use super::correlated_subqueries::in_expressions;
use super::in_subqueries::three_valued;
use super::kept_names::{columns_of, map_expressions};

/// `IN`, `EXISTS`, `ANY` and `ALL` with subqueries as values, in `SELECT`, `GROUP BY`, aggregates and window functions.
///
/// DataFusion has joins for such a subquery in a filter only. Here it becomes a column that is computed below the node: of whether
/// the subquery's rows number more than none, which is a subquery of the kind that DataFusion joins anywhere.
pub(super) fn as_columns(node: LogicalPlan, names: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    let passes_rows_on = matches!(node, LogicalPlan::Window(_));
    if !(passes_rows_on || matches!(node, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_))) {
        return Ok(Transformed::no(node));
    }
    let mut values = Vec::new();
    let node = map_expressions(node, |expr| {
        expr.transform_down(|expr| {
            if !matches!(expr, Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_)) {
                return Ok(Transformed::no(expr));
            }
            let name = names.next("__value");
            values.push(expr.alias(name.clone()));
            Ok(Transformed::new(Expr::Column(Column::new_unqualified(name)), true, TreeNodeRecursion::Jump))
        })
    })?;
    let [input] = node.data.inputs()[..] else { return Ok(node) };
    if values.is_empty() {
        return Ok(node);
    }
    let outer = columns_of(&node.data);
    let columns = columns_of(input);
    let (values, input) = three_valued(values, input.clone(), names)?;
    let values = values.into_iter().map(counted).collect::<Result<Vec<_>>>()?;
    let input = LogicalPlanBuilder::from(input).project(columns.into_iter().chain(values))?.build()?;
    let input = in_expressions(input, names)?.data;
    let node = node.data.with_new_exprs(node.data.expressions(), vec![input])?;
    let node = LogicalPlanBuilder::from(node);
    Ok(Transformed::yes(if passes_rows_on { node.project(outer)?.build()? } else { node.build()? }))
}

/// `EXISTS` as a number of rows.
fn counted(expr: Expr) -> Result<Expr> {
    let counted = expr.transform_up(|expr| {
        let Expr::Exists(Exists { subquery: Subquery { subquery, outer_ref_columns, .. }, negated }) = expr
        else {
            return Ok(Transformed::no(expr));
        };
        let rows = LogicalPlanBuilder::new_from_arc(subquery);
        // One row is enough, but a limit would be one for all outer rows together.
        let rows = if outer_ref_columns.is_empty() { rows.limit(0, Some(1))? } else { rows };
        let count = scalar_subquery(Arc::new(rows.aggregate(Vec::<Expr>::new(), [count_all()])?.build()?));
        Ok(Transformed::yes(if negated { count.eq(lit(0_i64)) } else { count.gt(lit(0_i64)) }))
    });
    counted.data()
}
