//! Codes and checks of texts and bytes that only Spark has, with the names of [`Kind`].

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, BinaryArray, BooleanArray, Int64Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use yeoul_base::ErrorKind;

use super::rows::invoke;
use crate::Error;
use crate::signatures::USER_DEFINED;

/// A function of one text, of bytes, or of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// `spark_char(n)`: the letter of the low eight bits of a number, an empty text of a negative one.
    Char,
    /// `spark_crc32(bytes)`.
    Crc32,
    /// `spark_sha1(bytes)`.
    Sha1,
    /// `spark_soundex(text)`.
    Soundex,
    /// `spark_url_encode(text)`, as forms of the web write it.
    UrlEncode,
    /// `spark_url_decode(text)`.
    UrlDecode,
    /// `spark_try_url_decode(text)`: null where the other one is an error.
    TryUrlDecode,
    /// `spark_is_valid_utf8(bytes)`.
    IsValid,
    /// `spark_make_valid_utf8(bytes)`: bytes that are no text become U+FFFD.
    MakeValid,
    /// `spark_validate_utf8(bytes)`: the text, or an error.
    Validate,
    /// `spark_try_validate_utf8(bytes)`: the text, or null.
    TryValidate,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Char,
        Self::Crc32,
        Self::Sha1,
        Self::Soundex,
        Self::UrlEncode,
        Self::UrlDecode,
        Self::TryUrlDecode,
        Self::IsValid,
        Self::MakeValid,
        Self::Validate,
        Self::TryValidate,
    ];

    /// All of these functions.
    pub(super) fn all() -> impl Iterator<Item = ScalarUDF> {
        Self::ALL.into_iter().map(ScalarUDF::from)
    }

    /// The type of the argument.
    const fn argument(self) -> DataType {
        match self {
            Self::Char => DataType::Int64,
            Self::Soundex | Self::UrlEncode | Self::UrlDecode | Self::TryUrlDecode => DataType::Utf8,
            _ => DataType::Binary,
        }
    }

    fn run(self, values: &ArrayRef) -> Result<ArrayRef> {
        match self.argument() {
            DataType::Int64 => {
                let letters = values.as_primitive::<Int64Type>().iter().map(|number| number.map(letter_of));
                Ok(Arc::new(letters.collect::<StringArray>()))
            }
            DataType::Utf8 => {
                let texts = values.as_string::<i32>().iter();
                let texts = texts.map(|text| match text {
                    Some(text) => self.of_text(text),
                    None => Ok(None),
                });
                Ok(Arc::new(texts.collect::<Result<StringArray>>()?))
            }
            _ => self.of_bytes(values.as_binary::<i32>()),
        }
    }

    fn of_text(self, text: &str) -> Result<Option<String>> {
        Ok(match self {
            Self::Soundex => Some(soundex(text)),
            Self::UrlEncode => Some(url_encoded(text)),
            _ => match url_decoded(text) {
                None if self == Self::UrlDecode => {
                    let error =
                        Error::new(ErrorKind::Invalid, format!("'{text}' is no encoded text of a URL"));
                    return Err(error.with_hint("try_url_decode is null there").into());
                }
                decoded => decoded,
            },
        })
    }

    fn of_bytes(self, values: &BinaryArray) -> Result<ArrayRef> {
        let valid = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        Ok(match self {
            Self::Crc32 => {
                let codes = values.iter().map(|bytes| bytes.map(|bytes| i64::from(crc32(bytes))));
                Arc::new(codes.collect::<Int64Array>())
            }
            Self::Sha1 => {
                let hex =
                    |bytes: &[u8]| sha1(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                Arc::new(values.iter().map(|bytes| bytes.map(hex)).collect::<StringArray>())
            }
            Self::IsValid => {
                let answers =
                    values.iter().map(|bytes| bytes.map(|bytes| std::str::from_utf8(bytes).is_ok()));
                Arc::new(answers.collect::<BooleanArray>())
            }
            Self::MakeValid => {
                let texts = values.iter().map(|bytes| bytes.map(String::from_utf8_lossy));
                Arc::new(texts.collect::<StringArray>())
            }
            Self::TryValidate => {
                Arc::new(values.iter().map(|bytes| bytes.and_then(valid)).collect::<StringArray>())
            }
            _ => {
                let texts = values.iter().map(|bytes| {
                    let Some(bytes) = bytes else { return Ok(None) };
                    valid(bytes).map(Some).ok_or_else(|| {
                        Error::new(ErrorKind::Invalid, "bytes that are no text in UTF-8")
                            .with_hint("make_valid_utf8 replaces them, try_validate_utf8 is null there")
                    })
                });
                Arc::new(texts.collect::<Result<StringArray, Error>>()?)
            }
        })
    }
}

impl ScalarUDFImpl for Kind {
    fn name(&self) -> &str {
        match self {
            Self::Char => "spark_char",
            Self::Crc32 => "spark_crc32",
            Self::Sha1 => "spark_sha1",
            Self::Soundex => "spark_soundex",
            Self::UrlEncode => "spark_url_encode",
            Self::UrlDecode => "spark_url_decode",
            Self::TryUrlDecode => "spark_try_url_decode",
            Self::IsValid => "spark_is_valid_utf8",
            Self::MakeValid => "spark_make_valid_utf8",
            Self::Validate => "spark_validate_utf8",
            Self::TryValidate => "spark_try_validate_utf8",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name().trim_start_matches("spark_");
        let [kind] = kinds else { return plan_err!("the function {name} takes 1 argument") };
        let is_fitting = match self.argument() {
            DataType::Int64 => kind.is_integer(),
            DataType::Utf8 => kind.is_string(),
            _ => kind.is_string() || kind.is_binary(),
        };
        if !is_fitting && !kind.is_null() {
            return plan_err!("{name} takes another argument than {}", crate::types::type_name(kind));
        }
        Ok(vec![self.argument()])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self {
            Self::Crc32 => DataType::Int64,
            Self::IsValid => DataType::Boolean,
            _ => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| self.run(&arrays[0]))
    }
}

fn letter_of(number: i64) -> String {
    match u8::try_from(number & 0xff) {
        Ok(code) if number >= 0 => char::from(code).to_string(),
        _ => String::new(),
    }
}

/// The cyclic redundancy check of IEEE 802.3, which `java.util.zip.CRC32` computes.
fn crc32(bytes: &[u8]) -> u32 {
    let mut code = u32::MAX;
    for byte in bytes {
        code ^= u32::from(*byte);
        for _ in 0..8 {
            code = if code & 1 == 1 { code >> 1 ^ 0xedb8_8320 } else { code >> 1 };
        }
    }
    !code
}

/// The digest of FIPS 180-4.
fn sha1(bytes: &[u8]) -> [u8; 20] {
    let mut message = bytes.to_vec();
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    let bits = u64::try_from(bytes.len()).unwrap_or(u64::MAX).wrapping_mul(8);
    message.extend_from_slice(&bits.to_be_bytes());
    let mut state: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in message.chunks_exact(64) {
        let mut words = [0_u32; 80];
        for (word, four) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_be_bytes([four[0], four[1], four[2], four[3]]);
        }
        for at in 16..80 {
            words[at] = (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (at, word) in words.iter().enumerate() {
            let (mixed, constant) = match at {
                0..20 => (b & c | !b & d, 0x5a82_7999),
                20..40 => (b ^ c ^ d, 0x6ed9_eba1),
                40..60 => (b & c | b & d | c & d, 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let next = [mixed, e, constant, *word].into_iter().fold(a.rotate_left(5), u32::wrapping_add);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        for (kept, found) in state.iter_mut().zip([a, b, c, d, e]) {
            *kept = kept.wrapping_add(found);
        }
    }
    let mut digest = [0; 20];
    for (four, word) in digest.chunks_exact_mut(4).zip(state) {
        four.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

/// The code of a word by its sound; a text that begins with no letter stays as it is.
fn soundex(text: &str) -> String {
    const CODES: &[u8; 26] = b"01230127022455012623017202";
    let code = |byte: u8| match byte.to_ascii_uppercase() {
        letter @ b'A'..=b'Z' => Some(CODES[usize::from(letter - b'A')]),
        _ => None,
    };
    let bytes = text.as_bytes();
    let Some(mut last) = bytes.first().and_then(|byte| code(*byte)) else { return text.to_owned() };
    let mut found = vec![bytes[0].to_ascii_uppercase()];
    for byte in &bytes[1..] {
        match code(*byte) {
            // H and W stand between letters of one sound; other signs end it.
            Some(b'7') => {}
            Some(sound) => {
                if sound != b'0' && sound != last {
                    found.push(sound);
                    if found.len() == 4 {
                        break;
                    }
                }
                last = sound;
            }
            None => last = b'0',
        }
    }
    found.resize(4, b'0');
    found.into_iter().map(char::from).collect()
}

/// A text as `application/x-www-form-urlencoded`, which `java.net.URLEncoder` writes.
fn url_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'*' | b'_' => {
                encoded.push(char::from(byte));
            }
            b' ' => encoded.push('+'),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn url_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
                let code = digit()? * 16 + digit()?;
                bytes.push(u8::try_from(code).ok()?);
            }
            byte => bytes.push(byte),
        }
    }
    // As in Java, bytes that are no text become U+FFFD.
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_standards() {
        assert_eq!((crc32(b""), crc32(b"123456789")), (0, 0xcbf4_3926));
        let hex = |bytes: &[u8]| sha1(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(hex(b""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(hex(&[b'a'; 64]), "0098ba824b5c16427bd7a1122a5a442a25ec644d");
        for (text, expected) in [
            ("Miller", "M460"),
            ("Ashcraft", "A261"),
            ("Tymczak", "T522"),
            ("", ""),
            ("7up", "7up"),
            ("a", "A000"),
        ] {
            assert_eq!(soundex(text), expected, "{text}");
        }
    }

    #[test]
    fn texts_of_urls_are_encoded_and_back() {
        for (text, encoded) in [("https://a b", "https%3A%2F%2Fa+b"), ("é*", "%C3%A9*"), ("", "")] {
            assert_eq!(url_encoded(text), encoded);
            assert_eq!(url_decoded(encoded).as_deref(), Some(text));
        }
        assert_eq!((url_decoded("%4"), url_decoded("%zz")), (None, None));
        assert_eq!((letter_of(65), letter_of(-1), letter_of(321)), ("A".into(), String::new(), "A".into()));
    }
}
