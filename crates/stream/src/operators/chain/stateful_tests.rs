//! Goal: deduplication and joins give, batch by batch, the rows that Spark's rules give, whatever order rows of a batch come in and
//! whatever restarts there are. Method: random batches beside models that look at every pair of rows, and hand-worked cases of the
//! rules that are easy to get wrong.

use std::collections::BTreeMap;

use arrow::array::{Array, Int64Array, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use yeoul_simulation::Random;

use super::*;
use crate::BatchId;
use crate::plan::{JoinKind, Script, StreamDefinition, plan_with};
use crate::state::StoredVersion;

mod chains;
mod deduplication;
mod joins;
mod keyed;

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
    plan_with(&script, &keyed::functions(), schema_of)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .remove(0)
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
            run_id: None,
            batch: BatchId(0),
            timestamp_ms: 0,
            watermark_ms,
            late_watermark_ms,
            sources: Vec::new(),
            state_identity: None,
            state_files: Vec::new(),
            output: None,
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
