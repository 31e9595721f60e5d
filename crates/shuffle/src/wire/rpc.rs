//! The envelope of requests on the `rpc` ports, and the form of their answers.
//!
//! ```text
//! u8   1 if a sender follows        then u16 length, host, i32 port
//! u8   1 if a receiver follows      then u16 length, host, i32 port
//! u16  length of the endpoint's name, and the name
//! …    content, by its first byte:  AC  a Java-serialised object
//!                                   FF  native: FF, then a bare message
//! ```
//! An answer is content alone, always in Java's form, whatever the request's: every client reads that one.

use bytes::{BufMut, Bytes, BytesMut};

use super::cursor::{Cursor, DecodeError, Problem};
use super::java::{self, Object};
use super::message::{Message, MessageType, Typed};
use crate::ids::DriverId;

/// The master's endpoint.
pub const MASTER: &str = "MasterEndpoint";
/// A worker's endpoint.
pub const WORKER: &str = "WorkerEndpoint";

const NATIVE: u8 = 0xff;

/// A request on an `rpc` port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Who sent it: a JVM client says where it listens, which no other process does at the time; the other clients do not
    /// listen, and say nothing or the same always.
    pub sender: Option<DriverId>,
    /// The name of the endpoint that it is for.
    pub endpoint: String,
    /// What it asks.
    pub call: Call,
}

/// What a request asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// A protobuf request.
    Message(Message),
    /// Whether an endpoint exists.
    CheckExistence(String),
    /// An object of a class that no client of ours sends, by the class's name.
    Foreign(String),
}

impl Request {
    /// Decodes a request that takes up all of `body`.
    ///
    /// # Errors
    /// The bytes are not an envelope with content.
    pub fn decode(body: Bytes) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(body);
        let sender = read_address(&mut cursor, "sender")?;
        read_address(&mut cursor, "receiver")?;
        let len = cursor.u16("endpoint length")?.into();
        let endpoint = cursor.text_of("endpoint", len, |name| Ok(name.to_owned()))?;
        let call = match cursor.peek_u8() {
            Some(java::STREAM_MAGIC_FIRST) => match Object::decode(cursor.rest())? {
                Object::Message(message) => Call::Message(message),
                Object::CheckExistence(name) => Call::CheckExistence(name),
                Object::Boolean(_) => Call::Foreign("java.lang.Boolean".to_owned()),
                Object::Other(class) => Call::Foreign(class),
            },
            Some(NATIVE) => {
                cursor.u8("content")?;
                Call::Message(Message::decode_at(cursor)?)
            }
            Some(other) => return Err(cursor.error("content", Problem::Unexpected(other.into()))),
            None => return Err(cursor.error("content", Problem::Truncated { needed: 1, found: 0 })),
        };
        Ok(Self { sender, endpoint, call })
    }

    /// A native request to an endpoint, as the body of an RPC frame.
    ///
    /// # Panics
    /// If the endpoint's name has 64 KiB or more.
    pub fn encode_native(endpoint: &str, message: &Message) -> Bytes {
        let mut dst =
            BytesMut::with_capacity(16 + endpoint.len() + message.payload.as_ref().map_or(0, Bytes::len));
        dst.put_slice(&[0, 0]);
        dst.put_u16(u16::try_from(endpoint.len()).expect("endpoint names are short"));
        dst.put_slice(endpoint.as_bytes());
        dst.put_u8(NATIVE);
        message.encode_bare(&mut dst);
        dst.freeze()
    }
}

/// Reads an address with its presence byte. Nobody connects to it, so that it is no more than a name.
fn read_address(cursor: &mut Cursor, field: &'static str) -> Result<Option<DriverId>, DecodeError> {
    match cursor.u8(field)? {
        0 => Ok(None),
        1 => {
            let len = cursor.u16(field)?;
            let host = cursor.bytes(field, len.into())?;
            Ok(Some(DriverId::at(&host, cursor.i32(field)?)))
        }
        other => Err(cursor.error(field, Problem::Unexpected(other.into()))),
    }
}

/// An answer on an `rpc` port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A protobuf answer.
    Message(Message),
    /// Whether the endpoint exists.
    Exists(bool),
}

impl Answer {
    /// The answer that carries a protobuf message.
    pub fn of<M: Typed>(message: &M) -> Self {
        Self::Message(Message::of(message))
    }

    /// The body of the response frame.
    pub fn encode(&self) -> Bytes {
        let mut dst = BytesMut::new();
        match self {
            Self::Message(message) => java::encode_message(message, &mut dst),
            Self::Exists(exists) => java::encode_boolean(*exists, &mut dst),
        }
        dst.freeze()
    }

    /// Reads the message out of a response frame's body.
    ///
    /// # Errors
    /// It holds anything but a message, in particular a Java exception.
    pub fn decode_message(body: Bytes) -> Result<Message, DecodeError> {
        match Object::decode(body)? {
            Object::Message(message) => Ok(message),
            Object::CheckExistence(_) | Object::Boolean(_) | Object::Other(_) => Err(DecodeError {
                field: "answer",
                offset: 0,
                problem: Problem::Malformed("a TransportMessage"),
            }),
        }
    }
}

impl From<Message> for Answer {
    fn from(message: Message) -> Self {
        Self::Message(message)
    }
}

/// The name of a message type, or its number if it has none, for logs and errors.
pub fn describe(kind: MessageType) -> String {
    kind.name().map_or_else(|| format!("message type {}", kind.0), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::proto;

    fn message() -> Message {
        Message::of(&proto::CheckQuota::default())
    }

    #[test]
    fn native_and_java_requests_say_the_same() {
        let native = Request::encode_native(MASTER, &message());
        let expected = Request { sender: None, endpoint: MASTER.to_owned(), call: Call::Message(message()) };
        assert_eq!(Request::decode(native.clone()), Ok(expected.clone()));
        for len in 0..native.len() {
            assert!(Request::decode(native.slice(..len)).is_err(), "prefix of {len} bytes");
        }
        let mut java = BytesMut::new();
        java.put_slice(b"\x01\0\x04host\0\0\x12\x34\x01\0\x01h\0\0\0\x01\0\x0eMasterEndpoint");
        java::encode_message(&message(), &mut java);
        let sender = Some(DriverId::at(b"host", 0x1234));
        assert_eq!(Request::decode(java.freeze()), Ok(Request { sender, ..expected }));
        assert_ne!(sender, Some(DriverId::at(b"host", 0x1235)));
    }

    #[test]
    fn a_verifier_request_names_its_endpoint() {
        let mut bytes = BytesMut::from(&b"\0\0\0\x11endpoint-verifier"[..]);
        java::encode_check_existence(WORKER, &mut bytes);
        let request = Request::decode(bytes.freeze()).unwrap();
        assert_eq!(request.endpoint, "endpoint-verifier");
        assert_eq!(request.call, Call::CheckExistence(WORKER.to_owned()));
    }

    #[test]
    fn answers_read_back() {
        let answer = Answer::Message(message());
        assert_eq!(Answer::decode_message(answer.encode()), Ok(message()));
        assert_eq!(
            Answer::decode_message(Answer::Message(Message::ONE_WAY_RESPONSE).encode()),
            Ok(Message::ONE_WAY_RESPONSE)
        );
        assert!(Answer::decode_message(java::tests::captured_exception()).is_err());
    }
}
