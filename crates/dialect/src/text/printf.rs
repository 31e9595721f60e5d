//! `printf`, `format_string` and `format`.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int64Type, UInt64Type,
};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature};
use yeoul_base::ErrorKind;

use super::brace_pattern::BracePattern;
use super::percent_pattern::{PercentPattern, Rules, Value};
use super::rows::invoke;
use crate::signatures::USER_DEFINED;
use crate::types::type_name;
use crate::{Error, Result as OwnResult};

static PRINTF: LazyLock<Documentation> = LazyLock::new(|| {
    let text = "Text of values by a pattern such as '%s: %5.2f'. Refused where Spark writes another text than DuckDB.";
    Documentation::builder(DOC_SECTION_STRING, text, "printf(pattern, values…)").build()
});

static FORMAT_STRING: LazyLock<Documentation> = LazyLock::new(|| {
    let text = "Text of values by a pattern such as '%s: %5.2f', as Java and Spark write it.";
    Documentation::builder(DOC_SECTION_STRING, text, "format_string(pattern, values…)").build()
});

static FORMAT: LazyLock<Documentation> = LazyLock::new(|| {
    let text = "Text of values by a pattern such as '{}: {:5.2f}', as DuckDB writes it.";
    Documentation::builder(DOC_SECTION_STRING, text, "format(pattern, values…)").build()
});

/// A function that writes values by a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Printf {
    /// `printf`, which is Spark's and DuckDB's.
    Both,
    /// `format_string`, which is Spark's.
    FormatString,
    /// `format`, with fields in braces.
    Format,
}

/// A pattern of one of these functions.
enum Pattern {
    Percent(PercentPattern),
    Braces(BracePattern),
}

impl Printf {
    fn pattern(self, text: &str) -> OwnResult<Pattern> {
        Ok(match self {
            Self::Both | Self::FormatString => Pattern::Percent(PercentPattern::parse(text)?),
            Self::Format => Pattern::Braces(BracePattern::parse(text)?),
        })
    }

    /// The text of values; `None` is a null.
    fn text(self, pattern: &Pattern, values: &[Value<'_>]) -> OwnResult<Option<String>> {
        match pattern {
            Pattern::Braces(_) if values.contains(&Value::Null) => Ok(None),
            Pattern::Braces(pattern) => pattern.write(values).map(Some),
            Pattern::Percent(pattern) if self == Self::FormatString => {
                pattern.write(values, Rules::Java).map(Some)
            }
            Pattern::Percent(_) if values.contains(&Value::Null) => {
                let text =
                    "not supported: printf of a null, which is null in DuckDB and the text 'null' in Spark";
                let hint = "format_string has Spark's answer; for DuckDB's, leave nulls out: CASE WHEN x IS NOT NULL THEN printf(…) END";
                Err(Error::new(ErrorKind::Invalid, text).with_hint(hint))
            }
            Pattern::Percent(pattern) => {
                match (pattern.write(values, Rules::C), pattern.write(values, Rules::Java)) {
                    (Ok(of_c), Ok(of_java)) if of_c != of_java => {
                        let text = format!("printf is '{of_c}' in DuckDB and '{of_java}' in Spark");
                        let hint = "format_string has Spark's answer, format('{:.2f}', x) DuckDB's";
                        Err(Error::new(ErrorKind::Invalid, text).with_hint(hint))
                    }
                    // What one of them alone has.
                    (Ok(text), _) | (Err(_), Ok(text)) => Ok(Some(text)),
                    (Err(error), Err(_)) => Err(error),
                }
            }
        }
    }

    fn texts(self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let patterns = arrays[0].as_string::<i32>();
        let mut texts = StringBuilder::new();
        let mut last: Option<(&str, Pattern)> = None;
        let mut values = Vec::with_capacity(arrays.len() - 1);
        for row in 0..patterns.len() {
            if patterns.is_null(row) {
                texts.append_null();
                continue;
            }
            let written = patterns.value(row);
            let pattern = match &last {
                Some((of, known)) if *of == written => known,
                _ => &last.insert((written, self.pattern(written)?)).1,
            };
            values.clear();
            values.extend(arrays[1..].iter().map(|array| value_of(array, row)));
            texts.append_option(self.text(pattern, &values)?);
        }
        Ok(Arc::new(texts.finish()))
    }
}

/// A value of a type that `coerce_types` has let pass.
fn value_of(array: &ArrayRef, row: usize) -> Value<'_> {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
        DataType::Int64 => Value::Integer(array.as_primitive::<Int64Type>().value(row).into()),
        DataType::UInt64 => Value::Integer(array.as_primitive::<UInt64Type>().value(row).into()),
        DataType::Decimal128(_, scale) => {
            Value::Decimal(array.as_primitive::<Decimal128Type>().value(row), *scale)
        }
        DataType::Float32 => Value::Single(array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => Value::Float(array.as_primitive::<Float64Type>().value(row)),
        _ => Value::Text(array.as_string::<i32>().value(row)),
    }
}

impl ScalarUDFImpl for Printf {
    fn name(&self) -> &str {
        match self {
            Self::Both => "printf",
            Self::FormatString => "format_string",
            Self::Format => "format",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let [pattern, values @ ..] = kinds else {
            return plan_err!("{} takes a pattern and values", self.name());
        };
        if !(pattern.is_string() || pattern.is_null()) {
            return plan_err!("{} takes a pattern, not a {pattern}", self.name());
        }
        let values = values.iter().map(|kind| match kind {
            DataType::Boolean | DataType::UInt64 | DataType::Float32 | DataType::Float64 => Ok(kind.clone()),
            DataType::Decimal128(..) => Ok(kind.clone()),
            kind if kind.is_integer() => Ok(DataType::Int64),
            kind if kind.is_string() || kind.is_null() => Ok(DataType::Utf8),
            other => {
                plan_err!("{} does not write a {}: cast it to TEXT", self.name(), type_name(other))
            }
        });
        std::iter::once(Ok(DataType::Utf8)).chain(values).collect()
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| self.texts(arrays))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(match self {
            Self::Both => &PRINTF,
            Self::FormatString => &FORMAT_STRING,
            Self::Format => &FORMAT,
        })
    }
}
