//! Casts between times and texts or numbers, and between times with and without a zone, where Arrow's differ from what PostgreSQL, Spark and
//! DuckDB agree on.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, IntervalMonthDayNanoArray, ListArray, StringArray, StringBuilder,
};
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use serde::{Deserialize, Serialize};
use yeoul_base::ErrorKind;

use super::interval_span::{INTERVAL, as_given};
use super::interval_text;
use super::time_text::{formatter, text_options};
use super::time_zone::{self, is_utc};
use crate::Error;

/// A cast that stands in the place of Arrow's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct TimeCast {
    kind: Kind,
    #[serde(with = "crate::sent::data_type")]
    to: DataType,
    /// True if a value that cannot be cast is null (`TRY_CAST`), and not an error.
    or_null: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Kind {
    /// A time, or something that contains one, as text.
    TimeToText,
    TextToTimestamp,
    TextToInterval,
    /// A timestamp without a zone in that of the type.
    IntoZone,
    /// The wall clock of a timestamp's zone.
    OutOfZone,
    TextToTime,
    /// A number of seconds, whatever the unit of the timestamp.
    SecondsToTimestamp,
    /// The whole seconds of a timestamp, whatever its unit.
    TimestampToSeconds,
    /// Such a cast of each element of a list.
    Elements,
}

impl TimeCast {
    /// The cast that replaces Arrow's between two types. `None` if Arrow's is right.
    pub(crate) fn between(from: &DataType, to: &DataType, or_null: bool) -> Option<Self> {
        let kind = match (from, to) {
            (from, to) if to.is_string() && contains_time(from) => Kind::TimeToText,
            (from, DataType::Timestamp(..)) if from.is_string() => Kind::TextToTimestamp,
            (from, to) if from.is_string() && *to == INTERVAL => Kind::TextToInterval,
            // Arrow's is right where clocks never change, and the optimizer knows it.
            (DataType::Timestamp(_, None), DataType::Timestamp(_, Some(zone))) if !is_utc(zone) => {
                Kind::IntoZone
            }
            (DataType::Timestamp(_, Some(_)), DataType::Timestamp(_, None)) => Kind::OutOfZone,
            (from, DataType::Time32(_) | DataType::Time64(_)) if from.is_string() => Kind::TextToTime,
            (from, DataType::Timestamp(unit, _)) if from.is_integer() && *unit != TimeUnit::Second => {
                Kind::SecondsToTimestamp
            }
            (DataType::Timestamp(..), to) if to.is_integer() => Kind::TimestampToSeconds,
            (DataType::List(from), DataType::List(to)) => {
                Self::between(from.data_type(), to.data_type(), or_null)?;
                Kind::Elements
            }
            _ => return None,
        };
        Some(Self { kind, to: to.clone(), or_null })
    }

    pub(crate) fn call(self, expr: Expr) -> Expr {
        ScalarUDF::from(self).call(vec![expr])
    }

    /// Casts an array of the type that the cast was made for.
    ///
    /// # Errors
    /// `Invalid` for a value that cannot be cast.
    pub(crate) fn run(&self, values: &ArrayRef) -> Result<ArrayRef> {
        match self.kind {
            Kind::TimeToText => self.time_to_text(values),
            Kind::TextToTimestamp => self.text_to_timestamp(values),
            Kind::TextToInterval => self.text_to_interval(values),
            Kind::IntoZone => {
                let DataType::Timestamp(unit, zone) = &self.to else { unreachable!("of `between`") };
                let values = self.cast(values, &DataType::Timestamp(*unit, None))?;
                Ok(time_zone::into_zone(&values, zone.as_deref().unwrap_or("UTC"))?)
            }
            Kind::OutOfZone => self.cast(&time_zone::out_of_own_zone(values)?, &self.to),
            Kind::TextToTime => self.text_to_time(values),
            Kind::SecondsToTimestamp => {
                let DataType::Timestamp(_, zone) = &self.to else { unreachable!("of `between`") };
                let seconds = self.cast(values, &DataType::Timestamp(TimeUnit::Second, zone.clone()))?;
                self.cast(&seconds, &self.to)
            }
            Kind::Elements => {
                let list = values.as_list::<i32>();
                let DataType::List(element) = &self.to else { unreachable!("of `between`") };
                let (from, to) = (list.value_type(), element.data_type());
                let elements = match Self::between(&from, to, self.or_null) {
                    Some(cast) => cast.run(list.values())?,
                    None => unreachable!("of `between`"),
                };
                let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
                Ok(Arc::new(ListArray::try_new(Arc::clone(element), offsets, elements, nulls)?))
            }
            Kind::TimestampToSeconds => {
                let DataType::Timestamp(unit, _) = values.data_type() else { unreachable!("of `between`") };
                let in_a_second = match unit {
                    TimeUnit::Second => 1,
                    TimeUnit::Millisecond => 1_000,
                    TimeUnit::Microsecond => 1_000_000,
                    TimeUnit::Nanosecond => 1_000_000_000,
                };
                let counts = cast(values, &DataType::Int64)?;
                let seconds = counts.as_primitive::<Int64Type>();
                self.cast(&seconds.unary::<_, Int64Type>(|count| count.div_euclid(in_a_second)), &self.to)
            }
        }
    }

    fn cast(&self, values: &dyn Array, to: &DataType) -> Result<ArrayRef> {
        let options = CastOptions { safe: self.or_null, ..CastOptions::default() };
        Ok(cast_with_options(values, to, &options)?)
    }

    fn time_to_text(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let options = text_options().with_display_error(false);
        let formatter = formatter(values.as_ref(), &options)?;
        let nulls = values.logical_nulls();
        let mut texts = StringBuilder::new();
        let mut text = String::new();
        for row in 0..values.len() {
            text.clear();
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                texts.append_null();
                continue;
            }
            match formatter.value(row).write(&mut text) {
                Ok(()) => texts.append_value(&text),
                Err(_) if self.or_null => texts.append_null(),
                Err(error) => return Err(error.into()),
            }
        }
        self.cast(&texts.finish(), &self.to)
    }

    /// Arrow takes a number alone for one of the type's own units.
    fn text_to_time(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let texts = cast(values, &DataType::Utf8)?;
        let is_time = |text: &&str| text.contains(':');
        let others = texts.as_string::<i32>().iter().flatten().find(|text| !is_time(text));
        match others {
            None => self.cast(&texts, &self.to),
            Some(text) if !self.or_null => {
                let error = Error::new(ErrorKind::Invalid, format!("'{text}' is no time of day"));
                Err(error.with_hint("a time is written as '10:00' or '10:00:00.5'").into())
            }
            Some(_) => {
                let times: StringArray =
                    texts.as_string::<i32>().iter().map(|text| text.filter(is_time)).collect();
                self.cast(&times, &self.to)
            }
        }
    }

    /// Refuses a text with a zone for a timestamp that has none: Arrow moves it to UTC, PostgreSQL and DuckDB leave the zone out.
    fn without_zones(&self, values: &ArrayRef) -> Result<Option<ArrayRef>> {
        let texts = cast(values, &DataType::Utf8)?;
        let texts = texts.as_string::<i32>();
        let Some(text) = texts.iter().flatten().find(|text| has_other_zone(text)) else { return Ok(None) };
        if self.or_null {
            let others: StringArray =
                texts.iter().map(|text| text.filter(|text| !has_other_zone(text))).collect();
            return Ok(Some(Arc::new(others)));
        }
        let error = Error::new(ErrorKind::Invalid, format!("'{text}' has a zone, and a TIMESTAMP has none"));
        let hint = "cast it to TIMESTAMPTZ, of which AT TIME ZONE 'Europe/Berlin' gives the wall clock there";
        Err(error.with_hint(hint).into())
    }

    fn text_to_timestamp(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let without_zones = match &self.to {
            DataType::Timestamp(_, None) => self.without_zones(values)?,
            _ => None,
        };
        let values = without_zones.as_ref().unwrap_or(values);
        let read = cast(values, &self.to)?;
        if read.null_count() == values.logical_null_count() {
            return Ok(read);
        }
        // What Arrow did not read, once more with what it misses.
        let texts = cast(values, &DataType::Utf8)?;
        let texts = texts.as_string::<i32>();
        let completed: StringArray = texts.iter().map(|text| text.map(completed)).collect();
        let read = cast(&completed, &self.to)?;
        let unread = (0..texts.len()).find(|row| read.is_null(*row) && texts.is_valid(*row));
        match unread {
            Some(row) if !self.or_null => {
                Err(self.no_timestamp(texts.value(row), completed.value(row)).into())
            }
            _ => Ok(read),
        }
    }

    fn no_timestamp(&self, text: &str, completed: &str) -> Error {
        let DataType::Timestamp(_, zone) = &self.to else { unreachable!("of `between`") };
        let coarse = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
        let exists = cast(&StringArray::from(vec![completed]), &coarse).is_ok_and(|read| read.is_valid(0));
        if exists {
            let what = format!(
                "'{text}' is not between the years 1677 and 2262, where a TIMESTAMP of nanoseconds ends"
            );
            return Error::new(ErrorKind::Invalid, what).with_hint("TIMESTAMP(6) reaches farther");
        }
        let error = Error::new(ErrorKind::Invalid, format!("'{text}' is no timestamp"));
        error.with_hint(
            "a timestamp is written as '2024-01-05 10:00:00', or '2024-01-05 10:00:00+01' with an offset",
        )
    }

    fn text_to_interval(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let texts = cast(values, &DataType::Utf8)?;
        let intervals = texts.as_string::<i32>().iter().map(|text| match text.map(interval_text::parse) {
            None => Ok(None),
            Some(Ok(interval)) => Ok(Some(interval)),
            Some(Err(_)) if self.or_null => Ok(None),
            Some(Err(error)) => Err(error),
        });
        let intervals: IntervalMonthDayNanoArray = intervals.collect::<Result<_, Error>>()?;
        Ok(Arc::new(intervals))
    }
}

/// True if a text ends with a zone or an offset, other than that of UTC.
fn has_other_zone(text: &str) -> bool {
    let Some((date, rest)) = text.trim().split_once([' ', 'T', 't']) else { return false };
    if date.is_empty() || !date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        return false;
    }
    let ends = |c: char| !(c.is_ascii_digit() || matches!(c, ':' | '.' | ','));
    let zone = rest.find(ends).map_or("", |place| rest[place..].trim());
    let is_utc = zone.eq_ignore_ascii_case("Z") || zone.eq_ignore_ascii_case("UTC");
    let is_zero = zone.starts_with(['+', '-']) && zone[1..].bytes().all(|byte| matches!(byte, b'0' | b':'));
    !(zone.is_empty() || is_utc || is_zero)
}

/// Whether Arrow's text of a value of this type contains a timestamp or a time of day; or, within a list or struct, any time, of
/// which it would write an error's text if it is out of range.
fn contains_time(of: &DataType) -> bool {
    fn within(of: &DataType) -> bool {
        match of {
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _)
            | DataType::Map(item, _) => within(item.data_type()),
            DataType::Struct(fields) => fields.iter().any(|field| within(field.data_type())),
            DataType::Dictionary(_, value) => within(value),
            other => other.is_temporal(),
        }
    }
    match of {
        DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_) => true,
        DataType::Dictionary(_, value) => contains_time(value),
        other => other.is_nested() && within(other),
    }
}

/// The text of a timestamp with two digits in each field, and with seconds, as in `2024-1-5 9:05`. Other texts as they are.
fn completed(text: &str) -> String {
    let full = || -> Option<String> {
        let (date, rest) = text.trim().split_once([' ', 'T'])?;
        let ends = |c: char| !(c.is_ascii_digit() || c == ':' || c == '.');
        let (time, zone) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
        let mut days = date.rsplitn(3, '-');
        let (day, month, year) = (days.next()?, days.next()?, days.next()?);
        let mut fields = time.split(':');
        let (hour, minute, second) = (fields.next()?, fields.next()?, fields.next().unwrap_or("00"));
        let two = |field: &str| if field.len() == 1 { format!("0{field}") } else { field.to_owned() };
        let second = match second.split_once('.') {
            Some((whole, fraction)) => format!("{}.{fraction}", two(whole)),
            None => two(second),
        };
        let [day, month, hour, minute] = [day, month, hour, minute].map(two);
        fields.next().is_none().then(|| format!("{year}-{month}-{day} {hour}:{minute}:{second}{zone}"))
    };
    full().unwrap_or_else(|| text.to_owned())
}

impl ScalarUDFImpl for TimeCast {
    fn name(&self) -> &str {
        match self.kind {
            Kind::TimeToText => "time_to_text",
            Kind::TextToTimestamp => "text_to_timestamp",
            Kind::TextToInterval => "text_to_interval",
            Kind::IntoZone => "into_zone",
            Kind::OutOfZone => "out_of_zone",
            Kind::TextToTime => "text_to_time",
            Kind::SecondsToTimestamp => "seconds_to_timestamp",
            Kind::TimestampToSeconds => "timestamp_to_seconds",
            Kind::Elements => "time_elements",
        }
    }

    fn signature(&self) -> &Signature {
        static OF_ONE: LazyLock<Signature> = LazyLock::new(|| Signature::any(1, Volatility::Immutable));
        &OF_ONE
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [values] = take_function_args(self.name(), arguments.args)?;
        if let ColumnarValue::Scalar(value) = &values
            && value.is_null()
        {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(&self.to)?));
        }
        let is_scalar = matches!(values, ColumnarValue::Scalar(_));
        as_given(self.run(&values.into_array(1)?)?, is_scalar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_needs_no_seconds_and_no_leading_zeros() {
        for (written, expected) in [
            ("2024-01-05 10:00", "2024-01-05 10:00:00"),
            ("2024-1-5T9:5", "2024-01-05 09:05:00"),
            ("2024-01-05 10:00+02", "2024-01-05 10:00:00+02"),
            ("2024-01-05 10:00 Europe/Berlin", "2024-01-05 10:00:00 Europe/Berlin"),
            ("2024-01-05 9:05:1.25Z", "2024-01-05 09:05:01.25Z"),
            ("-0044-3-15 9:00", "-0044-03-15 09:00:00"),
            ("today", "today"),
            ("2024-01-05", "2024-01-05"),
            ("2024-01-05 10", "2024-01-05 10"),
            ("2024-01-05 10:00:00:00", "2024-01-05 10:00:00:00"),
        ] {
            assert_eq!(completed(written), expected);
        }
    }

    #[test]
    fn a_zone_that_a_timestamp_has_not_is_seen() {
        for text in [
            "2024-01-05 10:00+02",
            "2024-01-05T10:00:00.5-01:30",
            "2024-01-05 10:00 EST",
            "2024-01-05 Europe/Berlin",
        ] {
            assert!(has_other_zone(text), "{text}");
        }
        for text in [
            "2024-01-05 10:00",
            "2024-01-05T10:00Z",
            "2024-01-05 10:00+00:00",
            "2024-01-05 10:00 UTC",
            "2024-01-05",
            "-0044-03-15",
            "tomorrow",
        ] {
            assert!(!has_other_zone(text), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_cast_is_an_error_or_null() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("2024-01-05 10:00"), None, Some("soon")]));
        let to = DataType::Timestamp(TimeUnit::Microsecond, None);
        let cast = |or_null| TimeCast::between(&DataType::Utf8, &to, or_null).unwrap();
        let error = cast(false).run(&texts).unwrap_err().to_string();
        assert!(error.contains("'soon' is no timestamp"), "{error}");
        let read = cast(true).run(&texts).unwrap();
        assert_eq!((0..3).map(|row| read.is_valid(row)).collect::<Vec<_>>(), [true, false, false]);
        let to = DataType::Timestamp(TimeUnit::Nanosecond, None);
        let far: ArrayRef = Arc::new(StringArray::from(vec!["9999-12-31 00:00"]));
        let error = TimeCast::between(&DataType::Utf8, &to, false).unwrap().run(&far).unwrap_err();
        assert!(error.to_string().contains("between the years"), "{error}");
    }

    #[test]
    fn other_casts_are_arrows() {
        for (from, to) in [
            (DataType::Date32, DataType::Utf8),
            (DataType::Utf8, DataType::Date32),
            (DataType::Int64, DataType::Utf8),
            (DataType::Date32, DataType::Timestamp(TimeUnit::Microsecond, None)),
            (DataType::new_list(DataType::Int64, true), DataType::Utf8),
        ] {
            assert_eq!(TimeCast::between(&from, &to, false), None, "{from} to {to}");
        }
        assert!(
            TimeCast::between(&DataType::new_list(DataType::Date32, true), &DataType::Utf8, false).is_some()
        );
    }
}
