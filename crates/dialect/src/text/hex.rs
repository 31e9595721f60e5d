//! `hex` and `unhex`.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, AsArray, BinaryBuilder, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use yeoul_base::ErrorKind;

use super::rows::invoke;
use crate::Error;

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

static HEX: LazyLock<Documentation> = LazyLock::new(|| {
    let text = "Hexadecimal digits of an integer, or of the bytes of a text or BYTEA, in capitals.";
    Documentation::builder(DOC_SECTION_STRING, text, "hex(x)").build()
});

static UNHEX: LazyLock<Documentation> = LazyLock::new(|| {
    let text = "Bytes whose hexadecimal digits a text has.";
    Documentation::builder(DOC_SECTION_STRING, text, "unhex(text)").build()
});

/// `hex`: an integer has no leading zeros, and a negative one its 64 bits, as in Spark and DuckDB.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Hex(Signature);

impl Default for Hex {
    fn default() -> Self {
        Self(Signature::user_defined(Volatility::Immutable))
    }
}

impl ScalarUDFImpl for Hex {
    fn name(&self) -> &str {
        "hex"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let [kind] = kinds else { return plan_err!("the function hex takes 1 argument") };
        Ok(vec![match kind {
            DataType::UInt64 => return plan_err!("hex of a {kind}: cast it to BIGINT"),
            kind if kind.is_integer() => DataType::Int64,
            kind if kind.is_string() || kind.is_null() => DataType::Utf8,
            kind if kind.is_binary() => DataType::Binary,
            _ => return plan_err!("hex takes an integer, a text or bytes, not a {kind}"),
        }])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| Ok(hex(&arrays[0])))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&HEX)
    }
}

fn hex(values: &ArrayRef) -> ArrayRef {
    let mut texts = StringBuilder::new();
    match values.data_type() {
        DataType::Int64 => {
            for value in values.as_primitive::<Int64Type>() {
                texts.append_option(value.map(|value| format!("{value:X}")));
            }
        }
        DataType::Utf8 => {
            for value in values.as_string::<i32>() {
                texts.append_option(value.map(|value| digits_of(value.as_bytes())));
            }
        }
        _ => {
            for value in values.as_binary::<i32>() {
                texts.append_option(value.map(digits_of));
            }
        }
    }
    Arc::new(texts.finish())
}

fn digits_of(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

/// `unhex`: a text with an odd number of digits has a zero before them.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Unhex(Signature);

impl Default for Unhex {
    fn default() -> Self {
        Self(Signature::exact(vec![DataType::Utf8], Volatility::Immutable))
    }
}

impl ScalarUDFImpl for Unhex {
    fn name(&self) -> &str {
        "unhex"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| {
            let mut values = BinaryBuilder::new();
            for text in arrays[0].as_string::<i32>() {
                values.append_option(text.map(bytes_of).transpose()?);
            }
            Ok(Arc::new(values.finish()))
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&UNHEX)
    }
}

fn bytes_of(text: &str) -> Result<Vec<u8>> {
    let digits = text.chars().map(|digit| match digit.to_digit(16) {
        Some(digit) => Ok(digit as u8),
        None => Err(Error::new(ErrorKind::Invalid, format!("'{digit}' is no hexadecimal digit")).into()),
    });
    let digits = digits.collect::<Result<Vec<u8>>>()?;
    let first = digits.len() % 2;
    let mut bytes = digits[..first].to_vec();
    bytes.extend(digits[first..].chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]));
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_digits_are_each_others() {
        assert_eq!(digits_of(&[0, 0x1f, 0xff]), "001FFF");
        assert_eq!(bytes_of("001FfF").unwrap(), [0, 0x1f, 0xff]);
        assert_eq!(bytes_of("F01").unwrap(), [0xf, 0x01]);
        assert_eq!(bytes_of("").unwrap(), [0_u8; 0]);
        assert!(bytes_of("0G").unwrap_err().to_string().contains("'G' is no hexadecimal digit"));
    }
}
