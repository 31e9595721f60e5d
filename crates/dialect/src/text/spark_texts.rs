//! Functions of texts and bytes that only Spark has, with the names of [`Kind`].

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use yeoul_base::ErrorKind;

use super::charset::Charset;
use super::rows::invoke;
use crate::Error;
use crate::signatures::USER_DEFINED;

/// A function of texts or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// `spark_mask(text, upper, lower, digit, other)`: other letters in the places of these; a null leaves them.
    Mask,
    /// `spark_luhn(text)`: whether the last digit is the check digit of the others.
    Luhn,
    /// `spark_to_binary(text, format)`: bytes of hexadecimal digits, of base 64, or of the text in UTF-8.
    ToBinary,
    /// `spark_try_to_binary(text, format)`: the same, and null of what is none.
    TryToBinary,
    /// `spark_encode(text, charset)`.
    Encode,
    /// `spark_decode(bytes, charset)`.
    Decode,
    /// `spark_contains(a, b)`, of texts or bytes.
    Contains,
    /// `spark_starts_with(a, b)`.
    StartsWith,
    /// `spark_ends_with(a, b)`.
    EndsWith,
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::Mask,
        Self::Luhn,
        Self::ToBinary,
        Self::TryToBinary,
        Self::Encode,
        Self::Decode,
        Self::Contains,
        Self::StartsWith,
        Self::EndsWith,
    ];

    /// All of these functions.
    pub(super) fn all() -> impl Iterator<Item = ScalarUDF> {
        Self::ALL.into_iter().map(ScalarUDF::from)
    }

    fn run(self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let first = &arrays[0];
        Ok(match self {
            Self::Mask => masked(arrays)?,
            Self::Luhn => Arc::new(
                first.as_string::<i32>().iter().map(|text| text.map(is_luhn)).collect::<BooleanArray>(),
            ),
            Self::ToBinary | Self::TryToBinary => {
                let rows = first.as_string::<i32>().iter().zip(arrays[1].as_string::<i32>());
                let bytes = rows.map(|row| {
                    let (Some(text), Some(format)) = row else { return Ok(None) };
                    let bytes = Format::of(format)?.bytes(text);
                    match bytes {
                        None if self == Self::ToBinary => {
                            let error = Error::new(
                                ErrorKind::Invalid,
                                format!("'{text}' is no text of format '{format}'"),
                            );
                            Err(error.with_hint("try_to_binary is null there").into())
                        }
                        bytes => Ok(bytes),
                    }
                });
                Arc::new(bytes.collect::<Result<BinaryArray>>()?)
            }
            Self::Encode => {
                let rows = first.as_string::<i32>().iter().zip(arrays[1].as_string::<i32>());
                let bytes = rows.map(|row| match row {
                    (Some(text), Some(charset)) => Ok(Some(Charset::named(charset)?.encode(text)?)),
                    _ => Ok(None),
                });
                Arc::new(bytes.collect::<Result<BinaryArray>>()?)
            }
            Self::Decode => {
                let rows = first.as_binary::<i32>().iter().zip(arrays[1].as_string::<i32>());
                let texts = rows.map(|row| match row {
                    (Some(bytes), Some(charset)) => Ok(Some(Charset::named(charset)?.decode(bytes)?)),
                    _ => Ok(None),
                });
                Arc::new(texts.collect::<Result<StringArray>>()?)
            }
            Self::Contains | Self::StartsWith | Self::EndsWith => Arc::new(self.found(first, &arrays[1])),
        })
    }

    fn found(self, values: &ArrayRef, parts: &ArrayRef) -> BooleanArray {
        fn bytes(values: &ArrayRef, row: usize) -> Option<&[u8]> {
            if values.is_null(row) {
                return None;
            }
            Some(match values.data_type() {
                DataType::Utf8 => values.as_string::<i32>().value(row).as_bytes(),
                _ => values.as_binary::<i32>().value(row),
            })
        }
        let is_in = |value: &[u8], part: &[u8]| match self {
            Self::StartsWith => value.starts_with(part),
            Self::EndsWith => value.ends_with(part),
            _ => part.is_empty() || value.windows(part.len()).any(|window| window == part),
        };
        (0..values.len()).map(|row| Some(is_in(bytes(values, row)?, bytes(parts, row)?))).collect()
    }
}

impl ScalarUDFImpl for Kind {
    fn name(&self) -> &str {
        match self {
            Self::Mask => "spark_mask",
            Self::Luhn => "spark_luhn",
            Self::ToBinary => "spark_to_binary",
            Self::TryToBinary => "spark_try_to_binary",
            Self::Encode => "spark_encode",
            Self::Decode => "spark_decode",
            Self::Contains => "spark_contains",
            Self::StartsWith => "spark_starts_with",
            Self::EndsWith => "spark_ends_with",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let number = match self {
            Self::Mask => 5,
            Self::Luhn => 1,
            _ => 2,
        };
        if kinds.len() != number {
            return plan_err!("the function {} takes {number} arguments", self.name());
        }
        let is_text = |kind: &DataType| kind.is_string() || kind.is_null();
        let is_bytes = |kind: &DataType| kind.is_binary() || kind.is_null();
        let are_bytes = kinds.iter().all(is_bytes) && kinds.iter().any(DataType::is_binary);
        match self {
            Self::Contains | Self::StartsWith | Self::EndsWith if are_bytes => {
                Ok(vec![DataType::Binary; number])
            }
            Self::Decode if (is_text(&kinds[0]) || is_bytes(&kinds[0])) && is_text(&kinds[1]) => {
                Ok(vec![DataType::Binary, DataType::Utf8])
            }
            // The bytes of a text are encoded anew.
            Self::Encode | Self::Luhn | Self::ToBinary | Self::TryToBinary | Self::Mask
                if kinds.iter().all(is_text) =>
            {
                Ok(vec![DataType::Utf8; number])
            }
            Self::Contains | Self::StartsWith | Self::EndsWith if kinds.iter().all(is_text) => {
                Ok(vec![DataType::Utf8; number])
            }
            _ => plan_err!("{} takes texts", self.name().trim_start_matches("spark_")),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self {
            Self::Mask | Self::Decode => DataType::Utf8,
            Self::ToBinary | Self::TryToBinary | Self::Encode => DataType::Binary,
            Self::Luhn | Self::Contains | Self::StartsWith | Self::EndsWith => DataType::Boolean,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| self.run(arrays))
    }
}

fn masked(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let texts: Vec<&StringArray> = arrays.iter().map(|array| array.as_string::<i32>()).collect();
    let letter = |of: usize, row: usize| -> Result<Option<char>> {
        if texts[of].is_null(row) {
            return Ok(None);
        }
        let mut letters = texts[of].value(row).chars();
        match (letters.next(), letters.next()) {
            (Some(letter), None) => Ok(Some(letter)),
            _ => plan_err!("mask takes single letters, and not '{}'", texts[of].value(row)),
        }
    };
    let rows = (0..texts[0].len()).map(|row| {
        let [upper, lower, digit, other] = [1, 2, 3, 4].map(|of| letter(of, row));
        let [upper, lower, digit, other] = [upper?, lower?, digit?, other?];
        if texts[0].is_null(row) {
            return Ok(None);
        }
        let mask = |found: char| {
            let instead = if found.is_uppercase() {
                upper
            } else if found.is_lowercase() {
                lower
            } else if is_digit(found) {
                digit
            } else {
                other
            };
            instead.unwrap_or(found)
        };
        Ok(Some(texts[0].value(row).chars().map(mask).collect::<String>()))
    });
    Ok(Arc::new(rows.collect::<Result<StringArray>>()?))
}

/// True for a decimal digit of any script within 16 bits.
fn is_digit(letter: char) -> bool {
    /// The zeros; the other nine digits are behind them.
    const ZEROS: [u32; 37] = [
        0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6,
        0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0,
        0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10,
    ];
    ZEROS.iter().any(|zero| (*zero..zero + 10).contains(&u32::from(letter)))
}

fn is_luhn(text: &str) -> bool {
    let mut sum = 0;
    for (place, byte) in text.bytes().rev().enumerate() {
        if !byte.is_ascii_digit() {
            return false;
        }
        let digit = u32::from(byte - b'0') * if place % 2 == 1 { 2 } else { 1 };
        sum = (sum + digit / 10 + digit % 10) % 10;
    }
    !text.is_empty() && sum == 0
}

/// A format of `to_binary`.
enum Format {
    Hex,
    Base64,
    Utf8,
}

impl Format {
    fn of(name: &str) -> Result<Self> {
        match name.to_ascii_lowercase().as_str() {
            "hex" => Ok(Self::Hex),
            "base64" => Ok(Self::Base64),
            "utf-8" | "utf8" => Ok(Self::Utf8),
            _ => {
                let error = Error::new(ErrorKind::Invalid, format!("to_binary has no format '{name}'"));
                Err(error.with_hint("the formats are hex, base64 and utf-8").into())
            }
        }
    }

    /// The bytes of a text; `None` if it is none of this format.
    fn bytes(&self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Utf8 => Some(text.as_bytes().to_vec()),
            Self::Hex => {
                let digits: Option<Vec<u8>> = text
                    .chars()
                    .map(|digit| digit.to_digit(16).and_then(|digit| digit.try_into().ok()))
                    .collect();
                let digits = digits?;
                let first = if digits.len() % 2 == 1 { vec![0] } else { Vec::new() };
                let digits = [first, digits].concat();
                Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
            }
            Self::Base64 => base64_bytes(text),
        }
    }
}

/// The bytes of base 64, with or without its padding, and with blanks anywhere before that.
fn base64_bytes(text: &str) -> Option<Vec<u8>> {
    let (mut bits, mut held, mut letters, mut padding) = (0_u32, 0_u32, 0_usize, 0_usize);
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for letter in text.bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                padding += 1;
                continue;
            }
            b' ' | b'\t' | b'\r' | b'\n' if padding == 0 => continue,
            _ => return None,
        };
        if padding > 0 {
            return None;
        }
        letters += 1;
        bits = (bits << 6 | u32::from(value)) & 0xf_ffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xff).ok()?);
        }
    }
    let is_whole = if padding > 0 { padding <= 2 && (letters + padding) % 4 == 0 } else { letters % 4 != 1 };
    is_whole.then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers are those of Spark 4.3.
    #[test]
    fn texts_are_bytes_by_format() {
        let text = |format: &Format, text: &str| {
            format.bytes(text).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        };
        for (written, expected) in [
            ("U3Bhcms=", Some("Spark")),
            ("U3Bhcms", Some("Spark")),
            ("U3 Bh\ncms=", Some("Spark")),
            ("", Some("")),
            ("a", None),
            ("ab==f", None),
            ("abc==", None),
            ("====", None),
            ("YQ= =", None),
            ("a-b_", None),
        ] {
            assert_eq!(text(&Format::Base64, written).as_deref(), expected, "{written}");
        }
        assert_eq!(Format::Hex.bytes("1fF"), Some(vec![1, 0xff]));
        assert_eq!((Format::Hex.bytes("GG"), Format::Hex.bytes("")), (None, Some(Vec::new())));
    }

    #[test]
    fn letters_are_masked_by_their_kind() {
        let text = |text: Option<&str>| Arc::new(StringArray::from(vec![text])) as ArrayRef;
        let masks = ["X", "x", "n", "o"].map(|mask| text(Some(mask)));
        for (written, expected) in [("AbC-12", "XxXonn"), ("éÉ大٣", "xXon"), ("😀", "o"), ("", "")] {
            let found = masked(&[vec![text(Some(written))], masks.to_vec()].concat()).unwrap();
            assert_eq!(found.as_string::<i32>().value(0), expected, "{written}");
        }
        let nulls = [text(Some("Ab1-")), text(None), text(None), text(None), text(None)];
        assert_eq!(masked(&nulls).unwrap().as_string::<i32>().value(0), "Ab1-");
        assert!(masked(&[text(Some("A")), text(Some("XY")), text(None), text(None), text(None)]).is_err());
    }

    #[test]
    fn check_digits_are_those_of_luhn() {
        for (text, expected) in [
            ("4111111111111111", true),
            ("4111111111111112", false),
            ("", false),
            ("0", true),
            ("79927398713", true),
            ("4 1", false),
        ] {
            assert_eq!(is_luhn(text), expected, "{text}");
        }
    }
}
