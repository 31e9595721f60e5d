//! A value of JSON (RFC 8259) in the text in which it stands.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use yeoul_base::ErrorKind;

use crate::types::spark_values::double_text;
use crate::{Error, Result};

/// Blanks between the tokens of JSON.
const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// Characters of a text that an error shows.
const SHOWN_CHARS_MAX: usize = 60;

/// A value of JSON: its text, which has been checked, without blanks around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Json<'a>(&'a str);

/// The kinds of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Boolean,
    Number,
    Text,
    Array,
    Object,
}

impl<'a> Json<'a> {
    /// The value that is all of a text.
    ///
    /// # Errors
    /// `Invalid` for a text that is no JSON.
    pub fn read(text: &'a str) -> Result<Self> {
        serde_json::from_str::<IgnoredAny>(text).map_err(|error| malformed(text, error))?;
        Self(text.trim_matches(BLANKS)).checked().map_err(|error| malformed(text, error))
    }

    /// The value with which a text begins; whatever is behind it.
    ///
    /// # Errors
    /// That of the parser.
    pub fn leading(text: &'a str) -> Result<Self, serde_json::Error> {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
        match values.next() {
            Some(value) => value?,
            // Of a text without a value, the error says so.
            None => serde_json::from_str::<IgnoredAny>(text)?,
        };
        Self(text[..values.byte_offset()].trim_matches(BLANKS)).checked()
    }

    /// Checks what the parser leaves out where it passes over texts: characters that are written as halves.
    fn checked(self) -> Result<Self, serde_json::Error> {
        if self.0.contains("\\u") {
            let mut at = 0;
            while let Some(quote) = self.0[at..].find('"') {
                let begin = at + quote;
                at = text_end(self.0, begin);
                serde_json::from_str::<Cow<'_, str>>(&self.0[begin..at])?;
            }
        }
        Ok(self)
    }

    pub fn kind(self) -> Kind {
        match self.0.as_bytes()[0] {
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            b'"' => Kind::Text,
            b't' | b'f' => Kind::Boolean,
            b'n' => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// The text of the value as it is written.
    pub fn written(self) -> &'a str {
        self.0
    }

    /// The elements of an array; none of another value.
    pub fn elements(self) -> impl Iterator<Item = Json<'a>> {
        let mut children = Children { text: self.0, at: 1, is_open: self.kind() == Kind::Array };
        std::iter::from_fn(move || children.next())
    }

    /// The names and values of an object, in their order, with all of one name; none of another value.
    pub fn members(self) -> impl Iterator<Item = (Cow<'a, str>, Json<'a>)> {
        let mut children = Children { text: self.0, at: 1, is_open: self.kind() == Kind::Object };
        std::iter::from_fn(move || {
            let name = children.next()?;
            let value = children.next().expect("a name has a value");
            Some((content(name.0), value))
        })
    }

    /// The value without blanks and with texts in their shortest form. Numbers keep their digits.
    pub fn compact(self) -> String {
        let mut compact = String::with_capacity(self.0.len());
        let mut at = 0;
        while at < self.0.len() {
            // Outside of texts, all is ASCII.
            let letter = char::from(self.0.as_bytes()[at]);
            if letter == '"' {
                let end = text_end(self.0, at);
                compact.push_str(&shortest(&self.0[at..end]));
                at = end;
            } else {
                if !BLANKS.contains(&letter) {
                    compact.push(letter);
                }
                at += 1;
            }
        }
        compact
    }

    /// The value without blanks, with numbers as Java's Jackson writes them: fractions as a DOUBLE has them.
    pub fn compact_as_java(self) -> String {
        let mut compact = String::with_capacity(self.0.len());
        let mut at = 0;
        while at < self.0.len() {
            let letter = char::from(self.0.as_bytes()[at]);
            let rest = &self.0[at..];
            if letter == '"' {
                let end = text_end(self.0, at);
                compact.push_str(&shortest(&self.0[at..end]));
                at = end;
            } else if letter == '-' || letter.is_ascii_digit() {
                let is_part = |letter: char| letter.is_ascii_digit() || "+-.eE".contains(letter);
                let number = &rest[..rest.find(|letter| !is_part(letter)).unwrap_or(rest.len())];
                match number.parse::<f64>() {
                    Ok(value) if number.contains(['.', 'e', 'E']) && value.is_finite() => {
                        compact.push_str(&double_text(value));
                    }
                    Ok(value) if number.contains(['.', 'e', 'E']) => {
                        compact.push_str(&format!("\"{}\"", double_text(value)));
                    }
                    _ => compact.push_str(number),
                }
                at += number.len();
            } else {
                if !BLANKS.contains(&letter) {
                    compact.push(letter);
                }
                at += 1;
            }
        }
        compact
    }

    /// The value as a text of SQL: a text without quotes, another value as [`compact`](Self::compact); `None` for null.
    pub fn to_text(self) -> Option<String> {
        match self.kind() {
            Kind::Null => None,
            Kind::Text => Some(content(self.0).into_owned()),
            _ => Some(self.compact()),
        }
    }
}

/// The error of a text that is no JSON.
fn malformed(text: &str, error: serde_json::Error) -> Error {
    let mut shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    let (line, column) = (error.line(), error.column());
    let what = format!("'{shown}' is no JSON, at line {line}, column {column} of the text");
    Error::new(ErrorKind::Invalid, what)
        .with_hint("json_valid(text) is false for such a text")
        .with_source(error)
}

/// The values in an array, or the names and values in an object.
struct Children<'a> {
    text: &'a str,
    /// Behind the last one.
    at: usize,
    is_open: bool,
}

impl<'a> Children<'a> {
    fn next(&mut self) -> Option<Json<'a>> {
        if !self.is_open {
            return None;
        }
        let bytes = self.text.as_bytes();
        while matches!(bytes[self.at], b' ' | b'\t' | b'\n' | b'\r' | b',' | b':') {
            self.at += 1;
        }
        if matches!(bytes[self.at], b']' | b'}') {
            self.is_open = false;
            return None;
        }
        let begin = self.at;
        self.at = value_end(self.text, begin);
        Some(Json(&self.text[begin..self.at]))
    }
}

/// The end of the value that begins at a place of a text that has been checked.
fn value_end(text: &str, begin: usize) -> usize {
    let bytes = text.as_bytes();
    match bytes[begin] {
        b'"' => text_end(text, begin),
        b'[' | b'{' => {
            let (mut depth, mut at) = (0_usize, begin);
            loop {
                match bytes[at] {
                    b'"' => {
                        at = text_end(text, at);
                        continue;
                    }
                    b'[' | b'{' => depth += 1,
                    b']' | b'}' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    return at;
                }
            }
        }
        _ => {
            let is_end = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' | b']' | b'}');
            bytes[begin..].iter().position(is_end).map_or(bytes.len(), |length| begin + length)
        }
    }
}

/// The end of the text in quotes that begins at a place.
fn text_end(text: &str, begin: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = begin + 1;
    loop {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The characters of a text in quotes.
fn content(quoted: &str) -> Cow<'_, str> {
    if quoted.contains('\\') {
        Cow::Owned(serde_json::from_str(quoted).expect("the text has been checked"))
    } else {
        Cow::Borrowed(&quoted[1..quoted.len() - 1])
    }
}

fn shortest(quoted: &str) -> Cow<'_, str> {
    if quoted.contains('\\') {
        Cow::Owned(serde_json::to_string(&content(quoted)).expect("a text is JSON"))
    } else {
        Cow::Borrowed(quoted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_what_its_text_says() {
        let text = " { \"a\" : [ 1.50, -2e3 ,\"x\\u0041\\/\\n\", {} ] , \"b\\u0063\":null, \"a\": true } \n";
        let json = Json::read(text).unwrap();
        assert_eq!(json.kind(), Kind::Object);
        assert_eq!(json.compact(), r#"{"a":[1.50,-2e3,"xA/\n",{}],"bc":null,"a":true}"#);
        assert_eq!(
            Json::read(r#"[1.50, -2e3, 7, "1.50", {"a": 1e400}]"#).unwrap().compact_as_java(),
            r#"[1.5,-2000.0,7,"1.50",{"a":"Infinity"}]"#
        );
        let members: Vec<_> = json.members().map(|(name, value)| (name.into_owned(), value.kind())).collect();
        let expected = [("a", Kind::Array), ("bc", Kind::Null), ("a", Kind::Boolean)];
        assert_eq!(members, expected.map(|(name, kind)| (name.to_owned(), kind)));
        let (_, array) = json.members().next().unwrap();
        let elements: Vec<_> = array.elements().map(Json::written).collect();
        assert_eq!(elements, ["1.50", "-2e3", "\"x\\u0041\\/\\n\"", "{}"]);
        assert_eq!(array.elements().nth(2).unwrap().to_text().unwrap(), "xA/\n");
        assert_eq!(json.elements().count() + array.members().count(), 0);
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        for text in [
            "",
            " ",
            "bad",
            "01",
            "1.",
            ".5",
            "+1",
            "-",
            "'a'",
            "[1,]",
            "{\"a\":1,}",
            "1 2",
            "NaN",
            "Infinity",
            "{\"a\" 1}",
            "{a:1}",
            "[1",
            "\"",
            "\"\\q\"",
            "\"\n\"",
            "\u{feff}1",
            "\"\\ud800\"",
            "{\"\\udc00\":1}",
            "/* c */ 1",
        ] {
            let error = Json::read(text).unwrap_err();
            assert!(error.to_string().contains("is no JSON") && error.hint().is_some(), "{text}: {error}");
        }
        for text in ["1", " 1e400 ", "\"\"", "[]", "null", "\"\\ud83d\\ude00\"", "\"\u{7f}\"", "-0"] {
            assert!(Json::read(text).is_ok(), "{text}");
        }
        assert_eq!(Json::leading(" [1] x").unwrap().written(), "[1]");
        assert!(Json::leading("").is_err() && Json::leading("x").is_err());
    }

    /// Neither a deep value nor a long number overflows anything.
    #[test]
    fn depth_and_digits_have_no_limit() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let json = Json::read(&deep).unwrap();
        assert_eq!(json.elements().next().unwrap().compact().len(), 199_998);
        assert!(Json::read(&deep[1..]).is_err());
        let digits = format!("0.{}", "9".repeat(400));
        assert_eq!(Json::read(&digits).unwrap().to_text().unwrap(), digits);
    }
}
