//! Takes a replica from a writer, and passes it on.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use tracing::{debug, warn};

use super::packets::{Packet, Reader, read_message, write_message};
use super::responder::{Done, respond};
use super::store::{NewReplica, Resumed, StoreError, Wanted};
use super::transfer::Transfers;
use crate::ids::{BlockId, GenerationStamp};
use crate::memory::{Memory, Party};
use crate::wire::checksum::Chunking;
use crate::wire::proto::shared::DatanodeInfo;
use crate::wire::proto::transfer::{Response, WriteBlock};
use crate::wire::transfer_op::{self, Operation, Stage, Status};

/// Packets that have been written and wait for their acknowledgement. The stock client has 80 under way.
const PACKETS_UNACKNOWLEDGED_MAX: usize = 256;
/// How long a connection to the next node may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long the next node may take to answer, and each read and write: HDFS's, of a minute and of eight.
pub const READ_MAX: Duration = Duration::from_secs(60);
/// How long a peer may leave bytes that it was sent.
pub const WRITE_MAX: Duration = Duration::from_secs(480);

/// How much longer a node waits for the one below it, for each that is below: of several that wait for a silent one, the
/// nearest gives up first, and blames the right one. HDFS's, of its clients too.
const READ_LONGER: Duration = Duration::from_secs(5);
/// How long the former writer of a block may take to end: it may wait for a disk.
pub const WRITER_ENDS_MAX: Duration = Duration::from_secs(10);

/// The block that a request is for.
fn block_of(request: &WriteBlock) -> (BlockId, GenerationStamp) {
    let block = &request.header.base.block;
    (BlockId::from_wire(block.id), GenerationStamp(block.stamp))
}

/// Carries out a write: true if the connection can be used again.
pub fn receive(transfers: &Transfers, reader: &mut Reader, request: &WriteBlock) -> io::Result<bool> {
    let refuse = |reader: &mut Reader, status, message: String| {
        debug!(message, "a write is refused");
        write_message(reader.get_mut(), &transfer_op::refusal(status, message)).map(|()| false)
    };
    let stage = Stage::of(request);
    if let Stage::Other(number) = stage {
        let message = format!("no write begins with stage {number}");
        return refuse(reader, Status::ErrorUnsupported, message);
    }
    let (id, _) = block_of(request);
    let is_back = matches!(stage, Stage::Append | Stage::StreamingRecovery | Stage::CloseRecovery);
    if is_back {
        // Only who has a later stamp may end the writer that is there.
        let pool = &request.header.base.block.pool;
        if let Err(error) = transfers.store.check_resumable(pool, id, &resumed(request)) {
            return refuse(reader, Status::Error, error.to_string());
        }
        if !transfers.writers.stop(id, WRITER_ENDS_MAX) {
            return refuse(reader, Status::Error, format!("the former writer of {id} does not end"));
        }
    }
    if stage == Stage::CloseRecovery {
        return close(transfers, reader, request);
    }
    let chunking = match Chunking::from_message(&request.requested_checksum) {
        Ok(chunking) => chunking,
        Err(error) => return refuse(reader, Status::ErrorInvalid, error.to_string()),
    };
    let pool = &request.header.base.block.pool;
    let opened = match stage {
        Stage::Append => transfers.store.append(pool, id, &resumed(request)),
        _ if is_back => transfers.store.resume(pool, id, &resumed(request)),
        _ => create(transfers, request, chunking),
    };
    let replica = match opened {
        Ok(replica) => replica,
        Err(error) => {
            let status =
                if matches!(error, StoreError::Exists(_)) { Status::ErrorExists } else { Status::Error };
            return refuse(reader, status, error.to_string());
        }
    };
    // Of another kind they may be: a client appends with its own.
    let (has, says) = (replica.chunking().bytes_per_checksum(), chunking.bytes_per_checksum());
    if has != says {
        let message =
            format!("{id} has a checksum for each {has} bytes, and its writer makes one for each {says}");
        drop(replica);
        return refuse(reader, Status::ErrorInvalid, message);
    }
    let writing = transfers.writers.begin(id);
    writing.add(reader.get_ref())?;
    let below = match request.targets.split_first() {
        None => None,
        Some((next, further)) => match connect_below(request, next, further) {
            Ok(below) => Some(below),
            Err(blamed) => {
                transfers.tell_abandoned(replica);
                return blame(reader, id, blamed);
            }
        },
    };
    let ready = Response { first_bad_link: Some(String::new()), ..Response::default() };
    let begun = below.iter().try_for_each(|below| writing.add(below));
    if let Err(error) = begun.and_then(|()| write_message(reader.get_mut(), &ready)) {
        transfers.tell_abandoned(replica);
        return Err(error);
    }
    run_pipeline(transfers, reader, replica, below, request, chunking)
}

/// Begins a replica.
fn create<'a>(
    transfers: &'a Transfers,
    request: &WriteBlock,
    chunking: Chunking,
) -> Result<NewReplica<'a>, StoreError> {
    let block = &request.header.base.block;
    // No client: another DataNode makes the replica, which is whole or nothing.
    let is_copy = request.header.client_name.is_empty();
    let wanted = Wanted { storage: request.storage_id(), bytes: block.length(), chunking, is_copy };
    transfers.store.create(&block.pool, block_of(request), &wanted)
}

/// What a writer says that goes on.
fn resumed(request: &WriteBlock) -> Resumed {
    Resumed {
        old: block_of(request).1,
        new: GenerationStamp(request.latest_stamp),
        acknowledged: request.min_bytes_received,
        sent: request.max_bytes_received,
    }
}

/// Ends the replica of a writer that has sent all of it, here and on the nodes below: nothing follows.
fn close(transfers: &Transfers, reader: &mut Reader, request: &WriteBlock) -> io::Result<bool> {
    let (id, pool) = (block_of(request).0, &request.header.base.block.pool);
    let (storage, whole) = match transfers.store.finalize_again(pool, id, &resumed(request)) {
        Ok(ended) => ended,
        Err(error) => {
            let refusal = transfer_op::refusal(Status::Error, error.to_string());
            return write_message(reader.get_mut(), &refusal).map(|()| false);
        }
    };
    if let Some((next, further)) = request.targets.split_first()
        && let Err(blamed) = connect_below(request, next, further)
    {
        return blame(reader, id, blamed);
    }
    transfers.tell(&storage, whole);
    let ready = Response { first_bad_link: Some(String::new()), ..Response::default() };
    write_message(reader.get_mut(), &ready).map(|()| false)
}

/// Names the node below that does not answer, so that the writer leaves it out.
fn blame(reader: &mut Reader, id: BlockId, (link, error): (String, io::Error)) -> io::Result<bool> {
    warn!(%id, link, %error, "the next node of a pipeline does not answer");
    let bad = Response {
        status: Status::Error as i32,
        first_bad_link: Some(link),
        message: Some(error.to_string()),
        ..Response::default()
    };
    write_message(reader.get_mut(), &bad).map(|()| false)
}

/// Connects to the next node and passes the request on; the answer is awaited. An error names the node that is to blame.
fn connect_below(
    request: &WriteBlock,
    next: &DatanodeInfo,
    further: &[DatanodeInfo],
) -> Result<TcpStream, (String, io::Error)> {
    let link = format!("{}:{}", next.id.ip, next.id.transfer_port);
    let blame = |error| (link.clone(), error);
    let address = link.to_socket_addrs().map_err(blame)?.next();
    let address = address.ok_or_else(|| blame(io::ErrorKind::AddrNotAvailable.into()))?;
    let mut stream = TcpStream::connect_timeout(&address, CONNECT_MAX).map_err(blame)?;
    let prepared = stream.set_nodelay(true).and_then(|()| set_timeouts(&stream));
    let patience = READ_MAX + READ_LONGER * u32::try_from(1 + further.len()).unwrap_or(u32::MAX);
    prepared.and_then(|()| stream.set_read_timeout(Some(patience))).map_err(blame)?;
    let shift = |from: &[i32]| from.get(1..).unwrap_or_default().to_vec();
    let passed = WriteBlock {
        targets: further.to_vec(),
        storage_type: request.target_storage_types.first().copied(),
        target_storage_types: shift(&request.target_storage_types),
        pinning: request.target_pinnings.first().copied(),
        target_pinnings: request.target_pinnings.get(1..).unwrap_or_default().to_vec(),
        storage_id: request.target_storage_ids.first().cloned(),
        target_storage_ids: request.target_storage_ids.get(1..).unwrap_or_default().to_vec(),
        ..request.clone()
    };
    stream.write_all(&transfer_op::encode(Operation::Write, &passed)).map_err(blame)?;
    // Exactly the response is read: what follows are acknowledgements, for the responder.
    let response: Response = read_message(&mut stream, "the response of the next node").map_err(blame)?;
    if response.status == Status::Success as i32 {
        return Ok(stream);
    }
    let bad = response.first_bad_link().to_owned();
    let bad = if bad.is_empty() { link.clone() } else { bad };
    Err((bad, io::Error::other(response.message().to_owned())))
}

/// Limits how long a peer may be silent.
pub fn set_timeouts(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(READ_MAX))?;
    stream.set_write_timeout(Some(WRITE_MAX))
}

/// Takes the packets, while another thread sends the acknowledgements.
fn run_pipeline(
    transfers: &Transfers,
    reader: &mut Reader,
    replica: NewReplica<'_>,
    below: Option<TcpStream>,
    request: &WriteBlock,
    chunking: Chunking,
) -> io::Result<bool> {
    let (above, below_acks) =
        (reader.get_ref().try_clone()?, below.as_ref().map(TcpStream::try_clone).transpose()?);
    let block = (replica.id, replica.stamp);
    let peer = above.peer_addr()?.ip().to_canonical().to_string();
    let (done, waiting) = sync_channel(PACKETS_UNACKNOWLEDGED_MAX);
    std::thread::scope(|scope| {
        let responder = scope.spawn(move || respond(&transfers.store, block, above, below_acks, &waiting));
        let is_client = !request.header.client_name.is_empty();
        // The last node checks for all of them, and each one what another DataNode sends.
        let verify = below.is_none() || !is_client;
        let (memory, party) = (&transfers.memory, &Party::server(peer));
        let is_left = Stage::of(request) == Stage::TransferUnfinished;
        let mut packets = Packets { reader, memory, party, below, chunking, verify, is_left, done };
        let received = packets.receive(transfers, replica);
        let Packets { below, done, .. } = packets;
        drop(done);
        if received.is_err() {
            // Neither side is to wait for more.
            if let Some(below) = &below {
                let _ = below.shutdown(Shutdown::Both);
            }
        }
        let responded = responder.join().unwrap_or_else(|_| Err(io::Error::other("the responder panicked")));
        received.and(responded).map(|()| true)
    })
}

struct Packets<'a> {
    reader: &'a mut Reader,
    memory: &'a Memory,
    /// Long packets overtake transfers that wait to begin.
    party: &'a Party,
    below: Option<TcpStream>,
    chunking: Chunking,
    verify: bool,
    /// The replica is left to the writer that is to go on with it.
    is_left: bool,
    done: SyncSender<Done>,
}

impl Packets<'_> {
    /// Takes packets until the last one; the replica is whole then, and the NameNode knows.
    fn receive(&mut self, transfers: &Transfers, mut replica: NewReplica<'_>) -> io::Result<()> {
        loop {
            match self.receive_one(&mut replica) {
                Ok(Some(last)) => {
                    let ended = if self.is_left { replica.leave_to_writer() } else { replica.finalize() };
                    let (storage, whole) = ended.map_err(io::Error::other)?;
                    transfers.tell(&storage, whole);
                    return self.acknowledge(last);
                }
                Ok(None) => {}
                Err(error) => {
                    transfers.tell_abandoned(replica);
                    return Err(error);
                }
            }
        }
    }

    /// Takes a packet: what is to be acknowledged, if it is the last one.
    fn receive_one(&mut self, replica: &mut NewReplica<'_>) -> io::Result<Option<Done>> {
        let (packet, _charge) = Packet::read(self.reader, self.chunking, |bytes| {
            let room = self.memory.acquire_blocking(self.party, bytes, READ_MAX);
            room.ok_or_else(|| io::Error::other("there is no memory for a long packet"))
        })?;
        let header = packet.header;
        // Passed on before it is written: the next node writes at the same time. One that is gone shows in the
        // acknowledgements, which blame it.
        if let Some(below) = &mut self.below
            && let Err(error) = below.write_all(packet.as_bytes())
        {
            debug!(%error, "the next node of a pipeline is gone");
        }
        let mut done = Done {
            sequence: header.sequence,
            status: Status::Success,
            visible: None,
            is_last: header.is_last,
        };
        let is_translated = self.chunking != replica.chunking();
        if (self.verify || is_translated)
            && let Some(chunk) = self.chunking.first_mismatch(packet.data(), packet.checksums())
        {
            done.status = Status::ErrorChecksum;
            self.acknowledge(done)?;
            let message = format!("chunk {chunk} of packet {} came damaged", header.sequence);
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        if header.data > 0 {
            let mut translated = Vec::new();
            if is_translated {
                replica.chunking().compute(packet.data(), &mut translated);
            }
            let checksums = if is_translated { &translated } else { packet.checksums() };
            done.visible = Some(replica.write(header.offset, packet.data(), checksums)?);
        }
        if header.is_last && header.offset != replica.length() {
            let (said, has) = (header.offset, replica.length());
            let message = format!("the writer ends {} at {said} bytes, and {has} came", replica.id);
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        if header.sync {
            replica.sync()?;
        }
        if header.is_last {
            return Ok(Some(done));
        }
        self.acknowledge(done)?;
        Ok(None)
    }

    fn acknowledge(&self, done: Done) -> io::Result<()> {
        self.done.send(done).map_err(|_| io::Error::other("the acknowledgements have ended"))
    }
}
