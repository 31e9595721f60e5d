//! A store of one volume and the one replica that tests of its writers look at.

use std::sync::Arc;

use yeoul_disk::RealDisk;

use super::{NewReplica, Store};
use crate::ids::{BlockId, GenerationStamp};
use crate::memory::{MEMORY_BYTES_MIN, Memory};
use crate::wire::checksum::Chunking;

/// The block pool.
pub const POOL: &str = "BP-1-127.0.0.1-5";
/// The block.
pub const ID: BlockId = BlockId(1_073_741_825);
/// The stamp that its first writer has.
pub const STAMP: GenerationStamp = GenerationStamp(1001);

/// The store in a directory, as a DataNode opens it when it starts.
pub fn open(place: &tempfile::TempDir) -> Store {
    let memory = Memory::new(MEMORY_BYTES_MIN).unwrap();
    let dirs = [place.path().to_owned()];
    let store = Store::open(&dirs, 0, &(Arc::new(RealDisk) as _), memory, || "one".to_owned()).unwrap();
    store.join_pool(POOL, "CID-1").unwrap();
    store
}

/// The first bytes of the block, which do not repeat.
pub fn content(length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(7);
    std::iter::repeat_with(|| random.u8(..)).take(length).collect()
}

/// Writes the bytes of the block between two places, with their checksums.
pub fn write(replica: &mut NewReplica<'_>, from: usize, to: usize) {
    let (data, mut checksums) = (content(to), Vec::new());
    Chunking::default().compute(&data[from..], &mut checksums);
    replica.write(from as u64, &data[from..], &checksums).unwrap();
}

/// The bytes that a reader gets, all checked.
pub fn read(store: &Store) -> Vec<u8> {
    let replica = store.open_replica(POOL, ID, STAMP).unwrap();
    let mut bytes = vec![0; replica.visible.length as usize];
    replica.read_checked(0, &mut bytes, &mut Vec::new()).unwrap();
    bytes
}

/// The bytes that all volumes count.
pub fn used(store: &Store) -> u64 {
    store.storages().iter().map(|storage| storage.used).sum()
}
