//! DataNodes for tests of what DataNodes ask one another: a store with some blocks, behind a data port.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use yeoul_disk::RealDisk;

use super::layout::{self, Folder};
use super::moves::Moves;
use super::notices::Notices;
use super::peer::{BlockName, PeerAddress};
use super::store::{Store, Wanted};
use super::transfer::Transfers;
use crate::ids::{BlockId, GenerationStamp};
use crate::memory::{MEMORY_BYTES_MIN, Memory};
use crate::wire::checksum::Chunking;

const POOL: &str = "BP-1-127.0.0.1-5";
const STAMP: GenerationStamp = GenerationStamp(1001);

/// The memory that threads which serve wait for.
static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().expect("a runtime for tests")
});

/// A DataNode that no NameNode knows.
pub struct TestPeer {
    pub transfers: Arc<Transfers>,
    pub address: PeerAddress,
    dir: tempfile::TempDir,
}

/// The name of a block, or of a group.
pub fn name(id: i64, length: usize) -> BlockName {
    BlockName { pool: POOL.to_owned(), id: BlockId(id), stamp: STAMP, length: length as u64 }
}

/// Bytes that no other seed gives.
pub fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(..)).take(length).collect()
}

impl TestPeer {
    /// A DataNode that has one block.
    pub fn with(id: i64, data: &[u8]) -> Self {
        Self::with_moves(id, data, Vec::new(), Moves::default())
    }

    /// The same with NameNodes to tell, and limits of what a balancer moves.
    pub fn with_moves(id: i64, data: &[u8], notices: Vec<Arc<Notices>>, moves: Moves) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let dirs = [dir.path().to_owned()];
        let memory = Memory::new(MEMORY_BYTES_MIN).unwrap();
        let store =
            Store::open(&dirs, 0, &(Arc::new(RealDisk) as _), memory.clone(), || "peer".to_owned()).unwrap();
        store.join_pool(POOL, "CID-1").unwrap();
        let chunking = Chunking::default();
        let mut replica = store.create(POOL, (BlockId(id), STAMP), &Wanted::default()).unwrap();
        let mut checksums = Vec::new();
        chunking.compute(data, &mut checksums);
        replica.write(0, data, &checksums).unwrap();
        replica.finalize().unwrap();
        let transfers = Arc::new(Transfers::new(Arc::new(store), notices, 64, memory).with_moves(moves));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = PeerAddress(listener.local_addr().unwrap().to_string());
        let own = Arc::clone(&transfers);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let own = Arc::clone(&own);
                std::thread::spawn(move || {
                    let _entered = RUNTIME.enter();
                    own.serve_blocking(stream.unwrap())
                });
            }
        });
        Self { transfers, address, dir }
    }

    /// The file with the bytes of a block.
    fn file(&self, id: i64) -> PathBuf {
        let folder = self.dir.path().join(Folder::Finalized.path(POOL));
        folder.join(layout::subfolder(BlockId(id))).join(layout::data_file(BlockId(id)))
    }

    /// The bytes of a whole block.
    pub fn whole(&self, id: i64) -> Vec<u8> {
        std::fs::read(self.file(id)).unwrap()
    }

    /// Changes a bit of a block.
    pub fn flip(&self, id: i64, at: usize) {
        let mut bytes = std::fs::read(self.file(id)).unwrap();
        bytes[at] ^= 4;
        std::fs::write(self.file(id), bytes).unwrap();
    }

    /// Cuts a block.
    pub fn cut(&self, id: i64, length: u64) {
        std::fs::OpenOptions::new().write(true).open(self.file(id)).unwrap().set_len(length).unwrap();
    }

    /// How many blocks the DataNode knows to be damaged.
    pub fn damaged(&self) -> usize {
        self.transfers.store.damaged_count()
    }
}

/// A DataNode that says nothing for a while in the middle of what it says.
pub struct SlowPeer {
    pub address: PeerAddress,
    asked: Arc<AtomicBool>,
}

impl SlowPeer {
    /// Passes on what another DataNode says, but for a rest after so many bytes.
    pub fn before(peer: &TestPeer, after: u64, rest: Duration) -> Self {
        let (to, asked) = (peer.address.0.clone(), Arc::new(AtomicBool::new(false)));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = PeerAddress(listener.local_addr().unwrap().to_string());
        let was_asked = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                was_asked.store(true, Ordering::Relaxed);
                let (from, to) = (stream.unwrap(), TcpStream::connect(&to).unwrap());
                let (mut requests, mut forward) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut requests, &mut forward));
                std::thread::spawn(move || {
                    let (mut said, mut from) = (to, from);
                    let _ = std::io::copy(&mut Read::by_ref(&mut said).take(after), &mut from);
                    let _ = from.flush();
                    std::thread::sleep(rest);
                    let _ = std::io::copy(&mut said, &mut from);
                });
            }
        });
        Self { address, asked }
    }

    /// True once somebody has connected.
    pub fn was_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}
