//! Goal: a checkpoint that is complete is found again, whole, and an older process completes none. Method: a folder, processes
//! that take it over, and a disk that fails and loses its power.

use std::path::Path;

use rustix::io::Errno;
use serde_json::json;
use yeoul_disk::{Disk, Fault, FaultyDisk, Operation, RealDisk};

use super::*;
use crate::checkpoint::storage::LocalFolder;
use crate::state::{Layout, PartitionSet, Version, VersionKind};

pub(in crate::checkpoint) fn claim(sources: &str) -> Claim<'static> {
    Claim {
        sources: vec![sources.to_owned()],
        state_identity: None,
        initial_offsets: Box::new(|| Ok(vec![json!(0)])),
        output: None,
        now_ms: 1,
    }
}

fn open(folder: &Path) -> CheckpointStore {
    open_on(Arc::new(RealDisk), folder, 100)
}

fn open_on(disk: Arc<dyn Disk>, folder: &Path, retained: usize) -> CheckpointStore {
    CheckpointStore::open(Arc::new(LocalFolder::new(disk, folder)), retained).unwrap()
}

pub(in crate::checkpoint) fn after(manifest: &Manifest, offset: u64) -> Manifest {
    let mut next = manifest.clone();
    next.batch = manifest.batch.next();
    next.rows_until = None;
    next.sources[0].offset = json!(offset);
    next
}

#[test]
fn a_query_goes_on_from_its_last_checkpoint() {
    let place = tempfile::tempdir().unwrap();
    let mut store = open(place.path());
    let first = store.claim(claim("s")).unwrap();
    assert!(first.is_new && first.manifest.batch == BatchId(0) && first.manifest.generation == 1);
    let one = after(&first.manifest, 11);
    assert_eq!(store.mark(&one).unwrap(), Marked::Set);
    let again = open(place.path()).claim(claim("s")).unwrap();
    assert!(!again.is_new);
    assert_ne!(again.manifest.run_id, one.run_id);
    let run_id = again.manifest.run_id.clone();
    let rows_until = Some(BatchId(1));
    let expected =
        Manifest { generation: 2, run_id, batch: BatchId(2), rows_until, timestamp_ms: 1, ..one.clone() };
    assert_eq!(again.manifest, expected);
    let text = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap();
    assert_eq!(text("metadata"), format!("{{\"id\":\"{}\"}}", one.query_id));
    assert!(text("offsets/1").ends_with("\n11") && text("commits/1").starts_with("v1\n{"));
}

#[test]
fn processes_that_begin_a_query_at_the_same_time_give_it_one_id() {
    for _ in 0..50 {
        let place = tempfile::tempdir().unwrap();
        let (folder, start) = (place.path(), std::sync::Barrier::new(4));
        let ids: Vec<String> = std::thread::scope(|scope| {
            let begun: [_; 4] = std::array::from_fn(|_| {
                scope.spawn(|| {
                    let store = open(folder);
                    start.wait();
                    store.query_id().unwrap()
                })
            });
            begun.map(|begun| begun.join().unwrap()).to_vec()
        });
        let stands = open(folder).query_id().unwrap();
        assert!(ids.iter().all(|id| *id == stands), "{ids:?}, and {stands} stands there");
        let names: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(!names.iter().any(|name| name.to_string_lossy().ends_with(".new")), "{names:?}");
    }
}

#[test]
fn an_older_process_is_fenced() {
    let place = tempfile::tempdir().unwrap();
    let mut old = open(place.path());
    let claimed = old.claim(claim("s")).unwrap().manifest;
    assert_eq!(old.newest_generation().unwrap(), Some(claimed.generation));
    let new = open(place.path()).claim(claim("s")).unwrap().manifest;
    assert_eq!(old.newest_generation().unwrap(), Some(claimed.generation + 1));
    assert_eq!(old.mark(&after(&claimed, 5)).unwrap(), Marked::Taken);
    let last = open(place.path()).claim(claim("s")).unwrap().manifest;
    assert_eq!((last.sources[0].offset.clone(), last.generation), (json!(0), new.generation + 1));
}

#[test]
fn a_process_that_stood_still_for_longer_than_checkpoints_are_kept_is_fenced() {
    let place = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let open = || open_on(Arc::clone(&disk), place.path(), 2);
    let mut old = open();
    let first = old.claim(claim("s")).unwrap().manifest;
    let base = complete(&mut old, &first, VersionKind::Snapshot, 1);
    let mut new = open();
    let mut last = new.claim(claim("s")).unwrap().manifest;
    for number in 2..8 {
        last = complete(&mut new, &last, VersionKind::Delta, number);
    }
    // Its number is free again, and its state would make that of the other one look too old to be kept.
    let mut late = after(&base, 99);
    let file = old.store(late.batch, late.generation, version(VersionKind::Snapshot, 99)).unwrap();
    late.state_files = vec![file];
    assert!(!place.path().join(manifest_path(late.batch)).exists());
    assert_eq!(old.mark(&late).unwrap(), Marked::Taken);
    let found = open().claim(claim("s")).unwrap();
    assert_eq!((numbers_of(&found.state), found.warnings.len()), ((1..8).collect::<Vec<_>>(), 0));
}

#[test]
fn a_query_of_another_shape_is_refused_before_it_takes_anything_over() {
    let place = tempfile::tempdir().unwrap();
    let mut store = open(place.path());
    let sources = |name: &str| vec![name.to_owned()];
    assert!(!store.check(&sources("s"), None, None).unwrap(), "nobody has it");
    let output = || Some(OutputClaim { transactional_id: "a".to_owned(), committed: None, newest: None });
    let state_identity = Some("count".to_owned());
    let claimed = store.claim(Claim { output: output(), state_identity, ..claim("s") }).unwrap().manifest;
    let other = open(place.path());
    assert!(other.check(&sources("s"), Some("count"), Some("a")).unwrap());
    for (refused, expected) in [
        (other.check(&sources("t"), Some("count"), Some("a")), "the query reads t"),
        (other.check(&sources("s"), Some("sum"), Some("a")), "the query keeps sum"),
        (other.check(&sources("s"), None, Some("a")), "the query keeps nothing"),
        (other.check(&sources("s"), Some("count"), Some("b")), "the query has 'b'"),
        (other.check(&sources("s"), Some("count"), None), "delivered exactly once"),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(store.mark(&after(&claimed, 5)).unwrap(), Marked::Set, "it goes on undisturbed");
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_one_before_is_used() {
    let place = tempfile::tempdir().unwrap();
    let mut store = open(place.path());
    let one = after(&store.claim(claim("s")).unwrap().manifest, 11);
    let two = after(&one, 22);
    store.mark(&one).unwrap();
    store.mark(&two).unwrap();
    let path = place.path().join(manifest_path(BatchId(2)));
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 3;
    bytes[last] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let found = open(place.path()).claim(claim("s")).unwrap();
    assert_eq!((found.manifest.sources[0].offset.clone(), found.manifest.batch), (json!(11), BatchId(3)));
    assert!(found.warnings[0].contains("00000002' is not used: its content"), "{:?}", found.warnings);
}

#[test]
fn the_checkpoint_of_another_query_and_one_without_metadata_are_refused() {
    let place = tempfile::tempdir().unwrap();
    open(place.path()).claim(claim("kafka a")).unwrap();
    let error = open(place.path()).claim(claim("kafka b")).unwrap_err();
    assert_eq!(error.to_string(), "the checkpoint is of the sources kafka a, the query reads kafka b");
    let state = Claim { state_identity: Some("count".into()), ..claim("kafka a") };
    assert!(open(place.path()).claim(state).unwrap_err().to_string().contains("has the state of nothing"));
    std::fs::remove_file(place.path().join("metadata")).unwrap();
    let error = open(place.path()).claim(claim("kafka a")).unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("metadata"), "{error}");
}

#[test]
fn so_many_checkpoints_are_kept() {
    let place = tempfile::tempdir().unwrap();
    let mut store = open_on(Arc::new(RealDisk), place.path(), 3);
    let mut last = store.claim(claim("s")).unwrap().manifest;
    for offset in 1..10 {
        last = after(&last, offset);
        store.mark(&last).unwrap();
    }
    for folder in ["yeoul/manifests", "offsets", "commits"] {
        assert_eq!(store.numbers(folder).unwrap(), [7, 8, 9], "{folder}");
    }
}

#[test]
fn a_power_failure_takes_no_checkpoint_that_was_complete_and_a_full_disk_completes_none() {
    for seed in 0..20 {
        let place = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::over(Arc::new(RealDisk));
        let mut store = open_on(disk.clone(), place.path(), 100);
        let one = after(&store.claim(claim("s")).unwrap().manifest, 11);
        assert_eq!(store.mark(&one).unwrap(), Marked::Set);
        let fault = disk.inject(Fault::fails(Operation::Write, Errno::NOSPC));
        let error = store.mark(&after(&one, 22)).unwrap_err();
        assert_eq!((error.kind(), fault.happened()), (ErrorKind::ResourceExhausted, 1));
        disk.lose_power(seed);
        let found = open(place.path()).claim(claim("s")).unwrap();
        assert_eq!(found.manifest.sources[0].offset, json!(11), "seed {seed}");
    }
}

pub(in crate::checkpoint) fn layout() -> Layout {
    use arrow::datatypes::{DataType, Field};
    let field = |name: &str| Arc::new(Field::new(name, DataType::Int64, true));
    Layout::new("t", vec![field("k")], vec![field("v")]).unwrap()
}

/// A version with this number as key and value.
pub(in crate::checkpoint) fn version(kind: VersionKind, number: i64) -> PartVersion {
    use crate::state::{Bucket, KeyHash, StateRows};
    let column: arrow::array::ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![number]));
    let rows = StateRows {
        buckets: vec![Bucket(number)],
        hashes: vec![KeyHash(7)],
        keys: vec![Arc::clone(&column)],
        values: vec![column],
    };
    let version = Version { kind, evicted_until: None, rows: Box::new([Ok(rows)].into_iter()) };
    PartVersion { part: TablePart { layout: Arc::new(layout()), partitions: PartitionSet::ALL }, version }
}

pub(in crate::checkpoint) fn numbers_of(state: &[Vec<u8>]) -> Vec<i64> {
    let read = |bytes: &Vec<u8>| crate::checkpoint::wire::read_state_file(&layout(), bytes.clone()).unwrap();
    state.iter().flat_map(|bytes| read(bytes).rows).map(|rows| rows.buckets[0].0).collect()
}

/// Completes an epoch with a version of the state.
pub(in crate::checkpoint) fn complete(
    store: &mut CheckpointStore,
    last: &Manifest,
    kind: VersionKind,
    number: i64,
) -> Manifest {
    let mut next = after(last, number as u64);
    let file = store.store(next.batch, next.generation, version(kind, number)).unwrap();
    if kind == VersionKind::Snapshot {
        next.state_files.clear();
    }
    next.state_files.push(file);
    assert_eq!(store.mark(&next).unwrap(), Marked::Set);
    next
}

#[test]
fn state_goes_on_from_the_files_of_the_last_checkpoint() {
    let place = tempfile::tempdir().unwrap();
    let mut store = open(place.path());
    let first = store.claim(claim("s")).unwrap().manifest;
    let one = complete(&mut store, &first, VersionKind::Snapshot, 11);
    let two = complete(&mut store, &one, VersionKind::Delta, 12);
    // It dies before the marker: nobody names this file, nor does it stand in the way of the next process.
    store.store(two.batch.next(), two.generation, version(VersionKind::Delta, 13)).unwrap();
    let mut store = open(place.path());
    let found = store.claim(claim("s")).unwrap();
    assert_eq!(numbers_of(&found.state), [11, 12]);
    let four = complete(&mut store, &found.manifest, VersionKind::Delta, 14);
    assert_eq!(numbers_of(&open(place.path()).claim(claim("s")).unwrap().state), [11, 12, 14]);
    assert_eq!(four.state_files.len(), 3);
}

#[test]
fn a_checkpoint_whose_state_is_damaged_or_missing_is_named_and_the_one_before_is_used() {
    for is_missing in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let mut store = open(place.path());
        let first = store.claim(claim("s")).unwrap().manifest;
        let one = complete(&mut store, &first, VersionKind::Snapshot, 11);
        let two = complete(&mut store, &one, VersionKind::Delta, 12);
        let path = place.path().join("yeoul/state").join(&two.state_files[1].name);
        if is_missing {
            std::fs::remove_file(&path).unwrap();
        } else {
            let mut bytes = std::fs::read(&path).unwrap();
            let at = bytes.len() / 2;
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
        let found = open(place.path()).claim(claim("s")).unwrap();
        assert_eq!((numbers_of(&found.state), found.manifest.batch), (vec![11], BatchId(3)));
        assert_eq!(found.manifest.sources[0].offset, json!(11));
        assert!(found.warnings[0].contains(&two.state_files[1].name), "{:?}", found.warnings);
    }
}

#[test]
fn files_of_state_that_no_kept_checkpoint_names_are_removed() {
    let place = tempfile::tempdir().unwrap();
    let mut store = open_on(Arc::new(RealDisk), place.path(), 2);
    let mut last = store.claim(claim("s")).unwrap().manifest;
    let leftover = place.path().join("offsets/1.0123456789abcdef.new");
    std::fs::write(&leftover, "half").unwrap();
    let kinds = [
        VersionKind::Snapshot,
        VersionKind::Delta,
        VersionKind::Snapshot,
        VersionKind::Delta,
        VersionKind::Delta,
    ];
    let mut counts = Vec::new();
    for (number, kind) in (1..).zip(kinds) {
        last = complete(&mut store, &last, kind, number);
        counts.push(std::fs::read_dir(place.path().join("yeoul/state")).unwrap().count());
    }
    // The second to last checkpoint after the second snapshot still needs the first one.
    assert_eq!(counts, [1, 2, 3, 2, 3]);
    assert!(!leftover.exists());
    assert_eq!(numbers_of(&open(place.path()).claim(claim("s")).unwrap().state), [3, 4, 5]);
}

fn exactly_once(committed: Option<OutputMarker>, newest: Option<u64>) -> Claim<'static> {
    Claim { output: Some(OutputClaim { transactional_id: "id".to_owned(), committed, newest }), ..claim("s") }
}

/// The checkpoint after `manifest`, with output in a transaction.
fn with_output(manifest: &Manifest, offset: u64) -> (Manifest, OutputMarker) {
    let mut next = after(manifest, offset);
    let marker = OutputMarker { batch: next.batch, generation: next.generation };
    next.output.as_mut().unwrap().last = Some(marker);
    (next, marker)
}

#[test]
fn a_prepared_checkpoint_is_used_if_its_output_is_committed() {
    let place = tempfile::tempdir().unwrap();
    let mut store = open(place.path());
    let first = store.claim(exactly_once(None, None)).unwrap().manifest;
    let (next, marker) = with_output(&first, 7);
    store.prepare(&next).unwrap();
    // It was not committed: the next process goes on from what is complete.
    let aborted = open(place.path()).claim(exactly_once(None, Some(1))).unwrap();
    assert_eq!((&aborted.manifest.sources[0].offset, aborted.manifest.batch), (&json!(0), BatchId(1)));
    // It was committed after another process had claimed its epoch.
    let adopted = open(place.path()).claim(exactly_once(Some(marker), Some(2))).unwrap();
    assert_eq!((&adopted.manifest.sources[0].offset, adopted.manifest.batch), (&json!(7), BatchId(2)));
    assert_eq!(adopted.manifest.generation, 3);
    assert_eq!(adopted.manifest.output.as_ref().unwrap().last, Some(marker));
    assert!(adopted.warnings[0].contains("later ones do not cover its output"), "{:?}", adopted.warnings);
    // Its claim covers it from then on.
    std::fs::remove_file(place.path().join(prepared(marker))).unwrap();
    let again = open(place.path()).claim(exactly_once(Some(marker), Some(3))).unwrap();
    assert_eq!((&again.manifest.sources[0].offset, again.warnings.len()), (&json!(7), 0));
}

#[test]
fn committed_output_without_its_checkpoint_and_another_guarantee_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let first = open(place.path()).claim(exactly_once(None, None)).unwrap().manifest;
    let (_, marker) = with_output(&first, 7);
    let error = open(place.path()).claim(exactly_once(Some(marker), Some(1))).unwrap_err();
    assert!(error.to_string().contains("the output of epoch 1 is committed, and its checkpoint"), "{error}");
    let error = open(place.path()).claim(claim("s")).unwrap_err();
    assert!(error.to_string().contains("delivered exactly once"), "{error}");
    // Nothing changed: it goes on where it was.
    let last = open(place.path()).claim(exactly_once(None, Some(1))).unwrap().manifest;
    assert_eq!(last.batch, BatchId(1));
}

#[test]
fn state_of_a_prepared_checkpoint_outlives_later_checkpoints_without_output() {
    let place = tempfile::tempdir().unwrap();
    let mut store = open_on(Arc::new(RealDisk), place.path(), 1);
    let first = store.claim(exactly_once(None, None)).unwrap().manifest;
    let file = |batch: u64| {
        let name = format!("{batch:020}-1-counts");
        std::fs::write(place.path().join(STATE_FOLDER).join(&name), "").unwrap();
        let kind = VersionKind::Snapshot;
        StateFile {
            table: "counts".to_owned(),
            name,
            kind,
            bytes: 0,
            crc32c: 0,
            partitions: PartitionSet::ALL,
        }
    };
    let is_there =
        |batch: u64| place.path().join(STATE_FOLDER).join(format!("{batch:020}-1-counts")).exists();
    let (mut prepared, _) = with_output(&first, 7);
    prepared.state_files = vec![file(1)];
    store.prepare(&prepared).unwrap();
    let mut last = first;
    for batch in 1..4 {
        last = after(&last, 0);
        last.state_files = vec![file(batch)];
        store.mark(&last).unwrap();
    }
    assert!(is_there(1), "the prepared checkpoint names it");
    let (mut covering, marker) = with_output(&last, 9);
    covering.state_files = vec![file(4)];
    store.prepare(&covering).unwrap();
    store.mark(&covering).unwrap();
    assert!(!is_there(1) && !is_there(3) && is_there(4));
    assert!(place.path().join(super::prepared(marker)).exists(), "until a later transaction is covered");
}
