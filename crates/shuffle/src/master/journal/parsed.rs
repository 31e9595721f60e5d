//! What a segment holds, and whether its end is torn (a process or machine died) or corrupt.

use super::layout::{Entry, Frame, decode, synced_later};
use crate::master::record::Record;

/// The intact entries at the start of a segment.
pub struct Parsed {
    /// The records among them.
    pub records: Vec<Record>,
    /// The sequence after the last entry.
    pub next: u64,
    /// Their length in bytes.
    pub len: usize,
    /// Why reading stopped before the end, if it did.
    pub stop: Option<Stop>,
}

/// Why reading stopped before the end of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// There is no whole frame with the expected sequence here.
    Broken,
    /// A record that this version does not know.
    Foreign,
}

/// Reads the intact entries at the start of the segment that begins at `first`.
pub fn parse(bytes: &[u8], first: u64) -> Parsed {
    let mut parsed = Parsed { records: Vec::new(), next: first, len: 0, stop: None };
    while let Some(rest) = bytes.get(parsed.len..).filter(|rest| !rest.is_empty()) {
        let len = match decode(rest) {
            Frame::Whole { sequence, entry: Entry::Record(record), len } if sequence == parsed.next => {
                parsed.records.push(record);
                len
            }
            Frame::Whole { sequence, entry: Entry::Synced(_), len } if sequence == parsed.next => len,
            Frame::Foreign => {
                parsed.stop = Some(Stop::Foreign);
                break;
            }
            Frame::Whole { .. } | Frame::Broken => {
                parsed.stop = Some(Stop::Broken);
                break;
            }
        };
        parsed.next += 1;
        parsed.len += len;
    }
    parsed
}

/// Whether the damage at `len`, where entry `next` should be, was once on disk (corruption). If not, a process or machine
/// died and only the last moment's records are missing. `synced_behind` is the highest [`Entry::Synced`] in later segments.
pub fn is_rot(bytes: &[u8], len: usize, next: u64, synced_behind: u64) -> bool {
    synced_behind.max(synced_later(&bytes[len..])) > next
}

/// The highest [`Entry::Synced`] anywhere in a segment, or 0.
pub fn synced_in(bytes: &[u8]) -> u64 {
    let first = match decode(bytes) {
        Frame::Whole { entry: Entry::Synced(sequence), .. } => sequence,
        _ => 0,
    };
    first.max(synced_later(bytes))
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::super::layout::encode;
    use super::*;
    use crate::ids::ShuffleKey;

    /// A segment with fsyncs before some of its entries, and what the test knows about it.
    struct Written {
        bytes: Vec<u8>,
        /// Where each entry ends.
        ends: Vec<usize>,
        /// Where the last entry ends that was synced, according to the segment.
        synced: usize,
    }

    fn written(len: u64, fsyncs_before: &[u64]) -> Written {
        let (mut bytes, mut ends, mut synced) = (BytesMut::new(), Vec::new(), 0);
        for sequence in 0..len {
            let entry = if sequence == 0 || fsyncs_before.contains(&sequence) {
                synced = bytes.len();
                Entry::Synced(sequence)
            } else {
                let shuffle = ShuffleKey::new("app", sequence as i32);
                Entry::Record(Record::ShuffleRegistered { shuffle, at_unix_ms: sequence })
            };
            encode(sequence, &entry, &mut bytes);
            ends.push(bytes.len());
        }
        Written { bytes: bytes.to_vec(), ends, synced }
    }

    fn each() -> impl Iterator<Item = Written> {
        [&[][..], &[5], &[1, 2, 3], &[4, 7, 11]].into_iter().map(|fsyncs| written(12, fsyncs))
    }

    /// Where reading stops, and whether that is corruption.
    fn stops(bytes: &[u8]) -> Option<(usize, bool)> {
        let Parsed { next, len, stop, .. } = parse(bytes, 0);
        stop.map(|stop| {
            assert!(matches!(stop, Stop::Broken));
            (len, is_rot(bytes, len, next, 0))
        })
    }

    #[test]
    fn entries_are_read_in_order() {
        let Written { bytes, ends, .. } = written(6, &[]);
        let entry =
            |number: usize| &bytes[number.checked_sub(1).map_or(0, |before| ends[before])..ends[number]];
        let of = |numbers: &[usize]| {
            numbers.iter().flat_map(|number| entry(*number)).copied().collect::<Vec<u8>>()
        };
        assert_eq!(stops(&of(&[0, 1, 3, 4])), Some((ends[1], false)));
        assert_eq!(stops(&of(&[0, 1, 1, 2])), Some((ends[1], false)));
        assert_eq!(stops(&of(&[5])), Some((0, false)));
        // One that was on disk is missing.
        let Written { bytes: later, ends, .. } = written(6, &[4]);
        let missing = [&later[..ends[1]], &later[ends[2]..]].concat();
        assert_eq!(stops(&missing), Some((ends[1], true)));
    }

    #[test]
    fn any_prefix_is_cut_to_its_whole_entries() {
        for Written { bytes, ends, .. } in each() {
            for len in 0..=bytes.len() {
                let whole = ends.iter().copied().filter(|end| *end <= len).max().unwrap_or(0);
                let expected = (whole < len).then_some((whole, false));
                assert_eq!(stops(&bytes[..len]), expected, "{len} bytes");
            }
        }
    }

    #[test]
    fn any_hole_after_the_last_fsync_is_cut() {
        for Written { bytes, ends, synced } in each() {
            for begin in synced..bytes.len() {
                for end in begin + 1..=bytes.len() {
                    let mut holed = bytes.clone();
                    holed[begin..end].fill(0);
                    let Some(changed) = (begin..end).find(|at| bytes[*at] != 0) else { continue };
                    let whole = ends.iter().copied().filter(|end| *end <= changed).max().unwrap_or(0);
                    assert_eq!(stops(&holed), Some((whole, false)), "{begin}..{end} of {}", bytes.len());
                }
            }
        }
    }

    #[test]
    fn any_change_before_the_last_fsync_is_rot() {
        for Written { bytes, synced, .. } in each() {
            for at in 0..synced {
                for change in [1, 0x80, bytes[at]].into_iter().filter(|change| *change != 0) {
                    let mut rotten = bytes.clone();
                    rotten[at] ^= change;
                    let (_, is_rot) = stops(&rotten).expect("the checksum covers each byte");
                    assert!(is_rot, "byte {at} of {synced}");
                }
            }
        }
    }
}
