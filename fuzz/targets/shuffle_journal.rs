//! Frames of a master's journal, as they are found in a file, and with the checksum that they should have.
#![no_main]

use bytes::{BufMut, BytesMut};
use libfuzzer_sys::fuzz_target;
use yeoul_shuffle::master::journal::layout::{Entry, Frame, decode, encode, holds_frame_later};

/// For 64 properties, and the texts of errors.
const SLACK: u64 = 8192;

fuzz_target!(|data: &[u8]| {
    if data.is_empty() {
        return;
    }
    let mut whole = frame(data);
    let mut read = Frame::Broken;
    yeoul_fuzz::bounded_by(SLACK, data.len(), || {
        let _ = decode(data);
        holds_frame_later(data);
        read = decode(&whole);
    });
    assert_ne!(read, Frame::Broken);
    if let Frame::Whole { sequence, entry, len } = read {
        assert_eq!((sequence, len), (7, whole.len()));
        let mut again = BytesMut::new();
        encode(sequence, &entry, &mut again);
        let len = again.len();
        assert_eq!(decode(&again), Frame::Whole { sequence, entry, len });
    }
    // A whole frame behind a damaged one is found wherever it begins.
    let begins = whole.len();
    encode(8, &Entry::SnapshotEnd(1), &mut whole);
    whole[begins - 1] ^= 1;
    assert!(holds_frame_later(&whole));
});

/// A frame around a payload.
fn frame(payload: &[u8]) -> BytesMut {
    let mut bytes = BytesMut::from(&b"YJR1"[..]);
    bytes.put_u32(payload.len() as u32);
    bytes.put_u64(7);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[4..]);
    crc.update(payload);
    bytes.put_u32(crc.finalize());
    bytes.put_slice(payload);
    bytes
}
