//! Goal: shards as threads lose no row, never wait for each other for ever, tell why they end, and go on from checkpoints of other
//! numbers of threads. Method: queries over a rate source, whose rows are known, and a state function that waits, fails or breaks when
//! it is told to.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use yeoul_disk::RealDisk;

use super::*;
use crate::checkpoint::storage::{LocalFolder, Storage};
use crate::checkpoint::wire::Manifest;
use crate::checkpoint::{CheckpointReader, StoredCheckpoint};
use crate::dataflow::fragile::{Fault, Fragile};
use crate::dataflow::{Progress, QueryEvent, QueryHandle, start};
use crate::error::{ErrorKind, Result};
use crate::operators::{Exchange, FromShard, OpenBatch, Operators, ToShard};
use crate::plan::Query;
use crate::state::{MemoryShare, PartitionSet, VersionKind};

const PATIENCE: Duration = Duration::from_secs(60);
const JOB: &str = "CREATE STREAM r WITH ('connector' = 'rate', 'rowsPerSecond' = '20000');\
                   CREATE SINK counts WITH ('connector' = 'noop'); SET 'execution.checkpointing.interval' = '20 ms';";
const COUNTS: &str =
    "INSERT INTO counts SELECT value % 100 AS k, count(*) AS n FROM r GROUP BY value % 100 EMIT UPDATES";

fn counting(parallelism: usize) -> Query {
    crate::parse_job(&format!("{JOB} SET parallelism = {parallelism}; {COUNTS}")).unwrap().remove(0)
}

fn started(query: Query, folder: &Path) -> (QueryHandle, Receiver<Progress>) {
    let (tell, told) = channel();
    let handle = start(query, folder, MemoryShare::default(), move |event| {
        if let QueryEvent::Progress(progress) = event {
            let _ = tell.send(progress.clone());
        }
    });
    (handle.unwrap(), told)
}

fn last_checkpoint(folder: &Path) -> StoredCheckpoint {
    let place: Arc<dyn Storage> = Arc::new(LocalFolder::new(Arc::new(RealDisk), folder));
    CheckpointReader::find(&place).unwrap().remove(0).read(None).unwrap()
}

#[test]
fn a_query_goes_on_with_other_numbers_of_threads_and_counts_each_row_once() {
    let place = tempfile::tempdir().unwrap();
    let mut rows = 0;
    for parallelism in [1, 3, 2, 1, 7] {
        let (handle, told) = started(counting(parallelism), place.path());
        let mut epochs: Vec<Progress> = (0..4).map(|_| told.recv_timeout(PATIENCE).unwrap()).collect();
        handle.stop();
        handle.wait().unwrap();
        epochs.extend(told.try_iter());
        rows += epochs.iter().map(|epoch| epoch.num_input_rows).sum::<u64>();
        let state = &epochs.last().unwrap().state_operators[0];
        assert_eq!((state.operator_name.as_str(), state.num_rows_total), ("aggregate", 100));
        assert!(state.memory_used_bytes > 0);
        let stored = last_checkpoint(place.path());
        assert_eq!(stored.manifest.sources[0].offset["next"], rows);
        let mut sets: Vec<_> = stored.manifest.state_files.iter().map(|file| file.partitions).collect();
        sets.sort();
        sets.dedup();
        assert_eq!(sets, PartitionSet::of_shards(parallelism));
        let table = &stored.tables[0];
        assert_eq!((table.parts(), table.rows()), (parallelism, 100));
        let state = table.first_rows(1000).unwrap();
        let [keys, counts] = [1, 2].map(|at| state.column(at).as_primitive::<Int64Type>());
        assert_eq!(state.num_rows(), 100);
        for (key, count) in keys.values().iter().zip(counts.values()) {
            let before = |rows: u64| (rows as i64 - key + 99) / 100;
            assert_eq!(*count, before(rows), "key {key} of {rows} rows, {parallelism} threads");
        }
    }
}

#[test]
fn a_file_of_state_with_keys_of_other_partitions_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let (handle, told) = started(counting(2), place.path());
    told.recv_timeout(PATIENCE).unwrap();
    handle.stop();
    handle.wait().unwrap();
    let stored = last_checkpoint(place.path());
    let files = |swap: bool| {
        let mut manifest = stored.manifest.clone();
        let snapshots = |file: &&crate::checkpoint::wire::StateFile| file.kind == VersionKind::Snapshot;
        let mut first: Vec<_> = manifest.state_files.iter().filter(snapshots).cloned().collect();
        let folder = place.path().join("counts/yeoul/state");
        let contents = first.iter().map(|file| std::fs::read(folder.join(&file.name)).unwrap()).collect();
        if swap {
            let [a, b] = first.as_mut_slice() else { panic!("{first:?}") };
            std::mem::swap(&mut a.partitions, &mut b.partitions);
        }
        manifest.state_files = first;
        let parts = Operators::table_parts(&counting(2)).unwrap();
        restored(&parts, &MemoryShare::default(), &manifest, contents).map(|tables| tables.len())
    };
    assert_eq!(files(false).unwrap(), 2);
    let error = files(true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("has a key of partition"), "{error}");
}

fn fragile(function: &Fragile) -> Query {
    let job = format!(
        "{JOB} SET parallelism = 3; CREATE VIEW v AS SELECT value % 7 AS k FROM r; \
         INSERT INTO counts SELECT n FROM fragile(TABLE v PARTITION BY k) EMIT UPDATES"
    );
    crate::parse_job_with(&job, &function.registered()).unwrap().remove(0)
}

#[test]
fn a_shard_that_fails_or_breaks_ends_the_query_with_its_error() {
    for (fault, kind, expected) in [
        (Fault::Error, ErrorKind::Invalid, "the state function 'fragile' failed: more than 1000 rows"),
        (Fault::Panic, ErrorKind::Internal, "of a query broke: a function with a defect"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let function = Fragile::new(1_000);
        function.set_fault(Some(fault));
        let (handle, told) = started(fragile(&function), place.path());
        let error = handle.wait().unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
        drop(told);
        let last = last_checkpoint(place.path()).manifest.sources[0].offset["next"].clone();
        // Nobody holds the function any more: all threads have ended.
        assert_eq!(function.holders(), 1);
        // Without the defect it goes on from there.
        function.set_fault(None);
        let (handle, told) = started(fragile(&function), place.path());
        let first = told.recv_timeout(PATIENCE).unwrap();
        assert_eq!(first.sources[0].start_offset["next"], last);
        handle.stop();
        handle.wait().unwrap();
    }
}

/// An exchange with nobody behind it.
struct Nobody;

impl Exchange for Nobody {
    fn offer(&mut self, _: usize, _: ToShard) -> Result<Option<ToShard>> {
        Ok(None)
    }

    fn take(&mut self, _: Duration) -> Result<Option<FromShard>> {
        Ok(None)
    }
}

/// The shards of a query as threads, without the query.
fn threads_of(query: &Query) -> Box<dyn Exchange> {
    let parts = Operators::table_parts(query).unwrap();
    let manifest = Manifest::blank();
    let memory = MemoryShare::default();
    let tables = restored(&parts, &memory, &manifest, Vec::new()).unwrap();
    let mut threads = None;
    let mut start = |table: &str, shards| -> Result<Box<dyn Exchange>> {
        threads = Some(start_shards(table, shards)?);
        Ok(Box::new(Nobody))
    };
    Operators::with_shards(query, &manifest, tables, &memory, &mut start).unwrap();
    threads.unwrap()
}

fn rows_of_key(key: i64) -> ToShard {
    let keys: ArrayRef = Arc::new(Int64Array::from(vec![key]));
    let rows = RecordBatch::try_from_iter_with_nullable([("k", keys, true)]).unwrap();
    let batch = OpenBatch { now_ms: 0, current_ms: None, late_ms: None, is_gathering: false };
    ToShard::Rows { input: 0, rows, batch }
}

#[test]
fn the_ways_to_a_shard_and_back_are_bounded_and_end_with_the_query() {
    let function = Fragile::new(1_000);
    let query = fragile(&function);
    for takes_what_is_told in [true, false] {
        let mut threads = threads_of(&query);
        function.set_held(true);
        let mut sent = 0;
        while sent < 1000 && threads.offer(1, rows_of_key(3)).unwrap().is_none() {
            sent += 1;
        }
        let has_room = threads.offer(2, rows_of_key(4)).unwrap().is_none();
        let told = threads.take(Duration::from_millis(20)).unwrap();
        // Nothing waits for the function any more, also if this fails.
        function.set_held(false);
        // One at work, or none yet, and those that wait.
        assert!((16..=17).contains(&sent), "{sent}");
        assert!(has_room, "another shard has room");
        assert!(told.is_none(), "nothing is done yet");
        if takes_what_is_told {
            let (mut rows, mut done) = (0, 0);
            while done < sent + 1 {
                match threads.take(PATIENCE).unwrap().expect("it is told soon") {
                    FromShard::Rows(given) => rows += given.num_rows(),
                    FromShard::Done(_) => done += 1,
                    FromShard::Failed(error) => panic!("{error:?}"),
                }
            }
            assert_eq!(rows, sent + 1);
            assert!(threads.offer(1, rows_of_key(3)).unwrap().is_none());
        } else {
            // Until what it tells has no room either.
            for _ in 0..500 {
                drop(threads.offer(1, rows_of_key(3)).unwrap());
                std::thread::sleep(Duration::from_micros(100));
            }
            assert!(threads.offer(1, rows_of_key(3)).unwrap().is_some(), "a shard waits to tell something");
        }
        // It does not wait for ever.
        drop(threads);
    }
}
