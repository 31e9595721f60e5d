//! `/` and `div` of Spark: a quotient of integers and floats is a DOUBLE, one of decimals a decimal, and `div` a BIGINT.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, Float64Array};
use datafusion::arrow::compute::try_binary;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::common::utils::take_function_args;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, binary_expr,
};
use datafusion::physical_expr_common::datum::apply;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use yeoul_base::ErrorKind;

use super::decimal_type::DecimalType;
use crate::Error;

/// `/` of Spark, in a statement that has been read.
pub(crate) const DIVIDE: &str = "/ of Spark";
/// `div` of Spark.
pub(crate) const DIV: &str = "div of Spark";

/// Plans these operators.
#[derive(Debug)]
pub(crate) struct SparkOperators;

impl ExprPlanner for SparkOperators {
    fn plan_binary_op(
        &self,
        mut raw: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let BinaryOperator::Custom(name) = &raw.op else { return Ok(PlannerResult::Original(raw)) };
        let (is_quotient, is_div) = (name == DIVIDE, name == DIV);
        if !is_quotient && !is_div {
            return Ok(PlannerResult::Original(raw));
        }
        let (left, right) = (raw.left.get_type(schema)?, raw.right.get_type(schema)?);
        let is_integer = |kind: &DataType| kind.is_integer() || *kind == DataType::Null;
        if is_div {
            if !is_integer(&left) || !is_integer(&right) {
                let text = "not supported: div of other numbers than integers";
                return Err(Error::new(ErrorKind::Invalid, text)
                    .with_hint("write instead: CAST(a / b AS BIGINT)")
                    .into());
            }
            let [left, right] = [raw.left, raw.right].map(|side| side.cast_to(&DataType::Int64, schema));
            return Ok(PlannerResult::Planned(binary_expr(left?, Operator::Divide, right?)));
        }
        let is_decimal = |kind: &DataType| DecimalType::of(kind).is_some();
        let is_number = |kind: &DataType| kind.is_numeric() || kind.is_string() || *kind == DataType::Null;
        let is_exact = |kind: &DataType| is_decimal(kind) || is_integer(kind);
        let is_of_decimals = (is_decimal(&left) || is_decimal(&right)) && is_exact(&left) && is_exact(&right);
        if is_of_decimals || !is_number(&left) || !is_number(&right) {
            raw.op = BinaryOperator::Divide;
            return Ok(PlannerResult::Original(raw));
        }
        let [left, right] = [raw.left, raw.right].map(|side| side.cast_to(&DataType::Float64, schema));
        Ok(PlannerResult::Planned(Expr::ScalarFunction(
            datafusion::logical_expr::expr::ScalarFunction::new_udf(
                Arc::new(SparkQuotient::default().into()),
                vec![left?, right?],
            ),
        )))
    }
}

/// `spark_quotient(x, y)`: the quotient of two DOUBLEs, an error if the second is 0.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct SparkQuotient {
    signature: Signature,
}

impl Default for SparkQuotient {
    fn default() -> Self {
        Self { signature: Signature::exact(vec![DataType::Float64; 2], Volatility::Immutable) }
    }
}

impl SparkQuotient {
    /// The function.
    pub(crate) fn shared() -> Arc<ScalarUDF> {
        Arc::new(Self::default().into())
    }
}

impl ScalarUDFImpl for SparkQuotient {
    fn name(&self) -> &str {
        "spark_quotient"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = take_function_args(self.name(), arguments.args)?;
        apply(&left, &right, |left, right| {
            let ((left, is_left_one), (right, is_right_one)) = (left.get(), right.get());
            let rows = if is_left_one { right.len() } else { left.len() };
            let value = |array: &dyn datafusion::arrow::array::Array, is_one: bool| -> Float64Array {
                let array = array.as_primitive::<Float64Type>();
                if !is_one {
                    return array.clone();
                }
                let value = (!datafusion::arrow::array::Array::is_null(array, 0)).then(|| array.value(0));
                std::iter::repeat_n(value, rows).collect()
            };
            let quotient = try_binary(
                &value(left, is_left_one),
                &value(right, is_right_one),
                |left: f64, right: f64| {
                    if right == 0.0 { Err(ArrowError::DivideByZero) } else { Ok(left / right) }
                },
            );
            quotient.map(|quotient: Float64Array| Arc::new(quotient) as _)
        })
    }
}
