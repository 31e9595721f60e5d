//! The control topic of a query: the marker of each transaction of its output, in that transaction.

use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};

use super::KafkaSinkOptions;
use super::client::{config, failed, passes};
use super::settings_errors::refused;
use crate::checkpoint::OutputMarker;
use crate::error::{Error, ErrorKind, Result, corrupt};

/// Time that a part of the control topic may take to be read.
const READ_MAX: Duration = Duration::from_secs(60);
/// Time in which brokers end a transaction that they have settled.
const SETTLE_MAX: Duration = Duration::from_secs(10);
/// Wait of a poll.
const POLL_MAX: Duration = Duration::from_millis(100);
/// Offsets of the control topic that are read first, from its end on back; ten times as many follow if no marker is among them.
const TAIL_FIRST: i64 = 1000;

/// Makes the control topic, if it is not there.
///
/// # Errors
/// If brokers refuse.
pub(super) fn create(options: &KafkaSinkOptions, name: &str) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> =
        config(&[], &options.client, &[]).create().map_err(|error| {
            refused("cannot make a client of Kafka with these options", error, &options.client)
        })?;
    // A compacted topic keeps the last marker for ever; small segments keep it short.
    let topic = NewTopic::new(name, 1, TopicReplication::Fixed(-1))
        .set("cleanup.policy", "compact")
        .set("segment.bytes", "16777216");
    let made = futures::executor::block_on(admin.create_topics([&topic], &AdminOptions::new()));
    for result in made.map_err(|error| failed("cannot create the control topic", error))? {
        match result {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((_, code)) => {
                return Err(failed(
                    &format!("cannot create the control topic '{name}'"),
                    KafkaError::AdminOp(code),
                ));
            }
        }
    }
    Ok(())
}

/// The last marker of a topic whose writers are settled.
///
/// # Errors
/// `Unavailable` if Kafka does not say whether the last one is committed; `Corrupt` for a record that is none.
pub(super) fn last_marker(options: &KafkaSinkOptions, topic: &str) -> Result<Option<OutputMarker>> {
    let consumer = control_consumer(options, "read_committed")?;
    let cannot = |error| failed(&format!("cannot read the control topic '{topic}'"), error);
    let (low, high) = settled(options, &consumer, topic, &cannot)?;
    let mut tail = TAIL_FIRST;
    loop {
        let from = high.saturating_sub(tail).max(low);
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, 0, Offset::Offset(from)).map_err(cannot)?;
        consumer.assign(&list).map_err(cannot)?;
        if let Some(marker) = last_of(&consumer, &cannot)? {
            return Ok(Some(marker));
        }
        if from == low {
            return Ok(None);
        }
        tail = tail.saturating_mul(10);
    }
}

/// A consumer of the control topic.
fn control_consumer(options: &KafkaSinkOptions, isolation: &str) -> Result<BaseConsumer> {
    let fixed = [
        ("group.id", "yeoul-unused"),
        ("enable.auto.commit", "false"),
        ("isolation.level", isolation),
        ("enable.partition.eof", "true"),
        ("auto.offset.reset", "error"),
    ];
    // Only what connects: a consumer warns of settings of producers.
    let connects = |name: &str| {
        ["bootstrap.", "security.", "ssl.", "sasl.", "socket."].iter().any(|begin| name.starts_with(begin))
    };
    let client: Vec<_> = options.client.iter().filter(|(name, _)| connects(name)).cloned().collect();
    let made = config(&[], &client, &fixed).create();
    made.map_err(|error| refused("cannot make a consumer of Kafka with these options", error, &client))
}

/// The bounds of the control topic, once every transaction in it has its end.
///
/// Brokers say that they have settled a transaction, and may have forgotten to write its end where a partition had no leader: Kafka
/// 4.3 does after the only replica was restarted. A marker that is neither committed nor aborted says nothing of the output: to
/// go on from the one before it would give the same output twice.
fn settled(
    options: &KafkaSinkOptions,
    consumer: &BaseConsumer,
    topic: &str,
    cannot: &dyn Fn(KafkaError) -> Error,
) -> Result<(i64, i64)> {
    let all = control_consumer(options, "read_uncommitted")?;
    let begun = Instant::now();
    loop {
        // In this order: what comes between the two makes the first one less.
        let bounds = consumer.fetch_watermarks(topic, 0, READ_MAX);
        match bounds.and_then(|bounds| Ok((bounds, all.fetch_watermarks(topic, 0, READ_MAX)?.1))) {
            Ok(((low, decided), high)) if decided == high => return Ok((low, high)),
            Ok(((_, decided), _)) if begun.elapsed() >= SETTLE_MAX => return Err(undecided(topic, decided)),
            // It was made just now.
            Err(error) if begun.elapsed() >= READ_MAX => return Err(cannot(error)),
            _ => std::thread::sleep(POLL_MAX),
        }
    }
}

/// The error of a transaction that hangs.
fn undecided(topic: &str, offset: i64) -> Error {
    let text = format!(
        "Kafka has settled a transaction without its end: record {offset} of the control topic '{topic}' is neither committed nor aborted"
    );
    Error::new(ErrorKind::Unavailable, text).with_hint(
        "`kafka-transactions.sh find-hanging` names it and `abort` ends it; consumers of the output may wait for it, too, and what \
         it held may be lost: begin anew with another --checkpoint if the output has to be whole",
    )
}

/// The last marker from where a consumer is to the end.
fn last_of(consumer: &BaseConsumer, cannot: &dyn Fn(KafkaError) -> Error) -> Result<Option<OutputMarker>> {
    let (mut last, deadline) = (None, Instant::now() + READ_MAX);
    loop {
        match consumer.poll(POLL_MAX) {
            Some(Ok(message)) => {
                let read = serde_json::from_slice(message.payload().unwrap_or_default());
                last = Some(read.map_err(|error| {
                    corrupt(format!("record {} of '{}' is not a marker", message.offset(), message.topic()))
                        .with_source(error)
                })?);
            }
            Some(Err(KafkaError::PartitionEOF(_))) => return Ok(last),
            Some(Err(error)) if !passes(&error) => return Err(cannot(error)),
            _ if Instant::now() < deadline => {}
            _ => return Err(cannot(KafkaError::MessageConsumption(RDKafkaErrorCode::OperationTimedOut))),
        }
    }
}
