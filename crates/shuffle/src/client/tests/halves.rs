//! An application and executors.

use std::sync::Arc;

use super::*;
use crate::net::Serving;
use crate::wire::Status;

async fn serve(shuffle: &Shuffle) -> Serving {
    shuffle.application().serve(ServerOptions::default()).await.unwrap()
}

async fn connect(serving: &Serving) -> TaskShuffle {
    let options = ExecutorOptions {
        retry_wait: Duration::from_millis(5),
        request_max: Duration::from_secs(5),
        connections: 1,
        ..ExecutorOptions::new(serving.address().to_string())
    };
    Executor::connect(options).await.unwrap().shuffle(ShuffleId(0)).await.unwrap()
}

async fn begin(shuffle: &TaskShuffle) -> Writer {
    match shuffle.begin(MapId(0)).await.unwrap() {
        Begun::Writer(writer) => *writer,
        Begun::Ended(ended) => panic!("the map has ended with {ended:?}"),
    }
}

#[tokio::test]
async fn readers_that_wait_for_a_commit_share_its_failure_and_the_next_one_tries_again() {
    let cluster = Scripted::start(1).await;
    let shuffle = shuffle(Options { merge_len: 0, ..cluster.options() }, 1).await;
    let serving = serve(&shuffle).await;
    let tasks = connect(&serving).await;
    let mut writer = begin(&tasks).await;
    writer.push(PartitionId(0), &b"one"[..]).await.unwrap();
    writer.finish().await.unwrap();
    let commit = Point::Message(MessageType::COMMIT_FILES);
    cluster.fail(0, commit, &[Fault::Late(&Fault::Fail)]);
    let before = Arc::strong_count(&shuffle.registered);
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let tasks = tasks.clone();
            tokio::spawn(async move { tasks.reader(PartitionId(0), ..).await.map(drop) })
        })
        .collect();
    // Each of them holds the shuffle while it waits, and so does the commit.
    until(|| Arc::strong_count(&shuffle.registered) >= before + 9 && cluster.faults_left() == 0).await;
    cluster.release();
    for reader in readers {
        let error = reader.await.unwrap().expect_err("the worker does not commit");
        assert_eq!(error.kind(), Kind::DataLoss, "{error}");
    }
    assert_eq!(cluster.asked(0, commit), 1);
    let mut reader = tasks.reader(PartitionId(0), ..).await.unwrap();
    assert_eq!(&reader.next().await.unwrap().unwrap().payload[..], b"one");
    tasks.reader(PartitionId(0), ..).await.unwrap();
    assert_eq!(cluster.asked(0, commit), 2);
}

#[tokio::test]
async fn executors_that_meet_one_split_get_one_new_location() {
    let cluster = Scripted::start(1).await;
    let shuffle = shuffle(Options { merge_len: 0, ..cluster.options() }, 1).await;
    let serving = serve(&shuffle).await;
    let executors = [connect(&serving).await, connect(&serving).await];
    let reserve = Point::Message(MessageType::RESERVE_SLOTS);
    cluster.fail(0, Point::Push, &[Fault::Say(Status::HardSplit); 2]);
    cluster.fail(0, reserve, &[Fault::Hang]);
    let before = Arc::strong_count(&shuffle.registered);
    let mut writers = Vec::new();
    for executor in &executors {
        let mut writer = begin(executor).await;
        writer.push(PartitionId(0), &b"moves on"[..]).await.unwrap();
        writers.push(writer);
    }
    // Both have asked the application, and it has asked the worker.
    until(|| Arc::strong_count(&shuffle.registered) >= before + 3 && cluster.faults_left() == 0).await;
    cluster.release();
    for writer in writers {
        writer.finish().await.unwrap();
    }
    assert_eq!((cluster.asked(0, reserve), shuffle.locations(PartitionId(0))), (2, 2));
    assert_eq!(cluster.asked(0, Point::Push), 4);
}

#[tokio::test]
async fn a_worker_that_one_batch_found_dead_is_left_by_all_of_the_executor() {
    let cluster = Scripted::start(2).await;
    let shuffle = shuffle(Options { merge_len: 0, window: 1, ..cluster.options() }, 4).await;
    let serving = serve(&shuffle).await;
    let tasks = connect(&serving).await;
    // Partitions 0 and 2 are on worker 0. One batch meets the fault, the other waits for its place in the window.
    cluster.fail(0, Point::Push, &[Fault::Late(&Fault::Close)]);
    let mut writer = begin(&tasks).await;
    for partition in [0, 2] {
        writer.push(PartitionId(partition), &b"moves away"[..]).await.unwrap();
    }
    writer.finish().await.unwrap();
    assert_eq!(cluster.faults_left(), 0);
    assert_eq!(cluster.asked(0, Point::Push), 1, "the second batch has not tried the worker that failed");
    assert_eq!([0, 2].map(|partition| shuffle.locations(PartitionId(partition))), [2, 2]);
}

#[tokio::test]
async fn tasks_of_an_executor_share_what_it_knows_of_a_shuffle() {
    let cluster = Scripted::start(1).await;
    let shuffle = shuffle(cluster.options(), 1).await;
    let serving = serve(&shuffle).await;
    let executor = Executor::connect(ExecutorOptions::new(serving.address().to_string())).await.unwrap();
    let (one, other) = tokio::join!(executor.shuffle(ShuffleId(0)), executor.shuffle(ShuffleId(0)));
    assert!(one.unwrap().is_same(&other.unwrap()), "else a worker's window would be twice as wide");
}
