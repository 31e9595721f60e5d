//! Intervals as numbers of a unit, and the reverse, as Spark casts them.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Int64Array, IntervalMonthDayNanoArray,
};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use datafusion::sql::sqlparser::ast::{Expr, Ident, Value};
use yeoul_base::ErrorKind;

use super::interval_span::INTERVAL;
use crate::Error;
use crate::parse::function_call::function_call;
use crate::signatures::USER_DEFINED;
use crate::text::rows::invoke;
use crate::types::type_name;

const MICROSECOND: i128 = 1_000;
const DAY: i128 = 86_400_000_000;

/// Units, with their months or their microseconds.
pub(crate) const UNITS: [(&str, i128, i128); 6] = [
    ("year", 12, 0),
    ("month", 1, 0),
    ("day", 0, DAY),
    ("hour", 0, 3_600_000_000),
    ("minute", 0, 60_000_000),
    ("second", 0, 1_000_000),
];

/// The digits behind the point of a count.
const SCALE: i128 = 1_000_000;

/// `spark_interval_count(interval, unit)`: units, of seconds with microseconds; `spark_interval_whole(interval, unit)`: whole ones.
/// `spark_interval_of(number, unit)`: so many units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum IntervalUnits {
    Count,
    CountWhole,
    Of,
}

impl IntervalUnits {
    /// All of these functions.
    pub(crate) fn all() -> impl Iterator<Item = Arc<ScalarUDF>> {
        [Self::Count, Self::CountWhole, Self::Of].into_iter().map(|function| Arc::new(function.into()))
    }

    /// The call for a value and the name of a unit.
    pub(crate) fn call(self, value: Expr, unit: &str) -> Expr {
        let unit = Expr::value(Value::SingleQuotedString(unit.to_owned()));
        function_call(Ident::new(self.function()), [value, unit])
    }

    const fn function(self) -> &'static str {
        match self {
            Self::Count => "spark_interval_count",
            Self::CountWhole => "spark_interval_whole",
            Self::Of => "spark_interval_of",
        }
    }
}

fn unit_of(name: &str) -> Result<(i128, i128), Error> {
    let found = UNITS.iter().find(|(unit, _, _)| unit.eq_ignore_ascii_case(name));
    found
        .map(|(_, months, micros)| (*months, *micros))
        .ok_or_else(|| Error::new(ErrorKind::Invalid, format!("'{name}' is no unit of an interval")))
}

/// An interval in millionths of a unit. Other units than seconds are whole.
fn count(interval: IntervalMonthDayNano, (months, micros): (i128, i128)) -> Result<i128, Error> {
    let time = i128::from(interval.days) * DAY + i128::from(interval.nanoseconds) / MICROSECOND;
    if (months > 0 && time != 0) || (micros > 0 && interval.months != 0) {
        let error = Error::new(ErrorKind::Invalid, "an interval of months is none of days and time");
        return Err(error.with_hint("extract its parts"));
    }
    Ok(match months {
        0 if micros == SCALE => time,
        0 => time / micros * SCALE,
        months => i128::from(interval.months) / months * SCALE,
    })
}

/// The interval of a number of units, in `scale` parts of one: of years and months rounded to months, of seconds to microseconds. `None`
/// where it is too long. Spark keeps parts of days, hours and minutes, and does not show them.
fn interval(number: i128, scale: i128, (months, micros): (i128, i128)) -> Option<IntervalMonthDayNano> {
    let rounded = |number: i128| {
        let (whole, rest) = (number / scale, number % scale);
        if rest.abs() * 2 >= scale { whole + rest.signum() } else { whole }
    };
    if months > 0 {
        let months = i32::try_from(rounded(number.checked_mul(months)?)).ok()?;
        return Some(IntervalMonthDayNano::new(months, 0, 0));
    }
    let micros = match micros {
        SCALE => rounded(number.checked_mul(micros)?),
        micros => (number / scale).checked_mul(micros)?,
    };
    i64::try_from(micros).ok()?;
    let days = i32::try_from(micros / DAY).ok()?;
    Some(IntervalMonthDayNano::new(0, days, i64::try_from(micros % DAY * MICROSECOND).ok()?))
}

impl ScalarUDFImpl for IntervalUnits {
    fn name(&self) -> &str {
        self.function()
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let [value, unit] = kinds else { return plan_err!("{} takes a value and a unit", self.function()) };
        if !unit.is_string() {
            return plan_err!("{} takes the name of a unit", self.function());
        }
        let value = match (self, value) {
            (Self::Count | Self::CountWhole, _) => INTERVAL,
            (Self::Of, DataType::Decimal128(..)) => value.clone(),
            (Self::Of, kind) if kind.is_integer() || kind.is_null() => DataType::Decimal128(20, 0),
            (Self::Of, other) => {
                let text = format!("not supported: a cast of {} to an INTERVAL of fields", type_name(other));
                let error = Error::new(ErrorKind::Invalid, text);
                return Err(error.with_hint("write an interval: INTERVAL '1-2' YEAR TO MONTH").into());
            }
        };
        Ok(vec![value, DataType::Utf8])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self {
            Self::Count => DataType::Decimal128(25, 6),
            Self::CountWhole => DataType::Int64,
            Self::Of => INTERVAL,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| {
            let units = arrays[1].as_string::<i32>();
            let rows = (0..arrays[0].len()).map(|row| {
                if arrays[0].is_null(row) || units.is_null(row) {
                    return Ok(None);
                }
                unit_of(units.value(row)).map(|unit| Some((row, unit)))
            });
            Ok(match self {
                Self::Count | Self::CountWhole => {
                    let intervals = arrays[0].as_primitive::<IntervalMonthDayNanoType>();
                    let counts = rows.map(|row: Result<_, Error>| {
                        row?.map(|(row, unit)| count(intervals.value(row), unit)).transpose()
                    });
                    let counts = counts.collect::<Result<Decimal128Array, Error>>()?;
                    if *self == Self::CountWhole {
                        let whole = |count: i128| i64::try_from(count / SCALE).ok();
                        let wholes = counts.iter().map(|count| count.and_then(whole));
                        return Ok(Arc::new(wholes.collect::<Int64Array>()));
                    }
                    Arc::new(counts.with_precision_and_scale(25, 6)?) as ArrayRef
                }
                Self::Of => {
                    let scale = match arrays[0].data_type() {
                        DataType::Decimal128(_, scale) => 10_i128.pow(u32::from(scale.unsigned_abs())),
                        _ => 1,
                    };
                    let numbers = arrays[0].as_primitive::<Decimal128Type>();
                    let intervals = rows.map(|row: Result<_, Error>| {
                        let Some((row, unit)) = row? else { return Ok(None) };
                        if numbers.value(row) % scale != 0 && unit.0 == 0 && unit.1 != SCALE {
                            let text = "not supported: a part of a day, an hour or a minute as an INTERVAL";
                            return Err(
                                Error::new(ErrorKind::Invalid, text).with_hint("cast a number of seconds")
                            );
                        }
                        interval(numbers.value(row), scale, unit).map(Some).ok_or_else(|| {
                            Error::new(ErrorKind::Invalid, "an interval is too long")
                                .with_hint("months have 32 bits, microseconds 64")
                        })
                    });
                    Arc::new(intervals.collect::<Result<IntervalMonthDayNanoArray, Error>>()?)
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers are those of Spark's tests.
    #[test]
    fn intervals_are_numbers_of_a_unit() {
        let unit = |name: &str| unit_of(name).unwrap();
        let counted = |months, days, nanoseconds, name: &str| {
            count(IntervalMonthDayNano::new(months, days, nanoseconds), unit(name)).ok()
        };
        assert_eq!(counted(-122, 0, 0, "month"), Some(-122 * SCALE));
        assert_eq!(counted(19, 0, 0, "YEAR"), Some(SCALE));
        assert_eq!(counted(0, -1, -7_384_123_000_000, "second"), Some(-93_784_123_000));
        assert_eq!(counted(0, 1, 3_600_000_000_000, "day"), Some(SCALE));
        assert_eq!(counted(1, 0, 0, "day"), None);
        let made = |number, scale, name: &str| {
            interval(number, scale, unit(name)).map(|found| (found.months, found.days, found.nanoseconds))
        };
        assert_eq!(made(-122, 1, "month"), Some((-122, 0, 0)));
        assert_eq!(made(10_654_321, SCALE, "month"), Some((11, 0, 0)));
        assert_eq!(made(-10_123_456, SCALE, "second"), Some((0, 0, -10_123_456_000)));
        assert_eq!(made(80_000_000, SCALE, "minute"), Some((0, 0, 4_800_000_000_000)));
        assert_eq!(made(i128::from(i32::MAX), 1, "year"), None);
    }
}
