//! Tests of a store as a whole, with real files. What they share is here.

mod disks;
mod hung;
mod model;
mod open_files;
mod removed;
mod restarts;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;
use yeoul_disk::{Fault, FaultyDisk, Injection, Operation};

use super::Store;
use super::directory::{Directory, DirectoryOptions};
use super::read::{ChunkReader, Stream};
use super::shuffle::Shuffle;
use crate::ids::{AttemptId, FileName, LocationId, MapId, Mode, ShuffleKey};
use crate::wire::batch::{BATCH_HEADER_LEN, BatchHeader, ByteOrder};
use crate::worker::index::MapRange;
use crate::worker::state::{Commit, Pressure, PushKind, Reservation, SplitPolicy};

/// Time limit for what must happen.
pub(super) const WITHIN: Duration = Duration::from_secs(20);

pub(super) const CALM: Pressure = Pressure { leaving: false, memory_tight: false, exhausted: false };

/// A location to which the partition has moved: it may be reserved while others are in use.
pub(super) fn file(partition: i32) -> FileName {
    FileName { location: LocationId::new(partition, 1), mode: Mode::Primary }
}

pub(super) fn batch(map: i32, attempt: i32, number: i32, len: usize) -> Bytes {
    let header = BatchHeader {
        map: MapId(map),
        attempt: AttemptId(attempt),
        batch: number.into(),
        len: (len - BATCH_HEADER_LEN) as u32,
    };
    let mut bytes = bytes::BytesMut::new();
    header.encode(ByteOrder::Little, &mut bytes);
    bytes.resize(len, 0);
    for (at, byte) in bytes.iter_mut().enumerate().skip(BATCH_HEADER_LEN) {
        *byte = (at as i32 * 31 + map * 7 + attempt * 5 + number * 3) as u8;
    }
    bytes.freeze()
}

pub(super) fn append(store: &Store, shuffle: &Arc<Shuffle>, partition: i32, batch: &Bytes) -> bool {
    let mut contents = shuffle.lock();
    let header = BatchHeader::decode(batch, ByteOrder::Little).unwrap();
    let Ok(admission) = contents.state.judge(file(partition), header.map, PushKind::Single, CALM) else {
        return false;
    };
    contents.state.appended(file(partition), batch.len() as u64);
    contents.copy_mut(admission.slot, file(partition)).append(&header, batch.clone());
    shuffle.grew(batch.len() as u64, store.now_ms());
    true
}

async fn read_chunk(store: &Store, stream: &Arc<Stream>, chunk: u32) -> crate::Result<Vec<u8>> {
    let mut reader = ChunkReader::new(stream, store, chunk, 0, u64::MAX)?;
    let mut bytes = Vec::new();
    while let Some(parts) = reader.next().await? {
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
    }
    Ok(bytes)
}

pub(super) async fn read_all(
    store: &Store,
    shuffle: &Arc<Shuffle>,
    partition: i32,
    range: MapRange,
) -> crate::Result<Vec<Bytes>> {
    let stream = Arc::new(store.open_stream(shuffle, file(partition), range, 900)?);
    let mut batches = Vec::new();
    for (number, chunk) in stream.chunks().iter().enumerate() {
        let mut bytes = Bytes::from(read_chunk(store, &stream, number as u32).await?);
        assert_eq!(bytes.len() as u64, chunk.bytes);
        while !bytes.is_empty() {
            let header = BatchHeader::decode(&bytes, ByteOrder::Little).expect("a chunk holds whole batches");
            batches.push(bytes.split_to(BATCH_HEADER_LEN + header.len as usize));
        }
    }
    Ok(batches)
}

pub(super) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Directories without a reserve, where nothing waits long for what does not come.
pub(super) fn quick() -> DirectoryOptions {
    DirectoryOptions {
        reserve_bytes: Some(0),
        open_wait: Duration::from_millis(200),
        open_pause: Duration::from_millis(500),
        deletion_retry: Duration::from_millis(20),
        ..DirectoryOptions::default()
    }
}

pub(super) fn open(place: &tempfile::TempDir) -> Arc<Store> {
    open_with(place, &quick())
}

fn open_with(place: &tempfile::TempDir, options: &DirectoryOptions) -> Arc<Store> {
    let paths = [place.path().join("a"), place.path().join("b")];
    Arc::new(Store::open(&paths, 1 << 20, options).unwrap())
}

/// The same on a disk that fails when the test says so.
fn open_faulty(place: &tempfile::TempDir) -> (Arc<FaultyDisk>, Arc<Store>) {
    let disk = FaultyDisk::new();
    let store = open_with(place, &DirectoryOptions { disk: disk.clone(), ..quick() });
    (disk, store)
}

/// Has a disk hang in its next write to a segment of a directory, until the result is dropped; probes and reads go on.
fn hang_in_write(disk: &FaultyDisk, directory: &Directory) -> Injection {
    let home = directory.home().to_string_lossy();
    disk.inject(Fault::hangs(Operation::Write).times(1).within(home).within(".segment"))
}

/// Reserves those that are not here.
pub(super) fn reserve(shuffle: &Shuffle, partitions: impl Iterator<Item = i32>) {
    let mut contents = shuffle.lock();
    let wanted: Vec<_> = partitions
        .map(|id| Reservation { file: file(id), peer: None, split: SplitPolicy::default() })
        .filter(|wanted| contents.state.find(wanted.file).is_none())
        .collect();
    contents.state.reserve(None, &wanted, CALM, 100).unwrap();
}

/// Runs a test on a new store whose disk fails when the test says so.
fn with_faulty_store(test: impl AsyncFnOnce(tempfile::TempDir, Arc<FaultyDisk>, Arc<Store>)) {
    runtime().block_on(async {
        let place = tempfile::tempdir().unwrap();
        let (disk, store) = open_faulty(&place);
        test(place, disk, store).await;
    });
}

/// Runs a test on a new store with the directories of the model.
pub(super) fn with_store(test: impl AsyncFnOnce(tempfile::TempDir, Arc<Store>)) {
    runtime().block_on(async {
        let place = tempfile::tempdir().unwrap();
        let store = open(&place);
        test(place, store).await;
    });
}

pub(super) async fn until(mut condition: impl FnMut() -> bool) {
    let holds = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(WITHIN, holds).await.expect("it comes to pass");
}

/// A shuffle in memory with a batch of each length, each in its own partition.
pub(super) fn pushed(store: &Store, name: &str, lens: &[usize]) -> (Arc<Shuffle>, Vec<Bytes>) {
    let shuffle = store.find_or_insert(&ShuffleKey::new(name, 1)).unwrap();
    reserve(&shuffle, 0..lens.len() as i32);
    let batches: Vec<_> = lens.iter().enumerate().map(|(at, len)| batch(at as i32, 0, 1, *len)).collect();
    for (partition, batch) in batches.iter().enumerate() {
        assert!(append(store, &shuffle, partition as i32, batch));
    }
    (shuffle, batches)
}

pub(super) fn commit(shuffle: &Shuffle, partitions: i32) {
    let primaries = (0..partitions).map(|id| file(id).location).collect();
    shuffle.lock().state.commit(&Commit { primaries, ..Commit::default() });
}

/// Spills everything in memory to a directory, as a task.
pub(super) fn spill(store: &Arc<Store>, directory: usize) -> JoinHandle<bool> {
    let (store, directory) = (Arc::clone(store), Arc::clone(&store.directories()[directory]));
    let job = store.plan(&directory, u64::MAX).expect("there is something to spill");
    tokio::spawn(async move { store.spill(job, directory).await })
}

/// Drops the store, as the end of a worker does, and returns the next one with what it found.
pub(super) fn restart(
    place: &tempfile::TempDir,
    store: Arc<Store>,
    shuffle: Arc<Shuffle>,
) -> (Arc<Store>, usize) {
    drop((store, shuffle));
    let store = open(place);
    let recovered = store.recover();
    assert_eq!(recovered.damaged_files, 0);
    (store, recovered.locations)
}

pub(super) fn segments_below(path: &Path) -> Vec<PathBuf> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries.map(|entry| entry.unwrap().path()),
        // A folder that was removed since it was listed has none.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => panic!("{}: {error}", path.display()),
    };
    let below = |path: PathBuf| match path.is_dir() {
        true => segments_below(&path),
        false => vec![path],
    };
    let mut found: Vec<_> = entries.flat_map(below).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "segment"));
    found
}
