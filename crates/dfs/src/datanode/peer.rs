//! What a DataNode asks other DataNodes for, over their data ports.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use bytes::BytesMut;
use prost::Message;

use super::packets::{Packet, Reader, invalid, read_message, write_message};
use super::receiver::{READ_MAX, set_timeouts};
use crate::ids::{BlockId, GenerationStamp};
use crate::wire::checksum::Chunking;
use crate::wire::packet::Header;
use crate::wire::proto::shared::{ExtendedBlock, Token};
use crate::wire::proto::transfer::{
    BaseHeader, ClientHeader, ClientReadStatus, CopyBlock, PipelineAck, ReadBlock, Response, WriteBlock,
};
use crate::wire::transfer_op::{self, Operation, Status};

/// Bytes of a packet beyond the stock client's: a DataNode sends 256 KiB, or one chunk of at most 1 MiB. A repair has room for
/// them.
const PACKET_LONGER_BYTES_MAX: u64 = (1 << 20) + (64 << 10);

/// How long a connection to another DataNode may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long another DataNode may be silent while it serves this one.
const SILENT_MAX: Duration = READ_MAX;
/// Packets that a target has yet to acknowledge.
const PACKETS_UNACKNOWLEDGED_MAX: usize = 16;
/// A reader's word that it has all, and that it agrees with its checksums.
const CHECKSUM_OK: i32 = 6;

/// A block, or the internal block of a group, by which DataNodes know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockName {
    /// The block pool.
    pub pool: String,
    /// The block.
    pub id: BlockId,
    /// Its stamp.
    pub stamp: GenerationStamp,
    /// Its bytes.
    pub length: u64,
}

impl BlockName {
    /// The header of a request.
    pub fn to_header(&self) -> BaseHeader {
        let block = ExtendedBlock {
            pool: self.pool.clone(),
            id: self.id.to_wire(),
            stamp: self.stamp.0,
            length: Some(self.length),
        };
        BaseHeader { block, token: Some(Token::default()) }
    }

    fn to_client_header(&self) -> ClientHeader {
        // No client: the peer sees that a DataNode asks.
        ClientHeader { base: self.to_header(), client_name: String::new() }
    }
}

/// A peer's data port, `ip:port`, as requests and orders name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerAddress(pub String);

impl PeerAddress {
    /// From its parts in a message.
    pub fn new(ip: &str, port: u32) -> Self {
        Self(if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") })
    }

    fn connect(&self) -> io::Result<Reader> {
        let address = self.0.to_socket_addrs()?.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let stream = TcpStream::connect_timeout(&address, CONNECT_MAX)?;
        stream.set_nodelay(true)?;
        set_timeouts(&stream)?;
        stream.set_read_timeout(Some(SILENT_MAX))?;
        Ok(Reader::with_capacity(64 << 10, stream))
    }
}

/// Asks a peer for something that it answers in one message.
///
/// # Errors
/// The peer is not there, or refuses.
pub fn ask(peer: &PeerAddress, operation: Operation, request: &impl Message) -> io::Result<Response> {
    let mut reader = peer.connect()?;
    reader.get_mut().write_all(&transfer_op::encode(operation, request))?;
    succeeded(read_message(&mut reader, "the response of a DataNode")?)
}

fn succeeded(response: Response) -> io::Result<Response> {
    if response.status == Status::Success as i32 {
        return Ok(response);
    }
    Err(io::Error::other(format!("the DataNode refuses: {}", response.message())))
}

/// Bytes of a replica of a peer, in order; all are checked.
#[derive(Debug)]
pub struct PeerReader {
    reader: Reader,
    /// How the replica's checksums are made.
    pub chunking: Chunking,
    packet: Option<Packet>,
    /// Bytes of the packet that have been given, or belong before what was asked for.
    used: usize,
    /// Where the next packet begins.
    next: u64,
}

impl PeerReader {
    /// Asks for a replica from `offset` to its end. The peer may be silent for `silent_max` at a time.
    ///
    /// # Errors
    /// The peer is not there, or refuses.
    pub fn open(
        peer: &PeerAddress,
        block: &BlockName,
        offset: u64,
        silent_max: Duration,
    ) -> io::Result<Self> {
        let length =
            block.length.checked_sub(offset).ok_or_else(|| invalid("an offset beyond the replica"))?;
        let header = block.to_client_header();
        let request = ReadBlock { header, offset, length, send_checksums: Some(true) };
        Self::begin(peer, &transfer_op::encode(Operation::Read, &request), offset, silent_max)
    }

    /// Asks for a whole replica, all of it, to have it in the place of another DataNode.
    ///
    /// # Errors
    /// The peer is not there, or refuses.
    pub fn open_copy(peer: &PeerAddress, block: &BlockName, silent_max: Duration) -> io::Result<Self> {
        let request = CopyBlock { header: block.to_header() };
        Self::begin(peer, &transfer_op::encode(Operation::Copy, &request), 0, silent_max)
    }

    fn begin(peer: &PeerAddress, request: &[u8], offset: u64, silent_max: Duration) -> io::Result<Self> {
        let mut reader = peer.connect()?;
        reader.get_ref().set_read_timeout(Some(silent_max))?;
        reader.get_mut().write_all(request)?;
        let response = succeeded(read_message(&mut reader, "the response of a DataNode")?)?;
        let info = response.read_checksum.ok_or_else(|| invalid("a response without a checksum"))?;
        let chunking = Chunking::from_message(&info.checksum).map_err(invalid)?;
        let used = offset.checked_sub(info.chunk_offset).and_then(|used| usize::try_from(used).ok());
        let used = used.filter(|used| *used < chunking.bytes_per_checksum());
        let used = used.ok_or_else(|| invalid("a response that begins elsewhere"))?;
        Ok(Self { reader, chunking, packet: None, used, next: info.chunk_offset })
    }

    /// From now on the peer may be silent for so long at a time.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn wait_for(&self, silent_max: Duration) -> io::Result<()> {
        self.reader.get_ref().set_read_timeout(Some(silent_max))
    }

    /// Reads the next bytes. What `into` has after an error is not to be used.
    ///
    /// # Errors
    /// The peer is gone, has less, or sends what does not agree with its checksums.
    pub fn read_exact(&mut self, mut into: &mut [u8]) -> io::Result<()> {
        while !into.is_empty() {
            let Some(packet) = &self.packet else {
                self.packet = Some(self.read_packet()?);
                continue;
            };
            let data = packet.data().get(self.used..).unwrap_or_default();
            if data.is_empty() {
                self.used = self.used.saturating_sub(packet.data().len());
                self.packet = None;
                continue;
            }
            let count = data.len().min(into.len());
            let (now, later) = into.split_at_mut(count);
            now.copy_from_slice(&data[..count]);
            self.used += count;
            into = later;
        }
        Ok(())
    }

    fn read_packet(&mut self) -> io::Result<Packet> {
        let ends_too_early = || io::Error::new(io::ErrorKind::UnexpectedEof, "the replica ends too early");
        self.next_packet()?.ok_or_else(ends_too_early)
    }

    /// Reads the next packet, which is not to be mixed with [`Self::read_exact`]; none after the last one.
    ///
    /// # Errors
    /// As of [`Self::read_exact`].
    pub fn next_packet(&mut self) -> io::Result<Option<Packet>> {
        let (packet, _) = Packet::read(&mut self.reader, self.chunking, |longer| {
            let is_too_long = longer > PACKET_LONGER_BYTES_MAX;
            if is_too_long { Err(invalid("a packet that is longer than a DataNode sends")) } else { Ok(()) }
        })?;
        let header = packet.header;
        if header.is_last || header.data == 0 {
            return Ok(None);
        }
        if header.offset != self.next {
            let message = format!("a packet at {}, expected at {}", header.offset, self.next);
            return Err(invalid(message));
        }
        if let Some(chunk) = self.chunking.first_mismatch(packet.data(), packet.checksums()) {
            let message =
                format!("chunk {chunk} of the packet at {} does not agree with its checksum", header.offset);
            return Err(invalid(message));
        }
        self.next += header.data as u64;
        Ok(Some(packet))
    }

    /// Says that all came. It is of no interest to this side whether the peer hears it.
    pub fn finish(mut self) {
        let _ = write_message(self.reader.get_mut(), &ClientReadStatus { status: CHECKSUM_OK });
    }
}

/// A replica that a peer takes from this DataNode.
#[derive(Debug)]
pub struct PeerWriter {
    reader: Reader,
    chunking: Chunking,
    offset: u64,
    sequence: i64,
    unacknowledged: VecDeque<i64>,
    checksums: Vec<u8>,
    head: BytesMut,
}

impl PeerWriter {
    /// Begins a replica on the storage of a peer, which may be silent for `silent_max` at a time. It counts for nothing before
    /// [`Self::finish`].
    ///
    /// # Errors
    /// The peer is not there, or refuses.
    pub fn create(
        peer: &PeerAddress,
        storage: &str,
        kind: u32,
        block: &BlockName,
        chunking: Chunking,
        silent_max: Duration,
    ) -> io::Result<Self> {
        let stage = transfer_op::STAGE_SETUP_CREATE;
        Self::begin(peer, (storage, kind), block, chunking, silent_max, stage)
    }

    /// The same for a replica that its writer is to go on with: it waits for that, once it has come.
    ///
    /// # Errors
    /// As of [`Self::create`].
    pub fn create_unfinished(
        peer: &PeerAddress,
        storage: &str,
        kind: u32,
        block: &BlockName,
        chunking: Chunking,
        silent_max: Duration,
    ) -> io::Result<Self> {
        let stage = transfer_op::STAGE_TRANSFER_UNFINISHED;
        Self::begin(peer, (storage, kind), block, chunking, silent_max, stage)
    }

    fn begin(
        peer: &PeerAddress,
        (storage, kind): (&str, u32),
        block: &BlockName,
        chunking: Chunking,
        silent_max: Duration,
        stage: i32,
    ) -> io::Result<Self> {
        let mut reader = peer.connect()?;
        reader.get_ref().set_read_timeout(Some(silent_max))?;
        reader.get_ref().set_write_timeout(Some(silent_max))?;
        let request = WriteBlock {
            header: block.to_client_header(),
            stage,
            pipeline_size: 1,
            requested_checksum: chunking.to_message(),
            storage_type: i32::try_from(kind).ok(),
            storage_id: Some(storage.to_owned()),
            ..WriteBlock::default()
        };
        reader.get_mut().write_all(&transfer_op::encode(Operation::Write, &request))?;
        succeeded(read_message(&mut reader, "the response of a DataNode")?)?;
        let (unacknowledged, checksums, head) = (VecDeque::new(), Vec::new(), BytesMut::new());
        Ok(Self { reader, chunking, offset: 0, sequence: 0, unacknowledged, checksums, head })
    }

    /// Sends the next bytes, as one packet. All but the last ones are whole chunks.
    ///
    /// # Errors
    /// The peer is gone, or does not take them.
    pub fn write(&mut self, data: &[u8]) -> io::Result<()> {
        self.send(data, false)?;
        if self.unacknowledged.len() >= PACKETS_UNACKNOWLEDGED_MAX {
            self.acknowledged()?;
        }
        Ok(())
    }

    /// Says that the replica ends here.
    ///
    /// # Errors
    /// The peer is gone, or does not take it.
    pub fn end(&mut self) -> io::Result<()> {
        self.send(&[], true)
    }

    /// Waits until the peer has the replica whole, and has told the NameNode: to be called after [`Self::end`].
    ///
    /// # Errors
    /// The peer is gone, or does not take it.
    pub fn finish(&mut self) -> io::Result<()> {
        while !self.unacknowledged.is_empty() {
            self.acknowledged()?;
        }
        Ok(())
    }

    fn send(&mut self, data: &[u8], is_last: bool) -> io::Result<()> {
        self.checksums.clear();
        self.head.clear();
        self.chunking.compute(data, &mut self.checksums);
        let (offset, sequence) = (self.offset, self.sequence);
        let header = Header { offset, sequence, is_last, data: data.len(), sync: false };
        header.encode(self.checksums.len(), &mut self.head);
        self.head.extend_from_slice(&self.checksums);
        let stream = self.reader.get_mut();
        stream.write_all(&self.head)?;
        stream.write_all(data)?;
        self.unacknowledged.push_back(sequence);
        self.offset += data.len() as u64;
        self.sequence += 1;
        Ok(())
    }

    fn acknowledged(&mut self) -> io::Result<()> {
        let expected = self.unacknowledged.pop_front().ok_or_else(|| invalid("nothing to acknowledge"))?;
        let ack: PipelineAck = read_message(&mut self.reader, "an acknowledgement")?;
        let is_good = ack.sequence == expected && ack.replies == [Status::Success as i32];
        if is_good {
            return Ok(());
        }
        Err(io::Error::other(format!("packet {expected} is answered with {:?}", ack.replies)))
    }
}
