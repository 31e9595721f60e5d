//! The data port.

use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tracing::{debug, error};
use yeoul_net::{Connection, Handler};

use super::checksums::{answer_block, answer_group};
use super::notices::Notices;
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
    transfers_max: usize,
    open: AtomicUsize,
}

impl Transfers {
    /// Serves the replicas of a store, at most so many at a time.
    pub fn new(store: Arc<Store>, notices: Vec<Arc<Notices>>, transfers_max: usize, memory: Memory) -> Self {
        Self { store, notices, memory, transfers_max, open: AtomicUsize::new(0) }
    }

    /// How many transfers are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Tells the NameNodes of a replica, and waits until they know.
    pub fn tell(&self, storage: &str, replica: Replica) {
        let notice = Notice {
            storage: storage.to_owned(),
            replica: Some(replica),
            is_deleted: false,
            is_corrupt: false,
        };
        let told: Vec<_> = self.notices.iter().map(|notices| notices.add(notice.clone())).collect();
        for told in told {
            told.wait();
        }
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
        let Some((storage, replica)) = self.store.mark_damaged(id, stamp) else { return };
        error!(%id, stamp = stamp.0, storage, %why, "a replica is damaged");
        let notice = Notice { storage, replica: Some(replica), is_deleted: false, is_corrupt: true };
        for notices in &self.notices {
            notices.add(notice.clone());
        }
    }

    /// Tells the NameNodes of a replica whose writer is gone.
    pub fn tell_abandoned(&self, replica: NewReplica<'_>) {
        if let Some((storage, replica)) = replica.abandoned() {
            let notice = Notice { storage, replica: Some(replica), is_deleted: false, is_corrupt: false };
            for notices in &self.notices {
                notices.add(notice.clone());
            }
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
        let memory = &self.0.memory;
        let Some(_charge) = memory.connection() else {
            return Err(io::Error::other("there is no memory for one more connection"));
        };
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
