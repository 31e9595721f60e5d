use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, binary_expr};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::rewrite::{TreeWalk, map_expressions};
use crate::time::time_zone::is_utc;

/// Compares a date or timestamp with a literal of a finer unit in its own unit: `d <= DATE '1998-12-01' - INTERVAL '90 days'`, which is
/// a timestamp, as `d <= DATE '1998-09-02'`.
///
/// DataFusion casts the column instead. Then no range of a file can say that none of its rows is meant, and dates before 1677 and after
/// 2262 are an error, because the common type has nanoseconds.
#[derive(Debug)]
pub(crate) struct FinerLiterals;

impl OptimizerRule for FinerLiterals {
    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if matches!(plan, LogicalPlan::TableScan(_)) {
            return Ok(Transformed::no(plan));
        }
        let columns = merge_schema(&plan.inputs());
        map_expressions(plan, &mut |expr| {
            expr.rewrite_up(&mut |expr| match in_own_unit(&expr, &columns) {
                Some(own) => Ok(Transformed::yes(own)),
                None => Ok(Transformed::no(expr)),
            })
        })
    }

    fn name(&self) -> &str {
        "finer_literals"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }
}

/// The same comparison without a cast of the time that is not a literal.
fn in_own_unit(expr: &Expr, columns: &DFSchema) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    let (cast, op, literal) = match (left.as_ref(), right.as_ref()) {
        (Expr::Cast(cast), Expr::Literal(literal, _)) => (cast, *op, literal),
        (Expr::Literal(literal, _), Expr::Cast(cast)) => (cast, op.swap()?, literal),
        _ => return None,
    };
    let of = cast.expr.get_type(columns).ok()?;
    let (value, ratio) = (timestamp(literal)?, ratio(&of, &literal.data_type())?);
    let (whole, rest) = (value.div_euclid(ratio), value.rem_euclid(ratio));
    let op = match (op, rest) {
        (
            op @ (Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq),
            0,
        ) => op,
        // Between two values of the coarser unit.
        (Operator::Lt | Operator::LtEq, _) => Operator::LtEq,
        (Operator::Gt | Operator::GtEq, _) => Operator::Gt,
        _ => return None,
    };
    Some(binary_expr(cast.expr.as_ref().clone(), op, Expr::Literal(of_type(whole, &of)?, None)))
}

/// How many units of the finer type are one of the coarser. `None` if these are not two such types. A type without a zone counts as one in
/// UTC: a cast keeps the number.
fn ratio(coarse: &DataType, fine: &DataType) -> Option<i64> {
    let DataType::Timestamp(fine_unit, fine_zone) = fine else { return None };
    let per_second = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    match coarse {
        DataType::Date32 if fine_zone.as_deref().is_none_or(is_utc) => Some(86_400 * per_second(fine_unit)),
        DataType::Timestamp(unit, zone)
            if zone == fine_zone || (zone.is_none() && fine_zone.as_deref().is_some_and(is_utc)) =>
        {
            let ratio = per_second(fine_unit) / per_second(unit);
            (ratio > 1).then_some(ratio)
        }
        _ => None,
    }
}

fn timestamp(literal: &ScalarValue) -> Option<i64> {
    match literal {
        ScalarValue::TimestampSecond(value, _)
        | ScalarValue::TimestampMillisecond(value, _)
        | ScalarValue::TimestampMicrosecond(value, _)
        | ScalarValue::TimestampNanosecond(value, _) => *value,
        _ => None,
    }
}

fn of_type(value: i64, of: &DataType) -> Option<ScalarValue> {
    let zone = |zone: &Option<Arc<str>>| zone.clone();
    Some(match of {
        DataType::Date32 => ScalarValue::Date32(Some(i32::try_from(value).ok()?)),
        DataType::Timestamp(TimeUnit::Second, of) => ScalarValue::TimestampSecond(Some(value), zone(of)),
        DataType::Timestamp(TimeUnit::Millisecond, of) => {
            ScalarValue::TimestampMillisecond(Some(value), zone(of))
        }
        DataType::Timestamp(TimeUnit::Microsecond, of) => {
            ScalarValue::TimestampMicrosecond(Some(value), zone(of))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Field;
    use datafusion::logical_expr::{cast, col, lit};
    use std::collections::HashMap;

    use super::*;

    const DAY: i64 = 86_400_000_000;

    fn rewritten(op: Operator, microseconds: i64) -> Option<String> {
        let date = Field::new("d", DataType::Date32, true);
        let columns = DFSchema::from_unqualified_fields(vec![date].into(), HashMap::new()).unwrap();
        let fine = DataType::Timestamp(TimeUnit::Microsecond, None);
        let literal = lit(ScalarValue::TimestampMicrosecond(Some(microseconds), None));
        let swapped = binary_expr(literal.clone(), op.swap().unwrap(), cast(col("d"), fine.clone()));
        let straight = in_own_unit(&binary_expr(cast(col("d"), fine), op, literal), &columns);
        assert_eq!(straight, in_own_unit(&swapped, &columns));
        straight.map(|expr| expr.to_string())
    }

    #[test]
    fn a_date_is_compared_with_the_date_of_a_timestamp() {
        for (op, at, expected) in [
            (Operator::Lt, DAY, Some("d < Date32(\"1970-01-02\")")),
            (Operator::LtEq, DAY, Some("d <= Date32(\"1970-01-02\")")),
            (Operator::Eq, DAY, Some("d = Date32(\"1970-01-02\")")),
            (Operator::NotEq, DAY, Some("d != Date32(\"1970-01-02\")")),
            (Operator::Gt, DAY, Some("d > Date32(\"1970-01-02\")")),
            (Operator::Lt, DAY + 1, Some("d <= Date32(\"1970-01-02\")")),
            (Operator::LtEq, -1, Some("d <= Date32(\"1969-12-31\")")),
            (Operator::Gt, DAY + 1, Some("d > Date32(\"1970-01-02\")")),
            (Operator::GtEq, -1, Some("d > Date32(\"1969-12-31\")")),
            (Operator::Eq, DAY + 1, None),
        ] {
            assert_eq!(rewritten(op, at).as_deref(), expected, "{op} {at}");
        }
    }
}
