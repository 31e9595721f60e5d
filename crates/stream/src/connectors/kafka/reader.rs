use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use rdkafka::topic_partition_list::Offset;

use super::TopicPartition;
use super::client::failed;
use crate::error::{Error, ErrorKind, Result};

/// Time that librdkafka's thread may take to do what it is asked.
const DONE_WITHIN: Duration = Duration::from_secs(30);
/// Time in which partitions that were assigned are usually started: after that nobody waits for them.
const STARTED_WITHIN: Duration = Duration::from_secs(1);
/// Time between two looks whether partitions can be moved.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Consumer that reads partitions from given offsets on.
///
/// librdkafka starts and stops partitions on a thread of its own. All that is done to a partition is numbered when it is asked for. If
/// that thread and ours ask at the same time, the lower number may be dealt with last: from then on all records of the partition are
/// dropped. And if partitions are assigned while they are being stopped, the process is aborted. So partitions are assigned only when
/// others are to be read, and moved by seeking; each is sought once more after it is known to have been started; and what comes from
/// one that is still to be moved is not to be taken.
pub(super) struct PartitionReader {
    consumer: BaseConsumer,
    /// Offsets of the partitions that are still to be moved.
    moving: BTreeMap<TopicPartition, i64>,
    /// Those of them that are not known to have been started.
    starting: BTreeSet<TopicPartition>,
}

impl PartitionReader {
    /// A reader of nothing.
    pub fn new(consumer: BaseConsumer) -> Self {
        Self { consumer, moving: BTreeMap::new(), starting: BTreeSet::new() }
    }

    /// Reads these partitions, and no others, from these offsets on. Those that were paused go on.
    ///
    /// # Errors
    /// As Kafka's client.
    pub fn assign(&mut self, offsets: &BTreeMap<TopicPartition, i64>) -> Result<()> {
        let list = list(offsets)?;
        self.consumer.assign(&list).map_err(|error| failed("cannot read from the partitions", error))?;
        self.moving.clone_from(offsets);
        self.starting = offsets.keys().cloned().collect();
        let begun = Instant::now();
        while self.go_on()? && begun.elapsed() < STARTED_WITHIN {
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Reads these of its partitions from these offsets on. Those that were paused go on; what was fetched ahead is fetched again, and
    /// what was about to be said of ends of partitions is said anew.
    ///
    /// # Errors
    /// As Kafka's client.
    pub fn seek(&mut self, offsets: impl IntoIterator<Item = (TopicPartition, i64)>) -> Result<()> {
        self.moving.extend(offsets);
        self.go_on().map(drop)
    }

    /// Moves the partitions that are still to be moved. Gives whether some remain: the client may not know them yet.
    ///
    /// # Errors
    /// As Kafka's client.
    pub fn go_on(&mut self) -> Result<bool> {
        let mut has_started = true;
        while has_started && !self.moving.is_empty() {
            has_started = false;
            let list = list(&self.moving)?;
            self.consumer.resume(&list).map_err(|error| failed("cannot go on with the partitions", error))?;
            let sought = self.consumer.seek_partitions(list, DONE_WITHIN).map_err(|error| {
                Error::new(ErrorKind::Unavailable, "the client of Kafka does not answer").with_source(error)
            })?;
            for element in sought.elements() {
                let place =
                    TopicPartition { topic: element.topic().to_owned(), partition: element.partition() };
                match element.error() {
                    Ok(()) if self.starting.remove(&place) => has_started = true,
                    Ok(()) => drop(self.moving.remove(&place)),
                    Err(error) if is_not_started(&error) => {}
                    Err(error) => return Err(failed("cannot read on in a partition", error)),
                }
            }
        }
        Ok(!self.moving.is_empty())
    }

    /// True if some partition is still to be moved.
    pub fn has_moving(&self) -> bool {
        !self.moving.is_empty()
    }

    /// True if this partition is still to be moved: what comes from it is not of where it is to be read.
    pub fn is_moving(&self, place: &TopicPartition) -> bool {
        self.moving.contains_key(place)
    }

    /// Fetches nothing more from these partitions until they are moved.
    ///
    /// # Errors
    /// As Kafka's client.
    pub fn pause<'p>(&self, places: impl IntoIterator<Item = &'p TopicPartition>) -> Result<()> {
        let mut list = TopicPartitionList::new();
        for place in places {
            list.add_partition(&place.topic, place.partition);
        }
        self.consumer.pause(&list).map_err(|error| failed("cannot pause partitions", error))
    }

    /// Next record, or what the client says instead; nothing if there is none within this time.
    pub fn poll(&self, wait: Duration) -> Option<KafkaResult<BorrowedMessage<'_>>> {
        self.consumer.poll(wait)
    }

    /// Calls something whenever there may be records after there were none.
    pub fn ring(&mut self, ring: impl Fn() + Send + Sync + 'static) {
        self.consumer.set_nonempty_callback(ring);
    }
}

fn list(offsets: &BTreeMap<TopicPartition, i64>) -> Result<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for (place, offset) in offsets {
        let added = list.add_partition_offset(&place.topic, place.partition, Offset::Offset(*offset));
        added.map_err(|error| failed("cannot name a partition", error))?;
    }
    Ok(list)
}

/// Whether a partition cannot be moved yet: it is being started or stopped, or the client does not know it.
fn is_not_started(error: &KafkaError) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        error.rdkafka_error_code(),
        Some(Code::State | Code::PreviousInProgress | Code::UnknownPartition | Code::UnknownTopicOrPartition)
    )
}
