//! A protocol for tests.
//!
//! ```text
//! offset  width  meaning (big-endian)
//! 0       1      0 request, 1 answer, 2 failure, 3 a notice that nobody asked for
//! 1       8      the request's number
//! 9       4      T, length of the failure's text
//! 13      4      B, length of the body
//! 17      T      the text, UTF-8
//! 17+T    B      the body
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::*;

pub struct Letters;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Header {
    Request { id: i64 },
    Answer { id: i64 },
    Failure { id: i64, text: String },
    Notice,
}

#[derive(Debug, Clone)]
pub struct Limits {
    pub body_max: usize,
}

const TEXT_MAX: usize = 4096;

impl Protocol for Letters {
    type Header = Header;
    type Received = Header;
    type Limits = Limits;
    type Error = String;

    const WINDOW: usize = 32;

    fn decode(bytes: &mut BytesMut, limits: &Limits) -> Result<Option<(Header, usize)>, String> {
        let Some(prefix) = bytes.first_chunk::<17>() else {
            return match bytes.first() {
                Some(kind @ 4..) => Err(format!("kind {kind}")),
                _ => Ok(None),
            };
        };
        let mut prefix = &prefix[..];
        let (kind, id) = (prefix.get_u8(), prefix.get_i64());
        let (text_len, body_len) = (prefix.get_u32() as usize, prefix.get_u32() as usize);
        if kind > 3 || text_len > TEXT_MAX || body_len > limits.body_max {
            return Err(format!("kind {kind}, a text of {text_len} bytes, a body of {body_len}"));
        }
        if bytes.len() < 17 + text_len {
            return Ok(None);
        }
        bytes.advance(17);
        let text = String::from_utf8(bytes.split_to(text_len).to_vec()).map_err(|error| error.to_string())?;
        let header = match kind {
            0 => Header::Request { id },
            1 => Header::Answer { id },
            2 => Header::Failure { id, text },
            _ => Header::Notice,
        };
        Ok(Some((header, body_len)))
    }

    fn encode(header: &Header, body_len: usize, bytes: &mut BytesMut) {
        let (kind, id, text) = match header {
            Header::Request { id } => (0, *id, ""),
            Header::Answer { id } => (1, *id, ""),
            Header::Failure { id, text } => (2, *id, text.as_str()),
            Header::Notice => (3, 0, ""),
        };
        bytes.put_u8(kind);
        bytes.put_i64(id);
        bytes.put_u32(text.len() as u32);
        bytes.put_u32(body_len as u32);
        bytes.put_slice(text.as_bytes());
    }
}

impl Calls for Letters {
    type Key = i64;
    type Answer = Bytes;
    type Failure = String;

    fn answer_limits() -> Limits {
        Limits { body_max: 128 << 20 }
    }

    fn number(header: &mut Header, next: impl FnOnce() -> i64) -> i64 {
        match header {
            Header::Request { id } => {
                *id = next();
                *id
            }
            other => panic!("{other:?} is no request"),
        }
    }

    fn answer(head: Header, body: Bytes) -> Option<(i64, Result<Bytes, String>)> {
        match head {
            Header::Answer { id } => Some((id, Ok(body))),
            Header::Failure { id, text } => Some((id, Err(text))),
            Header::Request { .. } | Header::Notice => None,
        }
    }
}

/// Appends a whole frame.
pub fn put(bytes: &mut BytesMut, header: &Header, body: &[u8]) {
    Letters::encode(header, body.len(), bytes);
    bytes.put_slice(body);
}
