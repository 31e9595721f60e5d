//! What `yeoul bench stream` measures with: a producer at a steady rate, a consumer that knows how old records are, and the
//! least that any pipeline does, a loop that consumes and produces.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
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

/// Sends records at a steady rate for so long, each a JSON object with its number `id` and the microseconds since 1970 when it was
/// due, `sent`. Gives their count.
///
/// # Errors
/// If one cannot be sent.
pub fn feed(servers: &str, topic: &str, per_second: u32, time: Duration) -> Result<u64> {
    let producer: BaseProducer = config(servers)
        .set("linger.ms", "1")
        .create()
        .map_err(|error| failed("cannot make the measuring producer", error))?;
    let (begin, begin_us) = (Instant::now(), now_us());
    let total = (time.as_secs_f64() * f64::from(per_second)) as u64;
    let mut next = 0;
    while next < total {
        let due = ((begin.elapsed().as_secs_f64() * f64::from(per_second)) as u64).min(total);
        while next < due {
            // The time when it was due: a producer that is late makes the pipeline look no faster.
            let sent = begin_us + (next as f64 * 1e6 / f64::from(per_second)) as i64;
            let (key, value) = (next.to_string(), format!("{{\"id\":{next},\"sent\":{sent}}}"));
            let sent = producer.send(BaseRecord::to(topic).key(&key).payload(&value));
            sent.map_err(|(error, _)| failed("cannot send a measuring record", error))?;
            next += 1;
        }
        producer.poll(Duration::ZERO);
        std::thread::sleep(Duration::from_micros(500));
    }
    producer.flush(FLUSH_MAX).map_err(|error| failed("cannot send the measuring records", error))?;
    Ok(total)
}

/// Ages in milliseconds of the records that come to a topic, until `is_last` says of one that it is the last, or it is told to stop.
///
/// # Errors
/// If the topic cannot be read.
pub fn ages_ms(
    servers: &str,
    topic: &str,
    mut is_last: impl FnMut(&Value) -> bool,
    is_stopped: &AtomicBool,
) -> Result<Vec<f64>> {
    let consumer = consumer(servers, topic)?;
    let (mut ages, mut is_done) = (Vec::new(), false);
    while !is_done && !is_stopped.load(Ordering::Relaxed) {
        let Some(message) = consumer.poll(WAIT) else { continue };
        let message = message.map_err(|error| failed("cannot read the measured topic", error))?;
        let now = now_us();
        let value: Option<Value> = message.payload().and_then(|value| serde_json::from_slice(value).ok());
        let sent = value.as_ref().and_then(|value| value.get("sent")).and_then(Value::as_i64);
        let (Some(value), Some(sent)) = (value, sent) else {
            return Err(corrupt("a record of the measured topic has no time"));
        };
        ages.push((now - sent) as f64 / 1000.0);
        is_done = is_last(&value);
    }
    Ok(ages)
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
            producer.send(record).map_err(|(error, _)| failed("the bare loop cannot send", error))?;
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

fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
