//! Commits and reads.

use std::time::{Duration, Instant};

use super::*;
use crate::wire::Status;

#[tokio::test]
async fn a_silent_copy_costs_one_reader_its_time_and_not_all() {
    let cluster = Scripted::start(2).await;
    let request_max = Duration::from_secs(2);
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
    cancel_when(reader.next(), || cluster.faults_left() == 1).await;
    assert_eq!(cluster.asked(0, Point::Chunk), 0);
    cancel_when(reader.next(), || cluster.faults_left() == 0).await;
    assert_eq!(cluster.asked(0, Point::Chunk), 1);
    cluster.release();
    let mut count = 0;
    while let Some(batch) = reader.next().await.unwrap() {
        count += 1;
        assert_eq!(batch.payload.len(), 1);
        if count == 2 {
            cluster.fail(0, Point::Chunk, &[Fault::Hang]);
            cancel_when(reader.next(), || cluster.faults_left() == 0).await;
            cluster.release();
        }
    }
    assert_eq!(count, 4);
}

#[tokio::test]
async fn a_reader_that_is_cancelled_while_it_waits_goes_on_waiting() {
    let cluster = Scripted::start(1).await;
    let retry_wait = Duration::from_secs(5);
    let shuffle = shuffle(Options { merge_len: 0, retry_wait, ..cluster.options() }, 1).await;
    write_one(&shuffle).await;
    let open = Point::Message(MessageType::OPEN_STREAM);
    cluster.fail(0, open, &[Fault::Close]);
    let mut reader = shuffle.reader(PartitionId(0), ..).unwrap();
    let begin = Instant::now();
    // Long enough for the failure to come back.
    let waited = tokio::time::timeout(retry_wait / 5, reader.next()).await;
    assert!(waited.is_err(), "it waits before it tries again");
    for _ in 0..3 {
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
    cluster.fail(0, Point::Message(MessageType::OPEN_STREAM), &[Fault::Lose]);
    let mut reader = shuffle.reader(PartitionId(0), ..).unwrap();
    for _ in 0..3 {
        let error = reader.next().await.expect_err("the only copy cannot be read");
        assert_eq!(error.kind(), Kind::DataLoss, "{error}");
        assert!(error.to_string().contains("is not here"), "{error}");
    }
}

#[tokio::test]
async fn what_is_behind_a_batch_that_is_broken_is_not_read_as_if_it_were_all() {
    let cluster = Scripted::start(1).await;
    let shuffle = shuffle(Options { merge_len: 0, ..cluster.options() }, 1).await;
    let mut writer = writer(&shuffle);
    for text in ["broken on its way", "whole"] {
        writer.push(PartitionId(0), text).await.unwrap();
    }
    writer.finish().await.unwrap();
    shuffle.commit().await.unwrap();
    cluster.fail(0, Point::Chunk, &[Fault::Cut]);
    let mut reader = shuffle.reader(PartitionId(0), ..).unwrap();
    for _ in 0..3 {
        let error = reader.next().await.expect_err("one of two batches is missing");
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    }
    assert_eq!(read(&shuffle, 0).await.unwrap(), ["broken on its way", "whole"]);
}

#[tokio::test]
async fn a_file_that_is_opened_while_the_number_is_given_back_is_nobodys() {
    let cluster = Scripted::start(1).await;
    let shuffle = shuffle(Options { merge_len: 0, ..cluster.options() }, 1).await;
    write_one(&shuffle).await;
    cluster.fail(0, Point::Message(MessageType::OPEN_STREAM), &[Fault::Hang]);
    let mut reader = shuffle.reader(PartitionId(0), ..).unwrap();
    let reading = tokio::spawn(async move { reader.next().await });
    until(|| cluster.faults_left() == 0).await;
    shuffle.unregister().await.unwrap();
    cluster.release();
    let error = reading.await.unwrap().expect_err("it may be the next one's that has the number");
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
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
async fn a_worker_that_is_not_reached_is_unavailable_and_one_that_says_so_has_lost() {
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
    cluster.fail(0, opening, &[Fault::Lose]);
    let error = read(&shuffle, 0).await.expect_err("lost");
    assert_eq!((error.kind(), cluster.asked(0, opening)), (Kind::DataLoss, 5), "{error}");
    // Whatever else it says may pass.
    cluster.fail(0, opening, &[Fault::Fail; 4]);
    let error = read(&shuffle, 0).await.expect_err("refused");
    assert_eq!((error.kind(), cluster.asked(0, opening)), (Kind::Unavailable, 9), "{error}");
    assert!(error.to_string().contains("told to"), "{error}");
    cluster.fail(0, opening, &[Fault::Fail]);
    assert_eq!(read(&shuffle, 0).await.unwrap(), ["one"]);
    assert_eq!(cluster.asked(0, opening), 11);
}

#[tokio::test]
async fn data_is_lost_when_the_last_copy_is_and_not_before() {
    let cluster = Scripted::start(2).await;
    let shuffle = shuffle(Options { replicate: true, merge_len: 0, ..cluster.options() }, 1).await;
    write_one(&shuffle).await;
    let opening = Point::Message(MessageType::OPEN_STREAM);
    for (fault, kind) in [(Fault::Fail, Kind::Unavailable), (Fault::Lose, Kind::DataLoss)] {
        cluster.fail(0, opening, &[Fault::Lose]);
        cluster.fail(1, opening, &[fault; 4]);
        let error = read(&shuffle, 0).await.expect_err("no copy can be opened");
        assert_eq!(error.kind(), kind, "{error}");
        cluster.clear_faults();
    }
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
    cancel_when(reader.next(), || cluster.faults_left() == 0).await;
    drop(reader);
    cluster.release();
    until(|| cluster.asked(0, end) == 2).await;

    read(&shuffle, 0).await.unwrap();
    until(|| cluster.asked(0, end) == 3).await;
    assert_eq!(cluster.asked(0, opening), 3);
}
