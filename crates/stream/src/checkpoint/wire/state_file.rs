use std::io::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, UInt16Array};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamWriter;

use crate::error::{Result, computing, corrupt};
use crate::state::{
    Bucket, KeyHash, Layout, StateRows, StoredVersion, VIRTUAL_PARTITIONS, Version, VersionKind,
};

/// Name of the layout in the file.
const FORMAT: &str = "yeoul-stream-state 1";
/// Columns before those of keys and values.
const OWN_COLUMNS: usize = 2;

/// Writes a version of a table as a file of state.
///
/// It is a stream of Arrow's IPC format, which many tools read. Columns: `bucket` (INT64: the end of the key's window in
/// microseconds since 1970, 2^63 - 1 for none, -2^63 for a key that was taken out before the others of this file were set), `partition` (UINT16: the virtual partition, that is CRC-32C of the key in Arrow's
/// row format, of a join without the row's number, times the number of partitions, divided by 2^32), the key's columns with `key.` before their names and the
/// value's with `value.`. Metadata of the schema:
///
/// | name | value |
/// | --- | --- |
/// | `format` | `yeoul-stream-state 1` |
/// | `table` | name of the table |
/// | `kind` | `snapshot` or `delta` |
/// | `partitions` | number of virtual partitions |
/// | `evicted.until` | buckets at it and before it were gone before these rows were there; missing if none ever went |
///
/// # Errors
/// As the writer; `Invalid` for a value that Arrow cannot write.
pub fn write_state_file(layout: &Layout, version: Version, out: impl Write) -> Result<()> {
    let schema = schema(layout, version.kind, version.evicted_until);
    let mut writer = StreamWriter::try_new(out, &schema).map_err(writing)?;
    for rows in version.rows {
        let rows = rows?;
        let buckets = Int64Array::from_iter_values(rows.buckets.iter().map(|bucket| bucket.0));
        let partitions = UInt16Array::from_iter_values(rows.hashes.iter().map(|hash| hash.partition().0));
        let own: [ArrayRef; OWN_COLUMNS] = [Arc::new(buckets), Arc::new(partitions)];
        let columns = own.into_iter().chain(rows.keys).chain(rows.values).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(computing)?;
        writer.write(&batch).map_err(writing)?;
    }
    writer.finish().map_err(writing)
}

/// Reads a file of state.
///
/// # Errors
/// `Corrupt` if it is none of this table.
pub fn read_state_file(layout: &Layout, bytes: Vec<u8>) -> Result<StoredVersion> {
    let damaged = |error| corrupt("it is no file of state").with_source(error);
    let (mut decoder, mut left, mut batches) = (StreamDecoder::new(), Buffer::from(bytes), Vec::new());
    while !left.is_empty() {
        batches.extend(decoder.decode(&mut left).map_err(damaged)?);
    }
    let found = decoder.schema().ok_or_else(|| corrupt("it is no file of state"))?;
    decoder.finish().map_err(damaged)?;
    let metadata = |name: &str| found.metadata().get(name).map(String::as_str);
    let kind = match metadata("kind") {
        Some("snapshot") => VersionKind::Snapshot,
        Some("delta") => VersionKind::Delta,
        _ => return Err(corrupt("it is no file of state")),
    };
    let evicted_until = match metadata("evicted.until").map(str::parse) {
        None => None,
        Some(Ok(until)) => Some(Bucket(until)),
        Some(Err(_)) => return Err(corrupt("it does not say what had gone")),
    };
    if !is_same_but_for_names(&found, &schema(layout, kind, evicted_until)) {
        return Err(corrupt(format!("it is of another table than '{}', or of another version", layout.name)));
    }
    let mut rows = Vec::new();
    for batch in batches {
        let buckets = batch.column(0).as_primitive::<Int64Type>();
        let columns = &batch.columns()[OWN_COLUMNS..];
        let (keys, values) = columns.split_at(layout.keys.len());
        let encoded = layout.encode_keys(keys)?;
        let hash = |row| {
            if keys.is_empty() { KeyHash::of(&[]) } else { layout.partition_hash(encoded.row(row).data()) }
        };
        rows.push(StateRows {
            buckets: buckets.values().iter().map(|bucket| Bucket(*bucket)).collect(),
            hashes: (0..buckets.len()).map(hash).collect(),
            keys: keys.to_vec(),
            values: values.to_vec(),
        });
    }
    Ok(StoredVersion { kind, evicted_until, rows })
}

/// Layout of a file of state, as far as the file tells it: names and types of keys and values.
///
/// # Errors
/// `Corrupt` if it is none of the table of this name.
pub fn read_state_layout(table: &str, bytes: &[u8]) -> Result<Layout> {
    let damaged = || corrupt("it is no file of state");
    let (mut decoder, mut left) = (StreamDecoder::new(), Buffer::from(bytes));
    while decoder.schema().is_none() && !left.is_empty() {
        decoder.decode(&mut left).map_err(|error| damaged().with_source(error))?;
    }
    let found = decoder.schema().ok_or_else(damaged)?;
    if found.metadata().get("table").is_none_or(|name| name != table) {
        return Err(corrupt(format!("it is of another table than '{table}'")));
    }
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for field in found.fields().iter().skip(OWN_COLUMNS) {
        let (columns, name) = match (field.name().strip_prefix("key."), field.name().strip_prefix("value.")) {
            (Some(name), _) => (&mut keys, name),
            (None, Some(name)) => (&mut values, name),
            (None, None) => return Err(damaged()),
        };
        columns.push(Arc::new(field.as_ref().clone().with_name(name)));
    }
    Layout::new(table, keys, values)
}

/// True for the same columns, whatever a query calls them: what they are of, a manifest says.
fn is_same_but_for_names(found: &Schema, expected: &Schema) -> bool {
    let types = |schema: &Schema| -> Vec<DataType> {
        schema.fields().iter().map(|field| field.data_type().clone()).collect()
    };
    found.metadata() == expected.metadata() && types(found) == types(expected)
}

fn schema(layout: &Layout, kind: VersionKind, evicted_until: Option<Bucket>) -> SchemaRef {
    let mut fields =
        vec![Field::new("bucket", DataType::Int64, false), Field::new("partition", DataType::UInt16, false)];
    let named = |prefix: &str, field: &Field| {
        // What a function's states may be is its own affair: all are read as if they could be null.
        Field::new(format!("{prefix}.{}", field.name()), field.data_type().clone(), true)
    };
    fields.extend(layout.keys.iter().map(|field| named("key", field)));
    fields.extend(layout.values.iter().map(|field| named("value", field)));
    let kind = match kind {
        VersionKind::Snapshot => "snapshot",
        VersionKind::Delta => "delta",
    };
    let metadata = [
        ("format", FORMAT.to_owned()),
        ("table", layout.name.clone()),
        ("kind", kind.to_owned()),
        ("partitions", VIRTUAL_PARTITIONS.to_string()),
    ];
    let evicted = evicted_until.map(|until| ("evicted.until", until.0.to_string()));
    let metadata =
        metadata.into_iter().chain(evicted).map(|(name, value)| (name.to_owned(), value)).collect();
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

fn writing(error: arrow::error::ArrowError) -> crate::error::Error {
    match error {
        arrow::error::ArrowError::IoError(_, error) => error.into(),
        error => computing(error),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;
    use proptest::prelude::*;

    use super::*;

    fn layout(name: &str) -> Layout {
        let field = |name: &str, data_type| Arc::new(Field::new(name, data_type, true));
        let keys = vec![field("user", DataType::Utf8)];
        Layout::new(name, keys, vec![field("count", DataType::Int64)]).unwrap()
    }

    fn file(kind: VersionKind, until: Option<Bucket>, parts: &[&[i64]]) -> Vec<u8> {
        let layout = layout("t");
        let parts: Vec<_> = parts
            .iter()
            .map(|part| {
                let names: ArrayRef = Arc::new(StringArray::from_iter(
                    part.iter().map(|n| (n % 5 != 0).then(|| format!("user {n}"))),
                ));
                let encoded = layout.encode_keys(std::slice::from_ref(&names)).unwrap();
                let counts: ArrayRef =
                    Arc::new(Int64Array::from_iter(part.iter().map(|n| (n % 7 != 0).then_some(*n))));
                Ok(StateRows {
                    buckets: part.iter().map(|n| Bucket(n / 10)).collect(),
                    hashes: encoded.iter().map(|key| KeyHash::of(key.data())).collect(),
                    keys: vec![names],
                    values: vec![counts],
                })
            })
            .collect();
        let version = Version { kind, evicted_until: until, rows: Box::new(parts.into_iter()) };
        let mut bytes = Vec::new();
        write_state_file(&layout, version, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let bytes = file(VersionKind::Delta, Some(Bucket(-3)), &[&[1, 5, 7, 12], &[20, 21]]);
        let read = read_state_file(&layout("t"), bytes).unwrap();
        assert_eq!((read.kind, read.evicted_until), (VersionKind::Delta, Some(Bucket(-3))));
        let lens: Vec<_> = read.rows.iter().map(StateRows::len).collect();
        assert_eq!(lens, [4, 2]);
        let first = &read.rows[0];
        assert_eq!(first.buckets, [Bucket(0), Bucket(0), Bucket(0), Bucket(1)]);
        let names: Vec<_> = first.keys[0].as_string::<i32>().iter().collect();
        assert_eq!(names, [Some("user 1"), None, Some("user 7"), Some("user 12")]);
        let counts: Vec<_> = first.values[0].as_primitive::<Int64Type>().iter().collect();
        assert_eq!(counts, [Some(1), Some(5), None, Some(12)]);
        let none = read_state_file(&layout("t"), file(VersionKind::Snapshot, None, &[])).unwrap();
        assert!(none.rows.is_empty() && none.kind == VersionKind::Snapshot && none.evicted_until.is_none());
    }

    #[test]
    fn the_file_of_another_table_is_refused() {
        let bytes = file(VersionKind::Snapshot, None, &[&[1]]);
        let error = read_state_file(&layout("other"), bytes).unwrap_err().to_string();
        assert!(error.contains("another table than 'other'"), "{error}");
    }

    #[test]
    fn a_file_tells_its_layout() {
        let bytes = file(VersionKind::Delta, None, &[&[1, 2]]);
        let told = read_state_layout("t", &bytes).unwrap();
        let names = |fields: &[arrow::datatypes::FieldRef]| fields[0].name().clone();
        assert_eq!((names(&told.keys), names(&told.values)), ("user".to_owned(), "count".to_owned()));
        assert_eq!(read_state_file(&told, bytes.clone()).unwrap().rows[0].len(), 2);
        assert_eq!(read_state_layout("t", &file(VersionKind::Snapshot, None, &[])).unwrap().keys.len(), 1);
        let error = read_state_layout("other", &bytes).unwrap_err().to_string();
        assert!(error.contains("another table than 'other'"), "{error}");
    }

    proptest! {
        #[test]
        fn what_is_not_a_file_of_state_never_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            cut in 0..2000_usize,
        ) {
            let _ = read_state_layout("t", &bytes);
            let _ = read_state_file(&layout("t"), bytes);
            let whole = file(VersionKind::Delta, None, &[&[1, 2, 3]]);
            let _ = read_state_layout("t", &whole[..cut.min(whole.len())]);
            let _ = read_state_file(&layout("t"), whole[..cut.min(whole.len())].to_vec());
        }
    }
}
