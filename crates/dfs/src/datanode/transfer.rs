//! The data port.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::{error, warn};
use yeoul_net::{Connection, Handler, LogPace};

use super::checksums::{answer_block, answer_group};
use super::joining::transfer;
use super::moves::Moves;
use super::notices::{Notices, Told};
use super::packets::{Reader, invalid, read_message, write_message};
use super::receiver::{READ_MAX, receive, set_timeouts};
use super::replacing::replace;
use super::sender::{send, send_copy};
use super::store::{NewReplica, ReadableReplica, Store, StoreError};
use super::writers::Writers;
use crate::ids::{BlockId, GenerationStamp};
use crate::memory::{Charge, Memory, Party};
use crate::wire::proto::cluster::{Notice, Replica};
use crate::wire::proto::transfer::{
    BlockChecksum, BlockGroupChecksum, CopyBlock, ReadBlock, ReplaceBlock, TransferBlock, WriteBlock,
};
use crate::wire::transfer_op::{self, Operation, Status};
use crate::wire::{delimited, limits};

/// Part of the transfers, in quarters, that one address may have open.
const ADDRESS_QUARTERS: usize = 3;
/// How long a connection is kept for the next operation, as in HDFS (`dfs.datanode.socket.reuse.keepalive`).
const KEPT: Duration = Duration::from_secs(4);
/// How long a connection may take to bring its first operation.
const FIRST_MAX: Duration = Duration::from_secs(60);

/// How long the first request may take from its first byte to its end.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// Bytes of a first request that are waited for without a thread; few are longer.
const REQUEST_USUAL_BYTES: usize = 16 << 10;
/// Shortest and longest pause between looks whether the rest of a request has come.
const LOOK_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

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
    /// Who writes.
    pub writers: Writers,
    /// Moves of a balancer to and from here.
    pub moves: Moves,
    /// The memory of the process.
    pub memory: Memory,
    /// Held while a replica is deleted or found damaged and this is told of it: NameNodes hear of both in the order in which they
    /// happened, and never of damage to what they have been told is gone.
    changing: Mutex<()>,
    transfers_max: usize,
    open: AtomicUsize,
    doors: Mutex<Doors>,
}

/// Who has the transfers that are open, and how many were refused.
#[derive(Debug, Default)]
struct Doors {
    from: HashMap<Party, usize>,
    refused: LogPace,
}

impl Transfers {
    /// Serves the replicas of a store, at most so many at a time.
    pub fn new(store: Arc<Store>, notices: Vec<Arc<Notices>>, transfers_max: usize, memory: Memory) -> Self {
        let (changing, open, doors) = (Mutex::new(()), AtomicUsize::new(0), Mutex::default());
        Self {
            store,
            notices,
            writers: Writers::default(),
            moves: Moves::default(),
            memory,
            changing,
            transfers_max,
            open,
            doors,
        }
    }

    /// The same transfers with other limits of what a balancer moves.
    #[must_use]
    pub fn with_moves(self, moves: Moves) -> Self {
        Self { moves, ..self }
    }

    /// How many transfers are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Tells the NameNodes of a replica, and waits until they know.
    pub fn tell(&self, storage: &str, replica: Replica) {
        self.tell_moved(storage, replica, "");
    }

    /// Tells the NameNodes of a replica that is to take the place of a DataNode's, and waits until they know.
    pub fn tell_moved(&self, storage: &str, replica: Replica, delete_hint: &str) {
        let (storage, delete_hint) = (storage.to_owned(), delete_hint.to_owned());
        let notice = Notice { storage, replica: Some(replica), delete_hint, ..Notice::default() };
        for told in self.add(&notice) {
            told.wait();
        }
    }

    fn add(&self, notice: &Notice) -> Vec<Told> {
        self.notices.iter().map(|notices| notices.add(notice.clone())).collect()
    }

    fn doors(&self) -> MutexGuard<'_, Doors> {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says once in a while that transfers are refused.
    fn say_refused(&self, party: &Party, why: &io::Error) {
        let mut doors = self.doors();
        doors.refused.count();
        if let Some(refused) = doors.refused.take_due(Instant::now()) {
            warn!(%party, refused, %why, "transfers were refused: clients go to another DataNode");
        }
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
        self.add(&Notice { storage, replica: Some(replica), is_deleted: true, ..Notice::default() });
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
        self.add(&Notice { storage, replica: Some(replica), is_corrupt: true, ..Notice::default() });
    }

    /// Tells the NameNodes of a replica whose writer is gone.
    pub fn tell_abandoned(&self, replica: NewReplica<'_>) {
        if let Some((storage, replica)) = replica.abandoned() {
            self.add(&Notice { storage, replica: Some(replica), ..Notice::default() });
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
            Operation::Replace => {
                let request: ReplaceBlock = read_message(reader, "a request to replace a replica")?;
                replace(self, reader, &request)
            }
            Operation::Copy => {
                let request: CopyBlock = read_message(reader, "a request for a copy")?;
                send_copy(self, reader, &request)
            }
            Operation::Transfer => {
                let request: TransferBlock = read_message(reader, "a request to transfer")?;
                transfer(self, reader, &request)
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
        // A connection that brings no whole request has no thread, and gives way to others.
        let mut first = [0];
        let begun = tokio::time::timeout(FIRST_MAX, connection.stream.peek(&mut first)).await??;
        if begun == 0 || !is_first_request_whole(&connection.stream).await? {
            return Ok(());
        }
        connection.standing.work();
        let transfers = Arc::clone(&self.0);
        let party = Party::client(connection.peer.ip().to_canonical().to_string());
        let place = Place::take(&transfers, &party).await?;
        let stream = connection.stream.into_std()?;
        stream.set_nonblocking(false)?;
        // Ends the thread's reads and writes if this task is dropped before it has ended.
        let _closer = Closer(stream.try_clone()?);
        let served = tokio::task::spawn_blocking(move || {
            let served = place.transfers.serve_blocking(stream);
            drop(place);
            served
        });
        served.await.map_err(io::Error::other)?
    }
}

/// Waits until the first request has come whole, which it is left to a thread to read: false if its peer has gone.
///
/// # Errors
/// The request is none, or takes longer than [`REQUEST_MAX`].
async fn is_first_request_whole(stream: &tokio::net::TcpStream) -> io::Result<bool> {
    let begun = tokio::time::Instant::now();
    let mut wanted = transfer_op::PREFIX_BYTES + 1;
    loop {
        // A client sends a request at once, so there is hardly ever a second look.
        let mut bytes = vec![0; wanted];
        let come = stream.peek(&mut bytes).await?;
        match request_bytes(&bytes[..come])? {
            // The kernel may have no room for more until a thread reads.
            _ if come >= REQUEST_USUAL_BYTES => return Ok(true),
            Some(len) if len <= come => return Ok(true),
            Some(len) if wanted < len.min(REQUEST_USUAL_BYTES) => {
                wanted = len.min(REQUEST_USUAL_BYTES);
                continue;
            }
            _ if come == wanted => {
                wanted += 1; // one more byte of the length
                continue;
            }
            _ => {}
        }
        if come == 0 {
            return Ok(false);
        }
        let waited = begun.elapsed();
        if waited >= REQUEST_MAX {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "a request did not come whole in time"));
        }
        tokio::time::sleep(look_pause(waited)).await;
    }
}

/// Pause before the next look at a request that has been waited for so long: the rest comes soon, or is one of thousands that a peer
/// leaves half sent, whose looks would keep the processors from everybody else.
fn look_pause(waited: Duration) -> Duration {
    waited.clamp(LOOK_PAUSE.0, LOOK_PAUSE.1)
}

/// Bytes of the request that begins here, with what is before its message; none if they are not known yet.
fn request_bytes(begun: &[u8]) -> io::Result<Option<usize>> {
    let Some((prefix, rest)) = begun.split_first_chunk::<{ transfer_op::PREFIX_BYTES }>() else {
        return Ok(None);
    };
    if let Operation::Unsupported(_) = transfer_op::decode_prefix(*prefix).map_err(invalid)? {
        return Ok(Some(prefix.len())); // nothing more of it is read
    }
    let mut length = delimited::LengthReader::default();
    for (at, byte) in rest.iter().enumerate() {
        let pushed = length.push(*byte, "a request", limits::TRANSFER_MESSAGE_BYTES_MAX).map_err(invalid)?;
        if let Some(length) = pushed {
            return Ok(Some(prefix.len() + at + 1 + length));
        }
    }
    Ok(None)
}

/// A place among the transfers that may be open, and its memory.
struct Place {
    transfers: Arc<Transfers>,
    party: Party,
    charge: Option<Charge>,
}

impl Place {
    /// Takes a place, for which there may have to be memory first. Who gets none is closed, as HDFS does it: the writer and
    /// the reader go to another DataNode.
    async fn take(transfers: &Arc<Transfers>, party: &Party) -> io::Result<Self> {
        let mut place =
            Self::among(transfers, party).inspect_err(|error| transfers.say_refused(party, error))?;
        place.charge = transfers.memory.acquire(party, TRANSFER_BYTES, MEMORY_WAIT_MAX).await;
        if place.charge.is_none() {
            let error = io::Error::other("there is no memory for one more transfer");
            transfers.say_refused(party, &error);
            return Err(error);
        }
        Ok(place)
    }

    /// A place of the party's, which has no more of them than three quarters.
    fn among(transfers: &Arc<Transfers>, party: &Party) -> io::Result<Self> {
        let mut doors = transfers.doors();
        let address_max = transfers.transfers_max.div_ceil(4) * ADDRESS_QUARTERS;
        let from_here = doors.from.get(party).copied().unwrap_or_default();
        if from_here >= address_max {
            return Err(io::Error::other(format!("{from_here} transfers from one address are open")));
        }
        if transfers.open() >= transfers.transfers_max {
            return Err(io::Error::other(format!("{} transfers are open", transfers.transfers_max)));
        }
        *doors.from.entry(party.clone()).or_default() += 1;
        transfers.open.fetch_add(1, Ordering::Relaxed);
        drop(doors);
        Ok(Self { transfers: Arc::clone(transfers), party: party.clone(), charge: None })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut doors = self.transfers.doors();
        self.transfers.open.fetch_sub(1, Ordering::Relaxed);
        if let Entry::Occupied(mut from_here) = doors.from.entry(self.party.clone()) {
            *from_here.get_mut() -= 1;
            if *from_here.get() == 0 {
                from_here.remove();
            }
        }
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
    use std::io::Write;

    use super::super::store::Wanted;
    use super::super::test_peer::TestPeer;
    use super::*;

    const STAMP: GenerationStamp = GenerationStamp(1001);
    /// So many that some are found damaged and deleted at the same moment.
    const BLOCKS: i64 = 3000;

    #[test]
    fn a_request_that_does_not_come_whole_is_looked_at_a_few_times_only() {
        let (mut waited, mut looks) = (Duration::ZERO, 0);
        while waited < REQUEST_MAX {
            let pause = look_pause(waited);
            assert!(
                pause <= waited.max(Duration::from_millis(20)),
                "a rest that comes late waits no longer than it took"
            );
            (waited, looks) = (waited + pause, looks + 1);
        }
        assert!(looks <= 20, "{looks} looks");
    }

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
    fn a_request_is_whole_when_its_message_is() {
        let message = [7; 300];
        let request = [&[0, 28, 81, 0xac, 0x02][..], &message].concat();
        for cut in 0..=request.len() {
            let known = request_bytes(&request[..cut]).unwrap();
            assert_eq!(known, (cut >= 5).then_some(305), "{cut}");
        }
        assert_eq!(request_bytes(&[0, 28, 99]).unwrap(), Some(3));
        assert!(request_bytes(&[0, 28, 80, 0xff, 0xff, 0xff, 0xff, 0x07]).is_err(), "2 GB");
        assert!(request_bytes(b"GET /").is_err());
    }

    #[test]
    fn one_address_leaves_transfers_to_others() {
        let peer = TestPeer::with(1, b"some bytes");
        let take = |from: &str| Place::among(&peer.transfers, &Party::client(from));
        let mut open: Vec<Place> = (0..48).map(|_| take("10.0.0.1").unwrap()).collect();
        assert!(take("10.0.0.1").err().unwrap().to_string().contains("one address"));
        open.extend((0..16).map(|_| take("10.0.0.2").unwrap()));
        assert!(take("10.0.0.3").is_err(), "all 64 are open");
        drop(open);
        assert!(peer.transfers.open() == 0 && peer.transfers.doors().from.is_empty());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn half_sent_requests_keep_no_transfer_from_anybody() {
        let peer = TestPeer::with(1, b"some bytes");
        let listener = yeoul_net::Listener::bind("127.0.0.1:0").await.unwrap();
        let port = Arc::new(TransferPort(Arc::clone(&peer.transfers)));
        let serving = yeoul_net::serve_connections(listener, yeoul_net::Gate::new(500), port);
        let address = serving.address();
        let asked = move || {
            let mut occupants = Vec::new();
            for half in [&[0][..], &[0, 28, 81], &[0, 28, 80, 0x7f, 1, 2, 3]] {
                for _ in 0..100 {
                    let mut stream = TcpStream::connect(address).unwrap();
                    stream.write_all(half).unwrap();
                    occupants.push(stream);
                }
            }
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            stream.write_all(&[0, 28, 99]).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).expect("it is answered within a second");
            (occupants, String::from_utf8_lossy(&answer).into_owned())
        };
        let (_occupants, answer) = tokio::task::spawn_blocking(asked).await.unwrap();
        assert!(answer.contains("not supported"), "{answer}");
        assert_eq!(peer.transfers.open(), 0, "who has not sent a request has no thread");
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
