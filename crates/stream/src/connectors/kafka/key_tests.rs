//! Goal: who reads the updates of a query knows the last one of each group: all of a group are in one partition, in their order, with
//! a key that says which group it is. Method: queries over rows in memory, a sink to librdkafka's own cluster, and a consumer of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::BatchId;
use crate::connectors::SinkConnector;
use crate::operators::Operators;
use crate::state::MemoryShare;

const PARTITIONS: i32 = 4;
const PATIENCE: Duration = Duration::from_secs(60);

/// A record as its reader sees it.
#[derive(Debug)]
struct Seen {
    partition: i32,
    key: Option<String>,
    value: serde_json::Value,
}

fn job(servers: &str, more: &str, select: &str) -> String {
    format!(
        "CREATE STREAM s (k STRING, n BIGINT, ts TIMESTAMP) WITH ('connector' = 'kafka', 'kafka.bootstrap.servers' = 'h:1', \
           'subscribe' = 't', 'format' = 'json'); \
         CREATE SINK out WITH ('connector' = 'kafka', 'kafka.bootstrap.servers' = '{servers}', 'topic' = 'out' {more}); \
         INSERT INTO out {select}"
    )
}

/// Rows of a batch: groups that come again and again, one of them null.
fn rows(batch: i64) -> RecordBatch {
    let texts = (0..40).map(|row| (row % 8 != 0).then(|| format!("k{}", row % 8)));
    let keys: ArrayRef = Arc::new(StringArray::from_iter(texts));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..40).map(|row| row % 3 + batch * 1000)));
    let times = TimestampMicrosecondArray::from_iter_values((0..40).map(|row| row % 4 * 60_000_000));
    let times: ArrayRef = Arc::new(times.with_timezone("+00:00"));
    RecordBatch::try_from_iter([("k", keys), ("n", numbers), ("ts", times)]).unwrap()
}

/// What a consumer sees of a query's updates over five batches.
fn seen(more: &str, select: &str) -> Vec<Seen> {
    let mock: MockCluster<'_, DefaultProducerContext> = MockCluster::new(1).unwrap();
    mock.create_topic("out", PARTITIONS, 1).unwrap();
    let query = crate::parse_job(&job(&mock.bootstrap_servers(), more, select)).unwrap().remove(0);
    let mut sink = SinkConnector::of(&query).unwrap().open(None, BatchId::FIRST, BatchId::FIRST).unwrap();
    let mut operators = Operators::of_new_query(&query, &MemoryShare::default()).unwrap();
    let mut written = 0;
    for batch in 0..5 {
        let mut write = |rows: RecordBatch| {
            written += rows.num_rows();
            sink.write(&rows)
        };
        operators.push_from(0, &rows(batch), &mut write).unwrap();
        operators.end_batch_into(&mut write).unwrap();
    }
    sink.barrier(BatchId::FIRST).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while sink.acknowledged().unwrap() != Some(BatchId::FIRST) {
        assert!(Instant::now() < deadline, "brokers take nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
    read(&mock.bootstrap_servers(), written)
}

fn read(servers: &str, count: usize) -> Vec<Seen> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers).set("group.id", "reader");
    let consumer: BaseConsumer = config.create().unwrap();
    let mut places = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        places.add_partition_offset("out", partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&places).unwrap();
    let (mut seen, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    while seen.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} records came", seen.len());
        let Some(record) = consumer.poll(Duration::from_millis(100)) else { continue };
        let record = record.unwrap();
        seen.push(Seen {
            partition: record.partition(),
            key: record.key().map(|key| String::from_utf8(key.to_vec()).unwrap()),
            value: serde_json::from_slice(record.payload().unwrap()).unwrap(),
        });
    }
    seen
}

/// Partitions of each key, and the last count of it in the order of its partition.
fn last_counts(seen: &[Seen]) -> BTreeMap<Option<String>, (BTreeSet<i32>, i64)> {
    let mut last = BTreeMap::<_, (BTreeSet<i32>, i64)>::new();
    for record in seen {
        let (partitions, count) = last.entry(record.key.clone()).or_default();
        partitions.insert(record.partition);
        *count = record.value["c"].as_i64().unwrap();
    }
    last
}

#[test]
fn a_reader_knows_the_last_update_of_each_group() {
    let json = ", 'format' = 'json'";
    for (more, select, key, groups) in [
        (json, "SELECT count(*) AS c, k FROM s GROUP BY k EMIT UPDATES", Some("k3"), 8),
        (json, "SELECT count(*) AS c, n % 1000 AS m FROM s GROUP BY n % 1000 EMIT UPDATES", Some("2"), 3),
        (json, "SELECT count(*) AS c, ts FROM s GROUP BY ts EMIT UPDATES", Some("1970-01-01T00:03:00Z"), 4),
        (
            json,
            "SELECT k, n % 1000 AS m, count(*) AS c FROM s GROUP BY k, n % 1000 EMIT UPDATES",
            Some(r#"{"k":"k3","m":2}"#),
            24,
        ),
        (
            json,
            "SELECT k, count(*) AS c, window_start FROM TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE) \
             GROUP BY window_start, window_end, k EMIT UPDATES",
            Some(r#"{"k":"k5","window_start":"1970-01-01T00:01:00Z"}"#),
            8,
        ),
        // The same groups in another order have the same keys.
        (
            json,
            "SELECT n % 1000 AS m, count(*) AS c, k FROM s GROUP BY n % 1000, k EMIT UPDATES",
            Some(r#"{"k":"k3","m":2}"#),
            24,
        ),
        (json, "SELECT count(*) AS c FROM s EMIT UPDATES", Some("{}"), 1),
        (json, "SELECT k, count(*) AS c FROM s GROUP BY k EMIT COMPLETE", Some("k3"), 8),
        (
            ", 'format' = 'json', 'key.fields' = 'm; k'",
            "SELECT k, n % 1000 AS m, count(*) AS c FROM s GROUP BY k, n % 1000 EMIT UPDATES",
            Some(r#"{"m":2,"k":"k3"}"#),
            24,
        ),
        (
            ", 'format' = 'json', 'key.fields' = 'name'",
            "SELECT 'of ' || CAST(n % 1000 AS STRING) AS name, count(*) AS c FROM s GROUP BY n % 1000 EMIT UPDATES",
            Some("of 1"),
            3,
        ),
        (
            "",
            "SELECT k AS `key`, '{\"c\":' || CAST(count(*) AS STRING) || '}' AS value FROM s GROUP BY k EMIT UPDATES",
            Some("k3"),
            8,
        ),
    ] {
        let seen = seen(more, select);
        let last = last_counts(&seen);
        assert_eq!(last.len(), groups, "{select}: {last:?}");
        assert!(last.contains_key(&key.map(str::to_owned)), "{select}: no {key:?} in {last:?}");
        assert!(last.values().all(|(partitions, _)| partitions.len() == 1), "{select}: {last:?}");
        let total: i64 = last.values().map(|(_, count)| count).sum();
        assert_eq!(total, 200, "{select}: the last updates are not those of all rows: {last:?}");
        assert!(seen.len() > groups, "{select}: nothing was updated");
    }
}

#[test]
fn keys_that_scatter_the_updates_of_a_group_are_refused() {
    let refusal = |more: &str, select: &str| {
        let error = crate::parse_job(&job("h:1", more, select)).map(drop).unwrap_err();
        format!("{error}; {}", error.hint().unwrap_or_default())
    };
    let json = ", 'format' = 'json'";
    let text = refusal(json, "SELECT count(*) AS c FROM s GROUP BY k EMIT UPDATES");
    assert!(text.contains("does not give what tells them apart: k; add it"), "{text}");
    let by_count = ", 'format' = 'json', 'key.fields' = 'k;c'";
    let text = refusal(by_count, "SELECT k, count(*) AS c FROM s GROUP BY k EMIT UPDATES");
    assert!(text.contains("'key.fields' names 'c', which may be another one in each update"), "{text}");
    let text = refusal("", "SELECT CAST(count(*) AS STRING) AS value FROM s GROUP BY k EMIT UPDATES");
    assert!(text.contains("no column 'key' keeps a group in one partition"), "{text}");
    let by_value = "SELECT CAST(max(n) AS STRING) AS `key`, k AS value FROM s GROUP BY k EMIT UPDATES";
    let text = refusal("", by_value);
    assert!(text.contains("no column 'key' keeps a group in one partition"), "{text}");
    for (more, expected) in [
        (", 'format' = 'json', 'key.fields' = 'nobody'", "there is no column 'nobody' for the key"),
        (
            ", 'format' = 'json', 'key.fields' = 'k;k'",
            "expected columns with semicolons between them, each once",
        ),
    ] {
        let text = refusal(more, "SELECT k, n FROM s");
        assert!(text.contains(expected), "{text}");
    }
    // Rows that stand for themselves need no key.
    crate::parse_job(&job("h:1", json, "SELECT n FROM s")).unwrap();
}
