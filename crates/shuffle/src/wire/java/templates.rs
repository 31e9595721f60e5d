//! The objects that we write, in the form that 0.5.4 writes.

use bytes::{BufMut, Bytes, BytesMut};

use super::{
    BOOLEAN, CHECK_EXISTENCE, SC_SERIALIZABLE, STREAM_HEADER, TC_ARRAY, TC_CLASSDESC, TC_ENDBLOCKDATA,
    TC_NULL, TC_OBJECT, TC_STRING, TRANSPORT_MESSAGE,
};
use crate::wire::message::Message;

/// Appends a `TransportMessage` in the form of 0.5.4.
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

/// Appends a `java.lang.Boolean`: the answer to [`Object::CheckExistence`](super::Object::CheckExistence).
pub fn encode_boolean(value: bool, dst: &mut BytesMut) {
    put_class(dst, BOOLEAN, 0xcd20_7280_d59c_faee, SC_SERIALIZABLE, 1);
    dst.put_u8(b'Z');
    put_utf(dst, "value");
    dst.put_slice(&[TC_ENDBLOCKDATA, TC_NULL, u8::from(value)]);
}

/// Appends a `CheckExistence` as a JVM client sends it; only tests and the fuzzer's seeds need it.
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

pub(super) fn put_class_desc(dst: &mut BytesMut, name: &str, version: u64, flags: u8, fields: u16) {
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
