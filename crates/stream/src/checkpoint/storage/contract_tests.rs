//! Goal: checkpoints are the same in every place, and a request to a store whose outcome is not known is found out or fails, within
//! limits. Method: the same steps in a folder, in an object store, and in one whose clients send each request twice; stores that
//! fail, lose answers and hang at a step.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use object_store::path::Path as ObjectPath;
use yeoul_disk::RealDisk;

use super::flaky_store::{Fate, FlakyStore, Request};
use super::upload::PART_BYTES;
use super::*;
use crate::BatchId;
use crate::checkpoint::store::tests::{after, claim, complete, numbers_of};
use crate::checkpoint::wire::Manifest;
use crate::checkpoint::{
    CheckpointReader, CheckpointStore, Claim, CommitMarker, Marked, OutputClaim, OutputMarker,
};
use crate::error::ErrorKind;
use crate::state::VersionKind;

const IMPATIENT: Patience =
    Patience { tries: 3, pause: Duration::from_millis(1), answer: Duration::from_millis(100) };

/// A prefix of a store.
fn objects(store: Arc<FlakyStore>) -> Arc<dyn Storage> {
    let prefix = ObjectPath::from("jobs/orders");
    Arc::new(ObjectStorage::new(store, prefix, "memory://jobs/orders".to_owned(), IMPATIENT).unwrap())
}

/// One place of each kind, with what has to outlive it.
fn places() -> Vec<(&'static str, Arc<dyn Storage>, Option<tempfile::TempDir>)> {
    let folder = tempfile::tempdir().unwrap();
    let local = LocalFolder::new(Arc::new(RealDisk), &folder.path().join("orders"));
    vec![
        ("folder", Arc::new(local), Some(folder)),
        ("objects", objects(FlakyStore::new(|_, _| Fate::Answered)), None),
        ("objects, sent twice", objects(FlakyStore::new(|_, _| Fate::IsSentTwice)), None),
    ]
}

fn open(place: &Arc<dyn Storage>, retained: usize) -> CheckpointStore {
    CheckpointStore::open(Arc::clone(place), retained).unwrap()
}

fn offset(manifest: &Manifest) -> u64 {
    manifest.sources[0].offset.as_u64().unwrap()
}

/// Changes a byte in the middle of a file.
fn damage(place: &Arc<dyn Storage>, path: &str) {
    let mut bytes = place.read(path).unwrap().unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    place.replace(path, &bytes).unwrap();
}

#[test]
fn files_are_created_replaced_listed_and_removed() {
    for (what, place, _kept) in places() {
        place.prepare(&["a/b"]).unwrap();
        assert_eq!(place.read("a/b/1").unwrap(), None, "{what}");
        assert!(place.list("a/b").unwrap().is_empty() && place.list("none").unwrap().is_empty(), "{what}");
        assert!(place.create("a/b/2", b"two").unwrap(), "{what}");
        assert!(!place.create("a/b/2", b"2").unwrap(), "{what}");
        assert_eq!(place.read("a/b/2").unwrap().unwrap(), b"two", "{what}");
        place.replace("a/b/10", b"ten").unwrap();
        place.replace("a/b/2", b"deux").unwrap();
        assert_eq!(place.list("a/b").unwrap(), ["10", "2"], "{what}");
        let mut file = place.begin("a/b/3").unwrap();
        file.write_all(b"thr").unwrap();
        file.write_all(b"ee").unwrap();
        file.finish().unwrap();
        let inner = place.child("a");
        assert_eq!((inner.name(), inner.display("b")), ("a".to_owned(), place.display("a/b")), "{what}");
        assert_eq!(inner.read("b/3").unwrap().unwrap(), b"three", "{what}");
        assert_eq!(inner.folders().unwrap(), ["b"], "{what}");
        inner.remove("b", &["2".to_owned(), "none".to_owned(), "3".to_owned()]).unwrap();
        assert_eq!(place.list("a/b").unwrap(), ["10"], "{what}");
    }
}

#[test]
fn a_large_file_is_sent_in_parts_and_is_not_there_before_its_end() {
    let content: Vec<u8> = (0..2 * PART_BYTES + 12_345).map(|at| (at % 251) as u8).collect();
    for length in [0, PART_BYTES, content.len()] {
        for (what, place, _kept) in places() {
            place.prepare(&["state"]).unwrap();
            let mut file = place.begin("state/large").unwrap();
            for piece in content[..length].chunks(1 << 20) {
                file.write_all(piece).unwrap();
            }
            let is_there = place.read("state/large").unwrap().is_some();
            assert!(!is_there || what == "folder", "{what}");
            file.finish().unwrap();
            assert!(place.read("state/large").unwrap().unwrap() == content[..length], "{what} {length}");
        }
    }
}

#[test]
fn a_part_that_fails_fails_the_file_and_a_lost_answer_at_its_end_is_found_out() {
    let write = |lost: Request, fate: Fate| {
        let place =
            objects(FlakyStore::new(move |request, _| if request == lost { fate } else { Fate::Answered }));
        let mut file = place.begin("large").unwrap();
        let written = file.write_all(&vec![7; 3 * PART_BYTES]);
        let written = written.map_err(Into::into).and_then(|()| file.finish());
        (written.map_err(|error: crate::error::Error| error.kind()), place.read("large").unwrap())
    };
    assert_eq!(write(Request::Part, Fate::Fails), (Err(ErrorKind::Unavailable), None));
    assert_eq!(write(Request::BeginParts, Fate::Fails), (Err(ErrorKind::Unavailable), None));
    assert_eq!(write(Request::Complete, Fate::Fails), (Err(ErrorKind::Unavailable), None));
    let (written, found) = write(Request::Complete, Fate::LosesAnswer);
    assert!(written.is_ok() && found.unwrap().len() == 3 * PART_BYTES);
}

#[test]
fn a_query_goes_on_from_its_last_checkpoint_and_an_older_process_is_fenced() {
    for (what, place, _kept) in places() {
        let mut old = open(&place, 100);
        let first = old.claim(claim("s")).unwrap();
        assert!(first.is_new && first.manifest.batch == BatchId(0), "{what}");
        let one = complete(&mut old, &first.manifest, VersionKind::Snapshot, 11);
        let two = complete(&mut old, &one, VersionKind::Delta, 12);
        let mut new = open(&place, 100);
        assert!(new.check(&["s".to_owned()], None, None).unwrap(), "{what}");
        let found = new.claim(claim("s")).unwrap();
        assert_eq!((found.manifest.generation, found.manifest.batch, found.is_new), (2, BatchId(3), false));
        assert_eq!((numbers_of(&found.state), offset(&found.manifest)), (vec![11, 12], 12), "{what}");
        assert_eq!(found.warnings, Vec::<String>::new(), "{what}");
        assert_eq!(old.mark(&after(&two, 13)).unwrap(), Marked::Taken, "{what}");
        assert_eq!(new.newest_generation().unwrap(), Some(2));
        complete(&mut new, &found.manifest, VersionKind::Delta, 14);
        let commits: Vec<String> = place.list("commits").unwrap();
        assert_eq!(commits, place.list("offsets").unwrap(), "{what}");
        assert!(
            commits.contains(&"2".to_owned()) && commits.contains(&"4".to_owned()),
            "{what}: {commits:?}"
        );
        let text = String::from_utf8(place.read("offsets/2").unwrap().unwrap()).unwrap();
        assert!(text.ends_with("\n12"), "{what}: {text}");
    }
}

#[test]
fn what_is_damaged_is_named_and_the_checkpoint_before_is_used() {
    for (what, place, _kept) in places() {
        for is_missing in [false, true] {
            let mut store = open(&place, 100);
            let first = store.claim(claim("s")).unwrap().manifest;
            let one = complete(&mut store, &first, VersionKind::Snapshot, 11);
            let two = complete(&mut store, &one, VersionKind::Delta, 12);
            let three = complete(&mut store, &two, VersionKind::Delta, 13);
            let name = two.state_files[1].name.clone();
            if is_missing {
                place.remove("yeoul/state", std::slice::from_ref(&name)).unwrap();
            } else {
                damage(&place, &format!("yeoul/state/{name}"));
            }
            let found = open(&place, 100).claim(claim("s")).unwrap();
            assert_eq!((numbers_of(&found.state), offset(&found.manifest)), (vec![11], 11), "{what}");
            assert_eq!(found.manifest.batch, three.batch.next(), "{what}");
            assert!(found.warnings[1].contains(&name), "{what}: {:?}", found.warnings);
            // A manifest, too; it was that of the claim.
            let path = format!("yeoul/manifests/{:020}", found.manifest.batch.0);
            damage(&place, &path);
            let again = open(&place, 100).claim(claim("s")).unwrap();
            assert!(again.warnings[0].contains(&place.display(&path)), "{what}: {:?}", again.warnings);
            assert_eq!(offset(&again.manifest), 11, "{what}");
            let mut readers = CheckpointReader::find(&place).unwrap();
            assert_eq!(readers.remove(0).read(None).unwrap().manifest, again.manifest, "{what}");
        }
        place.remove("", &["metadata".to_owned()]).unwrap();
        let error = open(&place, 100).claim(claim("s")).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Corrupt && error.to_string().contains("metadata"),
            "{what}: {error}"
        );
    }
}

#[test]
fn a_checkpoint_whose_manifests_are_gone_is_refused_whatever_else_is_left_of_it() {
    let output = || Some(OutputClaim { transactional_id: "t".to_owned(), committed: None, newest: None });
    for is_exactly_once in [false, true] {
        let claimed = || Claim { output: output().filter(|_| is_exactly_once), ..claim("s") };
        for (what, place, _kept) in places() {
            let mut store = open(&place, 100);
            let first = store.claim(claimed()).unwrap().manifest;
            complete(&mut store, &first, VersionKind::Snapshot, 11);
            for removed in ["yeoul/manifests", "offsets", "commits"] {
                place.remove(removed, &place.list(removed).unwrap()).unwrap();
                let store = &mut open(&place, 100);
                for error in [store.claim(claimed()).unwrap_err(), store.query_id().unwrap_err()] {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}, without {removed}: {error}");
                    let name = place.display("yeoul/manifests");
                    assert_eq!(
                        error.to_string(),
                        format!("'{name}' has no manifest, and the checkpoint is not empty")
                    );
                    assert!(error.hint().unwrap().starts_with("restore it, or name an empty directory"));
                }
            }
            // A query whose process died between its id and its first manifest has nothing to lose.
            place.remove("yeoul/state", &place.list("yeoul/state").unwrap()).unwrap();
            assert!(open(&place, 100).claim(claimed()).unwrap().is_new, "{what}");
        }
    }
}

#[test]
fn old_checkpoints_are_removed_with_their_state_and_what_was_left_beside_them() {
    for (what, place, _kept) in places() {
        let mut store = open(&place, 3);
        let mut last = store.claim(claim("s")).unwrap().manifest;
        // HDFS's client writes beside a file with a dot before its name.
        place.replace("yeoul/state/.00000000000000000001-1-t.tmp.1", b"half").unwrap();
        place.replace("offsets/1.0123456789abcdef.new", b"half").unwrap();
        // That of a process which is at work.
        let unfinished = ".00000000000000000099-2-t.tmp.1";
        place.replace(&format!("yeoul/state/{unfinished}"), b"half").unwrap();
        for number in 1..=50 {
            let kind = if number % 5 == 1 { VersionKind::Snapshot } else { VersionKind::Delta };
            last = complete(&mut store, &last, kind, number);
        }
        let interval = place.prune_interval();
        let oldest = 50 / interval * interval - 2;
        for folder in ["yeoul/manifests", "offsets", "commits"] {
            let found = place.list(folder).unwrap();
            assert_eq!(found.len() as u64, 50 - oldest + 1, "{what} {folder}: {found:?}");
            assert!(found[0].parse::<u64>().unwrap() == oldest, "{what} {folder}: {found:?}");
        }
        let state = place.list("yeoul/state").unwrap();
        let left: Vec<&String> = state.iter().filter(|name| name.starts_with('.')).collect();
        assert_eq!(left, [unfinished], "{what}");
        assert!(state.len() < 5 + 3 + 1 + interval as usize, "{what}: {state:?}");
        let kept = CheckpointReader::find(&place).unwrap()[0].read(Some(BatchId(oldest))).unwrap();
        assert_eq!((offset(&kept.manifest), kept.damaged.len()), (oldest, 0), "{what}");
    }
}

#[test]
fn a_prepared_checkpoint_is_used_if_its_output_is_committed() {
    let exactly_once = |committed, newest| Claim {
        output: Some(OutputClaim { transactional_id: "id".to_owned(), committed, newest }),
        ..claim("s")
    };
    for (what, place, _kept) in places() {
        let mut store = open(&place, 100);
        let first = store.claim(exactly_once(None, None)).unwrap().manifest;
        let mut next = after(&first, 7);
        let marker = OutputMarker { batch: next.batch, generation: next.generation };
        next.output.as_mut().unwrap().last = Some(marker);
        store.prepare(&next).unwrap();
        let aborted = open(&place, 100).claim(exactly_once(None, Some(1))).unwrap();
        assert_eq!(offset(&aborted.manifest), 0, "{what}");
        let adopted = open(&place, 100).claim(exactly_once(Some(marker), Some(2))).unwrap();
        assert_eq!((offset(&adopted.manifest), adopted.manifest.generation), (7, 3), "{what}");
        let path = format!("yeoul/prepared/{:020}-{}", marker.batch.0, marker.generation);
        assert!(place.read(&path).unwrap().is_some(), "{what}");
        let later = OutputMarker { batch: BatchId(9), generation: 3 };
        let error = open(&place, 100).claim(exactly_once(Some(later), Some(2))).unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::Conflict,
            "another process has claimed it since: {what}: {error}"
        );
        let error = open(&place, 100).claim(exactly_once(Some(later), Some(3))).unwrap_err();
        assert!(error.to_string().contains("the output of epoch 9 is committed"), "{what}: {error}");
    }
}

#[test]
fn processes_that_begin_at_the_same_time_have_one_id_and_an_epoch_each() {
    for _ in 0..20 {
        for (what, place, _kept) in places() {
            let start = std::sync::Barrier::new(4);
            let claimed: Vec<Manifest> = std::thread::scope(|scope| {
                let begun: [_; 4] = std::array::from_fn(|_| {
                    scope.spawn(|| {
                        let mut store = open(&place, 100);
                        start.wait();
                        store.claim(claim("s")).unwrap().manifest
                    })
                });
                begun.map(|begun| begun.join().unwrap()).to_vec()
            });
            let mut batches: Vec<u64> = claimed.iter().map(|manifest| manifest.batch.0).collect();
            batches.sort_unstable();
            let newest = CheckpointReader::find(&place).unwrap()[0].read(None).unwrap().manifest;
            assert_eq!(batches.last(), Some(&newest.batch.0), "{what}");
            // Who was overtaken before it could look whether it was, claims once more.
            batches.dedup();
            assert_eq!(batches.len(), 4, "{what}: {claimed:?}");
            assert!(claimed.iter().all(|manifest| manifest.query_id == claimed[0].query_id), "{what}");
        }
    }
}

/// Answers the first request of a kind for an object in a folder otherwise.
fn first(request: Request, folder: &'static str, fate: Fate) -> impl FnMut(Request, &ObjectPath) -> Fate {
    let mut left = 1;
    move |asked, path| {
        if asked == request && path.as_ref().contains(folder) && left > 0 {
            left -= 1;
            return fate;
        }
        Fate::Answered
    }
}

#[test]
fn a_lost_answer_does_not_make_ones_own_manifest_anothers() {
    for fate in [Fate::LosesAnswer, Fate::Hangs, Fate::IsSentTwice, Fate::Fails] {
        let inner = Arc::new(object_store::memory::InMemory::new());
        let healthy = objects(FlakyStore::over(Arc::clone(&inner), |_, _| Fate::Answered));
        let one = open(&healthy, 100).claim(claim("s")).unwrap().manifest;
        let mut next = after(&one, 5);
        next.run_id = Some("mine".to_owned());
        let flaky = || objects(FlakyStore::over(Arc::clone(&inner), first(Request::Put, "manifests", fate)));
        assert_eq!(open(&flaky(), 100).mark(&next).unwrap(), Marked::Set, "{fate:?}");
        assert_eq!(open(&flaky(), 100).mark(&next).unwrap(), Marked::Set, "it is the same process: {fate:?}");
        // Another process of the same generation that claims the epoch in the same millisecond.
        let others = Manifest { run_id: Some("others".to_owned()), ..next.clone() };
        assert_eq!(open(&flaky(), 100).mark(&others).unwrap(), Marked::Taken, "{fate:?}");
        let stands = CheckpointReader::find(&healthy).unwrap()[0].read(None).unwrap().manifest;
        assert_eq!(stands, next, "{fate:?}");
    }
}

#[test]
fn a_store_that_goes_on_failing_or_hanging_is_given_up_after_some_tries() {
    for (fate, text) in [(Fate::Fails, "it fails"), (Fate::Hangs, "no answer within 0.1 s")] {
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        let place = objects(FlakyStore::new(move |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
            fate
        }));
        let began = Instant::now();
        let requests: [&dyn Fn() -> Result<()>; 5] = [
            &|| place.prepare(&[]),
            &|| place.read("a").map(drop),
            &|| place.list("a").map(drop),
            &|| place.replace("a", b"a"),
            &|| place.remove("a", &["b".to_owned()]),
        ];
        for request in requests {
            let error = request().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.to_string().contains(text) && error.to_string().contains("memory://"), "{error}");
            assert!(error.hint().unwrap().contains("goes on from its last checkpoint"));
            assert_eq!(asked.swap(0, Ordering::Relaxed), IMPATIENT.tries, "{error}");
        }
        let error = place.create("a", b"a").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(asked.load(Ordering::Relaxed) <= IMPATIENT.tries * (IMPATIENT.tries + 1));
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}

#[test]
fn what_does_not_pass_is_not_tried_again() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let place = objects(FlakyStore::new(move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
        Fate::IsDenied
    }));
    let requests: [&dyn Fn() -> Result<()>; 3] =
        [&|| place.prepare(&[]), &|| place.replace("a", b"a"), &|| place.create("a", b"a").map(drop)];
    for request in requests {
        assert_eq!(request().unwrap_err().kind(), ErrorKind::Denied);
        assert_eq!(asked.swap(0, Ordering::Relaxed), 1);
    }
}

#[test]
fn a_store_without_conditions_is_refused_before_anything_is_taken_over() {
    for (fate, reason) in [
        (Fate::IsUnconditional, "it creates an object that is there already once more"),
        (Fate::IsUnknown, "it does not create an object only if it is absent"),
    ] {
        let place = objects(FlakyStore::new(move |_, _| fate));
        let error = CheckpointStore::open(place, 100).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(reason), "{error}");
    }
    // One whose first answers are lost is not.
    let answers = first(Request::Put, "condition", Fate::LosesAnswer);
    open(&objects(FlakyStore::new(answers)), 100).claim(claim("s")).unwrap();
}

#[test]
fn a_checkpoint_that_cannot_be_reached_is_not_passed_over() {
    let inner = Arc::new(object_store::memory::InMemory::new());
    let healthy = objects(FlakyStore::over(Arc::clone(&inner), |_, _| Fate::Answered));
    let mut store = open(&healthy, 100);
    let claimed = store.claim(claim("s")).unwrap().manifest;
    complete(&mut store, &claimed, VersionKind::Snapshot, 11);
    let flaky = objects(FlakyStore::over(inner, |request, path| {
        let is_state = request == Request::Get && path.as_ref().contains("yeoul/state");
        if is_state { Fate::Fails } else { Fate::Answered }
    }));
    let error = open(&flaky, 100).claim(claim("s")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let error = CheckpointReader::find(&flaky).unwrap()[0].read(None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(open(&healthy, 100).claim(claim("s")).unwrap().manifest.generation, 2, "nothing was claimed");
}
