//! Frames of a master's journal, as they are found in a file, and with the checksum that they should have.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use yeoul_shuffle::master::journal::layout::{Entry, Frame, decode, encode, frame, holds_frame_later};

/// For 64 properties, and the texts of errors.
const SLACK: u64 = 8192;

fuzz_target!(|data: &[u8]| {
    if data.is_empty() {
        return;
    }
    let mut whole = BytesMut::new();
    frame(7, data, &mut whole);
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
