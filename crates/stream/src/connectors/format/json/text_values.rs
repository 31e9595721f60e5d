//! Values of columns whose text in JSON says more than its number: read exactly as Spark reads them, or not at all.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::types::{ArrowPrimitiveType, Date32Type, Int8Type, Int16Type, Int32Type, Int64Type};
use arrow::array::{
    ArrayRef, AsArray, BinaryArray, Decimal128Array, PrimitiveArray, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::number::Number;
use crate::error::Result;
use crate::plan::{OptionMap, type_name};

/// Most characters of a value that a reason quotes.
const QUOTED_CHARS_MAX: usize = 100;

/// Unit of numbers in columns of TIMESTAMP: `json.timestamp-unit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimestampUnit {
    /// Seconds since 1970, as in Spark; they may have a fraction.
    #[default]
    Seconds,
    /// Milliseconds since 1970.
    Millis,
    /// Microseconds since 1970.
    Micros,
}

impl TimestampUnit {
    /// Takes the option.
    ///
    /// # Errors
    /// `Invalid` for another value.
    pub fn take(options: &mut OptionMap) -> Result<Self> {
        const NAME: &str = "json.timestamp-unit";
        match options.take(NAME).as_deref() {
            None | Some("seconds") => Ok(Self::Seconds),
            Some("millis") => Ok(Self::Millis),
            Some("micros") => Ok(Self::Micros),
            Some(other) => Err(options.wrong(NAME, other, "seconds, millis or micros")),
        }
    }

    /// Power of ten from the unit to microseconds.
    fn power(self) -> i64 {
        match self {
            Self::Seconds => 6,
            Self::Millis => 3,
            Self::Micros => 0,
        }
    }
}

/// The schema by which Arrow reads: text in place of types whose values are read here.
pub(super) fn read_schema(schema: &Schema) -> SchemaRef {
    let field = |field: &Arc<Field>| {
        if !is_read_here(field.data_type()) {
            return Arc::clone(field);
        }
        Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8))
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

fn is_read_here(data_type: &DataType) -> bool {
    data_type.is_signed_integer()
        || matches!(data_type, DataType::Decimal128(..) | DataType::Timestamp(..))
        || matches!(data_type, DataType::Date32 | DataType::Binary)
}

/// Rows of a schema from those that Arrow read by [`read_schema`], or why one of them has no value of its type.
pub(super) fn typed(
    read: &RecordBatch,
    schema: &SchemaRef,
    unit: TimestampUnit,
) -> Result<RecordBatch, String> {
    let column = |(field, column): (&Arc<Field>, &ArrayRef)| {
        if is_read_here(field.data_type()) {
            return values(field, column.as_string::<i32>(), unit);
        }
        Ok(Arc::clone(column))
    };
    let columns: Result<Vec<_>, _> = schema.fields().iter().zip(read.columns()).map(column).collect();
    RecordBatch::try_new(Arc::clone(schema), columns?).map_err(|error| error.to_string())
}

fn values(field: &Field, texts: &StringArray, unit: TimestampUnit) -> Result<ArrayRef, String> {
    Ok(match field.data_type() {
        DataType::Int8 => integers::<Int8Type>(field, texts)?,
        DataType::Int16 => integers::<Int16Type>(field, texts)?,
        DataType::Int32 => integers::<Int32Type>(field, texts)?,
        DataType::Int64 => integers::<Int64Type>(field, texts)?,
        DataType::Decimal128(precision, scale) => {
            let all = each(field, texts, |text| decimal(text, *precision, *scale))?;
            let array = all.into_iter().collect::<Decimal128Array>();
            let typed = array.with_precision_and_scale(*precision, *scale);
            Arc::new(typed.map_err(|error| error.to_string())?)
        }
        DataType::Timestamp(_, zone) => {
            let utc = Tz::from_str("+00:00").map_err(|error| error.to_string())?;
            let micros = each(field, texts, |text| micros(text, utc, unit))?;
            Arc::new(
                micros.into_iter().collect::<TimestampMicrosecondArray>().with_timezone_opt(zone.clone()),
            )
        }
        DataType::Date32 => {
            let days = each(field, texts, Date32Type::parse)?;
            Arc::new(days.into_iter().collect::<PrimitiveArray<Date32Type>>())
        }
        _ => {
            let bytes = each(field, texts, |text| STANDARD.decode(text).ok())?;
            Arc::new(bytes.into_iter().collect::<BinaryArray>())
        }
    })
}

/// Each value by a rule, or why one of them is none.
fn each<T>(
    field: &Field,
    texts: &StringArray,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Vec<Option<T>>, String> {
    let value = |text: Option<&str>| {
        let Some(text) = text else { return Ok(None) };
        read(text).map(Some).ok_or_else(|| {
            let quoted: String = text.chars().take(QUOTED_CHARS_MAX).collect();
            format!("the field '{}' is '{quoted}', expected {}", field.name(), type_name(field.data_type()))
        })
    };
    texts.iter().map(value).collect()
}

/// Whole numbers, also such as `5.0` and `1e3`: nothing is rounded.
fn integers<T>(field: &Field, texts: &StringArray) -> Result<ArrayRef, String>
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i128>,
{
    let read = |text: &str| {
        let scaled = Number::parse(text)?.scaled(0).filter(|scaled| scaled.is_exact)?;
        T::Native::try_from(scaled.value).ok()
    };
    Ok(Arc::new(each(field, texts, read)?.into_iter().collect::<PrimitiveArray<T>>()))
}

fn decimal(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let value = Number::parse(text)?.scaled(i64::from(scale))?.value;
    let limit = 10_i128.checked_pow(u32::from(precision))?;
    (value.checked_abs()? < limit).then_some(value)
}

fn micros(text: &str, zone: Tz, unit: TimestampUnit) -> Option<i64> {
    match Number::parse(text) {
        Some(number) => i64::try_from(number.scaled(unit.power())?.value).ok(),
        None => string_to_datetime(&zone, text).ok().map(|time| time.timestamp_micros()),
    }
}
