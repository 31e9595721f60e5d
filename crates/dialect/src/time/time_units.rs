//! Times and units: `spark_time_add(unit, n, t)` and `spark_time_diff(unit, from, to)`, which are Spark's `timestampadd` and
//! `timestampdiff`.

use std::sync::Arc;

use chrono::{Datelike, Months, NaiveDateTime};
use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::{DataType, Int64Type, TimeUnit, TimestampMicrosecondType};
use datafusion::arrow::temporal_conversions::as_datetime;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use yeoul_base::ErrorKind;

use crate::Error;
use crate::signatures::USER_DEFINED;
use crate::text::rows::invoke;

const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// A function of times and a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum InUnits {
    /// A time so many units later.
    Add,
    /// Whole units from one time to another.
    Difference,
}

/// Length of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Months(i64),
    Microseconds(i64),
}

impl Length {
    /// That of a unit by its name in capitals.
    fn of(unit: &str) -> Option<Self> {
        Some(match unit {
            "YEAR" => Self::Months(12),
            "QUARTER" => Self::Months(3),
            "MONTH" => Self::Months(1),
            "WEEK" => Self::Microseconds(7 * DAY),
            "DAY" | "DAYOFYEAR" => Self::Microseconds(DAY),
            "HOUR" => Self::Microseconds(3_600 * SECOND),
            "MINUTE" => Self::Microseconds(60 * SECOND),
            "SECOND" => Self::Microseconds(SECOND),
            "MILLISECOND" => Self::Microseconds(1_000),
            "MICROSECOND" => Self::Microseconds(1),
            _ => return None,
        })
    }
}

impl InUnits {
    /// All of these functions.
    pub(crate) fn all() -> [Arc<ScalarUDF>; 2] {
        [Self::Add, Self::Difference].map(|function| Arc::new(function.into()))
    }

    /// Name of the function.
    pub(crate) const fn function(self) -> &'static str {
        match self {
            Self::Add => "spark_time_add",
            Self::Difference => "spark_time_diff",
        }
    }
}

/// True for the name of a unit, in any case.
pub(crate) fn is_unit(name: &str) -> bool {
    Length::of(&name.to_ascii_uppercase()).is_some()
}

impl ScalarUDFImpl for InUnits {
    fn name(&self) -> &str {
        self.function()
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let [_, second, third] = kinds else {
            return plan_err!("{} takes a unit and 2 arguments", self.name());
        };
        let time = |kind: &DataType| match kind {
            DataType::Timestamp(_, Some(_)) => {
                let error = Error::new(ErrorKind::Invalid, "not supported: a TIMESTAMPTZ beside a unit");
                Err(error
                    .with_hint("write t + INTERVAL 1 HOUR, or CAST(t AS TIMESTAMP) for the wall clock")
                    .into())
            }
            kind if kind.is_string()
                || kind.is_null()
                || matches!(kind, DataType::Timestamp(..) | DataType::Date32) =>
            {
                Ok(TIMESTAMP)
            }
            _ => plan_err!("{} takes times, and not a {kind}", self.name()),
        };
        let second = match self {
            Self::Add if second.is_integer() || second.is_null() || second.is_string() => DataType::Int64,
            Self::Add => return plan_err!("a number of units is an integer, and not a {second}"),
            Self::Difference => time(second)?,
        };
        Ok(vec![DataType::Utf8, second, time(third)?])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self {
            Self::Add => TIMESTAMP,
            Self::Difference => DataType::Int64,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| self.run(arrays))
    }
}

impl InUnits {
    fn run(self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let units = arrays[0].as_string::<i32>();
        let third = arrays[2].as_primitive::<TimestampMicrosecondType>();
        let unit = |name: Option<&str>| -> Result<Option<Length>> {
            let Some(name) = name else { return Ok(None) };
            match Length::of(&name.to_ascii_uppercase()) {
                Some(unit) => Ok(Some(unit)),
                None => plan_err!("{name} is no unit of time"),
            }
        };
        match self {
            Self::Add => {
                let numbers = arrays[1].as_primitive::<Int64Type>();
                let rows = units.iter().zip(numbers).zip(third).map(|((name, number), time)| {
                    let (Some(unit), Some(number), Some(time)) = (unit(name)?, number, time) else {
                        return Ok(None);
                    };
                    Ok(Some(later(unit, number, time).ok_or_else(|| out_of_range(number))?))
                });
                Ok(Arc::new(rows.collect::<Result<TimestampMicrosecondArray>>()?))
            }
            Self::Difference => {
                let from = arrays[1].as_primitive::<TimestampMicrosecondType>();
                let rows = units.iter().zip(from).zip(third).map(|((name, from), to)| {
                    let (Some(unit), Some(from), Some(to)) = (unit(name)?, from, to) else { return Ok(None) };
                    Ok(Some(between(unit, from, to).ok_or_else(|| out_of_range(to))?))
                });
                Ok(Arc::new(rows.collect::<Result<Int64Array>>()?))
            }
        }
    }
}

fn out_of_range(number: i64) -> Error {
    Error::new(ErrorKind::Invalid, format!("{number} units: the time is out of the calendar's range"))
}

fn later(unit: Length, number: i64, time: i64) -> Option<i64> {
    match unit {
        Length::Microseconds(length) => time.checked_add(length.checked_mul(number)?),
        Length::Months(length) => {
            let months = length.checked_mul(number)?;
            let time = as_datetime::<TimestampMicrosecondType>(time)?;
            let ahead = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
            let moved =
                if months < 0 { time.checked_sub_months(ahead) } else { time.checked_add_months(ahead) };
            Some(moved?.and_utc().timestamp_micros())
        }
    }
}

/// Whole units from one time to another: a month is one once the day of the month and the time of the day are reached.
fn between(unit: Length, from: i64, to: i64) -> Option<i64> {
    match unit {
        Length::Microseconds(length) => to.checked_sub(from).map(|span| span / length),
        Length::Months(length) => {
            let [from, to] = [
                as_datetime::<TimestampMicrosecondType>(from)?,
                as_datetime::<TimestampMicrosecondType>(to)?,
            ];
            // Months, and within them the time, in one order.
            let month = |time: NaiveDateTime| i64::from(time.year()) * 12 + i64::from(time.month0());
            let within = |time: NaiveDateTime| (time.day(), time.time());
            let mut months = month(to) - month(from);
            if months > 0 && within(to) < within(from) {
                months -= 1;
            } else if months < 0 && within(to) > within(from) {
                months += 1;
            }
            Some(months / length)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(text: &str) -> i64 {
        text.parse::<NaiveDateTime>().unwrap().and_utc().timestamp_micros()
    }

    /// The answers are those of Spark 4.3.
    #[test]
    fn months_are_whole_by_day_and_time() {
        for (unit, from, to, expected) in [
            ("MONTH", "2024-02-29T00:00:00", "2024-03-31T00:00:00", 1),
            ("MONTH", "2024-01-31T00:00:00", "2024-02-29T00:00:00", 0),
            ("MONTH", "2024-01-01T01:00:00", "2024-02-01T00:59:59", 0),
            ("MONTH", "2024-02-01T00:59:59", "2024-01-01T01:00:00", 0),
            ("MONTH", "2024-02-01T01:00:00", "2024-01-01T01:00:00", -1),
            ("QUARTER", "2023-08-10T01:02:03", "2022-01-14T01:02:03", -6),
            ("YEAR", "2020-02-29T00:00:00", "2024-02-28T00:00:00", 3),
            ("DAY", "2024-01-02T00:00:00", "2024-01-01T00:00:01", 0),
            ("WEEK", "2024-01-01T00:00:00", "2024-01-15T00:00:00", 2),
        ] {
            let found = between(Length::of(unit).unwrap(), micros(from), micros(to));
            assert_eq!(found, Some(expected), "{unit} {from} {to}");
        }
        assert_eq!(
            later(Length::of("MONTH").unwrap(), -1, micros("2024-03-31T01:00:00")),
            Some(micros("2024-02-29T01:00:00"))
        );
        assert_eq!(later(Length::of("DAY").unwrap(), i64::MAX, 0), None);
    }
}
