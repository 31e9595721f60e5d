//! Goal: a record whose row an expression fails on, or whose row is too large for a record, ends no query that has a place for it: all
//! other rows are counted once, and the record is found with its place. Method: queries that run over a topic of librdkafka's own cluster,
//! with dead letters, without, and passing over; brokers that refuse records by an error.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use crate::dataflow::start;
use crate::error::Result;
use crate::state::MemoryShare;

const PATIENCE: Duration = Duration::from_secs(60);
/// Rows of the topic; each fifth fails.
const ROWS: usize = 100;

struct Topics(MockCluster<'static, DefaultProducerContext>);

impl Topics {
    fn new() -> Self {
        Self::with("n/a")
    }

    /// Rows of which each fifth has this text.
    fn with(fifth: &str) -> Self {
        let mock = MockCluster::new(1).unwrap();
        for topic in ["in", "dead", "out"] {
            mock.create_topic(topic, 1, 1).unwrap();
        }
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", mock.bootstrap_servers());
        let producer: BaseProducer<DefaultProducerContext> =
            config.create_with_context(DefaultProducerContext).unwrap();
        for row in 0..ROWS {
            let value = match row % 5 {
                3 => format!("{{\"x\":\"{fifth}\",\"n\":{row}}}"),
                _ => format!("{{\"x\":\"{}\",\"n\":{row}}}", row % 3),
            };
            let record: BaseRecord<'_, (), str> = BaseRecord::to("in").partition(0).payload(&value);
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        producer.flush(PATIENCE).unwrap();
        Self(mock)
    }

    fn run(&self, folder: &Path, more: &str, select: &str) -> Result<()> {
        let sink =
            format!("'connector' = 'filesystem', 'path' = '{}/out', 'format' = 'json'", folder.display());
        self.run_into(&sink, folder, more, select)
    }

    fn run_into(&self, sink: &str, folder: &Path, more: &str, select: &str) -> Result<()> {
        let servers = self.0.bootstrap_servers();
        let job = format!(
            "CREATE STREAM s (x STRING, n BIGINT) WITH ('connector' = 'kafka', 'kafka.bootstrap.servers' = '{servers}', \
               'subscribe' = 'in', 'startingOffsets' = 'earliest', 'format' = 'json' {more}); \
             CREATE SINK out WITH ({sink}); \
             SET trigger = 'available now'; INSERT INTO out {select}"
        );
        let query = crate::parse_job(&job)?.remove(0);
        start(query, &folder.join("checkpoint"), MemoryShare::default(), |_| {})?.wait()
    }

    /// Values of a topic, so many.
    fn values(&self, topic: &str, count: usize) -> Vec<serde_json::Value> {
        let (mut values, deadline, consumer) = (Vec::new(), Instant::now() + PATIENCE, self.consumer(topic));
        while values.len() < count {
            assert!(Instant::now() < deadline, "{} of {count} records came", values.len());
            let Some(record) = consumer.poll(Duration::from_millis(100)) else { continue };
            values.push(serde_json::from_slice(record.unwrap().payload().unwrap()).unwrap());
        }
        values
    }

    fn consumer(&self, topic: &str) -> BaseConsumer {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.0.bootstrap_servers()).set("group.id", "reader");
        let consumer: BaseConsumer = config.create().unwrap();
        let mut places = TopicPartitionList::new();
        places.add_partition_offset(topic, 0, Offset::Beginning).unwrap();
        consumer.assign(&places).unwrap();
        consumer
    }

    /// Offsets of dead letters, with this reason for all.
    fn dead(&self, count: usize, reason: &str) -> BTreeSet<usize> {
        let consumer = self.consumer("dead");
        let (mut offsets, mut seen, deadline) = (BTreeSet::new(), 0, Instant::now() + PATIENCE);
        while seen < count {
            assert!(Instant::now() < deadline, "{seen} of {count} dead letters came");
            let Some(record) = consumer.poll(Duration::from_millis(100)) else { continue };
            let record = record.unwrap();
            let header = |name: &str| {
                let found = record.headers().unwrap().iter().find(|header| header.key == name).unwrap();
                String::from_utf8(found.value.unwrap().to_vec()).unwrap()
            };
            assert!(header("yeoul.reason").contains(reason), "{}", header("yeoul.reason"));
            assert_eq!((header("yeoul.topic"), header("yeoul.partition")), ("in".into(), "0".into()));
            let value: serde_json::Value = serde_json::from_slice(record.payload().unwrap()).unwrap();
            let offset = header("yeoul.offset").parse().unwrap();
            assert_eq!(value["n"], offset);
            offsets.insert(offset);
            seen += 1;
        }
        offsets
    }
}

/// Sum of a column of all rows that were written.
fn sum(folder: &Path, column: &str) -> i64 {
    let files = std::fs::read_dir(folder.join("out")).unwrap();
    let texts = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    let of_line =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()[column].as_i64().unwrap();
    texts.map(|text| text.lines().map(of_line).sum::<i64>()).sum()
}

#[test]
fn rows_that_fail_go_where_the_stream_says_and_all_others_count() {
    let letters = ", 'dead-letter.topic' = 'dead'";
    let skip = ", 'failing-rows' = 'skip'";
    // A column, a filter, an argument of an aggregation, and a key.
    for (select, column) in [
        ("SELECT CAST(x AS INT) AS v, 1 AS c FROM s", "c"),
        ("SELECT 1 AS c FROM s WHERE CAST(x AS INT) >= 0", "c"),
        ("SELECT count(CAST(x AS INT)) AS c FROM s EMIT COMPLETE", "c"),
        ("SELECT CAST(x AS INT) AS v, count(*) AS c FROM s GROUP BY CAST(x AS INT) EMIT UPDATES", "c"),
        ("SELECT DISTINCT ON (CAST(x AS INT), n) 1 AS c FROM s", "c"),
    ] {
        let topics = Topics::new();
        let place = tempfile::tempdir().unwrap();
        topics.run(place.path(), letters, select).unwrap();
        assert_eq!(sum(place.path(), column), 80, "{select}");
        let expected: BTreeSet<usize> = (0..ROWS).filter(|row| row % 5 == 3).collect();
        assert_eq!(topics.dead(20, "n/a"), expected, "{select}");

        let place = tempfile::tempdir().unwrap();
        topics.run(place.path(), skip, select).unwrap();
        assert_eq!(sum(place.path(), column), 80, "{select}, passed over");

        let strict = [", 'failing-rows' = 'fail', 'dead-letter.topic' = 'dead'", ""];
        for more in strict {
            let place = tempfile::tempdir().unwrap();
            let error = topics.run(place.path(), more, select).unwrap_err();
            assert!(error.to_string().contains("(topic in, partition 0, offset 3)"), "{select}: {error}");
        }
    }
}

#[test]
fn rows_that_are_too_large_for_a_record_go_where_the_stream_says() {
    let large = "a".repeat(1000);
    let select = "SELECT x, n FROM s";
    let topics = Topics::with(&large);
    let servers = topics.0.bootstrap_servers();
    let sink = |topic: &str, more: &str| {
        format!("'connector' = 'kafka', 'kafka.bootstrap.servers' = '{servers}', 'topic' = '{topic}' {more}")
    };
    let json = sink("out", ", 'format' = 'json', 'kafka.message.max.bytes' = '1000'");
    let letters = ", 'dead-letter.topic' = 'dead'";
    let fails: BTreeSet<usize> = (0..ROWS).filter(|row| row % 5 == 3).collect();
    let place = tempfile::tempdir().unwrap();
    topics.run_into(&json, place.path(), letters, select).unwrap();
    assert_eq!(topics.dead(20, "is too large"), fails);
    let place = tempfile::tempdir().unwrap();
    topics.run_into(&json, place.path(), ", 'failing-rows' = 'skip'", select).unwrap();
    let numbers = topics.values("out", 160).iter().map(|value| value["n"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(numbers, 2 * (0..100).filter(|row| row % 5 != 3).sum::<u64>(), "two runs with all others");

    for (more, select, sink, reason) in [
        ("", select, json.clone(), "is too large: 10"),
        (", 'failing-rows' = 'fail', 'dead-letter.topic' = 'dead'", select, json, "is too large: 10"),
        // A raw record that has its topic in a row.
        (
            "",
            "SELECT x AS value, CASE WHEN n < 3 THEN 'out' END AS topic FROM s",
            format!("'connector' = 'kafka', 'kafka.bootstrap.servers' = '{servers}'"),
            "a row has no topic",
        ),
    ] {
        let place = tempfile::tempdir().unwrap();
        let error = topics.run_into(&sink, place.path(), more, select).unwrap_err();
        let text = format!("{error:?}");
        assert!(text.contains("cannot be written (topic in, partition 0, offset 3)"), "{text}");
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn a_record_that_brokers_refuse_for_its_size_is_named() {
    let topics = Topics::with(&"a".repeat(1000));
    let place = tempfile::tempdir().unwrap();
    let errors = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE; 20];
    topics.0.request_errors(RDKafkaApiKey::Produce, &errors);
    let sink = format!(
        "'connector' = 'kafka', 'kafka.bootstrap.servers' = '{}', 'topic' = 'out', 'format' = 'json', 'key.fields' = 'n'",
        topics.0.bootstrap_servers()
    );
    let select = "SELECT x, n FROM s WHERE n BETWEEN 12 AND 13";
    let error = topics.run_into(&sink, place.path(), "", select).unwrap_err();
    let text = format!("{error} {}", error.hint().unwrap_or_default());
    let expected = "a record for the topic 'out' with the key '13' and a value of 1015 bytes ('{\"x\":\"aaa";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("could not be delivered") && text.contains("'max.message.bytes'"), "{text}");
}

#[test]
fn a_place_for_failing_rows_is_needed_before_they_go_there() {
    let job = |more: &str| {
        let text = format!(
            "CREATE STREAM s (x STRING) WITH ('connector' = 'kafka', 'kafka.bootstrap.servers' = 'h:1', 'subscribe' = 'in', \
             'format' = 'json' {more}); CREATE SINK out WITH ('connector' = 'noop'); INSERT INTO out SELECT x FROM s"
        );
        crate::parse_job(&text).map(drop).unwrap_err().to_string()
    };
    let text = job(", 'failing-rows' = 'dead-letter'");
    assert!(text.ends_with("'failing-rows' = 'dead-letter' needs 'dead-letter.topic'"), "{text}");
    let text = job(", 'failing-rows' = 'null'");
    assert!(text.ends_with("'failing-rows' is 'null', expected fail, dead-letter or skip"), "{text}");
}
