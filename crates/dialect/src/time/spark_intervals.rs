//! Intervals times and by numbers as in Spark, whose intervals are of months or of microseconds: nothing is carried from one to the other,
//! and what is left is rounded, halves away from zero.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
};
use datafusion::common::Result;
use datafusion::common::utils::take_function_args;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use yeoul_base::ErrorKind;

use super::interval_span::INTERVAL;
use crate::Error;
use crate::text::rows::invoke;

const MICROSECOND: i128 = 1_000;
const DAY: i128 = 86_400_000_000;

/// `spark_interval_times(interval, number)` and `spark_interval_by(interval, number)`; `spark_interval_try_add(a, b)` and
/// `spark_interval_try_subtract(a, b)`, null where months do not fit 32 bits or microseconds 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SparkInterval {
    Times,
    By,
    TryAdd,
    TrySubtract,
}

impl SparkInterval {
    const ALL: [Self; 4] = [Self::Times, Self::By, Self::TryAdd, Self::TrySubtract];

    /// All of these functions.
    pub(crate) fn all() -> impl Iterator<Item = ScalarUDF> {
        Self::ALL.into_iter().map(ScalarUDF::from)
    }

    /// The call for an interval and a number, or another one.
    pub(crate) fn call(self, interval: Expr, number: Expr) -> Expr {
        ScalarUDF::from(self).call(vec![interval, number])
    }

    fn run(self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let intervals = arrays[0].as_primitive::<IntervalMonthDayNanoType>();
        if matches!(self, Self::TryAdd | Self::TrySubtract) {
            let others = arrays[1].as_primitive::<IntervalMonthDayNanoType>();
            let pairs = intervals.iter().zip(others);
            let sums = pairs.map(|(one, other)| self.sum(one?, other?));
            return Ok(Arc::new(sums.collect::<IntervalMonthDayNanoArray>()));
        }
        let number = number_of(&arrays[1]);
        let row = |row: usize| -> Result<Option<IntervalMonthDayNano>, Error> {
            if intervals.is_null(row) || arrays[1].is_null(row) {
                return Ok(None);
            }
            let length = Length::of(intervals.value(row))?;
            let count = self.rounded(length.count(), number(row))?;
            length.with(count).map(Some).ok_or_else(too_long)
        };
        let found = (0..intervals.len()).map(row).collect::<Result<IntervalMonthDayNanoArray, Error>>()?;
        Ok(Arc::new(found))
    }

    /// The sum or difference of two intervals; `None` if it does not fit.
    fn sum(self, one: IntervalMonthDayNano, other: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
        let sign = if self == Self::TryAdd { 1 } else { -1 };
        let micros =
            |of: IntervalMonthDayNano| i128::from(of.days) * DAY + i128::from(of.nanoseconds) / MICROSECOND;
        let months = i64::from(one.months) + sign * i64::from(other.months);
        let sum = Length::Micros(0).with(micros(one) + i128::from(sign) * micros(other))?;
        Some(IntervalMonthDayNano { months: i32::try_from(months).ok()?, ..sum })
    }

    /// A number of months or microseconds, times or by another one.
    fn rounded(self, count: i128, number: Number) -> Result<i128, Error> {
        let by_zero = || Error::new(ErrorKind::Invalid, "an interval divided by zero");
        match (self, number) {
            (Self::By, Number::Exact(0, _)) => Err(by_zero()),
            (Self::By, Number::Float(0.0)) => Err(by_zero()),
            (Self::Times, Number::Exact(digits, scale)) => {
                let product = count.checked_mul(digits).ok_or_else(too_long)?;
                Ok(quotient(product, scale))
            }
            (Self::By, Number::Exact(digits, scale)) => {
                let scaled = count.checked_mul(scale).ok_or_else(too_long)?;
                Ok(quotient(scaled, digits))
            }
            (Self::TryAdd | Self::TrySubtract, Number::Exact(..)) => unreachable!("sums are of intervals"),
            (_, Number::Float(number)) => {
                let count = count as f64;
                let found = if self == Self::Times { count * number } else { count / number };
                // Beyond these no interval is left, and a cast would be the nearest one.
                if found.abs() < 1e19 { Ok(found.round() as i128) } else { Err(too_long()) }
            }
        }
    }
}

/// A number that an interval meets.
#[derive(Clone, Copy)]
enum Number {
    /// Digits, and the power of ten by which they are divided.
    Exact(i128, i128),
    Float(f64),
}

/// The numbers of an array of one of the types of [`SparkInterval::coerce_types`].
fn number_of(numbers: &ArrayRef) -> Box<dyn Fn(usize) -> Number + '_> {
    match numbers.data_type() {
        DataType::Int64 => {
            let numbers = numbers.as_primitive::<Int64Type>();
            Box::new(move |row| Number::Exact(numbers.value(row).into(), 1))
        }
        DataType::Decimal128(_, scale) => {
            let numbers = numbers.as_primitive::<Decimal128Type>();
            let scale = 10_i128.pow(u32::from(scale.unsigned_abs()));
            Box::new(move |row| Number::Exact(numbers.value(row), scale))
        }
        _ => {
            let numbers = numbers.as_primitive::<Float64Type>();
            Box::new(move |row| Number::Float(numbers.value(row)))
        }
    }
}

/// An interval of Spark's.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Length {
    Months(i32),
    Micros(i128),
}

impl Length {
    fn of(interval: IntervalMonthDayNano) -> Result<Self, Error> {
        let IntervalMonthDayNano { months, days, nanoseconds } = interval;
        match (months, days, nanoseconds) {
            (months, 0, 0) if months != 0 => Ok(Self::Months(months)),
            (0, days, nanoseconds) if i128::from(nanoseconds) % MICROSECOND == 0 => {
                Ok(Self::Micros(i128::from(days) * DAY + i128::from(nanoseconds) / MICROSECOND))
            }
            _ => {
                let text = format!(
                    "not supported: a multiple of an interval of {months} months, {days} days and {nanoseconds} nanoseconds"
                );
                Err(Error::new(ErrorKind::Invalid, text)
                    .with_hint("an interval is one of months, or one of days and time in microseconds"))
            }
        }
    }

    fn count(self) -> i128 {
        match self {
            Self::Months(months) => months.into(),
            Self::Micros(micros) => micros,
        }
    }

    fn with(self, count: i128) -> Option<IntervalMonthDayNano> {
        Some(match self {
            Self::Months(_) => IntervalMonthDayNano::new(i32::try_from(count).ok()?, 0, 0),
            Self::Micros(_) => {
                i64::try_from(count).ok()?;
                let days = i32::try_from(count / DAY).ok()?;
                IntervalMonthDayNano::new(0, days, i64::try_from(count % DAY * MICROSECOND).ok()?)
            }
        })
    }
}

/// A quotient, halves away from zero.
fn quotient(number: i128, divisor: i128) -> i128 {
    let (whole, rest) = (number / divisor, number % divisor);
    let is_up = rest.unsigned_abs() >= divisor.unsigned_abs() - rest.unsigned_abs();
    match is_up && rest != 0 {
        true if (number < 0) == (divisor < 0) => whole + 1,
        true => whole - 1,
        false => whole,
    }
}

fn too_long() -> Error {
    Error::new(ErrorKind::Invalid, "a multiple of an interval is too long")
        .with_hint("months have 32 bits, microseconds 64")
}

impl ScalarUDFImpl for SparkInterval {
    fn name(&self) -> &str {
        match self {
            Self::Times => "spark_interval_times",
            Self::By => "spark_interval_by",
            Self::TryAdd => "spark_interval_try_add",
            Self::TrySubtract => "spark_interval_try_subtract",
        }
    }

    fn signature(&self) -> &Signature {
        static OF_TWO: LazyLock<Signature> = LazyLock::new(|| Signature::user_defined(Volatility::Immutable));
        &OF_TWO
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let [_, number] = take_function_args(self.name(), kinds)?;
        let number = match number {
            _ if matches!(self, Self::TryAdd | Self::TrySubtract) => INTERVAL,
            kind if kind.is_integer() => DataType::Int64,
            DataType::Decimal128(..) => number.clone(),
            _ => DataType::Float64,
        };
        Ok(vec![INTERVAL, number])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| self.run(arrays))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(of: SparkInterval, interval: (i32, i32, i64), number: Number) -> Option<(i32, i32, i64)> {
        let length = Length::of(IntervalMonthDayNano::new(interval.0, interval.1, interval.2)).ok()?;
        let found = length.with(of.rounded(length.count(), number).ok()?)?;
        Some((found.months, found.days, found.nanoseconds))
    }

    #[test]
    fn months_stay_months_and_halves_are_rounded_away_from_zero() {
        let (times, by) = (SparkInterval::Times, SparkInterval::By);
        assert_eq!(found(times, (1, 0, 0), Number::Exact(15, 10)), Some((2, 0, 0)));
        assert_eq!(found(times, (-1, 0, 0), Number::Float(1.5)), Some((-2, 0, 0)));
        assert_eq!(found(by, (7, 0, 0), Number::Exact(2, 1)), Some((4, 0, 0)));
        assert_eq!(found(by, (0, 1, 0), Number::Exact(2, 1)), Some((0, 0, 43_200_000_000_000)));
        assert_eq!(found(by, (0, 0, 1_000), Number::Exact(3, 1)), Some((0, 0, 0)));
        assert_eq!(found(times, (0, -1, -1_000), Number::Exact(2, 1)), Some((0, -2, -2_000)));
    }

    #[test]
    fn sums_that_do_not_fit_are_null() {
        let of = IntervalMonthDayNano::new;
        let days = |days| of(0, days, 0);
        assert_eq!(SparkInterval::TryAdd.sum(days(106_751_991), days(3)), None);
        assert_eq!(SparkInterval::TrySubtract.sum(days(1), days(3)), Some(days(-2)));
        assert_eq!(SparkInterval::TryAdd.sum(of(i32::MAX, 0, 0), of(1, 0, 0)), None);
        assert_eq!(SparkInterval::TryAdd.sum(of(1, 0, 0), of(1, 0, 0)), Some(of(2, 0, 0)));
    }

    #[test]
    fn intervals_of_both_kinds_and_too_long_ones_are_errors() {
        let (times, by) = (SparkInterval::Times, SparkInterval::By);
        assert_eq!(found(times, (1, 1, 0), Number::Exact(1, 1)), None);
        assert_eq!(found(times, (0, 0, 1), Number::Exact(1, 1)), None);
        assert_eq!(found(by, (1, 0, 0), Number::Exact(0, 1)), None);
        assert_eq!(found(by, (1, 0, 0), Number::Float(0.0)), None);
        assert_eq!(found(times, (1, 0, 0), Number::Float(f64::NAN)), None);
        assert_eq!(found(times, (i32::MAX, 0, 0), Number::Exact(2, 1)), None);
        assert_eq!(found(times, (0, i32::MAX, 0), Number::Exact(2, 1)), None);
    }
}
