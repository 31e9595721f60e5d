//! Goal: tasks in executors write and read as those in the application do: each batch of a winning attempt once, while
//! locations split, attempts are tried twice or given up, workers die, and the application goes away. Method: a master and
//! workers in this process; executors that know nothing but the address of the application's server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::service::{Cluster, payload};
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use yeoul_shuffle::client::{
    Application, Begun, Ended, Executor, ExecutorOptions, Options, ServerOptions, Shuffle, TaskShuffle,
    Writer,
};
use yeoul_shuffle::ids::{AttemptId, MapId, PartitionId, ShuffleId, SplitMode};
use yeoul_shuffle::net::{Client, Serving};
use yeoul_shuffle::wire::executor::{
    Answer, NAME_LEN_MAX, OPEN_MAPS_MAX, OPEN_PARTITIONS_MAX, Request, SUMMARY_LEN_MAX, VERSION,
};
use yeoul_shuffle::wire::message::Message;
use yeoul_shuffle::wire::{Header, proto};
use yeoul_shuffle::{Error, Kind, Result};

const PARTITIONS: i32 = 4;
const BATCHES: i32 = 12;
const LEN: usize = 70_000;

/// As long as a test waits for what has to happen soon.
const SOON: Duration = Duration::from_secs(20);

async fn serve(application: &Application) -> Serving {
    application.serve(ServerOptions::default()).await.unwrap()
}

fn options(serving: &Serving) -> ExecutorOptions {
    ExecutorOptions {
        request_max: Duration::from_secs(5),
        retry_wait: Duration::from_millis(50),
        ..ExecutorOptions::new(serving.address().to_string())
    }
}

async fn connect(serving: &Serving) -> Executor {
    Executor::connect(options(serving)).await.unwrap()
}

fn writer(begun: Begun) -> Writer {
    match begun {
        Begun::Writer(writer) => *writer,
        Begun::Ended(ended) => panic!("the map has ended with {ended:?}"),
    }
}

async fn push_all(writer: &mut Writer, map: i32) -> Result<()> {
    for sequence in 0..BATCHES {
        for partition in 0..PARTITIONS {
            let bytes = payload(map, partition, sequence, LEN + sequence as usize);
            writer.push(PartitionId(partition), bytes).await?;
        }
    }
    Ok(())
}

/// Runs a map task, whose summary is `said`.
async fn run(shuffle: &TaskShuffle, map: i32, said: &str) -> Result<Ended> {
    let mut writer = match shuffle.begin(MapId(map)).await? {
        Begun::Writer(writer) => writer,
        Begun::Ended(ended) => return Ok(ended),
    };
    push_all(&mut writer, map).await?;
    writer.finish_with(said.to_owned()).await
}

/// Reads a partition and checks that it holds each batch of each of `maps` once, and nothing else.
async fn verify(shuffle: &TaskShuffle, partition: i32, maps: std::ops::Range<i32>) -> Result<()> {
    verify_maps(shuffle, partition, maps.clone(), maps).await
}

/// Reads a partition's batches of a range of maps, and checks that it holds each batch of each of `maps` once, and nothing
/// else.
async fn verify_maps(
    shuffle: &TaskShuffle,
    partition: i32,
    range: impl std::ops::RangeBounds<i32>,
    maps: impl IntoIterator<Item = i32>,
) -> Result<()> {
    let mut reader = shuffle.reader(PartitionId(partition), range).await?;
    let mut seen = BTreeMap::new();
    while let Some(batch) = reader.next().await? {
        let number = |at: usize| i32::from_be_bytes(batch.payload[at..at + 4].try_into().unwrap());
        let (map, sequence) = (number(0), number(8));
        assert_eq!(batch.payload, payload(map, partition, sequence, LEN + sequence as usize));
        *seen.entry((map, sequence)).or_insert(0) += 1;
    }
    let expected = maps.into_iter().flat_map(|map| (0..BATCHES).map(move |sequence| ((map, sequence), 1)));
    assert_eq!(seen, expected.collect());
    Ok(())
}

fn kind<T>(result: Result<T>) -> Kind {
    let error = result.err().expect("it is to fail");
    error.kind()
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.expect("it ends soon")
}

fn splits(shuffle: &Shuffle) -> usize {
    (0..PARTITIONS).map(|partition| shuffle.locations(PartitionId(partition)) - 1).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_executors_write_and_read_one_shuffle() {
    for split_mode in [SplitMode::Soft, SplitMode::Hard] {
        let mut cluster = Cluster::start(4).await;
        let options = Options { replicate: true, split_mode, split_threshold: 1 << 20, ..cluster.options() };
        let application = Application::start(options).await.unwrap();
        let shuffle = application.register(ShuffleId(3), 6, PARTITIONS as usize).await.unwrap();
        let serving = serve(&application).await;
        let executors = [connect(&serving).await, connect(&serving).await];
        assert_eq!(executors[0].application(), application.id());
        let [one, other] = [
            executors[0].shuffle(ShuffleId(3)).await.unwrap(),
            executors[1].shuffle(ShuffleId(3)).await.unwrap(),
        ];
        assert_eq!((one.maps(), one.partitions(), one.key()), (Some(6), PARTITIONS as usize, other.key()));

        // An attempt that is given up, and two of one map at once.
        let mut abandoned = writer(one.begin(MapId(4)).await.unwrap());
        push_all(&mut abandoned, 77).await.unwrap();
        drop(abandoned);
        let (first, second, also, alone) = tokio::join!(
            run(&one, 1, "of the one"),
            run(&other, 1, "of the other"),
            run(&one, 0, "zero"),
            run(&other, 2, "two"),
        );
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_eq!(first, second, "both hear the same");
        assert!(["of the one", "of the other"].map(Bytes::from).contains(&first.summary), "{first:?}");
        assert_eq!(also.unwrap().summary, "zero");
        assert_eq!(alone.unwrap().summary, "two");
        let split = splits(&shuffle);
        assert!(split > 0, "3.4 MB in each partition did not split at 1 MiB");
        assert_eq!(kind(one.reader(PartitionId(0), ..).await), Kind::Conflict, "maps 3 to 5 have not ended");

        // The worker has primaries of some locations and replicas of others.
        cluster.kill(&shuffle.primary(PartitionId(0))).await;
        let (three, four, five) =
            tokio::join!(run(&one, 3, "three"), run(&other, 4, "four"), run(&other, 5, ""));
        assert_eq!(three.unwrap().summary, "three");
        let four = four.unwrap();
        assert_ne!(four.attempt, AttemptId(0), "that number was the abandoned attempt's");
        assert_eq!(five.unwrap().summary, "");
        assert!(splits(&shuffle) > split, "no batch met the dead worker");

        // What has ended is looked up, wherever it was done.
        assert_eq!((shuffle.ended(MapId(1)), shuffle.ended(MapId(4))), (Some(first), Some(four.clone())));
        assert_eq!([-1, 6].map(|map| shuffle.ended(MapId(map))), [None, None]);
        for shuffle in [&one, &other] {
            for attempt in [None, Some(AttemptId(0)), Some(AttemptId(9))] {
                let begun = match attempt {
                    None => shuffle.begin(MapId(4)).await.unwrap(),
                    Some(attempt) => shuffle.begin_as(MapId(4), attempt).await.unwrap(),
                };
                assert!(matches!(begun, Begun::Ended(ended) if ended == four));
            }
        }

        let readers = (0..PARTITIONS).map(|partition| {
            let shuffle = if partition % 2 == 0 { one.clone() } else { other.clone() };
            tokio::spawn(async move { verify(&shuffle, partition, 0..6).await })
        });
        for reader in readers.collect::<Vec<_>>() {
            reader.await.unwrap().unwrap();
        }
        verify(&other, 0, 2..4).await.unwrap();
        // The same data, as the application's own tasks see it.
        verify(&shuffle.tasks(), 1, 0..6).await.unwrap();
        assert_eq!(kind(one.reader(PartitionId(PARTITIONS), ..).await), Kind::Invalid);
        assert_eq!(kind(one.begin(MapId(6)).await), Kind::Invalid);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_whose_application_is_gone_hears_so_in_time() {
    let cluster = Cluster::start(1).await;
    let application = Application::start(cluster.options()).await.unwrap();
    let shuffle = application.register(ShuffleId(0), 3, PARTITIONS as usize).await.unwrap();
    let serving = serve(&application).await;
    let executor = connect(&serving).await;
    let tasks = executor.shuffle(ShuffleId(0)).await.unwrap();
    run(&tasks, 0, "").await.unwrap();
    let mut half = writer(tasks.begin(MapId(1)).await.unwrap());
    push_all(&mut half, 1).await.unwrap();
    let options = options(&serving);
    serving.stop().await;

    let begin = Instant::now();
    let ended = half.finish_with("half").await;
    let waited = begin.elapsed();
    assert_eq!(kind(ended), Kind::Unavailable);
    assert!(waited >= Duration::from_millis(50 + 100 + 200), "it was asked again: {waited:?}");
    assert_eq!(kind(soon(tasks.begin(MapId(2))).await), Kind::Unavailable);
    assert_eq!(kind(soon(tasks.reader(PartitionId(0), ..)).await), Kind::Unavailable);
    assert_eq!(kind(soon(executor.shuffle(ShuffleId(1))).await), Kind::Unavailable);
    assert_eq!(kind(soon(Executor::connect(options)).await), Kind::Unavailable);
    assert_eq!(kind(shuffle.tasks().reader(PartitionId(0), ..).await), Kind::Conflict, "map 1 has not ended");
}

/// Stands between an executor and an application, and ends each connection when the answer to its `nth` request comes.
async fn losing_answers(application: String, nth: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let (mut far, nth) = (TcpStream::connect(&application).await.unwrap(), nth.clone());
            tokio::spawn(async move {
                let (mut near_read, mut near_write) = near.split();
                let (mut far_read, mut far_write) = far.split();
                let back = async {
                    let mut bytes = vec![0; 64 << 10];
                    loop {
                        let read = far_read.read(&mut bytes).await.unwrap();
                        if read == 0 || nth.fetch_sub(1, Ordering::Relaxed) == 1 {
                            return;
                        }
                        near_write.write_all(&bytes[..read]).await.unwrap();
                    }
                };
                tokio::select! {
                    _ = tokio::io::copy(&mut near_read, &mut far_write) => {}
                    () = back => {}
                }
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_application_has_done_and_could_not_say_is_not_refused() {
    let cluster = Cluster::start(1).await;
    let application = Application::start(cluster.options()).await.unwrap();
    let _shuffle = application.register(ShuffleId(0), 1, PARTITIONS as usize).await.unwrap();
    let serving = serve(&application).await;
    let nth = Arc::new(AtomicUsize::new(usize::MAX));
    let proxy = losing_answers(serving.address().to_string(), nth.clone()).await;
    let options = ExecutorOptions { connections: 1, application: proxy, ..options(&serving) };
    let tasks = Executor::connect(options).await.unwrap().shuffle(ShuffleId(0)).await.unwrap();
    let lose_next = || nth.store(1, Ordering::Relaxed);
    let is_lost = || nth.load(Ordering::Relaxed) != 1;

    lose_next();
    let mut writer = writer(tasks.begin_as(MapId(0), AttemptId(3)).await.unwrap());
    assert!(is_lost());
    push_all(&mut writer, 0).await.unwrap();
    lose_next();
    let ended = writer.finish_with("said once").await.unwrap();
    assert!(is_lost());
    assert_eq!(ended, Ended { attempt: AttemptId(3), summary: "said once".into() });
    lose_next();
    verify(&tasks, 0, 0..1).await.unwrap();
    assert!(is_lost());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_that_comes_back_is_another_one() {
    let cluster = Cluster::start(1).await;
    let named = || Options { application: Some("the same".to_owned()), ..cluster.options() };
    let before = Application::start(named()).await.unwrap();
    let _gone = before.register(ShuffleId(0), 1, 1).await.unwrap();
    let serving = serve(&before).await;
    let (port, executor) = (serving.port(), connect(&serving).await);
    let tasks = executor.shuffle(ShuffleId(0)).await.unwrap();
    serving.stop().await;
    let after = Application::start(named()).await.unwrap();
    let _there = after.register(ShuffleId(0), 1, 1).await.unwrap();
    let _serving = after.serve(ServerOptions { port, ..ServerOptions::default() }).await.unwrap();
    assert_eq!(kind(tasks.begin(MapId(0)).await), Kind::Conflict, "it is not the shuffle that it knows");
    assert_eq!(
        kind(executor.open("job-7/1", 1).await),
        Kind::Conflict,
        "it is not the application that it knows"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_that_executors_know_is_not_used_again() {
    let cluster = Cluster::start(1).await;
    let application = Application::start(cluster.options()).await.unwrap();
    let serving = serve(&application).await;
    let executor = connect(&serving).await;
    assert_eq!(kind(executor.shuffle(ShuffleId(7)).await), Kind::NotFound);
    let shuffle = application.register(ShuffleId(7), 2, PARTITIONS as usize).await.unwrap();
    let tasks = executor.shuffle(ShuffleId(7)).await.unwrap();
    for map in 0..2 {
        run(&tasks, map, "").await.unwrap();
    }
    let mut reader = tasks.reader(PartitionId(0), ..).await.unwrap();
    shuffle.unregister().await.unwrap();

    let error = application.register(ShuffleId(7), 1, 1).await.err().unwrap();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    assert!(error.to_string().contains("was used by executors"), "{error}");
    application.register(ShuffleId(8), 1, 1).await.unwrap();
    // Workers do not have it any more, and that is no loss.
    let read = soon(async {
        loop {
            match reader.next().await {
                Ok(Some(_)) => {}
                Ok(None) => reader = tasks.reader(PartitionId(0), ..).await?,
                Err(error) => return Err::<(), Error>(error),
            }
        }
    });
    let error = read.await.unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    assert_eq!(kind(tasks.begin(MapId(0)).await), Kind::Conflict);
    assert_eq!(kind(executor.shuffle(ShuffleId(7)).await), Kind::Conflict);
    application.stop().await.unwrap();
    assert_eq!(kind(executor.shuffle(ShuffleId(8)).await), Kind::Conflict, "the application has stopped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_has_one_writer_and_a_summary_a_limit() {
    let cluster = Cluster::start(1).await;
    let application = Application::start(cluster.options()).await.unwrap();
    let _shuffle = application.register(ShuffleId(0), 2, PARTITIONS as usize).await.unwrap();
    let serving = serve(&application).await;
    let tasks = connect(&serving).await.shuffle(ShuffleId(0)).await.unwrap();
    let first = writer(tasks.begin_as(MapId(0), AttemptId(5)).await.unwrap());
    assert_eq!(first.attempt(), AttemptId(5));
    assert_eq!(kind(tasks.begin_as(MapId(0), AttemptId(5)).await), Kind::Conflict);
    let second = writer(tasks.begin(MapId(0)).await.unwrap());
    assert_eq!(second.attempt(), AttemptId(6), "the application draws one that was not used");
    let longest = vec![7; SUMMARY_LEN_MAX];
    assert_eq!(kind(second.finish_with([&longest[..], b"x"].concat()).await), Kind::Invalid);
    let ended = first.finish_with(longest.clone()).await.unwrap();
    assert_eq!(ended, Ended { attempt: AttemptId(5), summary: longest.into() });
    let begun = tasks.begin(MapId(0)).await.unwrap();
    assert!(matches!(begun, Begun::Ended(looked_up) if looked_up == ended));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_copy_has_any_more_is_a_loss_and_the_next_number_is_whole() {
    let mut cluster = Cluster::start(1).await;
    let options = Options { request_max: Duration::from_millis(500), ..cluster.options() };
    let application = Application::start(options).await.unwrap();
    let shuffle = application.register(ShuffleId(0), 1, PARTITIONS as usize).await.unwrap();
    let serving = serve(&application).await;
    let executor = connect(&serving).await;
    let tasks = executor.shuffle(ShuffleId(0)).await.unwrap();
    run(&tasks, 0, "").await.unwrap();
    verify(&tasks, 0, 0..1).await.unwrap();
    // The worker comes back on its ports, without what it had in memory.
    let id = shuffle.primary(PartitionId(0));
    cluster.kill(&id).await;
    let again = yeoul_shuffle::worker::Options {
        rpc_port: id.rpc_port,
        push_ports: vec![id.push_port],
        fetch_port: id.fetch_port,
        replicate_port: id.replicate_port,
        ..cluster.worker_options(0, Duration::from_secs(1))
    };
    let back = soon(async {
        loop {
            match yeoul_shuffle::worker::Server::start(again.clone()).await {
                Ok(worker) => return worker,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    });
    cluster.workers[0] = Some(back.await);
    cluster.master.wait_for_workers(1, SOON).await.unwrap();
    assert_eq!(kind(soon(verify(&tasks, 0, 0..1)).await), Kind::DataLoss);
    shuffle.unregister().await.unwrap();
    let _next = application.register(ShuffleId(1), 1, PARTITIONS as usize).await.unwrap();
    let tasks = executor.shuffle(ShuffleId(1)).await.unwrap();
    run(&tasks, 0, "").await.unwrap();
    verify(&tasks, 0, 0..1).await.unwrap();
}

#[tokio::test]
async fn what_is_no_request_of_an_executor_is_refused_by_its_name() {
    let cluster = Cluster::start(1).await;
    let application = Application::start(cluster.options()).await.unwrap();
    let serving = serve(&application).await;
    let address = serving.address().to_string();
    assert!(serving.address().ip().is_loopback());
    let client = Client::default();
    let ask = async |message: Message| {
        let header = Header::RpcRequest { request_id: 0 };
        let answer = client.request(&address, header, message.to_bare(), SOON).await.unwrap();
        match Answer::of_message(&Message::decode_bare(answer).unwrap(), PartitionId(0)).unwrap() {
            Answer::Refused(error) => error,
            answer => panic!("{answer:?}"),
        }
    };
    let version = ask(Request::Hello { version: VERSION + 1 }.to_message()).await;
    assert_eq!(version.kind(), Kind::Invalid);
    assert!(version.to_string().contains("speaks version 3") && version.hint().is_some(), "{version}");
    let foreign = ask(Message::of(&proto::CheckQuota::default())).await;
    assert_eq!(foreign.kind(), Kind::Invalid);
    assert!(foreign.to_string().contains("CHECK_QUOTA is nothing that an executor asks"), "{foreign}");
    let mut broken = Request::Hello { version: VERSION }.to_message();
    broken.payload = Some(Bytes::from_static(&[0xff]));
    let broken = ask(broken).await;
    assert!(broken.to_string().contains("EXECUTOR_HELLO is malformed"), "{broken}");
    // Frames beyond the limit end the connection, not the server.
    let long = Bytes::from(vec![0; 1 << 20]);
    client.request(&address, Header::RpcRequest { request_id: 0 }, long, SOON).await.unwrap_err();
    connect(&serving).await;
}

/// Serves executors that may open the names of one job.
async fn serve_job(application: &Application) -> Serving {
    let opens = |name: &str| match name.starts_with("job-7/") {
        true => Ok(()),
        false => Err(Error::new(Kind::Denied, format!("{name} is of no job")).with_hint("begin one")),
    };
    let options = ServerOptions { opens: Some(Arc::new(opens)), ..ServerOptions::default() };
    application.serve(options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executors_open_a_name_and_run_maps_that_nobody_has_counted() {
    let mut cluster = Cluster::start(4).await;
    let options = Options { replicate: true, split_threshold: 1 << 20, ..cluster.options() };
    let application = Application::start(options).await.unwrap();
    application.register(ShuffleId(0), 1, 1).await.unwrap().unregister().await.unwrap();
    let serving = serve_job(&application).await;
    let executors = [connect(&serving).await, connect(&serving).await];
    let open = |at: usize| executors[at].open("job-7/3", PARTITIONS as usize);
    let (one, other, also, shuffle) =
        tokio::join!(open(0), open(1), open(0), application.open("job-7/3", PARTITIONS as usize));
    let (one, other, shuffle) = (one.unwrap(), other.unwrap(), shuffle.unwrap());
    assert_eq!([one.key(), also.unwrap().key(), shuffle.tasks().key()], [other.key(); 3]);
    assert_ne!(one.key().shuffle, ShuffleId(0), "that number was another shuffle's");
    assert_eq!(cluster.master.shuffles(), 1);
    assert_eq!((one.maps(), one.partitions(), shuffle.tasks().maps()), (None, PARTITIONS as usize, None));

    let mut abandoned = writer(one.begin(MapId(4)).await.unwrap());
    push_all(&mut abandoned, 77).await.unwrap();
    drop(abandoned);
    let (first, second, third) =
        tokio::join!(run(&one, 6, "of the one"), run(&other, 6, "of the other"), run(&other, 0, ""));
    assert_eq!(first.unwrap(), second.unwrap(), "one of the two is read");
    third.unwrap();
    let mut late = writer(other.begin(MapId(9)).await.unwrap());
    push_all(&mut late, 9).await.unwrap();
    let split = splits(&shuffle);
    cluster.kill(&shuffle.primary(PartitionId(0))).await;
    run(&one, 4, "again").await.unwrap();
    assert!(splits(&shuffle) > split, "no batch met the dead worker");
    for tasks in [&one, &other, &shuffle.tasks()] {
        assert_eq!(kind(tasks.reader(PartitionId(0), ..).await), Kind::Conflict, "map 9 has begun");
    }
    late.finish().await.unwrap();

    let readers = (0..PARTITIONS).map(|partition| {
        let shuffle = if partition % 2 == 0 { one.clone() } else { other.clone() };
        tokio::spawn(async move { verify_maps(&shuffle, partition, .., [0, 4, 6, 9]).await })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.await.unwrap().unwrap();
    }
    verify_maps(&one, 1, 5..9, [6]).await.unwrap();
    verify_maps(&shuffle.tasks(), 2, .., [0, 4, 6, 9]).await.unwrap();
    for map in [1, 10] {
        assert_eq!(kind(one.begin(MapId(map)).await), Kind::Conflict, "map {map} comes too late");
    }
    let begun = other.begin(MapId(4)).await.unwrap();
    assert!(matches!(begun, Begun::Ended(ended) if ended.summary == "again"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_given_up_is_free_and_workers_keep_nothing_of_it() {
    let cluster = Cluster::start(1).await;
    let application = Application::start(cluster.options()).await.unwrap();
    let serving = serve_job(&application).await;
    let executor = connect(&serving).await;
    let held = || cluster.workers[0].as_ref().unwrap().node().store.shuffle_count();
    let [old, kept] = ["job-7/old", "job-7/kept"];
    let [before, stays] = [
        executor.open(old, PARTITIONS as usize).await.unwrap(),
        executor.open(kept, PARTITIONS as usize).await.unwrap(),
    ];
    run(&before, 0, "before").await.unwrap();
    run(&stays, 0, "").await.unwrap();
    verify(&before, 0, 0..1).await.unwrap();
    assert_eq!((held(), cluster.master.shuffles()), (2, 2));

    application.retain(|name| name == kept).await;
    assert_eq!(cluster.master.shuffles(), 1);
    soon(async {
        while held() > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(kind(before.begin(MapId(1)).await), Kind::Conflict);
    assert_eq!(kind(before.reader(PartitionId(1), ..).await), Kind::Conflict);
    let other = connect(&serving).await;
    assert_eq!(kind(other.shuffle(before.key().shuffle).await), Kind::Conflict);
    let again = application.register(before.key().shuffle, 1, 1).await.err().unwrap();
    assert_eq!(again.kind(), Kind::Conflict, "{again}");

    // The executor still has the old one, and finds the new one by its name, with another number of partitions.
    let after = executor.open(old, PARTITIONS as usize + 1).await.unwrap();
    assert_ne!(after.key(), before.key());
    assert_eq!(run(&after, 0, "after").await.unwrap().summary, "after");
    for tasks in [&after, &stays] {
        verify(tasks, 0, 0..1).await.unwrap();
    }
    assert_eq!(kind(before.begin(MapId(0)).await), Kind::Conflict);
    application.retain(|_| false).await;
    assert_eq!(cluster.master.shuffles(), 0);
    application.stop().await.unwrap();
    assert_eq!(kind(executor.open(old, 1).await), Kind::Conflict, "the application has stopped");
}

async fn run_nothing(shuffle: &TaskShuffle) {
    writer(shuffle.begin(MapId(0)).await.unwrap()).finish().await.unwrap();
    assert_eq!(kind(shuffle.reader(PartitionId(0), ..).await), Kind::Invalid);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executors_open_the_names_that_they_may_within_limits() {
    let cluster = Cluster::start(1).await;
    let application = Application::start(cluster.options()).await.unwrap();
    let (none, job) = (serve(&application).await, serve_job(&application).await);
    let refused = connect(&none).await.open("job-7/1", 1).await.err().unwrap();
    assert_eq!((refused.kind(), refused.hint().is_some()), (Kind::Denied, true), "{refused}");
    let executor = connect(&job).await;
    let refused = executor.open("job-8/1", 1).await.err().unwrap();
    assert_eq!((refused.kind(), refused.hint()), (Kind::Denied, Some("begin one")), "{refused}");
    let long = format!("job-7/{}", "n".repeat(NAME_LEN_MAX));
    let most = OPEN_PARTITIONS_MAX as usize;
    for (name, partitions) in [("", 1), (&long, 1), ("job-7/1", most + 1), ("job-7/1", usize::MAX)] {
        assert_eq!(kind(executor.open(name, partitions).await), Kind::Invalid, "{name}, {partitions}");
        assert_eq!(kind(application.open(name, partitions).await), Kind::Invalid, "{name}, {partitions}");
    }
    assert_eq!(cluster.master.shuffles(), 0, "what was refused is not registered");

    let longest = &long[..NAME_LEN_MAX];
    let tasks = executor.open(longest, PARTITIONS as usize).await.unwrap();
    assert_eq!(kind(executor.open(longest, PARTITIONS as usize + 1).await), Kind::Conflict);
    assert_eq!(kind(application.open(longest, 1).await), Kind::Conflict);
    let last = OPEN_MAPS_MAX as i32 - 1;
    for map in [-1, last + 1, i32::MAX] {
        assert_eq!(kind(tasks.begin(MapId(map)).await), Kind::Invalid, "{map}");
    }
    run(&tasks, last, "the last").await.unwrap();
    verify(&tasks, 3, last..last + 1).await.unwrap();
    // Nothing has begun, so there is nothing to wait for.
    let empty = executor.open("job-7/empty", 1).await.unwrap();
    verify_maps(&empty, 0, .., []).await.unwrap();
    let zero = executor.open("job-7/zero", 0).await.unwrap();
    run_nothing(&zero).await;
    assert_eq!(kind(empty.begin(MapId(0)).await), Kind::Conflict);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_whose_answer_was_lost_is_opened_once() {
    let cluster = Cluster::start(1).await;
    let application = Application::start(cluster.options()).await.unwrap();
    let serving = serve_job(&application).await;
    let nth = Arc::new(AtomicUsize::new(usize::MAX));
    let proxy = losing_answers(serving.address().to_string(), nth.clone()).await;
    let options = ExecutorOptions { connections: 1, application: proxy, ..options(&serving) };
    let executor = Executor::connect(options).await.unwrap();
    nth.store(1, Ordering::Relaxed);
    let tasks = executor.open("job-7/1", 1).await.unwrap();
    assert_ne!(nth.load(Ordering::Relaxed), 1, "its first answer was lost");
    assert_eq!(cluster.master.shuffles(), 1);
    assert_eq!(executor.open("job-7/1", 1).await.unwrap().key(), tasks.key());
}
