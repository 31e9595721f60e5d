//! Goal: a checkpoint is shown as a query would find it, nothing on the disk changes, and what is damaged is named. Method: a query
//! that really ran, whose folder is compared before and after, and files that are cut or changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{fmt, fs, io};

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use yeoul_disk::{Disk, DiskFile, Open, RealDisk, Space};

use super::*;
use crate::checkpoint::CheckpointSummary;
use crate::checkpoint::storage::LocalFolder;
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

fn at(folder: &Path) -> Arc<dyn Storage> {
    on(Arc::new(RealDisk), folder)
}

fn on(disk: Arc<dyn Disk>, folder: &Path) -> Arc<dyn Storage> {
    Arc::new(LocalFolder::new(disk, folder))
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
    CheckpointReader::find(&at(folder)).unwrap().remove(0)
}

#[test]
fn a_checkpoint_is_shown_and_nothing_changes() {
    let place = tempfile::tempdir().unwrap();
    run(place.path());
    run(place.path());
    let before = contents(place.path());
    let readers = CheckpointReader::find(&at(place.path())).unwrap();
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
    let ends = counts.column_by_name("key.window_end").unwrap();
    let ends = ends.as_primitive::<TimestampMicrosecondType>();
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
    let error = CheckpointReader::find(&at(place.path())).unwrap_err();
    assert!(
        error.kind() == ErrorKind::NotFound && error.to_string().starts_with("there is no checkpoint in")
    );
    assert!(CheckpointReader::find(&at(&place.path().join("none"))).is_err());
}

/// Action around an opening.
type Hook = Mutex<Option<Box<dyn FnOnce() + Send>>>;

/// A disk on which something happens before and after a file is opened for the first time.
struct Overtaking {
    path: PathBuf,
    before: Hook,
    after: Hook,
}

impl Overtaking {
    fn on(
        path: &Path,
        before: impl FnOnce() + Send + 'static,
        after: impl FnOnce() + Send + 'static,
    ) -> Arc<dyn Disk> {
        let hook = |hook: Box<dyn FnOnce() + Send>| Mutex::new(Some(hook));
        Arc::new(Self { path: path.to_owned(), before: hook(Box::new(before)), after: hook(Box::new(after)) })
    }
}

impl fmt::Debug for Overtaking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overtaking").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Disk for Overtaking {
    fn create_folder_all(&self, folder: &Path) -> io::Result<()> {
        panic!("'{}' is made", folder.display())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        RealDisk.list(folder)
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        assert!(matches!(how, Open::Read), "'{}' is opened to write", path.display());
        let happen = |hook: &Hook| {
            if let Some(hook) = hook.lock().unwrap().take() {
                hook();
            }
        };
        if path != self.path {
            return RealDisk.open(path, how);
        }
        happen(&self.before);
        let file = RealDisk.open(path, how);
        happen(&self.after);
        file
    }

    fn rename(&self, from: &Path, _: &Path) -> io::Result<()> {
        panic!("'{}' is renamed", from.display())
    }

    fn rename_new(&self, from: &Path, _: &Path) -> io::Result<()> {
        panic!("'{}' is renamed", from.display())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        panic!("'{}' is removed", path.display())
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        panic!("'{}' is removed", folder.display())
    }

    fn remove_folder_all(&self, folder: &Path) -> io::Result<()> {
        panic!("'{}' is removed", folder.display())
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        panic!("'{}' is synced", folder.display())
    }

    fn space(&self, folder: &Path) -> io::Result<Space> {
        RealDisk.space(folder)
    }
}

#[test]
fn a_checkpoint_that_is_on_its_way_or_goes_meanwhile_is_read_again() {
    let place = tempfile::tempdir().unwrap();
    run(place.path());
    let folder = place.path().join("counts");
    let last = reader(&folder).read(None).unwrap().manifest;
    let path = |batch: BatchId| folder.join(MANIFESTS_FOLDER).join(format!("{:020}", batch.0));
    // Its writer has come halfway when it is opened, and is done when it is opened again.
    let (whole, newest) = (place.path().join("whole"), path(last.batch));
    let bytes = fs::read(&newest).unwrap();
    fs::write(&whole, &bytes).unwrap();
    fs::write(&newest, &bytes[..bytes.len() / 2]).unwrap();
    let disk = Overtaking::on(&newest.clone(), || {}, move || fs::rename(whole, newest).unwrap());
    let stored = CheckpointReader::find(&on(disk, &folder)).unwrap()[0].read(None).unwrap();
    assert_eq!((&stored.manifest, stored.damaged.len()), (&last, 0), "{stored:?}");
    // The next one comes, and this one goes, between the listing and the opening.
    let next = Manifest { batch: last.batch.next(), ..last.clone() };
    let (old, new, bytes) = (path(last.batch), path(next.batch), next.encode());
    let before = move || {
        fs::write(new, bytes).unwrap();
        fs::remove_file(old).unwrap();
    };
    let disk = Overtaking::on(&path(last.batch), before, || {});
    let stored = CheckpointReader::find(&on(disk, &folder)).unwrap()[0].read(None).unwrap();
    assert_eq!((stored.manifest, stored.damaged.len()), (next, 0));
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
