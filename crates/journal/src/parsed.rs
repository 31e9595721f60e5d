//! What a segment holds, and whether its end is torn (a process or machine died) or corrupt.

use crate::Record;
use crate::layout::{Entry, Frame, decode, synced_later};

/// The intact entries at the start of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parsed {
    /// The number of the record after the last one.
    pub next: u64,
    /// The length of the entries in bytes.
    pub len: usize,
    /// The highest [`Entry::Synced`] among them, or 0.
    pub synced: u64,
    /// Why reading stopped before the end, if it did.
    pub stop: Option<Stop>,
}

/// Why reading stopped before the end of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// There is no whole frame with the expected number here.
    Broken,
    /// A record that this version does not know, or of a newer layout.
    Foreign,
    /// Records of another kind.
    OtherKind,
    /// A layout that is not read any more.
    Earlier,
}

/// Reads the intact entries at the start of the segment that begins with record `first`, and passes on each record.
pub fn parse<R: Record>(bytes: &[u8], first: u64, each: impl FnMut(R)) -> Parsed {
    let mut parser = Parser::new(first);
    parser.take(bytes, each);
    parser.parsed
}

/// A segment that is read in pieces.
#[derive(Debug)]
pub struct Parser {
    parsed: Parsed,
    layout_version: Option<u32>,
}

impl Parser {
    /// A parser of the segment that begins with record `first`.
    pub fn new(first: u64) -> Self {
        let parsed = Parsed { next: first, len: 0, synced: 0, stop: None };
        Self { parsed, layout_version: None }
    }

    /// The intact entries so far.
    pub fn parsed(&self) -> Parsed {
        self.parsed
    }

    /// Reads the intact entries at the start of `bytes`, which are those behind what was taken before, and passes on each
    /// record. The bytes of these entries. `Broken` says where the next piece goes on, if the frame there is not whole yet.
    pub fn take<R: Record>(&mut self, bytes: &[u8], mut each: impl FnMut(R)) -> usize {
        let Self { parsed, layout_version } = self;
        let mut taken = 0;
        parsed.stop = None;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            let stop = match decode(rest) {
                Frame::Whole { sequence, entry, len } if sequence == parsed.next => {
                    let outcome = match (entry, *layout_version) {
                        (Entry::Begins { kind, layout_version: version }, _) => {
                            check_kind::<R>(kind, version).map(|()| *layout_version = Some(version))
                        }
                        (Entry::Record(bytes), Some(version)) => match R::decode(version, bytes) {
                            Some(record) => {
                                each(record);
                                parsed.next += 1;
                                Ok(())
                            }
                            None => Err(Stop::Foreign),
                        },
                        (Entry::Synced(synced), Some(_)) => {
                            parsed.synced = parsed.synced.max(synced);
                            Ok(())
                        }
                        (Entry::SnapshotEnd(_), _) | (_, None) => Err(Stop::Broken),
                    };
                    match outcome {
                        Ok(()) => {
                            taken += len;
                            continue;
                        }
                        Err(stop) => stop,
                    }
                }
                Frame::Foreign => Stop::Foreign,
                Frame::Earlier => Stop::Earlier,
                Frame::Whole { .. } | Frame::Broken => Stop::Broken,
            };
            parsed.stop = Some(stop);
            break;
        }
        parsed.len += taken;
        taken
    }
}

/// Refuses what these records are not.
pub fn check_kind<R: Record>(kind: &str, layout_version: u32) -> Result<(), Stop> {
    match (kind == R::KIND, layout_version <= R::LAYOUT_VERSION) {
        (false, _) => Err(Stop::OtherKind),
        (true, false) => Err(Stop::Foreign),
        (true, true) => Ok(()),
    }
}

/// Whether the damage behind `parsed`, where `rest` begins, was once on disk (corruption). If not, a process or machine died and
/// only the last moment's records are missing.
pub fn is_rot(rest: &[u8], parsed: &Parsed) -> bool {
    synced_later(rest).max(parsed.synced) > parsed.next
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::layout::{begins_of, encode, encoded};
    use crate::scripted::Put;

    /// A segment with fsyncs before some of its records, and what the test knows about it.
    struct Written {
        bytes: Vec<u8>,
        /// Where each entry ends, and the number of the record after it.
        ends: Vec<(usize, u64)>,
        /// Where the last mark begins that says that something was synced.
        synced: usize,
    }

    fn written(records: u64, fsyncs_before: &[u64]) -> Written {
        let (mut bytes, mut ends, mut synced) = (BytesMut::new(), Vec::new(), 0);
        encode(0, begins_of::<Put>(), &mut bytes);
        ends.push((bytes.len(), 0));
        for sequence in 0..records {
            if sequence == 0 || fsyncs_before.contains(&sequence) {
                synced = if sequence == 0 { 0 } else { bytes.len() };
                encode(sequence, Entry::Synced(sequence), &mut bytes);
                ends.push((bytes.len(), sequence));
            }
            encode(sequence, Entry::Record(&encoded(&Put::new(sequence))), &mut bytes);
            ends.push((bytes.len(), sequence + 1));
        }
        Written { bytes: bytes.to_vec(), ends, synced }
    }

    fn each() -> impl Iterator<Item = Written> {
        [&[][..], &[5], &[1, 2, 3], &[4, 7, 11]].into_iter().map(|fsyncs| written(12, fsyncs))
    }

    /// Where reading stops, and whether that is corruption. Everything before is read in order.
    fn stops(bytes: &[u8]) -> Option<(usize, bool)> {
        let mut read = Vec::new();
        let parsed = parse(bytes, 0, |put: Put| read.push(put));
        assert_eq!(read, (0..parsed.next).map(Put::new).collect::<Vec<_>>());
        parsed.stop.map(|stop| {
            assert_eq!(stop, Stop::Broken);
            (parsed.len, is_rot(&bytes[parsed.len..], &parsed))
        })
    }

    fn end_before(ends: &[(usize, u64)], at: usize) -> usize {
        ends.iter().map(|(end, _)| *end).filter(|end| *end <= at).max().unwrap_or(0)
    }

    #[test]
    fn records_are_read_in_order() {
        let Written { bytes, ends, .. } = written(6, &[]);
        let end = |entry: usize| ends[entry].0;
        let entry = |number: usize| &bytes[number.checked_sub(1).map_or(0, end)..end(number)];
        let of = |numbers: &[usize]| {
            numbers.iter().flat_map(|number| entry(*number)).copied().collect::<Vec<u8>>()
        };
        // The first two entries are marks.
        assert_eq!(stops(&of(&[0, 1, 2, 3, 4])), None);
        assert_eq!(stops(&of(&[0, 1, 2, 4, 5])), Some((end(2), false)));
        assert_eq!(stops(&of(&[0, 1, 2, 2, 3])), Some((end(2), false)));
        assert_eq!(stops(&of(&[0, 3])), Some((end(0), false)));
        assert_eq!(stops(&of(&[2, 3])), Some((0, false)), "nothing says what they are");
        // One that was on disk is missing.
        let Written { bytes: later, ends, .. } = written(6, &[4]);
        let missing = [&later[..ends[2].0], &later[ends[3].0..]].concat();
        assert_eq!(stops(&missing), Some((ends[2].0, true)));
    }

    #[test]
    fn what_others_wrote_is_told_apart() {
        let stop_of = |begins: Entry<'_>, record: &[u8]| {
            let mut bytes = BytesMut::new();
            encode(0, begins, &mut bytes);
            encode(0, Entry::Record(record), &mut bytes);
            parse(&bytes, 0, |_: Put| panic!("it is not one of these")).stop
        };
        let begins = |kind, layout_version| Entry::Begins { kind, layout_version };
        let put = encoded(&Put::new(0));
        assert_eq!(stop_of(begins("another", Put::LAYOUT_VERSION), &put), Some(Stop::OtherKind));
        assert_eq!(stop_of(begins(Put::KIND, Put::LAYOUT_VERSION + 1), &put), Some(Stop::Foreign));
        assert_eq!(stop_of(begins(Put::KIND, Put::LAYOUT_VERSION), b"unknown"), Some(Stop::Foreign));
        let mut earlier = written(1, &[]).bytes;
        earlier[3] = b'1';
        assert_eq!(parse(&earlier, 0, |_: Put| ()).stop, Some(Stop::Earlier));
    }

    #[test]
    fn any_prefix_is_cut_to_its_whole_entries() {
        for Written { bytes, ends, .. } in each() {
            for len in 0..=bytes.len() {
                let whole = end_before(&ends, len);
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
                    let whole = end_before(&ends, changed);
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
                    let earlier = parse(&rotten, 0, |_: Put| ()).stop == Some(Stop::Earlier);
                    let is_rot = earlier || stops(&rotten).expect("the checksum covers each byte").1;
                    assert!(is_rot, "byte {at} of {synced}");
                }
            }
        }
    }
}
