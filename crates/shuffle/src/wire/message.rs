//! A numbered protobuf message, and its bare form on the push and fetch ports.
//!
//! ```text
//! offset  width  meaning (big-endian)
//! 0       4      message type
//! 4       4      P, length of the payload
//! 8       P      payload, protobuf
//! ```

use bytes::{BufMut, Bytes, BytesMut};

use super::cursor::{Cursor, DecodeError, Problem};
use super::lists::Received;
use super::{internal, proto, received};

/// The number of a protobuf message. Numbers up to 9999 are Celeborn's; the others are used between our own servers, and between the halves of our own client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageType(pub i32);

/// A protobuf message with its number.
pub trait Typed: prost::Message + Default {
    /// The number that announces it.
    const TYPE: MessageType;
}

/// A protobuf message as it is received: without lists, which would take many times their wire size once decoded.
pub trait Receivable: Typed {}

macro_rules! message_types {
    ($($name:ident = $number:literal $(: $package:ident::$message:ident)?,)*) => {
        impl MessageType {
            $(#[doc = concat!("Number ", $number, ".")] pub const $name: Self = Self($number);)*

            /// The name, where the number has one.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
        $($(
            impl Typed for $package::$message {
                const TYPE: MessageType = MessageType::$name;
            }
            impl Typed for received::$message {
                const TYPE: MessageType = MessageType::$name;
            }
            impl Receivable for received::$message {}
        )?)*
    };
}

message_types! {
    REQUEST_SLOTS = 6: proto::RequestSlots,
    RELEASE_SLOTS = 7,
    RELEASE_SLOTS_RESPONSE = 8: proto::ReleaseSlotsResponse,
    REQUEST_SLOTS_RESPONSE = 9: proto::RequestSlotsResponse,
    UNREGISTER_SHUFFLE = 16: proto::UnregisterShuffle,
    UNREGISTER_SHUFFLE_RESPONSE = 17: proto::UnregisterShuffleResponse,
    APPLICATION_LOST = 18: proto::ApplicationLost,
    APPLICATION_LOST_RESPONSE = 19: proto::ApplicationLostResponse,
    HEARTBEAT_FROM_APPLICATION = 20: proto::HeartbeatFromApplication,
    CHECK_QUOTA = 23: proto::CheckQuota,
    CHECK_QUOTA_RESPONSE = 24: proto::CheckQuotaResponse,
    REPORT_WORKER_FAILURE = 25: proto::ReportWorkerUnavailable,
    RESERVE_SLOTS = 28: proto::ReserveSlots,
    RESERVE_SLOTS_RESPONSE = 29: proto::ReserveSlotsResponse,
    COMMIT_FILES = 30: proto::CommitFiles,
    COMMIT_FILES_RESPONSE = 31: proto::CommitFilesResponse,
    DESTROY = 32: proto::DestroyWorkerSlots,
    DESTROY_RESPONSE = 33: proto::DestroyWorkerSlotsResponse,
    ONE_WAY_MESSAGE_RESPONSE = 40,
    HEARTBEAT_FROM_APPLICATION_RESPONSE = 49: proto::HeartbeatFromApplicationResponse,
    OPEN_STREAM = 51: proto::OpenStream,
    STREAM_HANDLER = 52: proto::StreamHandler,
    CHECK_WORKERS_AVAILABLE = 53: proto::CheckWorkersAvailable,
    CHECK_WORKERS_AVAILABLE_RESPONSE = 54: proto::CheckWorkersAvailableResponse,
    BUFFER_STREAM_END = 60: proto::BufferStreamEnd,
    CHUNK_FETCH_REQUEST = 63: proto::ChunkFetchRequest,
    SASL_REQUEST = 71: proto::SaslRequest,
    AUTHENTICATION_INITIATION_REQUEST = 72: proto::AuthenticationInitiationRequest,
    AUTHENTICATION_INITIATION_RESPONSE = 73: proto::AuthenticationInitiationResponse,
    REGISTER_APPLICATION_REQUEST = 74: proto::RegisterApplicationRequest,
    BATCH_OPEN_STREAM = 80: proto::OpenStreamList,
    BATCH_OPEN_STREAM_RESPONSE = 81: proto::OpenStreamListResponse,
    BATCH_UNREGISTER_SHUFFLES = 87: proto::BatchUnregisterShuffles,
    BATCH_UNREGISTER_SHUFFLES_RESPONSE = 88: proto::BatchUnregisterShufflesResponse,
    REVISE_LOST_SHUFFLES = 89: proto::ReviseLostShuffles,
    REVISE_LOST_SHUFFLES_RESPONSE = 90: proto::ReviseLostShufflesResponse,
    REGISTER_APPLICATION_INFO = 96: proto::RegisterApplicationInfo,
    WORKER_REGISTER = 10001: internal::WorkerRegister,
    WORKER_REGISTERED = 10002: internal::WorkerRegistered,
    WORKER_HEARTBEAT = 10003: internal::WorkerHeartbeat,
    WORKER_HEARTBEAT_REPLY = 10004: internal::WorkerHeartbeatReply,
    WORKER_WATCH = 10005: internal::WorkerWatch,
    WORKER_ORDERS = 10006: internal::WorkerOrders,
    WORKER_LEAVE = 10007: internal::WorkerLeave,
    WORKER_LEAVE_REPLY = 10008: internal::WorkerLeaveReply,
    EXECUTOR_HELLO = 10101: internal::ExecutorHello,
    EXECUTOR_WELCOME = 10102: internal::ExecutorWelcome,
    DESCRIBE_SHUFFLE = 10103: internal::DescribeShuffle,
    SHUFFLE_DESCRIPTION = 10104: internal::ShuffleDescription,
    BEGIN_ATTEMPT = 10105: internal::BeginAttempt,
    ATTEMPT_BEGUN = 10106: internal::AttemptBegun,
    REVIVE = 10107: internal::Revive,
    REVIVED = 10108: internal::Revived,
    MAPPER_END = 10109: internal::MapperEnd,
    MAPPER_ENDED = 10110: internal::MapperEnded,
    GET_REDUCER_FILE_GROUP = 10111: internal::GetReducerFileGroup,
    REDUCER_FILE_GROUP = 10112: internal::ReducerFileGroup,
    OPEN_SHUFFLE = 10113: internal::OpenShuffle,
    SHUFFLE_OPENED = 10114: internal::ShuffleOpened,
    EXECUTOR_REFUSAL = 10120: internal::ExecutorRefusal,
}

/// A message as it travels: its number and its payload, `None` where Java sends `null`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What the payload is.
    pub kind: MessageType,
    /// The protobuf bytes.
    pub payload: Option<Bytes>,
}

impl Message {
    /// The answer to requests that expect no content: type 40 with a null payload.
    pub const ONE_WAY_RESPONSE: Self = Self { kind: MessageType::ONE_WAY_MESSAGE_RESPONSE, payload: None };

    /// Encodes a message under its own number.
    pub fn of<M: Typed>(message: &M) -> Self {
        Self { kind: M::TYPE, payload: Some(message.encode_to_vec().into()) }
    }

    /// Decodes the payload as `M`, which the caller has chosen by [`Message::kind`]. A null payload is the empty message.
    ///
    /// # Errors
    /// The payload is not an `M`, or the kind is not `M`'s.
    pub fn parse<M: Receivable>(&self) -> Result<Received<M>, DecodeError> {
        if self.kind != M::TYPE {
            let problem = Problem::Unexpected(self.kind.0.into());
            return Err(DecodeError { field: "message type", offset: 0, problem });
        }
        Received::decode(self.payload.clone().unwrap_or_default())
    }

    /// Decodes the bare form, which takes up all of `bytes`.
    ///
    /// # Errors
    /// The length does not fit.
    pub fn decode_bare(bytes: Bytes) -> Result<Self, DecodeError> {
        Self::decode_at(Cursor::new(bytes))
    }

    pub(super) fn decode_at(mut cursor: Cursor) -> Result<Self, DecodeError> {
        let kind = MessageType(cursor.i32("message type")?);
        let len = cursor.count("payload length", 1)?;
        let payload = cursor.bytes("payload", len)?;
        cursor.end("message")?;
        Ok(Self { kind, payload: Some(payload) })
    }

    /// Appends the bare form.
    ///
    /// # Panics
    /// If the payload has 2 GiB or more.
    pub fn encode_bare(&self, dst: &mut BytesMut) {
        let payload = self.payload.as_deref().unwrap_or_default();
        dst.reserve(8 + payload.len());
        dst.put_i32(self.kind.0);
        dst.put_i32(i32::try_from(payload.len()).expect("no message has 2 GiB"));
        dst.put_slice(payload);
    }

    /// The bare form as bytes.
    pub fn to_bare(&self) -> Bytes {
        let mut dst = BytesMut::new();
        self.encode_bare(&mut dst);
        dst.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_message_reads_back() {
        let end = proto::BufferStreamEnd { stream_type: 0, stream_id: 4711 };
        let message = Message::of(&end);
        assert_eq!(message.to_bare(), [&[0, 0, 0, 60, 0, 0, 0, 3, 0x10, 0xe7, 0x24][..]].concat());
        let back = Message::decode_bare(message.to_bare()).unwrap();
        assert_eq!(back.parse::<received::BufferStreamEnd>().unwrap().stream_id, 4711);
        assert!(back.parse::<received::OpenStream>().is_err(), "another message's number");
        assert_eq!(MessageType::BATCH_OPEN_STREAM.name(), Some("BATCH_OPEN_STREAM"));
    }

    #[test]
    fn a_length_that_does_not_fit_is_refused() {
        let bytes = Bytes::from_static(&[0, 0, 0, 60, 0x7f, 0xff, 0xff, 0xff, 1]);
        let error = Message::decode_bare(bytes).unwrap_err();
        assert_eq!((error.field, error.offset), ("payload length", 8));
        assert!(Message::decode_bare(Bytes::from_static(&[0, 0, 0, 60, 0, 0, 0, 0, 9])).is_err());
    }
}
