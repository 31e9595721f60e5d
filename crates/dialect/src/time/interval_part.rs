//! `extract` and `date_part` of intervals, and of the differences of timestamps, which DataFusion calls durations: days and 24 hours each,
//! as in PostgreSQL and DuckDB. Arrow gives 1434 for the hours of 59 days and 18 hours, and no thousandths of a second from 2 seconds on.

use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int32Array, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::cast_utils::IntervalUnit;
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType};
use datafusion::common::Result;
use datafusion::common::utils::take_function_args;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use serde::{Deserialize, Serialize};
use yeoul_base::ErrorKind;

use super::interval_span::{INTERVAL, as_given};
use crate::{Error, Result as OwnResult};

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const DAY_SECONDS: f64 = 86_400.0;
/// PostgreSQL's and DuckDB's, for the seconds of an interval.
const DAYS_IN_YEAR: f64 = 365.25;

/// One part of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum IntervalPart {
    Millennium,
    Century,
    Decade,
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
    /// All of it in seconds.
    Epoch,
}

impl IntervalPart {
    /// The part of this name, as `extract` takes it.
    ///
    /// # Errors
    /// `Invalid` for one that intervals do not have.
    pub(crate) fn named(name: &str) -> OwnResult<Self> {
        let name = name.trim_matches(['\'', '"']).to_ascii_lowercase();
        Ok(match IntervalUnit::from_str(&name) {
            Ok(IntervalUnit::Century) => Self::Century,
            Ok(IntervalUnit::Decade) => Self::Decade,
            Ok(IntervalUnit::Year) => Self::Year,
            Ok(IntervalUnit::Month) => Self::Month,
            Ok(IntervalUnit::Week) => Self::Week,
            Ok(IntervalUnit::Day) => Self::Day,
            Ok(IntervalUnit::Hour) => Self::Hour,
            Ok(IntervalUnit::Minute) => Self::Minute,
            Ok(IntervalUnit::Second) => Self::Second,
            Ok(IntervalUnit::Millisecond) => Self::Millisecond,
            Ok(IntervalUnit::Microsecond) => Self::Microsecond,
            Ok(IntervalUnit::Nanosecond) => Self::Nanosecond,
            Err(_) => match name.as_str() {
                "millennium" | "millenium" => Self::Millennium,
                "quarter" | "qtr" => Self::Quarter,
                "epoch" => Self::Epoch,
                _ => {
                    let error = Error::new(ErrorKind::Invalid, format!("an interval has no part '{name}'"));
                    return Err(error.with_hint(
                        "its parts are year, quarter, month, week, day, hour, minute, second and epoch",
                    ));
                }
            },
        })
    }

    pub(crate) fn call(self, interval: Expr) -> Expr {
        ScalarUDF::from(self).call(vec![interval])
    }

    /// This part, if it is a whole number.
    fn whole(self, IntervalMonthDayNano { months, days, nanoseconds }: IntervalMonthDayNano) -> i64 {
        let (months, days) = (i64::from(months), i64::from(days));
        match self {
            Self::Millennium => months / 12_000,
            Self::Century => months / 1200,
            Self::Decade => months / 120,
            Self::Year => months / 12,
            Self::Quarter => months % 12 / 3 + 1,
            Self::Month => months % 12,
            Self::Week => days / 7,
            Self::Day => days,
            Self::Hour => nanoseconds / HOUR,
            Self::Minute => nanoseconds % HOUR / MINUTE,
            Self::Second => nanoseconds % MINUTE / SECOND,
            Self::Millisecond => nanoseconds % MINUTE / 1_000_000,
            Self::Microsecond => nanoseconds % MINUTE / 1000,
            Self::Nanosecond => nanoseconds % MINUTE,
            Self::Epoch => seconds(IntervalMonthDayNano::new(months as i32, days as i32, nanoseconds)) as i64,
        }
    }
}

/// The seconds of an interval.
fn seconds(IntervalMonthDayNano { months, days, nanoseconds }: IntervalMonthDayNano) -> f64 {
    let (years, months) = (months / 12, months % 12);
    let days = f64::from(years) * DAYS_IN_YEAR + f64::from(months) * 30.0 + f64::from(days);
    days * DAY_SECONDS + nanoseconds as f64 / 1e9
}

/// Intervals of an array of intervals or durations; a duration has days and hours.
fn intervals(values: &ArrayRef) -> Result<ArrayRef> {
    let intervals = cast(values, &INTERVAL)?;
    if !matches!(values.data_type(), DataType::Duration(_)) {
        return Ok(intervals);
    }
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
    Ok(Arc::new(intervals.unary::<_, IntervalMonthDayNanoType>(
        |IntervalMonthDayNano { nanoseconds, .. }| {
            let days = i32::try_from(nanoseconds / DAY).expect("64 bits of nanoseconds are 106,752 days");
            IntervalMonthDayNano::new(0, days, nanoseconds % DAY)
        },
    )))
}

impl ScalarUDFImpl for IntervalPart {
    fn name(&self) -> &str {
        "interval_part"
    }

    fn signature(&self) -> &Signature {
        static OF_ONE: LazyLock<Signature> = LazyLock::new(|| Signature::any(1, Volatility::Immutable));
        &OF_ONE
    }

    /// The types of DataFusion's `date_part`, for which it stands.
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self {
            Self::Epoch => DataType::Float64,
            Self::Nanosecond => DataType::Int64,
            _ => DataType::Int32,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [values] = take_function_args(self.name(), arguments.args)?;
        let is_scalar = matches!(values, ColumnarValue::Scalar(_));
        let intervals = intervals(&values.into_array(1)?)?;
        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>().iter();
        let parts: ArrayRef = match self {
            Self::Epoch => {
                Arc::new(intervals.map(|interval| interval.map(seconds)).collect::<Float64Array>())
            }
            Self::Nanosecond => Arc::new(
                intervals
                    .map(|interval| interval.map(|interval| self.whole(interval)))
                    .collect::<Int64Array>(),
            ),
            _ => {
                let parts = intervals.map(|interval| {
                    let part = interval.map(|interval| i32::try_from(self.whole(interval)));
                    part.map(|part| part.expect("each part but the nanoseconds fits into 32 bits"))
                });
                Arc::new(parts.collect::<Int32Array>())
            }
        };
        as_given(parts, is_scalar)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::DurationNanosecondArray;

    use super::*;

    #[test]
    fn each_part_is_of_its_field_and_the_epoch_of_all() {
        let interval = IntervalMonthDayNano::new(14, 59, 18 * HOUR + 5 * MINUTE + 30 * SECOND + 500_000_000);
        for (name, expected) in [
            ("YEAR", 1),
            ("month", 2),
            ("quarter", 1),
            ("day", 59),
            ("hours", 18),
            ("minute", 5),
            ("second", 30),
            ("milliseconds", 30_500),
            ("microsecond", 30_500_000),
            ("nanosecond", 30_500_000_000),
            ("century", 0),
        ] {
            assert_eq!(IntervalPart::named(name).unwrap().whole(interval), expected, "{name}");
        }
        assert_eq!(seconds(IntervalMonthDayNano::new(12, 0, 0)), 31_557_600.0);
        assert_eq!(seconds(IntervalMonthDayNano::new(1, 0, 500_000_000)), 2_592_000.5);
        assert!(IntervalPart::named("dow").unwrap_err().to_string().contains("'dow'"));
    }

    #[test]
    fn a_duration_has_days_of_24_hours() {
        let durations: ArrayRef = Arc::new(DurationNanosecondArray::from(vec![Some(1434 * HOUR), None]));
        let intervals = intervals(&durations).unwrap();
        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
        assert_eq!(intervals.value(0), IntervalMonthDayNano::new(0, 59, 18 * HOUR));
        assert!(intervals.is_null(1));
    }
}
