//! The length of an interval, by which intervals are compared: a month is 30 days and a day 24 hours, as in PostgreSQL and DuckDB.
//! Arrow compares months first, then days, then nanoseconds.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::utils::take_function_args;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use yeoul_base::ErrorKind;

use crate::Error;

/// The type that intervals are compared as.
pub(crate) const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

const NANOSECONDS_IN_DAY: i128 = 24 * 60 * 60 * 1_000_000_000;
const NANOSECONDS_IN_MONTH: i128 = 30 * NANOSECONDS_IN_DAY;

/// The length of an interval in nanoseconds.
pub(crate) fn span(interval: IntervalMonthDayNano) -> i128 {
    i128::from(interval.months) * NANOSECONDS_IN_MONTH
        + i128::from(interval.days) * NANOSECONDS_IN_DAY
        + i128::from(interval.nanoseconds)
}

/// The interval of the same length with as many months as there are, then days. Of these, Arrow's order is that of their lengths:
/// their fields have one sign, and none reaches one of the field above.
fn normal(interval: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    let span = span(interval);
    let months = i32::try_from(span / NANOSECONDS_IN_MONTH).map_err(|_| out_of_range(interval))?;
    let (rest, in_field) = (span % NANOSECONDS_IN_MONTH, "a remainder is less than what it is divided by");
    Ok(IntervalMonthDayNano {
        months,
        days: i32::try_from(rest / NANOSECONDS_IN_DAY).expect(in_field),
        nanoseconds: i64::try_from(rest % NANOSECONDS_IN_DAY).expect(in_field),
    })
}

fn out_of_range(interval: IntervalMonthDayNano) -> DataFusionError {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    let what = format!(
        "an interval of {months} months, {days} days and {nanoseconds} nanoseconds is too long to be compared"
    );
    Error::new(ErrorKind::Invalid, what).with_hint("intervals have less than 2^31 months of 30 days").into()
}

/// The function that makes intervals comparable by Arrow's order.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct NormalInterval;

impl NormalInterval {
    pub(crate) fn call(expr: Expr) -> Expr {
        ScalarUDF::from(Self).call(vec![expr])
    }

    /// True if an expression, whatever its alias, is a call of this function.
    pub(crate) fn is_call(expr: &Expr) -> bool {
        match expr {
            Expr::Alias(alias) => Self::is_call(&alias.expr),
            Expr::ScalarFunction(call) => call.func.inner().downcast_ref::<Self>().is_some(),
            _ => false,
        }
    }
}

impl ScalarUDFImpl for NormalInterval {
    fn name(&self) -> &str {
        "normal_interval"
    }

    fn signature(&self) -> &Signature {
        static OF_ONE: LazyLock<Signature> = LazyLock::new(|| Signature::any(1, Volatility::Immutable));
        &OF_ONE
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [intervals] = take_function_args(self.name(), arguments.args)?;
        let is_scalar = matches!(intervals, ColumnarValue::Scalar(_));
        let intervals = cast(&intervals.into_array(1)?, &INTERVAL)?;
        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
        let normal: IntervalMonthDayNanoArray = intervals.try_unary(normal)?;
        as_given(Arc::new(normal), is_scalar)
    }
}

/// True if a type is that of intervals, or of lists or structs with intervals.
pub fn contains_interval(of: &DataType) -> bool {
    match of {
        DataType::Interval(_) => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => contains_interval(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| contains_interval(field.data_type())),
        DataType::Dictionary(_, value) => contains_interval(value),
        _ => false,
    }
}

/// An array, or its only value.
pub(crate) fn as_given(array: ArrayRef, is_scalar: bool) -> Result<ColumnarValue> {
    if is_scalar && array.len() == 1 {
        return Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&array, 0)?));
    }
    Ok(ColumnarValue::Array(array))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn interval(months: i32, days: i32, nanoseconds: i64) -> IntervalMonthDayNano {
        IntervalMonthDayNano { months, days, nanoseconds }
    }

    #[test]
    fn a_month_is_thirty_days_of_24_hours() {
        let day = i64::try_from(NANOSECONDS_IN_DAY).unwrap();
        for (one, other) in [
            (interval(0, 30, 0), interval(1, 0, 0)),
            (interval(0, 45, 0), interval(1, 15, 0)),
            (interval(0, 0, 19 * day), interval(0, 19, 0)),
            (interval(1, -1, -day), interval(0, 28, 0)),
            (interval(-1, 31, -day - 1), interval(0, 0, -1)),
        ] {
            assert_eq!(normal(one).unwrap(), other);
        }
        assert!(normal(interval(i32::MAX, 30, 0)).is_err());
    }

    proptest! {
        #[test]
        fn the_order_of_normal_intervals_is_that_of_their_spans(
            one in (-100..100i32, -100..100i32, any::<i64>()),
            other in (-100..100i32, -100..100i32, any::<i64>()),
        ) {
            let [one, other] = [one, other].map(|(months, days, nanos)| interval(months, days, nanos));
            let [first, second] = [one, other].map(|interval| normal(interval).unwrap());
            prop_assert_eq!(span(first), span(one));
            prop_assert_eq!(first.cmp(&second), span(one).cmp(&span(other)));
        }
    }
}
