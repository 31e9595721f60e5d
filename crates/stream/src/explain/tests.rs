//! Goal: the outline says what the query does, and how long state is kept. Method: jobs of each kind of step, without a broker.

use super::*;
use crate::parse_job;

const STREAMS: &str = "\
    CREATE STREAM visits (page STRING, id BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '10' SECOND) \
      WITH ('connector' = 'kafka', 'kafka.bootstrap.servers' = 'h:1', 'kafka.sasl.password' = 'secret', 'subscribe' = 'visits', 'format' = 'json');\
    CREATE STREAM clicks (id BIGINT, at TIMESTAMP, WATERMARK FOR at AS at) \
      WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'json');\
    CREATE SINK out WITH ('connector' = 'noop');\
    CREATE SINK counts WITH ('connector' = 'kafka', 'kafka.bootstrap.servers' = 'h:1', 'topic' = 'counts', 'format' = 'json', \
      'delivery-guarantee' = 'exactly-once');";

fn outlined(job: &str) -> QueryOutline {
    outline(&parse_job(&format!("{STREAMS}{job}")).unwrap()[0]).unwrap()
}

/// The steps of a query that keep state, from its sink on.
fn with_state(step: &StepOutline) -> Vec<&StepOutline> {
    let own = (!step.state.is_empty()).then_some(step);
    own.into_iter().chain(step.inputs.iter().flat_map(with_state)).collect()
}

/// Times for which keys of each table are kept.
fn kept(job: &str) -> Vec<String> {
    let query = outlined(job);
    let tables = with_state(&query.sink).into_iter().flat_map(|step| &step.state);
    tables.map(|table| format!("{}: {}", table.table, table.kept)).collect()
}

#[test]
fn a_tree_has_all_steps_from_the_sink_to_the_streams() {
    let query = outlined(
        "SET 'execution.checkpointing.interval' = '100 ms';\
         INSERT INTO counts SELECT window_end, page, count(*) AS n \
         FROM TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '1' MINUTE) WHERE id > 5 GROUP BY window_end, page EMIT UPDATES",
    );
    let expected = "\
query counts
│  output mode: update
│  guarantee: exactly once
│  trigger = real time
│  execution.checkpointing.interval = 100 ms
│  yeoul.stream.tick = 50 ms
│  parallelism.default = 1
│  spark.sql.streaming.minBatchesToRetain = 100
│  spark.sql.streaming.multipleWatermarkPolicy = min
└─ sink counts
";
    let text = tree(&query);
    assert!(text.starts_with(expected), "{text}");
    for line in [
        "delivery-guarantee = exactly-once",
        "group by: window_end, page",
        "gives: each group that changed",
        "state aggregate: kept until the watermark reaches window_end",
        "by window_end TIMESTAMP, page STRING",
        "size: 1 min",
        "delay: 10 s",
        "condition: id > 5",
        "source: kafka subscribe [visits]",
        "columns: page STRING, id BIGINT, ts TIMESTAMP",
        "kafka.sasl.password = (hidden)",
        "by default: scan.topic-partition-discovery.interval = 10 s, startingOffsets = latest, failOnDataLoss = true",
    ] {
        assert!(text.lines().any(|other| other.ends_with(line)), "no '{line}' in\n{text}");
    }
    let order: Vec<usize> =
        ["sink counts", "aggregate\n", "windows\n", "watermark\n", "filter\n", "stream visits"]
            .map(|step| text.find(&format!("─ {step}")).unwrap_or_else(|| panic!("no {step} in\n{text}")))
            .to_vec();
    assert!(order.is_sorted(), "{order:?}\n{text}");
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn state_is_kept_as_long_as_the_operators_keep_it() {
    let window = "FROM TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '1' MINUTE)";
    for (job, expected) in [
        (
            format!("INSERT INTO out SELECT window_start, count(*) AS n {window} GROUP BY window_start"),
            vec!["aggregate: until the watermark reaches window_start + 1 min"],
        ),
        (
            "INSERT INTO out SELECT page, count(*) AS n FROM visits GROUP BY page EMIT UPDATES".to_owned(),
            vec!["aggregate: for ever: no key is a window or event time with a watermark"],
        ),
        (
            format!("INSERT INTO out SELECT window_end, count(*) AS n {window} GROUP BY window_end EMIT COMPLETE"),
            vec!["aggregate: for ever: EMIT COMPLETE gives all groups"],
        ),
        (
            "INSERT INTO out SELECT DISTINCT ON (id) id, page FROM visits".to_owned(),
            vec!["distinct: for ever: no key is event time with a watermark"],
        ),
        (
            "INSERT INTO out SELECT DISTINCT ON (id, ts) id, ts FROM visits".to_owned(),
            vec!["distinct: until the watermark reaches ts"],
        ),
        (
            "INSERT INTO out SELECT DISTINCT WITHIN WATERMARK ON (id) id, ts FROM visits".to_owned(),
            vec!["distinct: until the watermark reaches the time of the first row + 10 s"],
        ),
        (
            "INSERT INTO out SELECT v.id, at FROM visits AS v JOIN clicks AS c \
             ON v.id = c.id AND c.at >= v.ts AND c.at <= v.ts + INTERVAL '1' HOUR"
                .to_owned(),
            vec![
                "join-left: until the watermark passes ts + 1 hour",
                "join-right: until the watermark passes at",
            ],
        ),
        (
            "INSERT INTO out SELECT page, count FROM running_count(TABLE visits PARTITION BY page) EMIT UPDATES"
                .to_owned(),
            vec!["keyed: until the function removes them"],
        ),
    ] {
        assert_eq!(kept(&job), expected, "{job}");
    }
}

#[test]
fn a_join_is_above_both_of_its_inputs() {
    let query = outlined(
        "INSERT INTO out SELECT v.id FROM visits AS v LEFT JOIN clicks AS c ON v.id = c.id AND c.at >= v.ts AND c.at <= v.ts + INTERVAL '1' HOUR",
    );
    let found = with_state(&query.sink);
    let [join] = found.as_slice() else { panic!("{query:?}") };
    assert_eq!((join.operator, join.inputs.len()), ("join", 2));
    assert_eq!(join.details.get("kind"), Some("LEFT OUTER"));
    assert_eq!(join.details.get("equal"), Some("left id = right id"));
    let text = tree(&query);
    assert!(
        text.contains("├─") && text.contains("stream visits") && text.contains("stream clicks"),
        "{text}"
    );
}

#[test]
fn a_table_at_rest_is_named_where_it_is_joined() {
    let query = outlined(
        "CREATE TABLE pages (page STRING, rank INT) WITH ('connector' = 'filesystem', 'path' = '/p', 'format' = 'parquet');\
         INSERT INTO out SELECT id, rank FROM visits LEFT JOIN pages ON visits.page = pages.page",
    );
    let text = tree(&query);
    for line in
        ["join with a table pages", "kind: LEFT OUTER", "equal: stream page = table page", "path = /p"]
    {
        assert!(text.lines().any(|other| other.ends_with(line)), "no '{line}' in\n{text}");
    }
}

#[test]
fn the_outline_is_json_with_sparks_names_of_modes() {
    let query = outlined("INSERT INTO out SELECT id * 2 AS twice FROM visits");
    let json = serde_json::to_value(&query).unwrap();
    assert_eq!(json["outputMode"], "append");
    assert_eq!(json["settings"]["trigger"], "real time");
    assert_eq!(
        (&json["sink"]["operator"], &json["sink"]["options"]["connector"]),
        (&"sink".into(), &"noop".into())
    );
    let project = &json["sink"]["inputs"][0];
    assert_eq!(project["operator"], "project");
    assert!(project["details"]["columns"].as_str().unwrap().ends_with(" AS twice"), "{project}");
}

#[test]
fn an_exchange_is_told_of_where_several_threads_have_the_state() {
    let exchanges = |job: &str| {
        let query = outlined(job);
        let steps = with_state(&query.sink).into_iter();
        steps.map(|step| step.details.get("exchange").map(ToOwned::to_owned)).collect::<Vec<_>>()
    };
    let job = "INSERT INTO out SELECT page, count(*) AS n FROM visits GROUP BY page EMIT UPDATES";
    assert_eq!(exchanges(job), [None]);
    assert_eq!(exchanges(&format!("SET parallelism = 3; {job}")), [Some("by key, to 3 shards".to_owned())]);
    assert_eq!(
        exchanges("SET parallelism = 3; INSERT INTO out SELECT count(*) AS n FROM visits EMIT UPDATES"),
        [Some("to one shard: there is no key by which to divide".to_owned())]
    );
}
