//! `months_between`, `next_day` and `make_timestamp`.

use std::sync::{Arc, LazyLock};

use chrono::NaiveDateTime;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Float64Array, TimestampMicrosecondArray,
};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Date32Type, Decimal128Type, Int64Type, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::arrow::temporal_conversions::as_datetime;
use datafusion::common::{Result, plan_err};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_DATETIME;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use yeoul_base::ErrorKind;

use super::calendar::{months_between, next_day, time_of, weekday};
use super::interval_span::as_given;
use crate::Error;
use crate::signatures::USER_DEFINED;

const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

static MONTHS_BETWEEN: LazyLock<Documentation> = LazyLock::new(|| {
    let text = "Months from the second time to the first, with a fraction of 31 days unless both are on the same day of a month, or on its last one. It has eight digits; all, if the third argument is false.";
    Documentation::builder(DOC_SECTION_DATETIME, text, "months_between(later, earlier[, rounded])").build()
});

static NEXT_DAY: LazyLock<Documentation> = LazyLock::new(|| {
    let text = "First date after another one that is such a day of the week: 'Mo', 'Mon' or 'Monday'.";
    Documentation::builder(DOC_SECTION_DATETIME, text, "next_day(d, day)").build()
});

static MAKE_TIMESTAMP: LazyLock<Documentation> = LazyLock::new(|| {
    let text = "Timestamp of its parts, or of microseconds since 1970.";
    Documentation::builder(
        DOC_SECTION_DATETIME,
        text,
        "make_timestamp(year, month, day, hour, minute, seconds)",
    )
    .build()
});

/// Adds these functions.
///
/// # Errors
/// Those of the registry.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for function in CalendarFunction::ALL {
        state.register_udf(Arc::new(ScalarUDF::from(function)))?;
    }
    Ok(())
}

/// A function of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CalendarFunction {
    /// As in Spark.
    MonthsBetween,
    /// As in Spark.
    NextDay,
    /// As in Spark and DuckDB, which agree about six arguments; with one it is DuckDB's.
    MakeTimestamp,
    /// `spark_try_make_timestamp(…)`: null where the parts are no time.
    TryMakeTimestamp,
}

impl CalendarFunction {
    const ALL: [Self; 4] = [Self::MonthsBetween, Self::NextDay, Self::MakeTimestamp, Self::TryMakeTimestamp];

    fn run(self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        match self {
            Self::MonthsBetween => between(arrays),
            Self::NextDay => next_days(arrays),
            Self::TryMakeTimestamp => times(arrays, true),
            Self::MakeTimestamp => match arrays {
                [microseconds] => Ok(Arc::new(
                    microseconds.as_primitive::<Int64Type>().reinterpret_cast::<TimestampMicrosecondType>(),
                )),
                parts => times(parts, false),
            },
        }
    }
}

/// The calendar's time of a number.
fn calendar_time(microseconds: i64) -> Result<NaiveDateTime> {
    Ok(as_datetime::<TimestampMicrosecondType>(microseconds).ok_or_else(|| {
        let text = format!("a timestamp of {microseconds} microseconds is out of the calendar's range");
        Error::new(ErrorKind::Invalid, text)
    })?)
}

fn between(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let [later, earlier] = [0, 1].map(|place| arrays[place].as_primitive::<TimestampMicrosecondType>());
    let rounded: Option<&BooleanArray> = arrays.get(2).map(|array| array.as_boolean());
    let months = (0..later.len()).map(|row| {
        let is_null =
            later.is_null(row) || earlier.is_null(row) || rounded.is_some_and(|rounded| rounded.is_null(row));
        if is_null {
            return Ok(None);
        }
        let is_rounded = rounded.is_none_or(|rounded| rounded.value(row));
        let [later, earlier] = [calendar_time(later.value(row))?, calendar_time(earlier.value(row))?];
        Ok(Some(months_between(later, earlier, is_rounded)))
    });
    Ok(Arc::new(months.collect::<Result<Float64Array>>()?))
}

fn next_days(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let (dates, names) = (arrays[0].as_primitive::<Date32Type>(), arrays[1].as_string::<i32>());
    let days = dates.iter().zip(names).map(|(date, name)| {
        let (Some(date), Some(name)) = (date, name) else { return Ok(None) };
        let day = weekday(name).ok_or_else(|| {
            Error::new(ErrorKind::Invalid, format!("'{name}' is no day of the week"))
                .with_hint("write 'Mo', 'Mon' or 'Monday'")
        })?;
        let next = Date32Type::to_naive_date_opt(date).and_then(|date| next_day(date, day));
        let next = next.ok_or_else(|| {
            Error::new(
                ErrorKind::Invalid,
                format!("the day {date} after 1970-01-01 is out of the calendar's range"),
            )
        })?;
        Ok(Some(Date32Type::from_naive_date(next)))
    });
    Ok(Arc::new(days.collect::<Result<Date32Array>>()?))
}

/// Times of parts. One that is none is null or an error.
fn times(arrays: &[ArrayRef], or_null: bool) -> Result<ArrayRef> {
    let parts: Vec<_> = arrays[..5].iter().map(|array| array.as_primitive::<Int64Type>()).collect();
    // A number beyond that is an error, and not null.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let seconds =
        cast_with_options(&arrays[5], &DataType::Decimal128(DECIMAL128_MAX_PRECISION, 6), &options)?;
    let seconds = seconds.as_primitive::<Decimal128Type>();
    let times = (0..seconds.len()).map(|row| {
        if seconds.is_null(row) || parts.iter().any(|part| part.is_null(row)) {
            return Ok(None);
        }
        let of_row = [0, 1, 2, 3, 4].map(|place: usize| parts[place].value(row));
        let time = i64::try_from(seconds.value(row)).ok().and_then(|second| time_of(of_row, second));
        if time.is_none() && or_null {
            return Ok(None);
        }
        let time = time.ok_or_else(|| {
            let [year, month, day, hour, minute] = of_row;
            let second = seconds.value_as_string(row);
            let text =
                format!("make_timestamp({year}, {month}, {day}, {hour}, {minute}, {second}) is no time");
            Error::new(ErrorKind::Invalid, text)
        })?;
        Ok(Some(time.and_utc().timestamp_micros()))
    });
    Ok(Arc::new(times.collect::<Result<TimestampMicrosecondArray>>()?))
}

impl ScalarUDFImpl for CalendarFunction {
    fn name(&self) -> &str {
        match self {
            Self::MonthsBetween => "months_between",
            Self::NextDay => "next_day",
            Self::MakeTimestamp => "make_timestamp",
            Self::TryMakeTimestamp => "spark_try_make_timestamp",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let is_time = |kind: &DataType| {
            matches!(kind, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64)
                || kind.is_string()
                || kind.is_null()
        };
        let is_integer = |kind: &DataType| kind.is_integer() || kind.is_null();
        match (self, kinds) {
            (Self::MonthsBetween, [later, earlier, rest @ ..])
                if is_time(later)
                    && is_time(earlier)
                    && matches!(rest, [] | [DataType::Boolean | DataType::Null]) =>
            {
                Ok([TIMESTAMP, TIMESTAMP].into_iter().chain(rest.iter().map(|_| DataType::Boolean)).collect())
            }
            (Self::NextDay, [date, name]) if is_time(date) && (name.is_string() || name.is_null()) => {
                Ok(vec![DataType::Date32, DataType::Utf8])
            }
            (Self::MakeTimestamp, [microseconds]) if is_integer(microseconds) => Ok(vec![DataType::Int64]),
            (Self::MakeTimestamp | Self::TryMakeTimestamp, [parts @ .., seconds])
                if parts.len() == 5
                    && parts.iter().all(is_integer)
                    && (seconds.is_numeric() || seconds.is_null()) =>
            {
                let seconds = match seconds {
                    DataType::Float16 | DataType::Float32 | DataType::Null => DataType::Float64,
                    kind if kind.is_integer() => DataType::Int64,
                    kind => kind.clone(),
                };
                Ok(std::iter::repeat_n(DataType::Int64, 5).chain([seconds]).collect())
            }
            (Self::MonthsBetween, _) => {
                plan_err!("months_between takes two dates or timestamps, and a BOOLEAN")
            }
            (Self::NextDay, _) => plan_err!("next_day takes a date and the name of a day"),
            (Self::MakeTimestamp | Self::TryMakeTimestamp, _) => {
                plan_err!("make_timestamp takes year, month, day, hour, minute and seconds, or microseconds")
            }
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self {
            Self::MonthsBetween => DataType::Float64,
            Self::NextDay => DataType::Date32,
            Self::MakeTimestamp | Self::TryMakeTimestamp => TIMESTAMP,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        as_given(self.run(&ColumnarValue::values_to_arrays(&arguments.args)?)?, is_scalar)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(match self {
            Self::MonthsBetween => &MONTHS_BETWEEN,
            Self::NextDay => &NEXT_DAY,
            Self::MakeTimestamp => &MAKE_TIMESTAMP,
            Self::TryMakeTimestamp => return None,
        })
    }
}
