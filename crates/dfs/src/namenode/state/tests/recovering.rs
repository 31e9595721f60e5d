//! Files whose writers are gone: they are closed with what was promised, by whoever asks, or by the NameNode.

use super::*;
use crate::wire::proto::cluster::{Held, Recovery};

fn recover(path: &str) -> calls::RecoverLeaseRequest {
    calls::RecoverLeaseRequest { src: path.to_owned(), client_name: "other".to_owned() }
}

fn is_closed(fixture: &mut Fixture, path: &str) -> bool {
    let request = calls::PathRequest { src: path.to_owned() };
    fixture.call::<_, BoolResponse>("isFileClosed", &request).unwrap().result
}

fn asks(fixture: &mut Fixture, path: &str) -> bool {
    let asked: BoolResponse = fixture.call("recoverLease", &recover(path)).unwrap();
    fixture.sync_all();
    asked.result
}

fn flush(fixture: &mut Fixture, path: &str, file: u64, length: i64) {
    let (src, client_name) = (path.to_owned(), "client".to_owned());
    let request =
        calls::FsyncRequest { src, client_name, last_block_length: Some(length), file_id: Some(file) };
    let _: calls::Empty = fixture.call("fsync", &request).unwrap();
}

/// A heartbeat that says what a DataNode has of a block; what it is told of it.
fn beat(fixture: &mut Fixture, number: usize, held: &[Held]) -> Vec<Recovery> {
    let request =
        HeartbeatRequest { uuid: format!("dn-{number}"), held: held.to_vec(), ..HeartbeatRequest::default() };
    fixture.cluster::<_, HeartbeatResponse>("heartbeat", &request).unwrap().recoveries
}

fn held(order: &Recovery, replica_stamp: u64, length: u64) -> Held {
    let (id, stamp) = (order.id, order.stamp);
    Held { id, stamp, has_replica: true, replica_stamp, length, is_from_disk: false }
}

/// A file of one block that its writer has begun and, perhaps, flushed.
fn begun(fixture: &mut Fixture, path: &str, flushed: Option<i64>) -> LocatedBlock {
    let file = fixture.create(path);
    let located = fixture.add_block(path, file, None);
    if let Some(flushed) = flushed {
        flush(fixture, path, file, flushed);
    }
    located
}

#[test]
fn a_file_is_taken_from_its_writer_and_closed_with_what_all_have() {
    let mut fixture = Fixture::new(3);
    let located = begun(&mut fixture, "/f", Some(-1));
    let stamp = located.block.stamp;
    assert!(!asks(&mut fixture, "/f"), "its block has no end yet");
    let refused = fixture.refused("complete", &complete("/f", 0, Some(sized(&located, 900))));
    assert_eq!(refused.0, Exception::LeaseExpired, "the writer has lost it");
    let orders: Vec<Recovery> = (0..3).flat_map(|number| beat(&mut fixture, number, &[])).collect();
    let order = orders[0];
    assert_eq!(orders, [order; 3]);
    assert_eq!((order.id, order.length), (located.block.id.cast_signed(), None));
    assert!(order.stamp > stamp);
    for (number, length) in [(0, 900), (1, 700), (2, 800)] {
        beat(&mut fixture, number, &[held(&order, stamp, length)]);
    }
    fixture.tick();
    let end = Recovery { length: Some(700), ..order };
    for number in 0..3 {
        assert_eq!(beat(&mut fixture, number, &[]), [end]);
        assert!(!is_closed(&mut fixture, "/f"));
        let ended = ExtendedBlock { stamp: order.stamp, ..located.block.clone() };
        fixture.notice(number, &ended, 700, false);
    }
    fixture.tick();
    assert!(is_closed(&mut fixture, "/f") && asks(&mut fixture, "/f"));
    let found = fixture.locations("/f");
    assert_eq!((found.file_length, found.under_construction), (700, false));
    assert_eq!((found.blocks[0].block.stamp, found.blocks[0].locations.len()), (order.stamp, 3));
    assert_eq!(beat(&mut fixture, 0, &[]), [], "it is over");
}

#[test]
fn nobody_hears_of_a_stamp_before_it_is_on_disk() {
    let mut fixture = Fixture::new(3);
    begun(&mut fixture, "/f", Some(-1));
    let _: BoolResponse = fixture.call("recoverLease", &recover("/f")).unwrap();
    assert_eq!(beat(&mut fixture, 0, &[]), []);
    fixture.sync_all();
    assert_eq!(beat(&mut fixture, 0, &[]).len(), 1);
}

#[test]
fn a_file_that_has_its_end_or_no_block_is_closed_at_once() {
    let mut fixture = Fixture::new(3);
    assert!(fixture.write("/whole", 10).locations.len() == 3 && asks(&mut fixture, "/whole"));
    fixture.create("/empty");
    assert!(asks(&mut fixture, "/empty"));
    assert_eq!(fixture.status("/empty").unwrap().length, 0);
    let located = begun(&mut fixture, "/two", None);
    fixture.notice(0, &located.block, 10, false);
    let file = fixture.status("/two").unwrap().id.unwrap();
    fixture.add_block("/two", file, Some(sized(&located, 10)));
    assert!(!asks(&mut fixture, "/two"));
    for number in 0..3 {
        if let [order] = beat(&mut fixture, number, &[])[..] {
            let nothing = Held { id: order.id, stamp: order.stamp, ..Held::default() };
            beat(&mut fixture, number, &[nothing]);
        }
    }
    fixture.tick();
    let found = fixture.locations("/two");
    assert_eq!((found.file_length, found.under_construction, found.blocks.len()), (10, false, 1));
}

#[test]
fn what_cannot_be_recovered_is_refused_as_hdfs_does_it() {
    let mut fixture = Fixture::new(3);
    fixture.mkdir("/d");
    let (exception, text) = fixture.refused("recoverLease", &recover("/none"));
    assert_eq!((exception, text.as_str()), (Exception::FileNotFound, "File does not exist: /none"));
    let (exception, text) = fixture.refused("recoverLease", &recover("/d"));
    assert_eq!((exception, text.as_str()), (Exception::FileNotFound, "Path is not a file: /d"));
    let closed = calls::PathRequest { src: "/d".to_owned() };
    assert_eq!(fixture.refused("isFileClosed", &closed).1, "Path is not a file: /d");
    fixture.create("/d/f");
    fixture.user = user("eve", &[]);
    assert_eq!(fixture.refused("recoverLease", &recover("/d/f")).0, Exception::AccessControl);
    fixture.user = user("root", &[]);
    let thief = calls::CreateRequest { client_name: "HDFS_NameNode".to_owned(), ..create("/g", 1) };
    assert_eq!(fixture.refused("create", &thief).0, Exception::HadoopIllegalArgument);
    // Its writer does not get it back.
    begun(&mut fixture, "/h", None);
    asks(&mut fixture, "/h");
    let complete = calls::CompleteRequest {
        src: "/h".to_owned(),
        client_name: "HDFS_NameNode".to_owned(),
        ..calls::CompleteRequest::default()
    };
    assert_eq!(fixture.refused("complete", &complete).0, Exception::LeaseExpired);
}

#[test]
fn a_silent_writer_loses_its_file_to_who_wants_it_and_at_last_to_the_namenode() {
    let mut fixture = Fixture::new(3);
    fixture.create("/f");
    let other = calls::CreateRequest { client_name: "other".to_owned(), ..create("/f", 1) };
    fixture.now.steady_ms += 60_000;
    let (exception, text) = fixture.refused("create", &other);
    assert_eq!(exception, Exception::AlreadyBeingCreated);
    assert!(text.contains("currently owned by client"), "{text}");
    fixture.now.steady_ms += 1;
    let (exception, text) = fixture.refused("create", &other);
    assert_eq!(exception, Exception::RecoveryInProgress);
    assert!(text.contains("lease recovery is in progress. Try again later."), "{text}");
    fixture.tick();
    assert_eq!(fixture.refused("create", &other).0, Exception::FileAlreadyExists, "it is closed");

    (0..3).for_each(|number| drop(fixture.heartbeat(number)));
    begun(&mut fixture, "/g", Some(5));
    let is_taken = |fixture: &mut Fixture, ms: u64| {
        (0..ms / 5_000).for_each(|_| {
            fixture.now.steady_ms += 5_000;
            fixture.tick();
        });
        (0..3).for_each(|number| drop(fixture.heartbeat(number)));
        fixture.tick();
        fixture.sync_all();
        !beat(fixture, 0, &[]).is_empty()
    };
    assert!(!is_taken(&mut fixture, 1_200_000));
    let request = calls::RenewLeaseRequest { client_name: "client".to_owned() };
    let _: calls::Empty = fixture.call("renewLease", &request).unwrap();
    assert!(!is_taken(&mut fixture, 1_200_000));
    // The NameNode has stood still: nobody could say that it is there.
    fixture.now.steady_ms += 1_300_000;
    assert!(!is_taken(&mut fixture, 1_200_000));
    assert!(is_taken(&mut fixture, 10_000));
}

#[test]
fn replicas_that_missed_the_end_or_were_flushed_less_do_not_count() {
    let mut fixture = Fixture::new(3);
    let located = begun(&mut fixture, "/f", Some(500));
    let stamp = located.block.stamp;
    asks(&mut fixture, "/f");
    let order = beat(&mut fixture, 0, &[])[0];
    beat(&mut fixture, 0, &[held(&order, stamp, 499)]);
    beat(&mut fixture, 1, &[held(&order, stamp, 700)]);
    // Longer than a block may be, and of another attempt.
    beat(&mut fixture, 2, &[held(&order, stamp, MIB + 1)]);
    beat(&mut fixture, 1, &[Held { stamp: order.stamp - 1, ..held(&order, stamp, 600) }]);
    fixture.tick();
    assert_eq!(beat(&mut fixture, 0, &[]), []);
    assert_eq!(beat(&mut fixture, 2, &[]), []);
    assert_eq!(beat(&mut fixture, 1, &[]), [Recovery { length: Some(700), ..order }]);
    let ended = ExtendedBlock { stamp: order.stamp, ..located.block.clone() };
    fixture.notice(1, &ended, 699, false);
    fixture.tick();
    assert!(!is_closed(&mut fixture, "/f"), "it has another length than it was told");
    fixture.notice(1, &ended, 700, false);
    fixture.tick();
    assert!(is_closed(&mut fixture, "/f"));
}

#[test]
fn an_attempt_that_nobody_ends_is_made_again_with_a_later_stamp() {
    let mut fixture = Fixture::new(3);
    let located = begun(&mut fixture, "/f", Some(-1));
    asks(&mut fixture, "/f");
    let order = beat(&mut fixture, 0, &[])[0];
    for number in 0..3 {
        beat(&mut fixture, number, &[held(&order, located.block.stamp, 700)]);
    }
    fixture.tick();
    let beats = |fixture: &mut Fixture| (0..3).map(|number| beat(fixture, number, &[])).collect::<Vec<_>>();
    assert!(beats(&mut fixture).iter().all(|orders| orders[0].length == Some(700)));
    fixture.now.steady_ms += 20_001;
    beats(&mut fixture);
    (0..2).for_each(|_| fixture.tick());
    fixture.sync_all();
    let again = beat(&mut fixture, 0, &[])[0];
    assert!(again.stamp > order.stamp && again.length.is_none());
}

#[test]
fn a_namenode_that_starts_again_goes_on_with_files_that_it_took() {
    let mut fixture = Fixture::new(3);
    let located = begun(&mut fixture, "/f", Some(-1));
    asks(&mut fixture, "/f");
    let first = beat(&mut fixture, 0, &[])[0];
    let (image, records) = (fixture.state.image(), fixture.state.take_records());
    for from_image in [false, true] {
        let mut state = State::new(rules());
        if from_image {
            image.records().for_each(|record| state.apply(&record));
        } else {
            records.iter().for_each(|record| state.apply(record));
        }
        assert_eq!(fingerprint(&state), fingerprint(&fixture.state));
        let mut restarted = Fixture::of(state);
        (0..3).for_each(|number| restarted.register(number));
        restarted.state.safe_mode.leave();
        restarted.tick();
        restarted.sync_all();
        assert_eq!(beat(&mut restarted, 0, &[]), [], "nobody has said yet that it has something");
        restarted.report(1, true, true, vec![replica(&located.block, 700, ReplicaState::WaitingForRecovery)]);
        restarted.tick();
        let order = beat(&mut restarted, 1, &[])[0];
        assert!(order.stamp > first.stamp, "no stamp is given out twice");
        beat(&mut restarted, 1, &[held(&order, located.block.stamp, 700)]);
        restarted.tick();
        assert_eq!(beat(&mut restarted, 1, &[])[0].length, Some(700));
    }
}

#[test]
fn a_coded_file_is_closed_with_the_stripes_that_are_whole() {
    let mut fixture = Fixture::new(9);
    let made: calls::FileInfoResponse =
        fixture.call("create", &super::striped::coded("/f", super::striped::RS_6_3)).unwrap();
    let file = made.status.unwrap().id.unwrap();
    let located = fixture.add_block("/f", file, None);
    assert!(!asks(&mut fixture, "/f"));
    let numbers = numbers(&located);
    // A stripe on six units, the first cell of the next one on one, and three that have less.
    for (at, number) in numbers.iter().copied().enumerate() {
        let order = beat(&mut fixture, number, &[])[0];
        assert_eq!(order.id, located.block.id.cast_signed() + at as i64);
        let length = [MIB - 1, MIB - 1, MIB - 1, MIB + 7, MIB].get(at).copied().unwrap_or(MIB);
        beat(&mut fixture, number, &[held(&order, located.block.stamp, length)]);
    }
    fixture.tick();
    for (at, number) in numbers.iter().copied().enumerate() {
        let orders = beat(&mut fixture, number, &[]);
        if at < 3 {
            assert_eq!(orders, []);
            continue;
        }
        assert_eq!(orders[0].length, Some(MIB));
        let ended = ExtendedBlock {
            id: located.block.id + at as u64,
            stamp: orders[0].stamp,
            ..located.block.clone()
        };
        fixture.notice(number, &ended, MIB, false);
    }
    fixture.tick();
    assert!(is_closed(&mut fixture, "/f"));
    assert_eq!(fixture.locations("/f").file_length, 6 * MIB);
}

#[test]
fn a_datanode_that_a_writer_goes_on_with_and_that_has_not_registered_again_is_waited_for() {
    let mut fixture = Fixture::new(3);
    let located = begun(&mut fixture, "/f", Some(-1));
    let mut state = State::new(rules());
    fixture.state.take_records().iter().for_each(|record| state.apply(record));
    let mut restarted = Fixture::of(state);
    restarted.register(0);
    restarted.state.safe_mode.leave();
    let stamp = super::pipelines::new_stamp(&mut restarted, &located.block).block.stamp;
    let request = super::pipelines::update(&located.block, stamp, 0, &[Some(0), Some(1)]);
    let _: calls::Empty = restarted.call("updatePipeline", &request).unwrap();
    assert!(!asks(&mut restarted, "/f"));
    let order = beat(&mut restarted, 0, &[])[0];
    // Its machine may have lost the end of it.
    beat(&mut restarted, 0, &[Held { is_from_disk: true, ..held(&order, stamp, 100) }]);
    restarted.tick();
    assert_eq!(beat(&mut restarted, 0, &[]), [order], "the other one may have more");
    restarted.register(1);
    let block = ExtendedBlock { stamp, ..located.block.clone() };
    restarted.report(1, true, true, vec![replica(&block, 700, ReplicaState::BeingWritten)]);
    restarted.tick();
    assert_eq!(beat(&mut restarted, 1, &[held(&order, stamp, 700)]), [order]);
    restarted.tick();
    assert_eq!(beat(&mut restarted, 1, &[])[0].length, Some(700));
}
