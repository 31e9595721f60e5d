use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Message, Timestamp};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::Value;

use super::client::{config, failed, passes};
use super::columns::{Record, RecordColumns};
use super::offsets::planned_ends;
use super::{KafkaOffsets, KafkaSourceOptions, StartingOffsets, Subscription, TopicPartition};
use crate::connectors::{Bell, Polled, Source};
use crate::error::{Error, ErrorKind, Result, invalid};

/// Most records that one poll gives.
const POLL_RECORDS_MAX: usize = 8192;
/// Bytes of records after which a poll gives what it has.
const POLL_BYTES_MAX: usize = 4 << 20;
/// How long a broker may take to answer a question about its topics.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// How long to wait before a question that found no leader is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// How often new partitions are looked for.
const LOOK_FOR_PARTITIONS_EVERY: Duration = Duration::from_secs(30);
/// How long such a look may keep rows waiting.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// Records of topics, from offsets that the query keeps: nothing is committed to a group, as in Spark.
pub struct KafkaSource {
    options: KafkaSourceOptions,
    consumer: BaseConsumer,
    next: BTreeMap<TopicPartition, i64>,
    /// Where each partition ends, if the query is to end there.
    ends: Option<BTreeMap<TopicPartition, i64>>,
    /// Where each partition ends for the planned epoch.
    planned: Option<BTreeMap<TopicPartition, i64>>,
    columns: RecordColumns,
    last_look: Instant,
}

impl KafkaSource {
    /// Where a new query begins.
    ///
    /// # Errors
    /// `NotFound` for a topic that is not there; `Invalid` if starting offsets do not name the partitions.
    pub fn initial_offsets(options: &KafkaSourceOptions) -> Result<Value> {
        let consumer = consumer(options)?;
        let mut offsets = BTreeMap::new();
        for place in partitions(&consumer, &options.subscription, ANSWER_MAX)? {
            let (low, high) = bounds(&consumer, &place)?;
            let offset = match &options.starting_offsets {
                StartingOffsets::Earliest => low,
                StartingOffsets::Latest => high,
                StartingOffsets::At(given) => match given.0.get(&place) {
                    Some(-2) => low,
                    Some(-1) => high,
                    Some(offset) => *offset,
                    None => {
                        let text =
                            format!("startingOffsets does not name {}-{}", place.topic, place.partition);
                        return Err(
                            invalid(text).with_hint("name all partitions; -2 is earliest, -1 is latest")
                        );
                    }
                },
            };
            offsets.insert(place, offset);
        }
        if let StartingOffsets::At(given) = &options.starting_offsets
            && let Some(place) = given.0.keys().find(|place| !offsets.contains_key(place))
        {
            return Err(invalid(format!(
                "startingOffsets names {}-{}, which is not read",
                place.topic, place.partition
            )));
        }
        Ok(KafkaOffsets(offsets).to_json())
    }

    /// Checks that its topics can be read.
    ///
    /// # Errors
    /// `NotFound` for a topic that is not there; `Invalid` for options that Kafka's client refuses; if brokers do not answer.
    pub fn check(options: &KafkaSourceOptions) -> Result<()> {
        partitions(&consumer(options)?, &options.subscription, ANSWER_MAX).map(drop)
    }

    /// Goes on at an offset.
    ///
    /// # Errors
    /// `DataLoss` if records after it are gone and the query is to fail then; as [`initial_offsets`](Self::initial_offsets).
    pub fn at(options: KafkaSourceOptions, offset: &Value) -> Result<Self> {
        let consumer = consumer(&options)?;
        let mut next = KafkaOffsets::from_json(offset, 0)?.0;
        let there = partitions(&consumer, &options.subscription, ANSWER_MAX)?;
        if let Some(place) = next.keys().find(|place| !there.contains(place)) {
            return Err(lost(format!("{}-{} is gone", place.topic, place.partition)));
        }
        let mut source = Self {
            options,
            consumer,
            next: BTreeMap::new(),
            ends: None,
            planned: None,
            columns: RecordColumns::new(),
            last_look: Instant::now(),
        };
        for place in there {
            let known = next.remove(&place);
            let from = source.checked(&place, known)?;
            source.next.insert(place, from);
        }
        source.assign()?;
        Ok(source)
    }

    /// The offset from which a partition is read: the known one, or 0 for a new partition.
    fn checked(&self, place: &TopicPartition, known: Option<i64>) -> Result<i64> {
        let (low, high) = bounds(&self.consumer, place)?;
        let from = known.unwrap_or(0);
        if (low..=high).contains(&from) {
            return Ok(from);
        }
        let text = format!(
            "{}-{} has offsets {low} to {high}, the next of the query is {from}",
            place.topic, place.partition
        );
        if self.options.fails_on_data_loss { Err(lost(text)) } else { Ok(from.clamp(low, high)) }
    }

    fn assign(&self) -> Result<()> {
        let mut list = TopicPartitionList::new();
        for (place, offset) in &self.next {
            let added = list.add_partition_offset(&place.topic, place.partition, Offset::Offset(*offset));
            added.map_err(|error| failed("cannot name a partition", error))?;
        }
        self.consumer.assign(&list).map_err(|error| failed("cannot read from the partitions", error))
    }

    /// Looks for new partitions now and then, which are read from their first record.
    fn look_for_partitions(&mut self) -> Result<()> {
        if self.stops().is_some() || self.last_look.elapsed() < LOOK_FOR_PARTITIONS_EVERY {
            return Ok(());
        }
        self.last_look = Instant::now();
        let there = match partitions(&self.consumer, &self.options.subscription, LOOK_MAX) {
            Err(error) if error.kind() == ErrorKind::Unavailable => return Ok(()),
            there => there?,
        };
        let new: Vec<_> = there.into_iter().filter(|place| !self.next.contains_key(place)).collect();
        if new.is_empty() {
            return Ok(());
        }
        for place in new {
            let from = self.checked(&place, None)?;
            self.next.insert(place, from);
        }
        // What was fetched ahead is fetched again: assigning begins at our offsets.
        self.assign()
    }

    /// Takes a record, or what its consumer says instead.
    fn take(&mut self, wait: Duration) -> Result<bool> {
        let message = match self.consumer.poll(wait) {
            None => return Ok(false),
            Some(Ok(message)) => message,
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                self.reached_end(partition);
                return Ok(true);
            }
            Some(Err(error)) if passes(&error) => return Ok(true),
            Some(Err(error)) => {
                let is_lost = matches!(
                    error.rdkafka_error_code(),
                    Some(RDKafkaErrorCode::OffsetOutOfRange | RDKafkaErrorCode::AutoOffsetReset)
                );
                if !is_lost {
                    return Err(failed("cannot read from Kafka", error));
                }
                for (place, from) in self.next.clone() {
                    let from = self.checked(&place, Some(from))?;
                    self.next.insert(place, from);
                }
                self.assign()?;
                return Ok(true);
            }
        };
        let place = TopicPartition { topic: message.topic().to_owned(), partition: message.partition() };
        let offset = message.offset();
        let Some(next) = self.next.get_mut(&place) else { return Ok(true) };
        if offset < *next {
            // It was fetched before the partitions were assigned anew.
            return Ok(true);
        }
        let end = self.planned.as_ref().or(self.ends.as_ref()).and_then(|ends| ends.get(&place)).copied();
        if let Some(end) = end.filter(|end| offset >= *end) {
            *next = end.max(*next);
            drop(message);
            return self.pause(&place).map(|()| true);
        }
        *next = offset + 1;
        let (timestamp_ms, timestamp_type) = match message.timestamp() {
            Timestamp::NotAvailable => (None, -1),
            Timestamp::CreateTime(ms) => (Some(ms), 0),
            Timestamp::LogAppendTime(ms) => (Some(ms), 1),
        };
        let (key, value) = (message.key(), message.payload());
        let (topic, partition) = (message.topic(), message.partition());
        self.columns.push(&Record { key, value, topic, partition, offset, timestamp_ms, timestamp_type });
        drop(message);
        if end == Some(offset + 1) {
            self.pause(&place)?;
        }
        Ok(true)
    }

    /// Fetches nothing more of a partition that is at its planned end. Only a new plan or its end go on with it: they assign
    /// all partitions anew, at our offsets.
    fn pause(&self, place: &TopicPartition) -> Result<()> {
        let mut list = TopicPartitionList::new();
        list.add_partition(&place.topic, place.partition);
        self.consumer.pause(&list).map_err(|error| failed("cannot pause a partition", error))
    }

    /// Where partitions end, if they do.
    fn stops(&self) -> Option<&BTreeMap<TopicPartition, i64>> {
        self.planned.as_ref().or(self.ends.as_ref())
    }

    /// Reads on from our offsets, also in partitions that were paused. What was fetched ahead is fetched again; what the client
    /// was about to say of ends of partitions it says anew.
    fn read_on(&self) -> Result<()> {
        self.assign()?;
        let all =
            self.consumer.assignment().map_err(|error| failed("cannot read from the partitions", error))?;
        self.consumer.resume(&all).map_err(|error| failed("cannot go on with the partitions", error))
    }

    /// Control records at a partition's end are no records: its end says that there are no more. It does not name the topic,
    /// so it is of use where one topic has such a partition.
    fn reached_end(&mut self, partition: i32) {
        let Some(ends) = self.planned.as_ref().or(self.ends.as_ref()) else { return };
        let mut open: Vec<_> =
            self.next.iter_mut().filter(|(place, _)| place.partition == partition).collect();
        if let [(place, next)] = open.as_mut_slice()
            && let Some(end) = ends.get(place)
        {
            **next = (**next).max(*end);
        }
    }

    fn is_at_end(&self) -> bool {
        self.stops().is_some_and(|ends| ends.iter().all(|(place, end)| self.next.get(place) >= Some(end)))
    }
}

impl Source for KafkaSource {
    fn poll(&mut self, wait: Duration) -> Result<Polled> {
        self.look_for_partitions()?;
        let mut wait = wait;
        // Whatever is there comes at once: batches grow with the load, and nothing waits for others.
        while !self.is_at_end() && self.take(wait)? {
            wait = Duration::ZERO;
            if self.columns.rows() >= POLL_RECORDS_MAX || self.columns.bytes() >= POLL_BYTES_MAX {
                break;
            }
        }
        let rows = if self.columns.rows() > 0 { Some(self.columns.finish()?) } else { None };
        Ok(Polled { rows, is_at_end: self.is_at_end() })
    }

    fn ring(&mut self, bell: &Bell) -> bool {
        let bell = bell.clone();
        self.consumer.set_nonempty_callback(move || bell.ring());
        true
    }

    fn position(&self) -> Value {
        KafkaOffsets(self.next.clone()).to_json()
    }

    fn stop_at_latest(&mut self) -> Result<()> {
        let mut ends = BTreeMap::new();
        for place in self.next.keys() {
            ends.insert(place.clone(), bounds(&self.consumer, place)?.1);
        }
        self.ends = Some(ends);
        // An end of a partition that the client found before does not say that there is nothing up to ours.
        self.read_on()
    }

    fn epoch_rows_max(&self) -> Option<u64> {
        self.options.epoch_records_max
    }

    fn plan(&mut self, rows_max: Option<u64>) -> Result<u64> {
        let rows_max = match (rows_max, self.options.epoch_records_max) {
            (Some(wanted), Some(own)) => Some(wanted.min(own)),
            (wanted, own) => wanted.or(own),
        };
        let had_plan = self.planned.take().is_some();
        let mut latest = BTreeMap::new();
        for place in self.next.keys() {
            let end = match &self.ends {
                Some(ends) => ends.get(place).copied().unwrap_or(0),
                None => bounds(&self.consumer, place)?.1,
            };
            latest.insert(place.clone(), end);
        }
        let (ends, rows) = planned_ends(&self.next, &latest, rows_max);
        if rows > 0 || had_plan {
            // As in `stop_at_latest`.
            self.read_on()?;
        }
        self.planned = (rows > 0).then_some(ends);
        Ok(rows)
    }

    fn lift_plan(&mut self) -> Result<()> {
        if self.planned.take().is_some() { self.read_on() } else { Ok(()) }
    }
}

fn consumer(options: &KafkaSourceOptions) -> Result<BaseConsumer> {
    let defaults = [
        // As Spark's client, which is Java's.
        ("isolation.level", "read_uncommitted"),
        ("group.id", "yeoul-stream"),
        ("check.crcs", "true"),
        // The broker answers as soon as there is a record.
        ("fetch.queue.backoff.ms", "1"),
        ("queued.max.messages.kbytes", "16384"),
    ];
    let fixed =
        [("auto.offset.reset", "error"), ("enable.auto.commit", "false"), ("enable.partition.eof", "true")];
    let made = config(&defaults, &options.client, &fixed).create();
    made.map_err(|error| failed("cannot make a consumer of Kafka with these options", error))
}

/// Partitions that are read.
fn partitions(
    consumer: &BaseConsumer,
    subscription: &Subscription,
    wait: Duration,
) -> Result<Vec<TopicPartition>> {
    let topics = match subscription {
        Subscription::Topics(topics) => topics.clone(),
        Subscription::Partitions(places) => {
            let mut topics: Vec<_> = places.iter().map(|place| place.topic.clone()).collect();
            topics.dedup();
            topics
        }
    };
    let mut there = Vec::new();
    for topic in topics {
        let metadata = consumer
            .fetch_metadata(Some(&topic), wait)
            .map_err(|error| failed("no answer from Kafka", error))?;
        let found = metadata
            .topics()
            .first()
            .filter(|found| found.error().is_none() && !found.partitions().is_empty());
        let Some(found) = found else {
            let text = format!("there is no topic '{topic}' in Kafka");
            return Err(Error::new(ErrorKind::NotFound, text).with_hint("create it, or mend its name"));
        };
        there.extend(
            found.partitions().iter().map(|p| TopicPartition { topic: topic.clone(), partition: p.id() }),
        );
    }
    if let Subscription::Partitions(places) = subscription {
        if let Some(place) = places.iter().find(|place| !there.contains(place)) {
            let text = format!("there is no partition {}-{} in Kafka", place.topic, place.partition);
            return Err(Error::new(ErrorKind::NotFound, text));
        }
        return Ok(places.clone());
    }
    Ok(there)
}

/// The first offset of a partition, and the one after its last record. A partition whose leader is being found is waited for.
fn bounds(consumer: &BaseConsumer, place: &TopicPartition) -> Result<(i64, i64)> {
    let deadline = Instant::now() + ANSWER_MAX;
    loop {
        match consumer.fetch_watermarks(&place.topic, place.partition, ANSWER_MAX) {
            Ok(bounds) => return Ok(bounds),
            Err(error) if passes(&error) && Instant::now() < deadline => std::thread::sleep(ASK_AGAIN),
            Err(error) => {
                let text = format!("cannot ask for the offsets of {}-{}", place.topic, place.partition);
                return Err(failed(&text, error));
            }
        }
    }
}

fn lost(text: String) -> Error {
    Error::new(ErrorKind::DataLoss, format!("records that the query has not read may be lost: {text}"))
        .with_hint("'failOnDataLoss' = 'false' reads what is there, and another --checkpoint begins anew")
}
