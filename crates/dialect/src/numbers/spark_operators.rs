//! Operators that mean something else in Spark: a quotient of integers is a DOUBLE, `div` gives a BIGINT, a division of floats by 0 is an
//! error, and a date stays one with whole days.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, Float64Array};
use datafusion::arrow::compute::try_binary;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::common::utils::take_function_args;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, binary_expr,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use yeoul_base::ErrorKind;

use super::decimal_type::DecimalType;
use crate::Error;

/// Operators of Spark, in a statement that has been read: those that plan otherwise than the own ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SparkOperator {
    /// `/`, a DOUBLE of integers.
    Divide,
    /// `div`, a BIGINT.
    Div,
    /// `%`, an error where the divisor is 0, also of floats.
    Remainder,
    /// `+`, of a date and an interval of days a date.
    Plus,
    /// `-`, the same.
    Minus,
}

impl SparkOperator {
    const ALL: [Self; 5] = [Self::Divide, Self::Div, Self::Remainder, Self::Plus, Self::Minus];

    const fn name(self) -> &'static str {
        match self {
            Self::Divide => "/ of Spark",
            Self::Div => "div of Spark",
            Self::Remainder => "% of Spark",
            Self::Plus => "+ of Spark",
            Self::Minus => "- of Spark",
        }
    }

    /// The operator of Spark that an operator is, if it plans otherwise.
    pub(crate) fn of(operator: &BinaryOperator) -> Option<BinaryOperator> {
        let of_spark = match operator {
            BinaryOperator::Divide => Self::Divide,
            BinaryOperator::MyIntegerDivide => Self::Div,
            BinaryOperator::Modulo => Self::Remainder,
            BinaryOperator::Plus => Self::Plus,
            BinaryOperator::Minus => Self::Minus,
            _ => return None,
        };
        Some(BinaryOperator::Custom(of_spark.name().to_owned()))
    }

    fn own(self) -> BinaryOperator {
        match self {
            Self::Divide => BinaryOperator::Divide,
            Self::Div => BinaryOperator::MyIntegerDivide,
            Self::Remainder => BinaryOperator::Modulo,
            Self::Plus => BinaryOperator::Plus,
            Self::Minus => BinaryOperator::Minus,
        }
    }
}

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
        let Some(operator) = SparkOperator::ALL.into_iter().find(|operator| operator.name() == name) else {
            return Ok(PlannerResult::Original(raw));
        };
        let (left, right) = (raw.left.get_type(schema)?, raw.right.get_type(schema)?);
        let planned = match operator {
            SparkOperator::Div => Some(div(&raw, &left, &right, schema)?),
            SparkOperator::Divide if is_of_floats(&left, &right, true) => {
                Some(floats(FloatOperator::Quotient, &raw, schema)?)
            }
            SparkOperator::Remainder if is_of_floats(&left, &right, false) => {
                Some(floats(FloatOperator::Remainder, &raw, schema)?)
            }
            SparkOperator::Plus | SparkOperator::Minus => date(operator, &raw, &left, &right, schema)?,
            SparkOperator::Divide if matches!(left, DataType::Interval(_)) => {
                let error =
                    Error::new(ErrorKind::Invalid, "not supported: a part of an interval, interval / number");
                return Err(error
                    .with_hint("write the interval that is meant, such as INTERVAL 12 HOURS")
                    .into());
            }
            SparkOperator::Divide | SparkOperator::Remainder => None,
        };
        Ok(match planned {
            Some(planned) => PlannerResult::Planned(planned),
            None => {
                raw.op = operator.own();
                PlannerResult::Original(raw)
            }
        })
    }
}

/// True for operands of which the result is a float. `of_integers` says whether it is, too, of integers alone.
fn is_of_floats(left: &DataType, right: &DataType, of_integers: bool) -> bool {
    let is_number = |kind: &DataType| kind.is_numeric() || kind.is_string() || *kind == DataType::Null;
    let is_decimal = |kind: &DataType| DecimalType::of(kind).is_some();
    let is_exact = |kind: &DataType| is_decimal(kind) || kind.is_integer() || *kind == DataType::Null;
    let is_of_decimals = (is_decimal(left) || is_decimal(right)) && is_exact(left) && is_exact(right);
    let is_of_integers = is_exact(left) && is_exact(right) && !is_of_decimals;
    is_number(left) && is_number(right) && !is_of_decimals && (of_integers || !is_of_integers)
}

fn div(raw: &RawBinaryExpr, left: &DataType, right: &DataType, schema: &DFSchema) -> Result<Expr> {
    let is_integer = |kind: &DataType| kind.is_integer() || *kind == DataType::Null;
    if !is_integer(left) || !is_integer(right) {
        let error = Error::new(ErrorKind::Invalid, "not supported: div of other numbers than integers");
        return Err(error.with_hint("write instead: CAST(a / b AS BIGINT)").into());
    }
    let [left, right] = [&raw.left, &raw.right].map(|side| side.clone().cast_to(&DataType::Int64, schema));
    Ok(binary_expr(left?, Operator::Divide, right?))
}

fn floats(operator: FloatOperator, raw: &RawBinaryExpr, schema: &DFSchema) -> Result<Expr> {
    let [left, right] = [&raw.left, &raw.right].map(|side| side.clone().cast_to(&DataType::Float64, schema));
    Ok(SparkFloat::shared(operator).call(vec![left?, right?]))
}

/// A date and an interval, or two dates. `None` if the own operator has Spark's meaning.
fn date(
    operator: SparkOperator,
    raw: &RawBinaryExpr,
    left: &DataType,
    right: &DataType,
    schema: &DFSchema,
) -> Result<Option<Expr>> {
    let is_date = |kind: &DataType| matches!(kind, DataType::Date32 | DataType::Date64);
    let is_interval = |kind: &DataType| matches!(kind, DataType::Interval(_));
    if operator == SparkOperator::Minus && is_date(left) && is_date(right) {
        let error =
            Error::new(ErrorKind::Invalid, "not supported: an interval from the difference of two dates");
        return Err(error.with_hint("datediff(later, earlier) is the number of days").into());
    }
    let interval = match (is_date(left) && is_interval(right), is_interval(left) && is_date(right)) {
        (true, _) => &raw.right,
        (_, true) => &raw.left,
        _ => return Ok(None),
    };
    let has_time = match interval {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _) => interval.nanoseconds != 0,
        Expr::Literal(ScalarValue::IntervalYearMonth(_), _) => false,
        _ => {
            let error =
                Error::new(ErrorKind::Invalid, "not supported: a date and an interval that is computed");
            return Err(error
                .with_hint("cast the date to a TIMESTAMP, or write date_add(date, days)")
                .into());
        }
    };
    if has_time {
        return Ok(None);
    }
    let own = if operator == SparkOperator::Plus { Operator::Plus } else { Operator::Minus };
    let moment = |side: &Expr, kind: &DataType| {
        let micros = DataType::Timestamp(datafusion::arrow::datatypes::TimeUnit::Microsecond, None);
        if is_date(kind) { side.clone().cast_to(&micros, schema) } else { Ok(side.clone()) }
    };
    let sum = binary_expr(moment(&raw.left, left)?, own, moment(&raw.right, right)?);
    sum.cast_to(&DataType::Date32, schema).map(Some)
}

/// An operator on two DOUBLEs that is an error if the second is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FloatOperator {
    Quotient,
    Remainder,
}

/// `spark_quotient(x, y)` and `spark_remainder(x, y)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct SparkFloat {
    operator: FloatOperator,
    signature: Signature,
}

impl SparkFloat {
    /// The function of an operator.
    pub(crate) fn shared(operator: FloatOperator) -> Arc<ScalarUDF> {
        let signature = Signature::exact(vec![DataType::Float64; 2], Volatility::Immutable);
        Arc::new(Self { operator, signature }.into())
    }
}

impl ScalarUDFImpl for SparkFloat {
    fn name(&self) -> &str {
        match self.operator {
            FloatOperator::Quotient => "spark_quotient",
            FloatOperator::Remainder => "spark_remainder",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let are_constant = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if are_constant { 1 } else { arguments.number_rows };
        let [left, right] = take_function_args(self.name(), arguments.args)?;
        let (left, right) = (left.into_array(rows)?, right.into_array(rows)?);
        let computed: Float64Array = try_binary(
            left.as_primitive::<Float64Type>(),
            right.as_primitive::<Float64Type>(),
            |left: f64, right: f64| match self.operator {
                _ if right == 0.0 => Err(ArrowError::DivideByZero),
                FloatOperator::Quotient => Ok(left / right),
                FloatOperator::Remainder => Ok(left % right),
            },
        )?;
        if are_constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&computed, 0)?));
        }
        Ok(ColumnarValue::Array(Arc::new(computed)))
    }
}
