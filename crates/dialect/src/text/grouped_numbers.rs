//! `format_number` of Spark: a number with commas between groups of three digits.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int32Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use yeoul_base::ErrorKind;

use super::rows::invoke;
use crate::Error;
use crate::signatures::USER_DEFINED;
use crate::types::type_name;

/// The most digits behind the point: a DOUBLE has none farther behind.
const DIGITS_MAX: i32 = 1_100;

/// `spark_format_number(number, digits)`, rounded to the nearest, halves to the even one; null for less than no digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FormatNumber;

impl FormatNumber {
    /// The function.
    pub(super) fn shared() -> ScalarUDF {
        Self.into()
    }
}

/// The digits of a decimal, rounded.
fn decimal_text(value: i128, scale: u32, digits: usize) -> String {
    let wanted = u32::try_from(digits).unwrap_or(u32::MAX).min(scale);
    let unit = 10_u128.pow(scale - wanted);
    let (whole, rest) = (value.unsigned_abs() / unit, value.unsigned_abs() % unit);
    let is_up = rest * 2 > unit || (rest * 2 == unit && whole % 2 == 1);
    let text = format!("{:0>1$}", whole + u128::from(is_up), wanted as usize + 1);
    let (before, behind) = text.split_at(text.len() - wanted as usize);
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{before}.{behind}{}", "0".repeat(digits - wanted as usize))
}

/// A text of digits with commas between groups of three before the point.
fn grouped(text: &str) -> String {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let (before, behind) = digits.split_once('.').unwrap_or((digits, ""));
    let mut written = sign.to_owned();
    for (place, digit) in before.chars().enumerate() {
        if place > 0 && (before.len() - place) % 3 == 0 {
            written.push(',');
        }
        written.push(digit);
    }
    if !behind.is_empty() {
        written.push('.');
        written.push_str(behind);
    }
    written
}

fn float_text(value: f64, digits: usize) -> String {
    match value {
        _ if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "∞".to_owned(),
        f64::NEG_INFINITY => "-∞".to_owned(),
        // All digits of the float are rounded, as Java does.
        value => grouped(&format!("{value:.digits$}")),
    }
}

impl ScalarUDFImpl for FormatNumber {
    fn name(&self) -> &str {
        "spark_format_number"
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let [number, digits] = kinds else { return plan_err!("format_number takes a number and digits") };
        if !digits.is_integer() && !digits.is_null() {
            let error = Error::new(ErrorKind::Invalid, "not supported: format_number by a pattern");
            return Err(error.with_hint("write a number of digits: format_number(x, 2)").into());
        }
        let number = match number {
            DataType::Decimal128(..) => number.clone(),
            kind if kind.is_integer() => DataType::Decimal128(20, 0),
            kind if kind.is_floating() || kind.is_null() => DataType::Float64,
            other => return plan_err!("format_number takes a number, and not {}", type_name(other)),
        };
        Ok(vec![number, DataType::Int32])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| {
            let digits = arrays[1].as_primitive::<Int32Type>();
            let text = |row: usize| -> Result<Option<String>> {
                if arrays[0].is_null(row) || digits.is_null(row) {
                    return Ok(None);
                }
                let digits = digits.value(row);
                let Ok(count) = usize::try_from(digits) else { return Ok(None) };
                if digits > DIGITS_MAX {
                    let error = Error::new(ErrorKind::Invalid, format!("format_number with {digits} digits"));
                    return Err(error.with_hint(format!("the most are {DIGITS_MAX}")).into());
                }
                Ok(Some(match arrays[0].data_type() {
                    DataType::Decimal128(_, scale) => {
                        let value = arrays[0].as_primitive::<Decimal128Type>().value(row);
                        let scale = u32::try_from(*scale).unwrap_or(0);
                        grouped(&decimal_text(value, scale, count))
                    }
                    _ => float_text(arrays[0].as_primitive::<Float64Type>().value(row), count),
                }))
            };
            let texts = (0..arrays[0].len()).map(text).collect::<Result<StringArray>>()?;
            Ok(Arc::new(texts) as ArrayRef)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_and_grouped() {
        for (value, scale, digits, expected) in [
            (12_332_123_456, 6, 4, "12,332.1235"),
            (125, 3, 2, "0.12"),
            (375, 3, 2, "0.38"),
            (5, 0, 0, "5"),
            (-1_234_567, 0, 2, "-1,234,567.00"),
            (999_999, 3, 1, "1,000.0"),
        ] {
            assert_eq!(grouped(&decimal_text(value, scale, digits)), expected);
        }
        for (value, digits, expected) in
            [(0.125, 2, "0.12"), (2.675, 2, "2.67"), (1e20, 1, "100,000,000,000,000,000,000.0")]
        {
            assert_eq!(float_text(value, digits), expected);
        }
    }
}
