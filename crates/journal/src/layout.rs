//! The layout of records in files.
//!
//! A segment `journal-<sequence of its first record, 20 digits>.log` and a snapshot `snapshot-<sequence of the first record
//! after it, 20 digits>.bin` are both sequences of frames:
//!
//! ```text
//! offset  width  meaning (big-endian)
//! 0       4      magic "YJR2"
//! 4       4      N, length of the body, 1 to 16 MiB + 1
//! 8       8      sequence number
//! 16      4      CRC-32 of bytes 4..16 and the body
//! 20      1      kind
//! 21      N-1    0: a record, as its owner encodes it
//!                1: version of the records' layout (4 bytes), then their kind (UTF-8); the first frame of a file
//!                2: how much of the journal was synced: all records with lower numbers than this (8 bytes)
//!                3: the end of a snapshot: how many records it has (8 bytes)
//! ```
//! Records are numbered consecutively over the whole journal; the other frames, marks, have the number of the record after
//! them. A snapshot counts its own from 0; without its last frame it is invalid.
//!
//! Each frame begins with the magic, so that whole frames can be found after a damaged one. A segment says at its start and
//! after each fsync how much was synced. That tells a torn tail (cut off) from corruption (an error): unsynced pages reach
//! the disk in any order, so a power failure may leave a hole with whole frames after it, but none of these claims that the
//! hole was synced. Corruption after the last such claim looks like a torn tail, and is cut off as well.
//!
//! The layout "YJR1", of which no version was released, is refused.

use bytes::{BufMut, BytesMut};

use crate::{KIND_BYTES_MAX, Record};

const MAGIC: &[u8; 4] = b"YJR2";
const EARLIER_MAGIC: &[u8; 4] = b"YJR1";
/// Bytes before the body.
pub const HEAD: usize = 20;
/// The most bytes of any record's encoding.
pub const RECORD_BYTES_MAX: usize = 16 << 20;
/// The most bytes of a body.
pub const BODY_BYTES_MAX: usize = RECORD_BYTES_MAX + 1;

const RECORD: u8 = 0;
const BEGINS: u8 = 1;
const SYNCED: u8 = 2;
const SNAPSHOT_END: u8 = 3;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A record, encoded.
    Record(&'a [u8]),
    /// What the records of this file are.
    Begins {
        /// The version of their layout.
        layout_version: u32,
        /// Their kind.
        kind: &'a str,
    },
    /// All records with lower numbers had been synced when this was written, or were in a snapshot that was.
    Synced(u64),
    /// The end of a snapshot, with the number of records before it.
    SnapshotEnd(u64),
}

/// What is found at a place in a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A complete frame.
    Whole {
        /// Its number.
        sequence: u64,
        /// What it holds.
        entry: Entry<'a>,
        /// Its length in the file, in bytes.
        len: usize,
    },
    /// Too few bytes for a frame, or a wrong checksum.
    Broken,
    /// A whole frame of a kind that this version does not know.
    Foreign,
    /// A frame of the layout before this one.
    Earlier,
}

/// The frame that says what the records of a file are.
pub fn begins_of<R: Record>() -> Entry<'static> {
    assert!(R::KIND.len() <= KIND_BYTES_MAX && R::BYTES_MAX <= RECORD_BYTES_MAX, "limits of {}", R::KIND);
    Entry::Begins { layout_version: R::LAYOUT_VERSION, kind: R::KIND }
}

/// A record's encoding.
///
/// # Panics
/// If it is longer than its kind's limit.
pub fn encoded<R: Record>(record: &R) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    record.encode(&mut bytes);
    assert!(bytes.len() <= R::BYTES_MAX, "a record of {} has {} bytes", R::KIND, bytes.len());
    bytes.into()
}

/// Appends a frame.
pub fn encode(sequence: u64, entry: Entry<'_>, dst: &mut BytesMut) {
    let start = dst.len();
    dst.put_slice(MAGIC);
    dst.put_u32(0);
    dst.put_u64(sequence);
    dst.put_u32(0);
    match entry {
        Entry::Record(bytes) => {
            dst.put_u8(RECORD);
            dst.put_slice(bytes);
        }
        Entry::Begins { layout_version, kind } => {
            dst.put_u8(BEGINS);
            dst.put_u32(layout_version);
            dst.put_slice(kind.as_bytes());
        }
        Entry::Synced(sequence) => {
            dst.put_u8(SYNCED);
            dst.put_u64(sequence);
        }
        Entry::SnapshotEnd(count) => {
            dst.put_u8(SNAPSHOT_END);
            dst.put_u64(count);
        }
    }
    let len = dst.len() - start - HEAD;
    assert!(len <= BODY_BYTES_MAX, "a body of {len} bytes");
    let frame = &mut dst[start..];
    frame[4..8].copy_from_slice(&(len as u32).to_be_bytes());
    let checksum = checksum(&frame[..HEAD], &frame[HEAD..]);
    frame[16..HEAD].copy_from_slice(&checksum.to_be_bytes());
}

/// Reads the frame at the front of `bytes`.
pub fn decode(bytes: &[u8]) -> Frame<'_> {
    let Some((head, rest)) = bytes.split_at_checked(HEAD) else { return Frame::Broken };
    match body_len(head) {
        Head::Len(len) => rest.get(..len).map_or(Frame::Broken, |body| decode_parts(head, body)),
        Head::Broken => Frame::Broken,
        Head::Earlier => Frame::Earlier,
    }
}

/// What the first bytes of a frame say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// The length of its body, within the limit.
    Len(usize),
    /// It is no frame.
    Broken,
    /// It is one of the layout before this one.
    Earlier,
}

/// How long the body behind these [`HEAD`] bytes is.
pub fn body_len(head: &[u8]) -> Head {
    if head.starts_with(EARLIER_MAGIC) {
        return Head::Earlier;
    }
    let len = number(&head[4..8]) as usize;
    if head.starts_with(MAGIC) && (1..=BODY_BYTES_MAX).contains(&len) { Head::Len(len) } else { Head::Broken }
}

/// Whether the frame at the front of `bytes` may be whole with more bytes behind them.
pub fn is_cut(bytes: &[u8]) -> bool {
    let Some(head) = bytes.get(..HEAD) else { return true };
    matches!(body_len(head), Head::Len(len) if bytes.len() - HEAD < len)
}

/// Reads a frame of which the first [`HEAD`] bytes and the body are apart.
pub fn decode_parts<'a>(head: &[u8], body: &'a [u8]) -> Frame<'a> {
    if checksum(head, body) != number(&head[16..HEAD]) as u32 {
        return Frame::Broken;
    }
    let (sequence, len) = (number(&head[8..16]), HEAD + body.len());
    let Some((kind, content)) = body.split_first() else { return Frame::Broken };
    let entry = match (*kind, content.len()) {
        (RECORD, _) => Some(Entry::Record(content)),
        (SYNCED, 8) => Some(Entry::Synced(number(content))),
        (SNAPSHOT_END, 8) => Some(Entry::SnapshotEnd(number(content))),
        (BEGINS, 4..) => {
            let (version, kind) = content.split_at(4);
            let kind = std::str::from_utf8(kind).ok().filter(|kind| kind.len() <= KIND_BYTES_MAX);
            kind.map(|kind| Entry::Begins { layout_version: number(version) as u32, kind })
        }
        _ => None,
    };
    entry.map_or(Frame::Foreign, |entry| Frame::Whole { sequence, entry, len })
}

/// The highest [`Entry::Synced`] that begins anywhere in `bytes` after the first byte, or 0.
pub fn synced_later(bytes: &[u8]) -> u64 {
    let synced = |frame: &[u8]| match decode(frame) {
        Frame::Whole { entry: Entry::Synced(sequence), .. } => Some(sequence),
        _ => None,
    };
    let starts = bytes.windows(MAGIC.len()).enumerate().skip(1).filter(|(_, window)| *window == MAGIC);
    starts.filter_map(|(at, _)| synced(&bytes[at..])).max().unwrap_or(0)
}

fn checksum(head: &[u8], body: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head[4..16]);
    crc.update(body);
    crc.finalize()
}

/// At most eight bytes, big-endian.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn one_of_each() -> [Entry<'static>; 6] {
        [
            Entry::Record(b""),
            Entry::Record(b"some record"),
            Entry::Begins { layout_version: 7, kind: "namenode" },
            Entry::Begins { layout_version: 0, kind: "" },
            Entry::Synced(70),
            Entry::SnapshotEnd(77),
        ]
    }

    #[test]
    fn every_entry_reads_back_and_no_prefix_does() {
        for entry in one_of_each() {
            let mut bytes = BytesMut::new();
            encode(77, entry, &mut bytes);
            let len = bytes.len();
            assert_eq!(decode(&bytes), Frame::Whole { sequence: 77, entry, len });
            for prefix in 0..len {
                assert_eq!(decode(&bytes[..prefix]), Frame::Broken);
            }
            for at in 0..len {
                let mut flipped = bytes.clone();
                flipped[at] ^= 0x10;
                assert_eq!(decode(&flipped), Frame::Broken, "byte {at}");
            }
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_documentation() {
        let mut bytes = BytesMut::new();
        encode(0x0102, Entry::Begins { layout_version: 3, kind: "x" }, &mut bytes);
        let mut expected = b"YJR2\0\0\0\x06\0\0\0\0\0\0\x01\x02".to_vec();
        let body = [1, 0, 0, 0, 3, b'x'];
        expected.extend(checksum(&expected, &body).to_be_bytes());
        expected.extend(body);
        assert_eq!(bytes, expected[..]);
    }

    #[test]
    fn other_kinds_and_layouts_are_told_apart() {
        let frame = |kind: u8, content: &[u8]| {
            let mut bytes = BytesMut::new();
            encode(7, Entry::Record(content), &mut bytes);
            bytes[HEAD] = kind;
            let checksum = checksum(&bytes[..HEAD], &bytes[HEAD..]);
            bytes[16..HEAD].copy_from_slice(&checksum.to_be_bytes());
            bytes
        };
        for (kind, content) in [(4, &b""[..]), (200, b"x"), (SYNCED, b"short"), (BEGINS, b"\0\0\0\x01\xff")] {
            assert_eq!(decode(&frame(kind, content)), Frame::Foreign, "{kind}");
        }
        let mut earlier = frame(RECORD, b"content");
        earlier[3] = b'1';
        assert_eq!(decode(&earlier), Frame::Earlier);
        let mut large = frame(RECORD, b"content");
        large[4..8].copy_from_slice(&(BODY_BYTES_MAX as u32 + 1).to_be_bytes());
        assert_eq!(decode(&large), Frame::Broken);
    }

    #[test]
    fn what_later_frames_say_is_synced_is_found() {
        let mut bytes = BytesMut::new();
        encode(5, Entry::Synced(9), &mut bytes);
        assert_eq!(synced_later(&bytes), 0, "only what is later");
        encode(6, Entry::Synced(5), &mut bytes);
        encode(7, Entry::SnapshotEnd(8), &mut bytes);
        encode(8, Entry::Synced(4), &mut bytes);
        bytes[10] ^= 1;
        assert_eq!(synced_later(&bytes), 5);
        let before = bytes.len();
        encode(9, Entry::Synced(9), &mut bytes);
        assert_eq!(synced_later(&bytes), 9);
        for len in before..bytes.len() {
            assert_eq!(synced_later(&bytes[..len]), 5, "only what is whole");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 1..200)) {
            prop_assert_eq!(decode(&bytes), Frame::Broken);
            synced_later(&bytes);
            let mut framed = BytesMut::from(&MAGIC[..]);
            framed.put_slice(&bytes);
            decode(&framed);
            let mut whole = BytesMut::new();
            encode(7, Entry::Record(&bytes), &mut whole);
            prop_assert_eq!(decode(&whole), Frame::Whole { sequence: 7, entry: Entry::Record(&bytes), len: whole.len() });
        }
    }
}
