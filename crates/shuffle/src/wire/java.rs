//! The few objects that arrive and leave in Java's own serialisation.
//!
//! A JVM client sends one of two classes, `TransportMessage` and `CheckExistence`; it understands `TransportMessage`
//! and `Boolean` as answers. Newer clients add fields to the class descriptions, so the reader follows the
//! grammar ("Java Object Serialization Specification", section 6.4) instead of comparing prefixes; what it writes are
//! templates in the shape of 0.5.4, which every client reads.

use std::rc::Rc;

use bytes::{BufMut, Bytes, BytesMut};

use super::cursor::{Cursor, DecodeError, Problem};
use super::message::{Message, MessageType};

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
const FIRST_HANDLE: i32 = 0x007e_0000;

/// Limits of the reader. A real message has 5 handles, 3 fields a class, and nests 3 deep. A field without a name has three
/// bytes on the wire and forty here, so they are limited in all as well as for each class.
const HANDLES_MAX: usize = 256;
const FIELDS_MAX: usize = 32;
const FIELDS_IN_ALL_MAX: usize = 256;
const DEPTH_MAX: usize = 12;

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
    /// Reads a stream of one object. Bytes behind the object are ignored, as Java's reader does.
    ///
    /// # Errors
    /// The bytes do not follow the grammar, or exceed the reader's limits.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let cursor = Cursor::new(bytes);
        let mut reader = Reader { cursor, handles: Vec::new(), fields: 0 };
        let magic = reader.cursor.i32("java stream header")?;
        if magic != STREAM_HEADER {
            return Err(reader.cursor.error("java stream header", Problem::Unexpected(magic.into())));
        }
        match reader.value(0)? {
            Value::Object(object) => object.into_known(&reader.cursor),
            _ => Err(reader.cursor.error("java object", Problem::Malformed("an object"))),
        }
    }
}

/// A value of a field. Only what the known classes need is kept; the rest is read and dropped.
#[derive(Debug, Clone)]
enum Value {
    Null,
    Int(i32),
    Bool(bool),
    Text(Bytes),
    Bytes(Bytes),
    Object(Fields),
    Dropped,
}

/// An object's class and the values of its fields by name, superclass first.
#[derive(Debug, Clone)]
struct Fields {
    class: Bytes,
    values: Vec<(Bytes, Value)>,
}

impl Fields {
    fn take(&mut self, name: &str) -> Option<Value> {
        let index = self.values.iter().position(|(field, _)| field == name.as_bytes())?;
        Some(self.values.swap_remove(index).1)
    }

    fn into_known(mut self, cursor: &Cursor) -> Result<Object, DecodeError> {
        let malformed = |class| Err(cursor.error("java object", Problem::Malformed(class)));
        if self.class == TRANSPORT_MESSAGE {
            return match (self.take("messageTypeValue"), self.take("payload")) {
                (Some(Value::Int(kind)), Some(Value::Bytes(payload))) => {
                    Ok(Object::Message(Message { kind: MessageType(kind), payload: Some(payload) }))
                }
                (Some(Value::Int(kind)), Some(Value::Null)) => {
                    Ok(Object::Message(Message { kind: MessageType(kind), payload: None }))
                }
                _ => malformed("a TransportMessage"),
            };
        }
        if self.class == CHECK_EXISTENCE {
            return match self.take("name") {
                Some(Value::Text(name)) => {
                    Ok(Object::CheckExistence(String::from_utf8_lossy(&name).into_owned()))
                }
                _ => malformed("a CheckExistence"),
            };
        }
        if self.class == BOOLEAN {
            return match self.take("value") {
                Some(Value::Bool(value)) => Ok(Object::Boolean(value)),
                _ => malformed("a Boolean"),
            };
        }
        Ok(Object::Other(String::from_utf8_lossy(&self.class).into_owned()))
    }
}

/// What a back reference can point to.
#[derive(Debug, Clone)]
enum Handle {
    Class(usize),
    Text(Bytes),
    Other,
}

#[derive(Debug, Clone)]
struct Class {
    name: Bytes,
    flags: u8,
    fields: Vec<(u8, Bytes)>,
    /// Its handle's index, so that a superclass chain is a chain of numbers.
    superclass: Option<usize>,
}

struct Reader {
    cursor: Cursor,
    handles: Vec<(Handle, Option<Rc<Class>>)>,
    /// Of all classes so far.
    fields: usize,
}

impl Reader {
    fn assign(&mut self, handle: Handle, class: Option<Rc<Class>>) -> Result<usize, DecodeError> {
        if self.handles.len() == HANDLES_MAX {
            let problem = Problem::TooLong { found: HANDLES_MAX as u64 + 1, max: HANDLES_MAX as u64 };
            return Err(self.cursor.error("java handles", problem));
        }
        self.handles.push((handle, class));
        Ok(self.handles.len() - 1)
    }

    fn utf(&mut self, field: &'static str) -> Result<Bytes, DecodeError> {
        let len = self.cursor.u16(field)?;
        self.cursor.bytes(field, len.into())
    }

    fn reference(&mut self) -> Result<Handle, DecodeError> {
        let handle = self.cursor.i32("java reference")?;
        let index = usize::try_from(i64::from(handle) - i64::from(FIRST_HANDLE)).ok();
        let found = index.and_then(|index| self.handles.get(index)).map(|(handle, _)| handle.clone());
        found.ok_or_else(|| self.cursor.error("java reference", Problem::Unexpected(handle.into())))
    }

    fn unexpected<T>(&self, field: &'static str, tag: u8) -> Result<T, DecodeError> {
        Err(self.cursor.error(field, Problem::Unexpected(tag.into())))
    }

    /// A value with its tag.
    fn value(&mut self, depth: usize) -> Result<Value, DecodeError> {
        let tag = self.cursor.u8("java tag")?;
        self.tagged(tag, depth)
    }

    fn tagged(&mut self, tag: u8, depth: usize) -> Result<Value, DecodeError> {
        if depth > DEPTH_MAX {
            let problem = Problem::TooLong { found: depth as u64, max: DEPTH_MAX as u64 };
            return Err(self.cursor.error("java nesting", problem));
        }
        match tag {
            TC_NULL => Ok(Value::Null),
            TC_REFERENCE => Ok(match self.reference()? {
                Handle::Text(text) => Value::Text(text),
                Handle::Class(_) | Handle::Other => Value::Dropped,
            }),
            TC_STRING => {
                let text = self.utf("java string")?;
                self.assign(Handle::Text(text.clone()), None)?;
                Ok(Value::Text(text))
            }
            TC_OBJECT => self.object(depth),
            TC_ARRAY => self.array(depth),
            TC_ENUM => {
                self.class(depth)?;
                self.assign(Handle::Other, None)?;
                self.value(depth + 1)?; // the constant's name
                Ok(Value::Dropped)
            }
            TC_CLASSDESC => {
                self.described_class(depth)?;
                Ok(Value::Dropped)
            }
            other => self.unexpected("java tag", other),
        }
    }

    /// A class description, new or referred to; `None` for null.
    fn class(&mut self, depth: usize) -> Result<Option<usize>, DecodeError> {
        match self.cursor.u8("java class tag")? {
            TC_NULL => Ok(None),
            TC_REFERENCE => match self.reference()? {
                Handle::Class(index) => Ok(Some(index)),
                _ => Err(self.cursor.error("java reference", Problem::Malformed("a class"))),
            },
            TC_CLASSDESC => self.described_class(depth).map(Some),
            other => self.unexpected("java class tag", other),
        }
    }

    fn described_class(&mut self, depth: usize) -> Result<usize, DecodeError> {
        if depth > DEPTH_MAX {
            let problem = Problem::TooLong { found: depth as u64, max: DEPTH_MAX as u64 };
            return Err(self.cursor.error("java nesting", problem));
        }
        let name = self.utf("java class name")?;
        self.cursor.i64("java serial version")?;
        let index = self.assign(Handle::Other, None)?;
        let flags = self.cursor.u8("java class flags")?;
        let count = usize::from(self.cursor.u16("java field count")?);
        let max = FIELDS_MAX.min(FIELDS_IN_ALL_MAX - self.fields);
        if count > max {
            let problem = Problem::TooLong { found: count as u64, max: max as u64 };
            return Err(self.cursor.error("java field count", problem));
        }
        self.fields += count;
        let mut fields = Vec::with_capacity(count);
        for _ in 0..count {
            let kind = self.cursor.u8("java field type")?;
            let field = self.utf("java field name")?;
            if matches!(kind, b'L' | b'[') {
                self.value(depth + 1)?; // the field's type, a string
            }
            fields.push((kind, field));
        }
        self.annotation(depth)?;
        let superclass = self.class(depth + 1)?;
        // A class may not be its own ancestor: its description is complete only from here on.
        let class = Class { name, flags, fields, superclass };
        self.handles[index] = (Handle::Class(index), Some(Rc::new(class)));
        Ok(index)
    }

    /// What a class writes beside its fields, to the end mark.
    fn annotation(&mut self, depth: usize) -> Result<(), DecodeError> {
        loop {
            match self.cursor.u8("java annotation")? {
                TC_ENDBLOCKDATA => return Ok(()),
                TC_BLOCKDATA => {
                    let len = self.cursor.u8("java block length")?;
                    self.cursor.bytes("java block", len.into())?;
                }
                tag => {
                    self.tagged(tag, depth + 1)?;
                }
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, DecodeError> {
        let Some(index) = self.class(depth)? else {
            return Err(self.cursor.error("java object", Problem::Malformed("a class")));
        };
        self.assign(Handle::Other, None)?;
        let mut chain = vec![index];
        while let Some(next) =
            self.handles[chain[chain.len() - 1]].1.as_ref().and_then(|class| class.superclass)
        {
            chain.push(next);
        }
        let mut values = Vec::new();
        let mut name = Bytes::new();
        for index in chain.into_iter().rev() {
            let class = self.handles[index].1.clone().expect("a class handle holds its class");
            if class.flags & SC_SERIALIZABLE == 0 {
                return Err(self.cursor.error("java class flags", Problem::Unexpected(class.flags.into())));
            }
            for (kind, field) in &class.fields {
                let value = self.field(*kind, depth)?;
                // Fields of nested objects and of long chains are of no use to anybody here.
                if depth == 0 && values.len() < FIELDS_MAX {
                    values.push((field.clone(), value));
                }
            }
            if class.flags & SC_WRITE_METHOD != 0 {
                self.annotation(depth)?;
            }
            name = class.name.clone();
        }
        Ok(Value::Object(Fields { class: name, values }))
    }

    fn field(&mut self, kind: u8, depth: usize) -> Result<Value, DecodeError> {
        match kind {
            b'I' => Ok(Value::Int(self.cursor.i32("java int")?)),
            b'Z' => Ok(Value::Bool(self.cursor.u8("java boolean")? != 0)),
            b'B' => self.cursor.u8("java byte").map(|_| Value::Dropped),
            b'C' | b'S' => self.cursor.u16("java short").map(|_| Value::Dropped),
            b'F' => self.cursor.i32("java float").map(|_| Value::Dropped),
            b'J' | b'D' => self.cursor.i64("java long").map(|_| Value::Dropped),
            b'L' | b'[' => self.value(depth + 1),
            other => self.unexpected("java field type", other),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, DecodeError> {
        let Some(index) = self.class(depth)? else {
            return Err(self.cursor.error("java array", Problem::Malformed("a class")));
        };
        self.assign(Handle::Other, None)?;
        let name = self.handles[index].1.as_ref().map(|class| class.name.clone()).unwrap_or_default();
        let element = name.get(1).copied().unwrap_or_default();
        let count = self.cursor.count("java array length", 1)?;
        if name == "[B" {
            return Ok(Value::Bytes(self.cursor.bytes("java array", count)?));
        }
        for _ in 0..count {
            self.field(element, depth)?;
        }
        Ok(Value::Dropped)
    }
}

/// Appends a `TransportMessage` in the shape of 0.5.4.
///
/// # Panics
/// If the payload has 2 GiB or more.
pub fn encode_message(message: &Message, dst: &mut BytesMut) {
    let len = message.payload.as_ref().map_or(0, Bytes::len);
    dst.reserve(160 + len);
    put_class(dst, TRANSPORT_MESSAGE, 0xd2c5_b3ed_f707_0f33, SC_SERIALIZABLE, 2);
    dst.put_u8(b'I');
    put_utf(dst, "messageTypeValue");
    dst.put_u8(b'[');
    put_utf(dst, "payload");
    put_string(dst, "[B");
    dst.put_slice(&[TC_ENDBLOCKDATA, TC_NULL]);
    dst.put_i32(message.kind.0);
    match &message.payload {
        None => dst.put_u8(TC_NULL),
        Some(payload) => {
            dst.put_u8(TC_ARRAY);
            dst.put_u8(TC_CLASSDESC);
            put_utf(dst, "[B");
            dst.put_u64(0xacf3_17f8_0608_54e0);
            dst.put_u8(SC_SERIALIZABLE);
            dst.put_u16(0);
            dst.put_slice(&[TC_ENDBLOCKDATA, TC_NULL]);
            dst.put_i32(i32::try_from(payload.len()).expect("no message has 2 GiB"));
            dst.put_slice(payload);
        }
    }
}

/// Appends a `java.lang.Boolean`: the answer to [`Object::CheckExistence`].
pub fn encode_boolean(value: bool, dst: &mut BytesMut) {
    put_class(dst, BOOLEAN, 0xcd20_7280_d59c_faee, SC_SERIALIZABLE, 1);
    dst.put_u8(b'Z');
    put_utf(dst, "value");
    dst.put_slice(&[TC_ENDBLOCKDATA, TC_NULL, u8::from(value)]);
}

/// Appends a `CheckExistence`, as a JVM client asks it, for tests and the fuzzer's seeds: nobody here asks it.
pub fn encode_check_existence(endpoint: &str, dst: &mut BytesMut) {
    put_class(dst, CHECK_EXISTENCE, 0x0000_0072_ade1_ba7d, SC_SERIALIZABLE, 1);
    dst.put_u8(b'L');
    put_utf(dst, "name");
    put_string(dst, "Ljava/lang/String;");
    dst.put_slice(&[TC_ENDBLOCKDATA, TC_NULL]);
    put_string(dst, endpoint);
}

/// The stream header, an object, and the beginning of its class description, up to its fields.
fn put_class(dst: &mut BytesMut, name: &str, version: u64, flags: u8, fields: u16) {
    dst.put_i32(STREAM_HEADER);
    dst.put_u8(TC_OBJECT);
    put_class_desc(dst, name, version, flags, fields);
}

fn put_class_desc(dst: &mut BytesMut, name: &str, version: u64, flags: u8, fields: u16) {
    dst.put_u8(TC_CLASSDESC);
    put_utf(dst, name);
    dst.put_u64(version);
    dst.put_u8(flags);
    dst.put_u16(fields);
}

fn put_string(dst: &mut BytesMut, text: &str) {
    dst.put_u8(TC_STRING);
    put_utf(dst, text);
}

/// A u16 length and the text.
fn put_utf(dst: &mut BytesMut, text: &str) {
    dst.put_u16(u16::try_from(text.len()).expect("names of classes, fields and endpoints are short"));
    dst.put_slice(text.as_bytes());
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An `RpcFailure(MasterNotLeaderException)` with the text `why` and the leader `m:9097`, from a 0.5.4 master: the
    /// richest object that is at hand, with six classes and back references.
    const CAPTURED_NOT_LEADER: &str = include_str!("java/not_leader.hex");

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

    #[test]
    fn a_message_with_the_newer_third_field_is_read() {
        let mut bytes = hex(CAPTURED_PREFIX);
        let count = 4 + 1 + 1 + 2 + TRANSPORT_MESSAGE.len() + 8 + 1 + 1; // behind header, tags, name, version, flags
        assert_eq!(bytes[count - 1..=count], [0, 2], "the place of the field count");
        bytes[count] = 3;
        bytes.truncate(bytes.len() - 2);
        bytes.extend_from_slice(b"L\0\x0cserdeVersion");
        let class = b"Lorg/apache/celeborn/common/network/protocol/SerdeVersion;";
        bytes.extend_from_slice(&[TC_STRING, 0, class.len() as u8]);
        bytes.extend_from_slice(class);
        bytes.extend_from_slice(&[
            TC_ENDBLOCKDATA,
            TC_NULL,
            0,
            0,
            0,
            30,
            TC_NULL,
            TC_ENUM,
            TC_NULL,
            TC_STRING,
        ]);
        bytes.extend_from_slice(b"\0\x02V1");
        assert_eq!(Object::decode(bytes.into()), Ok(Object::Message(message(None))));
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
            // An enum whose class's superclass is a class whose …
            deep.extend_from_slice(&[TC_ENUM, TC_NULL]);
        }
        assert!(Object::decode(deep.into()).is_err());
    }

    /// The text of a description of a class, with `fields` bytes without names.
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
