use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, LogicalPlan, lit};
use datafusion::optimizer::AnalyzerRule;

use crate::rewrite::{PlanWalk, rewrite_expressions};

/// Makes -0.0 the equal of 0.0 where rows are sorted by it and others, or are peers in a window.
///
/// They are equal, and one key of `GROUP BY`, but Arrow's order of floats has -0.0 first: `ORDER BY round(x), k` had the rows of -0.0
/// before those of 0.0, whatever their `k`. The last key of a sort stays as it is: nothing decides between its equals.
#[derive(Debug)]
pub(crate) struct FloatZeros;

impl AnalyzerRule for FloatZeros {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.rewrite_up_with_subqueries(&mut |node| {
            rewrite_expressions(node, &in_calls)?.transform_data(|node| match node {
                LogicalPlan::Sort(mut sort) => {
                    let is_changed = but_last(&mut sort.expr, sort.input.schema())?;
                    Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), is_changed))
                }
                LogicalPlan::Distinct(Distinct::On(mut distinct)) => {
                    let mut is_changed = all(&mut distinct.on_expr, distinct.input.schema())?;
                    // It begins with the same keys.
                    for sort in distinct.sort_expr.iter_mut().flatten() {
                        is_changed |= one(&mut sort.expr, distinct.input.schema())?;
                    }
                    Ok(Transformed::new_transformed(
                        LogicalPlan::Distinct(Distinct::On(distinct)),
                        is_changed,
                    ))
                }
                other => Ok(Transformed::no(other)),
            })
        });
        plan.data()
    }

    fn name(&self) -> &str {
        "float_zeros"
    }
}

/// The keys of windows and of aggregates with an order.
fn in_calls(mut expr: Expr, columns: &DFSchema) -> Result<Transformed<Expr>> {
    let is_changed = match &mut expr {
        Expr::WindowFunction(call) => {
            let mut is_changed = all(&mut call.params.partition_by, columns)?;
            for sort in &mut call.params.order_by {
                is_changed |= one(&mut sort.expr, columns)?;
            }
            is_changed
        }
        Expr::AggregateFunction(call) => but_last(&mut call.params.order_by, columns)?,
        _ => false,
    };
    Ok(Transformed::new_transformed(expr, is_changed))
}

fn but_last(sorts: &mut [Sort], columns: &DFSchema) -> Result<bool> {
    let Some((_, sorts)) = sorts.split_last_mut() else { return Ok(false) };
    let mut is_changed = false;
    for sort in sorts {
        is_changed |= one(&mut sort.expr, columns)?;
    }
    Ok(is_changed)
}

fn all(keys: &mut [Expr], columns: &DFSchema) -> Result<bool> {
    let mut is_changed = false;
    for key in keys {
        is_changed |= one(key, columns)?;
    }
    Ok(is_changed)
}

/// Adds 0.0 to a float, which makes one zero of both; true if it is a float.
fn one(key: &mut Expr, columns: &DFSchema) -> Result<bool> {
    let zero = match key.get_type(columns)? {
        DataType::Float32 => lit(0_f32),
        DataType::Float64 => lit(0_f64),
        _ => return Ok(false),
    };
    *key = std::mem::take(key) + zero;
    Ok(true)
}
