//! Types as texts of Spark's: `a INT, b ARRAY<STRING>`, `struct<a: int>`.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Fields, TimeUnit};
use yeoul_base::ErrorKind;

use crate::{Error, Result};

/// Types in each other, at most.
const DEPTH_MAX: usize = 100;

/// The type of a text: that of a value, or of a struct of columns.
///
/// # Errors
/// `Invalid` for a text that is none, and for types that this engine has not.
pub(super) fn type_of(text: &str) -> Result<DataType> {
    let mut reader = Reader { text, at: 0, whole: text };
    // A name and nothing else is a type; what has a second word behind it is a column.
    if let Ok(kind) = reader.kind(0)
        && reader.is_at_end()
    {
        return Ok(kind);
    }
    let mut reader = Reader { text, at: 0, whole: text };
    let fields = reader.fields(0, None)?;
    Ok(DataType::Struct(fields))
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    whole: &'a str,
}

impl<'a> Reader<'a> {
    fn refused(&self, what: &str) -> Error {
        Error::new(ErrorKind::Invalid, format!("'{}' is no schema: {what}", self.whole))
            .with_hint("write 'a INT, b ARRAY<STRING>', or 'MAP<STRING, INT>'")
    }

    fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        &self.text[self.at..]
    }

    fn is_at_end(&mut self) -> bool {
        self.rest().is_empty()
    }

    fn takes(&mut self, sign: char) -> bool {
        let found = self.rest().starts_with(sign);
        self.at += if found { sign.len_utf8() } else { 0 };
        found
    }

    fn expects(&mut self, sign: char) -> Result<()> {
        if self.takes(sign) { Ok(()) } else { Err(self.refused(&format!("'{sign}' is missing"))) }
    }

    /// A name: a word, or what is in backquotes.
    fn name(&mut self) -> Result<String> {
        let rest = self.rest();
        if let Some(quoted) = rest.strip_prefix('`') {
            let mut name = String::new();
            let mut letters = quoted.char_indices().peekable();
            while let Some((at, letter)) = letters.next() {
                if letter != '`' {
                    name.push(letter);
                } else if letters.next_if(|(_, next)| *next == '`').is_some() {
                    name.push('`');
                } else {
                    self.at += at + 2;
                    return Ok(name);
                }
            }
            return Err(self.refused("a backquote does not end"));
        }
        let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
        let length = rest.find(|letter| !is_letter(letter)).unwrap_or(rest.len());
        if length == 0 {
            return Err(self.refused("a name is missing"));
        }
        self.at += length;
        Ok(rest[..length].to_owned())
    }

    /// The fields up to a sign, or to the end.
    fn fields(&mut self, depth: usize, end: Option<char>) -> Result<Fields> {
        let mut fields = Vec::new();
        loop {
            if end.is_some_and(|end| fields.is_empty() && self.takes(end)) {
                break;
            }
            let name = self.name()?;
            self.takes(':');
            let kind = self.kind(depth + 1)?;
            fields.push(Field::new(name, kind, true));
            if self.takes(',') {
                continue;
            }
            match end {
                Some(end) => self.expects(end)?,
                None if self.is_at_end() => {}
                None => return Err(self.refused("a comma is missing, or NOT NULL or COMMENT is written")),
            }
            break;
        }
        Ok(Fields::from(fields))
    }

    fn kind(&mut self, depth: usize) -> Result<DataType> {
        if depth > DEPTH_MAX {
            return Err(self.refused("it has too many types in each other"));
        }
        let name = self.name()?.to_ascii_uppercase();
        Ok(match name.as_str() {
            "BOOLEAN" => DataType::Boolean,
            "TINYINT" | "BYTE" => DataType::Int8,
            "SMALLINT" | "SHORT" => DataType::Int16,
            "INT" | "INTEGER" => DataType::Int32,
            "BIGINT" | "LONG" => DataType::Int64,
            "FLOAT" | "REAL" => DataType::Float32,
            "DOUBLE" => DataType::Float64,
            "STRING" => DataType::Utf8,
            "DATE" => DataType::Date32,
            "TIMESTAMP" | "TIMESTAMP_NTZ" => DataType::Timestamp(TimeUnit::Microsecond, None),
            "DECIMAL" | "DEC" | "NUMERIC" => self.decimal()?,
            "ARRAY" => {
                self.expects('<')?;
                let element = self.kind(depth + 1)?;
                self.expects('>')?;
                DataType::List(Arc::new(Field::new_list_field(element, true)))
            }
            "MAP" => {
                self.expects('<')?;
                let key = self.kind(depth + 1)?;
                self.expects(',')?;
                let value = self.kind(depth + 1)?;
                self.expects('>')?;
                let entries =
                    Fields::from(vec![Field::new("key", key, false), Field::new("value", value, true)]);
                DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
            }
            "STRUCT" => {
                self.expects('<')?;
                DataType::Struct(self.fields(depth, Some('>'))?)
            }
            other => return Err(self.refused(&format!("there is no type {other} here"))),
        })
    }

    fn decimal(&mut self) -> Result<DataType> {
        if !self.takes('(') {
            return Ok(DataType::Decimal128(10, 0));
        }
        let precision = self.name()?;
        let scale = if self.takes(',') { self.name()? } else { "0".to_owned() };
        self.expects(')')?;
        match (precision.parse::<u8>(), scale.parse::<i8>()) {
            (Ok(precision @ 1..=38), Ok(scale @ 0..=38)) if i16::from(scale) <= i16::from(precision) => {
                Ok(DataType::Decimal128(precision, scale))
            }
            _ => Err(self.refused("a DECIMAL has 1 to 38 digits")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_types() {
        let of = |text: &str| crate::types::type_name(&type_of(text).unwrap());
        assert_eq!(of("array<int>"), of("ARRAY < INT >"));
        assert_eq!(of("a INT, b: struct<c: decimal(3, 1)>"), of("struct<a:int,`b` STRUCT<c DECIMAL(3,1)>>"));
        assert!(matches!(type_of("MAP<STRING, ARRAY<INT>>").unwrap(), DataType::Map(..)));
        let DataType::Struct(fields) = type_of("create INT, `a``b` STRING").unwrap() else {
            panic!("columns")
        };
        assert_eq!((fields[0].name().as_str(), fields[1].name().as_str()), ("create", "a`b"));
        assert_eq!(type_of("INT").unwrap(), DataType::Int32);
        for text in
            ["", "a", "a INT b INT", "a INT,", "array<int", "a UUID", "a DECIMAL(50)", "a INT NOT NULL"]
        {
            let error = type_of(text).unwrap_err();
            assert!(error.hint().is_some() && error.to_string().contains("no schema"), "{text}: {error}");
        }
        assert!(type_of(&"array<".repeat(200)).is_err());
    }
}
