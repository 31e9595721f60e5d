use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, Datum};
use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::arrow::error::ArrowError;
use datafusion::common::utils::take_function_args;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::interval_arithmetic::{Interval, apply_operator};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::physical_expr_common::datum::apply;
use serde::{Deserialize, Serialize};

use super::integer_overflow;

/// An operator on integers of one type, as a function that fails where the result does not fit that type. DataFusion's own
/// wrap around, and nothing in its plans can say otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct CheckedInteger {
    operation: Operation,
    #[serde(with = "crate::sent::data_type")]
    kind: DataType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Negate,
}

impl CheckedInteger {
    /// The function for an operator on integers of this type; `None` for one that cannot overflow, or says so itself.
    pub(crate) fn in_place_of(operator: Operator, kind: &DataType) -> Option<Self> {
        let operation = match operator {
            Operator::Plus => Operation::Add,
            Operator::Minus => Operation::Subtract,
            Operator::Multiply => Operation::Multiply,
            _ => return None,
        };
        Some(Self { operation, kind: kind.clone() })
    }

    /// The function for a unary minus before an integer of this type.
    pub(crate) fn negative(kind: &DataType) -> Self {
        Self { operation: Operation::Negate, kind: kind.clone() }
    }

    pub(crate) fn call(self, operands: Vec<Expr>) -> Expr {
        ScalarUDF::from(self).call(operands)
    }

    /// The type of such a function's result, if the expression is one. Finding it does not look into its operands.
    pub(crate) fn type_of(expr: &Expr) -> Option<&DataType> {
        let Expr::ScalarFunction(call) = expr else { return None };
        call.func.inner().downcast_ref::<Self>().map(|function| &function.kind)
    }

    fn operator(&self) -> Option<Operator> {
        match self.operation {
            Operation::Add => Some(Operator::Plus),
            Operation::Subtract => Some(Operator::Minus),
            Operation::Multiply => Some(Operator::Multiply),
            Operation::Negate => None,
        }
    }
}

impl ScalarUDFImpl for CheckedInteger {
    fn name(&self) -> &str {
        match self.operation {
            Operation::Add => "checked_add",
            Operation::Subtract => "checked_subtract",
            Operation::Multiply => "checked_multiply",
            Operation::Negate => "checked_negative",
        }
    }

    /// The text of the operator, by which other nodes know the column.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match (self.operator(), args) {
            (Some(operator), [left, right]) => {
                Ok(format!("{} {operator} {}", left.schema_name(), right.schema_name()))
            }
            _ => {
                let [operand] = take_function_args(self.name(), args)?;
                Ok(format!("(- {})", operand.schema_name()))
            }
        }
    }

    fn signature(&self) -> &Signature {
        static OF_ONE: LazyLock<Signature> = LazyLock::new(|| Signature::any(1, Volatility::Immutable));
        static OF_TWO: LazyLock<Signature> = LazyLock::new(|| Signature::any(2, Volatility::Immutable));
        if self.operation == Operation::Negate { &OF_ONE } else { &OF_TWO }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.kind.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let may_be_null = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.kind.clone(), may_be_null)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let outcome = match self.operation {
            Operation::Add => binary(self.name(), args.args, numeric::add),
            Operation::Subtract => binary(self.name(), args.args, numeric::sub),
            Operation::Multiply => binary(self.name(), args.args, numeric::mul),
            Operation::Negate => negative(self.name(), args.args),
        };
        outcome.map_err(|error| match error {
            DataFusionError::ArrowError(arrow, trace) => match *arrow {
                ArrowError::ArithmeticOverflow(text) => {
                    let operands = text.strip_prefix("Overflow happened on: ").unwrap_or(&text);
                    integer_overflow(&format!("{operands} does not fit {}", sql_name(&self.kind))).into()
                }
                other => DataFusionError::ArrowError(Box::new(other), trace),
            },
            other => other,
        })
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match (self.operation, inputs) {
            (Operation::Add, [left, right]) => left.sort_properties.add(&right.sort_properties),
            (Operation::Subtract, [left, right]) => left.sort_properties.sub(&right.sort_properties),
            (Operation::Negate, [operand]) => -operand.sort_properties,
            _ => SortProperties::Unordered,
        })
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        match (self.operator(), inputs) {
            (Some(operator), [left, right]) => apply_operator(&operator, left, right),
            _ => Interval::make_unbounded(&self.kind),
        }
    }
}

/// The name of a type of integers in SQL.
fn sql_name(kind: &DataType) -> String {
    let name = match kind {
        DataType::Int8 | DataType::UInt8 => "TINYINT",
        DataType::Int16 | DataType::UInt16 => "SMALLINT",
        DataType::Int32 | DataType::UInt32 => "INT",
        DataType::Int64 | DataType::UInt64 => "BIGINT",
        other => return other.to_string(),
    };
    if kind.is_unsigned_integer() { format!("{name} UNSIGNED") } else { name.to_owned() }
}

fn binary(
    name: &str,
    args: Vec<ColumnarValue>,
    kernel: impl Fn(&dyn Datum, &dyn Datum) -> Result<ArrayRef, ArrowError>,
) -> Result<ColumnarValue> {
    let [left, right] = take_function_args(name, args)?;
    apply(&left, &right, kernel)
}

fn negative(name: &str, args: Vec<ColumnarValue>) -> Result<ColumnarValue> {
    let [operand] = take_function_args(name, args)?;
    match operand {
        ColumnarValue::Array(array) => Ok(ColumnarValue::Array(numeric::neg(&array)?)),
        ColumnarValue::Scalar(scalar) => {
            let negated = numeric::neg(&scalar.to_array()?)?;
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&negated, 0)?))
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};

    use super::*;

    #[test]
    fn a_column_keeps_the_name_that_the_operator_gives_it() {
        let (left, right) = (col("a"), lit(1i64));
        let plus = left.clone() + right.clone();
        let checked = CheckedInteger::in_place_of(Operator::Plus, &DataType::Int64).unwrap();
        assert_eq!(checked.call(vec![left, right]).schema_name().to_string(), plus.schema_name().to_string());
        let minus = Expr::Negative(Box::new(col("a")));
        let checked = CheckedInteger::negative(&DataType::Int64).call(vec![col("a")]);
        assert_eq!(checked.schema_name().to_string(), minus.schema_name().to_string());
        assert_eq!(CheckedInteger::type_of(&checked), Some(&DataType::Int64));
    }

    #[test]
    fn operators_that_cannot_overflow_stay() {
        for operator in [Operator::Divide, Operator::Modulo, Operator::Eq, Operator::BitwiseAnd] {
            assert!(CheckedInteger::in_place_of(operator, &DataType::Int64).is_none(), "{operator}");
        }
    }

    #[test]
    fn a_type_is_named_as_in_sql() {
        assert_eq!(sql_name(&DataType::Int32), "INT");
        assert_eq!(sql_name(&DataType::UInt64), "BIGINT UNSIGNED");
    }
}
