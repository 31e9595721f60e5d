//! Goal: a record whose row an expression fails on ends no query that has a place for it: all other rows are counted once, and the record
//! is found with its place. Method: queries that run over a topic of librdkafka's own cluster, with dead letters, without, and passing over.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::dataflow::start;
use crate::error::Result;
use crate::state::MemoryShare;

const PATIENCE: Duration = Duration::from_secs(60);
/// Rows of the topic; each fifth fails.
const ROWS: usize = 100;

struct Topics(MockCluster<'static, DefaultProducerContext>);

impl Topics {
    fn new() -> Self {
        let mock = MockCluster::new(1).unwrap();
        for topic in ["in", "dead"] {
            mock.create_topic(topic, 1, 1).unwrap();
        }
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", mock.bootstrap_servers());
        let producer: BaseProducer<DefaultProducerContext> =
            config.create_with_context(DefaultProducerContext).unwrap();
        for row in 0..ROWS {
            let value = match row % 5 {
                3 => format!("{{\"x\":\"n/a\",\"n\":{row}}}"),
                _ => format!("{{\"x\":\"{}\",\"n\":{row}}}", row % 3),
            };
            let record: BaseRecord<'_, (), str> = BaseRecord::to("in").partition(0).payload(&value);
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        producer.flush(PATIENCE).unwrap();
        Self(mock)
    }

    fn run(&self, folder: &Path, more: &str, select: &str) -> Result<()> {
        let (servers, place) = (self.0.bootstrap_servers(), folder.display());
        let job = format!(
            "CREATE STREAM s (x STRING, n BIGINT) WITH ('connector' = 'kafka', 'kafka.bootstrap.servers' = '{servers}', \
               'subscribe' = 'in', 'startingOffsets' = 'earliest', 'format' = 'json' {more}); \
             CREATE SINK out WITH ('connector' = 'filesystem', 'path' = '{place}/out', 'format' = 'json'); \
             SET trigger = 'available now'; INSERT INTO out {select}"
        );
        let query = crate::parse_job(&job)?.remove(0);
        start(query, &folder.join("checkpoint"), MemoryShare::default(), |_| {})?.wait()
    }

    /// Offsets of dead letters, with a reason for all.
    fn dead(&self, count: usize) -> BTreeSet<usize> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.0.bootstrap_servers()).set("group.id", "reader");
        let consumer: BaseConsumer = config.create().unwrap();
        let mut places = TopicPartitionList::new();
        places.add_partition_offset("dead", 0, Offset::Beginning).unwrap();
        consumer.assign(&places).unwrap();
        let (mut offsets, mut seen, deadline) = (BTreeSet::new(), 0, Instant::now() + PATIENCE);
        while seen < count {
            assert!(Instant::now() < deadline, "{seen} of {count} dead letters came");
            let Some(record) = consumer.poll(Duration::from_millis(100)) else { continue };
            let record = record.unwrap();
            let header = |name: &str| {
                let found = record.headers().unwrap().iter().find(|header| header.key == name).unwrap();
                String::from_utf8(found.value.unwrap().to_vec()).unwrap()
            };
            assert!(header("yeoul.reason").contains("n/a"), "{}", header("yeoul.reason"));
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
        assert_eq!(topics.dead(20), expected, "{select}");

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
