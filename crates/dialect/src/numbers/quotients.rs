use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::decimal_arithmetic::DecimalArithmetic;
use super::decimal_type::DecimalType;

/// Plans `/` of decimals, and `*` where it would have too many digits, as [`DecimalArithmetic`], so that their types are right from
/// the start.
#[derive(Debug)]
pub(crate) struct ExactQuotients;

impl ExprPlanner for ExactQuotients {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let operator = match raw.op {
            BinaryOperator::Divide => Operator::Divide,
            BinaryOperator::Multiply => Operator::Multiply,
            _ => return Ok(PlannerResult::Original(raw)),
        };
        // The type of a placeholder is not known yet; `optimizer/exact_numbers` comes upon it later.
        let kinds = raw.left.get_type(schema).and_then(|left| Ok((left, raw.right.get_type(schema)?)));
        let Ok((left, right)) = kinds else { return Ok(PlannerResult::Original(raw)) };
        if DecimalType::of(&left).or(DecimalType::of(&right)).is_none() {
            return Ok(PlannerResult::Original(raw));
        }
        let [left, right] = [(raw.left.clone(), &left, &right), (raw.right.clone(), &right, &left)]
            .map(|(expr, kind, other)| shortest_decimal(expr, kind, other));
        Ok(match DecimalArithmetic::in_place_of(operator, &left, &right, schema) {
            Some(exact) => PlannerResult::Planned(exact.call(left, right)),
            None => PlannerResult::Original(raw),
        })
    }
}

/// An integer that is written beside a decimal, as a decimal of no more digits than it has, as in Spark: a column of integers has as
/// many as its type allows, and each costs the quotient one.
fn shortest_decimal(expr: Expr, kind: &DataType, other: &DataType) -> Expr {
    let literal = match &expr {
        // An INT of Spark's, as it is written.
        Expr::Cast(cast) if cast.field.data_type() == &DataType::Int32 => cast.expr.as_ref(),
        expr => expr,
    };
    let value = match literal {
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => i128::from(*value),
        Expr::Literal(ScalarValue::UInt64(Some(value)), _) => i128::from(*value),
        _ => return expr,
    };
    if !kind.is_integer() || DecimalType::of(other).is_none() {
        return expr;
    }
    let digits = value.unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
    let name = expr.schema_name().to_string();
    Expr::Literal(ScalarValue::Decimal128(Some(value), digits as u8, 0), None).alias(name)
}
