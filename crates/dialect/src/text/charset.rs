//! Charsets of `encode` and `decode`, those of Spark 4.

use datafusion::common::Result;
use yeoul_base::ErrorKind;

use crate::Error;

/// A charset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charset {
    Ascii,
    Latin1,
    Utf8,
    Utf16BigEndian,
    Utf16LittleEndian,
    /// Big-endian behind a mark of the byte order.
    Utf16,
    /// Big-endian.
    Utf32,
}

const NAMES: [(&str, Charset); 7] = [
    ("US-ASCII", Charset::Ascii),
    ("ISO-8859-1", Charset::Latin1),
    ("UTF-8", Charset::Utf8),
    ("UTF-16BE", Charset::Utf16BigEndian),
    ("UTF-16LE", Charset::Utf16LittleEndian),
    ("UTF-16", Charset::Utf16),
    ("UTF-32", Charset::Utf32),
];

impl Charset {
    /// The charset of a name, in any case.
    ///
    /// # Errors
    /// `Invalid` for another name.
    pub(super) fn named(name: &str) -> Result<Self> {
        let found = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, charset)| *charset).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            let error = Error::new(ErrorKind::Invalid, format!("there is no charset '{name}'"));
            error.with_hint(format!("the charsets are {}", names.join(", "))).into()
        })
    }

    fn name(self) -> &'static str {
        NAMES.iter().find(|(_, charset)| *charset == self).map_or("UTF-8", |(name, _)| name)
    }

    /// The bytes of a text.
    ///
    /// # Errors
    /// `Invalid` for a letter that the charset does not have.
    pub(super) fn encode(self, text: &str) -> Result<Vec<u8>> {
        let narrow = |most: u32| -> Result<Vec<u8>> {
            text.chars()
                .map(|letter| {
                    let code = u32::from(letter);
                    u8::try_from(code).ok().filter(|_| code <= most).ok_or_else(|| {
                        let text = format!("{} has no letter '{letter}'", self.name());
                        Error::new(ErrorKind::Invalid, text).into()
                    })
                })
                .collect()
        };
        let wide = |bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
        Ok(match self {
            Self::Ascii => narrow(0x7f)?,
            Self::Latin1 => narrow(0xff)?,
            Self::Utf8 => text.as_bytes().to_vec(),
            Self::Utf16BigEndian => wide(u16::to_be_bytes),
            Self::Utf16LittleEndian => wide(u16::to_le_bytes),
            // Nothing has no byte order.
            Self::Utf16 if text.is_empty() => Vec::new(),
            Self::Utf16 => [vec![0xfe, 0xff], wide(u16::to_be_bytes)].concat(),
            Self::Utf32 => text.chars().flat_map(|letter| u32::from(letter).to_be_bytes()).collect(),
        })
    }

    /// The text of bytes.
    ///
    /// # Errors
    /// `Invalid` for bytes that are no text of the charset.
    pub(super) fn decode(self, bytes: &[u8]) -> Result<String> {
        let wide = |bytes: &[u8], of: fn([u8; 2]) -> u16| {
            let pairs = bytes.chunks_exact(2);
            let is_whole = pairs.remainder().is_empty();
            let units: Vec<u16> = pairs.map(|pair| of([pair[0], pair[1]])).collect();
            String::from_utf16(&units).ok().filter(|_| is_whole)
        };
        let text = match self {
            Self::Ascii => bytes.is_ascii().then(|| bytes.iter().map(|byte| char::from(*byte)).collect()),
            Self::Latin1 => Some(bytes.iter().map(|byte| char::from(*byte)).collect()),
            Self::Utf8 => String::from_utf8(bytes.to_vec()).ok(),
            Self::Utf16BigEndian => wide(bytes, u16::from_be_bytes),
            Self::Utf16LittleEndian => wide(bytes, u16::from_le_bytes),
            Self::Utf16 => match bytes {
                [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
                [0xfe, 0xff, rest @ ..] | rest => wide(rest, u16::from_be_bytes),
            },
            Self::Utf32 => {
                let codes = bytes.chunks_exact(4);
                let is_whole = codes.remainder().is_empty();
                let letter = |code: &[u8]| char::from_u32(u32::from_be_bytes(code.try_into().ok()?));
                codes.map(letter).collect::<Option<String>>().filter(|_| is_whole)
            }
        };
        text.ok_or_else(|| {
            let error = Error::new(ErrorKind::Invalid, format!("these bytes are no text in {}", self.name()));
            error.with_hint("hex(bytes) shows them").into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers are those of Spark 4.3.
    #[test]
    fn texts_come_back() {
        for (name, bytes) in [
            ("utf-8", vec![0x61, 0xc3, 0xa9]),
            ("ISO-8859-1", vec![0x61, 0xe9]),
            ("UTF-16", vec![0xfe, 0xff, 0, 0x61, 0, 0xe9]),
            ("UTF-16LE", vec![0x61, 0, 0xe9, 0]),
            ("UTF-16BE", vec![0, 0x61, 0, 0xe9]),
            ("UTF-32", vec![0, 0, 0, 0x61, 0, 0, 0, 0xe9]),
        ] {
            let charset = Charset::named(name).unwrap();
            assert_eq!(charset.encode("aé").unwrap(), bytes, "{name}");
            assert_eq!(charset.decode(&bytes).unwrap(), "aé", "{name}");
        }
        assert!(Charset::Ascii.encode("é").is_err() && Charset::Utf8.decode(&[0xff]).is_err());
        assert!(Charset::Utf16BigEndian.decode(&[0]).is_err() && Charset::named("WINDOWS-1252").is_err());
    }
}
