//! Texts of timestamps and times of day, the same in answers, in files and in casts: `2024-01-05 10:00:00.5`, with a zone
//! `2024-01-05 10:00:00.5+01`, as PostgreSQL and DuckDB write them (Spark too, without the offset). Arrow writes
//! `2024-01-05T10:00:00.500+01:00`.

use std::fmt::Write;

use arrow::array::timezone::Tz;
use arrow::array::{Array, AsArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowTemporalType, ArrowTimestampType, DataType, Field, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow::error::ArrowError;
use arrow::temporal_conversions::{as_datetime, as_time};
use arrow::util::display::{
    ArrayFormatter, ArrayFormatterFactory, DisplayIndex, FormatOptions, FormatResult,
};
use chrono::{NaiveDateTime, NaiveTime, Offset, TimeZone, Timelike};

/// The texts of values: as Arrow writes them, but for timestamps and times of day, also within lists and structs.
pub const fn text_options<'a>() -> FormatOptions<'a> {
    FormatOptions::new().with_formatter_factory(Some(&TimeTexts))
}

/// The texts of an array's values.
///
/// # Errors
/// For a type that has no text, and for a zone that is not known.
pub fn formatter<'a>(
    array: &'a dyn Array,
    options: &FormatOptions<'a>,
) -> Result<ArrayFormatter<'a>, ArrowError> {
    // Arrow asks the factory of nested arrays only.
    match TimeTexts.create_array_formatter(array, options, None)? {
        Some(formatter) => Ok(formatter),
        None => ArrayFormatter::try_new(array, options),
    }
}

#[derive(Debug)]
struct TimeTexts;

impl ArrayFormatterFactory for TimeTexts {
    fn create_array_formatter<'a>(
        &self,
        array: &'a dyn Array,
        options: &FormatOptions<'a>,
        _: Option<&'a Field>,
    ) -> Result<Option<ArrayFormatter<'a>>, ArrowError> {
        let (null, safe) = (options.null(), options.safe());
        let texts: Box<dyn DisplayIndex + 'a> = match array.data_type() {
            DataType::Timestamp(unit, zone) => {
                let zone = zone.as_deref().map(str::parse::<Tz>).transpose()?;
                match unit {
                    TimeUnit::Second => Instants::<TimestampSecondType>::boxed(array, zone, null),
                    TimeUnit::Millisecond => Instants::<TimestampMillisecondType>::boxed(array, zone, null),
                    TimeUnit::Microsecond => Instants::<TimestampMicrosecondType>::boxed(array, zone, null),
                    TimeUnit::Nanosecond => Instants::<TimestampNanosecondType>::boxed(array, zone, null),
                }
            }
            DataType::Time32(TimeUnit::Second) => Times::<Time32SecondType>::boxed(array, null),
            DataType::Time32(_) => Times::<Time32MillisecondType>::boxed(array, null),
            DataType::Time64(TimeUnit::Microsecond) => Times::<Time64MicrosecondType>::boxed(array, null),
            DataType::Time64(_) => Times::<Time64NanosecondType>::boxed(array, null),
            _ => return Ok(None),
        };
        Ok(Some(ArrayFormatter::new(texts, safe)))
    }
}

struct Instants<'a, T: ArrowTimestampType> {
    values: &'a PrimitiveArray<T>,
    zone: Option<Tz>,
    null: &'a str,
}

impl<'a, T: ArrowTimestampType> Instants<'a, T> {
    fn boxed(array: &'a dyn Array, zone: Option<Tz>, null: &'a str) -> Box<dyn DisplayIndex + 'a> {
        Box::new(Self { values: array.as_primitive::<T>(), zone, null })
    }
}

impl<T: ArrowTimestampType> DisplayIndex for Instants<'_, T> {
    fn write(&self, row: usize, f: &mut dyn Write) -> FormatResult {
        if self.values.is_null(row) {
            return Ok(f.write_str(self.null)?);
        }
        let value = self.values.value(row);
        let utc = as_datetime::<T>(value).ok_or_else(|| out_of_range(value, self.values.data_type()))?;
        let Some(zone) = self.zone else { return write_timestamp(f, utc) };
        let offset = zone.offset_from_utc_datetime(&utc).fix();
        let local =
            utc.checked_add_offset(offset).ok_or_else(|| out_of_range(value, self.values.data_type()))?;
        write_timestamp(f, local)?;
        let seconds = offset.local_minus_utc();
        let (sign, ahead) = if seconds < 0 { ('-', -seconds) } else { ('+', seconds) };
        write!(f, "{sign}{:02}", ahead / 3600)?;
        let (minutes, seconds) = (ahead / 60 % 60, ahead % 60);
        if (minutes, seconds) != (0, 0) {
            write!(f, ":{minutes:02}")?;
        }
        if seconds != 0 {
            write!(f, ":{seconds:02}")?;
        }
        Ok(())
    }
}

fn out_of_range(value: i64, of: &DataType) -> ArrowError {
    ArrowError::CastError(format!("{value} is out of the calendar's range for {of}"))
}

struct Times<'a, T: ArrowTemporalType> {
    values: &'a PrimitiveArray<T>,
    null: &'a str,
}

impl<'a, T: ArrowTemporalType> Times<'a, T>
where
    i64: From<T::Native>,
{
    fn boxed(array: &'a dyn Array, null: &'a str) -> Box<dyn DisplayIndex + 'a> {
        Box::new(Self { values: array.as_primitive::<T>(), null })
    }
}

impl<T: ArrowTemporalType> DisplayIndex for Times<'_, T>
where
    i64: From<T::Native>,
{
    fn write(&self, row: usize, f: &mut dyn Write) -> FormatResult {
        if self.values.is_null(row) {
            return Ok(f.write_str(self.null)?);
        }
        let value = i64::from(self.values.value(row));
        let time = as_time::<T>(value).ok_or_else(|| out_of_range(value, self.values.data_type()))?;
        write_time(f, time)
    }
}

fn write_timestamp(f: &mut dyn Write, time: NaiveDateTime) -> FormatResult {
    write!(f, "{} ", time.date())?;
    write_time(f, time.time())
}

fn write_time(f: &mut dyn Write, time: NaiveTime) -> FormatResult {
    write!(f, "{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())?;
    if time.nanosecond() != 0 {
        let digits = format!("{:09}", time.nanosecond());
        write!(f, ".{}", digits.trim_end_matches('0'))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        ArrayRef, ListArray, Time64NanosecondArray, TimestampMicrosecondArray, TimestampSecondArray,
    };
    use arrow::buffer::OffsetBuffer;
    use std::sync::Arc;

    use super::*;

    fn texts(array: &dyn Array) -> Vec<String> {
        let options = text_options().with_null("NULL");
        let formatter = formatter(array, &options).unwrap();
        (0..array.len()).map(|row| formatter.value(row).to_string()).collect()
    }

    #[test]
    fn a_timestamp_has_a_blank_and_no_more_digits_than_it_needs() {
        let times = vec![Some(1_704_448_800_500_000), None, Some(-1), Some(253_402_214_400_000_000)];
        let times = TimestampMicrosecondArray::from(times);
        let expected = ["2024-01-05 10:00:00.5", "NULL", "1969-12-31 23:59:59.999999", "9999-12-31 00:00:00"];
        assert_eq!(texts(&times), expected);
        let item = Arc::new(Field::new_list_field(times.data_type().clone(), true));
        let list =
            ListArray::new(item, OffsetBuffer::from_lengths([2, 2]), Arc::new(times) as ArrayRef, None);
        assert_eq!(texts(&list)[0], "[2024-01-05 10:00:00.5, NULL]");
    }

    #[test]
    fn a_zone_is_shown_as_an_offset_of_hours_and_what_else_it_has() {
        let at = |zone: &str| texts(&TimestampSecondArray::from(vec![1_704_448_800]).with_timezone(zone));
        assert_eq!(at("UTC"), ["2024-01-05 10:00:00+00"]);
        assert_eq!(at("Europe/Berlin"), ["2024-01-05 11:00:00+01"]);
        assert_eq!(at("-09:30"), ["2024-01-05 00:30:00-09:30"]);
        let ancient = TimestampSecondArray::from(vec![-5_000_000_000]).with_timezone("Europe/Berlin");
        assert_eq!(texts(&ancient), ["1811-07-23 16:00:08+00:53:28"]);
    }

    #[test]
    fn a_time_of_day_is_written_likewise() {
        let times = Time64NanosecondArray::from(vec![36_000_500_000_000, 0, 1]);
        assert_eq!(texts(&times), ["10:00:00.5", "00:00:00", "00:00:00.000000001"]);
    }

    #[test]
    fn a_time_out_of_the_calendar_is_an_error() {
        let times = TimestampMicrosecondArray::from(vec![i64::MAX]);
        let options = text_options().with_display_error(false);
        assert!(formatter(&times, &options).unwrap().value(0).write(&mut String::new()).is_err());
    }
}
