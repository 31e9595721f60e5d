//! The data port.

use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{debug, error};
use yeoul_net::{Connection, Handler};

use super::checksums::{answer_block, answer_group};
use super::notices::{Notices, Told};
use super::packets::{Reader, invalid, read_message, write_message};
use super::receiver::{READ_MAX, receive, set_timeouts};
use super::sender::send;
use super::store::{NewReplica, ReadableReplica, Store, StoreError};
use crate::ids::{BlockId, GenerationStamp};
use crate::memory::{Charge, Memory, Party};
use crate::wire::proto::cluster::{Notice, Replica};
use crate::wire::proto::transfer::{BlockChecksum, BlockGroupChecksum, ReadBlock, WriteBlock};
use crate::wire::transfer_op::{self, Operation, Status};

/// How long a connection is kept for the next operation, as in HDFS (`dfs.datanode.socket.reuse.keepalive`).
const KEPT: Duration = Duration::from_secs(4);
/// How long a connection may take to bring its first operation.
const FIRST_MAX: Duration = Duration::from_secs(60);

/// How long a transfer waits for memory. Clients give up after a minute.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(20);
/// Bytes of memory of a transfer: two threads, buffers of what comes, and a packet of the usual size or one that is sent.
const TRANSFER_BYTES: u64 = 512 << 10;

/// Serves blocks: each connection that has begun an operation has a thread, as disks block.
#[derive(Debug)]
pub struct Transfers {
    /// The replicas.
    pub store: Arc<Store>,
    /// What the NameNodes have yet to be told, one for each.
    pub notices: Vec<Arc<Notices>>,
    /// The memory of the process.
    pub memory: Memory,
    /// Held while a replica is deleted or found damaged and this is told of it: NameNodes hear of both in the order in which they
    /// happened, and never of damage to what they have been told is gone.
    changing: Mutex<()>,
    transfers_max: usize,
    open: AtomicUsize,
}

impl Transfers {
    /// Serves the replicas of a store, at most so many at a time.
    pub fn new(store: Arc<Store>, notices: Vec<Arc<Notices>>, transfers_max: usize, memory: Memory) -> Self {
        let (changing, open) = (Mutex::new(()), AtomicUsize::new(0));
        Self { store, notices, memory, changing, transfers_max, open }
    }

    /// How many transfers are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Tells the NameNodes of a replica, and waits until they know.
    pub fn tell(&self, storage: &str, replica: Replica) {
        let storage = storage.to_owned();
        let notice = Notice { storage, replica: Some(replica), is_deleted: false, is_corrupt: false };
        for told in self.add(&notice) {
            told.wait();
        }
    }

    fn add(&self, notice: &Notice) -> Vec<Told> {
        self.notices.iter().map(|notices| notices.add(notice.clone())).collect()
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes a replica that is no newer than `stamp`, and tells the NameNodes. Of one that is not here they are told, too: who orders
    /// it believes it to be in this storage.
    pub fn delete(&self, storage: &str, id: BlockId, stamp: GenerationStamp) {
        let _changing = self.changing();
        let (storage, replica) = match self.store.delete(id, stamp) {
            Some((volume, replica)) => (self.store.storage(volume), replica),
            None if !self.store.has(id) => {
                (storage, Replica { id: id.0, stamp: stamp.0, ..Replica::default() })
            }
            None => return,
        };
        let storage = storage.to_owned();
        self.add(&Notice { storage, replica: Some(replica), is_deleted: true, is_corrupt: false });
    }

    /// Opens a replica for a reader. One without its files is damaged.
    ///
    /// # Errors
    /// As of [`Store::open_replica`].
    pub fn open_replica(
        &self,
        pool: &str,
        id: BlockId,
        stamp: GenerationStamp,
    ) -> Result<ReadableReplica, StoreError> {
        let opened = self.store.open_replica(pool, id, stamp);
        opened.inspect_err(|error| {
            let is_damage = match error {
                StoreError::Damaged { .. } => true,
                StoreError::Disk(error) => error.kind() == io::ErrorKind::NotFound,
                _ => false,
            };
            if is_damage {
                self.tell_damaged(id, stamp, error);
            }
        })
    }

    /// Tells the NameNodes that a whole replica is not what was written; they hear it again with each report until it is gone.
    pub fn tell_damaged(&self, id: BlockId, stamp: GenerationStamp, why: &dyn std::fmt::Display) {
        let _changing = self.changing();
        let Some((storage, replica)) = self.store.mark_damaged(id, stamp) else { return };
        error!(%id, stamp = stamp.0, storage, %why, "a replica is damaged");
        self.add(&Notice { storage, replica: Some(replica), is_deleted: false, is_corrupt: true });
    }

    /// Tells the NameNodes of a replica whose writer is gone.
    pub fn tell_abandoned(&self, replica: NewReplica<'_>) {
        if let Some((storage, replica)) = replica.abandoned() {
            self.add(&Notice { storage, replica: Some(replica), is_deleted: false, is_corrupt: false });
        }
    }

    /// Serves a connection until it ends.
    pub fn serve_blocking(&self, stream: TcpStream) -> io::Result<()> {
        set_timeouts(&stream)?;
        let mut reader = Reader::with_capacity(64 << 10, stream);
        loop {
            let mut prefix = [0; transfer_op::PREFIX_BYTES];
            reader.read_exact(&mut prefix)?;
            reader.get_ref().set_read_timeout(Some(READ_MAX))?;
            if !self.serve_one(&mut reader, prefix)? {
                return Ok(());
            }
            reader.get_ref().set_read_timeout(Some(KEPT))?;
        }
    }

    /// Serves an operation: true if the connection can be used again.
    fn serve_one(&self, reader: &mut Reader, prefix: [u8; transfer_op::PREFIX_BYTES]) -> io::Result<bool> {
        match transfer_op::decode_prefix(prefix).map_err(invalid)? {
            Operation::Write => {
                let request: WriteBlock = read_message(reader, "a request to write")?;
                receive(self, reader, &request)
            }
            Operation::Read => {
                let request: ReadBlock = read_message(reader, "a request to read")?;
                send(self, reader, &request)
            }
            Operation::BlockChecksum => {
                let request: BlockChecksum = read_message(reader, "a request for a checksum")?;
                answer_block(self, reader, &request)
            }
            Operation::BlockGroupChecksum => {
                let request: BlockGroupChecksum = read_message(reader, "a request for a group's checksum")?;
                answer_group(self, reader, &request)
            }
            Operation::Unsupported(number) => {
                let name = transfer_op::name_of_unsupported(number);
                let message = format!("operation {name} ({number}) is not supported by yeoul dfs");
                write_message(reader.get_mut(), &transfer_op::refusal(Status::ErrorUnsupported, message))?;
                Ok(false)
            }
        }
    }
}

/// The handler of the data port.
#[derive(Debug)]
pub struct TransferPort(pub Arc<Transfers>);

impl Handler for TransferPort {
    async fn serve(&self, connection: Connection) -> io::Result<()> {
        // A connection that brings nothing has no thread.
        let mut first = [0];
        if tokio::time::timeout(FIRST_MAX, connection.stream.peek(&mut first)).await?? == 0 {
            return Ok(());
        }
        let transfers = Arc::clone(&self.0);
        let party = Party::client(connection.peer.ip().to_canonical().to_string());
        let place = Place::take(&transfers, &party).await?;
        let stream = connection.stream.into_std()?;
        stream.set_nonblocking(false)?;
        // Ends the thread's reads and writes if this task is dropped before it has ended.
        let _closer = Closer(stream.try_clone()?);
        let served = tokio::task::spawn_blocking(move || {
            let served = place.0.serve_blocking(stream);
            drop(place);
            served
        });
        served.await.map_err(io::Error::other)?
    }
}

/// A place among the transfers that may be open, and its memory.
struct Place(Arc<Transfers>, Option<Charge>);

impl Place {
    /// Takes a place, for which there may have to be memory first. Who gets none is closed, as HDFS does it: the writer and
    /// the reader go to another DataNode.
    async fn take(transfers: &Arc<Transfers>, party: &Party) -> io::Result<Self> {
        if transfers.open.fetch_add(1, Ordering::Relaxed) >= transfers.transfers_max {
            transfers.open.fetch_sub(1, Ordering::Relaxed);
            debug!(max = transfers.transfers_max, "too many transfers");
            return Err(io::Error::other("too many transfers"));
        }
        let mut place = Self(Arc::clone(transfers), None);
        place.1 = transfers.memory.acquire(party, TRANSFER_BYTES, MEMORY_WAIT_MAX).await;
        if place.1.is_none() {
            debug!(%party, "no memory for a transfer");
            return Err(io::Error::other("there is no memory for one more transfer"));
        }
        Ok(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Closer(TcpStream);

impl Drop for Closer {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::Wanted;
    use super::super::test_peer::TestPeer;
    use super::*;

    const STAMP: GenerationStamp = GenerationStamp(1001);
    /// So many that some are found damaged and deleted at the same moment.
    const BLOCKS: i64 = 3000;

    /// The transfers of a DataNode with block 1, whose NameNode is there.
    fn told_transfers() -> (TestPeer, Transfers) {
        let (peer, notices) = (TestPeer::with(1, b"some bytes"), Arc::new(Notices::default()));
        notices.connected();
        let Transfers { store, memory, .. } = &*peer.transfers;
        let transfers = Transfers::new(Arc::clone(store), vec![notices], 64, memory.clone());
        (peer, transfers)
    }

    /// What the NameNode is told, in order: the block, whether it is deleted, whether it is corrupt.
    fn told(transfers: &Transfers) -> Vec<(i64, bool, bool)> {
        let batches = std::iter::from_fn(|| transfers.notices[0].take());
        let shown = |notice: Notice| (notice.replica.unwrap().id, notice.is_deleted, notice.is_corrupt);
        batches.flat_map(|batch| batch.notices).map(shown).collect()
    }

    #[test]
    fn what_is_deleted_is_told_behind_damage_and_also_if_it_was_not_here() {
        let (peer, transfers) = told_transfers();
        let delete = |id, stamp| transfers.delete("DS-1", BlockId(id), GenerationStamp(stamp));
        transfers.tell_damaged(BlockId(1), STAMP, &"a test");
        delete(1, 1000);
        assert_eq!(told(&transfers), [(1, false, true)], "what is here is newer");
        transfers.tell_damaged(BlockId(1), STAMP, &"a test");
        delete(1, 1001);
        transfers.tell_damaged(BlockId(1), STAMP, &"a test");
        assert_eq!((told(&transfers), peer.damaged()), (vec![(1, true, false)], 0), "it is gone");
        delete(1, 1001);
        let batch = transfers.notices[0].take().unwrap();
        let notice = &batch.notices[0];
        assert!(notice.is_deleted && notice.storage == "DS-1" && notice.replica.unwrap().stamp == 1001);
    }

    #[test]
    fn nobody_hears_of_damage_to_what_is_gone_while_both_happen_at_once() {
        let (_peer, transfers) = told_transfers();
        let pool = transfers.store.pool();
        for id in 2..BLOCKS {
            transfers
                .store
                .create(&pool, (BlockId(id), STAMP), &Wanted::default())
                .unwrap()
                .finalize()
                .unwrap();
        }
        let both = std::sync::Barrier::new(2);
        let each = |change: &dyn Fn(BlockId)| {
            for id in 1..BLOCKS {
                both.wait();
                change(BlockId(id));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| each(&|id| transfers.tell_damaged(id, STAMP, &"a test")));
            each(&|id| transfers.delete("DS-1", id, STAMP));
        });
        let mut gone = std::collections::BTreeSet::new();
        for (id, is_deleted, _) in told(&transfers) {
            assert!(!gone.contains(&id), "block {id} is gone, and then damaged");
            gone.extend(is_deleted.then_some(id));
        }
        assert_eq!(gone.len() as i64, BLOCKS - 1);
    }
}
