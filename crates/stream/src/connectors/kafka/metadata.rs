//! Questions to brokers: which partitions there are, and which offsets they have.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::metadata::{Metadata, MetadataTopic};
use rdkafka::{Offset, TopicPartitionList};

use super::client::{failed, passes};
use super::heard::Heard;
use super::partition_changes::Listing;
use super::{Subscription, TopicPartition};
use crate::error::{Error, ErrorKind, Result, invalid};

/// Time that a broker may take to answer a question without which a query cannot go on.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Time after which a question without an answer is asked again, and what the client said meanwhile is listened to.
const LISTEN_EVERY: Duration = Duration::from_secs(5);
/// Events of the client that are taken at once.
const EVENTS_MAX: usize = 64;
/// Wait before a question that found no leader is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// Most partitions of a query.
const PARTITIONS_MAX: usize = 100_000;

/// Partitions of a subscription as they are now.
///
/// # Errors
/// `Unavailable` without an answer in time; `Invalid` if there are too many.
pub(super) fn list(
    consumer: &BaseConsumer<Heard>,
    subscription: &Subscription,
    wait: Duration,
) -> Result<Listing> {
    let ask = |topic: Option<&str>| metadata(consumer, topic, wait);
    let mut listing = Listing::default();
    match subscription {
        Subscription::Pattern(pattern) => {
            let all = ask(None)?;
            let matching = all.topics().iter().filter(|topic| pattern.matches(topic.name()));
            matching.for_each(|topic| add(topic, &mut listing));
        }
        Subscription::Topics(topics) => {
            for topic in topics {
                ask(Some(topic))?.topics().iter().for_each(|topic| add(topic, &mut listing));
            }
        }
        Subscription::Partitions(places) => {
            let mut topics: Vec<&str> = places.iter().map(|place| place.topic.as_str()).collect();
            topics.dedup();
            for topic in topics {
                ask(Some(topic))?.topics().iter().for_each(|topic| add(topic, &mut listing));
            }
            listing.there.retain(|place| places.contains(place));
        }
    }
    if listing.there.len() > PARTITIONS_MAX {
        let text = format!("{} partitions, at most {PARTITIONS_MAX} are read", listing.there.len());
        return Err(invalid(text));
    }
    Ok(listing)
}

/// Asks for topics until there is an answer, or the client says something that waiting does not mend.
///
/// # Errors
/// `Denied` for brokers that refuse the user, or do not agree on TLS; `Unavailable` without an answer in time. Both with the client's
/// own words.
fn metadata(consumer: &BaseConsumer<Heard>, topic: Option<&str>, wait: Duration) -> Result<Metadata> {
    let (deadline, heard) = (Instant::now() + wait, consumer.context());
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let error = match consumer.fetch_metadata(topic, left.min(LISTEN_EVERY)) {
            Ok(metadata) => {
                heard.forget();
                return Ok(metadata);
            }
            Err(error) => error,
        };
        // What the client says of its connections waits to be taken. No partition is assigned, so no record does.
        for _ in 0..EVENTS_MAX {
            drop(consumer.poll(Duration::ZERO));
        }
        if !passes(&error) || heard.is_final() || Instant::now() >= deadline {
            return Err(heard.no_answer(error));
        }
        std::thread::sleep(ASK_AGAIN);
    }
}

fn add(topic: &MetadataTopic, listing: &mut Listing) {
    let name = topic.name();
    match topic.error().map(RDKafkaErrorCode::from) {
        Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {}
        None if !topic.partitions().is_empty() => {
            let ids = topic.partitions().iter().map(|partition| partition.id());
            listing.there.extend(ids.map(|partition| TopicPartition { topic: name.to_owned(), partition }));
        }
        _ => {
            listing.unsettled.insert(name.to_owned());
        }
    }
}

/// Partitions of a subscription of a query that starts. Those of a pattern may be none; all that others name have to be there.
///
/// # Errors
/// `NotFound` for a topic or partition that is not there; as [`list`].
pub(super) fn partitions(consumer: &BaseConsumer<Heard>, subscription: &Subscription) -> Result<Listing> {
    let deadline = Instant::now() + ANSWER_MAX;
    loop {
        let listing = list(consumer, subscription, ANSWER_MAX)?;
        let missing = match subscription {
            Subscription::Pattern(_) => return Ok(listing),
            Subscription::Topics(topics) => {
                let is_there = |topic: &String| listing.there.iter().any(|place| place.topic == *topic);
                topics.iter().find(|topic| !is_there(topic)).map(|topic| (topic, format!("topic '{topic}'")))
            }
            Subscription::Partitions(places) => {
                let missing = places.iter().find(|place| !listing.there.contains(place));
                missing.map(|place| (&place.topic, format!("partition {}-{}", place.topic, place.partition)))
            }
        };
        let Some((topic, name)) = missing else { return Ok(listing) };
        if !listing.unsettled.contains(topic) {
            let text = format!("there is no {name} in Kafka");
            return Err(Error::new(ErrorKind::NotFound, text).with_hint("create it, or mend its name"));
        }
        if Instant::now() >= deadline {
            let text = format!("Kafka does not say whether there is a {name}");
            return Err(Error::new(ErrorKind::Unavailable, text));
        }
        std::thread::sleep(ASK_AGAIN);
    }
}

/// First offset of a partition, and the one after its last record. A partition whose leader is being found is waited for.
///
/// # Errors
/// As Kafka's client.
pub(super) fn bounds(consumer: &BaseConsumer<Heard>, place: &TopicPartition) -> Result<(i64, i64)> {
    let asked = answered(|| consumer.fetch_watermarks(&place.topic, place.partition, ANSWER_MAX));
    asked.map_err(|error| {
        let text = format!("cannot ask for the offsets of {}-{}", place.topic, place.partition);
        failed(&text, error)
    })
}

/// Offsets after the last records of partitions, in one question to each broker. What is unknown to brokers has none.
///
/// # Errors
/// As Kafka's client.
pub(super) fn latest_offsets<'a>(
    consumer: &BaseConsumer<Heard>,
    places: impl Iterator<Item = &'a TopicPartition> + Clone,
) -> Result<BTreeMap<TopicPartition, i64>> {
    let refused = |error| failed("cannot ask for the latest offsets", error);
    match answered(|| ask_latest(consumer, places.clone(), ANSWER_MAX)) {
        // One that is gone makes the whole question fail.
        Err(error) if is_unknown(&error) => {}
        answer => return answer.map_err(refused),
    }
    let mut latest = BTreeMap::new();
    for place in places {
        match answered(|| consumer.fetch_watermarks(&place.topic, place.partition, ANSWER_MAX)) {
            Ok((_, high)) => drop(latest.insert(place.clone(), high)),
            Err(error) if is_unknown(&error) => {}
            Err(error) => return Err(refused(error)),
        }
    }
    Ok(latest)
}

/// As [`latest_offsets`], asked once.
///
/// # Errors
/// As Kafka's client.
pub(super) fn ask_latest<'a>(
    consumer: &BaseConsumer<Heard>,
    places: impl Iterator<Item = &'a TopicPartition>,
    wait: Duration,
) -> KafkaResult<BTreeMap<TopicPartition, i64>> {
    let mut list = TopicPartitionList::new();
    for place in places {
        // In the place of a time the end stands for itself (ListOffsets, KIP-79).
        list.add_partition_offset(&place.topic, place.partition, Offset::End)?;
    }
    if list.count() == 0 {
        return Ok(BTreeMap::new());
    }
    let mut latest = BTreeMap::new();
    for answer in consumer.offsets_for_times(list, wait)?.elements() {
        answer.error()?;
        if let Offset::Offset(offset) = answer.offset() {
            let place = TopicPartition { topic: answer.topic().to_owned(), partition: answer.partition() };
            latest.insert(place, offset);
        }
    }
    Ok(latest)
}

/// Asks until there is an answer, or no hope of one.
fn answered<T>(ask: impl Fn() -> KafkaResult<T>) -> KafkaResult<T> {
    let deadline = Instant::now() + ANSWER_MAX;
    loop {
        match ask() {
            Err(error) if passes(&error) && Instant::now() < deadline => std::thread::sleep(ASK_AGAIN),
            answer => return answer,
        }
    }
}

/// True if brokers do not know a topic or a partition.
pub(super) fn is_unknown(error: &KafkaError) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        error.rdkafka_error_code(),
        Some(
            Code::UnknownTopicOrPartition
                | Code::UnknownTopic
                | Code::UnknownPartition
                | Code::UnknownTopicId
        )
    )
}
