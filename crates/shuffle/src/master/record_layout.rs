//! The layout of records in the journal: protobuf `yeoul.shuffle.journal.Record`.

use bytes::{Bytes, BytesMut};
use prost::Message as _;

use super::record::{LIVES_MAX, LifeId, PROPERTIES_MAX, Record, User};
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
        let may_be_ours = lists_of(&bytes)
            .is_ok_and(|(properties, lives)| properties <= PROPERTIES_MAX && lives <= LIVES_MAX);
        may_be_ours.then(|| proto::Record::decode(bytes).ok().and_then(from_proto)).flatten()
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
