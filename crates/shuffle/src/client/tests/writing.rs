//! Pushes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::tasks::MERGE_LEN_MAX;
use super::super::tasks::writer::{MERGED_MAX, PAYLOAD_LEN_MAX};
use super::*;
use crate::ids::{LocationId, Mode, ShuffleKey};
use crate::wire::{Header, Limits, Status};

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
    let push_max = Duration::from_secs(2);
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
    let push_max = Duration::from_secs(2);
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
        let mut late = shuffle.writer(MapId(0), AttemptId(1));
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
async fn an_attempt_has_one_writer() {
    let cluster = Scripted::start(1).await;
    let shuffle = shuffle(Options { merge_len: 0, ..cluster.options() }, 1).await;
    let mut given_up = writer(&shuffle);
    given_up.push(PartitionId(0), &b"given up"[..]).await.unwrap();
    until(|| given_up.is_idle()).await;
    drop(given_up);
    let mut again = writer(&shuffle);
    let error = again.push(PartitionId(0), &b"under the same number"[..]).await.expect_err("it is there");
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    again.finish().await.expect_err("one of two batches would be read");
    let mut next = shuffle.writer(MapId(0), AttemptId(1));
    next.push(PartitionId(0), &b"again"[..]).await.unwrap();
    next.finish().await.unwrap();
    shuffle.commit().await.unwrap();
    assert_eq!(read(&shuffle, 0).await.unwrap(), ["again"]);
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
async fn a_location_that_is_made_for_a_push_that_is_given_up_is_not_left_behind() {
    let cluster = Scripted::start(2).await;
    let shuffle = shuffle(Options { merge_len: 0, ..cluster.options() }, 1).await;
    let reserve = Point::Message(MessageType::RESERVE_SLOTS);
    cluster.fail(0, Point::Push, &[Fault::Fail]);
    // Whichever worker is asked.
    cluster.fail(0, reserve, &[Fault::Hang]);
    cluster.fail(1, reserve, &[Fault::Hang]);
    let mut writer = writer(&shuffle);
    writer.push(PartitionId(0), &b"given up"[..]).await.unwrap();
    until(|| cluster.faults_left() == 1).await;
    drop(writer);
    cluster.clear_faults();
    // The push has ended before the worker answers.
    tokio::time::sleep(Duration::from_millis(20)).await;
    cluster.release();
    let unused = "0-1-0".parse().unwrap();
    let is_destroyed = || cluster.destroyed().iter().any(|(_, file)| *file == unused);
    until(|| shuffle.locations(PartitionId(0)) == 2 || is_destroyed()).await;
    until(|| !shuffle.registered.is_reviving(PartitionId(0))).await;
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
async fn batches_that_failed_together_have_turned_once() {
    for revives_max in 0..3 {
        let cluster = Scripted::start(3).await;
        let shuffle = shuffle(Options { revives_max, ..cluster.options() }, 6).await;
        let servers = [0, 1, 2];
        servers.iter().for_each(|server| cluster.fail(*server, Point::Push, &[Fault::Close; 100]));
        let mut writer = writer(&shuffle);
        for partition in [1, 4] {
            writer.push(PartitionId(partition), &b"lost"[..]).await.unwrap();
        }
        let error = writer.finish().await.expect_err("no push is taken").to_string();
        let pushed: usize = servers.iter().map(|server| cluster.asked(*server, Point::Push)).sum();
        assert_eq!(
            (pushed, error.matches("the connection to").count()),
            (1 + revives_max, 1 + revives_max),
            "{error}"
        );
        assert!(error.contains(&shuffle.registered.key.to_string()), "{error}");
    }
}

#[tokio::test]
async fn a_push_that_finds_all_workers_leaving_says_so() {
    let cluster = Scripted::start(1).await;
    let heartbeat = Duration::from_millis(5);
    let application =
        Application::start(Options { heartbeat, merge_len: 0, ..cluster.options() }).await.unwrap();
    let shuffle = application.register(ShuffleId(0), 1, 1).await.unwrap();
    cluster.leave(0);
    until(|| !cluster.commits(0).is_empty()).await;
    let mut writer = writer(&shuffle);
    writer.push(PartitionId(0), &b"refused"[..]).await.unwrap();
    let error = writer.finish().await.expect_err("the only worker leaves");
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    assert!(error.to_string().ends_with("no worker is left for a location: too few stay"), "{error}");
}

/// A shuffle of one partition, and writers with a push each on its way to its first location, which the worker refuses in
/// this way when it is released.
async fn refused_together(
    cluster: &Scripted,
    options: Options,
    writers: usize,
    refusal: &'static Fault,
) -> (Shuffle, Vec<Writer>) {
    let application =
        Application::start(Options { merge_len: 0, heartbeat: NEVER, ..options }).await.unwrap();
    let shuffle = application.register(ShuffleId(0), writers, 1).await.unwrap();
    cluster.fail(0, Point::Push, &vec![Fault::Late(refusal); writers]);
    let mut begun = Vec::new();
    for map in 0..writers {
        let mut writer = shuffle.writer(MapId(map as i32), AttemptId(0));
        writer.push(PartitionId(0), map.to_string()).await.unwrap();
        begun.push(writer);
    }
    until(|| cluster.asked(0, Point::Push) == writers).await;
    (shuffle, begun)
}

#[tokio::test]
async fn a_failure_counts_for_each_push_that_meets_it() {
    let cluster = Scripted::start(1).await;
    let options = Options { revives_max: 1, ..cluster.options() };
    let (shuffle, writers) = refused_together(&cluster, options, 8, &Fault::Fail).await;
    cluster.fail(0, Point::Push, &[Fault::Fail; 100]);
    cluster.release();
    for writer in writers {
        let error = writer.finish().await.expect_err("no push is taken");
        assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    }
    assert_eq!((cluster.asked(0, Point::Push), shuffle.locations(PartitionId(0))), (2 * 8, 2));
}

#[tokio::test]
async fn a_hard_split_counts_for_the_push_that_makes_the_new_location() {
    let cluster = Scripted::start(1).await;
    let options = Options { revives_max: 1, ..cluster.options() };
    let (shuffle, writers) = refused_together(&cluster, options, 8, &Fault::Say(Status::HardSplit)).await;
    // The push that has made the second location has no revive left, and does not make the third.
    cluster.fail(0, Point::Push, &[Fault::Late(&Fault::Say(Status::HardSplit)); 8]);
    cluster.release();
    until(|| cluster.asked(0, Point::Push) == 2 * 8).await;
    cluster.release();
    let mut failed = 0;
    for writer in writers {
        failed += usize::from(writer.finish().await.is_err());
    }
    assert!(failed <= 1, "{failed} have failed");
    assert_eq!(shuffle.locations(PartitionId(0)), 3);
}

#[tokio::test]
async fn a_hard_split_is_the_end_only_if_nobody_has_moved_on() {
    let reserve = Point::Message(MessageType::RESERVE_SLOTS);
    for is_made_before in [true, false] {
        let cluster = Scripted::start(1).await;
        let shuffle = shuffle(Options { merge_len: 0, revives_max: 0, ..cluster.options() }, 1).await;
        let split = Fault::Late(&Fault::Say(Status::HardSplit));
        cluster.fail(0, Point::Push, &[split, Fault::Say(Status::SoftSplit)]);
        if !is_made_before {
            cluster.fail(0, reserve, &[Fault::Hang]);
        }
        let mut writer = writer(&shuffle);
        for text in ["not taken", "taken, and makes a new location"] {
            writer.push(PartitionId(0), text).await.unwrap();
        }
        until(|| cluster.asked(0, reserve) == 2).await;
        if is_made_before {
            until(|| shuffle.locations(PartitionId(0)) == 2).await;
        }
        cluster.release();
        writer.finish().await.unwrap();
        assert_eq!((cluster.asked(0, Point::Push), cluster.faults_left()), (3, 0));
    }
}

#[tokio::test]
async fn a_location_that_one_of_two_workers_refuses_is_given_up_on_the_other() {
    let cluster = Scripted::start(2).await;
    let shuffle = shuffle(Options { replicate: true, merge_len: 0, ..cluster.options() }, 1).await;
    cluster.fail(0, Point::Push, &[Fault::Fail]);
    cluster.fail(1, Point::Message(MessageType::RESERVE_SLOTS), &[Fault::Fail]);
    write_one(&shuffle).await;
    assert_eq!((cluster.faults_left(), shuffle.locations(PartitionId(0))), (0, 2));
    until(|| !cluster.destroyed().is_empty()).await;
    let destroyed: Vec<_> =
        cluster.destroyed().into_iter().map(|(server, file)| (server, file.location)).collect();
    assert_eq!(destroyed, [(0, LocationId::new(0, 1))]);
}

#[tokio::test]
async fn pushes_that_wait_for_a_new_location_together_fail_together() {
    let cluster = Scripted::start(1).await;
    let reserve = Point::Message(MessageType::RESERVE_SLOTS);
    let (shuffle, writers) = refused_together(&cluster, cluster.options(), 8, &Fault::Fail).await;
    cluster.fail(0, reserve, &[Fault::Fail; 100]);
    let reserved = cluster.asked(0, reserve);
    cluster.release();
    for writer in writers {
        let error = writer.finish().await.expect_err("there is no other location");
        assert_eq!(error.kind(), Kind::Unavailable, "{error}");
        assert!(error.to_string().contains("no worker is left"), "{error}");
    }
    assert_eq!(cluster.asked(0, reserve) - reserved, 3, "the rounds of one attempt");

    // Later pushes try anew.
    cluster.clear_faults();
    cluster.fail(0, Point::Push, &[Fault::Fail]);
    let mut next = shuffle.writer(MapId(0), AttemptId(1));
    next.push(PartitionId(0), &b"next"[..]).await.unwrap();
    next.finish().await.unwrap();
    assert_eq!((cluster.faults_left(), shuffle.locations(PartitionId(0))), (0, 2));
}

#[tokio::test]
async fn a_soft_split_that_many_batches_report_is_acted_upon_once() {
    let cluster = Scripted::start(1).await;
    let reserve = Point::Message(MessageType::RESERVE_SLOTS);
    let shuffle = shuffle(Options { merge_len: 0, ..cluster.options() }, 1).await;
    cluster.fail(0, reserve, &[Fault::Hang]);
    cluster.fail(0, Point::Push, &[Fault::Say(Status::SoftSplit); 9]);
    let mut writer = writer(&shuffle);
    let mut held = Vec::new();
    for _ in 0..9 {
        writer.push(PartitionId(0), &b"taken"[..]).await.unwrap();
        until(|| writer.is_idle() && cluster.asked(0, reserve) == 2).await;
        held.push(Arc::strong_count(&shuffle.tasks));
    }
    assert_eq!(cluster.faults_left(), 0);
    assert_eq!(held, [held[0]; 9], "tasks that wait for their turn");
    cluster.release();
    writer.finish().await.unwrap();
    until(|| shuffle.locations(PartitionId(0)) == 2).await;
}
