use std::collections::BTreeSet;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::message::BorrowedMessage;
use rdkafka::topic_partition_list::Offset;

use super::TopicPartition;
use super::client::failed;
use super::heard::Heard;
use crate::error::Result;

/// Questions that librdkafka's thread answers once it has done all that an assignment asks for: after the first answer it has stopped
/// the partitions, after the second it knows that, and after the third it has started them.
const QUESTIONS: usize = 3;
/// Time for a question for the leaders of a topic. Without an answer nothing more is asked: the client looks for them in its own time.
const LEADERS_MAX: Duration = Duration::from_secs(5);
/// Topics that are remembered as known to the client. When there are more, all are asked for again.
const KNOWN_MAX: usize = 100_000;

/// Consumer that reads partitions from given offsets on.
///
/// librdkafka stops and starts partitions on a thread of its own, some time after they were assigned. All that is done to a partition is
/// numbered when it is asked for. If that thread and ours ask at the same time, the lower number may be dealt with last: from then on
/// all records of the partition are dropped. And if partitions are assigned while they are being stopped, the process is aborted. So
/// partitions go on before they are assigned, and nobody does anything else to them before they are started.
pub(super) struct PartitionReader {
    consumer: BaseConsumer<Heard>,
    paused: BTreeSet<TopicPartition>,
    /// Topics whose leaders the client has been told.
    known: BTreeSet<String>,
}

impl PartitionReader {
    /// A reader of nothing.
    pub fn new(consumer: BaseConsumer<Heard>) -> Self {
        Self { consumer, paused: BTreeSet::new(), known: BTreeSet::new() }
    }

    /// Reads these partitions, and no others, from these offsets on. Those that were paused go on; what was fetched ahead is fetched
    /// again, and what was about to be said of ends of partitions is said anew.
    ///
    /// # Errors
    /// As Kafka's client.
    pub fn assign<'p>(
        &mut self,
        offsets: impl IntoIterator<Item = (&'p TopicPartition, &'p i64)>,
    ) -> Result<()> {
        if !self.paused.is_empty() {
            let resumed = self.consumer.resume(&list_of(&self.paused));
            resumed.map_err(|error| failed("cannot go on with the partitions", error))?;
            self.paused.clear();
        }
        let (mut list, mut topics) = (TopicPartitionList::new(), BTreeSet::new());
        for (place, offset) in offsets {
            topics.insert(place.topic.as_str());
            let added = list.add_partition_offset(&place.topic, place.partition, Offset::Offset(*offset));
            added.map_err(|error| failed("cannot name a partition", error))?;
        }
        self.learn_leaders(&topics);
        self.consumer.assign(&list).map_err(|error| failed("cannot read from the partitions", error))?;
        for _ in 0..QUESTIONS {
            let answer = self.consumer.assignment();
            answer.map_err(|error| failed("cannot read from the partitions", error))?;
        }
        Ok(())
    }

    /// Has the client ask who leads the topics that it hears of for the first time. If it has no connection when it is told to read,
    /// it would ask again a second later only.
    fn learn_leaders(&mut self, topics: &BTreeSet<&str>) {
        if self.known.len() > KNOWN_MAX {
            self.known.clear();
        }
        for topic in topics {
            if self.known.contains(*topic) {
                continue;
            }
            if self.consumer.fetch_metadata(Some(topic), LEADERS_MAX).is_err() {
                return;
            }
            self.known.insert((*topic).to_owned());
        }
    }

    /// Fetches nothing more from this partition until partitions are assigned again.
    ///
    /// # Errors
    /// As Kafka's client.
    pub fn pause(&mut self, place: TopicPartition) -> Result<()> {
        let paused = self.consumer.pause(&list_of([&place]));
        paused.map_err(|error| failed("cannot pause a partition", error))?;
        self.paused.insert(place);
        Ok(())
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

fn list_of<'p>(places: impl IntoIterator<Item = &'p TopicPartition>) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for place in places {
        list.add_partition(&place.topic, place.partition);
    }
    list
}
