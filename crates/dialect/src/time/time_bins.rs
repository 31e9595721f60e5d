//! `date_trunc` and `date_bin` of times that have no number of nanoseconds.

use std::sync::Arc;

use chrono::{DateTime, Datelike, Months, NaiveDateTime};
use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::{cast, max, min};
use datafusion::arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};

use super::time_functions::{each, out_of_range};
use super::time_zone::is_utc;
use crate::Error;

/// Seconds of the 400 years after which the calendar repeats, its weekdays among it.
const CYCLE_S: i64 = 146_097 * 86_400;
/// The year 1800, from which nanoseconds reach over one whole cycle.
const CYCLE_START_S: i64 = -5_364_662_400;

/// DataFusion's `date_trunc`, of a time in another cycle of the calendar, too.
pub(super) fn truncated(mut arguments: ScalarFunctionArgs, inner: &ScalarUDF) -> Result<ColumnarValue> {
    let time = &arguments.args[1];
    let kind = time.data_type();
    let per_second = match &kind {
        DataType::Timestamp(unit, zone) if zone.as_deref().is_none_or(is_utc) => units_in_a_second(*unit),
        _ => return inner.invoke_with_args(arguments),
    };
    let (cycle, start) = (CYCLE_S * per_second, CYCLE_START_S * per_second);
    let times = cast(&time.to_array(arguments.number_rows)?, &DataType::Int64)?;
    let times = times.as_primitive::<Int64Type>();
    let is_near = |time: Option<i64>| time.is_none_or(|time| (start..start + cycle).contains(&time));
    if per_second == NANOSECONDS || (is_near(min(times)) && is_near(max(times))) {
        return inner.invoke_with_args(arguments);
    }
    let cycles: Int64Array = times.unary(|time| time.saturating_sub(start).div_euclid(cycle));
    let near: Int64Array = times.unary(|time| start + time.saturating_sub(start).rem_euclid(cycle));
    arguments.args[1] = ColumnarValue::Array(cast(&near, &kind)?);
    let near = inner.invoke_with_args(arguments)?.into_array(times.len())?;
    let near = cast(&near, &DataType::Int64)?;
    let near = near.as_primitive::<Int64Type>();
    let far = near.iter().zip(&cycles).map(|(near, cycles)| {
        let far = near.zip(cycles).map(|(near, cycles)| near.checked_add(cycles.checked_mul(cycle)?));
        far.map(|far| far.ok_or_else(|| out_of_range("a time that date_trunc cuts"))).transpose()
    });
    let far = far.collect::<Result<Int64Array, Error>>()?;
    Ok(ColumnarValue::Array(cast(&far, &kind)?))
}

/// DataFusion's `date_bin`, of coarser times in their own unit.
pub(super) fn binned(arguments: ScalarFunctionArgs, inner: &ScalarUDF) -> Result<ColumnarValue> {
    let kind = arguments.args[1].data_type();
    let (stride, origin) = (stride_of(&arguments.args[0]), origin_of(arguments.args.get(2)));
    let (DataType::Timestamp(unit, _), Some(stride), Some(origin)) = (&kind, stride, origin) else {
        return inner.invoke_with_args(arguments);
    };
    let per_unit = i128::from(NANOSECONDS / units_in_a_second(*unit));
    if per_unit == 1 {
        return inner.invoke_with_args(arguments);
    }
    each(&arguments.args[1], |times| {
        let times = cast(times, &DataType::Int64)?;
        let bins = times.as_primitive::<Int64Type>().try_unary::<_, Int64Type, Error>(|time| {
            let bin = stride.bin(i128::from(time) * per_unit, origin).map(|bin| bin.div_euclid(per_unit));
            let bin = bin.and_then(|bin| i64::try_from(bin).ok());
            bin.ok_or_else(|| out_of_range("the bin of a time"))
        })?;
        let bins: ArrayRef = Arc::new(bins);
        Ok(cast(&bins, &kind)?)
    })
}

const NANOSECONDS: i64 = 1_000_000_000;

fn units_in_a_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => NANOSECONDS,
    }
}

/// The width of a bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stride {
    Nanoseconds(i128),
    Months(i32),
}

impl Stride {
    /// The beginning of a time's bin, all in nanoseconds since 1970.
    fn bin(self, time: i128, origin: i128) -> Option<i128> {
        match self {
            Self::Nanoseconds(stride) => Some(time - (time - origin).rem_euclid(stride)),
            Self::Months(stride) => {
                let (time, origin) = (calendar(time)?, calendar(origin)?);
                let between =
                    (time.year() - origin.year()) * 12 + time.month0() as i32 - origin.month0() as i32;
                let months = between.div_euclid(stride) * stride;
                let bin = in_months(origin, months)?;
                // The origin may lie later in its month than the time does.
                let bin = if bin > time { in_months(origin, months - stride)? } else { bin };
                let bin = bin.and_utc();
                Some(
                    i128::from(bin.timestamp()) * i128::from(NANOSECONDS)
                        + i128::from(bin.timestamp_subsec_nanos()),
                )
            }
        }
    }
}

fn calendar(time: i128) -> Option<NaiveDateTime> {
    let seconds = i64::try_from(time.div_euclid(i128::from(NANOSECONDS))).ok()?;
    let rest = u32::try_from(time.rem_euclid(i128::from(NANOSECONDS))).ok()?;
    Some(DateTime::from_timestamp(seconds, rest)?.naive_utc())
}

fn in_months(time: NaiveDateTime, months: i32) -> Option<NaiveDateTime> {
    let count = Months::new(months.unsigned_abs());
    if months < 0 { time.checked_sub_months(count) } else { time.checked_add_months(count) }
}

/// The width of one size for all rows. What else there is, DataFusion refuses.
fn stride_of(stride: &ColumnarValue) -> Option<Stride> {
    let ColumnarValue::Scalar(stride) = stride else { return None };
    let of = |days: i32, nanoseconds: i128| i128::from(days) * 86_400 * i128::from(NANOSECONDS) + nanoseconds;
    let stride = match stride {
        ScalarValue::IntervalDayTime(Some(stride)) => {
            Stride::Nanoseconds(of(stride.days, i128::from(stride.milliseconds) * 1_000_000))
        }
        ScalarValue::IntervalMonthDayNano(Some(stride)) => {
            match (stride.months, of(stride.days, i128::from(stride.nanoseconds))) {
                (0, nanoseconds) => Stride::Nanoseconds(nanoseconds),
                (months, 0) => Stride::Months(months),
                _ => return None,
            }
        }
        _ => return None,
    };
    let is_forward = match stride {
        Stride::Nanoseconds(stride) => stride > 0,
        Stride::Months(stride) => stride > 0,
    };
    is_forward.then_some(stride)
}

/// The beginning of the bins, in nanoseconds since 1970.
fn origin_of(origin: Option<&ColumnarValue>) -> Option<i128> {
    match origin {
        None => Some(0),
        Some(ColumnarValue::Scalar(ScalarValue::TimestampNanosecond(origin, _))) => origin.map(i128::from),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_begin_at_or_before_their_times() {
        let day = 86_400 * i128::from(NANOSECONDS);
        let at = |text: &str| {
            let time = text.parse::<NaiveDateTime>().unwrap().and_utc();
            i128::from(time.timestamp()) * i128::from(NANOSECONDS)
        };
        for (stride, time, origin, expected) in [
            (Stride::Nanoseconds(day), "9999-12-31T23:59:59", "1970-01-01T00:00:00", "9999-12-31T00:00:00"),
            (
                Stride::Nanoseconds(7 * day),
                "0001-01-03T00:00:00",
                "2001-01-01T00:00:00",
                "0001-01-01T00:00:00",
            ),
            (Stride::Months(1), "0001-02-28T12:00:00", "1970-01-01T00:00:00", "0001-02-01T00:00:00"),
            (Stride::Months(12), "9999-06-01T00:00:00", "2000-07-01T00:00:00", "9998-07-01T00:00:00"),
            (Stride::Months(1), "2024-03-10T00:00:00", "2024-01-15T00:00:00", "2024-02-15T00:00:00"),
            (Stride::Months(1), "2023-12-10T00:00:00", "2024-01-15T00:00:00", "2023-11-15T00:00:00"),
        ] {
            assert_eq!(
                stride.bin(at(time), at(origin)),
                Some(at(expected)),
                "{stride:?} of {time} from {origin}"
            );
        }
    }
}
