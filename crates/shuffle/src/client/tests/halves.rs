//! An application and executors.

use std::io;
use std::sync::Arc;

use super::*;
use crate::net::{self, Body, Listener, Reply, Service, Serving};
use crate::wire::executor::{Answer, Description, Maps};
use crate::wire::message::Message;
use crate::wire::{Head, Limits, Status};

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

/// An executor of the application that may open all names.
async fn opening(application: &Application) -> (Serving, Executor) {
    let options = ServerOptions { opens: Some(Arc::new(|_| Ok(()))), ..ServerOptions::default() };
    let serving = application.serve(options).await.unwrap();
    let executor = Executor::connect(ExecutorOptions::new(serving.address().to_string())).await.unwrap();
    (serving, executor)
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

#[tokio::test]
async fn tasks_of_an_executor_share_what_has_the_name_now() {
    let cluster = Scripted::start(1).await;
    let shuffle = shuffle(cluster.options(), 1).await;
    let application = shuffle.application();
    let (_serving, executor) = opening(application).await;
    let (one, other) = tokio::join!(executor.open("a", 1), executor.open("a", 1));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert!(one.is_same(&other), "else a worker's window would be twice as wide");
    assert!(one.is_same(&executor.shuffle(one.key().shuffle).await.unwrap()), "it has a number as well");
    application.retain(|_| false).await;
    // The executor has not heard of it.
    let after = executor.open("a", 1).await.unwrap();
    assert!(!after.is_same(&one) && after.key() != one.key());
    assert!(after.is_same(&executor.open("a", 1).await.unwrap()));
    begin(&after).await;
}

/// Answers the first question as an application does, and every other one with one thing.
struct Liar(Answer);

impl Service for Liar {
    async fn call(&self, _: Head, body: &mut Body<'_>, reply: Reply) -> io::Result<()> {
        let message = Message::decode_bare(body.whole().await?).unwrap();
        let welcome = Answer::Welcome { application: "a".to_owned(), life: "b".to_owned() };
        let is_first = message.kind == MessageType::EXECUTOR_HELLO;
        reply.message(&if is_first { welcome } else { self.0.clone() }.to_message());
        Ok(())
    }
}

#[tokio::test]
async fn what_is_not_the_shuffle_that_was_to_be_opened_is_no_answer() {
    let worker: WorkerId = "h:1:2:3:4".parse().unwrap();
    let location = |partition| Location {
        id: LocationId::new(partition, 0),
        mode: Mode::Primary,
        worker: worker.clone(),
        peer: None,
    };
    let opened = |maps, partitions| Answer::Opened {
        shuffle: ShuffleId(1),
        description: Description {
            maps,
            locations: (0..partitions).map(location).collect(),
            shunned: Vec::new(),
            push_max_ms: 1,
            window: 1,
            merge_len: 1,
            revives_max: 1,
        },
    };
    let expected = [
        (opened(Maps::Open, 2), None),
        (opened(Maps::Open, 3), Some(Kind::Corrupt)),
        (opened(Maps::Fixed(0), 2), Some(Kind::Corrupt)),
        (Answer::Begun(AttemptId(0)), Some(Kind::Corrupt)),
    ];
    for (answer, kind) in expected {
        let listener = Listener::bind("127.0.0.1:0", net::Options::new(Limits::EXECUTORS)).await.unwrap();
        let serving = listener.serve(Arc::new(Liar(answer)));
        let executor = Executor::connect(ExecutorOptions::new(serving.address().to_string())).await.unwrap();
        let opened = executor.open("a", 2).await;
        assert_eq!(opened.err().map(|error| error.kind()), kind);
    }
}
