//! Functions of times of day that only Spark has, with the names of [`ClockFunction`]. Its times have microseconds.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Decimal128Array, Int64Array, Time64NanosecondArray};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int64Type, Time64NanosecondType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::optimizer::AnalyzerRule;
use yeoul_base::ErrorKind;

use crate::Error;
use crate::rules::spark_casts::call_within_casts;
use crate::signatures::USER_DEFINED;
use crate::text::rows::invoke;

const TIME: DataType = DataType::Time64(TimeUnit::Nanosecond);

/// Nanoseconds of a microsecond.
const MICROSECOND: i64 = 1_000;
const SECOND: i64 = 1_000_000 * MICROSECOND;
#[cfg(test)]
const DAY: i64 = 86_400 * SECOND;

/// A function of times of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClockFunction {
    /// `spark_clock_diff(unit, from, to)`: whole units from one time to another.
    Difference,
    /// `spark_clock_trunc(unit, t)`: the begin of a unit, or of so many digits of a second.
    Truncate,
    /// `spark_make_time(hour, minute, seconds)`.
    Make,
    /// `spark_clock_seconds(t)`: whole seconds since midnight.
    WholeSeconds,
    /// `spark_clock_exact_seconds(t)`: seconds since midnight with microseconds.
    Seconds,
}

impl ClockFunction {
    /// All of these functions.
    pub(crate) fn all() -> impl Iterator<Item = Arc<ScalarUDF>> {
        let all = [Self::Difference, Self::Truncate, Self::Make, Self::WholeSeconds, Self::Seconds];
        all.into_iter().map(|function| Arc::new(function.into()))
    }

    fn run(self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let time = |place: usize| arrays[place].as_primitive::<Time64NanosecondType>();
        let in_microseconds = |time: i64| time / MICROSECOND * MICROSECOND;
        Ok(match self {
            Self::Difference => {
                let rows = arrays[0].as_string::<i32>().iter().zip(time(1)).zip(time(2));
                let rows = rows.map(|((unit, from), to)| {
                    let (Some(unit), Some(from), Some(to)) = (unit, from, to) else { return Ok(None) };
                    Ok(Some((in_microseconds(to) - in_microseconds(from)) / unit_of(unit)?))
                });
                Arc::new(rows.collect::<Result<Int64Array>>()?)
            }
            Self::Truncate => {
                let rows = arrays[0].as_string::<i32>().iter().zip(time(1)).map(|row| {
                    let (Some(unit), Some(time)) = row else { return Ok(None) };
                    let unit = unit_of(unit)?;
                    Ok(Some(time / unit * unit))
                });
                Arc::new(rows.collect::<Result<Time64NanosecondArray>>()?)
            }
            Self::Make => {
                let [hours, minutes] = [0, 1].map(|place| arrays[place].as_primitive::<Int64Type>());
                let seconds = arrays[2].as_primitive::<Decimal128Type>();
                let rows = hours.iter().zip(minutes).zip(seconds).map(|((hour, minute), seconds)| {
                    let (Some(hour), Some(minute), Some(seconds)) = (hour, minute, seconds) else {
                        return Ok(None);
                    };
                    let fits = (0..24).contains(&hour)
                        && (0..60).contains(&minute)
                        && (0..60_000_000).contains(&seconds);
                    let micros = i64::try_from(seconds).ok().filter(|_| fits).ok_or_else(|| {
                        let text =
                            format!("make_time({hour}, {minute}, {}) is no time", seconds as f64 / 1e6);
                        Error::new(ErrorKind::Invalid, text)
                    })?;
                    Ok(Some((hour * 60 + minute) * 60 * SECOND + micros * MICROSECOND))
                });
                Arc::new(rows.collect::<Result<Time64NanosecondArray>>()?)
            }
            Self::WholeSeconds => {
                Arc::new(time(0).iter().map(|time| time.map(|time| time / SECOND)).collect::<Int64Array>())
            }
            Self::Seconds => {
                let seconds = time(0).iter().map(|time| time.map(|time| i128::from(time / MICROSECOND)));
                Arc::new(seconds.collect::<Decimal128Array>().with_precision_and_scale(11, 6)?)
            }
        })
    }
}

fn unit_of(name: &str) -> Result<i64> {
    Ok(match name.to_ascii_uppercase().as_str() {
        "HOUR" => 3_600 * SECOND,
        "MINUTE" => 60 * SECOND,
        "SECOND" => SECOND,
        "MILLISECOND" => 1_000 * MICROSECOND,
        "MICROSECOND" => MICROSECOND,
        // Digits of a second.
        "0" => SECOND,
        "1" => SECOND / 10,
        "2" => SECOND / 100,
        "3" => SECOND / 1_000,
        "4" => SECOND / 10_000,
        "5" => SECOND / 100_000,
        "6" => MICROSECOND,
        _ => {
            let error = Error::new(ErrorKind::Invalid, format!("'{name}' is no unit of a time of day"));
            return Err(error
                .with_hint("units are HOUR, MINUTE, SECOND, MILLISECOND and MICROSECOND")
                .into());
        }
    })
}

impl ScalarUDFImpl for ClockFunction {
    fn name(&self) -> &str {
        match self {
            Self::Difference => "spark_clock_diff",
            Self::Truncate => "spark_clock_trunc",
            Self::Make => "spark_make_time",
            Self::WholeSeconds => "spark_clock_seconds",
            Self::Seconds => "spark_clock_exact_seconds",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let wanted = match self {
            Self::Difference => vec![DataType::Utf8, TIME, TIME],
            Self::Truncate => vec![DataType::Utf8, TIME],
            Self::Make => vec![DataType::Int64, DataType::Int64, DataType::Decimal128(16, 6)],
            Self::WholeSeconds | Self::Seconds => vec![TIME],
        };
        let fits = |(kind, wanted): (&DataType, &DataType)| match wanted {
            DataType::Int64 => kind.is_integer(),
            DataType::Decimal128(..) => kind.is_integer() || kind.is_decimal(),
            DataType::Utf8 => kind.is_string(),
            _ => matches!(kind, DataType::Time64(_)),
        };
        let is_fitting = kinds.len() == wanted.len()
            && kinds.iter().zip(&wanted).all(|pair| pair.0.is_null() || fits(pair));
        if !is_fitting {
            return plan_err!("{} takes other arguments", self.name().trim_start_matches("spark_"));
        }
        Ok(wanted)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self {
            Self::Truncate | Self::Make => TIME,
            Self::Difference | Self::WholeSeconds => DataType::Int64,
            Self::Seconds => DataType::Decimal128(11, 6),
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| self.run(arrays))
    }
}

/// Casts of times of day to numbers in Spark's dialect: seconds since midnight. Elsewhere they are refused.
#[derive(Debug)]
pub(crate) struct ClockCasts;

impl AnalyzerRule for ClockCasts {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        call_within_casts(plan, config, &|from, to, _| match to {
            _ if *from != TIME => None,
            kind if kind.is_integer() => Some(ClockFunction::WholeSeconds.into()),
            DataType::Decimal128(..) => Some(ClockFunction::Seconds.into()),
            _ => None,
        })
    }

    fn name(&self) -> &str {
        "clock_casts"
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::StringArray;

    use super::*;

    #[test]
    fn times_have_microseconds() {
        let unit: ArrayRef = Arc::new(StringArray::from(vec!["millisecond"]));
        let time = |nanoseconds: i64| Arc::new(Time64NanosecondArray::from(vec![nanoseconds])) as ArrayRef;
        let found = ClockFunction::Truncate.run(&[Arc::clone(&unit), time(DAY - 1)]).unwrap();
        assert_eq!(found.as_primitive::<Time64NanosecondType>().value(0), DAY - 1_000_000);
        let found = ClockFunction::Difference.run(&[unit, time(999_999), time(2_000_000)]).unwrap();
        assert_eq!(found.as_primitive::<Int64Type>().value(0), 1);
        let seconds: ArrayRef =
            Arc::new(Decimal128Array::from(vec![60_000_000]).with_precision_and_scale(16, 6).unwrap());
        let number = |number: i64| Arc::new(Int64Array::from(vec![number])) as ArrayRef;
        assert!(ClockFunction::Make.run(&[number(1), number(1), seconds]).is_err());
        assert_eq!(
            ClockFunction::Seconds
                .run(&[time(1_500_000_999)])
                .unwrap()
                .as_primitive::<Decimal128Type>()
                .value(0),
            1_500_000
        );
        assert!(unit_of("DAY").is_err());
    }
}
