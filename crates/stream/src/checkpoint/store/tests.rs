//! Goal: a checkpoint that is complete is found again, whole, and an older process completes none. Method: a folder, processes
//! that take it over, and a disk that fails and loses its power.

use rustix::io::Errno;
use serde_json::json;
use yeoul_disk::{Fault, FaultyDisk, Operation, RealDisk};

use super::*;

fn claim(sources: &str) -> Claim<'static> {
    Claim {
        sources: vec![sources.to_owned()],
        state_identity: None,
        initial_offsets: Box::new(|| Ok(vec![json!(0)])),
        now_ms: 1,
    }
}

fn open(folder: &Path) -> CheckpointStore {
    CheckpointStore::open(Arc::new(RealDisk), folder, 100).unwrap()
}

fn after(manifest: &Manifest, offset: u64) -> Manifest {
    let mut next = manifest.clone();
    next.batch = manifest.batch.next();
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
    assert_eq!(again.manifest, Manifest { generation: 2, batch: BatchId(2), timestamp_ms: 1, ..one.clone() });
    let text = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap();
    assert_eq!(text("metadata"), format!("{{\"id\":\"{}\"}}", one.query_id));
    assert!(text("offsets/1").ends_with("\n11") && text("commits/1").starts_with("v1\n{"));
}

#[test]
fn an_older_process_is_fenced() {
    let place = tempfile::tempdir().unwrap();
    let mut old = open(place.path());
    let claimed = old.claim(claim("s")).unwrap().manifest;
    let new = open(place.path()).claim(claim("s")).unwrap().manifest;
    assert_eq!(old.mark(&after(&claimed, 5)).unwrap(), Marked::Taken);
    let last = open(place.path()).claim(claim("s")).unwrap().manifest;
    assert_eq!((last.sources[0].offset.clone(), last.generation), (json!(0), new.generation + 1));
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_one_before_is_used() {
    let place = tempfile::tempdir().unwrap();
    let mut store = open(place.path());
    let one = after(&store.claim(claim("s")).unwrap().manifest, 11);
    let two = after(&one, 22);
    store.mark(&one).unwrap();
    store.mark(&two).unwrap();
    let path = store.manifest(BatchId(2));
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
    let mut store = CheckpointStore::open(Arc::new(RealDisk), place.path(), 3).unwrap();
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
        let mut store = CheckpointStore::open(disk.clone(), place.path(), 100).unwrap();
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
