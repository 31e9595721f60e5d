//! Functions of JSON with DuckDB's meaning: an error for a text that is no JSON.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, BooleanArray, Int64Array, ListBuilder, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_OTHER;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
};
use yeoul_base::ErrorKind;

use super::document::{Json, Kind};
use super::path::Path;
use super::rows::{Known, Place, Rows, append, texts};
use crate::Error;
use crate::signatures::USER_DEFINED;
use crate::text::rows::invoke;

static EXTRACT_ALIASES: LazyLock<Vec<String>> = LazyLock::new(|| vec!["json_extract_path".to_owned()]);
static EXTRACT_STRING_ALIASES: LazyLock<Vec<String>> =
    LazyLock::new(|| vec!["json_extract_path_text".to_owned()]);

static DOCUMENTATION: LazyLock<Vec<Documentation>> = LazyLock::new(|| {
    let of = |function: &JsonFunction| {
        let (description, syntax) = function.description();
        Documentation::builder(DOC_SECTION_OTHER, description, syntax).build()
    };
    JsonFunction::ALL.iter().map(of).collect()
});

/// A function of JSON. A path that is a constant with `*` makes a list of all values at it; other functions refuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum JsonFunction {
    ArrayLength,
    Exists,
    Extract,
    ExtractString,
    Json,
    Keys,
    Type,
    Valid,
}

impl JsonFunction {
    pub const ALL: [Self; 8] = [
        Self::ArrayLength,
        Self::Exists,
        Self::Extract,
        Self::ExtractString,
        Self::Json,
        Self::Keys,
        Self::Type,
        Self::Valid,
    ];

    /// The answer of a function, and its signature.
    fn description(self) -> (&'static str, &'static str) {
        match self {
            Self::ArrayLength => ("Number of elements of a JSON array.", "json_array_length(text[, path])"),
            Self::Exists => ("Whether JSON has a value at a path.", "json_exists(text, path)"),
            Self::Extract => (
                "JSON of the value at a path; a list of all values if the path has a *.",
                "json_extract(text, path)",
            ),
            Self::ExtractString => (
                "Text of the value at a path, without quotes; null for null; a list of all if the path has a *.",
                "json_extract_string(text, path)",
            ),
            Self::Json => ("JSON without blanks between its tokens.", "json(text)"),
            Self::Keys => ("List of the names of the members of a JSON object.", "json_keys(text[, path])"),
            Self::Type => (
                "Type of a JSON value: OBJECT, ARRAY, VARCHAR, BOOLEAN, NULL, UBIGINT, BIGINT or DOUBLE.",
                "json_type(text[, path])",
            ),
            Self::Valid => ("Whether a text is JSON.", "json_valid(text)"),
        }
    }

    fn answer(self, rows: &Rows<'_>, is_list: bool) -> Result<ArrayRef> {
        let mut known = Known::new();
        let mut found = |row: Option<_>| -> Result<_> {
            let Some((text, place)) = row else { return Ok(None) };
            let path = known.get(place, |place| self.path(place))?;
            Ok(path.find(Json::read(text)?))
        };
        match self {
            Self::Extract | Self::ExtractString if is_list => self.lists(rows),
            Self::Extract | Self::Json => texts(rows.iter().map(|row| Ok(found(row)?.map(Json::compact)))),
            Self::ExtractString => texts(rows.iter().map(|row| Ok(found(row)?.and_then(Json::to_text)))),
            Self::Type => {
                texts(rows.iter().map(|row| Ok(found(row)?.map(|json| type_name(json).to_owned()))))
            }
            Self::ArrayLength => {
                let length = |row| found(row)?.map(array_length).transpose();
                let lengths: Int64Array = rows.iter().map(length).collect::<Result<_>>()?;
                Ok(Arc::new(lengths))
            }
            Self::Exists => {
                let exists = |row: Option<_>| match row {
                    Some(_) => Ok(Some(found(row)?.is_some())),
                    None => Ok(None),
                };
                Ok(Arc::new(rows.iter().map(exists).collect::<Result<BooleanArray>>()?))
            }
            Self::Valid => {
                let is_valid = |row: Option<(&str, Place<'_>)>| row.map(|(text, _)| Json::read(text).is_ok());
                Ok(Arc::new(rows.iter().map(is_valid).collect::<BooleanArray>()))
            }
            Self::Keys => {
                let mut lists = ListBuilder::new(StringBuilder::new());
                for row in rows.iter() {
                    let json = found(row)?;
                    for (name, _) in json.into_iter().flat_map(Json::members) {
                        append(lists.values(), &name)?;
                    }
                    lists.append(json.is_some());
                }
                Ok(Arc::new(lists.finish()))
            }
        }
    }

    /// The path of a place in a text; none with a wildcard, which only a constant one may have, and here.
    fn path(self, place: Place<'_>) -> crate::Result<Path> {
        let path = path_of(place)?;
        if !path.has_wildcard() {
            return Ok(path);
        }
        let name = self.name();
        let what = match self {
            Self::Extract | Self::ExtractString => {
                format!("not supported: a * in a path of {name} that is no constant")
            }
            _ => format!("not supported: a * in a path of {name}"),
        };
        Err(Error::new(ErrorKind::Invalid, what)
            .with_hint("json_extract(text, '$.a[*]') makes a list, for array_transform and unnest"))
    }

    fn lists(self, rows: &Rows<'_>) -> Result<ArrayRef> {
        let mut lists = ListBuilder::new(StringBuilder::new());
        let mut known = Known::new();
        for row in rows.iter() {
            let Some((text, place)) = row else {
                lists.append_null();
                continue;
            };
            let path = known.get(place, path_of)?;
            for json in path.find_all(Json::read(text)?) {
                let value = if self == Self::Extract { Some(json.compact()) } else { json.to_text() };
                match value {
                    Some(text) => append(lists.values(), &text)?,
                    None => lists.values().append_null(),
                }
            }
            lists.append(true);
        }
        Ok(Arc::new(lists.finish()))
    }
}

fn path_of(place: Place<'_>) -> crate::Result<Path> {
    match place {
        Place::All => Ok(Path::root()),
        Place::Path(path) => Path::parse(path),
        Place::Number(number) => Ok(Path::to_element(number)),
    }
}

/// The name of a value's type, as in DuckDB.
fn type_name(json: Json<'_>) -> &'static str {
    match json.kind() {
        Kind::Null => "NULL",
        Kind::Boolean => "BOOLEAN",
        Kind::Text => "VARCHAR",
        Kind::Array => "ARRAY",
        Kind::Object => "OBJECT",
        Kind::Number if json.written().parse::<u64>().is_ok() => "UBIGINT",
        Kind::Number if json.written().parse::<i64>().is_ok() => "BIGINT",
        Kind::Number => "DOUBLE",
    }
}

/// The number of elements.
///
/// # Errors
/// `Invalid` for a value that is no array: 0 in DuckDB, null in Spark, an error in PostgreSQL.
fn array_length(json: Json<'_>) -> Result<i64> {
    if json.kind() != Kind::Array {
        let what = format!("json_array_length of JSON that is no array, but {}", type_name(json));
        return Err(Error::new(ErrorKind::Invalid, what)
            .with_hint("CASE WHEN json_type(text) = 'ARRAY' THEN json_array_length(text) END")
            .into());
    }
    Ok(i64::try_from(json.elements().count()).expect("a text has fewer bytes"))
}

impl ScalarUDFImpl for JsonFunction {
    fn name(&self) -> &str {
        match self {
            Self::ArrayLength => "json_array_length",
            Self::Exists => "json_exists",
            Self::Extract => "json_extract",
            Self::ExtractString => "json_extract_string",
            Self::Json => "json",
            Self::Keys => "json_keys",
            Self::Type => "json_type",
            Self::Valid => "json_valid",
        }
    }

    fn aliases(&self) -> &[String] {
        match self {
            Self::Extract => &EXTRACT_ALIASES,
            Self::ExtractString => &EXTRACT_STRING_ALIASES,
            _ => &[],
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let is_text = |kind: &DataType| kind.is_string() || kind.is_null();
        match (self, kinds) {
            (Self::Extract | Self::ExtractString, [text, number]) if is_text(text) && number.is_integer() => {
                Ok(vec![DataType::Utf8, DataType::Int64])
            }
            (Self::ArrayLength | Self::Json | Self::Keys | Self::Type | Self::Valid, [text])
                if is_text(text) =>
            {
                Ok(vec![DataType::Utf8])
            }
            (Self::Json | Self::Valid, _) => plan_err!("{} takes a text", self.name()),
            (_, [text, path]) if is_text(text) && is_text(path) => Ok(vec![DataType::Utf8; 2]),
            _ => plan_err!("{} takes a text of JSON and a path: {}", self.name(), self.description().1),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self {
            Self::ArrayLength => DataType::Int64,
            Self::Exists | Self::Valid => DataType::Boolean,
            Self::Extract | Self::ExtractString | Self::Json | Self::Type => DataType::Utf8,
            Self::Keys => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))),
        })
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let path = match (self, arguments.scalar_arguments) {
            (Self::Extract | Self::ExtractString, [_, Some(path)]) => path.try_as_str().flatten(),
            _ => None,
        };
        let kind = match path.map(Path::parse).transpose()? {
            Some(path) if path.has_wildcard() => Self::Keys.return_type(&[])?,
            _ => self.return_type(&[])?,
        };
        Ok(Arc::new(Field::new(self.name(), kind, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_list = matches!(arguments.return_field.data_type(), DataType::List(_));
        invoke(&arguments, |arrays| self.answer(&Rows::of(arrays), is_list))
    }

    fn documentation(&self) -> Option<&Documentation> {
        let place = Self::ALL.iter().position(|function| function == self)?;
        DOCUMENTATION.get(place)
    }
}
