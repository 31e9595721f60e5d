//! The layout of records in the journal: protobuf `yeoul.shuffle.journal.Record`.

use bytes::{Bytes, BytesMut};
use prost::Message as _;

use super::record::{LISTED_IN_RECORD_MAX, LIVES_MAX, LifeId, PROPERTIES_MAX, Record, User};
use super::state::ShuffleRun;
use crate::ids::{ShuffleId, ShuffleKey, WorkerId};
use crate::wire::DecodeError;
use crate::wire::journal as proto;
use crate::wire::journal::record::Change;
use crate::wire::lists::{Messages, Part, Received, Texts};

impl yeoul_journal::Record for Record {
    const KIND: &'static str = "shuffle master";
    const LAYOUT_VERSION: u32 = 1;
    /// The largest record has about half of this: an application's properties are at most 64 of 8 KiB.
    const BYTES_MAX: usize = 1 << 20;

    fn encode(&self, dst: &mut BytesMut) {
        proto::Record { change: Some(to_proto(self)) }.encode(dst).expect("a buffer that grows has room");
    }

    fn decode(_: u32, bytes: &[u8]) -> Option<Self> {
        let bytes = Bytes::copy_from_slice(bytes);
        let may_be_ours = lists_of(&bytes).is_ok_and(|lists| {
            let Lists { properties, lives, listed } = lists;
            properties <= PROPERTIES_MAX && lives <= LIVES_MAX && listed <= LISTED_IN_RECORD_MAX
        });
        may_be_ours.then(|| proto::Record::decode(bytes).ok().and_then(from_proto)).flatten()
    }
}

/// The lengths of a record's lists.
#[derive(Default)]
struct Lists {
    properties: usize,
    lives: usize,
    listed: usize,
}

/// The lengths of a record's lists, counted before decoding them: an empty element takes two bytes in the file and fifty in
/// memory.
fn lists_of(payload: &Bytes) -> Result<Lists, DecodeError> {
    const APPLICATION_REGISTERED: Part<(), ()> = Part::of(1);
    const PROPERTIES: Messages<(), ()> = Messages::of(4);
    const LIVES: Texts<()> = Texts::of(6);
    const SHUFFLE_REGISTERED: Part<(), ()> = Part::of(3);
    const LISTED: Texts<()> = Texts::of(4);
    let record = Received::<()>::decode(payload.clone())?;
    let mut lists = Lists::default();
    if let Some(application) = record.part(APPLICATION_REGISTERED)? {
        lists.properties = application.messages(PROPERTIES).count();
        lists.lives = application.texts(LIVES).count();
    }
    if let Some(shuffle) = record.part(SHUFFLE_REGISTERED)? {
        lists.listed = shuffle.texts(LISTED).count();
    }
    Ok(lists)
}

fn to_proto(record: &Record) -> Change {
    match record {
        Record::ApplicationRegistered { application, user, properties, lives, at_unix_ms } => {
            let property =
                |(key, value): &(String, String)| proto::Property { key: key.clone(), value: value.clone() };
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
        Record::ShuffleRegistered { shuffle, at_unix_ms, listed } => {
            Change::ShuffleRegistered(proto::ShuffleRegistered {
                application: shuffle.application.to_string(),
                shuffle: shuffle.shuffle.0,
                at_unix_ms: *at_unix_ms,
                listed: listed.iter().map(WorkerId::to_string).collect(),
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
    }
}

fn from_proto(record: proto::Record) -> Option<Record> {
    let worker = |text: String| text.parse::<WorkerId>().ok();
    let shuffle = |application: String, shuffle| ShuffleKey::new(application, ShuffleId(shuffle));
    Some(match record.change? {
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
            listed: registered.listed.into_iter().map(worker).collect::<Option<_>>()?,
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
    })
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
    use yeoul_journal::Record as _;

    use super::super::record::RUNS_REMOVED_MAX;
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
            Record::ShuffleRegistered { shuffle: ShuffleKey::new("app-2", 3), at_unix_ms: 3, listed: vec![] },
            Record::ShuffleRegistered {
                shuffle: ShuffleKey::new("app-2", 4),
                at_unix_ms: 3,
                listed: vec!["h:1:2:3:4".parse().unwrap(), worker.clone()],
            },
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

    fn encoded(record: &Record) -> BytesMut {
        let mut bytes = BytesMut::new();
        record.encode(&mut bytes);
        bytes
    }

    #[test]
    fn every_record_reads_back() {
        for record in one_of_each() {
            assert_eq!(Record::decode(1, &encoded(&record)), Some(record));
        }
    }

    #[test]
    fn the_largest_removal_of_shuffles_fits() {
        // Negative numbers are the longest.
        let (application, runs) = ("a".repeat(1024).into(), vec![ShuffleId(-1).into(); RUNS_REMOVED_MAX]);
        let bytes = encoded(&Record::ShufflesRemoved { application, runs, at_unix_ms: u64::MAX });
        assert!(bytes.len() < 84 << 10, "{}", bytes.len());
    }

    #[test]
    fn a_shuffle_of_a_journal_that_listed_nobody_reads_back_without_workers() {
        // Field 3 as of version 0.1 before workers were listed: "app-2", number 3, time 3.
        let older = [0x1a, 11, 0x0a, 5, b'a', b'p', b'p', b'-', b'2', 0x10, 3, 0x18, 3];
        let record =
            Record::ShuffleRegistered { shuffle: ShuffleKey::new("app-2", 3), at_unix_ms: 3, listed: vec![] };
        assert_eq!(Record::decode(1, &older), Some(record.clone()));
        assert_eq!(encoded(&record), older[..], "and an older master reads what this one writes");
    }

    #[test]
    fn the_longest_list_of_workers_fits_and_a_longer_one_is_not_ours() {
        let long = format!("{}:65535:65535:65535:65535", "h".repeat(253));
        let record = |listed| Record::ShuffleRegistered {
            shuffle: ShuffleKey::new("a".repeat(200), i32::MAX),
            at_unix_ms: u64::MAX,
            listed: vec![long.parse().unwrap(); listed],
        };
        let longest = encoded(&record(LISTED_IN_RECORD_MAX));
        assert!(longest.len() < <Record as yeoul_journal::Record>::BYTES_MAX / 2, "{}", longest.len());
        assert_eq!(Record::decode(1, &longest), Some(record(LISTED_IN_RECORD_MAX)));
        assert_eq!(Record::decode(1, &encoded(&record(LISTED_IN_RECORD_MAX + 1))), None);
    }

    #[test]
    fn a_record_that_makes_no_sense_is_not_ours() {
        for bounds in [vec![1], vec![2, 1]] {
            let runs = proto::ShuffleRunsRemoved { application: "app".to_owned(), bounds, at_unix_ms: 1 };
            let change = Some(Change::ShuffleRunsRemoved(runs));
            assert_eq!(Record::decode(1, &proto::Record { change }.encode_to_vec()), None, "no run");
        }
        // Field 100, with the number 1.
        assert_eq!(Record::decode(1, &[0xa0, 0x06, 1]), None);
    }

    #[test]
    fn more_properties_or_lives_than_are_kept_are_not_ours() {
        let read = |properties, lives| {
            let properties = vec![("k".to_owned(), "v".to_owned()); properties];
            let lives = vec![LifeId::new("a#0").unwrap(); lives];
            let (application, user) = ("app-1".into(), User::default());
            let record =
                Record::ApplicationRegistered { application, user, properties, lives, at_unix_ms: 1 };
            Record::decode(1, &encoded(&record))
        };
        assert!(read(PROPERTIES_MAX, LIVES_MAX).is_some());
        assert_eq!(read(PROPERTIES_MAX + 1, LIVES_MAX), None);
        assert_eq!(read(PROPERTIES_MAX, LIVES_MAX + 1), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
            if let Some(record) = Record::decode(1, &bytes) {
                prop_assert_eq!(Record::decode(1, &encoded(&record)), Some(record));
            }
        }
    }
}
