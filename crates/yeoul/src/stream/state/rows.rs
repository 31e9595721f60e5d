use std::io::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow::util::display::array_value_to_string;
use arrow::util::pretty::pretty_format_batches;
use arrow::{csv as arrow_csv, json as arrow_json};
use yeoul_base::{Error, ErrorKind, Result};

use super::{Format, Found};

/// Keys and values of a table of a query.
///
/// # Errors
/// `NotFound` if it has no such table.
pub fn text((query, stored): &Found, table: &str, limit: usize, format: Format) -> Result<String> {
    let Some(found) = stored.tables.iter().find(|other| other.name() == table) else {
        let names: Vec<&str> = stored.tables.iter().map(|table| table.name()).collect();
        let text = format!("the query '{query}' has no table of state '{table}'");
        let hint =
            if names.is_empty() { "it has none".to_owned() } else { format!("{} are", names.join(", ")) };
        return Err(Error::new(ErrorKind::NotFound, text).with_hint(hint));
    };
    let rows = found.first_rows(limit)?;
    if (rows.num_rows() as u64) < found.rows() {
        let _ =
            writeln!(std::io::stderr(), "{} of {} rows; --limit shows more", rows.num_rows(), found.rows());
    }
    formatted(&rows, format)
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot show the rows").with_source(error))
}

fn formatted(rows: &RecordBatch, format: Format) -> Result<String, ArrowError> {
    let mut out = Vec::new();
    match format {
        Format::Table => return Ok(pretty_format_batches(std::slice::from_ref(rows))?.to_string()),
        Format::Csv => arrow_csv::Writer::new(&mut out).write(&flat(rows)?)?,
        Format::Json => {
            let builder = arrow_json::WriterBuilder::new().with_explicit_nulls(true);
            let mut writer = builder.build::<_, arrow_json::writer::LineDelimited>(&mut out);
            writer.write(rows)?;
            writer.finish()?;
        }
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// The same rows with text in the place of what CSV has no form for.
fn flat(rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (field, column) in rows.schema().fields().iter().zip(rows.columns()) {
        let is_nested = column.data_type().is_nested() || matches!(column.data_type(), DataType::Binary);
        let column: ArrayRef = if is_nested {
            let shown = (0..column.len()).map(|row| match column.is_null(row) {
                true => Ok(None),
                false => array_value_to_string(column, row).map(Some),
            });
            Arc::new(shown.collect::<Result<StringArray, ArrowError>>()?)
        } else {
            Arc::clone(column)
        };
        fields.push(Field::new(field.name(), column.data_type().clone(), true));
        columns.push(column);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

/// A line of CSV.
pub fn csv(fields: impl IntoIterator<Item = String>) -> String {
    let quoted = fields.into_iter().map(|field| {
        if field.contains([',', '"', '\n']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
    });
    quoted.collect::<Vec<_>>().join(",")
}

/// A time in milliseconds since 1970, in the form of ISO 8601.
pub fn millis(ms: i64) -> String {
    let times = TimestampMillisecondArray::from(vec![ms]).with_timezone("+00:00");
    array_value_to_string(&times, 0).unwrap_or_else(|_| ms.to_string())
}

#[cfg(test)]
mod tests {
    use arrow::array::{BinaryArray, Int64Array, ListArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn rows_are_shown_in_each_format() {
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None]), None]);
        let columns: [(&str, ArrayRef); 3] = [
            ("key.k", Arc::new(Int64Array::from(vec![Some(7), None]))),
            ("value.list", Arc::new(list)),
            ("value.bytes", Arc::new(BinaryArray::from(vec![&b"\x01\xff"[..], b""]))),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let json = formatted(&rows, Format::Json).unwrap();
        assert_eq!(
            json,
            "{\"key.k\":7,\"value.list\":[1,null],\"value.bytes\":\"01ff\"}\n{\"key.k\":null,\"value.list\":null,\"value.bytes\":\"\"}\n"
        );
        assert_eq!(
            formatted(&rows, Format::Csv).unwrap(),
            "key.k,value.list,value.bytes\n7,\"[1, ]\",01ff\n,,\n"
        );
        assert!(formatted(&rows, Format::Table).unwrap().contains("| 7     | [1, ]"));
        assert_eq!(millis(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
        assert_eq!(csv(["a".to_owned(), "b,\"c".to_owned()]), "a,\"b,\"\"c\"");
    }
}
