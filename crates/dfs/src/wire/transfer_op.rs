//! Requests to a DataNode: a big-endian u16 version, a u8 with the operation, and a delimited message.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

use super::proto::transfer::{ReadBlock, Response, WriteBlock};
use super::{DecodeError, delimited};

/// The version that all Hadoop 2 and 3 clients speak.
pub const VERSION: u16 = 28;
/// Bytes before the message.
pub const PREFIX_BYTES: usize = 3;
/// Version and operation with which a client begins that wants encryption or authentication first.
const SASL_MAGIC: [u8; 3] = [0xde, 0xad, 0xbe];

/// An operation of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Take a replica, and pass it on.
    Write,
    /// Give a part of a replica.
    Read,
    /// Take a replica from another DataNode in the place of the one that a third DataNode has.
    Replace,
    /// Give a whole replica to a DataNode that replaces one.
    Copy,
    /// Give a copy of an unfinished replica to another DataNode.
    Transfer,
    /// Give the checksum of a replica's checksums.
    BlockChecksum,
    /// Give the checksum of a block group, which the replicas of its units make together.
    BlockGroupChecksum,
    /// One that we do not have, by its number.
    Unsupported(u8),
}

/// Reads what comes before the message.
///
/// # Errors
/// Another version, or a client that wants to authenticate first.
pub fn decode_prefix(bytes: [u8; PREFIX_BYTES]) -> Result<Operation, DecodeError> {
    let [v0, v1, operation] = bytes;
    let version = u16::from_be_bytes([v0, v1]);
    if bytes == SASL_MAGIC {
        let expected =
            "28: a client must not have dfs.data.transfer.protection or dfs.encrypt.data.transfer set";
        return Err(DecodeError::Unexpected { what: "the version", found: version.into(), expected });
    }
    if version != VERSION {
        return Err(DecodeError::Unexpected { what: "the version", found: version.into(), expected: "28" });
    }
    Ok(match operation {
        80 => Operation::Write,
        81 => Operation::Read,
        83 => Operation::Replace,
        84 => Operation::Copy,
        85 => Operation::BlockChecksum,
        86 => Operation::Transfer,
        90 => Operation::BlockGroupChecksum,
        other => Operation::Unsupported(other),
    })
}

/// What comes before the message of an operation.
pub fn encode_prefix(operation: Operation) -> [u8; PREFIX_BYTES] {
    let number = match operation {
        Operation::Write => 80,
        Operation::Read => 81,
        Operation::Replace => 83,
        Operation::Copy => 84,
        Operation::BlockChecksum => 85,
        Operation::Transfer => 86,
        Operation::BlockGroupChecksum => 90,
        Operation::Unsupported(number) => number,
    };
    let [v0, v1] = VERSION.to_be_bytes();
    [v0, v1, number]
}

/// HDFS's name of an operation that we do not have.
pub fn name_of_unsupported(number: u8) -> &'static str {
    match number {
        82 => "READ_METADATA",
        87 => "REQUEST_SHORT_CIRCUIT_FDS",
        88 => "RELEASE_SHORT_CIRCUIT_FDS",
        89 => "REQUEST_SHORT_CIRCUIT_SHM",
        _ => "unknown",
    }
}

/// Reads a message whose length is known.
///
/// # Errors
/// Bytes that are none of protobuf's.
pub fn decode_message<M: Message + Default>(bytes: Bytes, what: &'static str) -> Result<M, DecodeError> {
    M::decode(bytes).map_err(|source| DecodeError::Protobuf { what, source })
}

/// The bytes of a request.
pub fn encode(operation: Operation, message: &impl Message) -> BytesMut {
    let mut bytes = BytesMut::new();
    bytes.put_slice(&encode_prefix(operation));
    delimited::put(message, &mut bytes);
    bytes
}

/// How something ended, in responses and acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// As it should.
    Success = 0,
    /// It did not.
    Error = 1,
    /// The bytes do not agree with their checksums.
    ErrorChecksum = 2,
    /// The request makes no sense.
    ErrorInvalid = 3,
    /// There is such a block already.
    ErrorExists = 4,
    /// The operation is not supported.
    ErrorUnsupported = 7,
    /// Out of band: the DataNode ends, and may be there again soon.
    Restarting = 8,
    /// What was asked for goes on; another response follows.
    InProgress = 12,
}

impl Status {
    /// From a message: what is not known counts as a plain error.
    pub fn from_wire(status: i32) -> Self {
        match status {
            0 => Self::Success,
            2 => Self::ErrorChecksum,
            3 => Self::ErrorInvalid,
            4 => Self::ErrorExists,
            7 => Self::ErrorUnsupported,
            8 => Self::Restarting,
            12 => Self::InProgress,
            _ => Self::Error,
        }
    }
}

/// A response that says that something failed, and why.
pub fn refusal(status: Status, message: impl Into<String>) -> Response {
    Response { status: status as i32, message: Some(message.into()), ..Response::default() }
}

/// The number of [`Stage::SetupCreate`].
pub const STAGE_SETUP_CREATE: i32 = 6;

/// The number of [`Stage::TransferUnfinished`].
pub const STAGE_TRANSFER_UNFINISHED: i32 = 7;

/// Where a writer is in the life of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It begins a block.
    SetupCreate,
    /// It goes on with a block, after a DataNode of its pipeline has failed.
    StreamingRecovery,
    /// It has sent all of a block, and a DataNode of its pipeline has failed.
    CloseRecovery,
    /// A DataNode sends an unfinished replica to another one, for its writer to go on with.
    TransferUnfinished,
    /// It appends to a block that was whole, also after a DataNode has failed while it began to.
    Append,
    /// Another one, with which no write begins.
    Other(i32),
}

impl Stage {
    /// The stage of a request.
    pub fn of(request: &WriteBlock) -> Self {
        match request.stage {
            STAGE_SETUP_CREATE => Self::SetupCreate,
            0 | 1 => Self::Append,
            3 => Self::StreamingRecovery,
            5 => Self::CloseRecovery,
            STAGE_TRANSFER_UNFINISHED if request.header.client_name.is_empty() => Self::TransferUnfinished,
            other => Self::Other(other),
        }
    }
}

/// The range of a replica that a reader wants, checked against what there is.
///
/// # Errors
/// A range that is not within the replica, as a text for the client.
pub fn readable_range(request: &ReadBlock, length: u64) -> Result<std::ops::Range<u64>, String> {
    let end = request.offset.checked_add(request.length).filter(|end| *end <= length);
    end.map(|end| request.offset..end).ok_or_else(|| {
        let (offset, wanted) = (request.offset, request.length);
        format!("offset {offset} and length {wanted} are not within the replica of {length} bytes")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_known_by_number_and_other_versions_refused() {
        assert_eq!(decode_prefix([0, 28, 80]).unwrap(), Operation::Write);
        assert_eq!(decode_prefix([0, 28, 81]).unwrap(), Operation::Read);
        assert_eq!(decode_prefix([0, 28, 87]).unwrap(), Operation::Unsupported(87));
        assert!(decode_prefix([0, 27, 80]).is_err());
        let refused = decode_prefix(SASL_MAGIC).unwrap_err().to_string();
        assert!(refused.contains("dfs.data.transfer.protection"), "{refused}");
        let known =
            [Operation::Write, Operation::Read, Operation::BlockChecksum, Operation::BlockGroupChecksum];
        let moves = [Operation::Replace, Operation::Copy, Operation::Transfer, Operation::Unsupported(87)];
        for operation in known.into_iter().chain(moves) {
            assert_eq!(decode_prefix(encode_prefix(operation)).unwrap(), operation);
        }
    }

    #[test]
    fn a_response_of_success_is_as_recorded() {
        let response = Response { first_bad_link: Some(String::new()), ..Response::default() };
        let mut bytes = BytesMut::new();
        delimited::put(&response, &mut bytes);
        assert_eq!(&bytes[..], [0x04, 0x08, 0x00, 0x12, 0x00]);
    }

    #[test]
    fn a_range_beyond_the_replica_is_refused() {
        let request = |offset, length| ReadBlock { offset, length, ..ReadBlock::default() };
        assert_eq!(readable_range(&request(5, 10), 15), Ok(5..15));
        assert!(readable_range(&request(5, 11), 15).is_err());
        assert!(readable_range(&request(u64::MAX, 2), 15).is_err());
    }
}
