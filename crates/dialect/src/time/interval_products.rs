use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, AsArray, Float64Array, IntervalMonthDayNanoArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
};
use datafusion::common::Result;
use datafusion::common::utils::take_function_args;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use serde::{Deserialize, Serialize};
use yeoul_base::ErrorKind;

use super::interval_span::{INTERVAL, as_given};
use crate::Error;

/// An interval times a number, or by one: each field by itself, and what is left of a month is days, of a day hours, as in
/// PostgreSQL. `INTERVAL '1 month' * 1.5` is a month and 15 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum IntervalProduct {
    Times,
    By,
}

impl IntervalProduct {
    /// The call for an operator, if it is one of an interval and a number.
    pub(super) fn of(op: &BinaryOperator, left: (Expr, &DataType), right: (Expr, &DataType)) -> Option<Expr> {
        let is_interval = |kind: &DataType| matches!(kind, DataType::Interval(_));
        let (function, interval, number) = match (op, left, right) {
            (BinaryOperator::Multiply, (interval, kind), (number, of))
                if is_interval(kind) && of.is_numeric() =>
            {
                (Self::Times, interval, number)
            }
            (BinaryOperator::Multiply, (number, of), (interval, kind))
                if is_interval(kind) && of.is_numeric() =>
            {
                (Self::Times, interval, number)
            }
            (BinaryOperator::Divide, (interval, kind), (number, of))
                if is_interval(kind) && of.is_numeric() =>
            {
                (Self::By, interval, number)
            }
            _ => return None,
        };
        Some(ScalarUDF::from(function).call(vec![interval, number]))
    }

    fn of_integers(intervals: &dyn Array, numbers: &dyn Array) -> Result<IntervalMonthDayNanoArray> {
        let numbers = cast(numbers, &DataType::Int64)?;
        let pairs = intervals
            .as_primitive::<IntervalMonthDayNanoType>()
            .iter()
            .zip(numbers.as_primitive::<Int64Type>().iter());
        let products = pairs.map(|pair| match pair {
            (Some(interval), Some(number)) => {
                times(interval, number).ok_or_else(|| too_long(interval)).map(Some)
            }
            _ => Ok(None),
        });
        Ok(products.collect::<Result<_, Error>>()?)
    }

    fn of_floats(self, intervals: &dyn Array, numbers: &dyn Array) -> Result<IntervalMonthDayNanoArray> {
        let numbers = cast(numbers, &DataType::Float64)?;
        let numbers: &Float64Array = numbers.as_primitive::<Float64Type>();
        let pairs = intervals.as_primitive::<IntervalMonthDayNanoType>().iter().zip(numbers.iter());
        let products = pairs.map(|pair| match pair {
            (Some(_), Some(0.0)) if self == Self::By => {
                Err(Error::new(ErrorKind::Invalid, "an interval divided by zero"))
            }
            (Some(interval), Some(number)) => {
                let parts = |field: f64| if self == Self::By { field / number } else { field * number };
                part(interval, parts).ok_or_else(|| too_long(interval)).map(Some)
            }
            _ => Ok(None),
        });
        Ok(products.collect::<Result<_, Error>>()?)
    }
}

fn times(interval: IntervalMonthDayNano, number: i64) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano {
        months: i64::from(interval.months).checked_mul(number)?.try_into().ok()?,
        days: i64::from(interval.days).checked_mul(number)?.try_into().ok()?,
        nanoseconds: interval.nanoseconds.checked_mul(number)?,
    })
}

fn part(interval: IntervalMonthDayNano, parts: impl Fn(f64) -> f64) -> Option<IntervalMonthDayNano> {
    const NANOSECONDS_IN_DAY: f64 = 86_400e9;
    let months = parts(f64::from(interval.months));
    let days = parts(f64::from(interval.days)) + months.fract() * 30.0;
    let nanoseconds = parts(interval.nanoseconds as f64) + days.fract() * NANOSECONDS_IN_DAY;
    let fits = |value: f64, max: f64| value.is_finite() && value.abs() <= max;
    let all_fit =
        fits(months, f64::from(i32::MAX)) && fits(days, f64::from(i32::MAX)) && fits(nanoseconds, 9e18);
    // What a float has lost is less than a microsecond, but for intervals of hundreds of years.
    all_fit.then(|| IntervalMonthDayNano {
        months: months as i32,
        days: days as i32,
        nanoseconds: ((nanoseconds / 1e3).round() * 1e3) as i64,
    })
}

fn too_long(interval: IntervalMonthDayNano) -> Error {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    let of = format!("{months} months, {days} days and {nanoseconds} nanoseconds");
    Error::new(ErrorKind::Invalid, format!("a multiple of an interval of {of} is too long"))
}

impl ScalarUDFImpl for IntervalProduct {
    fn name(&self) -> &str {
        match self {
            Self::Times => "interval_times",
            Self::By => "interval_by",
        }
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        let [interval, number] = take_function_args(self.name(), arguments)?;
        let op = if *self == Self::Times { '*' } else { '/' };
        Ok(format!("{} {op} {}", interval.schema_name(), number.schema_name()))
    }

    fn signature(&self) -> &Signature {
        static OF_TWO: LazyLock<Signature> = LazyLock::new(|| Signature::user_defined(Volatility::Immutable));
        &OF_TWO
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let [_, number] = take_function_args(self.name(), kinds)?;
        let is_exact = *self == Self::Times && number.is_integer();
        Ok(vec![INTERVAL, if is_exact { DataType::Int64 } else { DataType::Float64 }])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let [interval, number] = take_function_args(self.name(), arguments.args)?;
        let are_scalars =
            matches!((&interval, &number), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if are_scalars { 1 } else { rows };
        let (intervals, numbers) = (interval.into_array(rows)?, number.into_array(rows)?);
        let products = if numbers.data_type().is_integer() {
            Self::of_integers(&intervals, &numbers)?
        } else {
            self.of_floats(&intervals, &numbers)?
        };
        as_given(Arc::new(products), are_scalars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_field_goes_to_the_next_one() {
        let interval = IntervalMonthDayNano::new(1, 3, 2_000);
        assert_eq!(
            part(interval, |field| field * 1.5),
            Some(IntervalMonthDayNano::new(1, 19, 43_200_000_003_000))
        );
        assert_eq!(
            part(interval, |field| field / 2.0),
            Some(IntervalMonthDayNano::new(0, 16, 43_200_000_001_000))
        );
        assert_eq!(part(interval, |field| field * f64::NAN), None);
        assert_eq!(times(interval, -2), Some(IntervalMonthDayNano::new(-2, -6, -4_000)));
        assert_eq!(times(interval, i64::MAX), None);
    }
}
