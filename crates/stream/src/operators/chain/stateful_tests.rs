//! Goal: deduplication and joins give, batch by batch, the rows that Spark's rules give, whatever order rows of a batch come in and
//! whatever restarts there are, and however many shards have the state. Method: random batches beside models that look at every pair
//! of rows, and hand-worked cases of the rules that are easy to get wrong; each restart has another number of shards.

use std::collections::BTreeMap;

use arrow::array::{Array, Int64Array, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use yeoul_simulation::Random;

use super::*;
use crate::checkpoint::add_state_files;
use crate::checkpoint::wire::{StateFile, write_state_file};
use crate::dataflow::{restored, start_shards};
use crate::operators::Exchange;
use crate::plan::{JoinKind, Script, StreamDefinition, plan_with};
use crate::state::{StateRows, StoredVersion};

mod chains;
mod deduplication;
mod joins;
mod keyed;
mod shards;

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

/// Numbers of shards of one process after another.
const SHARDS: [usize; 5] = [1, 3, 2, 7, 1];

/// Operators of a query with the files of their checkpoints.
struct Life {
    query: Query,
    operators: Operators,
    files: Vec<StateFile>,
    contents: BTreeMap<String, StoredVersion>,
    generation: u64,
    /// Numbers of shards of one process after another.
    shards: Vec<usize>,
    /// True if shards are threads.
    has_threads: bool,
    is_gathering: bool,
}

impl Life {
    fn new(text: &str) -> Self {
        Self::with_shards(text, &SHARDS)
    }

    fn with_shards(text: &str, shards: &[usize]) -> Self {
        let mut query = query(text);
        query.settings.parallelism = shards[0];
        let mut life = Self {
            operators: Operators::of_new_query(&query, &MemoryShare::default()).unwrap(),
            query,
            files: Vec::new(),
            contents: BTreeMap::new(),
            generation: 1,
            shards: shards.to_vec(),
            has_threads: false,
            is_gathering: true,
        };
        life.begin_anew();
        life
    }

    /// Begins with empty tables.
    fn begin_anew(&mut self) {
        let table = |part: TablePart| {
            Box::new(MemoryTable::new(part.layout, MemoryShare::default()).unwrap()) as Box<dyn StateTable>
        };
        let tables = Operators::table_parts(&self.query).unwrap().into_iter().map(table).collect();
        self.begin(&manifest(self.generation, (0, 0), Vec::new()), tables);
    }

    fn begin(&mut self, manifest: &Manifest, tables: Vec<Box<dyn StateTable>>) {
        let in_turns = &mut |_: &str, all: Vec<Shard>| -> Result<Box<dyn Exchange>> {
            Ok(Box::new(shards::InTurns::new(all, manifest.generation)))
        };
        let mut threads = start_shards;
        let start: StartShards<'_> = if self.has_threads { &mut threads } else { in_turns };
        let memory = MemoryShare::default();
        self.operators = Operators::with_shards(&self.query, manifest, tables, &memory, start).unwrap();
        self.operators.set_gathering(self.is_gathering);
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
        self.save();
        out.sort();
        out
    }

    /// Takes a checkpoint.
    fn save(&mut self) {
        let mut new = Vec::new();
        for PartVersion { part, version } in self.operators.versions().unwrap() {
            let name = format!("{}-{}-{}", self.contents.len(), part.layout.name, part.partitions);
            let rows: Vec<StateRows> = version.rows.map(Result::unwrap).collect();
            rows.iter().for_each(|rows| part.partitions.assert_holds(rows));
            new.push(StateFile {
                table: part.layout.name.clone(),
                name: name.clone(),
                kind: version.kind,
                bytes: 0,
                crc32c: 0,
                partitions: part.partitions,
            });
            let stored = StoredVersion { kind: version.kind, evicted_until: version.evicted_until, rows };
            self.contents.insert(name, stored);
        }
        add_state_files(&mut self.files, new);
    }

    /// Dies and goes on from the last checkpoint, with another number of shards.
    fn restart(&mut self) {
        let next = self.shards[self.generation as usize % self.shards.len()];
        self.query.settings.parallelism = next;
        self.generation += 1;
        let manifest = manifest(self.generation, self.operators.watermarks_ms(), self.files.clone());
        let contents = self.files.iter().map(|file| {
            let StoredVersion { kind, evicted_until, rows } = &self.contents[&file.name];
            StoredVersion { kind: *kind, evicted_until: *evicted_until, rows: rows.clone() }
        });
        let contents: Vec<StoredVersion> = contents.collect();
        let parts = Operators::table_parts(&self.query).unwrap();
        let tables = restored_versions(&parts, &manifest, contents);
        self.begin(&manifest, tables);
    }

    fn state_keys(&mut self) -> u64 {
        self.operators.take_usages().iter().map(|(_, usage, _)| usage.keys).sum()
    }
}

fn manifest(
    generation: u64,
    (watermark_ms, late_watermark_ms): (i64, i64),
    state_files: Vec<StateFile>,
) -> Manifest {
    Manifest { generation, watermark_ms, late_watermark_ms, state_files, ..Manifest::blank() }
}

/// Tables of a checkpoint, as it is restored.
fn restored_versions(
    parts: &[TablePart],
    manifest: &Manifest,
    versions: Vec<StoredVersion>,
) -> Vec<Box<dyn StateTable>> {
    let contents = manifest.state_files.iter().zip(versions).map(|(file, stored)| {
        let layout = &parts.iter().find(|part| part.layout.name == file.table).unwrap().layout;
        let StoredVersion { kind, evicted_until, rows } = stored;
        let version = Version { kind, evicted_until, rows: Box::new(rows.into_iter().map(Ok)) };
        let mut bytes = Vec::new();
        write_state_file(layout, version, &mut bytes).unwrap();
        bytes
    });
    restored(parts, &MemoryShare::default(), manifest, contents.collect()).unwrap()
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
