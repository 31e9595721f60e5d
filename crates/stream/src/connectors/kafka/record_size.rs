//! Sizes of records: how large one may be for the client, and how one is named that is too large.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::DataType;

use super::producer::Outgoing;

/// Most bytes of a record unless 'kafka.message.max.bytes' says otherwise (librdkafka's default of `message.max.bytes`).
const RECORD_BYTES_MAX: usize = 1_000_000;
/// Bytes of a record beside its key, value and headers, at most (librdkafka's `RD_KAFKAP_MESSAGE_V2_MAX_OVERHEAD`).
const OVERHEAD_BYTES: usize = 36;
/// Bytes of a header beside its name and value, at most.
const HEADER_OVERHEAD_BYTES: usize = 10;
/// Characters of a key and of a value that name a record.
const SHOWN_CHARS_MAX: usize = 80;
/// Bytes that a byte of a text may become in JSON: a control character is `\u0001`.
const ESCAPED_BYTES_MAX: usize = 6;
/// Bytes that a number or a time may become, with its comma: a decimal has 76 digits at most.
const NUMBER_BYTES_MAX: usize = 96;

/// Most bytes of a record of a client with these settings.
pub(super) fn record_bytes_max(client: &[(String, String)]) -> usize {
    let set = client.iter().rev().find(|(name, _)| name == "message.max.bytes");
    set.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(RECORD_BYTES_MAX)
}

/// Bytes that the client counts for a record.
pub(super) fn record_bytes(record: &Outgoing<'_>) -> usize {
    let headers = record.headers.iter().map(|(name, value)| name.len() + value.len() + HEADER_OVERHEAD_BYTES);
    let [key, value] = [record.key, record.value].map(|bytes| bytes.map_or(0, <[u8]>::len));
    OVERHEAD_BYTES + key + value + headers.sum::<usize>()
}

/// A name for a record in errors: its key, the size of its value with its beginning, and its topic.
pub(super) fn record_name(topic: &str, key: Option<&[u8]>, value: Option<&[u8]>) -> String {
    let key = key.map(|key| format!("the key '{}' and ", beginning(key))).unwrap_or_default();
    let value = value.unwrap_or_default();
    format!(
        "a record for the topic '{topic}' with {key}a value of {} bytes ('{}')",
        value.len(),
        beginning(value)
    )
}

fn beginning(bytes: &[u8]) -> String {
    // A character has 4 bytes at most.
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * SHOWN_CHARS_MAX)]).into_owned();
    let mut shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < bytes.len() {
        shown.push('…');
    }
    shown
}

/// Bytes that no row of these has more of as text with the names of its columns; nothing if that takes as long to know as to write them.
pub(super) fn row_bytes_max(rows: &RecordBatch) -> Option<usize> {
    let schema = rows.schema();
    let of_column = |(field, column): (&arrow::datatypes::FieldRef, &arrow::array::ArrayRef)| {
        let longest = |offsets: &[i32]| offsets.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        let longest = match column.data_type() {
            DataType::Utf8 => longest(column.as_string::<i32>().value_offsets()),
            DataType::Binary => longest(column.as_binary::<i32>().value_offsets()),
            other if other.is_primitive() || matches!(other, DataType::Boolean | DataType::Null) => 0,
            _ => return None,
        };
        let longest = usize::try_from(longest).ok()?;
        Some(ESCAPED_BYTES_MAX * (longest + field.name().len()) + NUMBER_BYTES_MAX)
    };
    schema.fields().iter().zip(rows.columns()).map(of_column).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BinaryArray, Int64Array, ListArray, StringArray};
    use arrow::datatypes::Int64Type;

    use super::*;
    use crate::connectors::format::write_json_lines;

    #[test]
    fn no_row_is_longer_than_its_bound_and_lists_have_none() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["\u{1}\u{1}\u{1}\"", "", "ä"]));
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![None, Some(&[0xff; 100][..]), Some(b"")]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(7)]));
        let rows = RecordBatch::try_from_iter([("t", texts), ("\u{2}", bytes), ("n", numbers)]).unwrap();
        let bound = row_bytes_max(&rows).unwrap();
        let longest = write_json_lines(&rows).unwrap().split(|byte| *byte == b'\n').map(<[u8]>::len).max();
        assert!(longest.unwrap() <= bound && bound < 2000, "{longest:?} {bound}");
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1); 1000])]);
        let rows = RecordBatch::try_from_iter([("l", Arc::new(lists) as ArrayRef)]).unwrap();
        assert_eq!(row_bytes_max(&rows), None);
    }

    #[test]
    fn a_record_is_named_by_its_key_and_the_beginning_of_its_value() {
        let value = "ä".repeat(1000);
        let name = record_name("out", Some(b"k1"), Some(value.as_bytes()));
        let shown = "ä".repeat(SHOWN_CHARS_MAX);
        assert_eq!(
            name,
            format!("a record for the topic 'out' with the key 'k1' and a value of 2000 bytes ('{shown}…')")
        );
        let name = record_name("out", None, Some(b"v"));
        assert_eq!(name, "a record for the topic 'out' with a value of 1 bytes ('v')");
    }
}
