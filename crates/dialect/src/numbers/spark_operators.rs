//! Operators that mean something else in Spark: a quotient of integers is a DOUBLE, `div` gives a BIGINT, a division of floats by 0 is an
//! error, and a date stays one with whole days.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, Float64Array};
use datafusion::arrow::compute::try_binary;
use datafusion::arrow::datatypes::{DataType, Float64Type, IntervalMonthDayNano, TimeUnit};
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
use super::spark_numbers;
use crate::Error;
use crate::time::interval_span::INTERVAL;
use crate::time::spark_intervals::SparkInterval;
use crate::types::spark_values::{Kind, SparkValue};

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
    /// `*`, of an interval and a number without days of months.
    Times,
    /// `try_add(a, b)`, null where an integer does not fit.
    TryAdd,
    /// `try_subtract(a, b)`.
    TrySubtract,
    /// `try_multiply(a, b)`.
    TryMultiply,
}

impl SparkOperator {
    const ALL: [Self; 9] = [
        Self::Divide,
        Self::Div,
        Self::Remainder,
        Self::Plus,
        Self::Minus,
        Self::Times,
        Self::TryAdd,
        Self::TrySubtract,
        Self::TryMultiply,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Divide => "/ of Spark",
            Self::Div => "div of Spark",
            Self::Remainder => "% of Spark",
            Self::Plus => "+ of Spark",
            Self::Minus => "- of Spark",
            Self::Times => "* of Spark",
            Self::TryAdd => "try_add",
            Self::TrySubtract => "try_subtract",
            Self::TryMultiply => "try_multiply",
        }
    }

    /// The operator that a function of two values is.
    pub(crate) fn of_function(name: &str) -> Option<BinaryOperator> {
        let tried = [Self::TryAdd, Self::TrySubtract, Self::TryMultiply];
        let found = tried.into_iter().find(|operator| operator.name() == name);
        found.map(|operator| BinaryOperator::Custom(operator.name().to_owned()))
    }

    /// The operator that is an error where this one is null.
    fn untried(self) -> Self {
        match self {
            Self::TryAdd => Self::Plus,
            Self::TrySubtract => Self::Minus,
            Self::TryMultiply => Self::Times,
            other => other,
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
            BinaryOperator::Multiply => Self::Times,
            _ => return None,
        };
        Some(BinaryOperator::Custom(of_spark.name().to_owned()))
    }

    fn own(self) -> BinaryOperator {
        match self {
            Self::Divide => BinaryOperator::Divide,
            Self::Div => BinaryOperator::MyIntegerDivide,
            Self::Remainder => BinaryOperator::Modulo,
            Self::Plus | Self::TryAdd => BinaryOperator::Plus,
            Self::Minus | Self::TrySubtract => BinaryOperator::Minus,
            Self::Times | Self::TryMultiply => BinaryOperator::Multiply,
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
        let BinaryOperator::Custom(name) = &raw.op else { return compared(raw, schema) };
        let Some(operator) = SparkOperator::ALL.into_iter().find(|operator| operator.name() == name) else {
            return Ok(PlannerResult::Original(raw));
        };
        let (left, right) = (raw.left.get_type(schema)?, raw.right.get_type(schema)?);
        let is_decimal = |kind: &DataType| DecimalType::of(kind).is_some();
        for (side, beside) in [(&mut raw.left, &right), (&mut raw.right, &left)] {
            if let Some(written) = written_integer(side).filter(|_| is_decimal(beside)) {
                *side = written;
            }
        }
        if let Some(tried) = tried(operator, &raw, &left, &right)? {
            return Ok(PlannerResult::Planned(tried));
        }
        let operator = operator.untried();
        if let Some(planned) = difference(operator, &raw, &left, &right, schema)? {
            return Ok(PlannerResult::Planned(planned));
        }
        if let Some(planned) = of_interval(operator, &raw, &left, &right)? {
            return Ok(PlannerResult::Planned(planned));
        }
        if let Some(planned) = of_texts(operator, &raw, &left, &right, schema)? {
            return Ok(PlannerResult::Planned(planned));
        }
        if let Some(number) = beside_text(operator, &left, &right) {
            for side in [&mut raw.left, &mut raw.right] {
                let written = std::mem::take(side);
                *side = written.cast_to(&number, schema)?;
            }
        }
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
            _ => None,
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

/// A comparison, in which a text beside a truth value is one, too.
fn compared(mut raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    let is_comparison = matches!(
        raw.op,
        BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
            | BinaryOperator::Spaceship
    );
    if is_comparison && let (Ok(left), Ok(right)) = (raw.left.get_type(schema), raw.right.get_type(schema)) {
        if left == DataType::Boolean && right.is_string() {
            raw.right = std::mem::take(&mut raw.right).cast_to(&DataType::Boolean, schema)?;
        } else if left.is_string() && right == DataType::Boolean {
            raw.left = std::mem::take(&mut raw.left).cast_to(&DataType::Boolean, schema)?;
        }
    }
    Ok(PlannerResult::Original(raw))
}

/// An integer that is written, as a decimal of its digits: so has it Spark beside a decimal. A column of integers has ten digits or more.
fn written_integer(expr: &Expr) -> Option<Expr> {
    let (literal, sign) = match expr {
        Expr::Negative(inner) => (inner.as_ref(), -1),
        other => (other, 1),
    };
    let literal = match literal {
        Expr::Cast(cast) if cast.field.data_type().is_integer() => cast.expr.as_ref(),
        other => other,
    };
    let Expr::Literal(value, _) = literal else { return None };
    let value = match value {
        ScalarValue::Int8(value) => i64::from((*value)?),
        ScalarValue::Int16(value) => i64::from((*value)?),
        ScalarValue::Int32(value) => i64::from((*value)?),
        ScalarValue::Int64(value) => (*value)?,
        _ => return None,
    };
    let digits = u8::try_from(value.unsigned_abs().to_string().len()).ok()?;
    Some(Expr::Literal(ScalarValue::Decimal128(Some(i128::from(value) * sign), digits, 0), None))
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

/// The sum, difference or product of numbers that is null where it does not fit. `None` for other values.
fn tried(
    operator: SparkOperator,
    raw: &RawBinaryExpr,
    left: &DataType,
    right: &DataType,
) -> Result<Option<Expr>> {
    let are_intervals = [left, right].iter().all(|kind| matches!(kind, DataType::Interval(_)));
    match operator {
        SparkOperator::TryAdd if are_intervals => {
            return Ok(Some(SparkInterval::TryAdd.call(raw.left.clone(), raw.right.clone())));
        }
        SparkOperator::TrySubtract if are_intervals => {
            return Ok(Some(SparkInterval::TrySubtract.call(raw.left.clone(), raw.right.clone())));
        }
        _ => {}
    }
    let function = match operator {
        SparkOperator::TryAdd => spark_numbers::Kind::TryAdd,
        SparkOperator::TrySubtract => spark_numbers::Kind::TrySubtract,
        SparkOperator::TryMultiply => spark_numbers::Kind::TryMultiply,
        _ => return Ok(None),
    };
    let is_number = |kind: &DataType| matches!(kind, DataType::Int32 | DataType::Int64 | DataType::Float64);
    let is_one = |kind: &DataType| is_number(kind) || kind.is_string() || *kind == DataType::Null;
    let is_tried = is_one(left) && is_one(right) && (is_number(left) || is_number(right));
    Ok(is_tried.then(|| ScalarUDF::from(function).call(vec![raw.left.clone(), raw.right.clone()])))
}

/// The interval between two times of which one is a timestamp: days and a time of day. `None` for other operands.
fn difference(
    operator: SparkOperator,
    raw: &RawBinaryExpr,
    left: &DataType,
    right: &DataType,
    schema: &DFSchema,
) -> Result<Option<Expr>> {
    let is_stamp = |kind: &DataType| matches!(kind, DataType::Timestamp(..));
    let is_time = |kind: &DataType| is_stamp(kind) || kind.is_string() || matches!(kind, DataType::Date32);
    let (Some(stamp), true) =
        ([left, right].into_iter().find(|kind| is_stamp(kind)), is_time(left) && is_time(right))
    else {
        return Ok(None);
    };
    if operator != SparkOperator::Minus {
        return Ok(None);
    }
    let moment = |side: &Expr, kind: &DataType| {
        if is_stamp(kind) { Ok(side.clone()) } else { side.clone().cast_to(stamp, schema) }
    };
    let between = binary_expr(moment(&raw.left, left)?, Operator::Minus, moment(&raw.right, right)?);
    let interval = between.cast_to(&INTERVAL, schema)?;
    Ok(Some(SparkValue::shared(Kind::WholeDays).call(vec![interval])))
}

/// An interval times or by a number. `None` for other operands.
fn of_interval(
    operator: SparkOperator,
    raw: &RawBinaryExpr,
    left: &DataType,
    right: &DataType,
) -> Result<Option<Expr>> {
    let is_interval = |kind: &DataType| matches!(kind, DataType::Interval(_));
    let is_number = |kind: &DataType| kind.is_numeric() || kind.is_string() || *kind == DataType::Null;
    let (of, interval, number) = match operator {
        SparkOperator::Times if is_interval(left) && is_number(right) => {
            (SparkInterval::Times, &raw.left, &raw.right)
        }
        SparkOperator::Times if is_number(left) && is_interval(right) => {
            (SparkInterval::Times, &raw.right, &raw.left)
        }
        SparkOperator::Divide if is_interval(left) && is_number(right) => {
            (SparkInterval::By, &raw.left, &raw.right)
        }
        _ => return Ok(None),
    };
    Ok(Some(of.call(interval.clone(), number.clone())))
}

/// The type of both operands where one is a text and the other a number.
fn beside_text(operator: SparkOperator, left: &DataType, right: &DataType) -> Option<DataType> {
    let number = match (left.is_string(), right.is_string()) {
        (true, false) => right,
        (false, true) => left,
        _ => return None,
    };
    let is_arithmetic = matches!(
        operator,
        SparkOperator::Plus | SparkOperator::Minus | SparkOperator::Times | SparkOperator::Remainder
    );
    match number {
        _ if !is_arithmetic => None,
        kind if kind.is_integer() => Some(DataType::Int64),
        kind if kind.is_numeric() => Some(DataType::Float64),
        _ => None,
    }
}

/// A text beside a time or an interval, or a null beside a time. `None` for other operands.
fn of_texts(
    operator: SparkOperator,
    raw: &RawBinaryExpr,
    left: &DataType,
    right: &DataType,
    schema: &DFSchema,
) -> Result<Option<Expr>> {
    let own = match operator {
        SparkOperator::Plus => Operator::Plus,
        SparkOperator::Minus => Operator::Minus,
        _ => return Ok(None),
    };
    let moment = DataType::Timestamp(TimeUnit::Microsecond, None);
    let is_date = |kind: &DataType| matches!(kind, DataType::Date32);
    let is_interval = |kind: &DataType| matches!(kind, DataType::Interval(_));
    let to = |side: &Expr, kind: &DataType| side.clone().cast_to(kind, schema);
    Ok(Some(match (left, right) {
        // A time and a null are null, of the type that the time and an interval would have.
        (DataType::Timestamp(..), DataType::Null) if operator == SparkOperator::Plus => {
            Expr::Literal(ScalarValue::try_from(left)?, None)
        }
        (DataType::Null, DataType::Timestamp(..)) if operator == SparkOperator::Plus => {
            Expr::Literal(ScalarValue::try_from(right)?, None)
        }
        (left, DataType::Null) if is_date(left) => Expr::Literal(ScalarValue::try_from(&moment)?, None),
        (DataType::Null, right) if is_date(right) && operator == SparkOperator::Plus => {
            Expr::Literal(ScalarValue::try_from(&moment)?, None)
        }
        (left, right) if left.is_string() && is_interval(right) => {
            let sum = binary_expr(to(&raw.left, &moment)?, own, raw.right.clone());
            sum.cast_to(&DataType::Utf8, schema)?
        }
        (left, right) if is_interval(left) && right.is_string() && operator == SparkOperator::Plus => {
            let sum = binary_expr(raw.left.clone(), own, to(&raw.right, &moment)?);
            sum.cast_to(&DataType::Utf8, schema)?
        }
        (left, right)
            if operator == SparkOperator::Minus
                && (is_date(left) || left.is_string())
                && (is_date(right) || right.is_string())
                && (is_date(left) || is_date(right)) =>
        {
            let days = |side: &Expr| to(side, &DataType::Date32)?.cast_to(&DataType::Int32, schema);
            let days = binary_expr(days(&raw.left)?, own, days(&raw.right)?);
            let day = IntervalMonthDayNano::new(0, 1, 0);
            let day = Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(day)), None);
            SparkInterval::Times.call(day, days)
        }
        _ => return Ok(None),
    }))
}

fn div(raw: &RawBinaryExpr, left: &DataType, right: &DataType, schema: &DFSchema) -> Result<Expr> {
    let is_integer = |kind: &DataType| kind.is_integer() || *kind == DataType::Null;
    let is_exact = |kind: &DataType| is_integer(kind) || DecimalType::of(kind).is_some();
    if is_exact(left) && is_exact(right) && !(is_integer(left) && is_integer(right)) {
        // The quotient is whole, so that nothing is rounded.
        let rest = binary_expr(raw.left.clone(), Operator::Modulo, raw.right.clone());
        let multiple = binary_expr(raw.left.clone(), Operator::Minus, rest);
        return binary_expr(multiple, Operator::Divide, raw.right.clone()).cast_to(&DataType::Int64, schema);
    }
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
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
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
