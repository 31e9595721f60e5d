use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::rewrite::rewrite_plan;
use crate::time::interval_part::IntervalPart;
use crate::time::time_casts::TimeCast;

/// Puts our casts of times, and our `extract` from intervals, in the place of Arrow's.
#[derive(Debug)]
pub(crate) struct TimeValues;

impl AnalyzerRule for TimeValues {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_plan(plan, &|expr, columns| match expr {
            Expr::Cast(cast) => {
                let ours = TimeCast::between(&cast.expr.get_type(columns)?, cast.field.data_type(), false);
                Ok(match ours {
                    Some(ours) => Transformed::yes(ours.call(*cast.expr)),
                    None => Transformed::no(Expr::Cast(cast)),
                })
            }
            Expr::TryCast(cast) => {
                let ours = TimeCast::between(&cast.expr.get_type(columns)?, cast.field.data_type(), true);
                Ok(match ours {
                    Some(ours) => Transformed::yes(ours.call(*cast.expr)),
                    None => Transformed::no(Expr::TryCast(cast)),
                })
            }
            other => match part_of_interval(&other, columns)? {
                Some(part) => Ok(Transformed::yes(part)),
                None => Ok(Transformed::no(other)),
            },
        })
    }

    fn name(&self) -> &str {
        "time_values"
    }
}

/// Our function in the place of a `date_part` of an interval or duration.
fn part_of_interval(expr: &Expr, columns: &DFSchema) -> Result<Option<Expr>> {
    let Expr::ScalarFunction(call) = expr else { return Ok(None) };
    let ("date_part", [part, of]) = (call.func.name(), call.args.as_slice()) else { return Ok(None) };
    if !matches!(of.get_type(columns)?, DataType::Interval(_) | DataType::Duration(_)) {
        return Ok(None);
    }
    let Some(Some(part)) = part.as_literal().and_then(|part| part.try_as_str()) else { return Ok(None) };
    Ok(Some(IntervalPart::named(part)?.call(of.clone())))
}
