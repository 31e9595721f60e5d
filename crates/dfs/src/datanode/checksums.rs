//! Gives the checksum of a replica's checksums, and of a block group.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use tracing::debug;
use yeoul_erasure::{UnitIndex, UnitSet};

use super::packets::{Reader, invalid, write_message};
use super::patience::Patience;
use super::peer::{BlockName, PeerAddress, ask};
use super::rebuilding::{Group, Rebuilding};
use super::store::ReadableReplica;
use super::transfer::Transfers;
use crate::ids::{BlockId, GenerationStamp};
use crate::policy::Policy;
use crate::wire::block_digest::{BlockDigest, DigestKind, composite_of_group, md5_of_group};
use crate::wire::checksum::{CHECKSUM_BYTES, Chunking};
use crate::wire::proto::transfer::{BaseHeader, BlockChecksum, BlockGroupChecksum, ChecksumAnswer, Response};
use crate::wire::transfer_op::{self, Operation, Status};

/// Bytes of checksums that are read at a time.
const CHECKSUMS_AT_A_TIME: usize = 64 << 10;

/// The checksum of a block or of a unit, and how it came to be.
#[derive(Clone, Debug)]
struct Digest {
    chunking: Chunking,
    /// Checksums of the whole replica.
    crcs: u64,
    bytes: Bytes,
}

/// Carries out a request for a replica's checksum: true if the connection can be used again.
pub fn answer_block(transfers: &Transfers, reader: &mut Reader, request: &BlockChecksum) -> io::Result<bool> {
    let answer = DigestKind::from_message(request.options.as_ref())
        .map_err(invalid)
        .and_then(|kind| Ok((kind, digest_of_replica(transfers, &request.header, kind)?)));
    respond(reader, answer)
}

/// Carries out a request for the checksum of a block group: true if the connection can be used again.
pub fn answer_group(
    transfers: &Transfers,
    reader: &mut Reader,
    request: &BlockGroupChecksum,
) -> io::Result<bool> {
    let answer = DigestKind::from_message(request.options.as_ref())
        .map_err(invalid)
        .and_then(|kind| Ok((kind, digest_of_group(transfers, request, kind)?)));
    respond(reader, answer)
}

fn respond(reader: &mut Reader, answer: io::Result<(DigestKind, Digest)>) -> io::Result<bool> {
    let (kind, digest) = match answer {
        Ok(answer) => answer,
        Err(error) => {
            debug!(%error, "a checksum is refused");
            let refusal = transfer_op::refusal(Status::Error, error.to_string());
            return write_message(reader.get_mut(), &refusal).map(|()| false);
        }
    };
    let checksum = ChecksumAnswer {
        bytes_per_crc: digest.chunking.to_message().bytes_per_checksum,
        crc_per_block: digest.crcs,
        block_checksum: digest.bytes,
        crc_kind: Some(digest.chunking.kind() as i32),
        options: Some(kind.to_message()),
    };
    let response = Response { checksum: Some(checksum), ..Response::default() };
    write_message(reader.get_mut(), &response).map(|()| true)
}

/// The checksum of the first bytes of a replica here, as many as the request says that the block has.
fn digest_of_replica(transfers: &Transfers, header: &BaseHeader, kind: DigestKind) -> io::Result<Digest> {
    let block = &header.block;
    let (id, stamp) = (BlockId::from_wire(block.id), GenerationStamp(block.stamp));
    let replica = transfers.open_replica(&block.pool, id, stamp).map_err(io::Error::other)?;
    let chunk = replica.chunking.bytes_per_checksum() as u64;
    let length = block.length().min(replica.visible.length);
    let mut digest = BlockDigest::new(kind, replica.chunking, length).map_err(invalid)?;
    let is_whole = length == replica.visible.length;
    let stored = if is_whole { length } else { length / chunk * chunk };
    push_stored(&replica, replica.chunking.checksums(stored), &mut digest)?;
    let rest = length % chunk;
    if !is_whole && rest > 0 {
        // A chunk that the request cuts: its checksum is of other bytes than the stored one.
        let mut data = vec![0; usize::try_from(rest).expect("a chunk is at most 1 MiB")];
        replica.read_data(length - rest, &mut data)?;
        let mut checksum = Vec::new();
        replica.chunking.compute(&data, &mut checksum);
        digest.push(&checksum);
    }
    let crcs = replica.chunking.checksums(replica.visible.length);
    Ok(Digest { chunking: replica.chunking, crcs, bytes: digest.finish() })
}

/// Feeds the checksums of the first chunks, from the meta file.
fn push_stored(replica: &ReadableReplica, chunks: u64, digest: &mut BlockDigest) -> io::Result<()> {
    let (chunk, at_a_time) =
        (replica.chunking.bytes_per_checksum() as u64, (CHECKSUMS_AT_A_TIME / CHECKSUM_BYTES) as u64);
    let mut buffer = Vec::new();
    let mut at = 0;
    while at < chunks {
        let count = (chunks - at).min(at_a_time);
        let data = (count * chunk).min(replica.visible.length - at * chunk);
        buffer.resize(count as usize * CHECKSUM_BYTES, 0);
        replica.read_checksums(at * chunk, data, &mut buffer)?;
        digest.push(&buffer);
        at += count;
    }
    Ok(())
}

/// The checksum of a block group, from those of its data units; what cannot be had is rebuilt.
fn digest_of_group(
    transfers: &Transfers,
    request: &BlockGroupChecksum,
    kind: DigestKind,
) -> io::Result<Digest> {
    let block = &request.header.block;
    let own = transfers.store.pool();
    if block.pool != own {
        return Err(invalid(format!("block pool {} is not that of this DataNode, {own}", block.pool)));
    }
    let policy = Policy::from_message(&request.policy);
    let policy =
        policy.ok_or_else(|| invalid(format!("erasure coding policy {} is unknown", request.policy.id)))?;
    let name = BlockName {
        pool: block.pool.clone(),
        id: BlockId::from_wire(block.id).group(),
        stamp: GenerationStamp(block.stamp),
        length: block.length(),
    };
    let group = Group { geometry: policy.geometry, name };
    let nodes = &request.datanodes.datanodes;
    if nodes.len() != request.indices.len() {
        return Err(invalid(format!("{} nodes and {} indices", nodes.len(), request.indices.len())));
    }
    let units = request.indices.iter().filter_map(|index| Some(UnitIndex(u8::try_from(*index).ok()?)));
    let places: Vec<(UnitIndex, PeerAddress)> = units
        .zip(nodes)
        .map(|(unit, node)| (unit, PeerAddress::new(&node.id.ip, node.id.transfer_port)))
        .collect();
    let length = request.requested_bytes.min(group.name.length);
    digests_of_units(&group, &places, kind, length).and_then(|digests| joined(&group, digests, kind, length))
}

/// The checksum of each data unit, as far as it belongs to the first `length` bytes of the group.
fn digests_of_units(
    group: &Group,
    places: &[(UnitIndex, PeerAddress)],
    kind: DigestKind,
    length: u64,
) -> io::Result<BTreeMap<UnitIndex, Digest>> {
    let cell = group.geometry.cell_size();
    let of_unit = match kind {
        DigestKind::Md5 => DigestKind::Md5,
        DigestKind::Composite { .. } => DigestKind::Composite { stripe: Some(cell) },
    };
    let needed = (0..group.geometry.schema().data_units() as u8).map(UnitIndex).map(|unit| {
        let wanted = group.geometry.unit_len(length, unit);
        (unit, wanted)
    });
    let (mut digests, mut failed) = (BTreeMap::new(), BTreeMap::new());
    for (unit, wanted) in needed.filter(|(_, wanted)| *wanted > 0) {
        let mut replicas = places.iter().filter(|(of, _)| *of == unit);
        match replicas.find_map(|(_, peer)| ask_unit(group, unit, wanted, peer, of_unit)) {
            Some(digest) => {
                digests.insert(unit, digest);
            }
            None => {
                failed.insert(unit, wanted);
            }
        }
    }
    if !failed.is_empty() {
        digests.extend(rebuilt_digests(group, places, &failed, of_unit)?);
    }
    Ok(digests)
}

/// The checksum of a unit, by the DataNode that has it; none if it cannot be had.
fn ask_unit(
    group: &Group,
    unit: UnitIndex,
    wanted: u64,
    peer: &PeerAddress,
    kind: DigestKind,
) -> Option<Digest> {
    let block = BlockName { length: wanted, ..group.unit(unit) };
    let request = BlockChecksum { header: block.to_header(), options: Some(kind.to_message()) };
    let asked = ask(peer, Operation::BlockChecksum, &request).and_then(|response| {
        let answer = response.checksum.ok_or_else(|| invalid("a response without a checksum"))?;
        let chunking = Chunking::new(answer.crc_kind(), answer.bytes_per_crc).map_err(invalid)?;
        let expected = kind.bytes(wanted);
        if answer.block_checksum.len() as u64 != expected {
            return Err(invalid(format!(
                "{} bytes of checksum, expected {expected}",
                answer.block_checksum.len()
            )));
        }
        Ok(Digest { chunking, crcs: answer.crc_per_block, bytes: answer.block_checksum })
    });
    asked
        .inspect_err(
            |error| debug!(unit = unit.0, peer = peer.0, %error, "a unit is rebuilt for its checksum"),
        )
        .ok()
}

/// The checksums of units that cannot be had, by computing their bytes anew in one pass.
fn rebuilt_digests(
    group: &Group,
    places: &[(UnitIndex, PeerAddress)],
    failed: &BTreeMap<UnitIndex, u64>,
    kind: DigestKind,
) -> io::Result<BTreeMap<UnitIndex, Digest>> {
    let wanted: UnitSet = failed.keys().copied().collect();
    let mut pass = Rebuilding::begin(group.clone(), places.to_vec(), wanted, Patience::default())?;
    let chunking = pass.chunking();
    let mut parts = BTreeMap::new();
    for (unit, length) in failed {
        let digest = BlockDigest::new(kind, chunking, *length).map_err(invalid)?;
        parts.insert(*unit, (digest, *length));
    }
    let mut checksums = Vec::new();
    while let Some(slices) = pass.next_slice()? {
        for (unit, bytes) in slices {
            let (digest, left) = parts.get_mut(&unit).expect("what comes was wanted");
            let now = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
            checksums.clear();
            chunking.compute(&bytes[..now], &mut checksums);
            digest.push(&checksums);
            *left -= now as u64;
        }
        if parts.values().all(|(_, left)| *left == 0) {
            break;
        }
    }
    let finished = parts.into_iter().map(|(unit, (digest, _))| {
        (unit, Digest { chunking, crcs: chunking.checksums(group.unit_len(unit)), bytes: digest.finish() })
    });
    Ok(finished.collect())
}

fn joined(
    group: &Group,
    digests: BTreeMap<UnitIndex, Digest>,
    kind: DigestKind,
    length: u64,
) -> io::Result<Digest> {
    let first = digests.values().next();
    let (chunking, crcs) = first.map_or((Chunking::default(), 0), |first| (first.chunking, first.crcs));
    if digests.values().any(|digest| digest.chunking != chunking) {
        return Err(invalid("the units of the group have checksums of different kinds"));
    }
    let mut units: Vec<Bytes> = digests.into_values().map(|digest| digest.bytes).collect();
    let bytes = match kind {
        DigestKind::Md5 => md5_of_group(&units),
        DigestKind::Composite { .. } => {
            units.resize(group.geometry.schema().data_units(), Bytes::new());
            let cell = group.geometry.cell_size();
            composite_of_group(chunking.kind(), &units, cell, length).map_err(invalid)?
        }
    };
    Ok(Digest { chunking, crcs, bytes })
}
