//! Frames of a master's journal, as they are found in a file, and with the checksum that they should have; whole files, and
//! files that a script writes and damages.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use yeoul_shuffle::ids::ShuffleKey;
use yeoul_shuffle::master::journal::layout::{Entry, Frame, decode, encode, frame, synced_later};
use yeoul_shuffle::master::journal::parsed::{Stop, is_rot, parse, synced_in};
use yeoul_shuffle::master::record::Record;

/// For 64 properties, and the texts of errors.
const SLACK: u64 = 8192;
/// The most entries that a script writes.
const ENTRIES_MAX: usize = 64;

fuzz_target!(|data: &[u8]| {
    if data.is_empty() {
        return;
    }
    let mut whole = BytesMut::new();
    frame(7, data, &mut whole);
    let mut read = Frame::Broken;
    yeoul_fuzz::bounded_by(SLACK, data.len(), || {
        let _ = decode(data);
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
    // What a frame behind a damaged one says is found wherever it begins.
    let begins = whole.len();
    encode(8, &Entry::Synced(u64::MAX), &mut whole);
    whole[begins - 1] ^= 1;
    assert_eq!(synced_later(&whole), u64::MAX);
    file(data);
    damaged(data);
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
}

/// A segment as it is written, and what a power failure may leave of it.
#[derive(Default)]
struct Segment {
    bytes: BytesMut,
    /// The sequence of its first entry.
    first: u64,
    /// Where each entry ends.
    ends: Vec<usize>,
    /// What an fsync has covered.
    synced_len: usize,
    /// All entries below are on the disk, also those of the segments before. Where the one before is not, no fsync of this
    /// one changes that.
    synced: u64,
    /// The last that it says of that.
    said: u64,
}

impl Segment {
    fn next(&self) -> u64 {
        self.first + self.ends.len() as u64
    }

    fn append(&mut self, entry: &Entry) {
        encode(self.next(), entry, &mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    fn say_what_is_synced(&mut self) {
        self.said = self.synced;
        self.append(&Entry::Synced(self.said));
    }

    fn sync(&mut self) {
        self.synced_len = self.bytes.len();
        if self.first <= self.synced {
            self.synced = self.next();
        }
    }

    /// The bytes of the entries below a sequence.
    fn len_below(&self, sequence: u64) -> usize {
        let entries = sequence.saturating_sub(self.first) as usize;
        entries.checked_sub(1).map_or(0, |last| self.ends[last])
    }
}

/// A hole or a torn end behind the last fsync is not rot, and any change of what is said to be on the disk is.
fn damaged(data: &[u8]) {
    let Some((&[first, missing, behind, at_high, at_low, value], script)) = data.split_first_chunk() else {
        return;
    };
    let first = u64::from(first);
    let mut segment =
        Segment { first, synced: first.saturating_sub(u64::from(missing % 4)), ..Segment::default() };
    segment.say_what_is_synced();
    for op in script.iter().take(ENTRIES_MAX) {
        match op % 4 {
            0 => segment.sync(),
            1 => segment.say_what_is_synced(),
            _ => {
                let shuffle = ShuffleKey::new("a".repeat(usize::from(op / 4)), segment.next() as i32);
                let at_unix_ms = u64::from(*op);
                segment.append(&Entry::Record(Record::ShuffleRegistered { shuffle, at_unix_ms }));
            }
        }
    }
    // What a segment behind says of this one, if there is one that was told of the last fsync.
    let synced_behind = if behind % 2 == 1 { segment.synced } else { 0 };
    let at = usize::from(u16::from_be_bytes([at_high, at_low]));
    let Segment { bytes, synced_len, .. } = &segment;
    assert_eq!(synced_in(bytes), segment.said);

    let mut holed = bytes.clone();
    let begin = synced_len + at % (bytes.len() - synced_len + 1);
    let end = bytes.len().min(begin + usize::from(value));
    if behind & 2 == 0 {
        holed[begin..end].fill(0)
    } else {
        holed.truncate(begin)
    }
    let parsed = parse(&holed, first);
    assert!(parsed.len >= *synced_len, "what is on the disk is read");
    if let Some(stop) = parsed.stop {
        assert_eq!(stop, Stop::Broken);
        assert!(!is_rot(&holed, parsed.len, parsed.next, synced_behind), "it never was on the disk");
    }

    let known = segment.len_below(segment.said.max(synced_behind));
    if known > 0 && value > 0 {
        let mut rotten = bytes.clone();
        rotten[at % known] ^= value;
        let parsed = parse(&rotten, first);
        assert_eq!(parsed.stop, Some(Stop::Broken));
        assert!(is_rot(&rotten, parsed.len, parsed.next, synced_behind), "it was on the disk");
    }
}
