//! The frame: what every connection carries in both directions.
//!
//! ```text
//! offset  width      meaning (all numbers big-endian and signed)
//! 0       4          H, length of the header
//! 4       1          frame type
//! 5       4          B, length of the body, 0 if the type has none
//! 9       H          header, by type (see [`Header`])
//! 9+H     B          body, opaque here
//! ```
//! A string in a header is an i32 length and UTF-8; an array is an i32 count and its elements.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::cursor::{Cursor, DecodeError, Problem};
use super::limits::Limits;
use crate::ids::{LocationId, Mode, ShuffleKey};

/// Bytes in front of a frame's header.
pub const PREFIX_LEN: usize = 9;

/// Bytes of the request id at the start of a push's header.
const REQUEST_ID_LEN: usize = 8;

/// The frame types that our clients use; a frame of any other type ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameType {
    /// Asks for a chunk (Sail and old JVM clients).
    ChunkFetchRequest = 0,
    /// A chunk.
    ChunkFetchSuccess = 1,
    /// Why there is no chunk.
    ChunkFetchFailure = 2,
    /// A request whose body says what it is.
    RpcRequest = 3,
    /// The answer to a request or a push.
    RpcResponse = 4,
    /// Why there is no answer.
    RpcFailure = 5,
    /// A request without an answer.
    OneWayMessage = 9,
    /// One batch for one location.
    PushData = 11,
    /// Batches for several locations of one worker.
    PushMergedData = 12,
    /// A sign of life.
    Heartbeat = 22,
}

impl FrameType {
    fn from_wire(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::ChunkFetchRequest,
            1 => Self::ChunkFetchSuccess,
            2 => Self::ChunkFetchFailure,
            3 => Self::RpcRequest,
            4 => Self::RpcResponse,
            5 => Self::RpcFailure,
            9 => Self::OneWayMessage,
            11 => Self::PushData,
            12 => Self::PushMergedData,
            22 => Self::Heartbeat,
            _ => return None,
        })
    }
}

/// A part of a chunk. A client finds its request by all four numbers, so an answer repeats them exactly.
///
/// Layout: i64 stream id, i32 chunk index, i32 offset, i32 length (2147483647: to the end of the chunk).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChunkSlice {
    /// The stream, as opened on this worker (not on this connection).
    pub stream_id: i64,
    /// The chunk within the stream, from 0.
    pub chunk_index: i32,
    /// The first byte within the chunk.
    pub offset: i32,
    /// How many bytes, or [`ChunkSlice::TO_END`].
    pub len: i32,
}

impl ChunkSlice {
    /// The length that stands for "to the end of the chunk".
    pub const TO_END: i32 = i32::MAX;
}

/// A frame's header. Each variant gives the frame type's number and the layout after the prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Header {
    /// Type 0: the slice. No body.
    ChunkFetchRequest(ChunkSlice),
    /// Type 1: the slice. The body is the data.
    ChunkFetchSuccess(ChunkSlice),
    /// Type 2: the slice, string error. No body.
    ChunkFetchFailure {
        /// Which request.
        slice: ChunkSlice,
        /// Why.
        error: String,
    },
    /// Type 3: i64 request id, i32 body length (again). The body is the payload.
    RpcRequest {
        /// Chosen by the client, repeated in the answer.
        request_id: i64,
    },
    /// Type 4: i64 request id, i32 body length (again). The body is the payload.
    RpcResponse {
        /// Which request.
        request_id: i64,
    },
    /// Type 5: i64 request id, string error. No body.
    RpcFailure {
        /// Which request.
        request_id: i64,
        /// Why; clients read a [`super::Status`] name at its start.
        error: String,
    },
    /// Type 9: i32 body length (again). The body is the payload.
    OneWayMessage,
    /// Type 11: i64 request id, u8 mode, string shuffle key, string location. The body is one batch.
    PushData {
        /// Chosen by the client, repeated in the answer.
        request_id: i64,
        /// To which copy.
        mode: Mode,
        /// To which shuffle.
        shuffle: ShuffleKey,
        /// To which location.
        location: LocationId,
    },
    /// Type 12: i64 request id, u8 mode, string shuffle key, string[] locations, i32[] offsets. The body is the batches
    /// one after the other; batch k begins at offset k and ends where the next one begins. A location may come twice.
    PushMergedData {
        /// Chosen by the client, repeated in the answer.
        request_id: i64,
        /// To which copies.
        mode: Mode,
        /// To which shuffle.
        shuffle: ShuffleKey,
        /// The location of each batch.
        locations: Vec<LocationId>,
        /// Where each batch begins in the body: 0 first, never decreasing, at most the body's length.
        offsets: Vec<u32>,
    },
    /// Type 22: one zero byte. No body.
    Heartbeat,
}

/// A header and the length of the body that follows it: what is known before the body arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The header.
    pub header: Header,
    /// Bytes of the body.
    pub body_len: usize,
}

/// What is read next from a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// A frame within the limits.
    Frame(Head),
    /// A push above the limits. Its request id is read so that it can be refused: if the connection ended instead, all
    /// other requests on it would fail, and the client would take the worker for dead.
    LongPush {
        /// Chosen by the client, repeated in the answer.
        request_id: i64,
        /// Bytes still to come: the rest of the header, and the body.
        rest_len: usize,
        /// Which limit it exceeds.
        error: DecodeError,
    },
}

/// A whole frame, for tests and the fuzzer: a connection reads each [`Head`] before its body, and writes parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The header.
    pub header: Header,
    /// The body, empty if the type has none.
    pub body: Bytes,
}

/// The prefix's three fields, checked against the limits.
struct Prefix {
    head_len: usize,
    kind: FrameType,
    body_len: usize,
}

impl Prefix {
    /// Reads the prefix without consuming it; `None` if it is not all there.
    fn peek(src: &[u8], limits: &Limits) -> Result<Option<Self>, DecodeError> {
        let Some(&[h0, h1, h2, h3, kind, b0, b1, b2, b3]) = src.first_chunk::<PREFIX_LEN>() else {
            return Ok(None);
        };
        let head_len = i32::from_be_bytes([h0, h1, h2, h3]);
        let body_len = i32::from_be_bytes([b0, b1, b2, b3]);
        let error = |field, offset, problem| DecodeError { field, offset, problem };
        let kind = FrameType::from_wire(kind)
            .ok_or_else(|| error("frame type", 4, Problem::Unexpected(kind.into())))?;
        let bounded = |field, offset, len: i32, max: usize| match usize::try_from(len) {
            Err(_) => Err(error(field, offset, Problem::Unexpected(len.into()))),
            Ok(len) if len > max => {
                Err(error(field, offset, Problem::TooLong { found: len as u64, max: max as u64 }))
            }
            Ok(len) => Ok(len),
        };
        let head_len = bounded("header length", 0, head_len, limits.head_len_max)?;
        let body_len = bounded("body length", 5, body_len, limits.body_max(kind))?;
        Ok(Some(Self { head_len, kind, body_len }))
    }
}

impl Head {
    /// Takes the prefix and the header from the front of `src`, leaving the body there. `None` means that more bytes are
    /// needed, and nothing was taken.
    ///
    /// # Errors
    /// The bytes are not a frame within the limits; the connection cannot be used further.
    pub fn decode(src: &mut BytesMut, limits: &Limits) -> Result<Option<Self>, DecodeError> {
        let Some(Prefix { head_len, kind, body_len }) = Prefix::peek(src, limits)? else {
            return Ok(None);
        };
        if src.len() < PREFIX_LEN + head_len {
            return Ok(None);
        }
        let mut head = src.split_to(PREFIX_LEN + head_len).freeze();
        let head = head.split_off(PREFIX_LEN);
        let mut cursor = Cursor::at(head, PREFIX_LEN);
        let header = Header::decode(kind, body_len, &mut cursor)?;
        cursor.end("header")?;
        Ok(Some(Self { header, body_len }))
    }
}

impl Incoming {
    /// Takes a head from the front of `src`, as [`Head::decode`] does, or the prefix and the request id of a push that
    /// is too long. `None` means that more bytes are needed, and nothing was taken.
    ///
    /// # Errors
    /// As for [`Head::decode`].
    pub fn decode(src: &mut BytesMut, limits: &Limits) -> Result<Option<Self>, DecodeError> {
        match Prefix::peek(src, limits) {
            Err(error) if is_long_push(src, limits, &error) => Self::long_push(src, error),
            Err(error) => Err(error),
            Ok(_) => Ok(Head::decode(src, limits)?.map(Self::Frame)),
        }
    }

    fn long_push(src: &mut BytesMut, error: DecodeError) -> Result<Option<Self>, DecodeError> {
        let Some(front) = src.first_chunk::<{ PREFIX_LEN + REQUEST_ID_LEN }>() else { return Ok(None) };
        let mut front = &front[..];
        let head_len = usize::try_from(front.get_i32());
        front.advance(1);
        let body_len = usize::try_from(front.get_i32());
        let request_id = front.get_i64();
        match (head_len, body_len) {
            (Ok(head_len @ REQUEST_ID_LEN..), Ok(body_len)) => {
                src.advance(PREFIX_LEN + REQUEST_ID_LEN);
                let rest_len = head_len - REQUEST_ID_LEN + body_len;
                Ok(Some(Self::LongPush { request_id, rest_len, error }))
            }
            _ => Err(error),
        }
    }

    /// The request id, if the frame type has one.
    pub fn request_id(&self) -> Option<i64> {
        match self {
            Self::Frame(head) => head.header.request_id(),
            Self::LongPush { request_id, .. } => Some(*request_id),
        }
    }
}

/// Whether the error is that a push exceeds the limits, on a connection that takes pushes.
fn is_long_push(src: &[u8], limits: &Limits, error: &DecodeError) -> bool {
    let kind = src.get(4).and_then(|kind| FrameType::from_wire(*kind));
    matches!(kind, Some(FrameType::PushData | FrameType::PushMergedData))
        && matches!(error.problem, Problem::TooLong { .. })
        && limits.push_body_max > 0
}

impl Frame {
    /// A frame of a header and a body.
    pub fn new(header: Header, body: impl Into<Bytes>) -> Self {
        Self { header, body: body.into() }
    }

    /// Takes one whole frame from the front of `src`; its body is a slice of `src`, not a copy. `None` means that more
    /// bytes are needed, and nothing was taken.
    ///
    /// # Errors
    /// The bytes are not a frame within the limits; the connection cannot be used further.
    pub fn decode(src: &mut BytesMut, limits: &Limits) -> Result<Option<Self>, DecodeError> {
        let Some(prefix) = Prefix::peek(src, limits)? else {
            return Ok(None);
        };
        if src.len() < PREFIX_LEN + prefix.head_len + prefix.body_len {
            return Ok(None);
        }
        let Some(Head { header, body_len }) = Head::decode(src, limits)? else {
            return Ok(None);
        };
        Ok(Some(Self { header, body: src.split_to(body_len).freeze() }))
    }

    /// Appends the whole frame to `dst`.
    pub fn encode(&self, dst: &mut BytesMut) {
        self.header.encode(self.body.len(), dst);
        dst.put_slice(&self.body);
    }
}

impl Header {
    /// The number of the frame type.
    pub fn kind(&self) -> FrameType {
        match self {
            Self::ChunkFetchRequest(_) => FrameType::ChunkFetchRequest,
            Self::ChunkFetchSuccess(_) => FrameType::ChunkFetchSuccess,
            Self::ChunkFetchFailure { .. } => FrameType::ChunkFetchFailure,
            Self::RpcRequest { .. } => FrameType::RpcRequest,
            Self::RpcResponse { .. } => FrameType::RpcResponse,
            Self::RpcFailure { .. } => FrameType::RpcFailure,
            Self::OneWayMessage => FrameType::OneWayMessage,
            Self::PushData { .. } => FrameType::PushData,
            Self::PushMergedData { .. } => FrameType::PushMergedData,
            Self::Heartbeat => FrameType::Heartbeat,
        }
    }

    /// The request id, if the frame type has one.
    pub fn request_id(&self) -> Option<i64> {
        match self {
            Self::RpcRequest { request_id }
            | Self::RpcResponse { request_id }
            | Self::RpcFailure { request_id, .. }
            | Self::PushData { request_id, .. }
            | Self::PushMergedData { request_id, .. } => Some(*request_id),
            _ => None,
        }
    }

    fn decode(kind: FrameType, body_len: usize, cursor: &mut Cursor) -> Result<Self, DecodeError> {
        Ok(match kind {
            FrameType::ChunkFetchRequest => Self::ChunkFetchRequest(decode_slice(cursor)?),
            FrameType::ChunkFetchSuccess => Self::ChunkFetchSuccess(decode_slice(cursor)?),
            FrameType::ChunkFetchFailure => {
                Self::ChunkFetchFailure { slice: decode_slice(cursor)?, error: decode_error(cursor)? }
            }
            FrameType::RpcRequest => {
                let request_id = cursor.i64("request id")?;
                cursor.i32("repeated body length")?; // not trusted: the prefix has it
                Self::RpcRequest { request_id }
            }
            FrameType::RpcResponse => {
                let request_id = cursor.i64("request id")?;
                cursor.i32("repeated body length")?;
                Self::RpcResponse { request_id }
            }
            FrameType::RpcFailure => {
                Self::RpcFailure { request_id: cursor.i64("request id")?, error: decode_error(cursor)? }
            }
            FrameType::OneWayMessage => {
                cursor.i32("repeated body length")?;
                Self::OneWayMessage
            }
            FrameType::PushData => Self::PushData {
                request_id: cursor.i64("request id")?,
                mode: decode_mode(cursor)?,
                shuffle: decode_shuffle(cursor)?,
                location: decode_location(cursor)?,
            },
            FrameType::PushMergedData => {
                let request_id = cursor.i64("request id")?;
                let mode = decode_mode(cursor)?;
                let shuffle = decode_shuffle(cursor)?;
                // The shortest location, `0-0` with its length, and its offset take 11 bytes.
                let count = cursor.count("location count", 11)?;
                let mut locations = Vec::with_capacity(count);
                for _ in 0..count {
                    locations.push(decode_location(cursor)?);
                }
                let offsets = decode_offsets(cursor, count, body_len)?;
                Self::PushMergedData { request_id, mode, shuffle, locations, offsets }
            }
            FrameType::Heartbeat => {
                cursor.u8("heartbeat padding")?;
                Self::Heartbeat
            }
        })
    }

    /// Appends the prefix and the header to `dst`; the caller sends `body_len` bytes of body after it.
    ///
    /// # Panics
    /// If a string, an array or the body does not fit into an i32, which no limit allows.
    pub fn encode(&self, body_len: usize, dst: &mut BytesMut) {
        let start = dst.len();
        let body_len = fit(body_len);
        dst.put_i32(0); // the header's length, known below
        dst.put_u8(self.kind() as u8);
        dst.put_i32(body_len);
        match self {
            Self::ChunkFetchRequest(slice) | Self::ChunkFetchSuccess(slice) => put_slice(dst, slice),
            Self::ChunkFetchFailure { slice, error } => {
                put_slice(dst, slice);
                put_text(dst, error);
            }
            Self::RpcRequest { request_id } | Self::RpcResponse { request_id } => {
                dst.put_i64(*request_id);
                dst.put_i32(body_len);
            }
            Self::RpcFailure { request_id, error } => {
                dst.put_i64(*request_id);
                put_text(dst, error);
            }
            Self::OneWayMessage => dst.put_i32(body_len),
            Self::PushData { request_id, mode, shuffle, location } => {
                dst.put_i64(*request_id);
                dst.put_u8(mode.to_wire());
                put_text(dst, &shuffle.to_string());
                put_text(dst, &location.to_string());
            }
            Self::PushMergedData { request_id, mode, shuffle, locations, offsets } => {
                dst.put_i64(*request_id);
                dst.put_u8(mode.to_wire());
                put_text(dst, &shuffle.to_string());
                dst.put_i32(fit(locations.len()));
                for location in locations {
                    put_text(dst, &location.to_string());
                }
                dst.put_i32(fit(offsets.len()));
                for offset in offsets {
                    dst.put_i32(fit(*offset as usize));
                }
            }
            Self::Heartbeat => dst.put_u8(0),
        }
        let head_len = fit(dst.len() - start - PREFIX_LEN);
        dst[start..start + 4].copy_from_slice(&head_len.to_be_bytes());
    }
}

fn decode_slice(cursor: &mut Cursor) -> Result<ChunkSlice, DecodeError> {
    Ok(ChunkSlice {
        stream_id: cursor.i64("stream id")?,
        chunk_index: cursor.i32("chunk index")?,
        offset: cursor.i32("slice offset")?,
        len: cursor.i32("slice length")?,
    })
}

fn decode_error(cursor: &mut Cursor) -> Result<String, DecodeError> {
    cursor.text("error text", |text| Ok(text.to_owned()))
}

fn decode_mode(cursor: &mut Cursor) -> Result<Mode, DecodeError> {
    let number = cursor.u8("mode")?;
    Mode::from_wire(number.into()).ok_or_else(|| cursor.error("mode", Problem::Unexpected(number.into())))
}

fn decode_shuffle(cursor: &mut Cursor) -> Result<ShuffleKey, DecodeError> {
    cursor.text("shuffle key", |text| text.parse().map_err(|_| "`<application>-<shuffle>`"))
}

fn decode_location(cursor: &mut Cursor) -> Result<LocationId, DecodeError> {
    cursor.text("location", |text| text.parse().map_err(|_| "`<partition>-<epoch>`"))
}

/// The offsets of a merged push: one for each location, from 0, never decreasing, within the body. Only an empty body
/// has none.
fn decode_offsets(cursor: &mut Cursor, locations: usize, body_len: usize) -> Result<Vec<u32>, DecodeError> {
    let count = cursor.count("offset count", 4)?;
    if count != locations || (count == 0 && body_len > 0) {
        return Err(cursor.error("offset count", Problem::Unexpected(count as i64)));
    }
    let mut offsets = Vec::with_capacity(count);
    let mut least = 0;
    for index in 0..count {
        let offset = cursor.i32("batch offset")?;
        let fits = offset >= least && offset as usize <= body_len && (index > 0 || offset == 0);
        if !fits {
            return Err(cursor.error("batch offset", Problem::Unexpected(offset.into())));
        }
        least = offset;
        offsets.push(offset as u32);
    }
    Ok(offsets)
}

fn put_slice(dst: &mut BytesMut, slice: &ChunkSlice) {
    dst.put_i64(slice.stream_id);
    dst.put_i32(slice.chunk_index);
    dst.put_i32(slice.offset);
    dst.put_i32(slice.len);
}

fn put_text(dst: &mut BytesMut, text: &str) {
    dst.put_i32(fit(text.len()));
    dst.put_slice(text.as_bytes());
}

fn fit(len: usize) -> i32 {
    i32::try_from(len).expect("the limits keep every length below 2 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_that_is_too_long_is_known_by_its_number() {
        let header = |request_id| Header::PushMergedData {
            request_id,
            mode: Mode::Primary,
            shuffle: ShuffleKey::new("app", 1),
            locations: vec![LocationId::new(1, 2); 100],
            offsets: vec![0; 100],
        };
        let limits = Limits { head_len_max: 10_000, push_body_max: 50, ..Limits::PUSH };
        let long_head = Limits { head_len_max: 1000, push_body_max: 5000, ..Limits::PUSH };
        for (limits, field) in [(&limits, "body length"), (&long_head, "header length")] {
            let mut bytes = BytesMut::new();
            Frame::new(header(-7), vec![1; 100]).encode(&mut bytes);
            let whole_len = bytes.len();
            for len in 0..PREFIX_LEN + REQUEST_ID_LEN {
                let mut front = BytesMut::from(&bytes[..len]);
                assert_eq!(Incoming::decode(&mut front, limits), Ok(None), "{len}");
                assert_eq!(front.len(), len);
            }
            let Ok(Some(Incoming::LongPush { request_id, rest_len, error })) =
                Incoming::decode(&mut bytes, limits)
            else {
                panic!("it is too long")
            };
            assert_eq!((request_id, error.field), (-7, field));
            assert_eq!((rest_len, bytes.len()), (whole_len - 17, whole_len - 17));
        }

        let mut bytes = BytesMut::new();
        Frame::new(header(1), vec![1; 50]).encode(&mut bytes);
        let frame = Incoming::decode(&mut bytes.clone(), &limits).unwrap().unwrap();
        assert_eq!(frame, Incoming::Frame(Head { header: header(1), body_len: 50 }));
        Incoming::decode(&mut bytes, &Limits::CONTROL).expect_err("pushes are not taken there");
        // Lengths that make no sense, and one that leaves no room for a request id.
        for (head_len, body_len) in [(i32::MAX, -1), (-1, 60), (7, 60)] {
            let mut bytes = BytesMut::new();
            bytes.put_i32(head_len);
            bytes.put_u8(FrameType::PushData as u8);
            bytes.put_i32(body_len);
            bytes.put_i64(1);
            Incoming::decode(&mut bytes, &limits).expect_err("it is no push");
        }
    }
}
