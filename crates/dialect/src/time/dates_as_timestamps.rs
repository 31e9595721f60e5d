use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, LogicalPlan, cast};
use datafusion::optimizer::AnalyzerRule;

use crate::rewrite::rewrite_plan;

/// Compares a date and a timestamp in the unit of the timestamp. DataFusion would cast both to nanoseconds, in which dates before 1677
/// and after 2262 are an error.
#[derive(Debug)]
pub(crate) struct DatesAsTimestamps;

impl AnalyzerRule for DatesAsTimestamps {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_plan(plan, &|mut expr, columns| {
            let is_changed = match &mut expr {
                Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() => {
                    alike([left, right], columns)
                }
                Expr::Between(Between { expr: value, low, high, .. }) => alike([value, low, high], columns),
                _ => false,
            };
            Ok(Transformed::new_transformed(expr, is_changed))
        })
    }

    fn name(&self) -> &str {
        "dates_as_timestamps"
    }
}

/// Casts dates among operands to the type of the timestamps among them, if these are of one type without a zone. False if there are none.
fn alike<const N: usize>(operands: [&mut Box<Expr>; N], columns: &DFSchema) -> bool {
    let kinds = operands.each_ref().map(|operand| operand.get_type(columns).unwrap_or(DataType::Null));
    let Some(timestamp) = kinds.iter().find(|kind| matches!(kind, DataType::Timestamp(_, None))) else {
        return false;
    };
    let mut others = kinds.iter().filter(|kind| *kind != timestamp).peekable();
    if others.peek().is_none() || !others.all(|kind| *kind == DataType::Date32) {
        return false;
    }
    for (operand, kind) in operands.into_iter().zip(&kinds) {
        if kind != timestamp {
            *operand.as_mut() = cast(std::mem::take(operand.as_mut()), timestamp.clone());
        }
    }
    true
}
