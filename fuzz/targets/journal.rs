//! Frames of a journal, as they are found in a file, and with the checksum that they should have; whole files, and files
//! that a script writes and damages.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use yeoul_journal::Record;
use yeoul_journal::layout::{Entry, Frame, begins_of, decode, encode, encoded, synced_later};
use yeoul_journal::parsed::{Stop, is_rot, parse};

/// For the texts of errors.
const SLACK: u64 = 1024;
/// The most records and marks that a script writes.
const ENTRIES_MAX: usize = 64;

/// A record that is any bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Text(Vec<u8>);

impl Record for Text {
    const KIND: &'static str = "fuzz";
    const LAYOUT_VERSION: u32 = 1;

    fn encode(&self, dst: &mut BytesMut) {
        dst.extend_from_slice(&self.0);
    }

    fn decode(_: u32, bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.to_vec()))
    }
}

fuzz_target!(|data: &[u8]| {
    if data.is_empty() {
        return;
    }
    let mut whole = BytesMut::new();
    encode(7, Entry::Record(data), &mut whole);
    yeoul_fuzz::bounded_by(SLACK, data.len(), || {
        if let Frame::Whole { sequence, entry, len } = decode(data) {
            assert!(len <= data.len(), "{sequence} {entry:?}");
        }
        synced_later(data);
    });
    assert_eq!(decode(&whole), Frame::Whole { sequence: 7, entry: Entry::Record(data), len: whole.len() });
    // What a frame behind a damaged one says is found wherever it begins.
    let begins = whole.len();
    encode(8, Entry::Synced(u64::MAX), &mut whole);
    whole[begins - 1] ^= 1;
    assert_eq!(synced_later(&whole), u64::MAX);
    file(data);
    damaged(data);
});

/// The records of a file, with what was found behind them.
fn read(bytes: &[u8], first: u64) -> (Vec<Text>, yeoul_journal::parsed::Parsed) {
    let mut records = Vec::new();
    let parsed = parse(bytes, first, |record| records.push(record));
    (records, parsed)
}

/// Some of the data in whole frames, and then all of it as it is.
fn file(data: &[u8]) {
    let mut bytes = BytesMut::new();
    encode(0, begins_of::<Text>(), &mut bytes);
    for (sequence, record) in data.chunks(usize::from(data[0]) + 1).enumerate() {
        encode(sequence as u64, Entry::Record(record), &mut bytes);
    }
    bytes.extend_from_slice(data);
    let (records, parsed) = read(&bytes, 0);
    let (front, rest) = bytes.split_at(parsed.len);
    let (again, of_front) = read(front, 0);
    assert_eq!((of_front.next, of_front.len, of_front.stop), (parsed.next, parsed.len, None));
    assert_eq!(again, records);
    assert_eq!(parsed.stop.is_none(), rest.is_empty());
}

/// A segment as it is written, and what a power failure may leave of it.
struct Segment {
    bytes: BytesMut,
    /// The number of the next record.
    next: u64,
    /// Where each record ends.
    ends: Vec<usize>,
    /// What a sync has covered, and the number after its last record.
    synced_len: usize,
    synced: u64,
    /// The last that it says of that.
    said: u64,
}

/// A hole or a torn end behind the last sync is not rot, and any change of a record that is said to be on the disk is.
fn damaged(data: &[u8]) {
    let Some((&[first, truncates, at_high, at_low, value], script)) = data.split_first_chunk() else {
        return;
    };
    let first = u64::from(first);
    let mut segment = Segment {
        bytes: BytesMut::new(),
        next: first,
        ends: Vec::new(),
        synced_len: 0,
        synced: first,
        said: first,
    };
    encode(first, begins_of::<Text>(), &mut segment.bytes);
    encode(first, Entry::Synced(first), &mut segment.bytes);
    for op in script.iter().take(ENTRIES_MAX) {
        match op % 4 {
            0 => (segment.synced_len, segment.synced) = (segment.bytes.len(), segment.next),
            1 => {
                segment.said = segment.synced;
                encode(segment.next, Entry::Synced(segment.said), &mut segment.bytes);
            }
            _ => {
                let record = encoded(&Text(vec![*op; usize::from(op / 4)]));
                encode(segment.next, Entry::Record(&record), &mut segment.bytes);
                segment.next += 1;
                segment.ends.push(segment.bytes.len());
            }
        }
    }
    let at = usize::from(u16::from_be_bytes([at_high, at_low]));
    let Segment { bytes, synced_len, .. } = &segment;

    let mut holed = bytes.clone();
    let begin = synced_len + at % (bytes.len() - synced_len + 1);
    let end = bytes.len().min(begin + usize::from(value));
    if truncates % 2 == 0 {
        holed[begin..end].fill(0)
    } else {
        holed.truncate(begin)
    }
    let (_, parsed) = read(&holed, first);
    assert!(parsed.len >= *synced_len, "what is on the disk is read");
    if let Some(stop) = parsed.stop {
        assert_eq!(stop, Stop::Broken);
        assert!(!is_rot(&holed[parsed.len..], &parsed), "it never was on the disk");
    }

    let known = (segment.said - first).checked_sub(1).map_or(0, |last| segment.ends[last as usize]);
    if known > 0 && value > 0 {
        let mut rotten = bytes.clone();
        rotten[at % known] ^= value;
        let (_, parsed) = read(&rotten, first);
        // A magic may become that of the layout before.
        if parsed.stop != Some(Stop::Earlier) {
            assert_eq!(parsed.stop, Some(Stop::Broken));
            assert!(is_rot(&rotten[parsed.len..], &parsed), "it was on the disk");
        }
    }
}
