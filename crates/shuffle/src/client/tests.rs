//! Goal: what a client says of its data is true when servers fail, connections end and calls are cancelled wherever
//! they wait. Method: servers that fail on command. Here: applications, and shuffles as a whole.

mod halves;
mod named;
mod reading;
mod writing;

use std::time::{Duration, Instant};

use super::scripted::{Fault, Point, Scripted, until};
use super::tasks::MERGE_LEN_MAX;
use super::*;
use crate::error::Kind;
use crate::ids::{AttemptId, LocationId, MapId, Mode, PartitionId, ShuffleId, WorkerId};
use crate::wire::message::MessageType;
use crate::wire::packed::Location;

const NEVER: Duration = Duration::from_secs(3600);

async fn shuffle(options: Options, partitions: usize) -> Shuffle {
    let application = Application::start(Options { heartbeat: NEVER, ..options }).await.unwrap();
    application.register(ShuffleId(0), 1, partitions).await.unwrap()
}

fn writer(shuffle: &Shuffle) -> Writer {
    shuffle.writer(MapId(0), AttemptId(0))
}

/// Polls a future for a while, in which it must not end, and drops it.
async fn cancel<F: Future>(future: F) {
    let waited = tokio::time::timeout(Duration::from_millis(20), future).await;
    assert!(waited.is_err(), "it was to be cancelled and ended");
}

/// Polls a future until it has made `what` true, and drops it before it ends.
async fn cancel_when<F: Future>(future: F, what: impl FnMut() -> bool) {
    tokio::select! {
        biased;
        _ = future => panic!("it was to be cancelled and ended"),
        () = until(what) => {}
    }
}

async fn read(shuffle: &Shuffle, partition: i32) -> Result<Vec<String>, crate::Error> {
    let mut reader = shuffle.reader(PartitionId(partition), ..)?;
    let mut texts = Vec::new();
    while let Some(batch) = reader.next().await? {
        texts.push(String::from_utf8(batch.payload.to_vec()).unwrap());
    }
    texts.sort();
    Ok(texts)
}

async fn write_one(shuffle: &Shuffle) {
    let mut writer = writer(shuffle);
    writer.push(PartitionId(0), &b"one"[..]).await.unwrap();
    writer.finish().await.unwrap();
    shuffle.commit().await.unwrap();
}

#[tokio::test]
async fn a_registration_that_fails_leaves_nothing_reserved() {
    let cluster = Scripted::start(2).await;
    let options = Options { replicate: true, heartbeat: NEVER, ..cluster.options() };
    let application = Application::start(options).await.unwrap();
    cluster.fail(1, Point::Message(MessageType::RESERVE_SLOTS), &[Fault::Fail; 3]);
    let error =
        application.register(ShuffleId(0), 1, 2).await.err().expect("there is one worker for two copies");
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    let file = |text: &str| (0, text.parse().unwrap());
    assert_eq!(cluster.asked(0, Point::Message(MessageType::UNREGISTER_SHUFFLE)), 1);
    let destroyed = cluster.destroyed();
    assert!([file("0-0-0"), file("1-0-1")].iter().all(|file| destroyed.contains(file)), "{destroyed:?}");
}

#[tokio::test]
async fn what_goes_on_with_an_unregistered_shuffle_does_not_touch_the_next_of_its_number() {
    let cluster = Scripted::start(1).await;
    let heartbeat = Duration::from_millis(5);
    let options = Options { merge_len: 0, heartbeat, ..cluster.options() };
    let application = Application::start(options).await.unwrap();
    let before = application.register(ShuffleId(0), 1, 1).await.unwrap();
    write_one(&before).await;
    let pushed = cluster.asked(0, Point::Push);
    let [mut late, idle] = [1, 2].map(|attempt| before.writer(MapId(0), AttemptId(attempt)));
    let mut reader = before.reader(PartitionId(0), ..).unwrap();
    before.clone().unregister().await.unwrap();

    let next = application.register(ShuffleId(0), 1, 1).await.unwrap();
    let opened = cluster.asked(0, Point::Message(MessageType::OPEN_STREAM));
    let conflict = |error: crate::Error| {
        assert_eq!(error.kind(), Kind::Conflict, "{error}");
        assert!(error.to_string().contains("unregistered"), "{error}");
    };
    conflict(late.push(PartitionId(0), &b"late"[..]).await.unwrap_err());
    conflict(late.finish().await.unwrap_err());
    conflict(idle.finish().await.unwrap_err());
    conflict(before.commit().await.unwrap_err());
    conflict(reader.next().await.unwrap_err());
    conflict(before.reader(PartitionId(0), ..).err().unwrap());
    assert_eq!(cluster.asked(0, Point::Push), pushed);
    assert_eq!(cluster.asked(0, Point::Message(MessageType::OPEN_STREAM)), opened);

    // It has nothing more to commit early, and unregistering it again does not end the next one.
    let commits = cluster.commits(0).len();
    drop(next);
    cluster.leave(0);
    let beat = Point::Message(MessageType::HEARTBEAT_FROM_APPLICATION);
    let beats = cluster.asked(0, beat);
    until(|| cluster.asked(0, beat) > beats + 5).await;
    before.unregister().await.unwrap();
    assert_eq!(cluster.commits(0).len(), commits);
    assert_eq!(cluster.asked(0, Point::Message(MessageType::UNREGISTER_SHUFFLE)), 1);
}

#[tokio::test]
async fn a_shuffle_is_unregistered_when_its_pushes_have_ended() {
    let cluster = Scripted::start(1).await;
    let unregister = Point::Message(MessageType::UNREGISTER_SHUFFLE);
    for (merge_len, is_given_up) in [(0, false), (40, false), (0, true), (40, true)] {
        let shuffle = shuffle(Options { merge_len, window: 1, ..cluster.options() }, 2).await;
        let (asked, pushed) = (cluster.asked(0, unregister), cluster.asked(0, Point::Push));
        cluster.fail(0, Point::Push, &[Fault::Hang]);
        let mut writer = writer(&shuffle);
        for number in 0..4 {
            writer.push(PartitionId(number % 2), number.to_string()).await.unwrap();
        }
        until(|| cluster.faults_left() == 0).await;
        let writer = if is_given_up {
            drop(writer);
            None
        } else {
            Some(writer)
        };
        cancel(shuffle.clone().unregister()).await;
        assert_eq!(cluster.asked(0, unregister), asked, "a push is on its way");
        cluster.release();
        shuffle.unregister().await.unwrap();
        assert_eq!(cluster.asked(0, unregister), asked + 1);
        if let Some(writer) = writer {
            let error = writer.finish().await.expect_err("most of it was not pushed");
            assert_eq!(error.kind(), Kind::Conflict, "{error}");
        }
        assert_eq!(cluster.asked(0, Point::Push), pushed + 1, "what waited behind the first push stays here");
    }
}

#[tokio::test]
async fn a_shuffle_is_unregistered_when_workers_have_heard_what_to_destroy() {
    let cluster = Scripted::start(2).await;
    let request_max = Duration::from_millis(300);
    let options = Options { replicate: true, heartbeat: NEVER, request_max, ..cluster.options() };
    let application = Application::start(options).await.unwrap();
    cluster.fail(1, Point::Message(MessageType::RESERVE_SLOTS), &[Fault::Fail; 3]);
    let destroy = Point::Message(MessageType::DESTROY);
    cluster.fail(0, destroy, &[Fault::Hang]);
    let begin = Instant::now();
    application.register(ShuffleId(0), 1, 2).await.err().expect("there is one worker for two copies");
    assert!(
        begin.elapsed() >= request_max,
        "the number is free, and a worker may yet destroy what has it next"
    );
    assert_eq!(cluster.asked(0, Point::Message(MessageType::UNREGISTER_SHUFFLE)), 1);
    assert_eq!(cluster.faults_left(), 0);
}

#[tokio::test]
async fn a_shuffle_is_unregistered_when_workers_have_answered_what_nobody_waits_for() {
    let cluster = Scripted::start(1).await;
    let unregister = Point::Message(MessageType::UNREGISTER_SHUFFLE);
    let [commit, reserve] = [MessageType::COMMIT_FILES, MessageType::RESERVE_SLOTS].map(Point::Message);
    for point in [commit, reserve] {
        let shuffle = shuffle(Options { merge_len: 0, ..cluster.options() }, 1).await;
        let asked = cluster.asked(0, unregister);
        cluster.fail(0, point, &[Fault::Hang]);
        if point == commit {
            cancel_when(shuffle.commit(), || cluster.faults_left() == 0).await;
        } else {
            cluster.fail(0, Point::Push, &[Fault::Fail]);
            let mut writer = writer(&shuffle);
            writer.push(PartitionId(0), &b"given up"[..]).await.unwrap();
            until(|| cluster.faults_left() == 0).await;
        }
        cancel(shuffle.clone().unregister()).await;
        assert_eq!(cluster.asked(0, unregister), asked, "a worker has yet to answer");
        cluster.release();
        shuffle.unregister().await.unwrap();
        assert_eq!(cluster.asked(0, unregister), asked + 1);
    }
}

#[tokio::test]
async fn a_number_has_one_registration_until_it_is_given_back() {
    let cluster = Scripted::start(1).await;
    let application = Application::start(Options { heartbeat: NEVER, ..cluster.options() }).await.unwrap();
    let register = |number| application.register(ShuffleId(number), 1, 1);
    let conflict = |again: Result<Shuffle, crate::Error>| {
        let error = again.err().expect("workers have the first one's locations");
        assert_eq!(error.kind(), Kind::Conflict, "{error}");
    };
    let shuffle = register(0).await.unwrap();
    conflict(register(0).await);
    let slots = Point::Message(MessageType::REQUEST_SLOTS);
    assert_eq!(cluster.asked(0, slots), 1, "a master that has given it back would know it again");
    shuffle.unregister().await.unwrap();
    drop(register(0).await.unwrap());
    conflict(register(0).await);

    let reserve = Point::Message(MessageType::RESERVE_SLOTS);
    cluster.fail(0, reserve, &[Fault::Fail; 3]);
    register(1).await.err().expect("no worker takes it");
    register(1).await.unwrap();
    cluster.fail(0, slots, &[Fault::Hang]);
    cancel_when(register(2), || cluster.faults_left() == 0).await;
    register(2).await.expect("no worker knows the first one");
    cluster.fail(0, reserve, &[Fault::Hang]);
    cancel_when(register(3), || cluster.faults_left() == 0).await;
    conflict(register(3).await);
}

#[tokio::test]
async fn an_application_that_is_refused_says_so() {
    let cluster = Scripted::start(1).await;
    let beat = Point::Message(MessageType::HEARTBEAT_FROM_APPLICATION);
    cluster.fail(0, beat, &[Fault::Fail]);
    let error = Application::start(cluster.options()).await.err().expect("refused");
    assert_eq!(error.kind(), Kind::ResourceExhausted, "{error}");
    assert!(error.hint().is_some());
    let nothing = Application::start(Options { window: 0, ..cluster.options() }).await;
    assert_eq!(nothing.err().expect("no push would begin").kind(), Kind::Invalid);
    let much = Application::start(Options { merge_len: MERGE_LEN_MAX + 1, ..cluster.options() }).await;
    assert_eq!(much.err().expect("no worker takes so much together").kind(), Kind::Invalid);
    let endless = [
        Options { window: usize::MAX, ..cluster.options() },
        Options { push_max: Duration::MAX, ..cluster.options() },
        Options { request_max: Duration::MAX, ..cluster.options() },
        Options { retry_wait: Duration::MAX, ..cluster.options() },
    ];
    for options in endless {
        let started = Application::start(options).await;
        assert_eq!(started.err().expect("nobody can count so far").kind(), Kind::Invalid);
    }
    let application = Application::start(Options { heartbeat: NEVER, ..cluster.options() }).await.unwrap();
    let many = application.register(ShuffleId(0), usize::MAX, 1).await;
    assert_eq!(many.err().expect("there are no numbers for them").kind(), Kind::Invalid);
}

#[tokio::test]
async fn a_request_that_a_master_refuses_is_not_repeated() {
    let cluster = Scripted::start(1).await;
    let application = Application::start(Options { heartbeat: NEVER, ..cluster.options() }).await.unwrap();
    let slots = Point::Message(MessageType::REQUEST_SLOTS);
    cluster.fail(0, slots, &[Fault::Fail; 2]);
    let error = application.register(ShuffleId(0), 1, 1).await.err().expect("refused");
    assert_eq!((error.kind(), cluster.asked(0, slots)), (Kind::Conflict, 1), "{error}");
}

#[test]
fn a_worker_with_several_addresses_is_one_worker() {
    let worker =
        |host: &str, push_port: u16| -> WorkerId { format!("{host}:1:{push_port}:3:4").parse().unwrap() };
    let mut candidates = vec![worker("a", 20), worker("b", 20), worker("a", 21), worker("b", 22)];
    let at = |partition, worker| Location {
        id: LocationId::new(partition, 0),
        mode: Mode::Primary,
        worker,
        peer: None,
    };
    let mut primaries = [at(0, worker("a", 21)), at(1, worker("b", 22)), at(2, worker("b", 20))];
    super::application::shuffle::use_one_address(&mut candidates, &mut primaries);
    assert_eq!(candidates, [worker("a", 20), worker("b", 20)]);
    assert_eq!(
        primaries.map(|location| location.worker),
        [worker("a", 20), worker("b", 20), worker("b", 20)]
    );
}
