//! The header that a client writes in front of each batch, in one of two byte orders.
//!
//! ```text
//! offset  width  meaning
//! 0       4      map id
//! 4       4      attempt id
//! 8       4      batch id
//! 12      4      P, length of the payload
//! 16      P      payload, opaque
//! ```
//! JVM and C++ clients write little-endian, Sail big-endian, and no field says which.

use bytes::{BufMut, Bytes, BytesMut};

use super::cursor::{DecodeError, Problem};
use crate::ids::{AttemptId, BatchId, MapId};

/// Bytes of a batch's header.
pub const BATCH_HEADER_LEN: usize = 16;

/// How a client writes the numbers of its batch headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// JVM and C++ clients.
    Little,
    /// Sail.
    Big,
}

impl ByteOrder {
    /// The order in which the header at `front` declares a batch of `len` bytes; `None` if both orders do (the length
    /// reads the same backwards) or neither does.
    pub fn of_batch(front: &[u8], len: usize) -> Option<Self> {
        let declares = |order: &Self| {
            let header = BatchHeader::decode(front, *order);
            header.is_some_and(|header| header.len as usize + BATCH_HEADER_LEN == len)
        };
        let mut found = [Self::Little, Self::Big].into_iter().filter(declares);
        found.next().filter(|_| found.next().is_none())
    }
}

/// The header of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BatchHeader {
    /// The map task that wrote it.
    pub map: MapId,
    /// Its attempt.
    pub attempt: AttemptId,
    /// The batch's number within (map, attempt).
    pub batch: BatchId,
    /// Bytes of the payload.
    pub len: u32,
}

impl BatchHeader {
    /// Reads the header at the front of `bytes`; `None` if it is not all there.
    pub fn decode(bytes: &[u8], order: ByteOrder) -> Option<Self> {
        let head = bytes.first_chunk::<BATCH_HEADER_LEN>()?;
        let number = |at: usize| {
            let raw = [head[at], head[at + 1], head[at + 2], head[at + 3]];
            match order {
                ByteOrder::Little => i32::from_le_bytes(raw),
                ByteOrder::Big => i32::from_be_bytes(raw),
            }
        };
        Some(Self {
            map: MapId(number(0)),
            attempt: AttemptId(number(4)),
            batch: BatchId(number(8)),
            len: number(12).cast_unsigned(),
        })
    }

    /// Appends the header.
    pub fn encode(&self, order: ByteOrder, dst: &mut BytesMut) {
        for number in [self.map.0, self.attempt.0, self.batch.0, self.len.cast_signed()] {
            match order {
                ByteOrder::Little => dst.put_i32_le(number),
                ByteOrder::Big => dst.put_i32(number),
            }
        }
    }
}

/// A batch: header and payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The header.
    pub header: BatchHeader,
    /// The client's bytes.
    pub payload: Bytes,
}

/// The batches of a chunk, one after the other. After an error there are no more.
#[derive(Debug, Clone)]
pub struct Batches {
    rest: Bytes,
    offset: usize,
    order: ByteOrder,
}

impl Batches {
    /// Begins at the front of a chunk.
    pub fn new(chunk: Bytes, order: ByteOrder) -> Self {
        Self { rest: chunk, offset: 0, order }
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let found = self.rest.len();
        let header = BatchHeader::decode(&self.rest, self.order);
        let needed =
            header.map_or(BATCH_HEADER_LEN as u64, |header| BATCH_HEADER_LEN as u64 + u64::from(header.len));
        let (Some(header), true) = (header, needed <= found as u64) else {
            let problem = Problem::Truncated { needed: usize::try_from(needed).unwrap_or(usize::MAX), found };
            let error = DecodeError { field: "batch", offset: self.offset, problem };
            self.rest.clear();
            return Some(Err(error));
        };
        let mut whole = self.rest.split_to(BATCH_HEADER_LEN + header.len as usize);
        self.offset += whole.len();
        Some(Ok(Batch { header, payload: whole.split_off(BATCH_HEADER_LEN) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(order: ByteOrder, map: i32, payload: &[u8]) -> BytesMut {
        let len = payload.len() as u32;
        let header = BatchHeader { map: MapId(map), attempt: AttemptId(65536), batch: BatchId(3), len };
        let mut bytes = BytesMut::new();
        header.encode(order, &mut bytes);
        bytes.put_slice(payload);
        bytes
    }

    #[test]
    fn the_order_shows_in_the_length() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let bytes = batch(order, 7, b"twelve bytes");
            let (front, len) = (&bytes[..BATCH_HEADER_LEN], bytes.len());
            assert_eq!(ByteOrder::of_batch(front, len), Some(order));
            assert_eq!(ByteOrder::of_batch(front, len + 1), None, "neither says so");
            assert_eq!(ByteOrder::of_batch(front, BATCH_HEADER_LEN - 1), None);
            let header = BatchHeader::decode(&bytes, order).unwrap();
            assert_eq!(
                (header.map, header.attempt, header.batch, header.len),
                (MapId(7), AttemptId(65536), BatchId(3), 12)
            );
        }
        for len in [0, 0x0101, 0x0001_0000 + 0x0100] {
            let bytes = batch(ByteOrder::Big, 7, &vec![7; len]);
            let found = ByteOrder::of_batch(&bytes, bytes.len());
            assert_eq!(
                found,
                (len == 0x0101).then_some(ByteOrder::Big),
                "{len} reads the same backwards, or not"
            );
        }
        assert_eq!(ByteOrder::of_batch(b"short", 5), None);
    }

    #[test]
    fn a_chunk_is_its_batches() {
        let mut chunk = batch(ByteOrder::Little, 1, b"one");
        chunk.unsplit(batch(ByteOrder::Little, 2, b""));
        chunk.unsplit(batch(ByteOrder::Little, 3, b"three"));
        let chunk = chunk.freeze();
        let read: Vec<_> =
            Batches::new(chunk.clone(), ByteOrder::Little).map(|batch| batch.unwrap().payload).collect();
        assert_eq!(read, [&b"one"[..], b"", b"three"]);
        let cut: Vec<_> = Batches::new(chunk.slice(..chunk.len() - 1), ByteOrder::Little).collect();
        assert_eq!(cut.len(), 3);
        assert_eq!(cut[2].as_ref().unwrap_err().offset, 16 + 3 + 16);
    }
}
