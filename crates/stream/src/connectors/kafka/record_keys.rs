//! Keys of the records that rows become.

use arrow::array::{ArrayRef, AsArray, BinaryArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};

use crate::connectors::format::write_json_lines;
use crate::error::{Result, computing, invalid};
use crate::plan::{OptionMap, type_name};

/// Name of the option that says which columns are a record's key.
const KEY_FIELDS: &str = "key.fields";

/// Takes `key.fields`: names with semicolons between them, as in Flink.
pub(super) fn take_key_fields(options: &mut OptionMap) -> Result<Option<Vec<String>>> {
    let Some(text) = options.take(KEY_FIELDS) else { return Ok(None) };
    let names: Vec<String> = text.split(';').map(|name| name.trim().to_owned()).collect();
    let is_repeat = |at: usize| names[..at].contains(&names[at]);
    if names.iter().any(String::is_empty) || (0..names.len()).any(is_repeat) {
        return Err(options.wrong(KEY_FIELDS, &text, "columns with semicolons between them, each once"));
    }
    Ok(Some(names))
}

/// Checks that rows of this schema have keys of these columns.
///
/// # Errors
/// `Invalid` for a column that is not there, or that has no text.
pub(super) fn check(owner: &str, names: &[String], schema: &Schema) -> Result<()> {
    for name in names {
        let Ok(field) = schema.field_with_name(name) else {
            return Err(invalid(format!("{owner}: there is no column '{name}' for the key"))
                .with_hint("'key.fields' has semicolons between the names of columns"));
        };
        if names.len() == 1 && field.data_type().is_nested() {
            let of = type_name(field.data_type());
            return Err(invalid(format!("{owner}: column '{name}' is {of}, which no key has")));
        }
    }
    Ok(())
}

/// Keys of rows: of one column its text, or its bytes as they are, and none where it is null; of several, or of none, an object of JSON.
///
/// # Errors
/// `Invalid` for values that JSON cannot show.
pub(super) fn keys(rows: &RecordBatch, names: &[String]) -> Result<BinaryArray> {
    let places = names.iter().map(|name| rows.schema().index_of(name).map_err(computing));
    let columns = rows.project(&places.collect::<Result<Vec<_>>>()?).map_err(computing)?;
    if let [column] = columns.columns() {
        return texts(column);
    }
    if names.is_empty() {
        return Ok(BinaryArray::from_iter_values(vec![b"{}"; rows.num_rows()]));
    }
    let lines = write_json_lines(&columns)?;
    Ok(BinaryArray::from_iter_values(lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())))
}

/// Values as they are in an object of JSON, without quotes.
fn texts(column: &ArrayRef) -> Result<BinaryArray> {
    if matches!(column.data_type(), DataType::Binary | DataType::Utf8) {
        let bytes: ArrayRef = cast(column, &DataType::Binary).map_err(computing)?;
        return Ok(bytes.as_binary::<i32>().clone());
    }
    let (open, close) = (b"{\"k\":", b"}");
    let schema = Schema::new(vec![Field::new("k", column.data_type().clone(), true)]);
    let rows = RecordBatch::try_new(schema.into(), vec![ArrayRef::clone(column)]).map_err(computing)?;
    let lines = write_json_lines(&rows)?;
    let text = |line: &'_ [u8]| {
        let value = line.strip_prefix(open.as_slice())?.strip_suffix(close.as_slice())?;
        let quoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
        Some(quoted.unwrap_or(value).to_vec())
    };
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    Ok(BinaryArray::from_iter(lines.map(text)))
}
