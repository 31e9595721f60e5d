//! Frames of a master's journal, as they are found in a file, and with the checksum that they should have; whole files.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use yeoul_shuffle::master::journal::layout::{
    Entry, Frame, decode, encode, frame, holds_frame_later, synced_later,
};
use yeoul_shuffle::master::journal::parsed::{Place, Stop, is_rot, parse, synced_in};

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
        synced_later(data);
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
    file(data);
});

/// Some of the data in whole frames, and then all of it as it is.
fn file(data: &[u8]) {
    let mut bytes = BytesMut::new();
    for (sequence, payload) in data.chunks(usize::from(data[0]) + 1).enumerate() {
        frame(sequence as u64, payload, &mut bytes);
    }
    bytes.extend_from_slice(data);
    let parsed = parse(&bytes, 0);
    let (front, rest) = bytes.split_at(parsed.len);
    let again = parse(front, 0);
    assert_eq!((again.next, again.len, again.stop), (parsed.next, parsed.len, None));
    assert_eq!(again.records, parsed.records);
    assert_eq!(parsed.stop.is_none(), rest.is_empty());
    if parsed.stop == Some(Stop::Broken) {
        let said = synced_later(rest);
        assert!(said <= synced_in(&bytes));
        for place in [Place::Earlier, Place::BeforeLast, Place::Last] {
            assert!(is_rot(&bytes, parsed.len, parsed.next, place, 0) || said <= parsed.next);
            assert!(is_rot(&bytes, parsed.len, parsed.next, place, parsed.next + 1));
        }
    }
}
