//! Requests to a DataNode as it reads them, byte by byte: what comes before the message, its length, and the message with what
//! is checked of it; and the responses and acknowledgements that a peer reads.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use prost::Message;
use yeoul_dfs::wire::block_digest::DigestKind;
use yeoul_dfs::wire::checksum::Chunking;
use yeoul_dfs::wire::delimited::LengthReader;
use yeoul_dfs::wire::proto::transfer::{
    BlockChecksum, BlockGroupChecksum, ClientReadStatus, CopyBlock, PipelineAck, ReadBlock, ReplaceBlock,
    Response, TransferBlock, WriteBlock,
};
use yeoul_dfs::wire::transfer_op::{
    self, Operation, PREFIX_BYTES, Stage, Status, decode_message, decode_prefix, encode_prefix,
};
use yeoul_dfs::wire::{DecodeError, limits};

/// For the texts of errors.
const SLACK: u64 = 8 * 1024;
/// A list of empty parts takes so much more in memory than on the wire: see [`limits::TRANSFER_MESSAGE_BYTES_MAX`].
const FACTOR: u64 = 400;

/// The message that stands behind its length: none if it has not all come.
fn message(bytes: &[u8]) -> Result<Option<&[u8]>, DecodeError> {
    let mut reader = LengthReader::default();
    for (at, byte) in bytes.iter().enumerate() {
        if let Some(length) = reader.push(*byte, "a message", limits::TRANSFER_MESSAGE_BYTES_MAX)? {
            return Ok(bytes[at + 1..].get(..length));
        }
    }
    Ok(None)
}

/// Decodes a message, and the bytes that it encodes to: it is the same.
fn decoded<M: Message + Default + PartialEq + std::fmt::Debug>(bytes: &Bytes) -> Result<M, DecodeError> {
    let message: M = decode_message(bytes.clone(), "a message")?;
    let again: M = decode_message(message.encode_to_vec().into(), "a message").expect("it was just encoded");
    assert!(again == message, "{again:?} {message:?}");
    Ok(message)
}

fn read(operation: Operation, bytes: Bytes) -> Result<(), DecodeError> {
    match operation {
        Operation::Write => {
            let request: WriteBlock = decoded(&bytes)?;
            Stage::of(&request);
            Chunking::from_message(&request.requested_checksum).map(drop)
        }
        Operation::Read => {
            let request: ReadBlock = decoded(&bytes)?;
            if let Ok(range) = transfer_op::readable_range(&request, 1 << 20) {
                assert!(range.end <= 1 << 20);
            }
            Ok(())
        }
        Operation::Replace => decoded::<ReplaceBlock>(&bytes).map(drop),
        Operation::Copy => decoded::<CopyBlock>(&bytes).map(drop),
        Operation::Transfer => decoded::<TransferBlock>(&bytes).map(drop),
        Operation::BlockChecksum => {
            let request: BlockChecksum = decoded(&bytes)?;
            DigestKind::from_message(request.options.as_ref()).map(drop)
        }
        Operation::BlockGroupChecksum => {
            let request: BlockGroupChecksum = decoded(&bytes)?;
            DigestKind::from_message(request.options.as_ref()).map(drop)
        }
        Operation::Unsupported(_) => {
            let response: Response = decoded(&bytes)?;
            Status::from_wire(response.status);
            let _: Result<PipelineAck, _> = decoded(&bytes);
            let _: Result<ClientReadStatus, _> = decoded(&bytes);
            Ok(())
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((prefix, rest)) = data.split_first_chunk::<PREFIX_BYTES>() else { return };
    let Ok(operation) = decode_prefix(*prefix) else { return };
    assert_eq!(encode_prefix(operation), *prefix);
    let Ok(Some(found)) = message(rest) else { return };
    // It is there once its last byte is, and not before.
    let end = rest.len() - (rest[found.as_ptr() as usize - rest.as_ptr() as usize..].len() - found.len());
    for length in (0..end).step_by(1 + end / 16) {
        assert!(message(&rest[..length]).is_ok_and(|found| found.is_none()));
    }
    let bytes = Bytes::copy_from_slice(found);
    yeoul_fuzz::bounded_times(FACTOR, SLACK, found.len(), || drop(read(operation, bytes)));
});
