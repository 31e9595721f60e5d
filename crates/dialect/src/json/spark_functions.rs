//! `get_json_object` and `json_object_keys`, as in Spark: null for a text that is no JSON.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, ListBuilder, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_OTHER;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature};
use yeoul_base::ErrorKind;

use super::document::{Json, Kind};
use super::rows::{Known, Place, Rows, append, texts};
use super::spark_path::SparkPath;
use crate::Error;
use crate::signatures::USER_DEFINED;
use crate::text::rows::invoke;

static OBJECT: LazyLock<Documentation> = LazyLock::new(|| {
    let text = "Text of the value at a path of JSON; null if there is none, or the text is no JSON.";
    Documentation::builder(DOC_SECTION_OTHER, text, "get_json_object(text, path)").build()
});

static KEYS: LazyLock<Documentation> = LazyLock::new(|| {
    let text = "List of the names of the members of a JSON object; null for other texts.";
    Documentation::builder(DOC_SECTION_OTHER, text, "json_object_keys(text)").build()
});

/// A function of JSON with Spark's meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SparkFunction {
    GetJsonObject,
    ObjectKeys,
}

impl SparkFunction {
    pub const ALL: [Self; 2] = [Self::GetJsonObject, Self::ObjectKeys];

    fn objects(rows: &Rows<'_>) -> Result<ArrayRef> {
        let mut known = Known::new();
        texts(rows.iter().map(|row| {
            let Some((text, place)) = row else { return Ok(None) };
            let path = known.get(place, |place| match place {
                Place::Path(path) => SparkPath::parse(path),
                Place::All | Place::Number(_) => unreachable!("the arguments are coerced"),
            })?;
            Ok(value(text)?.and_then(|json| path.text(json)))
        }))
    }

    fn keys(rows: &Rows<'_>) -> Result<ArrayRef> {
        let mut lists = ListBuilder::new(StringBuilder::new());
        for row in rows.iter() {
            let json = row.map(|(text, _)| value(text)).transpose()?.flatten();
            let object = json.filter(|json| json.kind() == Kind::Object);
            for (name, _) in object.into_iter().flat_map(Json::members) {
                append(lists.values(), &name)?;
            }
            lists.append(object.is_some());
        }
        Ok(Arc::new(lists.finish()))
    }
}

/// The value with which a text begins; `None` if the text is no JSON, and for one without a value.
///
/// # Errors
/// `Invalid` for a text in single quotes and for words such as NaN, which Spark reads.
pub(super) fn lenient_value(text: &str) -> Result<Option<Json<'_>>> {
    let found = value(text)?;
    let has_words = |text: &str| text.contains("NaN") || text.contains("INF") || text.contains("Infinity");
    if found.is_none() && has_words(text) {
        let error =
            Error::new(ErrorKind::Invalid, "not supported: JSON with NaN or infinities that are no texts");
        return Err(error.with_hint("write \"NaN\" in double quotes").into());
    }
    Ok(found)
}

/// The value with which a text begins; `None` if the text is no JSON.
///
/// # Errors
/// `Invalid` for a text in single quotes, which Spark reads.
fn value(text: &str) -> Result<Option<Json<'_>>> {
    let error = match Json::leading(text) {
        Ok(json) => return Ok(Some(json)),
        Err(error) => error,
    };
    let line = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let found = error.column().checked_sub(1).and_then(|at| line.as_bytes().get(at));
    if found == Some(&b'\'') {
        let what = "not supported: JSON with texts in single quotes, which Spark reads";
        return Err(Error::new(ErrorKind::Invalid, what)
            .with_hint("write texts of JSON in double quotes")
            .into());
    }
    Ok(None)
}

impl ScalarUDFImpl for SparkFunction {
    fn name(&self) -> &str {
        match self {
            Self::GetJsonObject => "get_json_object",
            Self::ObjectKeys => "json_object_keys",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let is_text = |kind: &DataType| kind.is_string() || kind.is_null();
        match (self, kinds) {
            (Self::GetJsonObject, [text, path]) if is_text(text) && is_text(path) => {
                Ok(vec![DataType::Utf8; 2])
            }
            (Self::ObjectKeys, [text]) if is_text(text) => Ok(vec![DataType::Utf8]),
            (Self::GetJsonObject, _) => plan_err!("get_json_object takes a text of JSON and a path"),
            (Self::ObjectKeys, _) => plan_err!("json_object_keys takes a text of JSON"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self {
            Self::GetJsonObject => DataType::Utf8,
            Self::ObjectKeys => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))),
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| {
            let rows = Rows::of(arrays);
            match self {
                Self::GetJsonObject => Self::objects(&rows),
                Self::ObjectKeys => Self::keys(&rows),
            }
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(match self {
            Self::GetJsonObject => &OBJECT,
            Self::ObjectKeys => &KEYS,
        })
    }
}
