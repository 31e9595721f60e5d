//! Goal: whatever is appended, spilled, sealed, damaged and restarted, a reader gets exactly the batches of a simple model,
//! or an error. Method: random steps on a store with real files; each read is compared with a list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::super::Store;
use super::super::directory::STEP_MAX;
use super::super::read::ChunkReader;
use super::super::shuffle::Shuffle;
use super::{append, batch, file, open, read_all, reserve, runtime};
use crate::error::Kind;
use crate::ids::{AttemptId, ShuffleKey};
use crate::worker::index::MapRange;
use crate::worker::state::Commit;

#[derive(Debug, Clone)]
enum Step {
    Append { partition: i32, map: i32, attempt: i32, number: i32, len: usize },
    Spill(u64),
    Commit { partitions: BTreeSet<i32>, attempts: Vec<i32> },
    Seal,
    Restart,
    Kill,
    Read { partition: i32, range: (i32, i32) },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (0..4i32, 0..5i32, 0..2i32, 0..6i32, 16..700usize)
            .prop_map(|(partition, map, attempt, number, len)| Step::Append { partition, map, attempt, number, len }),
        3 => (1..3000u64).prop_map(Step::Spill),
        2 => (prop::collection::btree_set(0..4i32, 0..4), prop::collection::vec(-1..2i32, 0..5))
            .prop_map(|(partitions, attempts)| Step::Commit { partitions, attempts }),
        2 => Just(Step::Seal),
        1 => Just(Step::Restart),
        1 => Just(Step::Kill),
        4 => (0..4i32, prop_oneof![Just((0, i32::MAX)), (0..6i32, 0..6i32)])
            .prop_map(|(partition, range)| Step::Read { partition, range }),
    ]
}

#[derive(Default, Clone)]
struct Model {
    batches: BTreeMap<i32, Vec<(i32, i32, i32, Bytes)>>,
    committed: BTreeSet<i32>,
    winners: BTreeMap<i32, i32>,
    /// Committed locations whose seals are on disk, and the winners on disk.
    sealed: BTreeSet<i32>,
    winners_on_disk: BTreeMap<i32, i32>,
}

impl Model {
    /// The seals of these partitions were written.
    fn seal(&mut self, partitions: impl Iterator<Item = i32>) {
        self.sealed.extend(partitions);
        self.winners_on_disk = self.winners.clone();
    }

    /// The worker restarts. Open locations do not come back; the driver was never told that they would.
    fn restart(&mut self) {
        self.committed = self.sealed.clone();
        self.batches.retain(|partition, _| self.sealed.contains(partition));
        if self.sealed.is_empty() {
            self.winners_on_disk.clear();
        }
        self.winners = self.winners_on_disk.clone();
    }

    fn expected(&self, partition: i32, range: (i32, i32)) -> Vec<Bytes> {
        let (start, end) = if range.0 > range.1 { (0, i32::MAX) } else { range };
        let mut seen = BTreeSet::new();
        let kept = self.batches.get(&partition).into_iter().flatten().filter(|(map, attempt, number, _)| {
            let first = seen.insert((*map, *attempt, *number));
            let wins = self.winners.get(map).is_none_or(|winner| winner == attempt);
            first && wins && (start..end).contains(map)
        });
        kept.map(|(_, _, _, batch)| batch.clone()).collect()
    }
}

async fn run(steps: Vec<Step>) {
    let place = tempfile::tempdir().unwrap();
    let key = ShuffleKey::new("app", 1);
    let mut store = open(&place);
    let mut shuffle = store.find_or_insert(&key).unwrap();
    reserve(&shuffle, 0..4);
    let mut model = Model::default();
    let mut turn = 0;
    for step in steps {
        match step {
            Step::Append { partition, map, attempt, number, len } => {
                let batch = batch(map, attempt, number, len);
                let accepted = append(&store, &shuffle, partition, &batch);
                assert_eq!(accepted, !model.committed.contains(&partition));
                if accepted {
                    // A repeated batch has the same bytes: that is what makes it a repetition.
                    model.batches.entry(partition).or_default().push((map, attempt, number, batch));
                }
            }
            Step::Spill(bytes) => {
                let directory = Arc::clone(&store.directories()[turn % 2]);
                if let Some(job) = store.plan(&directory, bytes) {
                    turn += 1;
                    assert!(store.spill(job, directory).await);
                }
            }
            Step::Commit { partitions, attempts } => {
                let commit = Commit {
                    primaries: partitions.iter().map(|id| file(*id).location).collect(),
                    attempts: attempts.iter().copied().map(AttemptId).collect(),
                    ..Commit::default()
                };
                shuffle.lock().state.commit(&commit);
                for (map, attempt) in attempts.into_iter().enumerate().filter(|(_, attempt)| *attempt >= 0) {
                    model.winners.entry(map as i32).or_insert(attempt);
                }
                model.committed.extend(partitions);
            }
            Step::Seal => {
                assert!(store.write_seals(&shuffle, STEP_MAX).await);
                let contents = shuffle.lock();
                if !contents.segments.is_empty() {
                    let is_on_disk = |partition: &i32| {
                        let slot = contents.state.find(file(*partition)).expect("it is committed");
                        contents.copies[&slot].resident() == 0
                    };
                    let on_disk: Vec<_> = model.committed.iter().copied().filter(is_on_disk).collect();
                    model.seal(on_disk.into_iter());
                }
            }
            Step::Restart | Step::Kill => {
                if matches!(step, Step::Restart) {
                    let failed = store.flush().await;
                    assert!(failed.is_empty());
                    model.seal(model.committed.clone().into_iter());
                }
                drop((store, shuffle));
                store = open(&place);
                let recovered = store.recover();
                assert_eq!(recovered.damaged_files, 0);
                shuffle = store.find_or_insert(&key).unwrap();
                let is_here = |partition: &i32| shuffle.lock().state.find(file(*partition)).is_some();
                let found: BTreeSet<_> = (0..4).filter(is_here).collect();
                assert_eq!((&found, recovered.locations), (&model.sealed, found.len()));
                for lost in (0..4).filter(|partition| !found.contains(partition)) {
                    let error = read_all(&store, &shuffle, lost, MapRange::Whole).await.unwrap_err();
                    assert_eq!(error.kind(), Kind::NotFound);
                }
                model.restart();
                reserve(&shuffle, 0..4);
            }
            Step::Read { partition, range } => {
                let found =
                    read_all(&store, &shuffle, partition, MapRange::from_wire(range.0, range.1)).await;
                if model.committed.contains(&partition) {
                    assert_eq!(found.unwrap(), model.expected(partition, range));
                } else {
                    assert_eq!(found.unwrap_err().kind(), Kind::Conflict);
                }
            }
        }
        let resident: u64 = shuffle.lock().copies.values().map(|copy| copy.resident()).sum();
        assert_eq!(shuffle.resident(), resident, "the count of what is in memory is exact");
    }
    drop(store.remove(&key));
    drop(shuffle);
    assert_eq!(store.memory().used(), 0, "everything is given back");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn readers_get_what_the_model_says(steps in prop::collection::vec(step(), 1..60)) {
        runtime().block_on(run(steps));
    }
}

/// Appends, commits and spills one location with small and large batches; returns what a reader must get.
async fn spilled(store: &Arc<Store>, key: &ShuffleKey) -> (Arc<Shuffle>, Vec<Bytes>) {
    let shuffle = store.find_or_insert(key).unwrap();
    reserve(&shuffle, 0..1);
    let sizes = [20, 70_000, 5 << 20, 33, 300_000, 16];
    let batches: Vec<_> = sizes.iter().enumerate().map(|(at, len)| batch(at as i32, 0, 1, *len)).collect();
    batches.iter().for_each(|batch| assert!(append(store, &shuffle, 0, batch)));
    let commit = Commit { primaries: vec![file(0).location], ..Commit::default() };
    shuffle.lock().state.commit(&commit);
    assert!(store.flush().await.is_empty());
    assert_eq!(shuffle.resident(), 0);
    (shuffle, batches)
}

#[test]
fn every_flipped_bit_on_disk_is_an_error_and_not_an_answer() {
    runtime().block_on(async {
        let place = tempfile::tempdir().unwrap();
        let store = open(&place);
        let (shuffle, batches) = spilled(&store, &ShuffleKey::new("app", 1)).await;
        assert_eq!(read_all(&store, &shuffle, 0, MapRange::Whole).await.unwrap(), batches);
        let path = shuffle.lock().segments[0].path().to_owned();
        let whole = std::fs::read(&path).unwrap();
        let data_at =
            whole.windows(20).position(|window| window == &batches[0][..]).expect("the batches are there");
        for at in (data_at..data_at + batches.iter().map(Bytes::len).sum::<usize>()).step_by(99_991) {
            let mut rotten = whole.clone();
            rotten[at] ^= 4;
            std::fs::write(&path, &rotten).unwrap();
            let error = read_all(&store, &shuffle, 0, MapRange::Whole).await.unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "byte {at}: {error}");
        }
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let error = read_all(&store, &shuffle, 0, MapRange::Whole).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "a file cut short: {error}");
    });
}

#[test]
fn rot_ends_one_answer_in_the_middle_and_no_other() {
    runtime().block_on(async {
        let place = tempfile::tempdir().unwrap();
        let store = open(&place);
        let (shuffle, batches) = spilled(&store, &ShuffleKey::new("app", 1)).await;
        let path = shuffle.lock().segments[0].path().to_owned();
        let whole = std::fs::read(&path).unwrap();
        let last = batches.last().unwrap();
        let at = whole.windows(last.len()).position(|window| window == &last[..]).expect("it is there");
        let mut rotten = whole.clone();
        rotten[at + last.len() / 2] ^= 4;
        let pieces = async || {
            let stream = store.open_stream(&shuffle, file(0), MapRange::Whole, 1 << 30).unwrap();
            let mut reader = ChunkReader::new(&Arc::new(stream), &store, 0, 0, u64::MAX).unwrap();
            let mut pieces = Vec::new();
            while let Some(piece) = reader.next().await.transpose() {
                // Only its length: holding a piece would keep memory from the next.
                let len = |parts: Vec<Bytes>| parts.iter().map(Bytes::len).sum::<usize>();
                pieces.push(piece.map(len).map_err(|error| error.kind()));
                if pieces.last().is_some_and(Result::is_err) {
                    break;
                }
            }
            pieces
        };
        std::fs::write(&path, &rotten).unwrap();
        let found = pieces().await;
        assert!(found.len() > 1 && found.last() == Some(&Err(Kind::Corrupt)));
        assert_eq!(pieces().await, [Err(Kind::Corrupt)], "whoever comes again is told before it begins");
        std::fs::write(&path, &whole).unwrap();
        let bytes = pieces().await.into_iter().map(Result::unwrap).sum::<usize>();
        assert_eq!(
            bytes,
            batches.iter().map(Bytes::len).sum::<usize>(),
            "it is not held against what is whole"
        );
    });
}

#[test]
fn a_large_row_leaves_while_it_is_read_and_its_end_only_if_it_is_whole() {
    runtime().block_on(async {
        let place = tempfile::tempdir().unwrap();
        let store = open(&place);
        let (shuffle, batches) = spilled(&store, &ShuffleKey::new("app", 1)).await;
        let path = shuffle.lock().segments[0].path().to_owned();
        let mut rotten = std::fs::read(&path).unwrap();
        for row in [2, 4].map(|row| &batches[row]) {
            let at = rotten.windows(40).position(|window| window == &row[..40]).expect("it is there");
            rotten[at + row.len() - 1] ^= 4;
        }
        std::fs::write(&path, &rotten).unwrap();
        let stream = Arc::new(store.open_stream(&shuffle, file(0), MapRange::Whole, 1).unwrap());
        assert_eq!(stream.chunks().len(), batches.len());
        let read = async |row: u32, len: u64| {
            let mut reader = ChunkReader::new(&stream, &store, row, 0, len).unwrap();
            let mut found = 0;
            loop {
                match reader.next().await {
                    Ok(Some(parts)) => found += parts.iter().map(Bytes::len).sum::<usize>(),
                    Ok(None) => return Ok(found),
                    Err(error) => return Err((error.kind(), found)),
                }
            }
        };
        let (kind, left) = read(2, u64::MAX).await.unwrap_err();
        assert_eq!(kind, Kind::Corrupt);
        assert!((1..batches[2].len()).contains(&left), "{left} bytes of {} left", batches[2].len());
        assert_eq!(read(2, u64::MAX).await, Err((Kind::Corrupt, 0)), "whoever comes again is told at once");
        assert_eq!(
            read(4, 1000).await,
            Err((Kind::Corrupt, 0)),
            "who leaves the end out would not hear of it"
        );
    });
}

#[test]
fn a_torn_tail_costs_what_it_tore() {
    runtime().block_on(async {
        let place = tempfile::tempdir().unwrap();
        let key = ShuffleKey::new("app", 1);
        let store = open(&place);
        let (shuffle, batches) = spilled(&store, &key).await;
        let path = shuffle.lock().segments[0].path().to_owned();
        drop((store, shuffle));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend_from_slice(b"YSR1 torn");
        std::fs::write(&path, &bytes).unwrap();
        let store = open(&place);
        let recovered = store.recover();
        assert_eq!((recovered.locations, recovered.damaged_files), (1, 1));
        let shuffle = store.find(&key).unwrap();
        assert_eq!(read_all(&store, &shuffle, 0, MapRange::Whole).await.unwrap(), batches);
        drop((store, shuffle));
        // Without its seal the location is not offered, and its file is deleted.
        std::fs::write(&path, &bytes[..bytes.len() - 30]).unwrap();
        let store = open(&place);
        let recovered = store.recover();
        assert_eq!((recovered.locations, recovered.incomplete), (0, 1));
        assert!(!path.exists());
    });
}

#[test]
fn a_part_of_a_chunk_is_that_part() {
    runtime().block_on(async {
        let place = tempfile::tempdir().unwrap();
        let store = open(&place);
        let (shuffle, batches) = spilled(&store, &ShuffleKey::new("app", 1)).await;
        let stream = Arc::new(store.open_stream(&shuffle, file(0), MapRange::Whole, 64 << 20).unwrap());
        let whole = batches.concat();
        assert_eq!(stream.chunks().len(), 1);
        for (offset, len) in
            [(0, 0), (0, 1), (19, 70_000), (70_020, 1 << 20), (5_300_000, u64::MAX), (whole.len() as u64, 9)]
        {
            let mut reader = ChunkReader::new(&stream, &store, 0, offset, len).unwrap();
            let end = offset.saturating_add(len).min(whole.len() as u64);
            assert_eq!(reader.left(), end - offset);
            let mut found = Vec::new();
            while let Some(parts) = reader.next().await.unwrap() {
                parts.iter().for_each(|part| found.extend_from_slice(part));
            }
            assert!(found == whole[offset as usize..end as usize], "offset {offset}, {len} bytes");
        }
        let error = |chunk, offset| ChunkReader::new(&stream, &store, chunk, offset, 1).unwrap_err().kind();
        assert_eq!(error(1, 0), Kind::Invalid);
        assert_eq!(error(0, whole.len() as u64 + 1), Kind::Invalid);
        assert_eq!(store.read_memory().used(), 0);
    });
}

#[test]
fn memory_pressure_spills_and_a_failed_directory_keeps_the_batches() {
    runtime().block_on(async {
        let place = tempfile::tempdir().unwrap();
        let store = open(&place);
        let shuffle = store.find_or_insert(&ShuffleKey::new("app", 1)).unwrap();
        reserve(&shuffle, 0..1);
        let one = batch(0, 0, 1, 1000);
        assert!(append(&store, &shuffle, 0, &one));
        store.directories()[0].hangs();
        store.directories()[1].hangs();
        store.plan(&store.directories()[0], 1).expect("there is something to spill").give_up();
        let charge = store.memory().charge(store.memory().limit());
        assert!(store.pressure(false, store.memory().level(), None).exhausted);
        assert_eq!(store.flush().await.len(), 1, "it cannot leave memory");
        store.directories()[0].probe().unwrap();
        assert!(!store.pressure(false, store.memory().level(), None).exhausted);
        let spiller = tokio::spawn(Arc::clone(&store).run_spiller());
        while shuffle.resident() > 0 {
            tokio::task::yield_now().await;
        }
        drop(charge);
        spiller.abort();
        shuffle.lock().state.commit(&Commit { primaries: vec![file(0).location], ..Commit::default() });
        assert_eq!(read_all(&store, &shuffle, 0, MapRange::Whole).await.unwrap(), [one]);
    });
}
