//! Values as JSON and CSV, as Spark's generators write them.

use std::fmt::Write as _;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::{DataFusionError, Result};
use yeoul_base::ErrorKind;

use super::typed_values::Patterns;
use crate::Error;
use crate::time::date_format::written;
use crate::types::spark_values::{double_text, float_text};

/// The text of a timestamp that has no pattern.
const TIMESTAMP: &str = "yyyy-MM-dd'T'HH:mm:ss.SSS";

fn refused(kind: &DataType, format: &str) -> DataFusionError {
    let text = format!("not supported: {} in {format}", crate::types::type_name(kind));
    Error::new(ErrorKind::Invalid, text).with_hint("cast it to a STRING").into()
}

/// Checks that values of a type can be written as JSON.
///
/// # Errors
/// `Invalid` for a type that has no such text here.
pub(super) fn check_json(kind: &DataType) -> Result<()> {
    match kind {
        DataType::Struct(fields) => fields.iter().try_for_each(|field| check_json(field.data_type())),
        DataType::List(field) => check_json(field.data_type()),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                let key = fields[0].data_type();
                if !key.is_string() && !key.is_integer() && *key != DataType::Boolean {
                    return Err(refused(kind, "JSON"));
                }
                check_json(fields[1].data_type())
            }
            _ => Err(refused(kind, "JSON")),
        },
        kind if is_plain(kind) => Ok(()),
        kind => Err(refused(kind, "JSON")),
    }
}

fn is_plain(kind: &DataType) -> bool {
    kind.is_integer()
        || kind.is_string()
        || matches!(
            kind,
            DataType::Boolean
                | DataType::Float32
                | DataType::Float64
                | DataType::Decimal128(..)
                | DataType::Date32
                | DataType::Timestamp(_, None)
                | DataType::Null
        )
}

/// Writes a value as JSON. Fields that are null are left out.
///
/// # Errors
/// Those of a pattern.
pub(super) fn write_json(to: &mut String, values: &ArrayRef, row: usize, patterns: &Patterns) -> Result<()> {
    if values.is_null(row) {
        to.push_str("null");
        return Ok(());
    }
    match values.data_type() {
        DataType::Struct(fields) => {
            let values = values.as_struct();
            to.push('{');
            let mut is_first = true;
            for (field, column) in fields.iter().zip(values.columns()) {
                if column.is_null(row) || *column.data_type() == DataType::Null {
                    continue;
                }
                if !std::mem::take(&mut is_first) {
                    to.push(',');
                }
                quote(to, field.name());
                to.push(':');
                write_json(to, column, row, patterns)?;
            }
            to.push('}');
        }
        DataType::List(_) => {
            let list = values.as_list::<i32>().value(row);
            to.push('[');
            for place in 0..list.len() {
                if place > 0 {
                    to.push(',');
                }
                write_json(to, &list, place, patterns)?;
            }
            to.push(']');
        }
        DataType::Map(..) => {
            let entries = values.as_map().value(row);
            let [keys, of_keys] = [entries.column(0), entries.column(1)];
            to.push('{');
            for place in 0..entries.len() {
                if place > 0 {
                    to.push(',');
                }
                quote(to, &plain(keys, place, patterns)?);
                to.push(':');
                write_json(to, of_keys, place, patterns)?;
            }
            to.push('}');
        }
        kind => {
            let text = plain(values, row, patterns)?;
            let is_word = matches!(text.as_str(), "NaN" | "Infinity" | "-Infinity");
            let is_quoted =
                kind.is_string() || matches!(kind, DataType::Date32 | DataType::Timestamp(..)) || is_word;
            if is_quoted { quote(to, &text) } else { to.push_str(&text) }
        }
    }
    Ok(())
}

/// The line of a struct as CSV.
///
/// # Errors
/// `Invalid` for texts with backslashes and line ends.
pub(super) fn csv_line(
    values: &ArrayRef,
    row: usize,
    delimiter: char,
    patterns: &Patterns,
) -> Result<String> {
    let mut line = String::new();
    for (place, column) in values.as_struct().columns().iter().enumerate() {
        if place > 0 {
            line.push(delimiter);
        }
        if column.is_null(row) || *column.data_type() == DataType::Null {
            continue;
        }
        let text = plain(column, row, patterns)?;
        if !column.data_type().is_string() {
            line.push_str(&text);
            continue;
        }
        let text = text.trim();
        if text.contains(['\\', '\n', '\r']) || text.starts_with('#') {
            let error = Error::new(ErrorKind::Invalid, format!("not supported: the text '{text}' in to_csv"));
            return Err(error.with_hint("replace backslashes, line ends and a # at its begin").into());
        }
        if text.is_empty() || text.contains([delimiter, '"']) {
            line.push_str(&format!("\"{}\"", text.replace('"', "\\\"")));
        } else {
            line.push_str(text);
        }
    }
    Ok(line)
}

/// Checks that values of a type can be written as CSV.
///
/// # Errors
/// `Invalid` for a type that has no such text here.
pub(super) fn check_csv(kind: &DataType) -> Result<()> {
    match kind {
        DataType::Struct(fields) => {
            let other = fields.iter().find(|field| !is_plain(field.data_type()));
            other.map_or(Ok(()), |field| Err(refused(field.data_type(), "CSV")))
        }
        kind => Err(refused(kind, "CSV")),
    }
}

/// The text of a value that has no others in it.
fn plain(values: &ArrayRef, row: usize, patterns: &Patterns) -> Result<String> {
    Ok(match values.data_type() {
        DataType::Float64 => double_text(values.as_primitive::<Float64Type>().value(row)),
        DataType::Float32 => float_text(values.as_primitive::<Float32Type>().value(row)),
        DataType::Decimal128(_, scale) => {
            java_decimal(values.as_primitive::<Decimal128Type>().value(row), *scale)
        }
        DataType::Boolean => values.as_boolean().value(row).to_string(),
        DataType::Date32 => {
            let days = cast(&values.slice(row, 1), &DataType::Timestamp(TimeUnit::Microsecond, None))?;
            let micros = days.as_primitive::<TimestampMicrosecondType>().value(0);
            written(micros, patterns.date.as_deref().unwrap_or("yyyy-MM-dd"))?
        }
        DataType::Timestamp(..) => {
            let moment = cast(&values.slice(row, 1), &DataType::Timestamp(TimeUnit::Microsecond, None))?;
            let micros = moment.as_primitive::<TimestampMicrosecondType>().value(0);
            let pattern = patterns.timestamp.as_deref().unwrap_or(TIMESTAMP);
            written(micros, pattern)?
        }
        kind if kind.is_integer() => {
            let number = cast(&values.slice(row, 1), &DataType::Int64)?;
            number.as_primitive::<Int64Type>().value(0).to_string()
        }
        _ => {
            let text = cast(&values.slice(row, 1), &DataType::Utf8)?;
            text.as_string::<i32>().value(0).to_owned()
        }
    })
}

/// A decimal as `BigDecimal.toString` of Java writes it.
fn java_decimal(value: i128, scale: i8) -> String {
    let digits = value.unsigned_abs().to_string();
    let sign = if value < 0 { "-" } else { "" };
    let places = usize::from(scale.unsigned_abs());
    if scale <= 0 {
        return format!("{sign}{digits}{}", "0".repeat(places));
    }
    // The exponent of the first digit.
    let exponent = digits.len() as i64 - 1 - places as i64;
    if exponent < -6 {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        return format!("{sign}{first}{point}{rest}E{exponent}");
    }
    let digits = format!("{digits:0>width$}", width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    format!("{sign}{whole}.{fraction}")
}

/// Writes a text in quotes, as Java's Jackson does.
fn quote(to: &mut String, text: &str) {
    to.push('"');
    for letter in text.chars() {
        match letter {
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            '\u{8}' => to.push_str("\\b"),
            '\t' => to.push_str("\\t"),
            '\n' => to.push_str("\\n"),
            '\u{c}' => to.push_str("\\f"),
            '\r' => to.push_str("\\r"),
            letter if letter < ' ' => {
                write!(to, "\\u{:04X}", u32::from(letter)).expect("a String takes everything");
            }
            letter => to.push(letter),
        }
    }
    to.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_written_as_in_java() {
        for (value, scale, expected) in [
            (150, 2, "1.50"),
            (-5, 2, "-0.05"),
            (0, 18, "0E-18"),
            (0, 2, "0.00"),
            (100_000_000_000, 18, "1.00000000000E-7"),
            (1, 6, "0.000001"),
            (1, 7, "1E-7"),
            (7, 0, "7"),
        ] {
            assert_eq!(java_decimal(value, scale), expected);
        }
        let mut text = String::new();
        quote(&mut text, "a\"\\\n\u{1f}/é");
        assert_eq!(text, "\"a\\\"\\\\\\n\\u001F/é\"");
    }
}
