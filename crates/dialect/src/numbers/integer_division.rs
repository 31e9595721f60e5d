//! `a DIV b` and `a // b` of integers: the quotient without its fraction, as `/` of integers is here.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{ExprSchemable, Operator, binary_expr};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use yeoul_base::ErrorKind;

use crate::Error;

/// Plans these operators. Of other numbers DuckDB has a quotient with its fraction, and Spark one without: they are refused.
#[derive(Debug)]
pub(crate) struct IntegerDivision;

impl ExprPlanner for IntegerDivision {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if !matches!(raw.op, BinaryOperator::DuckIntegerDivide | BinaryOperator::MyIntegerDivide) {
            return Ok(PlannerResult::Original(raw));
        }
        for side in [&raw.left, &raw.right] {
            let kind = side.get_type(schema)?;
            if !kind.is_integer() && kind != DataType::Null {
                let text = format!("not supported: {} of other numbers than integers", raw.op);
                return Err(Error::new(ErrorKind::Invalid, text)
                    .with_hint("write instead: trunc(a / b) for a number without a fraction, or a / b")
                    .into());
            }
        }
        Ok(PlannerResult::Planned(binary_expr(raw.left, Operator::Divide, raw.right)))
    }
}
