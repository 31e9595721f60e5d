//! Goal: rows come out batch by batch as Spark's micro-batches give them. Method: random batches, in all modes, with restarts from
//! a checkpoint between them, beside a model that keeps all groups in a map and follows the rules one by one.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::{Array, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema};
use yeoul_simulation::Random;

use super::*;
use crate::plan::{OutputMode, Script, StreamDefinition, plan};
use crate::state::StoredVersion;

const STREAM: &str = "CREATE STREAM t (k STRING, v BIGINT, f DOUBLE, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '20 ms') \
                      WITH ('connector' = 'x'); CREATE SINK out WITH ('connector' = 'x');";

fn query(select: &str) -> Query {
    query_of(STREAM, select)
}

fn query_of(stream: &str, select: &str) -> Query {
    let script = Script::parse(&format!("{stream} INSERT INTO out {select}")).unwrap();
    let schema_of = |stream: &StreamDefinition| {
        let field = |c: &crate::plan::StreamColumn| Field::new(&c.name, c.data_type.clone(), true);
        Ok(Arc::new(Schema::new(stream.columns.iter().map(field).collect::<Vec<_>>())))
    };
    plan(&script, schema_of).unwrap().remove(0)
}

fn manifest((watermark_ms, late_watermark_ms): (i64, i64)) -> Manifest {
    Manifest { watermark_ms, late_watermark_ms, ..Manifest::blank() }
}

fn table(query: &Query) -> MemoryTable {
    MemoryTable::new(Operators::layout(query).unwrap().unwrap(), MemoryShare::default()).unwrap()
}

fn operators(query: &Query, watermarks: (i64, i64), table: MemoryTable) -> Operators {
    let mut operators = Operators::new(query, &manifest(watermarks), Some(Box::new(table))).unwrap();
    operators.set_gathering(true);
    operators
}

#[derive(Debug, Clone)]
struct Row {
    key: Option<String>,
    value: Option<i64>,
    time_ms: Option<i64>,
}

fn batch(rows: &[Row]) -> RecordBatch {
    let times =
        TimestampMicrosecondArray::from_iter(rows.iter().map(|row| row.time_ms.map(|ms| ms * 1000 + 999)));
    RecordBatch::try_from_iter_with_nullable(vec![
        ("k", Arc::new(StringArray::from_iter(rows.iter().map(|row| row.key.clone()))) as ArrayRef, true),
        ("v", Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.value))) as _, true),
        (
            "f",
            Arc::new(Float64Array::from_iter(rows.iter().map(|row| row.value.map(|v| v as f64 / 4.0)))) as _,
            true,
        ),
        ("ts", Arc::new(times.with_timezone("+00:00")) as _, true),
    ])
    .unwrap()
}

/// Window's end, key, and then count of rows, count and sum and least and greatest and mean of values.
type Group = ((i64, Option<String>), (i64, i64, Option<i64>, Option<i64>, Option<i64>, Option<f64>));

fn groups(out: &[RecordBatch]) -> Vec<Group> {
    let mut found = Vec::new();
    for rows in out {
        let end = rows.column(0).as_primitive::<TimestampMicrosecondType>();
        let key = rows.column(1).as_string::<i32>();
        let int = |column: usize, row| {
            let column = rows.column(column).as_primitive::<Int64Type>();
            column.is_valid(row).then(|| column.value(row))
        };
        let mean = rows.column(7).as_primitive::<Float64Type>();
        for row in 0..rows.num_rows() {
            let id = (end.value(row) / 1000, key.is_valid(row).then(|| key.value(row).to_owned()));
            let mean = mean.is_valid(row).then(|| mean.value(row));
            let count = |column| int(column, row).unwrap();
            found.push((id, (count(2), count(3), int(4, row), int(5, row), int(6, row), mean)));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// Spark's rules, row by row.
struct Model {
    mode: OutputMode,
    size_ms: i64,
    slide_ms: i64,
    groups: BTreeMap<(i64, Option<String>), Vec<Option<i64>>>,
    greatest_ms: Option<i64>,
    current_ms: i64,
    late_ms: i64,
}

impl Model {
    fn batch(&mut self, rows: &[Row]) -> Vec<Group> {
        let mut changed = BTreeSet::new();
        for row in rows {
            self.greatest_ms = self.greatest_ms.max(Some(row.time_ms.unwrap_or(0)));
            let Some(time) = row.time_ms else { continue };
            for start in (-500..2000).map(|n| n * self.slide_ms) {
                let end = start + self.size_ms;
                let is_late = end <= self.late_ms && self.mode != OutputMode::Complete;
                if start <= time && time < end && !is_late {
                    let id = (end, row.key.clone());
                    self.groups.entry(id.clone()).or_default().push(row.value);
                    changed.insert(id);
                }
            }
        }
        let evict = self.current_ms;
        let over: Vec<_> = self.groups.keys().filter(|(end, _)| *end <= evict).cloned().collect();
        let out: Vec<_> = match self.mode {
            OutputMode::Append => over.clone(),
            OutputMode::Update => changed.into_iter().collect(),
            OutputMode::Complete => self.groups.keys().cloned().collect(),
        };
        let out = out.into_iter().map(|id| (id.clone(), summary(&self.groups[&id]))).collect();
        if self.mode != OutputMode::Complete {
            over.iter().for_each(|id| drop(self.groups.remove(id)));
        }
        self.late_ms = self.current_ms;
        self.current_ms = self.greatest_ms.map_or(0, |greatest| greatest - 20).max(self.current_ms);
        out
    }
}

fn summary(values: &[Option<i64>]) -> (i64, i64, Option<i64>, Option<i64>, Option<i64>, Option<f64>) {
    let there: Vec<i64> = values.iter().flatten().copied().collect();
    let sum = (!there.is_empty()).then(|| there.iter().sum::<i64>());
    let mean = sum.map(|sum| sum as f64 / 4.0 / there.len() as f64);
    let count = there.len() as i64;
    (values.len() as i64, count, sum, there.iter().min().copied(), there.iter().max().copied(), mean)
}

fn random_rows(random: &mut Random, now_ms: i64) -> Vec<Row> {
    let count = if random.once_in(4) { 0 } else { random.below(20) };
    (0..count)
        .map(|_| Row {
            key: (!random.once_in(10)).then(|| format!("key {}", random.below(4))),
            value: (!random.once_in(6)).then(|| random.below(1000) as i64 - 500),
            time_ms: (!random.once_in(15)).then(|| now_ms + random.below(60) as i64 - 45),
        })
        .collect()
}

#[test]
fn windows_come_out_batch_by_batch_as_spark_gives_them() {
    let windows =
        [("TUMBLE", "INTERVAL '10 ms'", 10, 10), ("HOP", "INTERVAL '5 ms', INTERVAL '15 ms'", 15, 5)];
    let modes = [
        ("EMIT ON WINDOW CLOSE", OutputMode::Append),
        ("EMIT UPDATES", OutputMode::Update),
        ("EMIT COMPLETE", OutputMode::Complete),
    ];
    let (mut late, mut removed, mut restarts) = (0, 0, 0);
    for seed in 0..60_u64 {
        let mut random = Random::new(seed);
        let (function, intervals, size_ms, slide_ms) = windows[seed as usize % 2];
        let (emit, mode) = modes[seed as usize / 2 % 3];
        let query = query(&format!(
            "SELECT window_end, k, count(*) AS n, count(v) AS c, sum(v) AS s, min(v) AS least, max(v) AS most, avg(f) AS mean \
             FROM {function}(TABLE t, DESCRIPTOR(ts), {intervals}) GROUP BY window_end, k {emit}"
        ));
        let mut ours = operators(&query, (0, 0), table(&query));
        let groups_of_model = BTreeMap::new();
        let mut model = Model {
            mode,
            size_ms,
            slide_ms,
            groups: groups_of_model,
            greatest_ms: None,
            current_ms: 0,
            late_ms: 0,
        };
        let mut versions: Vec<StoredVersion> = Vec::new();
        for step in 0..60 {
            let rows = random_rows(&mut random, step * 7);
            let mut out = Vec::new();
            // In parts, as polls bring them.
            for part in rows.chunks(1 + random.below(8)) {
                out.extend(ours.push(batch(part)).unwrap());
            }
            assert!(out.is_empty(), "a gathered batch gives rows at its end");
            out.extend(ours.end_batch().unwrap());
            assert_eq!(groups(&out), model.batch(&rows), "seed {seed}, step {step}");
            assert_eq!(ours.watermarks_ms(), (model.current_ms, model.late_ms));
            let (usage, counts) = ours.take_usage().unwrap();
            assert_eq!(usage.keys, model.groups.len() as u64);
            late += counts.late;
            removed += counts.removed;
            if let Some(version) = ours.version().unwrap() {
                let rows = version.rows.map(Result::unwrap).collect();
                versions.push(StoredVersion {
                    kind: version.kind,
                    evicted_until: version.evicted_until,
                    rows,
                });
            }
            if random.once_in(10) {
                let mut table = table(&query);
                for version in &versions {
                    let (kind, evicted_until) = (version.kind, version.evicted_until);
                    table.restore(StoredVersion { kind, evicted_until, rows: version.rows.clone() }).unwrap();
                }
                ours = operators(&query, ours.watermarks_ms(), table);
                // The greatest time is not in a checkpoint.
                model.greatest_ms = None;
                restarts += 1;
            }
        }
    }
    assert!(
        late > 100 && removed > 1000 && restarts > 100,
        "{late} late, {removed} removed, {restarts} restarts"
    );
}

#[test]
fn updates_come_at_once_if_nothing_is_gathered() {
    let query = query("SELECT k, sum(v) AS s FROM t WHERE v > 0 GROUP BY k HAVING sum(v) > 3 EMIT UPDATES");
    let mut ours = operators(&query, (0, 0), table(&query));
    ours.set_gathering(false);
    let row = |key: &str, value| Row { key: Some(key.into()), value: Some(value), time_ms: Some(1) };
    let sums = |out: Vec<RecordBatch>| -> Vec<(String, i64)> {
        let Some(rows) = out.first() else { return Vec::new() };
        let (keys, sums) = (rows.column(0).as_string::<i32>(), rows.column(1).as_primitive::<Int64Type>());
        (0..rows.num_rows()).map(|row| (keys.value(row).to_owned(), sums.value(row))).collect()
    };
    let mut push = |rows: &[Row]| sums(ours.push(batch(rows)).unwrap());
    assert_eq!(push(&[row("a", 5), row("b", 2), row("a", -9)]), [("a".to_owned(), 5)]);
    assert_eq!(push(&[row("b", 2)]), [("b".to_owned(), 4)]);
    assert_eq!(push(&[row("b", -2)]), []);
}

/// One wrong time makes no row late, whether it comes with the others or alone, and its own row is counted, too.
#[test]
fn a_row_beyond_the_future_limit_is_counted_and_makes_no_other_late() {
    const DAY_MS: i64 = 24 * 3600 * 1000;
    let select = "SELECT window_end, count(*) AS n FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10 ms') \
                  GROUP BY window_end EMIT UPDATES";
    let counted = |stream: &str| {
        let query = query_of(stream, select);
        let mut ours = operators(&query, (0, 0), table(&query));
        let mut counts = BTreeMap::new();
        for batch_number in 0..20 {
            let now_ms = DAY_MS + batch_number * 10;
            ours.set_now_ms(now_ms);
            let row = |time_ms| Row { key: None, value: None, time_ms: Some(time_ms) };
            let live: Vec<Row> = (0..3).map(|at| row(now_ms + at)).collect();
            let wrong = row(2 * DAY_MS);
            match batch_number {
                4 => drop(ours.push(batch(&[live, vec![wrong]].concat())).unwrap()),
                9 => {
                    ours.push(batch(&[wrong])).unwrap();
                    ours.push(batch(&live)).unwrap();
                }
                _ => drop(ours.push(batch(&live)).unwrap()),
            }
            for rows in ours.end_batch().unwrap() {
                let ends = rows.column(0).as_primitive::<TimestampMicrosecondType>();
                let found = rows.column(1).as_primitive::<Int64Type>();
                counts.extend((0..rows.num_rows()).map(|row| (ends.value(row), found.value(row))));
            }
        }
        (counts.values().sum::<i64>(), ours.take_usage().unwrap().1.late, ours.watermarks_ms().0)
    };
    let limited =
        STREAM.replace("'connector' = 'x')", "'connector' = 'x', 'watermark.future-limit' = '1 hour')");
    let limited = limited.replacen(
        "SINK out WITH ('connector' = 'x', 'watermark.future-limit' = '1 hour')",
        "SINK out WITH ('connector' = 'x')",
        1,
    );
    assert_eq!(counted(&limited), (62, 0, DAY_MS + 190 + 2 - 20));
    assert!(counted(STREAM).1 > 0, "without the limit they are late");
}

#[test]
fn a_sum_that_does_not_fit_is_an_error_and_one_that_comes_back_is_not() {
    let query = query("SELECT k, sum(v) AS s FROM t GROUP BY k EMIT UPDATES");
    let row = |value| Row { key: None, value: Some(value), time_ms: None };
    let mut ours = operators(&query, (0, 0), table(&query));
    ours.push(batch(&[row(i64::MAX), row(i64::MAX), row(-i64::MAX), row(-7)])).unwrap();
    let out = ours.end_batch().unwrap();
    assert_eq!(out[0].column(1).as_primitive::<Int64Type>().value(0), i64::MAX - 7);
    ours.push(batch(&[row(8)])).unwrap();
    let error = ours.end_batch().unwrap_err();
    assert!(format!("{error:?}").contains("a sum does not fit 64 bits"), "{error:?}");
}

#[test]
fn planned_batches_without_rows_give_the_group_of_all_rows_and_in_complete_mode_all_groups() {
    let row = |value| Row { key: Some("a".into()), value: Some(value), time_ms: None };
    for emit in ["EMIT UPDATES", "EMIT COMPLETE"] {
        let query = query(&format!("SELECT count(*) AS n, sum(v) AS s FROM t {emit}"));
        let mut ours = operators(&query, (0, 0), table(&query));
        let given = |out: &[RecordBatch]| {
            let int = |rows: &RecordBatch, column: usize| {
                let column = rows.column(column).as_primitive::<Int64Type>();
                column.is_valid(0).then(|| column.value(0))
            };
            out.iter().map(|rows| (int(rows, 0), int(rows, 1))).collect::<Vec<_>>()
        };
        assert_eq!(given(&ours.end_batch().unwrap()), [(Some(0), None)], "{emit}: there never was a row");
        ours.push(batch(&[row(3), row(4)])).unwrap();
        assert_eq!(given(&ours.end_batch().unwrap()), [(Some(2), Some(7))]);
        assert_eq!(given(&ours.end_batch().unwrap()), [(Some(2), Some(7))], "{emit}: nothing changed");
        // Batches of a query that never waits are no batches of Spark's: it would repeat itself all the time.
        ours.set_gathering(false);
        assert_eq!(given(&ours.end_batch().unwrap()), []);
    }
    let query = query("SELECT k, count(*) AS n FROM t GROUP BY k EMIT COMPLETE");
    let mut ours = operators(&query, (0, 0), table(&query));
    assert!(ours.end_batch().unwrap().is_empty(), "there is no group");
    ours.push(batch(&[row(1)])).unwrap();
    for _ in 0..2 {
        assert_eq!(ours.end_batch().unwrap()[0].num_rows(), 1);
    }
}

/// Text of the values of one row, column by column.
fn texts(rows: &RecordBatch) -> Vec<String> {
    let text = |column: &ArrayRef| arrow::util::display::array_value_to_string(column, 0).unwrap();
    rows.columns().iter().map(text).collect()
}

#[test]
fn first_last_and_collections_go_by_the_order_of_rows_and_through_a_checkpoint() {
    let query = query(
        "SELECT first(v) AS a, last(v) AS b, first(v) IGNORE NULLS AS c, last(k) IGNORE NULLS AS d, collect_list(v) AS e, \
         collect_set(k) AS f, array_agg(k) AS g, count(*) FILTER (WHERE v > 1) AS h, collect_list(v) FILTER (WHERE k = 'x') AS i \
         FROM t EMIT UPDATES",
    );
    let row = |key: Option<&str>, value| Row { key: key.map(str::to_owned), value, time_ms: None };
    let mut ours = operators(&query, (0, 0), table(&query));
    ours.push(batch(&[row(Some("x"), None), row(Some("y"), Some(2))])).unwrap();
    let first = ours.end_batch().unwrap();
    assert_eq!(texts(&first[0]), ["", "2", "2", "y", "[2]", "[x, y]", "[x, y]", "1", "[]"]);
    let version = ours.version().unwrap().unwrap();
    let rows = version.rows.map(Result::unwrap).collect();
    let mut table = table(&query);
    let stored = StoredVersion { kind: version.kind, evicted_until: version.evicted_until, rows };
    table.restore(stored).unwrap();
    let mut ours = operators(&query, ours.watermarks_ms(), table);
    ours.push(batch(&[row(None, Some(1)), row(Some("x"), Some(3)), row(None, None)])).unwrap();
    let second = ours.end_batch().unwrap();
    assert_eq!(texts(&second[0]), ["", "", "2", "x", "[2, 1, 3]", "[x, y]", "[x, y, x]", "2", "[3]"]);
}

#[test]
fn an_aggregation_without_keys_has_one_group() {
    let query =
        query("SELECT count(*) AS n, stddev(f) AS d, approx_count_distinct(k) AS keys FROM t EMIT UPDATES");
    let mut ours = operators(&query, (0, 0), table(&query));
    let row = |key: &str, value| Row { key: Some(key.into()), value: Some(value), time_ms: None };
    ours.push(batch(&[row("a", 4), row("b", 8)])).unwrap();
    ours.end_batch().unwrap();
    ours.push(batch(&[row("a", 12)])).unwrap();
    let out = ours.end_batch().unwrap();
    assert_eq!((out.len(), out[0].num_rows()), (1, 1));
    assert_eq!(out[0].column(0).as_primitive::<Int64Type>().value(0), 3);
    assert_eq!(out[0].column(1).as_primitive::<Float64Type>().value(0), 1.0);
    assert_eq!(out[0].column(2).data_type(), &DataType::UInt64);
}

#[test]
fn a_number_that_does_not_fit_its_type_is_an_error_and_not_another_number() {
    let pushed = |select: &str, value: i64| {
        let query = query(&format!("SELECT {select} AS x FROM t"));
        let mut ours = Operators::new(&query, &manifest((0, 0)), None).unwrap();
        let rows = ours.push(batch(&[Row { key: None, value: Some(value), time_ms: None }]))?;
        Ok::<_, crate::error::Error>(rows[0].clone())
    };
    for (select, value, fits) in [
        ("-v", i64::MIN, i64::MIN + 1),
        ("1 + -v", i64::MIN, -5),
        ("abs(v)", i64::MIN, i64::MIN + 1),
        ("v - 1", i64::MIN, i64::MIN + 1),
        ("v + v", i64::MAX, 1),
        ("v * -1", i64::MIN, i64::MAX),
        ("v / -1", i64::MIN, i64::MAX),
        ("gcd(v, 0)", i64::MIN, 4),
        ("lcm(v, 3)", i64::MAX, 4),
        ("CAST(v AS INT)", 1 << 31, 7),
        ("-CAST(v AS INT)", -1 << 31, -7),
        ("-CAST(v AS SMALLINT)", -1 << 15, -7),
        ("-CAST(v AS TINYINT)", -1 << 7, -7),
        ("abs(CAST(v AS TINYINT))", -1 << 7, -7),
    ] {
        let error = pushed(select, value).map(|rows| format!("{select}: {:?}", rows.column(0))).unwrap_err();
        assert_eq!(error.kind(), crate::error::ErrorKind::Invalid, "{select}: {error}");
        assert_eq!(pushed(select, fits).unwrap().num_rows(), 1, "{select}");
    }
    assert_eq!(pushed("-v", 7).unwrap().column(0).as_primitive::<Int64Type>().value(0), -7);
    assert_eq!(pushed("-f", 8).unwrap().column(0).as_primitive::<Float64Type>().value(0), -2.0);
}
