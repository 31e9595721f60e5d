//! Functions of whole documents that only Spark has, with the names of [`Document`].

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray, StructArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
};
use yeoul_base::ErrorKind;

use super::document::{Json, Kind};
use super::typed_values::{Patterns, of_csv, of_json};
use super::written_values::{check_csv, check_json, csv_line, write_json};
use super::{ddl, spark_functions};
use crate::Error;
use crate::signatures::USER_DEFINED;
use crate::text::rows::invoke;

/// A function of documents. Behind the first arguments are names and values of options, by turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Document {
    /// `spark_from_json(text, schema, …)`.
    FromJson,
    /// `spark_to_json(value, …)`.
    ToJson,
    /// `spark_from_csv(text, schema, …)`.
    FromCsv,
    /// `spark_to_csv(struct, …)`.
    ToCsv,
    /// `spark_json_member(text, name)`: a member of an object as a text.
    Member,
}

impl Document {
    /// All of these functions.
    pub const ALL: [Self; 5] = [Self::FromJson, Self::ToJson, Self::FromCsv, Self::ToCsv, Self::Member];

    /// Arguments before the options.
    const fn arguments(self) -> usize {
        match self {
            Self::ToJson | Self::ToCsv => 1,
            _ => 2,
        }
    }
}

/// Options of a call.
#[derive(Clone, Debug, Default)]
struct Options {
    patterns: Patterns,
    delimiter: Option<char>,
}

impl Options {
    /// Those of constants.
    ///
    /// # Errors
    /// `Invalid` for an option that this engine has not.
    fn of<'a>(name: &str, mut values: impl Iterator<Item = Option<&'a str>>) -> Result<Self> {
        let mut options = Self::default();
        while let Some(option) = values.next() {
            let value = values.next().flatten();
            let (Some(option), Some(value)) = (option, value) else {
                return plan_err!("the options of {name} are texts");
            };
            let mut letters = value.chars();
            match (option.to_ascii_lowercase().as_str(), letters.next(), letters.next()) {
                ("dateformat", ..) => options.patterns.date = Some(value.to_owned()),
                ("timestampformat" | "timestampntzformat", ..) => {
                    options.patterns.timestamp = Some(value.to_owned());
                }
                ("sep" | "delimiter", Some(sign), None) => options.delimiter = Some(sign),
                ("mode", ..) if value.eq_ignore_ascii_case("PERMISSIVE") => {}
                _ => {
                    let text = format!("not supported: {option} = '{value}' in {name}");
                    let error = Error::new(ErrorKind::Invalid, text);
                    return Err(error.with_hint("there are dateFormat, timestampFormat and sep").into());
                }
            }
        }
        Ok(options)
    }
}

fn constant(value: Option<&ScalarValue>) -> Option<&str> {
    value.and_then(|value| value.try_as_str().flatten())
}

impl ScalarUDFImpl for Document {
    fn name(&self) -> &str {
        match self {
            Self::FromJson => "spark_from_json",
            Self::ToJson => "spark_to_json",
            Self::FromCsv => "spark_from_csv",
            Self::ToCsv => "spark_to_csv",
            Self::Member => "spark_json_member",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name().trim_start_matches("spark_");
        let is_text = |kind: &DataType| kind.is_string() || kind.is_null();
        let own = self.arguments();
        let fits = match self {
            Self::Member => kinds.len() == 2 && kinds.iter().all(is_text),
            Self::FromJson | Self::FromCsv => kinds.len() >= 2 && kinds.iter().all(is_text),
            Self::ToJson | Self::ToCsv => !kinds.is_empty() && kinds[1..].iter().all(is_text),
        };
        if !fits {
            return plan_err!("{name} takes other arguments");
        }
        // As they are: a cast would be no constant when the type is asked for.
        let mut coerced = kinds.to_vec();
        match self {
            Self::ToJson => check_json(&kinds[0])?,
            Self::ToCsv => check_csv(&kinds[0])?,
            _ => coerced[0] = DataType::Utf8,
        }
        if *self == Self::Member {
            coerced[1] = DataType::Utf8;
        }
        debug_assert!(coerced.len() >= own);
        Ok(coerced)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let kind = match self {
            Self::FromJson | Self::FromCsv => {
                let schema = arguments.scalar_arguments.get(1).copied().flatten();
                let Some(schema) = constant(schema) else {
                    let error = Error::new(ErrorKind::Invalid, "not supported: a schema that is computed");
                    return Err(error.with_hint("write it as a text: 'a INT, b STRING'").into());
                };
                let kind = ddl::type_of(schema)?;
                if *self == Self::FromCsv && !matches!(kind, DataType::Struct(_)) {
                    let error = Error::new(ErrorKind::Invalid, "the schema of from_csv is one of columns");
                    return Err(error.with_hint("write 'a INT, b STRING'").into());
                }
                kind
            }
            _ => DataType::Utf8,
        };
        Ok(Arc::new(Field::new(self.name(), kind, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let given = arguments.args.get(self.arguments()..).unwrap_or_default();
        let options = Options::of(
            self.name().trim_start_matches("spark_"),
            given.iter().map(|value| match value {
                ColumnarValue::Scalar(value) => value.try_as_str().flatten(),
                ColumnarValue::Array(_) => None,
            }),
        )?;
        let kind = arguments.return_field.data_type().clone();
        invoke(&arguments, |arrays| match self {
            Self::FromJson => from_json(arrays[0].as_string::<i32>(), &kind, &options.patterns),
            Self::FromCsv => from_csv(arrays[0].as_string::<i32>(), &kind, &options),
            Self::ToJson => texts(&arrays[0], |to, row| write_json(to, &arrays[0], row, &options.patterns)),
            Self::ToCsv => texts(&arrays[0], |to, row| {
                let delimiter = options.delimiter.unwrap_or(',');
                to.push_str(&csv_line(&arrays[0], row, delimiter, &options.patterns)?);
                Ok(())
            }),
            Self::Member => members(arrays[0].as_string::<i32>(), arrays[1].as_string::<i32>()),
        })
    }
}

fn texts(values: &ArrayRef, write: impl Fn(&mut String, usize) -> Result<()>) -> Result<ArrayRef> {
    let text = |row: usize| {
        if values.is_null(row) {
            return Ok(None);
        }
        let mut text = String::new();
        write(&mut text, row)?;
        Ok(Some(text))
    };
    Ok(Arc::new((0..values.len()).map(text).collect::<Result<StringArray>>()?))
}

fn from_json(texts: &StringArray, kind: &DataType, patterns: &Patterns) -> Result<ArrayRef> {
    let mut values = Vec::with_capacity(texts.len());
    for text in texts {
        values.push(match text {
            Some(text) => spark_functions::lenient_value(text)?,
            None => None,
        });
    }
    let is_wrapped = |kind: &DataType| match kind {
        // One object stands for a list of it.
        DataType::List(field) => matches!(field.data_type(), DataType::Struct(_)),
        _ => false,
    };
    let wrapped: Vec<Option<String>> = values
        .iter()
        .map(|value| {
            let object = value.filter(|value| is_wrapped(kind) && value.kind() == Kind::Object);
            object.map(|object| format!("[{}]", object.written()))
        })
        .collect();
    for (value, wrapped) in values.iter_mut().zip(&wrapped) {
        if let Some(wrapped) = wrapped {
            *value = Some(Json::read(wrapped)?);
        }
    }
    let typed = of_json(&values, kind, patterns)?;
    let DataType::Struct(fields) = kind else { return Ok(typed.values) };
    // Of a text that is no object, all fields are null; of one without a value there is nothing.
    let is_valid = texts.iter().map(|text| text.is_some_and(|text| !text.trim().is_empty()));
    let columns = typed.values.as_struct().columns().to_vec();
    let nulls = Some(NullBuffer::from_iter(is_valid));
    Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, texts.len())?))
}

fn from_csv(texts: &StringArray, kind: &DataType, options: &Options) -> Result<ArrayRef> {
    let DataType::Struct(fields) = kind else { unreachable!("the type was checked") };
    let delimiter = options.delimiter.unwrap_or(',');
    let mut columns: Vec<Vec<Option<String>>> = vec![Vec::with_capacity(texts.len()); fields.len()];
    for text in texts {
        if text.is_some_and(|text| text.contains(['"', '\\', '\n', '\r'])) {
            let error = Error::new(
                ErrorKind::Invalid,
                "not supported: quotes, backslashes and line ends in from_csv",
            );
            return Err(error.with_hint("replace them before").into());
        }
        let mut parts = text.unwrap_or_default().split(delimiter);
        for column in &mut columns {
            column.push(parts.next().filter(|part| !part.is_empty()).map(str::to_owned));
        }
    }
    let typed = columns.into_iter().zip(fields);
    let typed = typed.map(|(values, field)| of_csv(values, field.data_type(), &options.patterns));
    let columns = typed.collect::<Result<Vec<ArrayRef>>>()?;
    let nulls = Some(NullBuffer::from_iter(texts.iter().map(|text| text.is_some())));
    Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, texts.len())?))
}

/// Members of objects: the last one of a name that is not null.
fn members(texts: &StringArray, names: &StringArray) -> Result<ArrayRef> {
    let member = |(text, name): (Option<&str>, Option<&str>)| {
        let (Some(text), Some(name)) = (text, name) else { return Ok(None) };
        let object = spark_functions::lenient_value(text)?.filter(|value| value.kind() == Kind::Object);
        let members = object.into_iter().flat_map(Json::members);
        let found = members.filter(|(found, value)| found == name && value.kind() != Kind::Null).last();
        Ok(found.map(|(_, value)| match value.kind() {
            Kind::Text => value.to_text().unwrap_or_default(),
            _ => value.compact_as_java(),
        }))
    };
    Ok(Arc::new(texts.iter().zip(names).map(member).collect::<Result<StringArray>>()?))
}

/// The schema that Spark finds in a text of JSON, as `schema_of_json` writes it.
///
/// # Errors
/// `Invalid` for a text that is no JSON, and for values of several types beside each other, which Spark joins.
pub(crate) fn schema_of_json(text: &str) -> crate::Result<String> {
    let json = Json::read(text)?;
    schema(json).map(|schema| if schema == "VOID" { "STRING".to_owned() } else { schema })
}

fn schema(json: Json<'_>) -> crate::Result<String> {
    let refused = |what: &str| {
        Error::new(ErrorKind::Invalid, format!("not supported: schema_of_json of {what}"))
            .with_hint("write the schema as a text")
    };
    Ok(match json.kind() {
        Kind::Null => "VOID".to_owned(),
        Kind::Boolean => "BOOLEAN".to_owned(),
        Kind::Text => "STRING".to_owned(),
        Kind::Number if json.written().contains(['.', 'e', 'E']) => "DOUBLE".to_owned(),
        Kind::Number => match json.written().parse::<i64>() {
            Ok(_) => "BIGINT".to_owned(),
            Err(_) => return Err(refused("numbers of more than 64 bits")),
        },
        Kind::Array => {
            let mut element = "VOID".to_owned();
            for value in json.elements() {
                let next = schema(value)?;
                match (element.as_str(), next.as_str()) {
                    (_, "VOID") => {}
                    ("VOID", _) => element = next,
                    (one, other) if one == other => {}
                    ("BIGINT", "DOUBLE") | ("DOUBLE", "BIGINT") => element = "DOUBLE".to_owned(),
                    (one, other) if !one.contains('<') && !other.contains('<') => {
                        element = "STRING".to_owned()
                    }
                    _ => return Err(refused("values of several types in a list")),
                }
            }
            let element = if element == "VOID" { "STRING".to_owned() } else { element };
            format!("ARRAY<{element}>")
        }
        Kind::Object => {
            let mut fields: Vec<(String, String)> = Vec::new();
            for (name, value) in json.members() {
                let kind = schema(value)?;
                let kind = if kind == "VOID" { "STRING".to_owned() } else { kind };
                let is_word = !name.is_empty()
                    && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                    && !name.as_bytes()[0].is_ascii_digit();
                if !is_word || fields.iter().any(|(found, _)| *found == name) {
                    return Err(refused("names that are no words, or twice there"));
                }
                fields.push((name.into_owned(), kind));
            }
            fields.sort();
            let fields: Vec<String> = fields.iter().map(|(name, kind)| format!("{name}: {kind}")).collect();
            format!("STRUCT<{}>", fields.join(", "))
        }
    })
}

/// The schema that Spark finds in a line of CSV, as `schema_of_csv` writes it.
///
/// # Errors
/// `Invalid` for values that may be times, and in quotes.
pub(crate) fn schema_of_csv(line: &str, delimiter: char) -> crate::Result<String> {
    let kind = |part: &str| match part {
        "" => Some("STRING"),
        _ if part.parse::<i32>().is_ok() => Some("INT"),
        _ if part.parse::<i64>().is_ok() => Some("BIGINT"),
        _ if part.eq_ignore_ascii_case("true") || part.eq_ignore_ascii_case("false") => Some("BOOLEAN"),
        _ if part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
            part.parse::<f64>().ok().map(|_| "DOUBLE")
        }
        _ if part.bytes().all(|byte| byte.is_ascii_lowercase()) => Some("STRING"),
        _ => None,
    };
    let mut fields = Vec::new();
    for (place, part) in line.split(delimiter).enumerate() {
        let kind = kind(part).ok_or_else(|| {
            Error::new(ErrorKind::Invalid, format!("not supported: schema_of_csv of the value '{part}'"))
                .with_hint("write the schema as a text")
        })?;
        fields.push(format!("_c{place}: {kind}"));
    }
    Ok(format!("STRUCT<{}>", fields.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_those_of_the_values() {
        for (text, expected) in [
            (r#"{"c1":0, "c2":[1]}"#, "STRUCT<c1: BIGINT, c2: ARRAY<BIGINT>>"),
            (r#"{"b":1.5,"a":null}"#, "STRUCT<a: STRING, b: DOUBLE>"),
            ("[]", "ARRAY<STRING>"),
            ("true", "BOOLEAN"),
        ] {
            assert_eq!(schema_of_json(text).unwrap(), expected, "{text}");
        }
        assert_eq!(schema_of_json("[1, 1.5]").unwrap(), "ARRAY<DOUBLE>");
        assert_eq!(schema_of_json("[1, \"a\"]").unwrap(), "ARRAY<STRING>");
        for text in ["[1, [2]]", "{\"a b\":1}", "{", "12345678901234567890"] {
            assert!(schema_of_json(text).is_err(), "{text}");
        }
    }
}
