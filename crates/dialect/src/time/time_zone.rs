//! `AT TIME ZONE`, as in PostgreSQL and DuckDB: a timestamp with a zone becomes the wall clock there, one without a zone is taken for
//! the wall clock there.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use chrono::{Duration, LocalResult, NaiveDateTime, Offset, TimeZone};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    ArrowTimestampType, DataType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use datafusion::arrow::temporal_conversions::as_datetime;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::utils::take_function_args;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use yeoul_base::ErrorKind;

use super::interval_span::as_given;
use crate::Error;

/// The name of the function that `AT TIME ZONE` is, as in PostgreSQL.
pub(crate) const TIMEZONE: &str = "timezone";

/// True if a zone is UTC, in which a timestamp has the same number with it and without it.
pub(crate) fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "+00:00")
}

/// The function `timezone(zone, timestamp)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct TimeZoneFunction {
    /// The session's zone, of the timestamps with a zone that it makes.
    session: Arc<str>,
}

impl TimeZoneFunction {
    pub(crate) fn new(config: &ConfigOptions) -> Self {
        Self::of(config.execution.time_zone.as_deref().unwrap_or("UTC"))
    }

    /// The function of a session with this zone.
    pub(crate) fn of(session: &str) -> Self {
        Self { session: session.into() }
    }

    /// Zone of the session.
    pub(crate) fn session(&self) -> &str {
        &self.session
    }
}

impl ScalarUDFImpl for TimeZoneFunction {
    fn name(&self) -> &str {
        TIMEZONE
    }

    fn signature(&self) -> &Signature {
        static OF_TWO: LazyLock<Signature> = LazyLock::new(|| Signature::any(2, Volatility::Immutable));
        &OF_TWO
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        Some(Self::new(config).into())
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let [zone, time] = take_function_args(TIMEZONE, arguments)?;
        if !(zone.is_string() || zone.is_null()) {
            return Err(refused(&format!("a zone is a text, and not {zone}")));
        }
        match time {
            DataType::Timestamp(unit, Some(_)) => Ok(DataType::Timestamp(*unit, None)),
            DataType::Timestamp(unit, None) => {
                Ok(DataType::Timestamp(*unit, Some(Arc::clone(&self.session))))
            }
            other => Err(refused(&format!("AT TIME ZONE is of timestamps, and not of {other}"))),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let to = arguments.return_field.data_type().clone();
        let [zones, times] = take_function_args(TIMEZONE, arguments.args)?;
        let is_scalar = matches!((&zones, &times), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { rows };
        let (zones, times) = (cast(&zones.into_array(rows)?, &DataType::Utf8)?, times.into_array(rows)?);
        let moved = by_unit(&times, Moved { zones: zones.as_string(), to: &to })?;
        as_given(moved, is_scalar)
    }
}

fn refused(what: &str) -> datafusion::common::DataFusionError {
    let error = Error::new(ErrorKind::Invalid, what);
    error
        .with_hint(
            "write timestamp_column AT TIME ZONE 'Europe/Berlin'; cast a date or text to TIMESTAMP first",
        )
        .into()
}

/// Timestamps without a zone, in UTC, as the wall clock of `zone`, with that zone.
///
/// # Errors
/// `Invalid` for a zone that is not known.
pub(crate) fn into_zone(times: &ArrayRef, zone: &str) -> Result<ArrayRef> {
    let DataType::Timestamp(unit, _) = times.data_type() else { unreachable!("only timestamps have a zone") };
    let to = DataType::Timestamp(*unit, Some(zone.into()));
    by_unit(times, Moved { zones: &all(zone, times.len()), to: &to })
}

/// Timestamps with a zone as the wall clock there.
///
/// # Errors
/// `Invalid` for a zone that is not known.
pub(crate) fn out_of_own_zone(times: &ArrayRef) -> Result<ArrayRef> {
    let DataType::Timestamp(unit, Some(zone)) = times.data_type() else {
        unreachable!("of timestamps with a zone")
    };
    let to = DataType::Timestamp(*unit, None);
    by_unit(times, Moved { zones: &all(zone, times.len()), to: &to })
}

fn all(zone: &str, rows: usize) -> StringArray {
    StringArray::from_iter_values(std::iter::repeat_n(zone, rows))
}

/// Where timestamps move to: the zone of each row, and the type that they have then. If that has a zone, they are wall clocks before;
/// else they are afterwards.
struct Moved<'a> {
    zones: &'a StringArray,
    to: &'a DataType,
}

fn by_unit(times: &ArrayRef, moved: Moved<'_>) -> Result<ArrayRef> {
    match times.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => moved.times(times.as_primitive::<TimestampSecondType>()),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            moved.times(times.as_primitive::<TimestampMillisecondType>())
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            moved.times(times.as_primitive::<TimestampMicrosecondType>())
        }
        _ => moved.times(times.as_primitive::<TimestampNanosecondType>()),
    }
}

impl Moved<'_> {
    fn times<T: ArrowTimestampType>(&self, times: &PrimitiveArray<T>) -> Result<ArrayRef> {
        let is_from_wall_clock = matches!(self.to, DataType::Timestamp(_, Some(_)));
        let mut known: HashMap<&str, Tz> = HashMap::new();
        let mut moved = PrimitiveArray::<T>::builder(times.len());
        for (time, zone) in times.iter().zip(self.zones) {
            let (Some(time), Some(name)) = (time, zone) else {
                moved.append_null();
                continue;
            };
            let zone = match known.get(name) {
                Some(zone) => *zone,
                None => *known.entry(name).or_insert(parsed(name)?),
            };
            let there = as_datetime::<T>(time)
                .and_then(
                    |time| if is_from_wall_clock { instant(zone, time) } else { wall_clock(zone, time) },
                )
                .and_then(|time| T::from_naive_datetime(time, None));
            let out_of_range = || {
                Error::new(
                    ErrorKind::Invalid,
                    format!("a timestamp in '{name}' is out of the calendar's range"),
                )
            };
            moved.append_value(there.ok_or_else(out_of_range)?);
        }
        Ok(Arc::new(moved.finish().with_data_type(self.to.clone())))
    }
}

pub(super) fn parsed(name: &str) -> Result<Tz> {
    let zone = name.parse::<Tz>().map_err(|source| {
        Error::new(ErrorKind::Invalid, format!("there is no time zone '{name}'"))
            .with_hint("zones are 'Europe/Berlin', 'UTC' or '+02:00'")
            .with_source(source)
    });
    Ok(zone?)
}

fn wall_clock(zone: Tz, utc: NaiveDateTime) -> Option<NaiveDateTime> {
    utc.checked_add_offset(zone.offset_from_utc_datetime(&utc).fix())
}

/// The instant at which clocks in a zone show a time. Of the two at which they do when summer time ends, it is the later one; of a time
/// that they skip when it begins, it is what a clock that was not put forward would show. So have it PostgreSQL and DuckDB.
fn instant(zone: Tz, local: NaiveDateTime) -> Option<NaiveDateTime> {
    let offset = match zone.offset_from_local_datetime(&local) {
        LocalResult::Single(offset) => offset.fix(),
        LocalResult::Ambiguous(one, other) => {
            let (one, other) = (one.fix(), other.fix());
            if one.local_minus_utc() < other.local_minus_utc() { one } else { other }
        }
        LocalResult::None => {
            // No zone has two changes within a day.
            let before = local.checked_sub_signed(Duration::days(1))?;
            zone.offset_from_local_datetime(&before).earliest()?.fix()
        }
    };
    local.checked_sub_offset(offset)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::TimestampSecondArray;

    use super::*;

    fn seconds(text: &str) -> i64 {
        text.parse::<NaiveDateTime>().unwrap().and_utc().timestamp()
    }

    #[test]
    fn a_wall_clock_is_an_instant_also_when_clocks_change() {
        for (local, utc) in [
            ("2024-07-01T12:00:00", "2024-07-01T10:00:00"),
            ("2024-01-01T12:00:00", "2024-01-01T11:00:00"),
            // Skipped, and shown twice.
            ("2024-03-31T02:30:00", "2024-03-31T01:30:00"),
            ("2024-10-27T02:30:00", "2024-10-27T01:30:00"),
        ] {
            let times: ArrayRef = Arc::new(TimestampSecondArray::from(vec![seconds(local)]));
            let there = into_zone(&times, "Europe/Berlin").unwrap();
            assert_eq!(there.as_primitive::<TimestampSecondType>().values(), &[seconds(utc)], "{local}");
        }
    }

    #[test]
    fn the_wall_clock_of_a_zone_is_what_is_left_without_it() {
        let times = TimestampSecondArray::from(vec![Some(seconds("2024-07-01T12:00:00")), None]);
        let times: ArrayRef = Arc::new(times.with_timezone("Asia/Kolkata"));
        let there = out_of_own_zone(&times).unwrap();
        let there = there.as_primitive::<TimestampSecondType>();
        assert_eq!((there.value(0), there.is_null(1)), (seconds("2024-07-01T17:30:00"), true));
        assert_eq!(there.data_type(), &DataType::Timestamp(TimeUnit::Second, None));
    }

    #[test]
    fn an_unknown_zone_is_refused() {
        let times: ArrayRef = Arc::new(TimestampSecondArray::from(vec![0]));
        let error = into_zone(&times, "Europe/Nowhere").unwrap_err();
        assert!(error.to_string().contains("no time zone 'Europe/Nowhere'"), "{error}");
    }
}
