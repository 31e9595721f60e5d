use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::rewrite::rewrite_plan;
use crate::settings::System;
use crate::time::interval_part::IntervalPart;
use crate::time::time_casts::TimeCast;
use crate::types::spark_values::{Kind, SparkValue};

/// Puts our casts of times, our `extract` from intervals, and our texts of a list's times in the place of Arrow's.
#[derive(Debug)]
pub(crate) struct TimeValues;

impl AnalyzerRule for TimeValues {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let system = System::of(config);
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
            Expr::ScalarFunction(call) if call.func.name() == "array_to_string" => {
                texts_joined(call, columns)
            }
            other => match part_of_interval(&other, columns, system)? {
                Some(part) => Ok(Transformed::yes(part)),
                None => Ok(Transformed::no(other)),
            },
        })
    }

    fn name(&self) -> &str {
        "time_values"
    }
}

/// Elements of a list as the texts that they are by themselves.
fn texts_joined(mut call: ScalarFunction, columns: &DFSchema) -> Result<Transformed<Expr>> {
    let texts = DataType::new_list(DataType::Utf8, true);
    let cast = match call.args.first() {
        Some(list) => TimeCast::between(&list.get_type(columns)?, &texts, false),
        None => None,
    };
    let Some(cast) = cast else { return Ok(Transformed::no(Expr::ScalarFunction(call))) };
    let list = call.args.remove(0);
    call.args.insert(0, cast.call(list));
    Ok(Transformed::yes(Expr::ScalarFunction(call)))
}

/// Our function in the place of a `date_part` of an interval or duration.
fn part_of_interval(expr: &Expr, columns: &DFSchema, system: System) -> Result<Option<Expr>> {
    let Expr::ScalarFunction(call) = expr else { return Ok(None) };
    let ("date_part", [part, of]) = (call.func.name(), call.args.as_slice()) else { return Ok(None) };
    if !matches!(of.get_type(columns)?, DataType::Interval(_) | DataType::Duration(_)) {
        return Ok(None);
    }
    let Some(Some(part)) = part.as_literal().and_then(|part| part.try_as_str()) else { return Ok(None) };
    let of = match system {
        System::Own => of.clone(),
        // Its days have at most 24 hours.
        System::Spark => SparkValue::shared(Kind::WholeDays).call(vec![of.clone()]),
    };
    Ok(Some(IntervalPart::named(part)?.call(of)))
}
