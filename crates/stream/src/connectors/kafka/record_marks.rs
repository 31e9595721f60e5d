//! Marks of the last records that a query has read, by which it knows partitions again: one whose topic was deleted and made anew
//! has another record at the same offset.
//!
//! Brokers have ids of topics, which Kafka's client shows only in calls that are not safe. The records themselves say more: they also
//! tell a log that lost its end and was written on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::message::{BorrowedMessage, Message};
use serde_json::{Map, Value, json};

use super::TopicPartition;
use super::client::{failed, passes};
use super::reader::PartitionReader;
use crate::error::Result;

/// Longest wait for records that are looked for: one that was removed, and a control record in its place, never come.
const LOOK_MAX: Duration = Duration::from_secs(10);
/// Wait for each of them.
const LOOK_EACH: Duration = Duration::from_millis(100);

/// Mark of a record: its place, its time, and a checksum of them with its key and value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordMark {
    /// Offset.
    pub offset: i64,
    /// Milliseconds since 1970.
    pub timestamp_ms: i64,
    /// CRC-32C of timestamp, key and value.
    pub crc32c: u32,
}

/// A mark for each partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct RecordMarks(pub BTreeMap<TopicPartition, RecordMark>);

/// Marks of records that were read. In a manifest: `{"topic":{"0":[offset, timestamp, checksum]}}` of the last record, followed by the same
/// three numbers of the one that was checked if it is another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ReadMarks {
    /// Of the last record of each partition.
    pub last: RecordMarks,
    /// Of a record of each partition that was of the topic when the query began, or was looked at since: it is the last one or before it.
    pub checked: RecordMarks,
}

impl RecordMark {
    /// The mark of a record.
    pub fn of(message: &BorrowedMessage<'_>) -> Self {
        let timestamp_ms = message.timestamp().to_millis().unwrap_or(-1);
        let mut crc32c = crc32c::crc32c(&timestamp_ms.to_le_bytes());
        for bytes in [message.key(), message.payload()] {
            let length = bytes.map_or(-1, |bytes| bytes.len() as i64);
            crc32c = crc32c::crc32c_append(crc32c, &length.to_le_bytes());
            crc32c = crc32c::crc32c_append(crc32c, bytes.unwrap_or_default());
        }
        Self { offset: message.offset(), timestamp_ms, crc32c }
    }
}

impl ReadMarks {
    /// Takes note of a record.
    pub fn read(&mut self, place: &TopicPartition, mark: RecordMark) {
        match self.last.0.get_mut(place) {
            Some(last) => *last = mark,
            None => {
                self.last.0.insert(place.clone(), mark);
                self.checked.0.entry(place.clone()).or_insert(mark);
            }
        }
    }

    /// Forgets the records of a partition.
    pub fn forget(&mut self, place: &TopicPartition) {
        self.last.0.remove(place);
        self.checked.0.remove(place);
    }

    /// The marks as JSON; nothing if there are none.
    pub fn to_json(&self) -> Option<Value> {
        let mut topics: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
        for (place, mark) in &self.last.0 {
            let RecordMark { offset, timestamp_ms, crc32c } = *mark;
            let value = match self.checked.0.get(place).filter(|checked| *checked != mark) {
                None => json!([offset, timestamp_ms, crc32c]),
                Some(checked) => {
                    json!([
                        offset,
                        timestamp_ms,
                        crc32c,
                        checked.offset,
                        checked.timestamp_ms,
                        checked.crc32c
                    ])
                }
            };
            topics.entry(&place.topic).or_default().insert(place.partition.to_string(), value);
        }
        (!topics.is_empty()).then(|| json!(topics))
    }

    /// Marks of a manifest. What has another form is left out: it says nothing of its partition.
    pub fn from_json(value: Option<&Value>) -> Self {
        let topics = value.and_then(Value::as_object).into_iter().flatten();
        let mut marks = Self::default();
        for (topic, partitions) in topics {
            for (partition, value) in partitions.as_object().into_iter().flatten() {
                let Ok(partition) = partition.parse() else { continue };
                let Some((last, checked)) = marks_of(value) else { continue };
                let place = TopicPartition { topic: topic.clone(), partition };
                marks.last.0.insert(place.clone(), last);
                marks.checked.0.insert(place, checked);
            }
        }
        marks
    }
}

/// The marks of a partition in a manifest.
fn marks_of(value: &Value) -> Option<(RecordMark, RecordMark)> {
    let numbers: Vec<Value> = serde_json::from_value(value.clone()).ok()?;
    let mark = |numbers: &[Value]| {
        let [offset, timestamp_ms, crc32c] = numbers else { return None };
        let crc32c = u32::try_from(crc32c.as_u64()?).ok()?;
        Some(RecordMark { offset: offset.as_i64()?, timestamp_ms: timestamp_ms.as_i64()?, crc32c })
    };
    match numbers.len() {
        3 => mark(&numbers).map(|mark| (mark, mark)),
        6 => Some((mark(&numbers[..3])?, mark(&numbers[3..])?)),
        _ => None,
    }
}

/// Marks of the first records at or after these offsets, of the partitions of which there is one before long.
///
/// # Errors
/// As Kafka's client.
pub(super) fn first_marks(
    reader: &mut PartitionReader,
    offsets: &BTreeMap<TopicPartition, i64>,
) -> Result<RecordMarks> {
    let mut marks = RecordMarks::default();
    if offsets.is_empty() {
        return Ok(marks);
    }
    reader.assign(offsets)?;
    let begun = Instant::now();
    while marks.0.len() < offsets.len() && begun.elapsed() < LOOK_MAX {
        let (place, mark) = match reader.poll(LOOK_EACH) {
            Some(Ok(message)) => {
                let place =
                    TopicPartition { topic: message.topic().to_owned(), partition: message.partition() };
                (place, RecordMark::of(&message))
            }
            // Ends of partitions, too.
            None | Some(Err(rdkafka::error::KafkaError::PartitionEOF(_))) => continue,
            Some(Err(error)) if passes(&error) => continue,
            Some(Err(error)) => return Err(failed("cannot read from Kafka", error)),
        };
        if offsets.get(&place).is_some_and(|offset| mark.offset >= *offset) && !marks.0.contains_key(&place) {
            marks.0.insert(place.clone(), mark);
            reader.pause(place)?;
        }
    }
    Ok(marks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back_from_a_manifest_and_other_forms_say_nothing() {
        let place = |partition| TopicPartition { topic: "a".into(), partition };
        let mark = |offset| RecordMark { offset, timestamp_ms: 1_760_000_000_000, crc32c: u32::MAX };
        let mut marks = ReadMarks::default();
        marks.read(&place(0), mark(7));
        marks.read(&place(11), mark(6));
        marks.read(&place(11), mark(i64::MAX));
        let value = marks.to_json().unwrap();
        assert_eq!(value["a"]["0"], json!([7, 1_760_000_000_000_i64, u32::MAX]));
        assert_eq!(value["a"]["11"].as_array().unwrap().len(), 6, "the one that is checked, too");
        assert_eq!(ReadMarks::from_json(Some(&value)), marks);
        assert_eq!(ReadMarks::default().to_json(), None);
        for value in [json!([]), json!({"a": 1}), json!({"a": {"x": [1, 2, 3], "0": [1, 2], "1": "x"}})] {
            assert_eq!(ReadMarks::from_json(Some(&value)), ReadMarks::default(), "{value}");
        }
    }
}
