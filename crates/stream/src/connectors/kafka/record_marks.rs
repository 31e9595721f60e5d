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

/// The mark of the last record of each partition that was read. In a manifest: `{"topic":{"0":[offset, timestamp, checksum]}}`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct RecordMarks(pub BTreeMap<TopicPartition, RecordMark>);

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

impl RecordMarks {
    /// Takes note of a record.
    pub fn read(&mut self, place: &TopicPartition, mark: RecordMark) {
        match self.0.get_mut(place) {
            Some(last) => *last = mark,
            None => drop(self.0.insert(place.clone(), mark)),
        }
    }

    /// The marks as JSON; nothing if there are none.
    pub fn to_json(&self) -> Option<Value> {
        let mut topics: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
        for (place, mark) in &self.0 {
            let marks = topics.entry(&place.topic).or_default();
            marks.insert(place.partition.to_string(), json!([mark.offset, mark.timestamp_ms, mark.crc32c]));
        }
        (!topics.is_empty()).then(|| json!(topics))
    }

    /// Marks of a manifest. What has another form is left out: it says nothing of its partition.
    pub fn from_json(value: Option<&Value>) -> Self {
        let topics = value.and_then(Value::as_object).into_iter().flatten();
        let marks = topics.flat_map(|(topic, partitions)| {
            let partitions = partitions.as_object().into_iter().flatten();
            partitions.filter_map(move |(partition, mark)| {
                let (offset, timestamp_ms, crc32c) = serde_json::from_value(mark.clone()).ok()?;
                let place = TopicPartition { topic: topic.clone(), partition: partition.parse().ok()? };
                Some((place, RecordMark { offset, timestamp_ms, crc32c }))
            })
        });
        Self(marks.collect())
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
            marks.read(&place, mark);
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
        let marks = RecordMarks(BTreeMap::from([(place(0), mark(7)), (place(11), mark(i64::MAX))]));
        let value = marks.to_json().unwrap();
        assert_eq!(value["a"]["0"], json!([7, 1_760_000_000_000_i64, u32::MAX]));
        assert_eq!(RecordMarks::from_json(Some(&value)), marks);
        assert_eq!(RecordMarks::default().to_json(), None);
        for value in [json!([]), json!({"a": 1}), json!({"a": {"x": [1, 2, 3], "0": [1, 2], "1": "x"}})] {
            assert_eq!(RecordMarks::from_json(Some(&value)), RecordMarks::default(), "{value}");
        }
    }
}
