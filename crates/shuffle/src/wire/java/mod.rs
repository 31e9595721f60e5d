//! The few objects that arrive and leave in Java's own serialisation.
//!
//! A JVM client sends one of two classes, `TransportMessage` and `CheckExistence`; it understands `TransportMessage`
//! and `Boolean` as answers. Newer clients add fields to the class descriptions, so the `reader` follows the grammar
//! ("Java Object Serialization Specification", section 6.4) instead of comparing prefixes; objects are written from
//! `templates` in the form of 0.5.4, which every client reads.

mod reader;
mod templates;

use bytes::Bytes;

use super::cursor::DecodeError;
use super::message::{Message, MessageType};
use reader::{Fields, Reader, Value};
pub use templates::{encode_boolean, encode_check_existence, encode_message};

const TRANSPORT_MESSAGE: &str = "org.apache.celeborn.common.network.protocol.TransportMessage";
const CHECK_EXISTENCE: &str = "org.apache.celeborn.common.rpc.netty.RpcEndpointVerifier$CheckExistence";
const BOOLEAN: &str = "java.lang.Boolean";

/// First byte of every stream; tells Java content from native content.
pub const STREAM_MAGIC_FIRST: u8 = 0xac;

const STREAM_HEADER: i32 = 0xaced_0005_u32.cast_signed();
const TC_NULL: u8 = 0x70;
const TC_REFERENCE: u8 = 0x71;
const TC_CLASSDESC: u8 = 0x72;
const TC_OBJECT: u8 = 0x73;
const TC_STRING: u8 = 0x74;
const TC_ARRAY: u8 = 0x75;
const TC_BLOCKDATA: u8 = 0x77;
const TC_ENDBLOCKDATA: u8 = 0x78;
const TC_ENUM: u8 = 0x7e;
const SC_WRITE_METHOD: u8 = 0x01;
const SC_SERIALIZABLE: u8 = 0x02;

/// An object from a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// A protobuf message, request or answer.
    Message(Message),
    /// "Is there an endpoint of this name?", which a client asks before its first request.
    CheckExistence(String),
    /// The answer to it.
    Boolean(bool),
    /// Anything else, by the name of its class.
    Other(String),
}

impl Object {
    /// Reads a stream of one object. Bytes after the object are ignored, as Java's reader does.
    ///
    /// # Errors
    /// The bytes do not follow the grammar, or exceed the reader's limits.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let fields = reader.stream()?;
        Self::from_fields(fields).map_err(|class| reader.malformed(class))
    }

    /// Converts an object of a known class; the error says what it should have been.
    fn from_fields(mut fields: Fields) -> Result<Self, &'static str> {
        let class = std::mem::take(&mut fields.class);
        if class == TRANSPORT_MESSAGE {
            let payload = match fields.take("payload") {
                Some(Value::Bytes(payload)) => Some(payload),
                Some(Value::Null) => None,
                _ => return Err("a TransportMessage"),
            };
            return match fields.take("messageTypeValue") {
                Some(Value::Int(kind)) => Ok(Self::Message(Message { kind: MessageType(kind), payload })),
                _ => Err("a TransportMessage"),
            };
        }
        if class == CHECK_EXISTENCE {
            return match fields.take("name") {
                Some(Value::Text(name)) => {
                    Ok(Self::CheckExistence(String::from_utf8_lossy(&name).into_owned()))
                }
                _ => Err("a CheckExistence"),
            };
        }
        if class == BOOLEAN {
            return match fields.take("value") {
                Some(Value::Bool(value)) => Ok(Self::Boolean(value)),
                _ => Err("a Boolean"),
            };
        }
        Ok(Self::Other(String::from_utf8_lossy(&class).into_owned()))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use bytes::{BufMut, BytesMut};

    use super::templates::put_class_desc;
    use super::*;

    /// An `RpcFailure(MasterNotLeaderException)` as 0.5.4 writes it, with the text `why` and the leader `m:9097`: the
    /// most complex captured object, with five classes and back references.
    const CAPTURED_NOT_LEADER: &str = include_str!("not_leader.hex");

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    pub fn captured_exception() -> Bytes {
        hex(&CAPTURED_NOT_LEADER.replace('\n', "")).into()
    }

    fn encoded(encode: impl FnOnce(&mut BytesMut)) -> Bytes {
        let mut dst = BytesMut::new();
        encode(&mut dst);
        dst.freeze()
    }

    /// Bytes that the 0.5.4 client wrote.
    const CAPTURED_PREFIX: &str = "aced00057372003c6f72672e6170616368652e63656c65626f726e2e636f6d6d6f6e2e6e6574776f726b2e\
        70726f746f636f6c2e5472616e73706f72744d657373616765d2c5b3edf7070f330200024900106d6573736167655479706556616c75655b00\
        077061796c6f61647400025b427870";

    fn message(payload: Option<&'static [u8]>) -> Message {
        Message { kind: MessageType::COMMIT_FILES, payload: payload.map(Bytes::from_static) }
    }

    #[test]
    fn messages_have_the_clients_bytes_and_read_back() {
        let with_payload = encoded(|dst| encode_message(&message(Some(b"abc")), dst));
        let tail = "0000001e757200025b42acf317f8060854e00200007870000000036162 63".replace(' ', "");
        assert_eq!(with_payload, [hex(CAPTURED_PREFIX), hex(&tail)].concat());
        assert_eq!(Object::decode(with_payload), Ok(Object::Message(message(Some(b"abc")))));
        let null = encoded(|dst| encode_message(&message(None), dst));
        assert_eq!(null, [hex(CAPTURED_PREFIX), hex("0000001e70")].concat());
        assert_eq!(Object::decode(null), Ok(Object::Message(message(None))));
    }

    /// The class and value of the third field that clients have from 0.6 on, an enum. Not captured: derived from the
    /// source of 0.6.3 and Java's rules.
    const SERDE_VERSION_V1: &str = "7e720038\
        6f72672e6170616368652e63656c65626f726e2e636f6d6d6f6e2e6e6574776f726b2e70726f746f636f6c2e53657264655665727369\
        6f6e00000000000000001200007872000e6a6176612e6c616e672e456e756d000000000000000012000078707400025631";

    /// What a client from 0.6 on makes of a message of two fields.
    fn with_third_field(two: &Bytes) -> Vec<u8> {
        let mut bytes = two.to_vec();
        let count = 4 + 1 + 1 + 2 + TRANSPORT_MESSAGE.len() + 8 + 1 + 1; // behind header, tags, name, version, flags
        assert_eq!(bytes[count - 1..=count], [0, 2], "the place of the field count");
        bytes[count] = 3;
        let class = b"Lorg/apache/celeborn/common/network/protocol/SerdeVersion;";
        let mut field = b"L\0\x0cserdeVersion".to_vec();
        field.extend_from_slice(&[TC_STRING, 0, class.len() as u8]);
        field.extend_from_slice(class);
        let fields_end = CAPTURED_PREFIX.len() / 2 - 2;
        bytes.splice(fields_end..fields_end, field);
        bytes.extend_from_slice(&hex(SERDE_VERSION_V1));
        bytes
    }

    #[test]
    fn a_message_with_the_newer_third_field_is_read() {
        for message in [message(Some(b"abc")), message(None)] {
            let three = with_third_field(&encoded(|dst| encode_message(&message, dst)));
            assert_eq!(Object::decode(three.clone().into()), Ok(Object::Message(message)));
            for len in 0..three.len() {
                assert!(Object::decode(three[..len].to_vec().into()).is_err(), "prefix of {len} bytes");
            }
        }
    }

    #[test]
    fn booleans_and_verifiers_have_the_clients_bytes() {
        let captured =
            "aced0005737200116a6176612e6c616e672e426f6f6c65616ecd207280d59cfaee0200015a000576616c7565787001";
        let boolean = encoded(|dst| encode_boolean(true, dst));
        assert_eq!(boolean, hex(captured));
        assert_eq!(Object::decode(boolean), Ok(Object::Boolean(true)));
        let check = encoded(|dst| encode_check_existence("WorkerEndpoint", dst));
        assert_eq!(Object::decode(check), Ok(Object::CheckExistence("WorkerEndpoint".into())));
    }

    #[test]
    fn an_exception_is_read_as_far_as_its_name() {
        let bytes = captured_exception();
        let class = "org.apache.celeborn.common.rpc.netty.RpcFailure";
        assert_eq!(Object::decode(bytes.clone()), Ok(Object::Other(class.into())));
        for len in 0..bytes.len() {
            assert!(Object::decode(bytes.slice(..len)).is_err(), "prefix of {len} bytes");
        }
    }

    #[test]
    fn every_strict_prefix_is_refused_and_nesting_is_bounded() {
        let bytes = encoded(|dst| encode_message(&message(Some(b"abc")), dst));
        for len in 0..bytes.len() {
            assert!(Object::decode(bytes.slice(..len)).is_err(), "prefix of {len} bytes");
        }
        let mut deep = vec![0xac, 0xed, 0, 5];
        for _ in 0..100_000 {
            // An enum whose constant's name is an enum whose …
            deep.extend_from_slice(&[TC_ENUM, TC_NULL]);
        }
        assert!(Object::decode(deep.into()).is_err());
    }

    /// Appends a class description with `fields` fields of type byte whose names are empty.
    fn put_wide_class(fields: u16, dst: &mut BytesMut) {
        put_class_desc(dst, "C", 0, SC_SERIALIZABLE, fields);
        for _ in 0..fields {
            dst.put_slice(b"B\0\0");
        }
        dst.put_u8(TC_ENDBLOCKDATA);
    }

    #[test]
    fn fields_are_bounded_over_all_classes() {
        let chain = |classes: usize| {
            encoded(|dst| {
                dst.put_i32(STREAM_HEADER);
                dst.put_u8(TC_OBJECT);
                (0..classes).for_each(|_| put_wide_class(32, dst));
                dst.put_u8(TC_NULL);
                dst.put_bytes(0, 32 * classes);
            })
        };
        assert_eq!(Object::decode(chain(8)), Ok(Object::Other("C".into())));
        assert_eq!(Object::decode(chain(9)).unwrap_err().field, "java field count");
    }
}
