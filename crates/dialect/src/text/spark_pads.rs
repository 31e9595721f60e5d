//! `lpad` and `rpad` of Spark, of texts and of bytes; `btrim`, `ltrim` and `rtrim`.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryArray, StringArray};
use datafusion::arrow::datatypes::{DataType, Int32Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use yeoul_base::ErrorKind;

use super::rows::invoke;
use crate::Error;
use crate::signatures::USER_DEFINED;

/// The most bytes of a value that is filled up.
const BYTES_MAX: usize = 64 << 20;

/// A function of texts or bytes, and of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ends {
    /// `spark_lpad(value, length[, filling])`: so many letters or bytes, filled up at the left; by spaces, or zero bytes.
    PadLeft,
    /// `spark_rpad(value, length[, filling])`.
    PadRight,
    /// `spark_trim(value[, letters])`: without those at both ends; without spaces.
    Trim,
    /// `spark_ltrim(value[, letters])`.
    TrimLeft,
    /// `spark_rtrim(value[, letters])`.
    TrimRight,
}

impl Ends {
    /// All of these functions.
    pub(super) fn all() -> impl Iterator<Item = ScalarUDF> {
        let all = [Self::PadLeft, Self::PadRight, Self::Trim, Self::TrimLeft, Self::TrimRight];
        all.into_iter().map(ScalarUDF::from)
    }

    const fn is_pad(self) -> bool {
        matches!(self, Self::PadLeft | Self::PadRight)
    }

    /// A value of so many units, which are letters or bytes.
    fn padded<T: Copy>(self, value: &[T], length: i32, filling: &[T]) -> Result<Vec<T>, Error> {
        let length = usize::try_from(length).unwrap_or(0);
        if length > BYTES_MAX {
            let error = Error::new(
                ErrorKind::ResourceExhausted,
                format!("not supported: a value that is filled up to {length}"),
            );
            return Err(error.with_hint(format!("the most is {BYTES_MAX}")));
        }
        let missing = length.saturating_sub(value.len());
        if missing == 0 || filling.is_empty() {
            return Ok(value[..length.min(value.len())].to_vec());
        }
        let filled = filling.iter().copied().cycle().take(missing);
        let value = value.iter().copied();
        Ok(match self {
            Self::PadLeft => filled.chain(value).collect(),
            _ => value.chain(filled).collect(),
        })
    }

    /// A value without units at its ends.
    fn trimmed<'a, T: PartialEq>(self, value: &'a [T], units: &[T]) -> &'a [T] {
        let is_one = |unit: &T| units.contains(unit);
        let begin = match self {
            Self::TrimRight => 0,
            _ => value.iter().position(|unit| !is_one(unit)).unwrap_or(value.len()),
        };
        let end = match self {
            Self::TrimLeft => value.len(),
            _ => value.iter().rposition(|unit| !is_one(unit)).map_or(0, |last| last + 1),
        };
        &value[begin..end.max(begin)]
    }

    fn answer<T: Copy + PartialEq>(
        self,
        value: &[T],
        length: Option<i32>,
        other: &[T],
    ) -> Result<Vec<T>, Error> {
        match length {
            Some(length) => self.padded(value, length, other),
            None => Ok(self.trimmed(value, other).to_vec()),
        }
    }

    fn run(self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let is_null = |row: usize| arrays.iter().any(|array| array.is_null(row));
        let lengths = self.is_pad().then(|| arrays[1].as_primitive::<Int32Type>());
        let others = arrays.get(if self.is_pad() { 2 } else { 1 });
        let length = |row: usize| lengths.map(|lengths| lengths.value(row));
        let rows = 0..arrays[0].len();
        if arrays[0].data_type().is_binary() {
            let values = arrays[0].as_binary::<i32>();
            let found = rows.map(|row| {
                if is_null(row) {
                    return Ok(None);
                }
                let zero: &[u8] = if self.is_pad() { &[0] } else { b" " };
                let other = others.map_or(zero, |others| others.as_binary::<i32>().value(row));
                self.answer(values.value(row), length(row), other).map(Some)
            });
            return Ok(Arc::new(found.collect::<Result<BinaryArray, Error>>()?));
        }
        let values = arrays[0].as_string::<i32>();
        let found = rows.map(|row| {
            if is_null(row) {
                return Ok(None);
            }
            let letters = |text: &str| text.chars().collect::<Vec<char>>();
            let other = letters(others.map_or(" ", |others| others.as_string::<i32>().value(row)));
            let found = self.answer(&letters(values.value(row)), length(row), &other)?;
            Ok(Some(found.into_iter().collect::<String>()))
        });
        Ok(Arc::new(found.collect::<Result<StringArray, Error>>()?))
    }
}

impl ScalarUDFImpl for Ends {
    fn name(&self) -> &str {
        match self {
            Self::PadLeft => "spark_lpad",
            Self::PadRight => "spark_rpad",
            Self::Trim => "spark_trim",
            Self::TrimLeft => "spark_ltrim",
            Self::TrimRight => "spark_rtrim",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name().trim_start_matches("spark_");
        let mut others = kinds.to_vec();
        let has_length = self.is_pad()
            && others.len() > 1
            && (others[1].is_integer() || others[1].is_string() || others[1].is_null());
        if self.is_pad() != has_length {
            return plan_err!("{name} takes a text or bytes, and a length");
        }
        if has_length {
            others.remove(1);
        }
        let (Some(value), true) = (others.first(), others.len() <= 2) else {
            return plan_err!("{name} takes a text or bytes, and others");
        };
        // A trimmed value is a text in Spark, of bytes, too.
        let are_bytes = self.is_pad()
            && value.is_binary()
            && others.iter().all(|kind| kind.is_binary() || kind.is_null());
        let is_text = |kind: &DataType| {
            kind.is_string()
                || kind.is_binary()
                || kind.is_integer()
                || kind.is_decimal()
                || matches!(kind, DataType::Null | DataType::Boolean | DataType::Date32)
        };
        let one = match others.iter().find(|kind| !is_text(kind)) {
            Some(_) => return plan_err!("{name} takes texts or bytes"),
            None if are_bytes => DataType::Binary,
            None => DataType::Utf8,
        };
        let mut coerced = vec![one; others.len()];
        if has_length {
            coerced.insert(1, DataType::Int32);
        }
        Ok(coerced)
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        Ok(if kinds[0].is_binary() { DataType::Binary } else { DataType::Utf8 })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| self.run(arrays))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers are those of Spark 4.
    #[test]
    fn values_are_filled_up_or_cut_off() {
        let bytes =
            |of: Ends, value: &[u8], length, filling: &[u8]| of.padded(value, length, filling).unwrap();
        assert_eq!(bytes(Ends::PadLeft, &[0xaa], 6, &[0x1f, 0x2e]), [0x1f, 0x2e, 0x1f, 0x2e, 0x1f, 0xaa]);
        assert_eq!(bytes(Ends::PadRight, &[0xaa], 4, &[0x1f, 0x2e]), [0xaa, 0x1f, 0x2e, 0x1f]);
        assert_eq!(bytes(Ends::PadLeft, &[1, 2, 3], 2, &[9]), [1, 2]);
        assert_eq!(bytes(Ends::PadLeft, &[1, 2, 3], 6, &[]), [1, 2, 3]);
        assert_eq!(bytes(Ends::PadLeft, &[1, 2, 3], -1, &[9]), [0; 0]);
        assert!(Ends::PadLeft.padded(&[1_u8], i32::MAX, &[2]).is_err());
    }

    #[test]
    fn ends_are_left_out() {
        for (of, expected) in [(Ends::Trim, "Tom"), (Ends::TrimLeft, "Tomxx"), (Ends::TrimRight, "yxTom")] {
            assert_eq!(of.trimmed(b"yxTomxx", b"xyz"), expected.as_bytes());
        }
        assert_eq!(Ends::Trim.trimmed(b"xx", b"x"), b"");
    }
}
