//! The layout of records in files.
//!
//! A journal file `journal-<sequence of its first record, 20 digits>.log` and a snapshot file
//! `snapshot-<sequence of the first record after it, 20 digits>.bin` are both sequences of frames:
//!
//! ```text
//! offset  width  meaning (big-endian)
//! 0       4      magic "YJR1"
//! 4       4      N, length of the payload, at most 1 MiB
//! 8       8      sequence number; consecutive within a file (a snapshot counts from 0)
//! 16      4      CRC-32 of bytes 4..16 and the payload
//! 20      N      payload, protobuf `yeoul.shuffle.journal.Record`
//! ```
//! Each frame begins with the magic, so that whole frames can be found after a damaged one. A snapshot ends with a frame
//! that counts the others; without it it is invalid.
//!
//! A journal file begins with a frame that says how much of the journal was synced, and so does what is written after each
//! fsync. That tells a torn tail (cut off) from corruption (an error): unsynced pages reach the disk in any order, so a
//! power failure may leave a hole with whole frames after it, but none of these claims that the hole was synced. Corruption
//! after the last such claim looks like a torn tail, and is cut off as well.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message as _;

use super::super::record::{LIVES_MAX, LifeId, PROPERTIES_MAX, Record, User};
use super::super::state::ShuffleRun;
use crate::ids::{ShuffleId, ShuffleKey, WorkerId};
use crate::wire::DecodeError;
use crate::wire::journal as proto;
use crate::wire::journal::record::Change;
use crate::wire::lists::{Messages, Part, Received, Texts};

const MAGIC: &[u8; 4] = b"YJR1";
const HEAD: usize = 20;
/// The largest record has about half of this: an application's properties are at most 64 of 8 KiB.
const PAYLOAD_MAX: usize = 1 << 20;

/// A record, or something about those before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A change.
    Record(Record),
    /// In a journal: all entries with lower sequences had been synced when this was written.
    Synced(u64),
    /// In a snapshot: the end, with the number of records before it.
    SnapshotEnd(u64),
}

/// What is found at a place in a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// A complete frame.
    Whole {
        /// Its number in the file.
        sequence: u64,
        /// What it holds.
        entry: Entry,
        /// Its length in the file, in bytes.
        len: usize,
    },
    /// Too few bytes for a frame, or a wrong checksum.
    Broken,
    /// A whole frame whose record this version does not know.
    Foreign,
}

/// Appends a frame.
///
/// # Panics
/// If the record exceeds the limits on its parts.
pub fn encode(sequence: u64, entry: &Entry, dst: &mut BytesMut) {
    frame(sequence, &payload(entry), dst);
}

/// The payload of an entry's frame.
///
/// # Panics
/// If the record exceeds the limits on its parts.
pub fn payload(entry: &Entry) -> Vec<u8> {
    let payload = to_proto(entry).encode_to_vec();
    assert!(payload.len() <= PAYLOAD_MAX, "a record is limited by the limits on its parts");
    payload
}

/// Appends a frame with any payload.
pub fn frame(sequence: u64, payload: &[u8], dst: &mut BytesMut) {
    let start = dst.len();
    dst.reserve(HEAD + payload.len());
    dst.put_slice(MAGIC);
    dst.put_u32(payload.len() as u32);
    dst.put_u64(sequence);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&dst[start + 4..]);
    crc.update(payload);
    dst.put_u32(crc.finalize());
    dst.put_slice(payload);
}

/// Reads the frame at the front of `bytes`.
pub fn decode(bytes: &[u8]) -> Frame {
    let Some((sequence, payload)) = verify(bytes) else { return Frame::Broken };
    let payload = Bytes::copy_from_slice(payload);
    let entry = if lists_of(&payload)
        .is_ok_and(|(properties, lives)| properties <= PROPERTIES_MAX && lives <= LIVES_MAX)
    {
        proto::Record::decode(payload.clone()).ok().and_then(from_proto)
    } else {
        None
    };
    match entry {
        Some(entry) => Frame::Whole { sequence, entry, len: HEAD + payload.len() },
        None => Frame::Foreign,
    }
}

/// How many properties and lives a record has, counted before decoding them: an empty one takes two bytes in the file and
/// fifty in memory.
fn lists_of(payload: &Bytes) -> Result<(usize, usize), DecodeError> {
    const APPLICATION_REGISTERED: Part<(), ()> = Part::of(1);
    const PROPERTIES: Messages<(), ()> = Messages::of(4);
    const LIVES: Texts<()> = Texts::of(6);
    let application = Received::<()>::decode(payload.clone())?.part(APPLICATION_REGISTERED)?;
    Ok(application.map_or((0, 0), |application| {
        (application.messages(PROPERTIES).count(), application.texts(LIVES).count())
    }))
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

fn verify(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    if &head[..4] != MAGIC {
        return None;
    }
    let number =
        |range: std::ops::Range<usize>| u32::from_be_bytes(head[range].try_into().expect("four bytes"));
    let len = number(4..8) as usize;
    if len > PAYLOAD_MAX {
        return None;
    }
    let payload = rest.get(..len)?;
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head[4..16]);
    crc.update(payload);
    let sequence = u64::from_be_bytes(head[8..16].try_into().expect("eight bytes"));
    (crc.finalize() == number(16..20)).then_some((sequence, payload))
}

fn to_proto(entry: &Entry) -> proto::Record {
    let change = match entry {
        Entry::Synced(sequence) => Change::Synced(*sequence),
        Entry::SnapshotEnd(count) => Change::SnapshotEnd(*count),
        Entry::Record(record) => match record {
            Record::ApplicationRegistered { application, user, properties, lives, at_unix_ms } => {
                let property = |(key, value): &(String, String)| proto::Property {
                    key: key.clone(),
                    value: value.clone(),
                };
                Change::ApplicationRegistered(proto::ApplicationRegistered {
                    application: application.to_string(),
                    tenant: user.tenant.clone(),
                    user: user.name.clone(),
                    properties: properties.iter().map(property).collect(),
                    at_unix_ms: *at_unix_ms,
                    lives: lives.iter().map(|life| life.as_str().to_owned()).collect(),
                })
            }
            Record::ApplicationRemoved { application, at_unix_ms, silent } => {
                let application = application.to_string();
                let (at_unix_ms, silent) = (*at_unix_ms, *silent);
                Change::ApplicationRemoved(proto::ApplicationRemoved { application, at_unix_ms, silent })
            }
            Record::ShuffleRegistered { shuffle, at_unix_ms } => {
                Change::ShuffleRegistered(proto::ShuffleRegistered {
                    application: shuffle.application.to_string(),
                    shuffle: shuffle.shuffle.0,
                    at_unix_ms: *at_unix_ms,
                })
            }
            Record::ShufflesRemoved { application, runs, at_unix_ms } => {
                Change::ShuffleRunsRemoved(proto::ShuffleRunsRemoved {
                    application: application.to_string(),
                    bounds: runs.iter().flat_map(|run| [run.first().0, run.last().0]).collect(),
                    at_unix_ms: *at_unix_ms,
                })
            }
            Record::WorkerRegistered { worker, http_port, network_location } => {
                Change::WorkerRegistered(proto::WorkerRegistered {
                    worker: worker.to_string(),
                    http_port: (*http_port).into(),
                    network_location: network_location.clone(),
                })
            }
            Record::WorkerRemoved { worker, at_unix_ms, left } => {
                let (worker, at_unix_ms, left) = (worker.to_string(), *at_unix_ms, *left);
                Change::WorkerRemoved(proto::WorkerRemoved { worker, at_unix_ms, left })
            }
            Record::WorkerExcluded { worker } => Change::WorkerExcluded(worker.to_string()),
            Record::WorkerIncluded { worker } => Change::WorkerIncluded(worker.to_string()),
            Record::WorkerForgotten { worker } => Change::WorkerForgotten(worker.to_string()),
            Record::WorkerDecommissioned { worker } => Change::WorkerDecommissioned(worker.to_string()),
            Record::WorkerRecommissioned { worker } => Change::WorkerRecommissioned(worker.to_string()),
            Record::WorkerStayed { worker } => Change::WorkerStayed(worker.to_string()),
        },
    };
    proto::Record { change: Some(change) }
}

fn from_proto(record: proto::Record) -> Option<Entry> {
    let worker = |text: String| text.parse::<WorkerId>().ok();
    let shuffle = |application: String, shuffle| ShuffleKey::new(application, ShuffleId(shuffle));
    let record = match record.change? {
        Change::Synced(sequence) => return Some(Entry::Synced(sequence)),
        Change::SnapshotEnd(count) => return Some(Entry::SnapshotEnd(count)),
        Change::ApplicationRegistered(registered) => Record::ApplicationRegistered {
            application: registered.application.into(),
            user: User { tenant: registered.tenant, name: registered.user },
            properties: registered.properties.into_iter().map(|p| (p.key, p.value)).collect(),
            lives: registered.lives.iter().filter_map(|life| LifeId::new(life)).collect(),
            at_unix_ms: registered.at_unix_ms,
        },
        Change::ApplicationRemoved(removed) => Record::ApplicationRemoved {
            application: removed.application.into(),
            at_unix_ms: removed.at_unix_ms,
            silent: removed.silent,
        },
        Change::ShuffleRegistered(registered) => Record::ShuffleRegistered {
            shuffle: shuffle(registered.application, registered.shuffle),
            at_unix_ms: registered.at_unix_ms,
        },
        Change::ShufflesRemoved(removed) => Record::ShufflesRemoved {
            application: removed.application.into(),
            runs: removed.shuffles.into_iter().map(|shuffle| ShuffleId(shuffle).into()).collect(),
            at_unix_ms: removed.at_unix_ms,
        },
        Change::ShuffleRunsRemoved(removed) => Record::ShufflesRemoved {
            application: removed.application.into(),
            runs: runs(&removed.bounds)?,
            at_unix_ms: removed.at_unix_ms,
        },
        Change::WorkerRegistered(registered) => Record::WorkerRegistered {
            worker: worker(registered.worker)?,
            http_port: registered.http_port.try_into().ok()?,
            network_location: registered.network_location,
        },
        Change::WorkerRemoved(removed) => Record::WorkerRemoved {
            worker: worker(removed.worker)?,
            at_unix_ms: removed.at_unix_ms,
            left: removed.left,
        },
        Change::WorkerExcluded(id) => Record::WorkerExcluded { worker: worker(id)? },
        Change::WorkerIncluded(id) => Record::WorkerIncluded { worker: worker(id)? },
        Change::WorkerForgotten(id) => Record::WorkerForgotten { worker: worker(id)? },
        Change::WorkerDecommissioned(id) => Record::WorkerDecommissioned { worker: worker(id)? },
        Change::WorkerRecommissioned(id) => Record::WorkerRecommissioned { worker: worker(id)? },
        Change::WorkerStayed(id) => Record::WorkerStayed { worker: worker(id)? },
    };
    Some(Entry::Record(record))
}

/// The runs with these first and last numbers.
fn runs(bounds: &[i32]) -> Option<Vec<ShuffleRun>> {
    let (pairs, rest) = bounds.as_chunks();
    let run = |[first, last]: &[i32; 2]| ShuffleRun::new(ShuffleId(*first), ShuffleId(*last));
    if rest.is_empty() { pairs.iter().map(run).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::super::record::RUNS_REMOVED_MAX;
    use super::*;

    fn one_of_each() -> Vec<Record> {
        let worker: WorkerId = "fe80::1:1:2:3:4".parse().unwrap();
        let user = User { tenant: "t".to_owned(), name: "u".to_owned() };
        vec![
            Record::ApplicationRegistered {
                application: "app-1".into(),
                user,
                properties: vec![("k".to_owned(), "v".to_owned())],
                lives: ["a#0", "b#0"].into_iter().filter_map(LifeId::new).collect(),
                at_unix_ms: 1,
            },
            Record::ApplicationRemoved { application: "app-1".into(), at_unix_ms: 2, silent: false },
            Record::ApplicationRemoved { application: "app-2".into(), at_unix_ms: 2, silent: true },
            Record::ShuffleRegistered { shuffle: ShuffleKey::new("app-2", 3), at_unix_ms: 3 },
            Record::ShufflesRemoved {
                application: "app-2".into(),
                runs: ShuffleRun::all_of([0, 4, 5, 9].map(ShuffleId)),
                at_unix_ms: 4,
            },
            Record::WorkerRegistered {
                worker: worker.clone(),
                http_port: 9096,
                network_location: "/r".to_owned(),
            },
            Record::WorkerRemoved { worker: worker.clone(), at_unix_ms: 5, left: true },
            Record::WorkerExcluded { worker: worker.clone() },
            Record::WorkerIncluded { worker: worker.clone() },
            Record::WorkerForgotten { worker: worker.clone() },
            Record::WorkerDecommissioned { worker: worker.clone() },
            Record::WorkerRecommissioned { worker: worker.clone() },
            Record::WorkerStayed { worker },
        ]
    }

    #[test]
    fn every_record_reads_back_and_no_prefix_does() {
        let others = [Entry::Synced(70), Entry::SnapshotEnd(77)];
        for entry in one_of_each().into_iter().map(Entry::Record).chain(others) {
            let mut bytes = BytesMut::new();
            encode(77, &entry, &mut bytes);
            let len = bytes.len();
            assert_eq!(decode(&bytes), Frame::Whole { sequence: 77, entry, len });
            for prefix in 1..len {
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
    fn the_largest_removal_of_shuffles_fits() {
        // Negative numbers are the longest.
        let (application, runs) = ("a".repeat(1024).into(), vec![ShuffleId(-1).into(); RUNS_REMOVED_MAX]);
        let entry = Entry::Record(Record::ShufflesRemoved { application, runs, at_unix_ms: u64::MAX });
        let mut bytes = BytesMut::new();
        encode(7, &entry, &mut bytes);
        assert!(bytes.len() < 84 << 10, "{}", bytes.len());
    }

    #[test]
    fn a_removal_in_the_earlier_form_is_read() {
        let removed = |change| {
            let mut bytes = BytesMut::new();
            frame(7, &proto::Record { change: Some(change) }.encode_to_vec(), &mut bytes);
            decode(&bytes)
        };
        let (application, at_unix_ms) = ("app".to_owned(), 1);
        let shuffles = proto::ShufflesRemoved { application, shuffles: vec![4, 0, 9], at_unix_ms };
        let Frame::Whole { entry: Entry::Record(record), .. } = removed(Change::ShufflesRemoved(shuffles))
        else {
            panic!("it is not known")
        };
        let runs = [4, 0, 9].map(|shuffle| ShuffleId(shuffle).into()).to_vec();
        assert_eq!(record, Record::ShufflesRemoved { application: "app".into(), runs, at_unix_ms });
        for bounds in [vec![1], vec![2, 1]] {
            let runs = proto::ShuffleRunsRemoved { application: "app".to_owned(), bounds, at_unix_ms };
            assert_eq!(removed(Change::ShuffleRunsRemoved(runs)), Frame::Foreign, "no run");
        }
    }

    #[test]
    fn what_later_frames_say_is_synced_is_found() {
        let mut bytes = BytesMut::new();
        encode(5, &Entry::Synced(9), &mut bytes);
        assert_eq!(synced_later(&bytes), 0, "only what is later");
        encode(6, &Entry::Synced(5), &mut bytes);
        encode(7, &Entry::SnapshotEnd(8), &mut bytes);
        encode(8, &Entry::Synced(4), &mut bytes);
        bytes[10] ^= 1;
        assert_eq!(synced_later(&bytes), 5);
        let before = bytes.len();
        encode(9, &Entry::Synced(9), &mut bytes);
        assert_eq!(synced_later(&bytes), 9);
        for len in before..bytes.len() {
            assert_eq!(synced_later(&bytes[..len]), 5, "only what is whole");
        }
    }

    #[test]
    fn more_properties_or_lives_than_are_kept_are_not_ours() {
        let registered = |properties, lives| {
            let properties = vec![("k".to_owned(), "v".to_owned()); properties];
            let lives = vec![LifeId::new("a#0").unwrap(); lives];
            let (application, user) = ("app-1".into(), User::default());
            Entry::Record(Record::ApplicationRegistered {
                application,
                user,
                properties,
                lives,
                at_unix_ms: 1,
            })
        };
        let read = |properties, lives| {
            let mut bytes = BytesMut::new();
            encode(7, &registered(properties, lives), &mut bytes);
            decode(&bytes)
        };
        assert!(matches!(read(PROPERTIES_MAX, LIVES_MAX), Frame::Whole { .. }));
        assert_eq!(read(PROPERTIES_MAX + 1, LIVES_MAX), Frame::Foreign);
        assert_eq!(read(PROPERTIES_MAX, LIVES_MAX + 1), Frame::Foreign);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 1..200)) {
            prop_assert_eq!(decode(&bytes), Frame::Broken);
            synced_later(&bytes);
            let mut whole = BytesMut::new();
            frame(7, &bytes, &mut whole);
            prop_assert_ne!(decode(&whole), Frame::Broken, "behind the checksum, too");
        }
    }
}
