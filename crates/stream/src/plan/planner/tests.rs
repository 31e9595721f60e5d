//! Goal: what streams can do becomes a pipeline, and everything else is refused by its name.

use arrow::datatypes::TimeUnit;

use super::super::{
    AggregatePlan, DeduplicatePlan, JoinKind, JoinPlan, KeptKeys, RangeBound, ScanPlan, StateBound,
    WatermarkClock, WatermarkPlan, WindowKey,
};
use super::*;

const STREAMS: &str = "CREATE STREAM t (id BIGINT, name STRING, price DOUBLE, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector' = 'x');\
    CREATE STREAM u (id BIGINT, name STRING, price DOUBLE, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND) WITH ('connector' = 'x');\
    CREATE STREAM plain (id BIGINT, ts TIMESTAMP) WITH ('connector' = 'x'); CREATE SINK out WITH ('connector' = 'x');";

fn planned(query: &str) -> Result<Query> {
    planned_script(&format!("{STREAMS} INSERT INTO out {query}"))
}

fn planned_script(text: &str) -> Result<Query> {
    let script = Script::parse(text)?;
    let schema_of = |stream: &StreamDefinition| -> Result<SchemaRef> {
        let field = |c: &super::super::StreamColumn| Field::new(&c.name, c.data_type.clone(), c.is_nullable);
        Ok(Arc::new(Schema::new(stream.columns.iter().map(field).collect::<Vec<_>>())))
    };
    Ok(plan(&script, schema_of)?.remove(0))
}

fn names(schema: &Schema) -> Vec<&str> {
    schema.fields().iter().map(|field| field.name().as_str()).collect()
}

/// The only step that satisfies this.
fn step<'a, T>(root: &'a PlanNode, wanted: &impl Fn(&'a PlanNode) -> Option<T>) -> T {
    fn find<'a, T>(step: &'a PlanNode, wanted: &impl Fn(&'a PlanNode) -> Option<T>, found: &mut Vec<T>) {
        found.extend(wanted(step));
        step.inputs().into_iter().for_each(|input| find(input, wanted, found));
    }
    let mut found = Vec::new();
    find(root, wanted, &mut found);
    assert_eq!(found.len(), 1, "{root:?}");
    found.remove(0)
}

fn scan(query: &Query) -> &ScanPlan {
    step(&query.pipeline.root, &|step| if let PlanNode::Scan(scan) = step { Some(scan) } else { None })
}

fn aggregate(query: &Query) -> &AggregatePlan {
    step(&query.pipeline.root, &|step| {
        if let PlanNode::Aggregate { plan, .. } = step { Some(plan) } else { None }
    })
}

fn join(query: &Query) -> &JoinPlan {
    step(&query.pipeline.root, &|step| if let PlanNode::Join { plan, .. } = step { Some(plan) } else { None })
}

fn deduplicate(query: &Query) -> &DeduplicatePlan {
    step(&query.pipeline.root, &|step| {
        if let PlanNode::Deduplicate { plan, .. } = step { Some(plan) } else { None }
    })
}

#[test]
fn filters_that_do_not_name_the_time_come_before_the_watermark() {
    let query = planned("SELECT name AS who, id + 1 FROM t WHERE id > 3 AND ts > TIMESTAMP '2026-01-01 00:00:00' AND price < 2").unwrap();
    let scan = scan(&query);
    let text = format!("{:?}", scan.before_watermark);
    assert_eq!(scan.before_watermark.len(), 2, "{text}");
    assert!(text.contains("\"id\"") && text.contains("\"price\"") && !text.contains("\"ts\""), "{text}");
    let PlanNode::Calc { stages, .. } = &query.pipeline.root else { panic!("{:?}", query.pipeline.root) };
    assert_eq!(stages.iter().filter(|stage| matches!(stage, Stage::Filter(_))).count(), 1);
    assert_eq!(names(&query.pipeline.schema)[0], "who");
    assert_eq!(
        scan.watermark,
        Some(WatermarkPlan { column: 3, delay_ms: 2000, clock: WatermarkClock::default() })
    );
    assert_eq!((query.name.as_str(), query.output_mode), ("out", OutputMode::Append));
}

#[test]
fn a_windowed_count_is_an_aggregation_that_knows_its_window() {
    let query = planned(
        "SELECT window_start, name, count(*) AS n, sum(price) AS total FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND) \
         WHERE id > 1 GROUP BY window_start, window_end, name HAVING count(*) > 1",
    )
    .unwrap();
    let plan = aggregate(&query);
    // Either key of the window says when it ends.
    assert_eq!(plan.window_key, Some(WindowKey { key: 0, to_end_ms: 10_000 }));
    assert_eq!(
        plan.schema.field(1).data_type(),
        &DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))
    );
    let functions: Vec<_> = plan.calls.iter().map(|call| call.function.name()).collect();
    assert_eq!(functions, ["count(Int64(1))", "sum(t.price)"]);
    let size_ms = step(&query.pipeline.root, &|step| match step {
        PlanNode::Windows { function, .. } => Some(function.size_ms),
        _ => None,
    });
    assert_eq!((size_ms, scan(&query).before_watermark.len()), (10_000, 1));
    let PlanNode::Calc { stages, .. } = &query.pipeline.root else { panic!("{:?}", query.pipeline.root) };
    assert!(stages.iter().any(|stage| matches!(stage, Stage::Filter(_))));
    assert_eq!(names(&query.pipeline.schema), ["window_start", "name", "n", "total"]);
    // The start alone says it as well, through a renaming too.
    let query = planned(
        "SELECT s, avg(id) FROM (SELECT window_start AS s, id FROM HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) \
         GROUP BY s EMIT UPDATES",
    )
    .unwrap();
    assert_eq!(aggregate(&query).window_key, Some(WindowKey { key: 0, to_end_ms: 10_000 }));
    assert_eq!(query.output_mode, OutputMode::Update);
}

#[test]
fn distinct_is_a_deduplication_whose_keys_live_as_long_as_they_have_to() {
    let query = planned("SELECT DISTINCT name, ts FROM t WHERE id > 1").unwrap();
    let plan = deduplicate(&query);
    assert_eq!(plan.kept, KeptKeys::UntilTime(WindowKey { key: 1, to_end_ms: 0 }));
    assert_eq!((plan.keys.len(), plan.time.map(|time| time.column)), (2, Some(1)));
    let query = planned("SELECT DISTINCT ON (id) id + 1 AS next, ts FROM t").unwrap();
    let plan = deduplicate(&query);
    // It drops late rows, and keeps keys for ever.
    assert_eq!((plan.kept, plan.keys.len(), plan.time.is_some()), (KeptKeys::ForEver, 1, true));
    assert_eq!(names(&query.pipeline.schema), ["next", "ts"]);
    // The time does not come to it, as Spark prunes it away.
    assert_eq!(deduplicate(&planned("SELECT DISTINCT ON (id) id, name FROM t").unwrap()).time, None);
    let query = planned("SELECT DISTINCT WITHIN WATERMARK ON (id, name) id, name FROM t").unwrap();
    let plan = deduplicate(&query);
    assert_eq!((plan.kept, plan.keys.len()), (KeptKeys::WithinWatermark, 2));
    assert_eq!(plan.time.map(|time| time.delay_ms), Some(2000));
    // Filters stay where they are.
    let query = planned("SELECT id FROM (SELECT DISTINCT ON (id) id, price FROM t) WHERE price > 3").unwrap();
    assert!(scan(&query).before_watermark.is_empty());
}

#[test]
fn a_join_knows_when_its_rows_have_no_matches_any_more() {
    let on = "SELECT t.id, u.name AS other FROM t JOIN u ON t.id = u.id";
    let query =
        planned(&format!("{on} AND t.ts BETWEEN u.ts - INTERVAL '5' SECOND AND u.ts + INTERVAL '1' MINUTE"))
            .unwrap();
    let plan = join(&query);
    let range =
        |offset_us, holds_at_bound| Some(StateBound::Range(vec![RangeBound { offset_us, holds_at_bound }]));
    assert_eq!(plan.sides[0].bound, range(-5_000_000, true), "t.ts >= u.ts - 5 s");
    assert_eq!(plan.sides[1].bound, range(-60_000_000, true), "u.ts >= t.ts - 60 s");
    assert_eq!((query.further_streams.len(), query.stream.name.as_str()), (1, "t"));
    assert!(plan.filter.is_some() && plan.sides.iter().all(|side| side.own_filter.is_none()));
    assert_eq!(names(&query.pipeline.schema), ["id", "other"]);
    // Strict, and from one side only.
    let query = planned(&format!("{on} AND t.ts + INTERVAL '2' SECOND > u.ts")).unwrap();
    assert_eq!(
        [&join(&query).sides[0].bound, &join(&query).sides[1].bound],
        [&range(-2_000_000, false), &None]
    );
    // Months cannot be solved; a stream without a watermark says nothing.
    for condition in ["t.ts > u.ts - INTERVAL '1' MONTH", "t.price > u.price", "t.ts + (u.ts - t.ts) > u.ts"]
    {
        let query = planned(&format!("{on} AND {condition}")).unwrap();
        assert!(join(&query).sides.iter().all(|side| side.bound.is_none()), "{condition}");
    }
    let query = planned("SELECT t.id FROM t JOIN plain ON t.id = plain.id AND t.ts > plain.ts").unwrap();
    assert!(join(&query).sides.iter().all(|side| side.bound.is_none()));
    // A watermark among the keys bounds both, whatever else holds.
    let query =
        planned("SELECT t.id FROM t JOIN plain ON t.id = plain.id AND t.ts = plain.ts AND t.ts > plain.ts")
            .unwrap();
    let key = Some(StateBound::Key(WindowKey { key: 1, to_end_ms: 0 }));
    assert_eq!([&join(&query).sides[0].bound, &join(&query).sides[1].bound], [&key, &key]);
}

#[test]
fn conditions_on_one_side_of_an_outer_join_stay_on_the_side_that_keeps_its_rows() {
    let query = planned(
        "SELECT t.id, u.id AS other FROM t LEFT JOIN u ON t.id = u.id AND t.price > 3 AND u.price > 4 \
         AND u.ts >= t.ts AND u.ts <= t.ts + INTERVAL '5' SECOND",
    )
    .unwrap();
    let plan = join(&query);
    assert_eq!(plan.kind, JoinKind::Left);
    assert!(plan.sides[0].own_filter.is_some() && plan.sides[1].own_filter.is_none());
    let texts: Vec<String> = [0, 1].map(|side| format!("{:?}", plan.sides[side].bound)).into();
    assert!(texts.iter().all(|text| text.contains("Range")), "{texts:?}");
}

#[test]
fn steps_with_state_follow_each_other_and_views_have_windows() {
    let view = "CREATE VIEW seen AS SELECT DISTINCT WITHIN WATERMARK ON (id) id, name, ts FROM t;";
    let script = format!(
        "{STREAMS} {view} INSERT INTO out SELECT window_end, name, count(*) AS n \
        FROM TUMBLE(TABLE seen, DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY window_end, name"
    );
    let query = planned_script(&script).unwrap();
    assert_eq!(aggregate(&query).window_key, Some(WindowKey { key: 0, to_end_ms: 0 }));
    assert_eq!(deduplicate(&query).kept, KeptKeys::WithinWatermark);
    // A view without windows is what it stands for.
    let query =
        planned_script(&format!("{STREAMS} {view} INSERT INTO out SELECT name FROM seen WHERE id > 3"))
            .unwrap();
    assert_eq!(deduplicate(&query).keys.len(), 1);
    // Groups of groups, by the same window.
    let query = planned(
        "SELECT window_end, max(n) AS most FROM (SELECT window_end, name, count(*) AS n \
         FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY window_end, name) GROUP BY window_end",
    )
    .unwrap();
    assert_eq!(query.pipeline.root.inputs().len(), 1);
    // The windows of one side go through a join.
    let query = planned(
        "SELECT w.window_end, count(*) AS n FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND) AS w JOIN plain ON w.id = plain.id \
         GROUP BY w.window_end",
    )
    .unwrap();
    assert!(aggregate(&query).window_key.is_some());
}

#[test]
fn what_streams_cannot_do_is_refused_by_name() {
    let windowed = "FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)";
    for (query, expected) in [
        ("SELECT nme FROM t".to_owned(), "nme"),
        ("SELECT id FROM nowhere".to_owned(), "nowhere"),
        ("SELECT id FROM t ORDER BY id".to_owned(), "ORDER BY"),
        ("SELECT id FROM t LIMIT 3".to_owned(), "LIMIT"),
        ("SELECT DISTINCT ON (id) id, name FROM t ORDER BY id".to_owned(), "DISTINCT ON with ORDER BY"),
        ("SELECT DISTINCT WITHIN WATERMARK id FROM t".to_owned(), "names its keys"),
        ("SELECT DISTINCT WITHIN WATERMARK ON (id) id FROM plain".to_owned(), "without watermark"),
        ("SELECT DISTINCT id FROM t EMIT COMPLETE".to_owned(), "EMIT COMPLETE without an aggregation"),
        ("SELECT t.id FROM t JOIN plain ON t.id > plain.id".to_owned(), "without an equality"),
        ("SELECT t.id FROM t LEFT JOIN plain ON t.id = plain.id".to_owned(), "without a watermark in the join keys"),
        ("SELECT t.id FROM t LEFT JOIN plain ON t.id = plain.id AND t.ts > plain.ts".to_owned(), "on the nullable side"),
        ("SELECT u.id FROM t RIGHT JOIN u ON t.id = u.id AND t.ts > u.ts".to_owned(), "appropriate range condition"),
        ("SELECT t.id FROM t LEFT SEMI JOIN u ON t.id = u.id".to_owned(), "LEFT SEMI join of two streams is not supported without"),
        ("SELECT t.id FROM t LEFT ANTI JOIN u ON t.id = u.id AND t.ts > u.ts".to_owned(), "LEFT ANTI join"),
        ("SELECT t.id FROM t LEFT JOIN u ON t.id = u.id AND t.ts > u.ts EMIT UPDATES".to_owned(), "not supported with EMIT UPDATES"),
        ("SELECT t.id FROM t JOIN u ON t.id = u.id EMIT COMPLETE".to_owned(), "EMIT COMPLETE without an aggregation"),
        ("SELECT t.id, count(*) FROM t JOIN u ON t.id = u.id GROUP BY t.id EMIT COMPLETE".to_owned(), "INNER join of two streams is not supported with EMIT COMPLETE"),
        ("SELECT DISTINCT ON (t.id) t.id, t.ts, u.ts AS other FROM t JOIN u ON t.id = u.id".to_owned(), "more than one column of event time"),
        ("SELECT n, count(*) FROM (SELECT id, count(*) AS n FROM t GROUP BY id) GROUP BY n EMIT UPDATES".to_owned(), "come out more than once"),
        ("SELECT id, now() FROM t".to_owned(), "the function now is not there yet"),
        ("SELECT id FROM t WHERE id IN (SELECT id FROM plain)".to_owned(), "a query within an expression"),
        ("SELECT id FROM t WHERE false".to_owned(), "no row of a stream"),
        ("SELECT id FROM t EMIT COMPLETE".to_owned(), "EMIT COMPLETE without an aggregation"),
        ("SELECT count(*) FROM t".to_owned(), "no rows that never change again"),
        (format!("SELECT window_end, median(id) {windowed} GROUP BY window_end"), "the aggregate function median"),
        (format!("SELECT window_end, count(DISTINCT id) {windowed} GROUP BY window_end"), "is not there yet"),
        (format!("SELECT window_end, collect_list(id ORDER BY price) {windowed} GROUP BY window_end"), "ORDER BY is not there yet"),
        (format!("SELECT window_end, sum(id) IGNORE NULLS {windowed} GROUP BY window_end"), "NULLS are not permitted for sum"),
        ("SELECT window_end, count(*) FROM TUMBLE(TABLE plain, DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY window_end".to_owned(), "EMIT UPDATES"),
        ("SELECT window_end FROM TUMBLE(TABLE t, DESCRIPTOR(name), INTERVAL '10' SECOND)".to_owned(), "watermark is for 'ts'"),
        ("SELECT row_number() OVER (ORDER BY id) FROM t".to_owned(), "OVER a window"),
        ("SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY id ORDER BY ts) AS n FROM t) WHERE n = 1".to_owned(), "SELECT DISTINCT ON"),
    ] {
        let error = planned(&query).unwrap_err();
        let text = format!("{error} {}", error.hint().unwrap_or_default());
        assert!(text.contains(expected), "{query}\n{text}");
    }
}

#[test]
fn a_state_function_is_a_step_over_the_rows_of_its_keys() {
    let call = "running_count(TABLE t PARTITION BY name, id, time => DESCRIPTOR(ts), timeout => INTERVAL '5' SECOND)";
    let query =
        planned(&format!("SELECT count, name FROM {call} WHERE count > 1 AND name <> 'x' EMIT UPDATES"));
    let query = query.unwrap();
    let plan = step(&query.pipeline.root, &|step| {
        if let PlanNode::Keyed { plan, .. } = step { Some(plan) } else { None }
    });
    assert_eq!(names(&plan.schema), ["name", "id", "count", "last_time"]);
    assert_eq!((plan.keys.len(), plan.time.map(|time| time.column)), (2, Some(3)));
    assert_eq!(names(&query.pipeline.schema), ["count", "name"]);
    // A filter on what comes out does not change what goes in.
    assert!(scan(&query).before_watermark.is_empty());
    let by_clock = planned(
        "SELECT count FROM running_count(TABLE plain PARTITION BY id, timeout => INTERVAL '5' SECOND) EMIT UPDATES",
    );
    assert!(by_clock.is_ok(), "{by_clock:?}");
    let sessions = "sessions(TABLE v PARTITION BY k, time => DESCRIPTOR(ts), gap => INTERVAL '5' SECOND)";
    let view = "CREATE VIEW v AS SELECT id % 7 AS k, ts FROM t;";
    planned_script(&format!("{STREAMS} {view} INSERT INTO out SELECT session_end FROM {sessions}")).unwrap();
}

#[test]
fn state_functions_are_refused_where_spark_refuses_them() {
    let count = "running_count(TABLE t PARTITION BY id)";
    let sessions = "sessions(TABLE t PARTITION BY id, time => DESCRIPTOR(ts), gap => INTERVAL '5' SECOND)";
    for (query, expected) in [
        (format!("SELECT count FROM {count}"), "only supported with EMIT UPDATES"),
        (format!("SELECT count(*) FROM {count} EMIT UPDATES"), "not supported with an aggregation"),
        (format!("SELECT count FROM {sessions} EMIT UPDATES"), "not supported with EMIT UPDATES"),
        (
            format!("SELECT id, count(*) FROM {sessions} GROUP BY id EMIT UPDATES"),
            "after a state function with timeouts by event time",
        ),
        (format!("SELECT DISTINCT id FROM {sessions}"), "after a state function with timeouts by event time"),
        (sessions.replace("TABLE t", "TABLE plain"), "not supported without a watermark"),
        (sessions.replace("ts", "name"), "DESCRIPTOR(name) is Utf8, expected a TIMESTAMP"),
        (sessions.replace("ts", "x"), "DESCRIPTOR(x) names no column"),
        (sessions.replace("BY id", "BY x"), "PARTITION BY x names no column"),
        (sessions.replace("gap", "hole"), "the argument 'gap' is missing"),
        (count.replace("id", "id, size => 3"), "there is no argument 'size'"),
        (count.replace("id", "id, timeout => 3"), "the argument 'timeout' is 3, expected an interval"),
        (count.replace("id", "id, clock => 'event time'"), "the argument 'timeout' is missing"),
        (count.replace("running", "walking"), "there is no state function 'walking_count'"),
        (count.replace("TABLE t", "TABLE nowhere"), "there is no stream 'nowhere'"),
    ] {
        let query =
            if query.starts_with("SELECT") { query } else { format!("SELECT 1 FROM {query} EMIT UPDATES") };
        let error = planned(&query).unwrap_err();
        assert!(error.to_string().contains(expected), "{query}\n{error}");
    }
}
