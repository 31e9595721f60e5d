//! Values as Spark has them: texts of floats, sizes of lists and maps, whole numbers of floats, names of types.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, StringArray,
};
use datafusion::arrow::datatypes::{
    DataType, Float32Type, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit,
};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use yeoul_base::ErrorKind;

use super::type_name;
use crate::Error;
use crate::time::interval_span::INTERVAL;

/// A function of one value, of a type that is known when it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// `spark_text(x)`: what a cast of `x` to STRING begins with: the text of a float, other values as they are. Of what Spark writes
    /// otherwise than this engine it is an error.
    Text,
    /// `spark_part(x)`: the same of a part of `concat`, which may be a list.
    Part,
    /// `spark_digits(x)`: the digits of a float that is a number, null of NaN and of infinities.
    Digits,
    /// `spark_whole_days(x)`: an interval with the hours of a whole day as days; other values as they are.
    WholeDays,
    /// `spark_size(x)`: the number of elements of a list or map.
    Size,
    /// `spark_whole(x)`: a float without fraction as a BIGINT, 0 of NaN; other values as they are.
    Whole,
    /// `spark_instant(x)`: a time without a zone as the same wall clock in UTC, other values as they are.
    Instant,
    /// `spark_time(x)`: what may be cast to a date or time, and an error of a number.
    Time,
    /// `spark_number(x)`: what is no interval: sums of these do not tell that they do not fit.
    Number,
    /// `spark_micros(x)`: microseconds since 1970 of an instant, or of a wall clock in UTC.
    Micros,
    /// `spark_typeof(x)`: the name of a type.
    TypeOf,
    /// `spark_signed(x)`: a text as a DOUBLE, other values as they are.
    Signed,
    /// `spark_real(x)`: a FLOAT as it is, another number or text as a DOUBLE.
    Real,
    /// `spark_sign(x)`: -1, 0 or 1 of a number or an interval, as a DOUBLE.
    Sign,
    /// `spark_declared(x)`: the value of a variable that must be new.
    Declared,
    /// `spark_assigned(x)`: the value of a variable that must be there.
    Assigned,
    /// `spark_replaced(x)`: the value of a variable that may be there.
    Replaced,
}

impl Kind {
    /// All of them.
    const ALL: [Self; 17] = [
        Self::Text,
        Self::Part,
        Self::Digits,
        Self::WholeDays,
        Self::Size,
        Self::Whole,
        Self::Instant,
        Self::Time,
        Self::Number,
        Self::Micros,
        Self::TypeOf,
        Self::Signed,
        Self::Sign,
        Self::Real,
        Self::Declared,
        Self::Assigned,
        Self::Replaced,
    ];

    /// The name of the function.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Text => "spark_text",
            Self::Part => "spark_part",
            Self::Digits => "spark_digits",
            Self::WholeDays => "spark_whole_days",
            Self::Size => "spark_size",
            Self::Whole => "spark_whole",
            Self::Instant => "spark_instant",
            Self::Time => "spark_time",
            Self::Number => "spark_number",
            Self::Micros => "spark_micros",
            Self::TypeOf => "spark_typeof",
            Self::Signed => "spark_signed",
            Self::Sign => "spark_sign",
            Self::Real => "spark_real",
            Self::Declared => "spark_declared",
            Self::Assigned => "spark_assigned",
            Self::Replaced => "spark_replaced",
        }
    }
}

/// The function of a [`Kind`].
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct SparkValue {
    kind: Kind,
    signature: Signature,
}

impl SparkValue {
    /// All of these functions.
    pub(crate) fn all() -> impl Iterator<Item = Arc<ScalarUDF>> {
        Kind::ALL.into_iter().map(|kind| Arc::new(Self::shared(kind)))
    }

    /// The function of a kind.
    pub(crate) fn shared(kind: Kind) -> ScalarUDF {
        Self { kind, signature: Signature::any(1, Volatility::Immutable) }.into()
    }
}

impl ScalarUDFImpl for SparkValue {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        let of = &kinds[0];
        match self.kind {
            Kind::TypeOf => Ok(DataType::Utf8),
            Kind::Size => match of {
                DataType::List(_)
                | DataType::LargeList(_)
                | DataType::FixedSizeList(..)
                | DataType::Map(..)
                | DataType::Null => Ok(DataType::Int32),
                other => {
                    let text = format!("a value of type {} has no size", type_name(other));
                    Err(Error::new(ErrorKind::Invalid, text)
                        .with_hint("length(text) counts characters")
                        .into())
                }
            },
            Kind::Whole if of.is_floating() => Ok(DataType::Int64),
            Kind::Text | Kind::Part | Kind::Digits if of.is_floating() => Ok(DataType::Utf8),
            // Arrow joins no two numbers.
            Kind::Part if of.is_integer() || *of == DataType::Boolean => Ok(DataType::Utf8),
            Kind::Text if of.is_nested() || matches!(of, DataType::Interval(_) | DataType::Duration(_)) => {
                let text = format!("not supported: a cast of {} to STRING", type_name(of));
                Err(Error::new(ErrorKind::Invalid, text)
                    .with_hint("array_join(list, ',') joins the elements of a list")
                    .into())
            }
            Kind::Instant => Ok(instant_of(of)),
            Kind::Number if matches!(of, DataType::Interval(_) | DataType::Duration(_)) => {
                let error = Error::new(ErrorKind::Invalid, "not supported: try_sum of an INTERVAL");
                Err(error.with_hint("write sum(x)").into())
            }
            Kind::Micros if of.is_numeric() => {
                let error = Error::new(ErrorKind::Invalid, "not supported: a number as an instant");
                Err(error.with_hint("timestamp_seconds(n) is an instant").into())
            }
            Kind::Micros => Ok(DataType::Int64),
            Kind::Signed if of.is_string() || of.is_null() => Ok(DataType::Float64),
            Kind::Real if *of == DataType::Float32 => Ok(DataType::Float32),
            Kind::Sign | Kind::Real => Ok(DataType::Float64),
            Kind::Time if of.is_numeric() => {
                let error = Error::new(ErrorKind::Invalid, "not supported: a number as a date or TIMESTAMP");
                Err(error
                    .with_hint("timestamp_seconds(n) is an instant, date_from_unix_date(n) a date")
                    .into())
            }
            _ => Ok(of.clone()),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = datafusion::common::utils::take_function_args(self.name(), arguments.args)?;
        let of = value.data_type();
        match self.kind {
            Kind::WholeDays if of != INTERVAL => return Ok(value),
            Kind::Part if of.is_integer() || of == DataType::Boolean => {
                return value.cast_to(&DataType::Utf8, None);
            }
            Kind::Real if of == DataType::Float32 => return Ok(value),
            Kind::Real => return value.cast_to(&DataType::Float64, None),
            Kind::TypeOf => return Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(spark_name(&of))))),
            Kind::Instant => return value.cast_to(&instant_of(&of), None),
            Kind::Micros => {
                let zone = match &of {
                    DataType::Timestamp(_, zone) => zone.clone(),
                    _ => None,
                };
                let moment = value.cast_to(&DataType::Timestamp(TimeUnit::Microsecond, zone), None)?;
                return moment.cast_to(&DataType::Int64, None);
            }
            Kind::Signed if of.is_string() || of.is_null() => return value.cast_to(&DataType::Float64, None),
            Kind::Signed => return Ok(value),
            Kind::Sign if !matches!(of, DataType::Interval(_)) => {
                return value
                    .cast_to(&DataType::Float64, None)
                    .and_then(|value| sign(value, arguments.number_rows));
            }
            Kind::Time | Kind::Number | Kind::Declared | Kind::Assigned | Kind::Replaced => return Ok(value),
            Kind::Text | Kind::Part | Kind::Digits | Kind::Whole if !of.is_floating() => return Ok(value),
            _ => {}
        }
        let is_constant = matches!(value, ColumnarValue::Scalar(_));
        let values = value.into_array(if is_constant { 1 } else { arguments.number_rows })?;
        let found: ArrayRef = match self.kind {
            Kind::Size => sizes(&values)?,
            Kind::Whole => wholes(&values)?,
            Kind::Digits => digits(&values)?,
            Kind::WholeDays => whole_days(&values)?,
            Kind::Sign => interval_signs(&values)?,
            _ => texts(&values),
        };
        Ok(if is_constant {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?)
        } else {
            ColumnarValue::Array(found)
        })
    }
}

/// The signs of floats: a zero keeps its own, and NaN is none.
fn sign(value: ColumnarValue, rows: usize) -> Result<ColumnarValue> {
    let of = |value: f64| if value == 0.0 || value.is_nan() { value } else { value.signum() };
    Ok(match value {
        ColumnarValue::Scalar(ScalarValue::Float64(value)) => {
            ColumnarValue::Scalar(ScalarValue::Float64(value.map(of)))
        }
        other => {
            let values = other.into_array(rows)?;
            ColumnarValue::Array(Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(of)))
        }
    })
}

/// The signs of intervals of months, or of days and time.
fn interval_signs(values: &ArrayRef) -> Result<ArrayRef> {
    let of = |interval: IntervalMonthDayNano| {
        let time = i128::from(interval.days) * 86_400_000_000_000 + i128::from(interval.nanoseconds);
        if interval.months != 0 && time != 0 {
            let text = "not supported: the sign of an interval of months and days";
            return Err(Error::new(ErrorKind::Invalid, text).with_hint("extract its parts"));
        }
        Ok((i128::from(interval.months) + time).signum() as f64)
    };
    let values = values.as_primitive::<IntervalMonthDayNanoType>().iter();
    let signs = values.map(|value| value.map(of).transpose());
    Ok(Arc::new(signs.collect::<Result<Float64Array, Error>>()?))
}

fn instant_of(kind: &DataType) -> DataType {
    match kind {
        DataType::Timestamp(unit, None) => DataType::Timestamp(*unit, Some("UTC".into())),
        other => other.clone(),
    }
}

fn sizes(values: &ArrayRef) -> Result<ArrayRef> {
    let size = |row: usize| -> Option<i32> {
        if values.is_null(row) {
            return None;
        }
        match values.data_type() {
            DataType::List(_) => Some(values.as_list::<i32>().value_length(row)),
            DataType::Map(..) => Some(values.as_map().value_length(row)),
            DataType::LargeList(_) => i32::try_from(values.as_list::<i64>().value_length(row)).ok(),
            DataType::FixedSizeList(_, length) => Some(*length),
            _ => None,
        }
    };
    Ok(Arc::new((0..values.len()).map(size).collect::<Int32Array>()))
}

fn wholes(values: &ArrayRef) -> Result<ArrayRef> {
    let values = datafusion::arrow::compute::cast(values, &DataType::Float64)?;
    let whole = |value: Option<f64>| match value {
        Some(value) if value.is_nan() => Ok(Some(0)),
        // The bounds are powers of two, which a float holds.
        Some(value) if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) => {
            Ok(Some(value as i64))
        }
        Some(value) => {
            let error = Error::new(ErrorKind::Invalid, format!("{value} does not fit a BIGINT"));
            Err(DataFusionError::from(error))
        }
        None => Ok(None),
    };
    Ok(Arc::new(values.as_primitive::<Float64Type>().iter().map(whole).collect::<Result<Int64Array>>()?))
}

/// Intervals whose time is less than a day, and has the sign of the days.
fn whole_days(values: &ArrayRef) -> Result<ArrayRef> {
    const DAY: i128 = 86_400_000_000_000;
    let whole = |interval: IntervalMonthDayNano| {
        let time = i128::from(interval.days) * DAY + i128::from(interval.nanoseconds);
        let days = i32::try_from(time / DAY).map_err(|_| {
            Error::new(ErrorKind::Invalid, format!("an interval of {} days is too long", time / DAY))
        })?;
        let nanoseconds = i64::try_from(time % DAY).expect("a remainder is less than what it is divided by");
        Ok(IntervalMonthDayNano { months: interval.months, days, nanoseconds })
    };
    let values = values.as_primitive::<IntervalMonthDayNanoType>().iter();
    let whole = values.map(|value| value.map(whole).transpose());
    Ok(Arc::new(whole.collect::<Result<IntervalMonthDayNanoArray>>()?))
}

/// The digits of floats without an exponent; null of what is no number. A FLOAT is the DOUBLE of the same value.
fn digits(values: &ArrayRef) -> Result<ArrayRef> {
    let values = datafusion::arrow::compute::cast(values, &DataType::Float64)?;
    let values = values.as_primitive::<Float64Type>().iter();
    let texts = values.map(|value| value.filter(|value| value.is_finite()).map(|value| value.to_string()));
    Ok(Arc::new(texts.collect::<StringArray>()))
}

fn texts(values: &ArrayRef) -> ArrayRef {
    Arc::new(match values.data_type() {
        DataType::Float32 => {
            let values = values.as_primitive::<Float32Type>().iter();
            values.map(|value| value.map(float_text)).collect::<StringArray>()
        }
        _ => {
            let values = values.as_primitive::<Float64Type>().iter();
            values.map(|value| value.map(double_text)).collect()
        }
    })
}

/// The text of a DOUBLE in Java.
pub(crate) fn double_text(value: f64) -> String {
    java_text(value, &format!("{value:?}"), &format!("{value:e}"))
}

/// The text of a FLOAT in Java.
pub(crate) fn float_text(value: f32) -> String {
    java_text(value.into(), &format!("{value:?}"), &format!("{value:e}"))
}

/// The text of a float in Java: with an exponent below a thousandth and from ten millions on. `plain` and `scientific` are Rust's texts.
fn java_text(value: f64, plain: &str, scientific: &str) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if value == 0.0 || (1e-3..1e7).contains(&value.abs()) {
        return plain.to_owned();
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let point = if mantissa.contains('.') { "" } else { ".0" };
    format!("{mantissa}{point}E{exponent}")
}

/// The name of a type in Spark.
fn spark_name(kind: &DataType) -> String {
    match kind {
        DataType::Null => "void".to_owned(),
        DataType::Int32 => "int".to_owned(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "binary".to_owned(),
        DataType::Timestamp(_, None) => "timestamp_ntz".to_owned(),
        DataType::Timestamp(_, Some(_)) => "timestamp".to_owned(),
        DataType::List(element) | DataType::LargeList(element) => {
            format!("array<{}>", spark_name(element.data_type()))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                format!("map<{},{}>", spark_name(fields[0].data_type()), spark_name(fields[1].data_type()))
            }
            other => format!("map<{other}>"),
        },
        DataType::Struct(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|field| format!("{}:{}", field.name(), spark_name(field.data_type())))
                .collect();
            format!("struct<{}>", fields.join(","))
        }
        other => type_name(other).to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_in_java() {
        for (value, expected) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.001, "0.001"),
            (0.0001, "1.0E-4"),
            (9_999_999.5, "9999999.5"),
            (1e7, "1.0E7"),
            (123_456_789.125, "1.23456789125E8"),
            (-1e300, "-1.0E300"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(java_text(value, &format!("{value:?}"), &format!("{value:e}")), expected);
        }
    }
}
