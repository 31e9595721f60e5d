//! Goal: deduplication and joins give, batch by batch, the rows that Spark's rules give, whatever order rows of a batch come in and
//! whatever restarts there are. Method: random batches beside models that look at every pair of rows, and hand-worked cases of the
//! rules that are easy to get wrong.

use std::collections::BTreeMap;

use arrow::array::{Array, Int64Array, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use yeoul_simulation::Random;

use super::*;
use crate::BatchId;
use crate::plan::{JoinKind, Script, StreamDefinition, plan};
use crate::state::StoredVersion;

const STREAMS: &str = "CREATE STREAM l (k BIGINT, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '20 ms') WITH ('connector' = 'x');\
    CREATE STREAM r (k BIGINT, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '30 ms') WITH ('connector' = 'x');\
    CREATE SINK out WITH ('connector' = 'x');";

/// Key, value and time in microseconds.
type Row = (Option<i64>, i64, Option<i64>);
/// Columns of a row that comes out, all of them numbers.
type Given = Vec<Option<i64>>;

fn query(text: &str) -> Query {
    let script = Script::parse(&format!("{STREAMS} {text}")).unwrap();
    let schema_of = |stream: &StreamDefinition| {
        let field = |c: &crate::plan::StreamColumn| Field::new(&c.name, c.data_type.clone(), true);
        Ok(Arc::new(Schema::new(stream.columns.iter().map(field).collect::<Vec<_>>())))
    };
    plan(&script, schema_of).unwrap_or_else(|error| panic!("{text}: {error}")).remove(0)
}

fn batch(rows: &[Row]) -> RecordBatch {
    let times = TimestampMicrosecondArray::from_iter(rows.iter().map(|(.., time)| *time));
    RecordBatch::try_from_iter_with_nullable(vec![
        ("k", Arc::new(Int64Array::from_iter(rows.iter().map(|(k, ..)| *k))) as ArrayRef, true),
        ("v", Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, v, _)| *v))) as _, true),
        ("ts", Arc::new(times.with_timezone("+00:00")) as _, true),
    ])
    .unwrap()
}

fn given(rows: &RecordBatch) -> Vec<Given> {
    let columns: Vec<ArrayRef> =
        rows.columns().iter().map(|column| cast(column, &DataType::Int64).unwrap()).collect();
    let value = |column: &ArrayRef, row| {
        let column = column.as_primitive::<Int64Type>();
        column.is_valid(row).then(|| column.value(row))
    };
    (0..rows.num_rows()).map(|row| columns.iter().map(|column| value(column, row)).collect()).collect()
}

/// Operators of a query with the files of their checkpoints.
struct Life {
    query: Query,
    operators: Operators,
    files: BTreeMap<String, Vec<StoredVersion>>,
    generation: u64,
}

impl Life {
    fn new(text: &str) -> Self {
        let query = query(text);
        let mut life = Self {
            operators: Operators::of_new_query(&query, &MemoryShare::default()).unwrap(),
            query,
            files: BTreeMap::new(),
            generation: 1,
        };
        life.operators.set_gathering(true);
        life
    }

    /// A batch of rows of both streams, which come in a random order; what comes out, in the order of its columns.
    fn batch(&mut self, random: &mut Random, sides: [&[Row]; 2]) -> Vec<Given> {
        let names: Vec<String> = self.query.streams().map(|(stream, _)| stream.name.clone()).collect();
        let mut out = Vec::new();
        let mut left = sides.map(|rows| rows.to_vec());
        while left.iter().any(|rows| !rows.is_empty()) {
            let side = random.below(2);
            let count = left[side].len().min(1 + random.below(6));
            let rest = left[side].split_off(count);
            let rows = std::mem::replace(&mut left[side], rest);
            let Some(stream) = names.iter().position(|name| name == ["l", "r"][side]) else { continue };
            if rows.is_empty() {
                continue;
            }
            let mut take = |rows: RecordBatch| {
                out.extend(given(&rows));
                Ok(())
            };
            self.operators.push_from(stream, &batch(&rows), &mut take).unwrap();
        }
        out.extend(self.operators.end_batch().unwrap().iter().flat_map(given));
        for (layout, version) in self.operators.versions().unwrap() {
            let files = self.files.entry(layout.name.clone()).or_default();
            if version.kind == crate::state::VersionKind::Snapshot {
                files.clear();
            }
            let rows = version.rows.map(Result::unwrap).collect();
            files.push(StoredVersion { kind: version.kind, evicted_until: version.evicted_until, rows });
        }
        out.sort();
        out
    }

    /// Dies and goes on from the last checkpoint.
    fn restart(&mut self) {
        self.generation += 1;
        let (watermark_ms, late_watermark_ms) = self.operators.watermarks_ms();
        let manifest = Manifest {
            query_id: String::new(),
            generation: self.generation,
            batch: BatchId(0),
            timestamp_ms: 0,
            watermark_ms,
            late_watermark_ms,
            sources: Vec::new(),
            state_identity: None,
            state_files: Vec::new(),
        };
        let mut tables: Vec<Box<dyn StateTable>> = Vec::new();
        for layout in Operators::layouts(&self.query).unwrap() {
            let mut table = MemoryTable::new(Arc::clone(&layout), MemoryShare::default()).unwrap();
            for version in self.files.get(&layout.name).into_iter().flatten() {
                let (kind, evicted_until) = (version.kind, version.evicted_until);
                table.restore(StoredVersion { kind, evicted_until, rows: version.rows.clone() }).unwrap();
            }
            tables.push(Box::new(table));
        }
        self.operators = Operators::with_tables(&self.query, &manifest, tables).unwrap();
        self.operators.set_gathering(true);
    }

    fn state_keys(&mut self) -> u64 {
        self.operators.take_usages().iter().map(|(_, usage, _)| usage.keys).sum()
    }
}

/// The watermark of two streams, as Spark's tracker has it.
#[derive(Default)]
struct Times {
    greatest_ms: [Option<i64>; 2],
    current_ms: i64,
    late_ms: i64,
}

impl Times {
    fn observe(&mut self, side: usize, rows: &[Row]) {
        for (.., time) in rows {
            let ms = time.map_or(0, |us| us.div_euclid(1000));
            self.greatest_ms[side] = self.greatest_ms[side].max(Some(ms));
        }
    }

    fn end(&mut self, sides: usize) {
        let reached = [20, 30].iter().zip(self.greatest_ms).map(|(delay, g)| g.map_or(0, |g| g - delay));
        self.late_ms = self.current_ms;
        self.current_ms = self.current_ms.max(reached.take(sides).min().unwrap());
    }

    fn is_late(&self, time: Option<i64>) -> bool {
        time.is_some_and(|us| us <= self.late_ms * 1000)
    }
}

fn random_rows(random: &mut Random, now_ms: i64, numbers: &mut i64) -> Vec<Row> {
    let count = if random.once_in(4) { 0 } else { random.below(12) };
    let mut row = || {
        *numbers += 1;
        let key = (!random.once_in(12)).then(|| random.below(4) as i64);
        let time = (now_ms + random.below(50) as i64 - 35) * 1000 + random.below(3) as i64 * 499;
        (key, *numbers, (!random.once_in(20)).then_some(time))
    };
    (0..count).map(|_| row()).collect()
}

/// A join whose condition on times is `l.ts >= r.ts - before AND l.ts <= r.ts + after`, or strict.
struct JoinModel {
    kind: JoinKind,
    before_ms: i64,
    after_ms: i64,
    is_strict: bool,
    /// Whether left rows with odd values fail the part of the condition that is about them alone.
    drops_odd: bool,
    times: Times,
    rows: [Vec<(Row, bool)>; 2],
}

impl JoinModel {
    fn holds(&self, left: &Row, right: &Row) -> bool {
        let (Some(l), Some(r)) = (left.2, right.2) else { return false };
        let (low, high) = (r - self.before_ms * 1000, r + self.after_ms * 1000);
        let in_range = if self.is_strict { low < l && l < high } else { low <= l && l <= high };
        left.0.is_some() && left.0 == right.0 && in_range && !(self.drops_odd && left.1 % 2 != 0)
    }

    fn pair(left: Option<&Row>, right: Option<&Row>) -> Given {
        let value = |row: Option<&Row>| row.map(|row| row.1);
        vec![value(left), value(right)]
    }

    fn batch(&mut self, new: [&[Row]; 2]) -> Vec<Given> {
        let mut out = Vec::new();
        let begin = [self.rows[0].len(), self.rows[1].len()];
        for side in [0, 1] {
            self.times.observe(side, new[side]);
            for row in new[side].iter().filter(|row| !self.times.is_late(row.2)) {
                if side == 0 && self.drops_odd && row.1 % 2 != 0 {
                    // It has no match, and waits for nothing.
                    if self.kind.gives_unmatched(0) {
                        out.push(Self::pair(Some(row), None));
                    }
                    continue;
                }
                self.rows[side].push((*row, false));
            }
        }
        for left in 0..self.rows[0].len() {
            for right in 0..self.rows[1].len() {
                let is_new = left >= begin[0] || right >= begin[1];
                if !is_new || !self.holds(&self.rows[0][left].0, &self.rows[1][right].0) {
                    continue;
                }
                match self.kind {
                    JoinKind::LeftSemi if self.rows[0][left].1 => {}
                    JoinKind::LeftSemi => out.push(vec![Some(self.rows[0][left].0.1)]),
                    _ => out.push(Self::pair(Some(&self.rows[0][left].0), Some(&self.rows[1][right].0))),
                }
                self.rows[0][left].1 = true;
                self.rows[1][right].1 = true;
            }
        }
        let inclusive = i64::from(!self.is_strict);
        let until_ms =
            [self.before_ms, self.after_ms].map(|offset| self.times.current_ms - offset - inclusive);
        for side in [0, 1] {
            let is_over = |row: &Row| row.2.is_some_and(|us| us <= until_ms[side] * 1000);
            let (over, kept) =
                std::mem::take(&mut self.rows[side]).into_iter().partition(|(row, _)| is_over(row));
            self.rows[side] = kept;
            let over: Vec<(Row, bool)> = over;
            for (row, _) in over.iter().filter(|(_, had_match)| !had_match && self.kind.gives_unmatched(side))
            {
                out.push(if side == 0 { Self::pair(Some(row), None) } else { Self::pair(None, Some(row)) });
            }
        }
        self.times.end(2);
        out.sort();
        out
    }
}

#[test]
fn joins_give_what_spark_gives_batch_by_batch() {
    let kinds = [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full, JoinKind::LeftSemi];
    let (mut pairs, mut unmatched, mut restarts, mut evicted) = (0, 0, 0, 0);
    for seed in 0..100_u64 {
        let mut random = Random::new(seed);
        let kind = kinds[seed as usize % kinds.len()];
        let (is_strict, drops_odd) = (seed % 3 == 0, seed % 2 == 0);
        let (before_ms, after_ms) = (random.below(30) as i64, 1 + random.below(30) as i64);
        let [more, less] = if is_strict { [">", "<"] } else { [">=", "<="] };
        let odd = if drops_odd { "AND l.v % 2 = 0" } else { "" };
        let columns = if kind == JoinKind::LeftSemi { "l.v" } else { "l.v, r.v AS other" };
        let mut life = Life::new(&format!(
            "INSERT INTO out SELECT {columns} FROM l {} JOIN r ON l.k = r.k AND l.ts {more} r.ts - INTERVAL '{before_ms} ms' \
             AND l.ts {less} r.ts + INTERVAL '{after_ms} ms' {odd}",
            kind.name()
        ));
        // Inner and semi joins have the filter before the watermark, which then hides rows from it.
        let is_before = drops_odd && !kind.gives_unmatched(0);
        let mut model = JoinModel {
            kind,
            before_ms,
            after_ms,
            is_strict,
            drops_odd,
            times: Times::default(),
            rows: [Vec::new(), Vec::new()],
        };
        let mut numbers = 0;
        for step in 0..60 {
            let mut rows = [0, 1].map(|_| random_rows(&mut random, 40 + step * 9, &mut numbers));
            if is_before {
                rows[0].retain(|row| row.1 % 2 == 0);
            }
            if kind == JoinKind::Inner || kind == JoinKind::LeftSemi {
                // The same is true of null keys.
                rows.iter_mut().for_each(|rows| rows.retain(|row| row.0.is_some()));
            } else {
                let nullable: &[usize] = match kind {
                    JoinKind::Left => &[1],
                    JoinKind::Right => &[0],
                    _ => &[],
                };
                nullable.iter().for_each(|side| rows[*side].retain(|row| row.0.is_some()));
            }
            let sides = [rows[0].as_slice(), rows[1].as_slice()];
            let ours = life.batch(&mut random, sides);
            let expected = model.batch(sides);
            assert_eq!(ours, expected, "seed {seed}, {kind:?}, step {step}");
            assert_eq!(
                life.operators.watermarks_ms(),
                (model.times.current_ms, model.times.late_ms),
                "seed {seed}"
            );
            pairs += ours.iter().filter(|row| row.iter().all(Option::is_some)).count();
            unmatched += ours.iter().filter(|row| row.contains(&None)).count();
            let usages = life.operators.take_usages();
            evicted += usages[0].2.removed;
            if kind != JoinKind::LeftSemi && !is_before {
                let kept: usize = model.rows.iter().map(Vec::len).sum();
                assert_eq!(usages[0].1.keys, kept as u64, "seed {seed}, step {step}");
            }
            if random.once_in(8) {
                life.restart();
                model.times.greatest_ms = [None, None];
                restarts += 1;
            }
        }
    }
    assert!(
        pairs > 5_000 && unmatched > 2_000 && restarts > 300 && evicted > 10_000,
        "{pairs} pairs, {unmatched} unmatched, {restarts} restarts, {evicted} evicted"
    );
}

#[test]
fn rows_without_a_match_come_out_a_millisecond_after_the_last_that_could_match() {
    let mut random = Random::new(1);
    let mut life = Life::new(
        "INSERT INTO out SELECT l.v, r.v AS other FROM l LEFT JOIN r ON l.k = r.k AND l.ts >= r.ts - INTERVAL '5 ms' AND l.ts <= r.ts",
    );
    let at = |ms: i64| Some(ms * 1000);
    // Left watermark 1000 - 20, right one 1010 - 30: the query's is 980.
    let out = life.batch(
        &mut random,
        [&[(Some(1), 1, at(1000)), (Some(1), 2, at(974)), (Some(1), 3, at(975))], &[(Some(9), 4, at(1010))]],
    );
    assert!(out.is_empty(), "{out:?}");
    // By `>=` rows at 980 - 5 - 1 and before are over.
    let out = life.batch(&mut random, [&[], &[]]);
    assert_eq!(out, [[Some(2), None]]);
    // At 975 a row matches one of 980, which is late, though: by the watermark of the batch before, which was 980.
    let out = life.batch(&mut random, [&[], &[(Some(1), 5, at(980))]]);
    assert!(out.is_empty(), "{out:?}");
    let out = life.batch(&mut random, [&[(Some(2), 7, at(1001))], &[(Some(1), 6, at(1011))]]);
    assert!(out.is_empty(), "{out:?}");
    // Now the watermark is 981: 975 is over.
    assert!(life.operators.wants_empty_batch());
    let out = life.batch(&mut random, [&[], &[]]);
    assert_eq!(out, [[Some(3), None]]);
    assert!(!life.operators.wants_empty_batch());
}

#[test]
fn a_watermark_among_the_keys_bounds_both_sides() {
    let mut random = Random::new(2);
    let mut life =
        Life::new("INSERT INTO out SELECT l.v, r.v AS other FROM l FULL JOIN r ON l.k = r.k AND l.ts = r.ts");
    let at = |ms: i64| Some(ms * 1000);
    let out = life.batch(
        &mut random,
        [
            &[(Some(1), 1, at(50)), (Some(1), 2, at(200))],
            &[(Some(1), 3, at(50)), (Some(2), 4, at(60)), (Some(1), 5, at(210))],
        ],
    );
    assert_eq!(out, [[Some(1), Some(3)]]);
    // 180 on both sides: what is there until then goes, and only the row without a match comes out.
    let out = life.batch(&mut random, [&[], &[]]);
    assert_eq!(out, [[None, Some(4)]]);
    assert_eq!(life.state_keys(), 2);
}

#[test]
fn a_join_without_a_bound_keeps_rows_for_ever_and_wants_no_empty_batch() {
    let mut random = Random::new(3);
    let mut life =
        Life::new("INSERT INTO out SELECT l.v, r.v AS other FROM l JOIN r ON l.k = r.k EMIT UPDATES");
    let at = |ms: i64| Some(ms * 1000);
    life.batch(&mut random, [&[(Some(1), 1, at(100))], &[(Some(2), 2, at(100))]]);
    assert!(!life.operators.wants_empty_batch());
    life.batch(&mut random, [&[(Some(3), 3, at(90_000))], &[(Some(3), 4, at(90_000))]]);
    life.batch(&mut random, [&[], &[]]);
    life.restart();
    let out = life.batch(&mut random, [&[(Some(2), 5, at(95_000))], &[(Some(1), 6, at(95_000))]]);
    assert_eq!(out, [[Some(1), Some(6)], [Some(5), Some(2)]]);
    // The times do not come to the join, as Spark prunes them away: nothing is late there.
    let out = life.batch(&mut random, [&[(Some(2), 7, at(80_000))], &[]]);
    assert_eq!(out, [[Some(7), Some(2)]]);
}

#[test]
fn many_pairs_come_in_parts_and_each_once() {
    let mut random = Random::new(4);
    let mut life =
        Life::new("INSERT INTO out SELECT l.v, r.v AS other FROM l JOIN r ON l.k = r.k EMIT UPDATES");
    let rows = |from: i64| (from..from + 200).map(|v| (Some(1), v, Some(1))).collect::<Vec<Row>>();
    let out = life.batch(&mut random, [&rows(0), &rows(1000)]);
    assert_eq!(out.len(), 200 * 200);
    let distinct: std::collections::BTreeSet<_> = out.into_iter().collect();
    assert_eq!(distinct.len(), 200 * 200);
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kept {
    ForEver,
    UntilTime,
    Within,
}

/// Deduplication by Spark's rules.
struct DistinctModel {
    kept: Kept,
    times: Times,
    /// Times at which keys are over.
    keys: BTreeMap<(Option<i64>, Option<i64>), Option<i64>>,
}

impl DistinctModel {
    fn batch(&mut self, rows: &[Row]) -> Vec<Given> {
        self.times.observe(0, rows);
        let mut out = Vec::new();
        for row in rows.iter().filter(|row| !self.times.is_late(row.2)) {
            let key = (row.0, if self.kept == Kept::UntilTime { row.2 } else { None });
            if self.keys.contains_key(&key) {
                continue;
            }
            let over = match self.kept {
                Kept::ForEver => None,
                Kept::UntilTime => row.2,
                Kept::Within => Some(row.2.unwrap_or(0) + 20_000),
            };
            self.keys.insert(key, over);
            out.push(vec![row.0, Some(row.1), row.2]);
        }
        let until = self.times.current_ms * 1000;
        self.keys.retain(|_, over| over.is_none_or(|over| over > until));
        self.times.end(1);
        out.sort();
        out
    }
}

#[test]
fn the_first_row_of_each_key_comes_out_as_spark_gives_it() {
    let (mut repeats, mut late, mut removed, mut restarts) = (0, 0, 0, 0);
    for seed in 0..60_u64 {
        let mut random = Random::new(seed);
        let kept = [Kept::ForEver, Kept::UntilTime, Kept::Within][seed as usize % 3];
        let distinct = match kept {
            Kept::ForEver => "DISTINCT ON (k)",
            Kept::UntilTime => "DISTINCT ON (k, ts)",
            Kept::Within => "DISTINCT WITHIN WATERMARK ON (k)",
        };
        let mut life = Life::new(&format!("INSERT INTO out SELECT {distinct} k, v, ts FROM l"));
        let mut model = DistinctModel { kept, times: Times::default(), keys: BTreeMap::new() };
        let mut numbers = 0;
        for step in 0..60 {
            let mut rows = random_rows(&mut random, 40 + step * 6, &mut numbers);
            // So that keys come again, and those for ever do not run out at once.
            for row in &mut rows {
                row.0 =
                    row.0.map(|k| if kept == Kept::ForEver { k + 4 * random.below(20) as i64 } else { k });
                row.2 = row.2.map(|us| us - us % 3000);
            }
            let ours = life.batch(&mut random, [&rows, &[]]);
            let expected = model.batch(&rows);
            assert_eq!(ours, expected, "seed {seed}, {kept:?}, step {step}");
            let usages = life.operators.take_usages();
            assert_eq!(usages[0].1.keys, model.keys.len() as u64, "seed {seed}, step {step}");
            late += usages[0].2.late;
            removed += usages[0].2.removed;
            repeats += rows.len() - ours.len();
            if random.once_in(8) {
                life.restart();
                model.times.greatest_ms = [None, None];
                restarts += 1;
            }
        }
    }
    assert!(
        repeats > 3_000 && late > 300 && removed > 2_000 && restarts > 200,
        "{repeats} repeats, {late} late, {removed} removed, {restarts} restarts"
    );
}

#[test]
fn a_repeat_before_the_eviction_is_a_repeat_and_does_not_extend_the_time() {
    let mut random = Random::new(5);
    let mut life = Life::new("INSERT INTO out SELECT DISTINCT WITHIN WATERMARK ON (k) k, v FROM l");
    let at = |ms: i64| Some(ms * 1000);
    let mut batch =
        |rows: &[Row]| life.batch(&mut random, [rows, &[]]).into_iter().map(|row| row[1]).collect::<Vec<_>>();
    // It expires at 120, whatever comes later.
    assert_eq!(batch(&[(Some(1), 1, at(100)), (Some(1), 2, at(119))]), [Some(1)]);
    assert_eq!(batch(&[(Some(7), 3, at(139))]), [Some(3)]);
    // The watermark is 119.
    assert_eq!(batch(&[(Some(1), 4, at(130)), (Some(7), 5, at(140))]), []);
    // Now it is 120, so the key goes at the end of this batch: until then a repeat is one.
    assert_eq!(batch(&[(Some(1), 6, at(131))]), []);
    assert_eq!(batch(&[(Some(1), 7, at(131))]), [Some(7)]);
}

#[test]
fn without_the_time_late_rows_are_dropped_only_if_it_comes_there() {
    let mut random = Random::new(6);
    let at = |ms: i64| Some(ms * 1000);
    for (select, expected) in [("k, v, ts", 0), ("k, v", 1)] {
        let mut life = Life::new(&format!("INSERT INTO out SELECT DISTINCT ON (k) {select} FROM l"));
        life.batch(&mut random, [&[(Some(1), 1, at(1000))], &[]]);
        assert_eq!(life.operators.wants_empty_batch(), expected == 0 || life.operators.has_watermark());
        life.batch(&mut random, [&[], &[]]);
        let out = life.batch(&mut random, [&[(Some(2), 2, at(980))], &[]]);
        assert_eq!(out.len(), expected, "{select}");
    }
}

/// Rows whose times go up, so that none is late.
fn punctual_rows(random: &mut Random, step: i64, numbers: &mut i64) -> Vec<Row> {
    let mut rows = random_rows(random, 0, numbers);
    for row in &mut rows {
        row.0 = Some(row.0.unwrap_or(3));
        row.2 = Some((1000 + step * 10 + random.below(15) as i64) * 1000);
    }
    rows
}

#[test]
fn a_join_goes_into_windows_and_loses_nothing_as_late() {
    let (mut windows, mut unmatched) = (0, 0);
    for seed in 0..40_u64 {
        let mut random = Random::new(seed);
        let kind = ["INNER", "LEFT"][seed as usize % 2];
        let mut life = Life::new(&format!(
            "CREATE VIEW both AS SELECT l.ts, r.v AS other FROM l {kind} JOIN r ON l.k = r.k \
             AND r.ts >= l.ts - INTERVAL '25 ms' AND r.ts <= l.ts + INTERVAL '25 ms';\
             INSERT INTO out SELECT window_end, count(*) AS n, count(other) AS matched \
             FROM TUMBLE(TABLE both, DESCRIPTOR(ts), INTERVAL '40 ms') GROUP BY window_end"
        ));
        let (mut all, mut out, mut numbers) = ([Vec::new(), Vec::new()], BTreeMap::new(), 0);
        for step in 0..80_i64 {
            let rows = [0, 1]
                .map(|_| if step < 60 { punctual_rows(&mut random, step, &mut numbers) } else { Vec::new() });
            // At last something that ends all windows.
            let last: &[Row] = &[(Some(99), 0, Some(10_000_000))];
            let sides = if step == 60 { [last, last] } else { [rows[0].as_slice(), rows[1].as_slice()] };
            for row in life.batch(&mut random, sides) {
                let [end, n, matched] = row[..] else { panic!("{row:?}") };
                assert!(
                    out.insert(end.unwrap() / 1000, (n.unwrap(), matched.unwrap())).is_none(),
                    "a window closed twice"
                );
            }
            all[0].extend_from_slice(&rows[0]);
            all[1].extend_from_slice(&rows[1]);
            if random.once_in(15) {
                life.restart();
            }
            let late: u64 = life.operators.take_usages().iter().map(|(.., counts)| counts.late).sum();
            assert_eq!(late, 0, "seed {seed}, step {step}");
        }
        let mut expected: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for left in &all[0] {
            let is_match = |r: &&Row| r.0 == left.0 && (r.2.unwrap() - left.2.unwrap()).abs() <= 25_000;
            let matches = all[1].iter().filter(is_match).count() as i64;
            let rows = if kind == "LEFT" { matches.max(1) } else { matches };
            if rows > 0 {
                let window = expected.entry((left.2.unwrap() / 1000).div_euclid(40) * 40 + 40).or_default();
                *window = (window.0 + rows, window.1 + matches);
                unmatched += rows - matches;
            }
        }
        windows += expected.len();
        assert_eq!(out, expected, "seed {seed}");
    }
    assert!(windows > 500 && unmatched > 100, "{windows} windows, {unmatched} unmatched");
}

#[test]
fn a_deduplication_goes_into_windows() {
    for seed in 0..20_u64 {
        let mut random = Random::new(seed);
        let mut life = Life::new(
            "CREATE VIEW once AS SELECT DISTINCT ON (v, ts) v, ts FROM l;\
             INSERT INTO out SELECT window_end, count(*) AS n \
             FROM TUMBLE(TABLE once, DESCRIPTOR(ts), INTERVAL '40 ms') GROUP BY window_end",
        );
        let (mut expected, mut out, mut numbers): (BTreeMap<i64, i64>, BTreeMap<i64, i64>, i64) =
            (BTreeMap::new(), BTreeMap::new(), 0);
        for step in 0..70_i64 {
            let mut rows =
                if step < 60 { punctual_rows(&mut random, step, &mut numbers) } else { Vec::new() };
            for row in &rows {
                *expected.entry((row.2.unwrap() / 1000).div_euclid(40) * 40 + 40).or_default() += 1;
            }
            rows.extend(rows.clone());
            if step == 60 {
                rows.push((None, 0, Some(10_000_000)));
            }
            for row in life.batch(&mut random, [&rows, &[]]) {
                assert!(
                    out.insert(row[0].unwrap() / 1000, row[1].unwrap()).is_none(),
                    "a window closed twice"
                );
            }
            if random.once_in(10) {
                life.restart();
            }
        }
        assert_eq!(out, expected, "seed {seed}");
    }
}

#[test]
fn rows_of_a_union_are_those_of_all_its_streams() {
    let mut random = Random::new(7);
    let mut life = Life::new("INSERT INTO out SELECT k, v FROM l WHERE v > 1 UNION ALL SELECT v, k FROM r");
    let out = life.batch(&mut random, [&[(Some(1), 1, None), (Some(1), 2, None)], &[(Some(5), 6, None)]]);
    assert_eq!(out, [[Some(1), Some(2)], [Some(6), Some(5)]]);
    assert!(!life.operators.has_batches());
    // Both watermarks count below a step with state.
    let mut life = Life::new(
        "INSERT INTO out SELECT DISTINCT k, ts FROM (SELECT k, ts FROM l UNION ALL SELECT k, ts FROM r)",
    );
    life.batch(&mut random, [&[(Some(1), 1, Some(900_000))], &[]]);
    assert_eq!(life.operators.watermarks_ms().0, 0);
    life.batch(&mut random, [&[], &[(Some(1), 1, Some(500_000))]]);
    assert_eq!(life.operators.watermarks_ms().0, 470);
}

#[test]
fn a_stream_is_joined_with_itself() {
    let mut random = Random::new(8);
    let mut life = Life::new(
        "INSERT INTO out SELECT a.v, b.v AS other FROM l AS a JOIN l AS b ON a.k = b.v EMIT UPDATES",
    );
    assert_eq!(life.query.further_streams.len(), 0);
    let out = life.batch(&mut random, [&[(Some(2), 1, None), (Some(3), 2, None), (Some(3), 3, None)], &[]]);
    assert_eq!(out, [[Some(1), Some(2)], [Some(2), Some(3)], [Some(3), Some(3)]]);
}
