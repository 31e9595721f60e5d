//! Goal: a source follows topics that appear and vanish, plans have the partitions that they were made with, and its report says
//! how much is left. Method: librdkafka's own cluster in memory, which forgets a topic by an error; marks of other records stand for a
//! topic that was made again.

use std::time::Instant;

use arrow::array::AsArray;
use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};
use rdkafka::types::RDKafkaRespErr;
use serde_json::json;

use super::*;
use crate::plan::OptionMap;

/// Time that something may take to happen.
const PATIENCE: Duration = Duration::from_secs(60);

struct Cluster {
    mock: MockCluster<'static, DefaultProducerContext>,
    producer: BaseProducer<DefaultProducerContext>,
}

impl Cluster {
    fn new() -> Self {
        Self::of(1)
    }

    fn of(brokers: i32) -> Self {
        let mock = MockCluster::new(brokers).unwrap();
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", mock.bootstrap_servers());
        let producer = config.create_with_context(DefaultProducerContext).unwrap();
        Self { mock, producer }
    }

    fn create(&self, topic: &str, partitions: i32) {
        self.mock.create_topic(topic, partitions, 1).unwrap();
    }

    fn send(&self, topic: &str, partition: i32, values: &[&str]) {
        for value in values {
            let record: BaseRecord<'_, (), str> = BaseRecord::to(topic).partition(partition).payload(value);
            self.producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        self.producer.flush(PATIENCE).unwrap();
    }

    fn options(&self, more: &[(&str, &str)]) -> KafkaSourceOptions {
        let servers = self.mock.bootstrap_servers();
        let own = [
            ("kafka.bootstrap.servers", servers.as_str()),
            ("kafka.topic.metadata.refresh.interval.ms", "100"),
            ("scan.topic-partition-discovery.interval", "100 ms"),
            ("startingOffsets", "earliest"),
        ];
        let all = own.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        KafkaSourceOptions::take(&mut OptionMap::new("s", all).unwrap()).unwrap()
    }
}

fn opened(options: &KafkaSourceOptions) -> KafkaSource {
    KafkaSource::at(options.clone(), &KafkaSource::initial_offsets(options).unwrap(), None).unwrap()
}

/// Takes values until something holds of them and the source. Gives them sorted.
fn read(source: &mut KafkaSource, is_enough: impl Fn(&[String], &KafkaSource, bool) -> bool) -> Vec<String> {
    let (mut values, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    loop {
        let polled = source.poll(Duration::from_millis(10)).unwrap();
        if let Some(rows) = polled.rows {
            let column = rows.column_by_name("value").unwrap();
            let texts =
                column.as_binary::<i32>().iter().flatten().map(|v| String::from_utf8(v.to_vec()).unwrap());
            values.extend(texts);
        }
        if is_enough(&values, source, polled.is_at_end) {
            values.sort_unstable();
            return values;
        }
        assert!(Instant::now() < deadline, "{values:?} at {}", source.position());
    }
}

/// Waits until the watch has told of a topic.
fn sees(source: &KafkaSource, topic: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !source.watch.as_ref().unwrap().latest().keys().any(|place| place.topic == topic) {
        assert!(Instant::now() < deadline, "no topic {topic}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_topic_that_matches_later_is_read_from_its_begin_and_not_in_the_plan_of_before() {
    let cluster = Cluster::new();
    cluster.create("orders-a", 2);
    cluster.create("other", 1);
    cluster.send("orders-a", 0, &["a1"]);
    cluster.send("orders-a", 1, &["a2"]);
    cluster.send("other", 0, &["no"]);
    let mut source = opened(&cluster.options(&[("subscribePattern", "^orders-")]));
    assert_eq!(source.position(), json!({"orders-a": {"0": 0, "1": 0}}));
    assert_eq!(source.plan(None).unwrap(), 2);
    cluster.create("orders-b", 1);
    cluster.send("orders-b", 0, &["b1", "b2"]);
    sees(&source, "orders-b");
    let values = read(&mut source, |_, _, is_at_end| is_at_end);
    assert_eq!(values, ["a1", "a2"]);
    assert_eq!(source.position(), json!({"orders-a": {"0": 1, "1": 1}}), "its epoch has no other partition");
    assert_eq!(source.plan(None).unwrap(), 2, "the next plan has the new one");
    assert_eq!(read(&mut source, |_, _, is_at_end| is_at_end), ["b1", "b2"]);
    source.lift_plan().unwrap();
    cluster.create("orders-c", 1);
    cluster.send("orders-c", 0, &["c1"]);
    cluster.send("orders-a", 0, &["a3"]);
    assert_eq!(read(&mut source, |values, _, _| values.len() >= 2), ["a3", "c1"]);
    let position = json!({"orders-a": {"0": 2, "1": 1}, "orders-b": {"0": 2}, "orders-c": {"0": 1}});
    assert_eq!(source.position(), position);
    // The same after a restart, in whose absence one more came.
    cluster.create("orders-d", 1);
    cluster.send("orders-d", 0, &["d1"]);
    let mut source =
        KafkaSource::at(cluster.options(&[("subscribePattern", "^orders-")]), &position, None).unwrap();
    assert_eq!(read(&mut source, |values, _, _| !values.is_empty()), ["d1"]);
}

#[test]
fn a_pattern_may_match_nothing_at_first() {
    let cluster = Cluster::new();
    cluster.create("other", 1);
    let mut source = opened(&cluster.options(&[("subscribePattern", "^orders-")]));
    assert_eq!((source.position(), source.plan(None).unwrap()), (json!({}), 0));
    source.lift_plan().unwrap();
    cluster.create("orders-a", 1);
    cluster.send("orders-a", 0, &["a1"]);
    assert_eq!(read(&mut source, |values, _, _| !values.is_empty()), ["a1"]);
}

#[test]
fn a_partition_that_vanished_ends_the_query_or_is_left_with_a_warning() {
    let cluster = Cluster::new();
    for topic in ["orders-a", "orders-b"] {
        cluster.create(topic, 1);
        cluster.send(topic, 0, &["1", "2"]);
    }
    let pattern = ("subscribePattern", "^orders-");
    let mut strict = opened(&cluster.options(&[pattern]));
    let mut lenient = opened(&cluster.options(&[pattern, ("failOnDataLoss", "false")]));
    read(&mut strict, |values, _, _| values.len() >= 4);
    // It is to end although a part of it is gone.
    lenient.plan(None).unwrap();
    cluster.mock.topic_error("orders-b", RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let error = loop {
        match strict.poll(Duration::from_millis(10)) {
            Err(error) => break error,
            Ok(_) => assert!(Instant::now() < deadline),
        }
    };
    assert_eq!(error.kind(), ErrorKind::DataLoss);
    assert!(error.to_string().ends_with("orders-b-0 is gone"), "{error}");
    read(&mut lenient, |_, _, is_at_end| is_at_end);
    lenient.lift_plan().unwrap();
    read(&mut lenient, |_, source, _| source.position().get("orders-b").is_none());
    let warnings = lenient.take_warnings();
    assert_eq!(warnings, ["records that the query has not read may be lost: orders-b-0 is gone"]);
    assert_eq!(lenient.take_warnings(), [""; 0]);
    // A restart knows it as well.
    let offset = json!({"orders-a": {"0": 2}, "orders-b": {"0": 1}});
    let opened = KafkaSource::at(cluster.options(&[pattern]), &offset, None);
    assert_eq!(opened.err().unwrap().kind(), ErrorKind::DataLoss);
    let mut lenient =
        KafkaSource::at(cluster.options(&[pattern, ("failOnDataLoss", "false")]), &offset, None).unwrap();
    assert_eq!((lenient.position(), lenient.take_warnings()), (json!({"orders-a": {"0": 2}}), warnings));
}

#[test]
fn a_report_says_how_much_is_left() {
    let cluster = Cluster::new();
    cluster.create("orders", 2);
    cluster.send("orders", 0, &["1", "2", "3"]);
    let mut source = opened(&cluster.options(&[("subscribe", "orders")]));
    let report = source.report();
    assert_eq!(report.latest_offset, json!({"orders": {"0": 3, "1": 0}}), "before anything is read");
    assert_eq!(report.metrics["avgOffsetsBehindLatest"], "1.5");
    assert_eq!(source.plan(Some(1)).unwrap(), 1);
    assert_eq!(read(&mut source, |_, _, is_at_end| is_at_end), ["1"]);
    assert_eq!(source.report().metrics["maxOffsetsBehindLatest"], "2");
    // The watch asks by itself; no poll does.
    cluster.send("orders", 1, &["4"]);
    let deadline = Instant::now() + PATIENCE;
    while source.report().latest_offset != json!({"orders": {"0": 3, "1": 1}}) {
        assert!(Instant::now() < deadline, "{:?}", source.report());
        std::thread::sleep(Duration::from_millis(10));
    }
    source.lift_plan().unwrap();
    read(&mut source, |values, _, _| values.len() >= 3);
    assert_eq!(source.report().metrics["maxOffsetsBehindLatest"], "0");
}

#[test]
fn a_source_rings_also_after_its_watch_has_begun() {
    let cluster = Cluster::new();
    cluster.create("orders", 1);
    let mut source = opened(&cluster.options(&[("subscribe", "orders")]));
    let bell = Bell::default();
    assert!(source.ring(&bell));
    assert!(source.poll(Duration::from_millis(10)).unwrap().rows.is_none());
    bell.wait(Duration::ZERO);
    cluster.send("orders", 0, &["1"]);
    let begun = Instant::now();
    while source.poll(Duration::ZERO).unwrap().rows.is_none() {
        bell.wait(PATIENCE);
        assert!(begun.elapsed() < PATIENCE);
    }
}

#[test]
fn many_plans_come_to_their_ends_also_after_some_that_are_lifted_at_once() {
    const RECORDS: usize = 1200;
    const PARTITIONS: i32 = 4;
    let cluster = Cluster::new();
    cluster.create("orders", PARTITIONS);
    for partition in 0..PARTITIONS {
        cluster.send("orders", partition, &["v"; RECORDS]);
    }
    let mut source = opened(&cluster.options(&[("subscribe", "orders")]));
    let mut rows = 0;
    while source.plan(Some(12)).unwrap() > 0 {
        source.lift_plan().unwrap();
        source.plan(Some(12)).unwrap();
        rows += read(&mut source, |_, _, is_at_end| is_at_end).len();
    }
    assert_eq!(rows, RECORDS * usize::try_from(PARTITIONS).unwrap());
}

#[test]
fn offsets_are_asked_for_again_when_the_leader_has_a_new_epoch() {
    let cluster = Cluster::new();
    cluster.create("t", 1);
    cluster.send("t", 0, &["a", "b"]);
    let place = TopicPartition { topic: "t".to_owned(), partition: 0 };
    // It looks for leaders each five minutes.
    let servers = cluster.mock.bootstrap_servers();
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers);
    let asker: BaseConsumer<Heard> = config.create_with_context(Heard::default()).unwrap();
    for _ in 0..5 {
        let latest = latest_offsets(&asker, [&place].into_iter()).unwrap();
        assert_eq!(latest, BTreeMap::from([(place.clone(), 2)]));
        // Each time that a leader is chosen its epoch is one more, also if it is the same one.
        cluster.mock.partition_leader("t", 0, Some(1)).unwrap();
    }
}

/// Opens a source on a cluster where the one before is to have been read to an offset with these marks.
fn reopened(
    cluster: &Cluster,
    position: &Value,
    marks: Option<&Value>,
    more: &[(&str, &str)],
) -> Result<KafkaSource> {
    KafkaSource::at(cluster.options(&[&[("subscribe", "t")], more].concat()), position, marks)
}

#[test]
fn a_topic_that_was_made_again_is_not_read_from_the_middle() {
    let old = Cluster::new();
    old.create("t", 2);
    let values: Vec<String> = (0..6).map(|n| format!("old {n}")).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    old.send("t", 0, &values[..4]);
    old.send("t", 1, &values[4..]);
    let mut source = opened(&old.options(&[("subscribe", "t")]));
    assert_eq!(read(&mut source, |values, _, _| values.len() == 6).len(), 6);
    let (position, marks) = (source.position(), source.marks());
    assert!(marks.is_some());
    // The same topic goes on, also a second time without new records.
    let same = reopened(&old, &position, marks.as_ref(), &[]).unwrap();
    assert_eq!(same.marks(), marks);
    drop(same);
    old.send("t", 0, &["new"]);
    let mut same = reopened(&old, &position, marks.as_ref(), &[]).unwrap();
    assert_eq!(read(&mut same, |values, _, _| !values.is_empty()), ["new"]);

    // Another one with more records, and one with fewer.
    let lenient = [("failOnDataLoss", "false")];
    for (counts, what) in [([7, 3], "more"), ([1, 1], "fewer")] {
        let made_again = Cluster::new();
        made_again.create("t", 2);
        for (partition, count) in (0..).zip(counts) {
            made_again.send("t", partition, &vec![what; count]);
        }
        let error = reopened(&made_again, &position, marks.as_ref(), &[]).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataLoss, "{error}");
        assert!(error.to_string().contains("its topic was deleted and made again"), "{error}");
        let mut all = reopened(&made_again, &position, marks.as_ref(), &lenient).unwrap();
        assert_eq!(all.take_warnings().len(), 2, "{what}");
        let count = counts.iter().sum::<usize>();
        assert_eq!(read(&mut all, |values, _, _| values.len() == count), vec![what; count]);
        // A checkpoint of an older version has no marks.
        if what == "more" {
            assert!(reopened(&made_again, &position, None, &[]).is_ok());
        }
    }
}

#[test]
fn a_topic_that_is_made_again_while_it_is_read_is_noticed_also_by_the_next_process() {
    let cluster = Cluster::new();
    cluster.create("t", 2);
    for partition in 0..2 {
        cluster.send("t", partition, &["1", "2", "3"]);
    }
    for is_strict in [true, false] {
        let lenient = ("failOnDataLoss", if is_strict { "true" } else { "false" });
        let mut source = opened(&cluster.options(&[("subscribe", "t"), lenient]));
        assert_eq!(read(&mut source, |values, _, _| values.len() == 6).len(), 6);
        // As if what was read first had been another record: those after it are the new topic's.
        let place = TopicPartition { topic: "t".to_owned(), partition: 1 };
        source.marks.checked.0.get_mut(&place).unwrap().crc32c ^= 1;
        let (position, marks) = (source.position(), source.marks());
        if !is_strict {
            let again = read(&mut source, |values, _, _| values.len() == 3);
            assert_eq!(again, ["1", "2", "3"], "from its begin");
            let warnings = source.take_warnings();
            assert_eq!(warnings.len(), 1);
            assert!(warnings[0].contains("t-1 has other records than those that were read up to offset 3"));
            assert_eq!(source.position(), json!({"t": {"0": 3, "1": 3}}));
            continue;
        }
        let deadline = Instant::now() + PATIENCE;
        let error = loop {
            match source.poll(Duration::from_millis(10)) {
                Err(error) => break error,
                Ok(_) => assert!(Instant::now() < deadline, "nothing was noticed"),
            }
        };
        assert_eq!(error.kind(), ErrorKind::DataLoss);
        assert!(error.to_string().ends_with("its topic was deleted and made again"), "{error}");
        // A checkpoint that was taken before it was noticed does not hide it.
        let reopened = reopened(&cluster, &position, marks.as_ref(), &[]).map(drop);
        assert_eq!(reopened.unwrap_err().kind(), ErrorKind::DataLoss);
    }
}

#[test]
fn topics_that_stay_are_checked_again_and_again() {
    let cluster = Cluster::new();
    cluster.create("t", 1);
    cluster.send("t", 0, &["1", "2"]);
    let mut source = opened(&cluster.options(&[("subscribe", "t")]));
    read(&mut source, |values, _, _| values.len() == 2);
    let first = source.marks.checked.clone();
    assert_ne!(first, source.marks.last);
    read(&mut source, |_, source, _| source.marks.checked == source.marks.last);
    cluster.send("t", 0, &["3"]);
    read(&mut source, |_, source, _| source.position() == json!({"t": {"0": 3}}));
    read(&mut source, |_, source, _| source.marks.checked == source.marks.last);
    assert_eq!(source.take_warnings(), [""; 0]);
}

/// Rows of a partition without a leader may be older than all that the others give: an answer without its end would let the watermark
/// pass them.
#[test]
fn a_question_for_ends_has_no_answer_while_a_partition_has_no_leader() {
    let cluster = Cluster::of(2);
    cluster.create("t", 2);
    cluster.mock.partition_leader("t", 0, Some(1)).unwrap();
    cluster.mock.partition_leader("t", 1, Some(2)).unwrap();
    cluster.send("t", 0, &["a"]);
    cluster.send("t", 1, &["b"]);
    let mut source = opened(&cluster.options(&[("subscribe", "t")]));
    let answer = |source: &mut KafkaSource| {
        let deadline = Instant::now() + PATIENCE;
        while source.reached_ends() == ReachedEnds::Unanswered {
            assert!(Instant::now() < deadline, "no answer");
            std::thread::sleep(Duration::from_millis(10));
        }
        source.reached_ends()
    };
    assert_eq!(read(&mut source, |values, _, _| values.len() == 2), ["a", "b"]);
    source.ask_ends().unwrap();
    assert_eq!(answer(&mut source), ReachedEnds::All);
    cluster.mock.broker_down(2).unwrap();
    source.ask_ends().unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        source.poll(Duration::from_millis(10)).unwrap();
        assert_eq!(source.reached_ends(), ReachedEnds::Unanswered, "after {:?}", begun.elapsed());
    }
    // Another broker leads it, and has a record that nobody has read.
    cluster.mock.partition_leader("t", 1, Some(1)).unwrap();
    cluster.send("t", 1, &["c"]);
    source.ask_ends().unwrap();
    assert_eq!(answer(&mut source), ReachedEnds::Behind);
    assert_eq!(read(&mut source, |values, _, _| values.len() == 1), ["c"]);
    assert_eq!(source.reached_ends(), ReachedEnds::All);
}
