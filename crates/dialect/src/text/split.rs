//! `split` and `string_split_regex`.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature};
use regex::Regex;
use yeoul_base::ErrorKind;

use super::rows::invoke;
use crate::signatures::USER_DEFINED;
use crate::{Error, Result as OwnResult};

static SPLIT: LazyLock<Documentation> = LazyLock::new(|| {
    let text = "List of the parts of a text between separators; its characters for an empty one. With the most parts that there may be, the separator is a regular expression.";
    Documentation::builder(DOC_SECTION_STRING, text, "split(text, separator[, parts])").build()
});

static SPLIT_REGEX: LazyLock<Documentation> = LazyLock::new(|| {
    let text = "List of the parts of a text between parts that match a regular expression.";
    Documentation::builder(DOC_SECTION_STRING, text, "string_split_regex(text, pattern)").build()
});

/// Letters that mean something else in a regular expression.
const OF_REGULAR_EXPRESSIONS: &[char] =
    &['\\', '.', '[', ']', '{', '}', '(', ')', '*', '+', '?', '^', '$', '|'];

/// Parts of texts.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Split {
    /// True for `string_split_regex`, false for `split`.
    is_regex: bool,
    aliases: Vec<String>,
}

/// A separator.
enum Separator {
    /// An empty one stands between all characters.
    Text(String),
    Regex(Regex),
}

impl Split {
    /// `split`: Spark's separator is a regular expression, and DuckDB's a text. Without a number of parts it has to be one that is both;
    /// with one it is Spark's.
    pub fn by_either() -> Self {
        Self { is_regex: false, aliases: Vec::new() }
    }

    /// `string_split_regex`, as in DuckDB.
    pub fn by_regex() -> Self {
        let aliases = ["str_split_regex", "regexp_split_to_array"].map(str::to_owned).to_vec();
        Self { is_regex: true, aliases }
    }

    fn lists(&self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let (texts, separators) = (arrays[0].as_string::<i32>(), arrays[1].as_string::<i32>());
        let counts = arrays.get(2).map(|counts| counts.as_primitive::<Int64Type>());
        let mut lists = ListBuilder::new(StringBuilder::new());
        let mut last: Option<(&str, Separator)> = None;
        for row in 0..texts.len() {
            if texts.is_null(row) || counts.is_some_and(|counts| counts.is_null(row)) {
                lists.append_null();
                continue;
            }
            if separators.is_null(row) {
                match counts {
                    // Spark's.
                    Some(_) => lists.append_null(),
                    None if self.is_regex => {
                        lists.values().append_value(texts.value(row));
                        lists.append(true);
                    }
                    None => return Err(null_separator().into()),
                }
                continue;
            }
            let written = separators.value(row);
            let separator = match &last {
                Some((of, known)) if *of == written => known,
                _ => &last.insert((written, self.separator(written, counts.is_some())?)).1,
            };
            let most = counts.and_then(|counts| usize::try_from(counts.value(row)).ok()).unwrap_or(0);
            let most = if most == 0 { usize::MAX } else { most };
            separator.split(texts.value(row), most, |part| lists.values().append_value(part))?;
            lists.append(true);
        }
        Ok(Arc::new(lists.finish()))
    }

    fn separator(&self, written: &str, has_count: bool) -> OwnResult<Separator> {
        if !written.contains(OF_REGULAR_EXPRESSIONS) {
            return Ok(Separator::Text(written.to_owned()));
        }
        if !self.is_regex && !has_count {
            let text = format!(
                "not supported: split with the separator '{written}', a regular expression in Spark and a text in DuckDB"
            );
            let hint = "string_split takes a text, string_split_regex a regular expression";
            return Err(Error::new(ErrorKind::Invalid, text).with_hint(hint));
        }
        let regex = Regex::new(written).map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("'{written}' is no regular expression")).with_source(error)
        })?;
        Ok(Separator::Regex(regex))
    }
}

fn null_separator() -> Error {
    let text = "not supported: split with a separator that is null: the answer is null in Spark, and the whole text in DuckDB";
    Error::new(ErrorKind::Invalid, text).with_hint("split(text, coalesce(separator, ','))")
}

impl Separator {
    /// Hands out the parts of a text, so many at most.
    ///
    /// # Errors
    /// `Invalid` for a regular expression that matches where there is nothing: systems disagree about the parts.
    fn split(&self, text: &str, most: usize, mut part: impl FnMut(&str)) -> OwnResult<()> {
        let regex = match self {
            Self::Text(separator) if separator.is_empty() && text.is_empty() => {
                part("");
                return Ok(());
            }
            Self::Text(separator) if separator.is_empty() => {
                for (place, (at, letter)) in text.char_indices().enumerate() {
                    if place + 1 == most {
                        part(&text[at..]);
                        break;
                    }
                    part(&text[at..at + letter.len_utf8()]);
                }
                return Ok(());
            }
            Self::Text(separator) => {
                text.splitn(most, separator.as_str()).for_each(part);
                return Ok(());
            }
            Self::Regex(regex) => regex,
        };
        let mut begin = 0;
        for found in regex.find_iter(text).take(most - 1) {
            if found.is_empty() {
                let what = format!("not supported: a split at '{regex}', which also matches an empty text");
                let hint = "string_split(text, '') has the characters of a text";
                return Err(Error::new(ErrorKind::Invalid, what).with_hint(hint));
            }
            part(&text[begin..found.start()]);
            begin = found.end();
        }
        part(&text[begin..]);
        Ok(())
    }
}

impl ScalarUDFImpl for Split {
    fn name(&self) -> &str {
        if self.is_regex { "string_split_regex" } else { "split" }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let is_text = |kind: &DataType| kind.is_string() || kind.is_null();
        match kinds {
            [text, separator] if is_text(text) && is_text(separator) => Ok(vec![DataType::Utf8; 2]),
            [text, separator, count]
                if !self.is_regex
                    && is_text(text)
                    && is_text(separator)
                    && (count.is_integer() || count.is_null()) =>
            {
                Ok(vec![DataType::Utf8, DataType::Utf8, DataType::Int64])
            }
            _ => plan_err!("{} takes a text and a separator", self.name()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| self.lists(arrays))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(if self.is_regex { &SPLIT_REGEX } else { &SPLIT })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(split: &Split, text: &str, separator: &str, most: Option<usize>) -> OwnResult<Vec<String>> {
        let mut parts = Vec::new();
        let separator = split.separator(separator, most.is_some())?;
        separator.split(text, most.unwrap_or(usize::MAX), |part| parts.push(part.to_owned()))?;
        Ok(parts)
    }

    #[test]
    fn parts_are_those_of_both_systems() {
        for (text, separator, expected) in [
            ("a,,b,", ",", &["a", "", "b", ""][..]),
            ("", ",", &[""]),
            ("", "", &[""]),
            ("aéb", "", &["a", "é", "b"]),
            ("a, b", ", ", &["a", "b"]),
        ] {
            assert_eq!(parts(&Split::by_either(), text, separator, None).unwrap(), expected);
            assert_eq!(parts(&Split::by_regex(), text, separator, None).unwrap(), expected);
        }
        let error = parts(&Split::by_either(), "a|b", "|", None).unwrap_err();
        assert!(error.to_string().contains("DuckDB") && error.hint().is_some());
    }

    #[test]
    fn a_number_of_parts_or_the_name_makes_it_a_regular_expression() {
        let spark =
            |text: &str, separator: &str, most| parts(&Split::by_either(), text, separator, Some(most));
        assert_eq!(spark("oneAtwoBthreeC", "[ABC]", 2).unwrap(), ["one", "twoBthreeC"]);
        assert_eq!(spark("oneAtwoBthreeC", "[ABC]", usize::MAX).unwrap(), ["one", "two", "three", ""]);
        assert_eq!(spark("abc", "", 2).unwrap(), ["a", "bc"]);
        assert_eq!(spark("a,b,c", ",", 1).unwrap(), ["a,b,c"]);
        assert_eq!(parts(&Split::by_regex(), "a1b22c", "[0-9]+", None).unwrap(), ["a", "b", "c"]);
        assert!(parts(&Split::by_regex(), "abc", "b*", None).is_err());
        assert!(parts(&Split::by_regex(), "abc", "(", None).is_err());
    }
}
