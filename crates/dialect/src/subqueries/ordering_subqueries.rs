use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use datafusion::optimizer::AnalyzerRule;

use super::shape::has_subquery;
use crate::rewrite::{PlanWalk, TreeWalk, columns_of, map_expressions};

/// Computes what an aggregate orders by before the aggregate, if a subquery is in it: `string_agg(c, '-' ORDER BY n + (SELECT 1))`.
///
/// DataFusion has the text of such an expression in the type of the aggregate's state, and the text of a subquery changes once its value
/// is known: the two halves of the aggregate do not fit each other.
#[derive(Debug)]
pub(crate) struct OrderingSubqueries;

/// Begins the name of an expression that is ordered by; its number follows. The columns are gone above the aggregate.
const KEY: &str = "__order_";

impl AnalyzerRule for OrderingSubqueries {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.rewrite_up_with_subqueries(&mut with_keys_below).data()
    }

    fn name(&self) -> &str {
        "ordering_subqueries"
    }
}

fn with_keys_below(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !matches!(node, LogicalPlan::Aggregate(_)) {
        return Ok(Transformed::no(node));
    }
    let mut keys = Vec::new();
    let node = map_expressions(node, &mut |expr| {
        expr.rewrite_up(&mut |mut expr| {
            let Expr::AggregateFunction(call) = &mut expr else { return Ok(Transformed::no(expr)) };
            let before = keys.len();
            for sort in &mut call.params.order_by {
                if has_subquery(&sort.expr)? {
                    let name = format!("{KEY}{}", keys.len());
                    let column = Expr::Column(Column::new_unqualified(&name));
                    keys.push(std::mem::replace(&mut sort.expr, column).alias(name));
                }
            }
            Ok(Transformed::new_transformed(expr, keys.len() > before))
        })
    })?;
    let [input] = node.data.inputs()[..] else { return Ok(node) };
    if keys.is_empty() {
        return Ok(node);
    }
    let columns = columns_of(input).into_iter().chain(keys).collect();
    let below = Projection::try_new(columns, Arc::new(input.clone()))?;
    let node = node.data.with_new_exprs(node.data.expressions(), vec![LogicalPlan::Projection(below)])?;
    Ok(Transformed::yes(node))
}
