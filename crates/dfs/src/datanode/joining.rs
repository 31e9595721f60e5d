//! Gives a copy of an unfinished replica to a DataNode that joins its pipeline.

use std::io;

use tracing::{debug, info};

use super::packets::{Reader, write_message};
use super::peer::{BlockName, PeerAddress, PeerWriter};
use super::receiver::READ_MAX;
use super::transfer::Transfers;
use crate::ids::{BlockId, GenerationStamp};
use crate::wire::proto::transfer::{Response, TransferBlock};
use crate::wire::transfer_op::{self, Status};

/// Bytes that are in memory at a time, if they are whole chunks.
const SLICE_BYTES: u64 = 256 << 10;
/// The number of HDFS's storage type DISK.
const STORAGE_DISK: i32 = 1;

/// Carries out a transfer: true if the connection can be used again.
pub fn transfer(transfers: &Transfers, reader: &mut Reader, request: &TransferBlock) -> io::Result<bool> {
    let response = copy(transfers, request).map_or_else(
        |error| {
            debug!(%error, "a transfer fails");
            transfer_op::refusal(Status::Error, error.to_string())
        },
        |()| Response::default(),
    );
    write_message(reader.get_mut(), &response).map(|()| true)
}

/// Sends as many bytes as the writer names, which all nodes have acknowledged.
fn copy(transfers: &Transfers, request: &TransferBlock) -> io::Result<()> {
    let block = &request.header.base.block;
    let (id, stamp, length) = (BlockId::from_wire(block.id), GenerationStamp(block.stamp), block.length());
    let [target] = request.targets.as_slice() else {
        return Err(io::Error::other("a transfer goes to one DataNode"));
    };
    let storage = request.target_storage_ids.first().map_or("", String::as_str);
    let kind = request.target_storage_types.first().copied().unwrap_or(STORAGE_DISK);
    let replica = transfers.open_replica(&block.pool, id, stamp).map_err(io::Error::other)?;
    let has = replica.visible.length;
    if has < length {
        return Err(io::Error::other(format!("{id} has {has} bytes here, and the writer names {length}")));
    }
    let name = BlockName { pool: block.pool.clone(), id, stamp, length };
    let address = PeerAddress::new(&target.id.ip, target.id.transfer_port);
    let kind = kind.cast_unsigned();
    let mut writer =
        PeerWriter::create_unfinished(&address, storage, kind, &name, replica.chunking, READ_MAX)?;
    let chunk = replica.chunking.bytes_per_checksum() as u64;
    let slice = (SLICE_BYTES / chunk).max(1) * chunk;
    let (mut at, mut bytes, mut checksums) = (0, Vec::new(), Vec::new());
    while at < length {
        // The last chunk has more bytes here than the writer names, if those were not acknowledged.
        let end = (at + slice).min(length.div_ceil(chunk).saturating_mul(chunk)).min(has);
        let in_memory = |count: u64| usize::try_from(count).expect("a slice fits into memory");
        bytes.resize(in_memory(end - at), 0);
        replica.read_checked(at, &mut bytes, &mut checksums)?;
        bytes.truncate(in_memory(length - at));
        writer.write(&bytes)?;
        at += bytes.len() as u64;
    }
    writer.end()?;
    writer.finish()?;
    info!(%id, to = address.0, length, "a DataNode joins a pipeline");
    Ok(())
}
