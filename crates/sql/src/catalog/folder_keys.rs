//! Columns named by folders (`year=2024`): their values and types.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

use crate::copy::null_keys;

/// The column name and value in a folder's name, still encoded; `None` if it has none.
pub(super) fn key_of(folder: &str) -> Option<(&str, &str)> {
    folder.split_once('=').filter(|(key, _)| !key.is_empty())
}

/// The decoded column name.
pub(super) fn column_of(key: &str) -> String {
    decoded(key).unwrap_or_else(|| key.to_owned())
}

/// The decoded value; `None` is null.
pub(super) fn value_of(said: &str) -> Option<String> {
    (said != null_keys::FOLDER_VALUE).then(|| decoded(said).unwrap_or_else(|| said.to_owned()))
}

/// Decodes `%2F` and the like; `None` if the result is not UTF-8.
fn decoded(said: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(said.len());
    let mut rest = said.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits =
            behind.get(..2).filter(|digits| *first == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let byte = digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8(bytes).ok()
}

/// The type of a column with these values: integer if all are written as SQL prints integers (not `01`), else text.
pub(super) fn type_of<'a>(values: impl Iterator<Item = &'a str>) -> DataType {
    let mut values = values.peekable();
    if values.peek().is_some() && values.all(|value| whole(value).is_some()) {
        return DataType::Int64;
    }
    text_type()
}

/// The type of a column of texts: a dictionary, since all rows of a file share one value.
pub(super) fn text_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8))
}

/// A value as the type that [`type_of`] gave; `None` if it does not fit, because the type was inferred from other values.
pub(super) fn scalar(value: Option<&str>, data_type: &DataType) -> Option<ScalarValue> {
    match data_type {
        DataType::Int64 => Some(ScalarValue::Int64(match value {
            Some(value) => Some(whole(value)?),
            None => None,
        })),
        DataType::Dictionary(index, _) => {
            let text = ScalarValue::Utf8(value.map(ToOwned::to_owned));
            Some(ScalarValue::Dictionary(index.clone(), Box::new(text)))
        }
        _ => None,
    }
}

fn whole(value: &str) -> Option<i64> {
    value.parse().ok().filter(|number: &i64| number.to_string() == value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_decoded_as_far_as_it_is_a_text() {
        for (said, value) in [
            ("a%2Fb", "a/b"),
            ("John%20Doe", "John Doe"),
            ("%C3%A9", "é"),
            ("%FF", "%FF"),
            ("9%", "9%"),
            ("%+1", "%+1"),
        ] {
            assert_eq!(value_of(said).as_deref(), Some(value), "{said}");
        }
        assert_eq!(value_of("__HIVE_DEFAULT_PARTITION__"), None);
        assert_eq!((key_of("k=a=b"), key_of("=a"), key_of("a")), (Some(("k", "a=b")), None, None));
    }

    #[test]
    fn only_what_reads_back_the_same_is_a_number() {
        let is_number = |values: &[&str]| type_of(values.iter().copied()) == DataType::Int64;
        assert!(is_number(&["9", "10", "-3", "0", "9223372036854775807"]));
        for odd in ["01", "+1", "-0", "1.0", "9223372036854775808", "", " 1", "x"] {
            assert!(!is_number(&["1", odd]), "{odd}");
            assert_eq!(scalar(Some(odd), &DataType::Int64), None);
        }
        assert!(!is_number(&[]));
        assert_eq!(scalar(None, &DataType::Int64), Some(ScalarValue::Int64(None)));
    }
}
