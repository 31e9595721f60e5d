//! Gives a part of a replica to a reader.

use std::io::{self, IoSlice, Write};

use bytes::BytesMut;
use tracing::debug;

use super::packets::{Reader, read_message, write_message};
use super::store::ReadableReplica;
use super::throttle::Throttle;
use super::transfer::Transfers;
use crate::ids::{BlockId, GenerationStamp};
use crate::wire::checksum::{ChecksumKind, Chunking};
use crate::wire::packet::Header;
use crate::wire::proto::transfer::{ClientReadStatus, CopyBlock, ReadBlock, ReadChecksumInfo, Response};
use crate::wire::transfer_op::{self, Status};

/// Bytes of data in a packet: larger ones than HDFS's 64 KiB cost a reader fewer turns, and stay in the processor's cache.
const PACKET_DATA_BYTES: usize = 256 << 10;
/// The same of a replica that a balancer moves: of many that share a slow pace each is to say something now and then.
const MOVED_PACKET_DATA_BYTES: usize = 64 << 10;
/// The beginning of the names of Hadoop's clients.
const HADOOP_CLIENT: &str = "DFSClient";

/// Carries out a read: true if the connection can be used again.
pub fn send(transfers: &Transfers, reader: &mut Reader, request: &ReadBlock) -> io::Result<bool> {
    let block = &request.header.base.block;
    let (id, stamp) = (BlockId::from_wire(block.id), GenerationStamp(block.stamp));
    let refuse = |reader: &mut Reader, message: String| {
        debug!(message, "a read is refused");
        write_message(reader.get_mut(), &transfer_op::refusal(Status::Error, message)).map(|()| false)
    };
    let replica = match transfers.open_replica(&block.pool, id, stamp) {
        Ok(replica) => replica,
        Err(error) => return refuse(reader, error.to_string()),
    };
    let range = match transfer_op::readable_range(request, replica.visible.length) {
        Ok(range) => range,
        Err(message) => return refuse(reader, format!("{id}: {message}")),
    };
    let chunk = replica.chunking.bytes_per_checksum() as u64;
    // Whole chunks go out, so that the reader can check them.
    let first = range.start / chunk * chunk;
    let end = range.end.div_ceil(chunk).saturating_mul(chunk).min(replica.visible.length);
    let sent_as = sent_as(replica.chunking, &request.header.client_name);
    let response = Response {
        read_checksum: Some(ReadChecksumInfo { checksum: sent_as.to_message(), chunk_offset: first }),
        ..Response::default()
    };
    write_message(reader.get_mut(), &response)?;
    // A client tells the NameNode of what does not agree; for another DataNode, which is to know what it repairs from, this one
    // looks itself.
    let checks = request.header.client_name.is_empty() || sent_as != replica.chunking;
    let sends_checksums = request.send_checksums();
    let data_max = PACKET_DATA_BYTES;
    let sent = Packets { replica: &replica, sent_as, sends_checksums, checks, data_max, throttle: None };
    sent.send_or_tell(transfers, id, reader, first..end)?;
    // What the reader says comes only if it read all, and is of interest to nobody: it tells the NameNode of damage.
    read_message::<ClientReadStatus>(reader, "the status of a reader").map(|_| true)
}

/// Gives a whole replica to a DataNode that is to have it in the place of another one: true if the connection can be used again.
pub fn send_copy(transfers: &Transfers, reader: &mut Reader, request: &CopyBlock) -> io::Result<bool> {
    let block = &request.header.block;
    let (id, stamp) = (BlockId::from_wire(block.id), GenerationStamp(block.stamp));
    let refuse = |reader: &mut Reader, message: String| {
        debug!(message, "a copy is refused");
        write_message(reader.get_mut(), &transfer_op::refusal(Status::Error, message)).map(|()| false)
    };
    let Some(_moving) = transfers.moves.begin() else {
        let (id, to) = (block.id, reader.get_ref().peer_addr()?);
        let message = format!("Not able to copy block {id} to {to} because threads quota is exceeded.");
        return refuse(reader, message);
    };
    let replica = match transfers.open_replica(&block.pool, id, stamp) {
        Ok(replica) if replica.is_whole && replica.stamp == stamp => replica,
        Ok(_) => return refuse(reader, format!("{id} is being changed, and whole replicas are moved")),
        Err(error) => return refuse(reader, error.to_string()),
    };
    let (checksum, length) = (replica.chunking.to_message(), replica.visible.length);
    let read_checksum = Some(ReadChecksumInfo { checksum, chunk_offset: 0 });
    write_message(reader.get_mut(), &Response { read_checksum, ..Response::default() })?;
    let sent = Packets {
        replica: &replica,
        sent_as: replica.chunking,
        sends_checksums: true,
        checks: true,
        data_max: MOVED_PACKET_DATA_BYTES,
        throttle: Some(&transfers.moves.throttle),
    };
    sent.send_or_tell(transfers, id, reader, 0..length).map(|()| true)
}

/// How the checksums go out: CRC-32 becomes CRC-32C for who is neither Hadoop's client nor a DataNode, after it was checked here.
/// hdfs-native takes another polynomial for CRC-32 than all others, so that it would find each such file damaged.
fn sent_as(stored: Chunking, client_name: &str) -> Chunking {
    let is_sure = client_name.is_empty() || client_name.starts_with(HADOOP_CLIENT);
    match stored.kind() {
        ChecksumKind::Crc32 if !is_sure => stored.with_kind(ChecksumKind::Crc32c),
        ChecksumKind::Null | ChecksumKind::Crc32 | ChecksumKind::Crc32c => stored,
    }
}

/// The reason why a replica does not go out.
enum SendError {
    /// The reader is gone.
    Peer(io::Error),
    /// The replica cannot be read, or is not what was written.
    Replica(io::Error),
}

/// How a replica goes out.
struct Packets<'a> {
    replica: &'a ReadableReplica,
    /// How the checksums are made that go out.
    sent_as: Chunking,
    sends_checksums: bool,
    checks: bool,
    /// Bytes of data in a packet, if they are whole chunks.
    data_max: usize,
    /// Bandwidth with which it goes out; none if as fast as it can.
    throttle: Option<&'a Throttle>,
}

impl Packets<'_> {
    /// Sends a range, and tells NameNodes if the replica is not what was written.
    fn send_or_tell(
        &self,
        transfers: &Transfers,
        id: BlockId,
        to: &mut Reader,
        range: std::ops::Range<u64>,
    ) -> io::Result<()> {
        self.send(to.get_mut(), range).map_err(|error| match error {
            SendError::Peer(error) => error,
            SendError::Replica(error) => {
                transfers.tell_damaged(id, self.replica.stamp, &error);
                error
            }
        })
    }

    fn send(&self, to: &mut impl Write, range: std::ops::Range<u64>) -> Result<(), SendError> {
        let chunk = self.replica.chunking.bytes_per_checksum();
        let per_packet = (self.data_max / chunk).max(1) * chunk;
        let usual = per_packet.min(usize::try_from(range.end - range.start).unwrap_or(usize::MAX));
        let (mut data, mut checksums, mut head) = (vec![0; usual], Vec::new(), BytesMut::new());
        let (mut offset, mut sequence) = (range.start, 0);
        loop {
            let length = per_packet.min(usize::try_from(range.end - offset).unwrap_or(usize::MAX));
            let is_last = length == 0;
            let data = &mut data[..length];
            self.read(offset, data, &mut checksums).map_err(SendError::Replica)?;
            head.clear();
            Header { offset, sequence, is_last, data: length, sync: false }
                .encode(checksums.len(), &mut head);
            let mut parts = [IoSlice::new(&head), IoSlice::new(&checksums), IoSlice::new(data)];
            write_all_vectored(to, &mut parts).map_err(SendError::Peer)?;
            if is_last {
                return Ok(());
            }
            if let Some(throttle) = self.throttle {
                throttle.wait(length as u64, || Ok(())).map_err(SendError::Peer)?;
            }
            offset += length as u64;
            sequence += 1;
        }
    }

    /// Reads what goes into a packet.
    fn read(&self, offset: u64, data: &mut [u8], checksums: &mut Vec<u8>) -> io::Result<()> {
        checksums.clear();
        if data.is_empty() {
            return Ok(());
        }
        if self.checks {
            self.replica.read_checked(offset, data, checksums)?;
        } else {
            self.replica.read_data(offset, data)?;
        }
        match (self.sends_checksums, self.checks) {
            (false, _) => checksums.clear(),
            (true, true) if self.sent_as == self.replica.chunking => {}
            (true, true) => {
                checksums.clear();
                self.sent_as.compute(data, checksums);
            }
            (true, false) => {
                let bytes = self.replica.chunking.checksum_bytes(data.len() as u64);
                checksums.resize(usize::try_from(bytes).expect("a packet has few checksums"), 0);
                self.replica.read_checksums(offset, data.len() as u64, checksums)?;
            }
        }
        Ok(())
    }
}

fn write_all_vectored(to: &mut impl Write, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    // Leaves out what is empty, so that a write of nothing means a closed peer.
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match to.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut slices, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
