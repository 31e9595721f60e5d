//! Goal: a checkpoint is shown as a query would find it, nothing on the disk changes, and what is damaged is named. Method: a query
//! that really ran, whose folder is compared before and after, and files that are cut or changed.

use std::collections::BTreeMap;
use std::fs;

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use yeoul_disk::RealDisk;

use super::*;
use crate::checkpoint::CheckpointSummary;
use crate::dataflow::start;
use crate::parse_job;
use crate::state::MemoryShare;

const JOB: &str = "CREATE STREAM r (WATERMARK FOR timestamp AS timestamp - INTERVAL '1' HOUR) \
                     WITH ('connector' = 'rate', 'rowsPerSecond' = '1000');\
                   CREATE SINK counts WITH ('connector' = 'noop'); CREATE SINK plain WITH ('connector' = 'noop');\
                   SET trigger = 'available now';\
                   INSERT INTO counts SELECT window_end, value % 3 AS k, count(*) AS n, max(value) AS last \
                     FROM TUMBLE(TABLE r, DESCRIPTOR(timestamp), INTERVAL '1' DAY) GROUP BY window_end, value % 3 EMIT UPDATES;\
                   INSERT INTO plain SELECT value FROM r;";

fn disk() -> Arc<dyn Disk> {
    Arc::new(RealDisk)
}

/// Runs the queries of the job to their end.
fn run(folder: &Path) {
    for query in parse_job(JOB).unwrap() {
        start(query, folder, MemoryShare::default(), |_| {}).unwrap().wait().unwrap();
    }
}

/// All files below a folder with their contents.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

fn reader(folder: &Path) -> CheckpointReader {
    CheckpointReader::find(&disk(), folder).unwrap().remove(0)
}

#[test]
fn a_checkpoint_is_shown_and_nothing_changes() {
    let place = tempfile::tempdir().unwrap();
    run(place.path());
    run(place.path());
    let before = contents(place.path());
    let readers = CheckpointReader::find(&disk(), place.path()).unwrap();
    let names: Vec<String> = readers.iter().map(CheckpointReader::query).collect();
    assert_eq!(names, ["counts", "plain"]);
    let stored = readers[0].read(None).unwrap();
    let summary = CheckpointSummary::new(readers[0].query(), &stored);
    assert_eq!(contents(place.path()), before);
    assert_eq!((summary.generation, summary.damaged.len()), (2, 0), "{summary:?}");
    assert_eq!(summary.epoch, summary.last_epoch);
    assert!(summary.manifest.ends_with(&format!("{:020}", summary.epoch.0)), "{summary:?}");
    let rows = summary.sources[0].offset["next"].as_i64().unwrap();
    let table = &summary.tables[0];
    assert_eq!(
        (table.table.as_str(), table.kind.as_str(), table.rows),
        ("aggregate", "aggregate", 3.min(rows as u64))
    );
    assert_eq!(table.keys.len(), 2, "{table:?}");
    // The counts of all groups are the rows that were read.
    let counts = stored.tables[0].first_rows(usize::MAX).unwrap();
    let total: i64 = counts.column(3).as_primitive::<Int64Type>().values().iter().sum();
    assert_eq!(total, rows);
    let over = counts.column(0).as_primitive::<TimestampMicrosecondType>();
    let ends = counts.column(1).as_primitive::<TimestampMicrosecondType>();
    assert_eq!(over.values(), ends.values());
    assert_eq!(stored.tables[0].first_rows(1).unwrap().num_rows(), 1);
    assert!(readers[1].read(None).unwrap().tables.is_empty());
    assert_eq!(reader(&place.path().join("plain")).query(), "plain");
}

#[test]
fn an_earlier_epoch_can_be_looked_at_and_one_that_is_not_there_is_refused() {
    let place = tempfile::tempdir().unwrap();
    run(place.path());
    let first = reader(place.path()).read(None).unwrap().manifest;
    run(place.path());
    let counts = reader(place.path());
    assert!(counts.read(None).unwrap().manifest.batch > first.batch);
    assert_eq!(counts.read(Some(first.batch)).unwrap().manifest, first);
    let error = counts.read(Some(BatchId(99))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().ends_with("has no checkpoint of epoch 99"), "{error}");
}

#[test]
fn damaged_files_are_named_and_the_checkpoint_before_is_shown() {
    let place = tempfile::tempdir().unwrap();
    run(place.path());
    let first = reader(place.path()).read(None).unwrap().manifest.batch;
    run(place.path());
    let folder = place.path().join("counts");
    let last = reader(&folder).read(None).unwrap().manifest;
    assert!(last.batch > first);
    let file = last.state_files.iter().map(|file| file.name.clone()).max().unwrap();
    let path = folder.join("yeoul/state").join(&file);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let stored = reader(&folder).read(None).unwrap();
    assert!(stored.manifest.batch < last.batch && stored.damaged[0].contains(&file), "{stored:?}");
    let error = reader(&folder).read(Some(last.batch)).unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(&file), "{error}");
    for batch in &stored.kept {
        let path = folder.join("yeoul/manifests").join(format!("{:020}", batch.0));
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    }
    fs::remove_file(folder.join("metadata")).unwrap();
    let error = reader(&folder).read(None).unwrap_err().to_string();
    assert!(
        error.contains("metadata' cannot be read") && error.contains("it was not written to its end"),
        "{error}"
    );
}

#[test]
fn a_folder_without_a_checkpoint_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let error = CheckpointReader::find(&disk(), place.path()).unwrap_err();
    assert!(
        error.kind() == ErrorKind::NotFound && error.to_string().starts_with("there is no checkpoint in")
    );
    assert!(CheckpointReader::find(&disk(), &place.path().join("none")).is_err());
}

#[test]
fn a_query_that_runs_goes_on_while_it_is_looked_at() {
    let place = tempfile::tempdir().unwrap();
    let job = JOB.replace("available now", "real time").replace(
        "INSERT INTO counts",
        "SET 'execution.checkpointing.interval' = '10 ms'; SET 'spark.sql.streaming.minBatchesToRetain' = '2'; INSERT INTO counts",
    );
    let query = parse_job(&job).unwrap().remove(0);
    let (tell, told) = std::sync::mpsc::channel();
    let handle = start(query, place.path(), MemoryShare::default(), move |event| {
        if let crate::dataflow::QueryEvent::Progress(_) = event {
            let _ = tell.send(());
        }
    });
    let handle = handle.unwrap();
    told.recv_timeout(Duration::from_secs(60)).unwrap();
    let (mut last, mut reads) = (BatchId(0), 0);
    // Each reading is whole, whatever is written and removed meanwhile.
    while reads < 300 || last.0 < 5 {
        let stored = reader(place.path()).read(None).unwrap();
        assert!(stored.manifest.batch >= last && stored.damaged.is_empty(), "{stored:?}");
        (last, reads) = (stored.manifest.batch, reads + 1);
    }
    handle.stop();
    handle.wait().unwrap();
}
