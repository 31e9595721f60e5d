//! Tools that `yeoul bench stream` measures with: a producer at a steady rate, a consumer, and the least that any pipeline does, a loop
//! that consumes and produces.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{Message, ToBytes};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::Value;

use super::client::failed;
use crate::error::{Result, corrupt};

/// Partitions of the topics, as in Apache's own benchmark of Spark.
const PARTITIONS: i32 = 5;
/// How long a poll waits.
const WAIT: Duration = Duration::from_millis(20);
/// How long the last records may take.
const FLUSH_MAX: Duration = Duration::from_secs(30);

/// Makes topics, which must not be there yet.
///
/// # Errors
/// If the broker cannot.
pub fn create_topics(servers: &str, names: &[&str]) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> =
        config(servers).create().map_err(|error| failed("cannot reach Kafka", error))?;
    let topics: Vec<_> =
        names.iter().map(|name| NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(1))).collect();
    let made = futures::executor::block_on(admin.create_topics(&topics, &AdminOptions::new()));
    for result in made.map_err(|error| failed("cannot create topics", error))? {
        result.map_err(|(name, code)| corrupt(format!("cannot create topic '{name}': {code}")))?;
    }
    Ok(())
}

/// Sends records at a steady rate until it is told to stop, each a JSON object with its number `id` and the microseconds since 1970
/// when it was due, `sent`. Gives their count, and when the next one was due.
///
/// # Errors
/// If one cannot be sent.
pub fn feed(servers: &str, topic: &str, per_second: u32, is_over: &AtomicBool) -> Result<(u64, i64)> {
    let producer = producer(servers)?;
    let (begin, begin_us) = (Instant::now(), now_us());
    let due_us = |number: u64| begin_us + (number as f64 * 1e6 / f64::from(per_second)) as i64;
    let mut next = 0;
    while !is_over.load(Ordering::Relaxed) {
        let due = (begin.elapsed().as_secs_f64() * f64::from(per_second)) as u64;
        while next < due {
            // The time when it was due: a producer that is late makes the pipeline look no faster.
            let (key, value) = record(next, due_us(next));
            send(&producer, BaseRecord::to(topic).key(&key).payload(&value))
                .map_err(|error| failed("cannot send a measuring record", error))?;
            next += 1;
        }
        producer.poll(Duration::ZERO);
        std::thread::sleep(Duration::from_micros(500));
    }
    producer.flush(FLUSH_MAX).map_err(|error| failed("cannot send the measuring records", error))?;
    Ok((next, due_us(next)))
}

/// Sends records with these numbers as fast as the broker takes them.
///
/// # Errors
/// If one cannot be sent.
pub fn fill(servers: &str, topic: &str, numbers: std::ops::Range<u64>) -> Result<()> {
    let producer = producer(servers)?;
    for number in numbers {
        let (key, value) = record(number, now_us());
        send(&producer, BaseRecord::to(topic).key(&key).payload(&value))
            .map_err(|error| failed("cannot send a measuring record", error))?;
    }
    producer.flush(FLUSH_MAX).map_err(|error| failed("cannot send the measuring records", error))
}

fn record(number: u64, sent: i64) -> (String, String) {
    (number.to_string(), format!("{{\"id\":{number},\"sent\":{sent}}}"))
}

/// Reads the records that come to a topic from its begin on. `take` gets each with the microseconds since 1970 at which it came, and says
/// whether it wants more; it also ends when it is told to stop.
///
/// # Errors
/// If the topic cannot be read, or a record is no JSON.
pub fn read(
    servers: &str,
    topic: &str,
    mut take: impl FnMut(&Value, i64) -> bool,
    is_stopped: &AtomicBool,
) -> Result<()> {
    let consumer = consumer(servers, topic)?;
    while !is_stopped.load(Ordering::Relaxed) {
        let Some(message) = consumer.poll(WAIT) else { continue };
        let message = message.map_err(|error| failed("cannot read the measured topic", error))?;
        let now = now_us();
        let value: Option<Value> = message.payload().and_then(|value| serde_json::from_slice(value).ok());
        let Some(value) = value else {
            return Err(corrupt("a record of the measured topic is no JSON"));
        };
        if !take(&value, now) {
            break;
        }
    }
    Ok(())
}

/// Copies records from a topic to another one until it is told to stop, with the settings that the sink has.
///
/// # Errors
/// If one cannot be copied.
pub fn bare_loop(servers: &str, from: &str, to: &str, is_stopped: &AtomicBool) -> Result<()> {
    let consumer = consumer(servers, from)?;
    let producer: BaseProducer = config(servers)
        .set("linger.ms", "1")
        .set("sticky.partitioning.linger.ms", "1")
        .set("max.in.flight.requests.per.connection", "1")
        .set("enable.idempotence", "true")
        .create()
        .map_err(|error| failed("cannot make the producer of the bare loop", error))?;
    while !is_stopped.load(Ordering::Relaxed) {
        if let Some(message) = consumer.poll(WAIT) {
            let message = message.map_err(|error| failed("the bare loop cannot read", error))?;
            let value = message.payload().unwrap_or_default();
            // Without a key, as the query's rows are: both spread records alike.
            let record: BaseRecord<'_, (), [u8]> = BaseRecord::to(to).payload(value);
            send(&producer, record).map_err(|error| failed("the bare loop cannot send", error))?;
        }
        producer.poll(Duration::ZERO);
    }
    producer.flush(FLUSH_MAX).map_err(|error| failed("the bare loop cannot send", error))
}

fn config(servers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", servers)
        .set("group.id", "yeoul-bench")
        .set("enable.auto.commit", "false");
    config.set("fetch.queue.backoff.ms", "1");
    config
}

fn consumer(servers: &str, topic: &str) -> Result<BaseConsumer> {
    let consumer: BaseConsumer =
        config(servers).create().map_err(|error| failed("cannot make the measuring consumer", error))?;
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        let added = list.add_partition_offset(topic, partition, Offset::Beginning);
        added.map_err(|error| failed("cannot name a partition", error))?;
    }
    consumer.assign(&list).map_err(|error| failed("cannot read from the partitions", error))?;
    Ok(consumer)
}

/// Sends a record, and waits if too many are on their way: a broker that stands still for a while ends nothing.
fn send<K: ToBytes + ?Sized, P: ToBytes + ?Sized>(
    producer: &BaseProducer,
    mut record: BaseRecord<'_, K, P>,
) -> KafkaResult<()> {
    loop {
        match producer.send(record) {
            Err((error, back)) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull) => {
                producer.poll(WAIT);
                record = back;
            }
            sent => return sent.map_err(|(error, _)| error),
        }
    }
}

fn producer(servers: &str) -> Result<BaseProducer> {
    let producer = config(servers).set("linger.ms", "1").create();
    producer.map_err(|error| failed("cannot make the measuring producer", error))
}

/// The microseconds since 1970.
pub fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
