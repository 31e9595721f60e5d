use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;

use crate::rewrite::{PlanWalk, TreeWalk, columns_below, map_expressions};
use crate::types::Identity;

/// Keeps the third value of conditions that DataFusion simplifies to two (datafusion#24379).
///
/// `r IN ('a') AND r IN ('b')` is false to it for every `r`, `r NOT IN ('a') OR r NOT IN ('b')` is true, and `r ~ '.*'` is
/// `r IS NOT NULL`; for a null they are null. To a filter that is as good as false, but not behind a `NOT`, nor as a value.
#[derive(Debug)]
pub(super) struct ThreeValues;

impl AnalyzerRule for ThreeValues {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.rewrite_up_with_subqueries(&mut |node| {
            let columns = columns_below(&node);
            let is_filter = matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
            map_expressions(node, &mut |expr| {
                if is_filter { within_filter(expr, &columns) } else { within_value(expr, &columns) }
            })
        });
        plan.data()
    }

    fn name(&self) -> &str {
        "three_values"
    }
}

/// A condition whose null counts as false, as that of one that it is part of by `AND` or `OR` does.
fn within_filter(expr: Expr, columns: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let (left, right) = (within_filter(*left, columns)?, within_filter(*right, columns)?);
            let is_changed = left.transformed || right.transformed;
            let (left, right) = (Box::new(left.data), Box::new(right.data));
            Ok(Transformed::new_transformed(Expr::BinaryExpr(BinaryExpr { left, op, right }), is_changed))
        }
        other => within_value(other, columns),
    }
}

fn within_value(expr: Expr, columns: &DFSchema) -> Result<Transformed<Expr>> {
    expr.rewrite_up(&mut |mut expr| {
        let is_changed = match &mut expr {
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
                match (listed(left), listed(right)) {
                    (Some((value, is_not)), Some((other, other_is_not))) if value == other => {
                        let loses_null = match op {
                            Operator::And => !(is_not && other_is_not),
                            _ => is_not && other_is_not,
                        };
                        let value = value.clone();
                        loses_null && value.nullable(columns).unwrap_or(true) && hide(right, &value)?
                    }
                    _ => false,
                }
            }
            Expr::BinaryExpr(BinaryExpr {
                op: Operator::RegexMatch | Operator::RegexIMatch, right, ..
            }) => match_all_alike(right),
            Expr::ScalarFunction(call) if call.func.name() == "regexp_like" => {
                call.args.get_mut(1).is_some_and(match_all_alike)
            }
            _ => false,
        };
        Ok(Transformed::new_transformed(expr, is_changed))
    })
}

/// Makes the pattern `.*` an empty one, which matches as much, and a null of a null.
fn match_all_alike(pattern: &mut Expr) -> bool {
    match pattern {
        Expr::Literal(
            ScalarValue::Utf8(Some(text))
            | ScalarValue::Utf8View(Some(text))
            | ScalarValue::LargeUtf8(Some(text)),
            _,
        ) if text == ".*" => {
            text.clear();
            true
        }
        _ => false,
    }
}

/// The value that a condition compares with constants, as DataFusion makes `[NOT] IN` of it, and whether by `NOT IN`.
fn listed(condition: &Expr) -> Option<(&Expr, bool)> {
    match condition {
        Expr::InList(InList { expr, negated, .. }) => Some((expr, *negated)),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::Eq | Operator::NotEq => {
                let value = if matches!(**left, Expr::Literal(..)) { right } else { left };
                Some((value, *op == Operator::NotEq))
            }
            Operator::And | Operator::Or => {
                let ((value, is_not), other) = (listed(left)?, listed(right)?);
                let is_list = is_not == (*op == Operator::And);
                (is_list && other == (value, is_not)).then_some((value, is_not))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Hides a value in a condition, so that it is another one to DataFusion.
fn hide(condition: &mut Expr, value: &Expr) -> Result<bool> {
    let hidden = std::mem::take(condition).rewrite_down(&mut |expr| {
        if expr == *value {
            let hidden = Identity::Alone.call(expr);
            return Ok(Transformed::new(hidden, true, TreeNodeRecursion::Jump));
        }
        Ok(Transformed::no(expr))
    })?;
    *condition = hidden.data;
    Ok(hidden.transformed)
}
