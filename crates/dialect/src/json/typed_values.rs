//! Values of JSON and CSV as columns of a type, by the rules of Spark's parsers: a value that does not fit its type is null, and others
//! beside it stay.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int64Array, ListArray,
    MapArray, StringArray, StructArray,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{DataFusionError, Result};
use yeoul_base::ErrorKind;

use super::document::{Json, Kind};
use crate::Error;
use crate::time::parse_functions::read_times;
use crate::time::time_casts::TimeCast;

/// Patterns by which texts are read as times; those of casts where there is none.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns {
    pub date: Option<String>,
    pub timestamp: Option<String>,
}

/// A column, and the rows whose value does not fit.
pub(super) struct Typed {
    pub values: ArrayRef,
    pub is_bad: Vec<bool>,
}

impl Typed {
    fn of(values: ArrayRef, given: &[bool]) -> Self {
        let is_bad = given.iter().enumerate().map(|(row, given)| *given && values.is_null(row)).collect();
        Self { values, is_bad }
    }
}

fn refused(kind: &DataType) -> DataFusionError {
    let text = format!("not supported: {} within JSON or CSV", crate::types::type_name(kind));
    Error::new(ErrorKind::Invalid, text).with_hint("read it as a STRING, and cast that").into()
}

/// Values of JSON as a column of a type.
///
/// # Errors
/// `Invalid` for a type that is not read, and for a pattern that is none.
pub(super) fn of_json(values: &[Option<Json<'_>>], kind: &DataType, patterns: &Patterns) -> Result<Typed> {
    let values: Vec<Option<Json<'_>>> =
        values.iter().map(|value| value.filter(|value| value.kind() != Kind::Null)).collect();
    let given: Vec<bool> = values.iter().map(Option::is_some).collect();
    match kind {
        DataType::Struct(fields) => {
            let mut members: Vec<HashMap<String, Json<'_>>> = Vec::with_capacity(values.len());
            for value in &values {
                let object = value.filter(|value| value.kind() == Kind::Object);
                let mut found = HashMap::new();
                for (name, value) in object.into_iter().flat_map(Json::members) {
                    let is_field = fields.iter().any(|field| *field.name() == name);
                    if is_field && found.insert(name.into_owned(), value).is_some() {
                        let error = Error::new(
                            ErrorKind::Invalid,
                            "not supported: JSON with a name twice in an object",
                        );
                        return Err(error.with_hint("read it as a MAP, which has the last of them").into());
                    }
                }
                members.push(found);
            }
            let mut columns = Vec::with_capacity(fields.len());
            for field in fields {
                let of_field: Vec<_> = members.iter().map(|of| of.get(field.name()).copied()).collect();
                columns.push(of_json(&of_field, field.data_type(), patterns)?.values);
            }
            let is_object =
                |value: &Option<Json<'_>>| value.is_some_and(|value| value.kind() == Kind::Object);
            let nulls = NullBuffer::from_iter(values.iter().map(is_object));
            let values = StructArray::try_new_with_length(fields.clone(), columns, Some(nulls), given.len())?;
            Ok(Typed::of(Arc::new(values), &given))
        }
        DataType::List(field) => {
            let mut elements = Vec::new();
            let mut lengths = Vec::with_capacity(values.len());
            for value in &values {
                let before = elements.len();
                let list = value.filter(|value| value.kind() == Kind::Array);
                elements.extend(list.into_iter().flat_map(Json::elements).map(Some));
                lengths.push(elements.len() - before);
            }
            let typed = of_json(&elements, field.data_type(), patterns)?;
            let mut at = 0;
            let mut valid = Vec::with_capacity(values.len());
            for (value, length) in values.iter().zip(&lengths) {
                let is_list = value.is_some_and(|value| value.kind() == Kind::Array);
                valid.push(is_list && !typed.is_bad[at..at + length].contains(&true));
                at += length;
            }
            let offsets = OffsetBuffer::from_lengths(lengths);
            let nulls = Some(NullBuffer::from(valid));
            let list = ListArray::try_new(Arc::clone(field), offsets, typed.values, nulls)?;
            Ok(Typed::of(Arc::new(list), &given))
        }
        DataType::Map(entries, _) => maps(&values, entries, kind, patterns, &given),
        DataType::Boolean => {
            let flags = values.iter().map(|value| match value.map(Json::written) {
                Some("true") => Some(true),
                Some("false") => Some(false),
                _ => None,
            });
            Ok(Typed::of(Arc::new(flags.collect::<BooleanArray>()), &given))
        }
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            let numbers = values.iter().map(|value| {
                value.filter(|value| value.kind() == Kind::Number)?.written().parse::<i64>().ok()
            });
            narrowed(Arc::new(numbers.collect::<Int64Array>()), kind, &given)
        }
        DataType::Float32 => {
            let numbers = values.iter().map(|value| float_of((*value)?)?.parse::<f32>().ok());
            Ok(Typed::of(Arc::new(numbers.collect::<Float32Array>()), &given))
        }
        DataType::Float64 => {
            let numbers = values.iter().map(|value| float_of((*value)?)?.parse::<f64>().ok());
            Ok(Typed::of(Arc::new(numbers.collect::<Float64Array>()), &given))
        }
        DataType::Decimal128(precision, scale) => {
            let numbers = values.iter().map(|value| {
                let value = (*value)?;
                match value.kind() {
                    Kind::Number => decimal_of(value.written(), *precision, *scale),
                    Kind::Text => decimal_of(&value.to_text()?, *precision, *scale),
                    _ => None,
                }
            });
            let numbers =
                numbers.collect::<Decimal128Array>().with_precision_and_scale(*precision, *scale)?;
            Ok(Typed::of(Arc::new(numbers), &given))
        }
        DataType::Utf8 => {
            let texts = values.iter().map(|value| {
                value.map(|value| match value.kind() {
                    Kind::Text => value.to_text().unwrap_or_default(),
                    _ => value.compact_as_java(),
                })
            });
            Ok(Typed::of(Arc::new(texts.collect::<StringArray>()), &given))
        }
        DataType::Date32 | DataType::Timestamp(..) => {
            let is_number = |value: &Json<'_>| value.kind() == Kind::Number;
            if *kind != DataType::Date32 && values.iter().flatten().any(is_number) {
                let error = Error::new(ErrorKind::Invalid, "not supported: a number of JSON as a time");
                return Err(error.with_hint("read it as a BIGINT").into());
            }
            let texts = values
                .iter()
                .map(|value| value.filter(|value| value.kind() == Kind::Text).and_then(Json::to_text));
            times(texts.collect(), kind, patterns, &given)
        }
        other => Err(refused(other)),
    }
}

fn maps(
    values: &[Option<Json<'_>>],
    entries: &Arc<Field>,
    kind: &DataType,
    patterns: &Patterns,
    given: &[bool],
) -> Result<Typed> {
    let DataType::Struct(fields) = entries.data_type() else { return Err(refused(kind)) };
    if *fields[0].data_type() != DataType::Utf8 {
        return Err(refused(kind));
    }
    let (mut keys, mut of_keys, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    for value in values {
        let before = keys.len();
        let object = value.filter(|value| value.kind() == Kind::Object);
        for (name, value) in object.into_iter().flat_map(Json::members) {
            let name = name.into_owned();
            // The last value of a key counts.
            match keys[before..].iter().position(|found| *found == name) {
                Some(place) => of_keys[before + place] = Some(value),
                None => {
                    keys.push(name);
                    of_keys.push(Some(value));
                }
            }
        }
        lengths.push(keys.len() - before);
    }
    let typed = of_json(&of_keys, fields[1].data_type(), patterns)?;
    let mut at = 0;
    let mut valid = Vec::with_capacity(values.len());
    for (value, length) in values.iter().zip(&lengths) {
        let is_object = value.is_some_and(|value| value.kind() == Kind::Object);
        valid.push(is_object && !typed.is_bad[at..at + length].contains(&true));
        at += length;
    }
    let columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(keys)), typed.values];
    let entries_array = StructArray::try_new(fields.clone(), columns, None)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    let nulls = Some(NullBuffer::from(valid));
    let map = MapArray::try_new(Arc::clone(entries), offsets, entries_array, nulls, false)?;
    Ok(Typed::of(Arc::new(map), given))
}

/// Texts of CSV as a column of a type.
///
/// # Errors
/// As [`of_json`].
pub(super) fn of_csv(values: Vec<Option<String>>, kind: &DataType, patterns: &Patterns) -> Result<ArrayRef> {
    let given: Vec<bool> = values.iter().map(Option::is_some).collect();
    let parsed = |parse: &dyn Fn(&str) -> Option<i64>| -> Int64Array {
        values.iter().map(|text| text.as_deref().and_then(parse)).collect()
    };
    Ok(match kind {
        DataType::Utf8 => Arc::new(StringArray::from(values)),
        DataType::Boolean => {
            let flags = values.iter().map(|text| match text.as_deref()?.to_ascii_lowercase().as_str() {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            });
            Arc::new(flags.collect::<BooleanArray>())
        }
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            narrowed(Arc::new(parsed(&|text| text.parse().ok())), kind, &given)?.values
        }
        DataType::Float32 => {
            let numbers = values.iter().map(|text| java_float(text.as_deref()?)?.parse::<f32>().ok());
            Arc::new(numbers.collect::<Float32Array>())
        }
        DataType::Float64 => {
            let numbers = values.iter().map(|text| java_float(text.as_deref()?)?.parse::<f64>().ok());
            Arc::new(numbers.collect::<Float64Array>())
        }
        DataType::Decimal128(precision, scale) => {
            let numbers = values.iter().map(|text| decimal_of(text.as_deref()?, *precision, *scale));
            Arc::new(numbers.collect::<Decimal128Array>().with_precision_and_scale(*precision, *scale)?)
        }
        DataType::Date32 | DataType::Timestamp(..) => times(values, kind, patterns, &given)?.values,
        other => return Err(refused(other)),
    })
}

/// Integers of a narrower type, null where they do not fit.
fn narrowed(values: ArrayRef, kind: &DataType, given: &[bool]) -> Result<Typed> {
    let options = CastOptions { safe: true, ..CastOptions::default() };
    Ok(Typed::of(cast_with_options(&values, kind, &options)?, given))
}

fn times(texts: Vec<Option<String>>, kind: &DataType, patterns: &Patterns, given: &[bool]) -> Result<Typed> {
    let pattern = if *kind == DataType::Date32 { &patterns.date } else { &patterns.timestamp };
    let values = match pattern {
        Some(pattern) => {
            let read = read_times(texts.iter().map(Option::as_deref), pattern)?;
            let options = CastOptions { safe: true, ..CastOptions::default() };
            cast_with_options(&read, kind, &options)?
        }
        None => {
            let texts: ArrayRef = Arc::new(StringArray::from(texts));
            match TimeCast::between(&DataType::Utf8, kind, true) {
                Some(cast) => cast.run(&texts)?,
                None => {
                    let options = CastOptions { safe: true, ..CastOptions::default() };
                    cast_with_options(&texts, kind, &options)?
                }
            }
        }
    };
    Ok(Typed::of(values, given))
}

/// The text of a float in JSON: a number, or one of the words for what is none.
fn float_of(value: Json<'_>) -> Option<&str> {
    match value.kind() {
        Kind::Number => Some(value.written()),
        Kind::Text => word_of(value.written().trim_matches('"')),
        _ => None,
    }
}

/// A float that is no number, as Rust reads it.
fn word_of(text: &str) -> Option<&'static str> {
    match text {
        "NaN" => Some("NaN"),
        "+INF" | "INF" | "+Infinity" | "Infinity" => Some("inf"),
        "-INF" | "-Infinity" => Some("-inf"),
        _ => None,
    }
}

/// A float as `Double.parseDouble` of Java reads it, for Rust; `None` for words that Rust alone knows.
fn java_float(text: &str) -> Option<&str> {
    let text = text.trim();
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    match text {
        "NaN" => Some("NaN"),
        "Inf" | "Infinity" => Some("inf"),
        "-Inf" | "-Infinity" => Some("-inf"),
        text => is_number(text).then_some(text),
    }
}

/// The digits of a number as a decimal of a type, rounded half up; `None` if it does not fit.
fn decimal_of(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (is_negative, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let significant = all.trim_start_matches('0');
    // Digits behind the point of the type that the number lacks, or has too many.
    let shift = i32::from(scale) + exponent - i32::try_from(fraction.len()).ok()?;
    let length = i32::try_from(significant.len()).ok()?;
    if significant.is_empty() || length + shift < 0 {
        return Some(0);
    }
    if length + shift > i32::from(precision) {
        return None;
    }
    let value = if shift >= 0 {
        significant.parse::<i128>().ok()?.checked_mul(10_i128.checked_pow(shift.unsigned_abs())?)?
    } else {
        let (kept, cut) = significant.split_at(usize::try_from(length + shift).ok()?);
        let kept = if kept.is_empty() { 0 } else { kept.parse::<i128>().ok()? };
        kept + i128::from(cut.as_bytes()[0] >= b'5')
    };
    let fits = value < 10_i128.checked_pow(u32::from(precision))?;
    fits.then_some(if is_negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_decimals_are_rounded() {
        for (text, expected) in [
            ("1.55", Some(16)),
            ("-0.04", Some(0)),
            ("-0.05", Some(-1)),
            ("12", Some(120)),
            ("1e1", Some(100)),
            ("123.4", None),
            ("99.95", None),
            ("0e5", Some(0)),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(decimal_of(text, 3, 1), expected, "{text}");
        }
    }
}
