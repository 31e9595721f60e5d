//! Goal: what a client says of its data is so when servers fail, connections end and calls are cancelled at every place
//! where they wait. Method: servers that fail where they are told to.

use std::time::{Duration, Instant};

use super::application::MERGE_LEN_MAX;
use super::scripted::{Fault, Point, Scripted, until};
use super::writer::{MERGED_MAX, PAYLOAD_LEN_MAX};
use super::*;
use crate::error::Kind;
use crate::ids::{AttemptId, LocationId, MapId, Mode, PartitionId, ShuffleId, ShuffleKey, WorkerId};
use crate::wire::message::MessageType;
use crate::wire::packed::Location;
use crate::wire::{Header, Limits, Status};

const NEVER: Duration = Duration::from_secs(3600);

async fn shuffle(options: Options, partitions: usize) -> Shuffle {
    let application = Application::start(Options { heartbeat: NEVER, ..options }).await.unwrap();
    application.register(ShuffleId(0), 1, partitions).await.unwrap()
}

fn writer(shuffle: &Shuffle) -> Writer {
    shuffle.writer(MapId(0), AttemptId(0))
}

/// Polls a future until it waits for something that does not come, and drops it.
async fn cancel<F: Future>(future: F) {
    let waited = tokio::time::timeout(Duration::from_millis(20), future).await;
    assert!(waited.is_err(), "it was to be cancelled and ended");
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

#[tokio::test]
async fn a_writer_that_has_told_of_a_failure_does_not_finish() {
    let cluster = Scripted::start(1).await;
    let shuffle = shuffle(Options { merge_len: 0, revives_max: 0, ..cluster.options() }, 1).await;
    let mut writer = writer(&shuffle);
    cluster.fail(0, Point::Push, &[Fault::Fail]);
    writer.push(PartitionId(0), &b"lost"[..]).await.unwrap();
    until(|| writer.is_idle()).await;
    for _ in 0..2 {
        let error = writer.push(PartitionId(0), &b"behind it"[..]).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable, "{error}");
        assert!(error.to_string().contains("told to"), "{error}");
    }
    let error = writer.finish().await.expect_err("a batch is missing");
    assert!(error.to_string().contains("told to"), "{error}");
}

#[tokio::test]
async fn a_worker_that_never_answers_costs_a_merged_push_one_timeout() {
    let cluster = Scripted::start(2).await;
    let push_max = Duration::from_millis(500);
    let shuffle = shuffle(Options { push_max, ..cluster.options() }, 8).await;
    let silent = [1, 3, 5, 7];
    cluster.fail(1, Point::Push, &[Fault::Hang; 10]);
    let mut writer = writer(&shuffle);
    for partition in silent {
        writer.push(PartitionId(partition), partition.to_string()).await.unwrap();
    }
    let begin = Instant::now();
    writer.finish().await.unwrap();
    let took = begin.elapsed();
    assert!(took >= push_max && took < 4 * push_max, "{took:?} with a timeout of {push_max:?}");
    assert_eq!(cluster.asked(1, Point::Push), 1, "one frame was lost on the silent worker");
    shuffle.commit().await.unwrap();
    for partition in silent {
        assert_eq!(read(&shuffle, partition).await.unwrap(), [partition.to_string()]);
    }
}

#[tokio::test]
async fn what_has_waited_for_a_silent_worker_goes_where_the_partition_goes_now() {
    let cluster = Scripted::start(2).await;
    let push_max = Duration::from_millis(500);
    for (merge_len, batches) in [(0, 4), (40, 8)] {
        let options = Options { push_max, window: 1, merge_len, ..cluster.options() };
        let shuffle = shuffle(options, 4).await;
        cluster.fail(1, Point::Push, &[Fault::Hang; 10]);
        let asked = cluster.asked(1, Point::Push);
        let mut writer = writer(&shuffle);
        for number in 0..batches {
            writer.push(PartitionId(1 + number % 2 * 2), number.to_string()).await.unwrap();
        }
        let begin = Instant::now();
        writer.finish().await.unwrap();
        let took = begin.elapsed();
        assert!(took >= push_max && took < 2 * push_max, "{took:?} with a timeout of {push_max:?}");
        assert_eq!(cluster.asked(1, Point::Push) - asked, 1, "one frame was lost on the silent worker");
        cluster.clear_faults();
    }
}

#[tokio::test]
async fn a_primary_has_time_to_say_that_its_replica_is_silent() {
    for (replicate, expected) in [(false, 800), (true, 400)] {
        let cluster = Scripted::start(2).await;
        let push_max = Duration::from_millis(800);
        let _shuffle = shuffle(Options { replicate, push_max, ..cluster.options() }, 2).await;
        assert_eq!(cluster.push_timeouts(), [expected; 2]);
    }
}

#[tokio::test]
async fn the_only_worker_is_asked_again_when_it_has_failed() {
    let cluster = Scripted::start(1).await;
    let shuffle = shuffle(Options { merge_len: 0, ..cluster.options() }, 1).await;
    let reserving = Point::Message(MessageType::RESERVE_SLOTS);
    cluster.fail(0, Point::Push, &[Fault::Close]);
    cluster.fail(0, reserving, &[Fault::Close, Fault::Fail]);
    write_one(&shuffle).await;
    assert_eq!((cluster.faults_left(), cluster.asked(0, reserving)), (0, 4));
    assert_eq!(read(&shuffle, 0).await.unwrap(), ["one"]);
}

#[tokio::test]
async fn a_silent_copy_costs_one_reader_its_time_and_not_all() {
    let cluster = Scripted::start(2).await;
    let request_max = Duration::from_millis(300);
    let options = Options { replicate: true, merge_len: 0, request_max, ..cluster.options() };
    let shuffle = shuffle(options, 1).await;
    write_one(&shuffle).await;
    let opening = Point::Message(MessageType::OPEN_STREAM);
    cluster.fail(0, opening, &[Fault::Hang; 5]);
    for _ in 0..3 {
        assert_eq!(read(&shuffle, 0).await.unwrap(), ["one"]);
    }
    assert_eq!((cluster.asked(0, opening), cluster.asked(1, opening)), (1, 3));
    // The other one fails: the first is asked again, and answers again.
    cluster.clear_faults();
    cluster.fail(1, opening, &[Fault::Fail]);
    assert_eq!(read(&shuffle, 0).await.unwrap(), ["one"]);
    assert_eq!((cluster.asked(0, opening), cluster.asked(1, opening)), (2, 4));
}

#[tokio::test]
async fn a_cancelled_push_takes_nothing_with_it() {
    let cluster = Scripted::start(1).await;
    let shuffle = shuffle(Options { window: 1, merge_len: 50, ..cluster.options() }, 2).await;
    let mut writer = writer(&shuffle);
    cluster.fail(0, Point::Push, &[Fault::Hang]);
    let long = |number: usize| format!("{number} is long enough to be pushed on its own, whatever is there");
    // As many as a writer may have begun.
    for number in 0..4 {
        writer.push(PartitionId(0), long(number)).await.unwrap();
    }
    writer.push(PartitionId(1), &b"gathered"[..]).await.unwrap();
    cancel(writer.push(PartitionId(0), long(4))).await;
    cancel(writer.push(PartitionId(1), "cancelled, and with it what was gathered")).await;
    cluster.release();
    writer.push(PartitionId(1), &b"last"[..]).await.unwrap();
    assert_eq!(cluster.faults_left(), 0);
    writer.finish().await.unwrap();
    shuffle.commit().await.unwrap();
    assert_eq!(read(&shuffle, 0).await.unwrap(), (0..4).map(long).collect::<Vec<_>>());
    assert_eq!(read(&shuffle, 1).await.unwrap(), ["gathered", "last"]);
}

#[tokio::test]
async fn a_cancelled_read_goes_on_where_it_was() {
    let cluster = Scripted::start(1).await;
    let options = Options { merge_len: 0, chunks_ahead: 0, ..cluster.options() };
    let shuffle = shuffle(options, 1).await;
    let mut writer = writer(&shuffle);
    for number in 0..4 {
        writer.push(PartitionId(0), number.to_string()).await.unwrap();
    }
    writer.finish().await.unwrap();
    shuffle.commit().await.unwrap();
    let opening = Point::Message(MessageType::OPEN_STREAM);
    cluster.fail(0, opening, &[Fault::Hang]);
    cluster.fail(0, Point::Chunk, &[Fault::Hang]);
    let mut reader = shuffle.reader(PartitionId(0), ..).unwrap();
    // The first is cancelled in the opening, the second in the first chunk.
    cancel(reader.next()).await;
    assert_eq!(cluster.asked(0, Point::Chunk), 0);
    cancel(reader.next()).await;
    assert_eq!((cluster.faults_left(), cluster.asked(0, Point::Chunk)), (0, 1));
    cluster.release();
    let mut count = 0;
    while let Some(batch) = reader.next().await.unwrap() {
        count += 1;
        assert_eq!(batch.payload.len(), 1);
        if count == 2 {
            cluster.fail(0, Point::Chunk, &[Fault::Hang]);
            cancel(reader.next()).await;
            cluster.release();
        }
    }
    assert_eq!(count, 4);
}

#[tokio::test]
async fn a_reader_that_is_cancelled_while_it_waits_goes_on_waiting() {
    let cluster = Scripted::start(1).await;
    let retry_wait = Duration::from_secs(1);
    let shuffle = shuffle(Options { merge_len: 0, retry_wait, ..cluster.options() }, 1).await;
    write_one(&shuffle).await;
    let open = Point::Message(MessageType::OPEN_STREAM);
    cluster.fail(0, open, &[Fault::Close]);
    let mut reader = shuffle.reader(PartitionId(0), ..).unwrap();
    let begin = Instant::now();
    for _ in 0..4 {
        cancel(reader.next()).await;
    }
    assert_eq!(
        (cluster.faults_left(), cluster.asked(0, open)),
        (0, 1),
        "it is not tried again before its time"
    );
    reader.next().await.unwrap().expect("there is one");
    assert!(begin.elapsed() >= retry_wait);
    assert_eq!(cluster.asked(0, open), 2);
}

#[tokio::test]
async fn a_reader_that_has_failed_does_not_end_as_if_all_were_read() {
    let cluster = Scripted::start(1).await;
    let shuffle = shuffle(Options { merge_len: 0, ..cluster.options() }, 1).await;
    write_one(&shuffle).await;
    cluster.fail(0, Point::Message(MessageType::OPEN_STREAM), &[Fault::Fail]);
    let mut reader = shuffle.reader(PartitionId(0), ..).unwrap();
    for _ in 0..3 {
        let error = reader.next().await.expect_err("the only copy cannot be read");
        assert_eq!(error.kind(), Kind::DataLoss, "{error}");
        assert!(error.to_string().contains("told to"), "{error}");
    }
}

async fn write_one(shuffle: &Shuffle) {
    let mut writer = writer(shuffle);
    writer.push(PartitionId(0), &b"one"[..]).await.unwrap();
    writer.finish().await.unwrap();
    shuffle.commit().await.unwrap();
}

#[tokio::test]
async fn a_connection_that_ends_is_made_again_before_data_is_called_lost() {
    for replicate in [false, true] {
        let cluster = Scripted::start(2).await;
        let shuffle = shuffle(Options { replicate, merge_len: 0, ..cluster.options() }, 1).await;
        let commit = Point::Message(MessageType::COMMIT_FILES);
        cluster.fail(0, commit, &[Fault::Close; 2]);
        cluster.fail(1, commit, &[Fault::Close; 2]);
        write_one(&shuffle).await;
        assert_eq!(cluster.asked(0, commit), 3);
        let opening = Point::Message(MessageType::OPEN_STREAM);
        for (point, fault) in
            [(opening, Fault::Close), (Point::Chunk, Fault::Close), (Point::Chunk, Fault::Fail)]
        {
            for server in 0..if replicate { 2 } else { 1 } {
                cluster.fail(server, point, &[fault; 3]);
            }
            assert_eq!(read(&shuffle, 0).await.unwrap(), ["one"]);
        }
        assert_eq!(cluster.faults_left(), if replicate { 0 } else { 2 }, "each fault was one");
    }
}

#[tokio::test]
async fn a_worker_that_is_not_reached_is_unavailable_and_one_that_refuses_has_lost() {
    let cluster = Scripted::start(1).await;
    let shuffle = shuffle(Options { merge_len: 0, ..cluster.options() }, 1).await;
    let commit = Point::Message(MessageType::COMMIT_FILES);
    cluster.fail(0, commit, &[Fault::Close; 4]);
    let mut writer = writer(&shuffle);
    writer.push(PartitionId(0), &b"one"[..]).await.unwrap();
    writer.finish().await.unwrap();
    let error = shuffle.commit().await.expect_err("no answer");
    assert_eq!((error.kind(), cluster.asked(0, commit)), (Kind::Unavailable, 4), "{error}");
    cluster.fail(0, commit, &[Fault::Fail]);
    let error = shuffle.commit().await.expect_err("refused");
    assert_eq!((error.kind(), cluster.asked(0, commit)), (Kind::DataLoss, 5), "{error}");
    shuffle.commit().await.unwrap();
    let opening = Point::Message(MessageType::OPEN_STREAM);
    cluster.fail(0, opening, &[Fault::Close; 4]);
    let error = read(&shuffle, 0).await.expect_err("no answer");
    assert_eq!((error.kind(), cluster.asked(0, opening)), (Kind::Unavailable, 4), "{error}");
    cluster.fail(0, opening, &[Fault::Fail]);
    let error = read(&shuffle, 0).await.expect_err("refused");
    assert_eq!((error.kind(), cluster.asked(0, opening)), (Kind::DataLoss, 5), "{error}");
    assert_eq!(read(&shuffle, 0).await.unwrap(), ["one"]);
}

#[tokio::test]
async fn what_is_lost_is_not_hidden_by_what_is_not_reached() {
    let cluster = Scripted::start(2).await;
    let shuffle = shuffle(Options { merge_len: 0, ..cluster.options() }, 2).await;
    let mut writer = writer(&shuffle);
    for partition in 0..2 {
        writer.push(PartitionId(partition), &b"one"[..]).await.unwrap();
    }
    writer.finish().await.unwrap();
    let commit = Point::Message(MessageType::COMMIT_FILES);
    cluster.fail(0, commit, &[Fault::Close; 4]);
    cluster.fail(1, commit, &[Fault::Fail]);
    let error = shuffle.commit().await.expect_err("one is lost");
    assert_eq!((error.kind(), cluster.asked(0, commit)), (Kind::DataLoss, 1), "{error}");
    assert!(error.to_string().contains("1-0"), "{error}");
}

#[tokio::test]
async fn a_copy_that_is_not_needed_is_not_waited_for() {
    let cluster = Scripted::start(2).await;
    let options = Options { replicate: true, merge_len: 0, retry_wait: NEVER, ..cluster.options() };
    let shuffle = shuffle(options, 1).await;
    cluster.fail(1, Point::Message(MessageType::COMMIT_FILES), &[Fault::Close]);
    write_one(&shuffle).await;
    assert_eq!(cluster.faults_left(), 0);
}

#[tokio::test]
async fn what_a_worker_that_leaves_has_committed_is_not_asked_for_again() {
    let cluster = Scripted::start(2).await;
    let (heartbeat, request_max) = (Duration::from_millis(5), Duration::from_secs(1));
    let options = Options { heartbeat, request_max, merge_len: 0, ..cluster.options() };
    let application = Application::start(options).await.unwrap();
    // Server 1 has partition 1, and the empty partition 3.
    let shuffle = application.register(ShuffleId(0), 2, 4).await.unwrap();
    for (map, text) in [(0, "before"), (1, "after")] {
        let mut writer = shuffle.writer(MapId(map), AttemptId(0));
        writer.push(PartitionId(map), text).await.unwrap();
        writer.push(PartitionId(1), text).await.unwrap();
        writer.finish().await.unwrap();
        if map == 0 {
            cluster.fail(1, Point::Message(MessageType::COMMIT_FILES), &[Fault::Hang]);
            cluster.leave(1);
            until(|| cluster.commits(1).len() == 2).await;
        }
    }
    shuffle.commit().await.unwrap();
    assert_eq!((cluster.faults_left(), cluster.commits(0).len()), (0, 1));
    let asked = cluster.commits(1);
    assert_eq!((asked.len(), asked[0]), (2, asked[1]), "once, and again for the answer that was lost");
    for (partition, texts) in [(0, &["before"][..]), (1, &["after", "after", "before"]), (3, &[])] {
        assert_eq!(read(&shuffle, partition).await.unwrap(), texts);
    }
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
    let (mut late, idle) = (writer(&before), writer(&before));
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

    // It has nothing more to commit early, and whoever gives it up once more does not end the next one.
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
async fn a_map_that_ends_behind_the_commit_is_told_that_nobody_reads_it() {
    let cluster = Scripted::start(1).await;
    let options = Options { merge_len: 0, heartbeat: NEVER, ..cluster.options() };
    let application = Application::start(options).await.unwrap();
    let shuffle = application.register(ShuffleId(0), 3, 1).await.unwrap();
    let mut late = shuffle.writer(MapId(1), AttemptId(0));
    late.push(PartitionId(0), &b"late"[..]).await.unwrap();
    let mut writer = writer(&shuffle);
    writer.push(PartitionId(0), &b"one"[..]).await.unwrap();
    writer.finish().await.unwrap();
    until(|| late.is_idle()).await;
    let conflict = |error: crate::Error| {
        assert_eq!(error.kind(), Kind::Conflict, "{error}");
        assert!(error.to_string().contains("commit"), "{error}");
    };

    cluster.fail(0, Point::Message(MessageType::COMMIT_FILES), &[Fault::Hang]);
    let committing = shuffle.clone();
    let commit = tokio::spawn(async move { committing.commit().await });
    until(|| cluster.faults_left() == 0).await;
    conflict(late.finish().await.expect_err("the commit has gone out without it"));
    cluster.release();
    commit.await.unwrap().unwrap();
    conflict(shuffle.writer(MapId(2), AttemptId(0)).finish().await.expect_err("it is not read"));
    shuffle.writer(MapId(0), AttemptId(1)).finish().await.expect("another attempt of its map is read");
    assert_eq!(read(&shuffle, 0).await.unwrap(), ["one"]);
}

#[tokio::test]
async fn no_location_is_made_that_the_commit_does_not_know() {
    let reserve = Point::Message(MessageType::RESERVE_SLOTS);
    // Sealed: the worker wants them elsewhere, one by one and together.
    for merge_len in [0, 40] {
        let cluster = Scripted::start(1).await;
        let shuffle = shuffle(Options { merge_len, ..cluster.options() }, 1).await;
        write_one(&shuffle).await;
        let reserved = cluster.asked(0, reserve);
        let mut late = writer(&shuffle);
        for _ in 0..2 {
            late.push(PartitionId(0), &b"late"[..]).await.unwrap();
        }
        assert_eq!(late.finish().await.expect_err("it is not read").kind(), Kind::Conflict);
        assert_eq!((cluster.asked(0, reserve), shuffle.locations(PartitionId(0))), (reserved, 1));
    }

    // The commit comes while a location is being made.
    let cluster = Scripted::start(1).await;
    let shuffle = shuffle(Options { merge_len: 0, ..cluster.options() }, 2).await;
    let mut late = writer(&shuffle);
    cluster.fail(0, Point::Push, &[Fault::Fail]);
    cluster.fail(0, reserve, &[Fault::Hang]);
    late.push(PartitionId(1), &b"late"[..]).await.unwrap();
    until(|| cluster.faults_left() == 0).await;
    shuffle.commit().await.unwrap();
    cluster.release();
    assert_eq!(late.finish().await.expect_err("it is not read").kind(), Kind::Conflict);
    assert_eq!(shuffle.locations(PartitionId(1)), 1);
    let unused = (0, "1-1-0".parse().unwrap());
    until(|| cluster.destroyed().contains(&unused)).await;
}

#[tokio::test]
async fn a_map_or_an_attempt_that_does_not_exist_writes_nothing() {
    let cluster = Scripted::start(1).await;
    let shuffle = shuffle(Options { merge_len: 0, ..cluster.options() }, 1).await;
    for (map, attempt) in [(1, AttemptId(0)), (-1, AttemptId(0)), (0, AttemptId::NONE)] {
        let mut writer = shuffle.writer(MapId(map), attempt);
        let error = writer.push(PartitionId(0), &b"nobody's"[..]).await.expect_err("no such task");
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
        let error = writer.finish().await.expect_err("no such task");
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
    }
    assert_eq!(cluster.asked(0, Point::Push), 0);
}

#[tokio::test]
async fn a_worker_that_commits_nothing_does_not_say_that_its_copies_are_empty() {
    let asked_again = [
        (Status::CommitFileException, true),
        (Status::RequestFailed, true),
        (Status::ShuffleNotRegistered, false),
    ];
    for (status, is_asked_again) in asked_again {
        let cluster = Scripted::start(1).await;
        let shuffle = shuffle(Options { merge_len: 0, ..cluster.options() }, 1).await;
        let mut writer = writer(&shuffle);
        writer.push(PartitionId(0), &b"one"[..]).await.unwrap();
        writer.finish().await.unwrap();
        cluster.fail(0, Point::Message(MessageType::COMMIT_FILES), &[Fault::Say(status)]);
        let error = shuffle.commit().await.expect_err("the worker committed nothing");
        assert_eq!((error.kind(), cluster.faults_left()), (Kind::DataLoss, 0), "{status:?}: {error}");
        let again = shuffle.commit().await;
        assert_eq!(again.is_ok(), is_asked_again, "{status:?}: {again:?}");
        if is_asked_again {
            assert_eq!(read(&shuffle, 0).await.unwrap(), ["one"]);
        }
    }
}

#[tokio::test]
async fn no_frame_is_larger_than_a_worker_takes() {
    let cluster = Scripted::start(1).await;
    let shuffle = shuffle(Options { merge_len: MERGE_LEN_MAX, ..cluster.options() }, 2).await;
    let mut writer = writer(&shuffle);
    let error = writer.push(PartitionId(0), vec![0; PAYLOAD_LEN_MAX + 1]).await.expect_err("with its header");
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    // Far fewer bytes than are merged; their list alone would be longer than a header.
    let count = 50_000;
    for number in 0..count {
        writer.push(PartitionId(number % 2), Vec::new()).await.unwrap();
    }
    writer.finish().await.unwrap();
    assert_eq!(cluster.asked(0, Point::Push), (count as usize).div_ceil(MERGED_MAX));
    assert_eq!(shuffle.locations(PartitionId(0)), 1, "the worker took them at once");

    let longest = Header::PushMergedData {
        request_id: i64::MAX,
        mode: Mode::Primary,
        shuffle: ShuffleKey::new("a".repeat(200), i32::MAX),
        locations: vec![LocationId::new(i32::MAX, i32::MAX); MERGED_MAX],
        offsets: vec![i32::MAX as u32; MERGED_MAX],
    };
    let mut head = bytes::BytesMut::new();
    longest.encode(0, &mut head);
    assert!(head.len() < Limits::PUSH.head_len_max / 2, "{} bytes", head.len());
}

#[tokio::test]
async fn a_worker_may_forget_a_stream_that_is_not_read_to_its_end() {
    let cluster = Scripted::start(1).await;
    let shuffle = shuffle(Options { merge_len: 0, chunks_ahead: 1, ..cluster.options() }, 1).await;
    let mut writer = writer(&shuffle);
    for number in 0..4 {
        writer.push(PartitionId(0), number.to_string()).await.unwrap();
    }
    writer.finish().await.unwrap();
    shuffle.commit().await.unwrap();
    let (opening, end) =
        (Point::Message(MessageType::OPEN_STREAM), Point::Message(MessageType::BUFFER_STREAM_END));

    let mut reader = shuffle.reader(PartitionId(0), ..).unwrap();
    reader.next().await.unwrap().unwrap();
    assert_eq!(cluster.asked(0, end), 0);
    // Wherever the reader is dropped.
    std::thread::spawn(move || drop(reader)).join().unwrap();
    until(|| cluster.asked(0, end) == 1).await;

    let mut reader = shuffle.reader(PartitionId(0), ..).unwrap();
    cluster.fail(0, opening, &[Fault::Hang]);
    cancel(reader.next()).await;
    drop(reader);
    cluster.release();
    until(|| cluster.asked(0, end) == 2).await;

    read(&shuffle, 0).await.unwrap();
    until(|| cluster.asked(0, end) == 3).await;
    assert_eq!(cluster.asked(0, opening), 3);
}

#[tokio::test]
async fn a_writer_that_has_failed_waits_for_nothing_more() {
    let cluster = Scripted::start(2).await;
    let options = Options { merge_len: 0, revives_max: 0, push_max: NEVER, ..cluster.options() };
    let shuffle = shuffle(options, 2).await;
    let reserve = Point::Message(MessageType::RESERVE_SLOTS);
    let reserved = cluster.asked(0, reserve) + cluster.asked(1, reserve);
    cluster.fail(0, Point::Push, &[Fault::Fail]);
    cluster.fail(1, Point::Push, &[Fault::Hang]);
    let mut writer = writer(&shuffle);
    writer.push(PartitionId(1), &b"held up"[..]).await.unwrap();
    writer.push(PartitionId(0), &b"lost"[..]).await.unwrap();
    until(|| cluster.faults_left() == 0).await;
    let finished = tokio::time::timeout(Duration::from_secs(20), writer.finish()).await;
    let error = finished.expect("one push has failed").expect_err("one push has failed");
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    let now = cluster.asked(0, reserve) + cluster.asked(1, reserve);
    assert_eq!(now, reserved, "nothing would have been pushed to another location");
}

#[tokio::test]
async fn a_push_that_fails_says_why_it_went_elsewhere() {
    let cluster = Scripted::start(1).await;
    let options = Options { merge_len: 0, revives_max: 1, ..cluster.options() };
    let shuffle = shuffle(options, 1).await;
    cluster.fail(0, Point::Push, &[Fault::Fail]);
    cluster.fail(0, Point::Message(MessageType::RESERVE_SLOTS), &[Fault::Fail; 3]);
    let mut writer = writer(&shuffle);
    writer.push(PartitionId(0), &b"lost"[..]).await.unwrap();
    let error = writer.finish().await.expect_err("there is no other location");
    assert_eq!((error.kind(), cluster.faults_left()), (Kind::Unavailable, 0), "{error}");
    for reason in ["told to", "no worker is left"] {
        assert!(error.to_string().contains(reason), "{error}");
    }
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
    super::shuffle::use_one_address(&mut candidates, &mut primaries);
    assert_eq!(candidates, [worker("a", 20), worker("b", 20)]);
    assert_eq!(
        primaries.map(|location| location.worker),
        [worker("a", 20), worker("b", 20), worker("b", 20)]
    );
}
