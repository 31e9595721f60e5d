//! `regexp_extract` and `regexp_extract_all`.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_REGEX;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use regex::Regex;
use yeoul_base::ErrorKind;

use super::rows::invoke;
use crate::Error;

static ONE: LazyLock<Documentation> = LazyLock::new(|| {
    let text = "Part of a text that the group of a regular expression matches first, '' if nothing does. Group 0 is all that matches.";
    Documentation::builder(DOC_SECTION_REGEX, text, "regexp_extract(text, pattern, group)").build()
});

static ALL: LazyLock<Documentation> = LazyLock::new(|| {
    let text = "List of all parts of a text that the group of a regular expression matches. Group 0 is all that matches.";
    Documentation::builder(DOC_SECTION_REGEX, text, "regexp_extract_all(text, pattern, group)").build()
});

/// Parts of a text that match. Without a number of a group, Spark takes the first and DuckDB all that matches: where these differ, a call
/// has to say which.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct RegexpExtract {
    is_all: bool,
    signature: Signature,
}

impl RegexpExtract {
    /// `regexp_extract`.
    pub fn one() -> Self {
        Self { is_all: false, signature: Signature::user_defined(Volatility::Immutable) }
    }

    /// `regexp_extract_all`.
    pub fn all() -> Self {
        Self { is_all: true, ..Self::one() }
    }

    fn extract(&self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let (texts, patterns) = (arrays[0].as_string::<i32>(), arrays[1].as_string::<i32>());
        let groups = arrays.get(2).map(|groups| groups.as_primitive::<Int64Type>());
        let mut parts = Parts::new(self.is_all);
        let mut last: Option<(&str, Regex)> = None;
        for row in 0..texts.len() {
            let is_null = texts.is_null(row)
                || patterns.is_null(row)
                || groups.is_some_and(|groups| groups.is_null(row));
            if is_null {
                parts.append_null();
                continue;
            }
            let pattern = patterns.value(row);
            let regex = match last.take() {
                Some((of, regex)) if of == pattern => regex,
                _ => Regex::new(pattern).map_err(|error| {
                    Error::new(ErrorKind::Invalid, format!("'{pattern}' is no regular expression"))
                        .with_source(error)
                })?,
            };
            let group = group_of(&regex, groups.map(|groups| groups.value(row)))?;
            parts.append(&regex, texts.value(row), group);
            last = Some((pattern, regex));
        }
        Ok(parts.finish())
    }
}

/// The group that is asked for.
fn group_of(regex: &Regex, group: Option<i64>) -> Result<usize> {
    let groups = regex.captures_len() - 1;
    let wrong = |text: String| {
        let hint = format!("the expression has {groups} groups; group 0 is all that matches");
        Error::new(ErrorKind::Invalid, text).with_hint(hint)
    };
    match group {
        None if groups == 0 => Ok(0),
        None => Err(wrong("a regular expression with groups, of which none is asked for".to_owned()).into()),
        Some(group) => {
            let found = usize::try_from(group).ok().filter(|group| *group <= groups);
            Ok(found.ok_or_else(|| wrong(format!("the regular expression has no group {group}")))?)
        }
    }
}

/// Parts that are found in the rows.
enum Parts {
    One(StringBuilder),
    All(ListBuilder<StringBuilder>),
}

impl Parts {
    fn new(is_all: bool) -> Self {
        let texts = StringBuilder::new();
        if is_all { Self::All(ListBuilder::new(texts)) } else { Self::One(texts) }
    }

    fn append_null(&mut self) {
        match self {
            Self::One(texts) => texts.append_null(),
            Self::All(lists) => lists.append_null(),
        }
    }

    fn append(&mut self, regex: &Regex, text: &str, group: usize) {
        let part =
            |captures: regex::Captures<'_>| captures.get(group).map_or("", |part| part.as_str()).to_owned();
        match self {
            Self::One(texts) => texts.append_value(regex.captures(text).map(part).unwrap_or_default()),
            Self::All(lists) => {
                regex.captures_iter(text).map(part).for_each(|part| lists.values().append_value(part));
                lists.append(true);
            }
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::One(mut texts) => Arc::new(texts.finish()),
            Self::All(mut lists) => Arc::new(lists.finish()),
        }
    }
}

impl ScalarUDFImpl for RegexpExtract {
    fn name(&self) -> &str {
        if self.is_all { "regexp_extract_all" } else { "regexp_extract" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let is_text = |kind: &DataType| kind.is_string() || kind.is_null();
        match kinds {
            [text, pattern] if is_text(text) && is_text(pattern) => Ok(vec![DataType::Utf8; 2]),
            [text, pattern, group]
                if is_text(text) && is_text(pattern) && (group.is_integer() || group.is_null()) =>
            {
                Ok(vec![DataType::Utf8, DataType::Utf8, DataType::Int64])
            }
            _ => plan_err!("the function {} takes a text, a pattern and the number of a group", self.name()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        let element = Field::new_list_field(DataType::Utf8, true);
        Ok(if self.is_all { DataType::List(Arc::new(element)) } else { DataType::Utf8 })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| self.extract(arrays))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(if self.is_all { &ALL } else { &ONE })
    }
}
