//! Goal: each file is given once, in the order of its time, and an epoch that was planned has the same files and bytes however often it is
//! planned. Method: a directory whose files change between lives of a source.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use arrow::array::AsArray;
use yeoul_disk::RealDisk;

use super::*;
use crate::checkpoint::storage::LocalFolder;

fn put(folder: &Path, name: &str, second: u64, text: &str) {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    let time = UNIX_EPOCH + Duration::from_secs(1_700_000_000 + second);
    File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
}

/// A directory and a place for the log.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("in")).unwrap();
        Self(place)
    }

    fn input(&self) -> std::path::PathBuf {
        self.0.path().join("in")
    }

    fn source(&self, files_max: usize, offset: &Value) -> Result<FileSource> {
        let options = FileSourceOptions {
            path: self.input(),
            epoch_files_max: files_max,
            is_latest_first: false,
            header: None,
        };
        let log = self.0.path().join("checkpoint/sources/0");
        FileSource::at(options, offset, Arc::new(LocalFolder::new(Arc::new(RealDisk), &log)))
    }
}

/// Values of an epoch; nothing if none was planned.
fn epoch(source: &mut FileSource) -> Option<Vec<String>> {
    if source.plan(None).unwrap() == 0 {
        return None;
    }
    let mut values = Vec::new();
    loop {
        let polled = source.poll(Duration::ZERO).unwrap();
        let rows = polled.rows.iter().flat_map(|rows| rows.column(0).as_binary::<i32>().iter().flatten());
        values.extend(rows.map(|value| String::from_utf8(value.to_vec()).unwrap()));
        if polled.is_at_end {
            return Some(values);
        }
    }
}

#[test]
fn files_come_once_in_the_order_of_their_times_and_names() {
    let place = Place::new();
    put(&place.input(), "c", 1, "c1\n\n  \nc2\r\n");
    put(&place.input(), "b", 2, "b1");
    put(&place.input(), "a", 2, "a1\n");
    put(&place.input(), "_hidden", 0, "x\n");
    put(&place.input(), ".hidden", 0, "x\n");
    put(&place.input(), "d._COPYING_", 0, "x\n");
    fs::create_dir(place.input().join("folder")).unwrap();
    let mut source = place.source(2, &FileSource::initial_offset()).unwrap();
    assert_eq!(epoch(&mut source).unwrap(), ["c1", "c2", "a1"]);
    assert_eq!(source.position(), json!({"logOffset": 0}));
    // Older than what was given.
    put(&place.input(), "e", 0, "e1\n");
    assert_eq!(epoch(&mut source).unwrap(), ["e1", "b1"]);
    assert_eq!(epoch(&mut source), None);
    put(&place.input(), "f", 3, "");
    assert_eq!(epoch(&mut source).unwrap(), [""; 0], "an empty file is an epoch without rows");
    assert_eq!(source.position(), json!({"logOffset": 2}));
    assert!(source.poll(Duration::ZERO).unwrap().is_at_end, "nothing comes without a plan");
}

#[test]
fn an_epoch_is_planned_again_with_the_same_files_and_bytes() {
    let place = Place::new();
    put(&place.input(), "a", 1, "a1\n");
    put(&place.input(), "b", 2, "b1\n");
    let mut source = place.source(1, &FileSource::initial_offset()).unwrap();
    assert_eq!(epoch(&mut source).unwrap(), ["a1"]);
    let complete = source.position();
    assert_eq!(epoch(&mut source).unwrap(), ["b1"]);
    // It dies before the second epoch is complete; an older file comes and the planned one grows.
    put(&place.input(), "0", 0, "01\n");
    put(&place.input(), "b", 9, "b1\nb2\n");
    let mut source = place.source(7, &complete).unwrap();
    assert!(source.has_logged_plan().unwrap());
    source.stop_at_latest().unwrap();
    assert_eq!(epoch(&mut source).unwrap(), ["b1"]);
    let warnings = source.take_warnings();
    assert!(
        warnings.len() == 1 && warnings[0].contains("/in/b' has grown") && warnings[0].contains("3 bytes"),
        "{warnings:?}"
    );
    assert!(!source.has_logged_plan().unwrap());
    assert_eq!(epoch(&mut source).unwrap(), ["01"]);
    // One that began before the second entry takes it as well.
    let mut late = place.source(1, &complete).unwrap();
    assert_eq!(epoch(&mut late).unwrap(), ["b1"]);
    // It shrinks.
    put(&place.input(), "b", 9, "b");
    let mut source = place.source(1, &complete).unwrap();
    assert_eq!(source.plan(None).unwrap(), 1);
    let error = source.poll(Duration::ZERO).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataLoss, "{error}");
}

#[test]
fn of_two_processes_the_second_takes_the_plan_of_the_first() {
    let place = Place::new();
    put(&place.input(), "a", 1, "a1\n");
    let mut first = place.source(9, &FileSource::initial_offset()).unwrap();
    let mut second = place.source(9, &FileSource::initial_offset()).unwrap();
    assert_eq!(epoch(&mut first).unwrap(), ["a1"]);
    put(&place.input(), "b", 2, "b1\n");
    assert_eq!(epoch(&mut second).unwrap(), ["a1"]);
    let planned = PlannedFile { path: "/else".into(), timestamp: 0, batch_id: 0, bytes: 0 };
    let taken = second.log.write(0, vec![planned]).unwrap();
    assert!(taken[0].path.ends_with("/in/a"), "{taken:?}");
}

#[test]
fn a_query_of_what_is_there_passes_over_what_comes_later() {
    let place = Place::new();
    put(&place.input(), "a", 1, "a1\n");
    put(&place.input(), "b", 2, "b1\n");
    let mut source = place.source(1, &FileSource::initial_offset()).unwrap();
    source.stop_at_latest().unwrap();
    put(&place.input(), "0", 0, "01\n");
    assert_eq!(epoch(&mut source).unwrap(), ["a1"]);
    assert_eq!(epoch(&mut source).unwrap(), ["b1"]);
    assert_eq!(epoch(&mut source), None);
}

#[test]
fn what_cannot_be_gone_on_from_is_named() {
    let place = Place::new();
    let error = place.source(1, &json!({"logOffset": 3})).unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("has no entry 0"), "{error}");
    assert!(place.source(1, &json!(7)).is_err());
    put(&place.input(), "a.gz", 1, "a1\n");
    let mut source = place.source(1, &FileSource::initial_offset()).unwrap();
    source.plan(None).unwrap();
    assert!(source.poll(Duration::ZERO).unwrap_err().to_string().contains("is compressed"));
    fs::write(place.0.path().join("checkpoint/sources/0/0"), "v2").unwrap();
    assert!(place.source(1, &json!({"logOffset": 0})).unwrap_err().to_string().contains("is damaged"));
    fs::remove_dir_all(place.input()).unwrap();
    assert!(place.source(1, &json!({"logOffset": 0})).unwrap_err().to_string().contains("is no directory"));
}
