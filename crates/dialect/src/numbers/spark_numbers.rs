//! Functions of numbers that only Spark has, with the names of [`Kind`].

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int32Array, PrimitiveArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{ArrowPrimitiveType, DataType, Float64Type, Int32Type, Int64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use yeoul_base::ErrorKind;

use crate::Error;
use crate::signatures::USER_DEFINED;
use crate::text::rows::invoke;
use crate::types::type_name;

/// A function of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// `spark_try_add(a, b)`: a sum; null where an integer does not fit.
    TryAdd,
    /// `spark_try_subtract(a, b)`.
    TrySubtract,
    /// `spark_try_multiply(a, b)`.
    TryMultiply,
    /// `spark_bround(x, digits)`: rounded at a digit, halves to the even one.
    RoundEven,
    /// `spark_bit_count(x)`: bits of an integer that are set.
    BitCount,
    /// `spark_bin(n)`: binary digits of a BIGINT.
    Binary,
    /// `spark_conv(text, from, to)`: digits to one base in those to another.
    Convert,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::TryAdd,
        Self::TrySubtract,
        Self::TryMultiply,
        Self::RoundEven,
        Self::BitCount,
        Self::Binary,
        Self::Convert,
    ];

    /// All of these functions.
    pub(super) fn all() -> impl Iterator<Item = ScalarUDF> {
        Self::ALL.into_iter().map(ScalarUDF::from)
    }

    /// The type that two numbers have in common.
    fn common(self, kinds: &[DataType]) -> Result<DataType> {
        let is_whole = |kind: &DataType| {
            matches!(kind, DataType::Int32 | DataType::Int64 | DataType::Null) || kind.is_string()
        };
        let is_double = |kind: &DataType| *kind == DataType::Float64;
        if let Some(other) = kinds.iter().find(|kind| !is_whole(kind) && !is_double(kind)) {
            return Err(self.refused(other).into());
        }
        Ok(if kinds.iter().any(is_double) {
            DataType::Float64
        } else if kinds.iter().any(|kind| *kind == DataType::Int64 || kind.is_string()) {
            DataType::Int64
        } else {
            DataType::Int32
        })
    }

    const fn arguments(self) -> usize {
        match self {
            Self::BitCount | Self::Binary => 1,
            Self::Convert => 3,
            _ => 2,
        }
    }

    fn refused(self, kind: &DataType) -> Error {
        let name = self.name().trim_start_matches("spark_");
        let error = Error::new(ErrorKind::Invalid, format!("not supported: {name} of a {}", type_name(kind)));
        error.with_hint("cast the argument to BIGINT or DOUBLE")
    }

    fn run(self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        match self {
            Self::TryAdd | Self::TrySubtract | Self::TryMultiply => self.tried(arrays),
            Self::RoundEven => round_even(&arrays[0], arrays[1].as_primitive::<Int32Type>()),
            Self::BitCount => {
                let values = cast(&arrays[0], &DataType::Int64)?;
                let bits =
                    |value: Option<i64>| value.map(|value| i32::try_from(value.count_ones()).unwrap_or(64));
                Ok(Arc::new(values.as_primitive::<Int64Type>().iter().map(bits).collect::<Int32Array>()))
            }
            Self::Binary => {
                let values = arrays[0].as_primitive::<Int64Type>().iter();
                Ok(Arc::new(
                    values.map(|value| value.map(|value| format!("{value:b}"))).collect::<StringArray>(),
                ))
            }
            Self::Convert => {
                let texts = arrays[0].as_string::<i32>();
                let [from, to] = [1, 2].map(|at| arrays[at].as_primitive::<Int32Type>());
                let rows = texts.iter().zip(from).zip(to).map(|((text, from), to)| match (text, from, to) {
                    (Some(text), Some(from), Some(to)) => converted(text, from, to),
                    _ => Ok(None),
                });
                Ok(Arc::new(rows.collect::<Result<StringArray>>()?))
            }
        }
    }

    /// The results of an operator, null where there is none.
    fn tried(self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let kinds: Vec<DataType> = arrays.iter().map(|array| array.data_type().clone()).collect();
        let one = self.common(&kinds)?;
        let number = |array: &ArrayRef| -> Result<ArrayRef> {
            if !array.data_type().is_string() {
                return Ok(cast(array, &one)?);
            }
            let texts = array.as_string::<i32>().iter();
            Ok(match one {
                DataType::Float64 => Arc::new(
                    texts.map(|text| text?.trim().parse().ok()).collect::<PrimitiveArray<Float64Type>>(),
                ),
                _ => Arc::new(
                    texts.map(|text| text?.trim().parse().ok()).collect::<PrimitiveArray<Int64Type>>(),
                ),
            })
        };
        let arrays = arrays.iter().map(number).collect::<Result<Vec<ArrayRef>>>()?;
        Ok(match (&one, self) {
            (DataType::Float64, Self::TryAdd) => Arc::new(paired::<Float64Type>(&arrays, |a, b| Some(a + b))),
            (DataType::Float64, Self::TrySubtract) => {
                Arc::new(paired::<Float64Type>(&arrays, |a, b| Some(a - b)))
            }
            (DataType::Float64, _) => Arc::new(paired::<Float64Type>(&arrays, |a, b| Some(a * b))),
            (DataType::Int32, Self::TryAdd) => Arc::new(paired::<Int32Type>(&arrays, i32::checked_add)),
            (DataType::Int32, Self::TrySubtract) => Arc::new(paired::<Int32Type>(&arrays, i32::checked_sub)),
            (DataType::Int32, _) => Arc::new(paired::<Int32Type>(&arrays, i32::checked_mul)),
            (_, Self::TryAdd) => Arc::new(paired::<Int64Type>(&arrays, i64::checked_add)),
            (_, Self::TrySubtract) => Arc::new(paired::<Int64Type>(&arrays, i64::checked_sub)),
            (_, _) => Arc::new(paired::<Int64Type>(&arrays, i64::checked_mul)),
        })
    }
}

impl ScalarUDFImpl for Kind {
    fn name(&self) -> &str {
        match self {
            Self::TryAdd => "spark_try_add",
            Self::TrySubtract => "spark_try_subtract",
            Self::TryMultiply => "spark_try_multiply",
            Self::RoundEven => "spark_bround",
            Self::BitCount => "spark_bit_count",
            Self::Binary => "spark_bin",
            Self::Convert => "spark_conv",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        if kinds.len() != self.arguments() {
            return plan_err!("the function {} takes {} arguments", self.name(), self.arguments());
        }
        let is_integer = |kind: &DataType| {
            matches!(
                kind,
                DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Null
            )
        };
        let first = &kinds[0];
        Ok(match self {
            Self::TryAdd | Self::TrySubtract | Self::TryMultiply => {
                let one = self.common(kinds)?;
                // A text that is no number is null, and no error of a cast.
                kinds.iter().map(|kind| if kind.is_string() { DataType::Utf8 } else { one.clone() }).collect()
            }
            Self::RoundEven => {
                let value = match first {
                    DataType::Null => DataType::Float64,
                    kind if is_integer(kind) || *kind == DataType::Float64 => kind.clone(),
                    kind if kind.is_string() => DataType::Float64,
                    kind => return Err(self.refused(kind).into()),
                };
                vec![value, DataType::Int32]
            }
            Self::BitCount => match first {
                DataType::Boolean => vec![DataType::Boolean],
                kind if is_integer(kind) => vec![DataType::Int64],
                kind => return Err(self.refused(kind).into()),
            },
            Self::Binary => vec![DataType::Int64],
            Self::Convert => vec![DataType::Utf8, DataType::Int32, DataType::Int32],
        })
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        Ok(match self {
            Self::TryAdd | Self::TrySubtract | Self::TryMultiply => self.common(kinds)?,
            Self::BitCount => DataType::Int32,
            Self::Binary | Self::Convert => DataType::Utf8,
            _ => kinds[0].clone(),
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| self.run(arrays))
    }
}

fn paired<T: ArrowPrimitiveType>(
    arrays: &[ArrayRef],
    op: fn(T::Native, T::Native) -> Option<T::Native>,
) -> PrimitiveArray<T> {
    let [left, right] = [0, 1].map(|side| arrays[side].as_primitive::<T>());
    left.iter().zip(right).map(|(left, right)| op(left?, right?)).collect()
}

fn round_even(values: &ArrayRef, digits: &Int32Array) -> Result<ArrayRef> {
    if values.data_type().is_floating() {
        let values = values.as_primitive::<Float64Type>().iter().zip(digits);
        let rounded = values.map(|(value, digits)| {
            let (value, digits) = (value?, digits?);
            // There is no zero with a sign.
            let rounded =
                |value: f64| decimal_half_even(&format!("{value}"), digits).parse().unwrap_or(value) + 0.0;
            Some(if value.is_finite() { rounded(value) } else { value })
        });
        return Ok(Arc::new(rounded.collect::<PrimitiveArray<Float64Type>>()));
    }
    let wide = cast(values, &DataType::Int64)?;
    let rounded = wide.as_primitive::<Int64Type>().iter().zip(digits).map(|(value, digits)| {
        let (Some(value), Some(digits)) = (value, digits) else { return Ok(None) };
        if digits >= 0 {
            return Ok(Some(value));
        }
        let rounded = decimal_half_even(&value.to_string(), digits).parse::<i64>();
        rounded.map(Some).map_err(|_| out_of_range(value, values.data_type()).into())
    });
    let rounded: PrimitiveArray<Int64Type> = rounded.collect::<Result<_>>()?;
    let kept = cast(&rounded, values.data_type())?;
    match (0..rounded.len()).find(|row| !rounded.is_null(*row) && kept.is_null(*row)) {
        Some(row) => Err(out_of_range(rounded.value(row), values.data_type()).into()),
        None => Ok(kept),
    }
}

fn out_of_range(value: i64, kind: &DataType) -> Error {
    Error::new(ErrorKind::Invalid, format!("overflow: {value}, rounded, does not fit a {}", type_name(kind)))
        .with_hint("cast it to BIGINT first")
}

/// Digits of a number, rounded at one of them, halves to the even one. `digits` are those behind the point; negative before it.
fn decimal_half_even(number: &str, digits: i32) -> String {
    let (sign, number) = number.strip_prefix('-').map_or(("", number), |number| ("-", number));
    let (before, behind) = number.split_once('.').unwrap_or((number, ""));
    let all: Vec<u8> = before.bytes().chain(behind.bytes()).map(|digit| digit - b'0').collect();
    let kept = i64::try_from(before.len()).unwrap_or(0) + i64::from(digits);
    let Ok(kept) = usize::try_from(kept) else { return "0".to_owned() };
    if kept >= all.len() {
        return format!("{sign}{number}");
    }
    let (head, tail) = all.split_at(kept);
    let is_above = tail[0] > 5 || tail[0] == 5 && tail[1..].iter().any(|digit| *digit > 0);
    let is_half = tail[0] == 5 && !is_above;
    let is_odd = head.last().is_some_and(|digit| digit % 2 == 1);
    let mut head = head.to_vec();
    if is_above || is_half && is_odd {
        let mut place = head.len();
        loop {
            if place == 0 {
                head.insert(0, 1);
                break;
            }
            place -= 1;
            if head[place] < 9 {
                head[place] += 1;
                break;
            }
            head[place] = 0;
        }
    }
    // A carry has made one digit more.
    let point = before.len() + head.len() - kept;
    let mut text = String::from(sign);
    for place in 0..point.max(head.len()) {
        if place == point {
            text.push('.');
        }
        text.push(char::from(b'0' + head.get(place).copied().unwrap_or(0)));
    }
    text
}

/// Digits to one base in those to another. A negative second base is one of signed numbers.
fn converted(text: &str, from: i32, to: i32) -> Result<Option<String>> {
    let (Some(from), Some(base)) = (base_of(from), base_of(to.checked_abs().unwrap_or(0))) else {
        return Ok(None);
    };
    let text = text.trim_matches(' ');
    if text.is_empty() {
        return Ok(None);
    }
    let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let mut value = 0_u64;
    for digit in digits.chars().map_while(|digit| digit.to_digit(from)) {
        let next = value.checked_mul(u64::from(from)).and_then(|value| value.checked_add(u64::from(digit)));
        value = next.ok_or_else(|| {
            Error::new(ErrorKind::Invalid, format!("overflow: conv of '{text}' does not fit 64 bits"))
        })?;
    }
    let signed = value.cast_signed();
    let (is_minus, value) = match (is_negative, to > 0) {
        // More than the greatest BIGINT is as much as all bits.
        (true, true) if signed < 0 => (false, u64::MAX),
        (true, true) => (false, value.wrapping_neg()),
        (_, false) if signed < 0 => (true, value.wrapping_neg()),
        (is_negative, false) => (is_negative, value),
        (false, true) => (false, value),
    };
    let mut written = Vec::new();
    let mut rest = value;
    loop {
        let digit = u32::try_from(rest % u64::from(base)).unwrap_or(0);
        written.push(char::from_digit(digit, base).unwrap_or('0').to_ascii_uppercase());
        rest /= u64::from(base);
        if rest == 0 {
            break;
        }
    }
    if is_minus {
        written.push('-');
    }
    Ok(Some(written.into_iter().rev().collect()))
}

fn base_of(base: i32) -> Option<u32> {
    u32::try_from(base).ok().filter(|base| (2..=36).contains(base))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_to_the_even_digit() {
        for (number, digits, expected) in [
            ("2.5", 0, "2"),
            ("3.5", 0, "4"),
            ("-2.5", 0, "-2"),
            ("2.51", 0, "3"),
            ("25", -1, "20"),
            ("35", -1, "40"),
            ("525", -2, "500"),
            ("95", -1, "100"),
            ("9.95", 1, "10.0"),
            ("0.125", 2, "0.12"),
            ("5", -1, "0"),
            ("6", -1, "10"),
            ("5", -2, "0"),
            ("1.5", 3, "1.5"),
        ] {
            let rounded = decimal_half_even(number, digits);
            assert_eq!(
                rounded.parse::<f64>().unwrap(),
                expected.parse::<f64>().unwrap(),
                "{number} at {digits}: {rounded}"
            );
        }
    }

    /// The answers are those of Spark 4.3.
    #[test]
    fn digits_have_another_base() {
        for (text, from, to, expected) in [
            ("100", 2, 10, Some("4")),
            ("-10", 16, -10, Some("-16")),
            ("-1", 10, 16, Some("FFFFFFFFFFFFFFFF")),
            ("FFFFFFFFFFFFFFFF", 16, -10, Some("-1")),
            ("9223372036854775807", 36, 16, None),
            ("1x", 10, 2, Some("1")),
            ("", 10, 2, None),
            ("1", 1, 2, None),
        ] {
            assert_eq!(converted(text, from, to).unwrap_or(None).as_deref(), expected, "{text}");
        }
    }
}
