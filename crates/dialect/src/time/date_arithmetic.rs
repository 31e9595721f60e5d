use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::interval_products::IntervalProduct;

/// An interval times or by a number is an [`IntervalProduct`], which DataFusion has not.
///
/// A date and an interval are a timestamp, as in PostgreSQL and DuckDB: `DATE '2024-01-01' - INTERVAL '1 second'` is the last second of
/// 2023. DataFusion's is a date, which forgets the time of day.
#[derive(Debug)]
pub(crate) struct DateArithmetic;

impl ExprPlanner for DateArithmetic {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        columns: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        // What has no type yet, such as a parameter, is left to DataFusion.
        let kinds = (expr.left.get_type(columns), expr.right.get_type(columns));
        let is_date = |kind: &DataType| matches!(kind, DataType::Date32 | DataType::Date64);
        match (&expr.op, kinds) {
            (BinaryOperator::Plus | BinaryOperator::Minus, (Ok(date), Ok(DataType::Interval(_))))
                if is_date(&date) =>
            {
                expr.left = cast(expr.left, timestamp_for(&expr.right));
            }
            (BinaryOperator::Plus, (Ok(DataType::Interval(_)), Ok(date))) if is_date(&date) => {
                expr.right = cast(expr.right, timestamp_for(&expr.left));
            }
            (BinaryOperator::Plus | BinaryOperator::Minus, (Ok(time), Ok(DataType::Interval(_))))
                if let Some(finer) = finer(&time, &expr.right) =>
            {
                expr.left = cast(expr.left, finer);
            }
            (BinaryOperator::Plus, (Ok(DataType::Interval(_)), Ok(time)))
                if let Some(finer) = finer(&time, &expr.left) =>
            {
                expr.right = cast(expr.right, finer);
            }
            (op, (Ok(left), Ok(right))) => {
                let product =
                    IntervalProduct::of(op, (expr.left.clone(), &left), (expr.right.clone(), &right));
                if let Some(product) = product {
                    return Ok(PlannerResult::Planned(product));
                }
            }
            _ => {}
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// The type of the sum: of microseconds, which reach as far as dates do, unless the interval is known to have nanoseconds.
fn timestamp_for(interval: &Expr) -> DataType {
    DataType::Timestamp(unit_for(nanoseconds(interval)), None)
}

/// The type of a timestamp in which the digits of an interval are not lost, if it is not its own.
fn finer(time: &DataType, interval: &Expr) -> Option<DataType> {
    let DataType::Timestamp(unit, zone) = time else { return None };
    let nanoseconds = nanoseconds(interval);
    let in_one = match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    (nanoseconds % in_one != 0).then(|| DataType::Timestamp(unit_for(nanoseconds), zone.clone()))
}

fn unit_for(nanoseconds: i64) -> TimeUnit {
    if nanoseconds % 1000 == 0 { TimeUnit::Microsecond } else { TimeUnit::Nanosecond }
}

/// The time of day of an interval that is written out.
fn nanoseconds(interval: &Expr) -> i64 {
    match interval {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _) => interval.nanoseconds,
        _ => 0,
    }
}
