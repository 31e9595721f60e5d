//! Goal: what streams can do becomes a pipeline, and everything else is refused by its name.

use arrow::datatypes::TimeUnit;

use super::super::WindowKey;
use super::*;

const STREAMS: &str = "CREATE STREAM t (id BIGINT, name STRING, price DOUBLE, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector' = 'x');\
    CREATE STREAM plain (id BIGINT, ts TIMESTAMP) WITH ('connector' = 'x'); CREATE SINK out WITH ('connector' = 'x');";

fn planned(query: &str) -> Result<Query> {
    let script = Script::parse(&format!("{STREAMS} INSERT INTO out {query}"))?;
    let schema_of = |stream: &StreamDefinition| -> Result<SchemaRef> {
        let field = |c: &super::super::StreamColumn| Field::new(&c.name, c.data_type.clone(), c.is_nullable);
        Ok(Arc::new(Schema::new(stream.columns.iter().map(field).collect::<Vec<_>>())))
    };
    Ok(plan(&script, schema_of)?.remove(0))
}

fn names(schema: &Schema) -> Vec<&str> {
    schema.fields().iter().map(|field| field.name().as_str()).collect()
}

#[test]
fn filters_that_do_not_name_the_time_come_before_the_watermark() {
    let query = planned("SELECT name AS who, id + 1 FROM t WHERE id > 3 AND ts > TIMESTAMP '2026-01-01 00:00:00' AND price < 2").unwrap();
    let pipeline = &query.pipeline;
    let text = format!("{:?}", pipeline.before_watermark);
    assert_eq!(pipeline.before_watermark.len(), 2, "{text}");
    assert!(text.contains("\"id\"") && text.contains("\"price\"") && !text.contains("\"ts\""), "{text}");
    assert_eq!(pipeline.stages.iter().filter(|stage| matches!(stage, Stage::Filter(_))).count(), 1);
    assert_eq!(names(&pipeline.schema)[0], "who");
    assert_eq!(pipeline.watermark.as_ref().unwrap().delay_ms, 2000);
    assert_eq!((query.name.as_str(), query.output_mode), ("out", OutputMode::Append));
}

#[test]
fn a_windowed_count_is_an_aggregation_that_knows_its_window() {
    let query = planned(
        "SELECT window_start, name, count(*) AS n, sum(price) AS total FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND) \
         WHERE id > 1 GROUP BY window_start, window_end, name HAVING count(*) > 1",
    )
    .unwrap();
    let aggregate = query.pipeline.aggregate.as_ref().unwrap();
    let window = aggregate.window_key.unwrap();
    assert_eq!(window, WindowKey { key: 1, to_end_ms: 0 });
    assert_eq!(
        aggregate.schema.field(1).data_type(),
        &DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))
    );
    let functions: Vec<_> = aggregate.calls.iter().map(|call| call.function.name()).collect();
    assert_eq!(functions, ["count(Int64(1))", "sum(t.price)"]);
    assert_eq!(query.pipeline.windows.as_ref().unwrap().size_ms, 10_000);
    assert_eq!(query.pipeline.before_watermark.len(), 1);
    assert!(query.pipeline.after_aggregate.iter().any(|stage| matches!(stage, Stage::Filter(_))));
    assert_eq!(names(&query.pipeline.schema), ["window_start", "name", "n", "total"]);
    // The start alone says it as well, through a renaming too.
    let query = planned(
        "SELECT s, avg(id) FROM (SELECT window_start AS s, id FROM HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) \
         GROUP BY s EMIT UPDATES",
    )
    .unwrap();
    assert_eq!(query.pipeline.aggregate.unwrap().window_key, Some(WindowKey { key: 0, to_end_ms: 10_000 }));
    assert_eq!(query.output_mode, OutputMode::Update);
}

#[test]
fn what_streams_cannot_do_is_refused_by_name() {
    let windowed = "FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)";
    for (query, expected) in [
        ("SELECT nme FROM t".to_owned(), "nme"),
        ("SELECT id FROM nowhere".to_owned(), "nowhere"),
        ("SELECT id FROM t ORDER BY id".to_owned(), "ORDER BY"),
        ("SELECT id FROM t LIMIT 3".to_owned(), "LIMIT"),
        ("SELECT DISTINCT id FROM t".to_owned(), "no rows that never change again"),
        ("SELECT t.id FROM t JOIN plain ON t.id = plain.id".to_owned(), "a join is not there yet"),
        ("SELECT id FROM t UNION ALL SELECT id FROM plain".to_owned(), "UNION is not there yet"),
        ("SELECT id, now() FROM t".to_owned(), "the function now is not there yet"),
        ("SELECT id FROM t WHERE id IN (SELECT id FROM plain)".to_owned(), "a query within an expression"),
        ("SELECT id FROM t WHERE false".to_owned(), "no row of a stream"),
        ("SELECT id FROM t EMIT COMPLETE".to_owned(), "EMIT COMPLETE without an aggregation"),
        ("SELECT count(*) FROM t".to_owned(), "no rows that never change again"),
        (format!("SELECT window_end, median(id) {windowed} GROUP BY window_end"), "the aggregate function median"),
        (format!("SELECT window_end, count(DISTINCT id) {windowed} GROUP BY window_end"), "is not there yet"),
        (format!("SELECT name, count(*) {windowed} GROUP BY name EMIT UPDATES"), "has to group by window_start"),
        ("SELECT window_end, count(*) FROM TUMBLE(TABLE plain, DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY window_end".to_owned(), "EMIT UPDATES"),
        ("SELECT window_end FROM TUMBLE(TABLE t, DESCRIPTOR(name), INTERVAL '10' SECOND)".to_owned(), "watermark is for 'ts'"),
        ("SELECT row_number() OVER (ORDER BY id) FROM t".to_owned(), "OVER a window"),
    ] {
        let error = planned(&query).unwrap_err();
        let text = format!("{error} {}", error.hint().unwrap_or_default());
        assert!(text.contains(expected), "{query}\n{text}");
    }
}
