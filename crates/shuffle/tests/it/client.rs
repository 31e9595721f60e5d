//! Goal: what our client writes is what it reads, each batch once, while locations split, attempts lose and workers die.
//! Method: a master and workers in this process; every payload follows from its map, partition and sequence.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::service::{Cluster, payload};
use bytes::Bytes;
use tokio::task::JoinSet;
use yeoul_shuffle::client::{Application, Options, Shuffle, Writer};
use yeoul_shuffle::ids::{AttemptId, MapId, PartitionId, ShuffleId, SplitMode};
use yeoul_shuffle::net::Client;
use yeoul_shuffle::wire::message::{Message, Typed};
use yeoul_shuffle::wire::{Header, proto};
use yeoul_shuffle::{Kind, master, worker};

async fn write(shuffle: &Shuffle, map: i32, attempt: i32, partitions: i32, batches: i32, len: usize) {
    let mut writer = shuffle.writer(MapId(map), AttemptId(attempt));
    for sequence in 0..batches {
        for partition in 0..partitions {
            let bytes = payload(map, partition, sequence, len + sequence as usize);
            writer.push(PartitionId(partition), bytes).await.unwrap();
        }
    }
    writer.finish().await.unwrap();
}

/// Reads a partition and checks that it holds each batch of each of `maps` once, and nothing else.
async fn verify(shuffle: &Shuffle, partition: i32, maps: std::ops::Range<i32>, batches: i32, len: usize) {
    let mut reader = shuffle.reader(PartitionId(partition), maps.clone()).unwrap();
    let mut seen = BTreeMap::new();
    while let Some(batch) = reader.next().await.unwrap() {
        let number = |at: usize| i32::from_be_bytes(batch.payload[at..at + 4].try_into().unwrap());
        let (map, sequence) = (number(0), number(8));
        assert_eq!(batch.payload, payload(map, partition, sequence, len + sequence as usize));
        assert!(maps.contains(&map), "map {map} of {maps:?}");
        *seen.entry((map, sequence)).or_insert(0) += 1;
    }
    let expected = maps.flat_map(|map| (0..batches).map(move |sequence| ((map, sequence), 1)));
    assert_eq!(seen, expected.collect());
}

fn decoded<A: Typed>(answer: Bytes) -> A {
    A::decode(Message::decode_bare(answer).unwrap().payload.unwrap_or_default()).unwrap()
}

/// Somebody else has so many streams open that a small worker opens no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_opens_no_more_streams_has_lost_nothing() {
    let mut cluster = Cluster::start(0).await;
    cluster.places.push(tempfile::tempdir().unwrap());
    let options =
        worker::Options { memory_bytes: 48 << 20, ..cluster.worker_options(0, Duration::from_secs(1)) };
    let worker = worker::Server::start(options).await.unwrap();
    cluster.master.wait_for_workers(1, Duration::from_secs(20)).await.unwrap();
    let application = Application::start(cluster.options()).await.unwrap();
    let shuffle = application.register(ShuffleId(0), 1, 1).await.unwrap();
    write(&shuffle, 0, 0, 1, 10, 100).await;
    shuffle.commit().await.unwrap();

    let (client, fetch) = (Client::default(), worker.id().address(worker.id().fetch_port));
    let (header, within) = (Header::RpcRequest { request_id: 0 }, Duration::from_secs(20));
    let list = proto::OpenStreamList {
        shuffle_key: format!("{}-0", application.id()),
        file_name: vec!["0-0-0".to_owned(); 10_000],
        ..Default::default()
    };
    let mut open = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(60);
    let error = loop {
        let body = Message::of(&list).to_bare();
        let answer = client.request(&fetch, header.clone(), body, within).await.unwrap();
        let answer: proto::OpenStreamListResponse = decoded(answer);
        let mut refused = String::new();
        for stream in answer.stream_handler_opt {
            match stream.stream_handler {
                Some(handler) => open.push(handler.stream_id),
                None => refused = stream.error_msg,
            }
        }
        if refused.is_empty() {
            continue;
        }
        assert!(refused.contains("streams are open"), "{refused}");
        // The limit follows what this process holds: where another test gave memory back there is room again.
        match shuffle.reader(PartitionId(0), ..).unwrap().next().await {
            Err(error) => break error,
            Ok(_) => assert!(Instant::now() < deadline, "a reader opens streams that others are refused"),
        }
    };
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");

    for stream_id in open {
        let end = Message::of(&proto::BufferStreamEnd { stream_type: 0, stream_id }).to_bare();
        client.send(&fetch, header.clone(), end).await.unwrap();
    }
    verify(&shuffle, 0, 0..1, 10, 100).await;
}

/// Its process dies without a word, and the next one has the same name and the same numbers of shuffles. Once half-way, and
/// once with everything committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_that_comes_back_reads_its_own_rows_and_no_earlier_ones() {
    let cluster = Cluster::start(2).await;
    for life in 0..6 {
        let application = Some("the same".to_owned());
        let options = Options { application, replicate: life % 2 == 1, ..cluster.options() };
        let application = Application::start(options).await.unwrap();
        assert_eq!(cluster.master.shuffles(), 0, "those of its earlier life are removed");
        let shuffle = application.register(ShuffleId(1), 2, 3).await.unwrap();
        let len = 1_000 * (1 + life as usize);
        write(&shuffle, 0, 0, 3, 20, len).await;
        if life % 3 == 1 {
            continue; // what it has written is committed by nobody
        }
        write(&shuffle, 1, 0, 3, 20, len).await;
        shuffle.commit().await.unwrap();
        for partition in 0..3 {
            verify(&shuffle, partition, 0..2, 20, len).await;
        }
        assert_eq!(cluster.master.shuffles(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_is_read_with_and_without_copies() {
    let cluster = Cluster::start(3).await;
    for replicate in [false, true] {
        let application = Application::start(Options { replicate, ..cluster.options() }).await.unwrap();
        let shuffle = application.register(ShuffleId(0), 4, 6).await.unwrap();
        // A losing attempt's batches are nobody's.
        let mut loser = shuffle.writer(MapId(1), AttemptId(0));
        loser.push(PartitionId(2), &b"lost"[..]).await.unwrap();
        loser.push(PartitionId(2), vec![7; 100_000]).await.unwrap();
        drop(loser);
        for map in 0..4 {
            write(&shuffle, map, i32::from(map == 1), 5, 20, 3_000 * map as usize).await;
        }
        assert_eq!(shuffle.reader(PartitionId(0), ..).err().unwrap().kind(), Kind::Conflict);
        shuffle.commit().await.unwrap();
        for partition in 0..5 {
            let mut reader = shuffle.reader(PartitionId(partition), ..).unwrap();
            let mut count = 0;
            while reader.next().await.unwrap().is_some() {
                count += 1;
            }
            assert_eq!(count, 80);
            for map in 0..4 {
                verify(&shuffle, partition, map..map + 1, 20, 3_000 * map as usize).await;
            }
        }
        for (maps, count) in [(-5..-1, 0), (-5..0, 0), (i32::MIN..1, 20), (-5..2, 40)] {
            let mut reader = shuffle.reader(PartitionId(1), maps.clone()).unwrap();
            let mut seen = 0;
            while let Some(batch) = reader.next().await.unwrap() {
                assert!(maps.contains(&batch.header.map.0), "{:?} of {maps:?}", batch.header);
                seen += 1;
            }
            assert_eq!(seen, count, "{maps:?}");
        }
        let mut empty = shuffle.reader(PartitionId(5), ..).unwrap();
        assert!(empty.next().await.unwrap().is_none(), "the sixth partition is empty");
        assert_eq!(shuffle.reader(PartitionId(6), ..).err().unwrap().kind(), Kind::Invalid);
        assert_eq!(cluster.master.shuffles(), 1);
        shuffle.unregister().await.unwrap();
        assert_eq!(cluster.master.shuffles(), 0);
        application.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_may_be_of_ipv6() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return eprintln!("skipped: this machine has no IPv6");
    }
    let options = master::Options { host: "::1".to_owned(), ..master::Options::embedded() };
    let cluster = Cluster::start_at(options, 2, Duration::from_secs(1)).await;
    let hosts = cluster.workers.iter().flatten().map(|worker| worker.id().host.to_string());
    assert_eq!(hosts.collect::<Vec<_>>(), ["::1", "::1"], "the address from which they reach their master");
    let application = Application::start(Options { replicate: true, ..cluster.options() }).await.unwrap();
    let shuffle = application.register(ShuffleId(0), 1, 2).await.unwrap();
    write(&shuffle, 0, 0, 2, 10, 1_000).await;
    shuffle.commit().await.unwrap();
    for partition in 0..2 {
        verify(&shuffle, partition, 0..1, 10, 1_000).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locations_split_and_all_of_them_are_read() {
    let cluster = Cluster::start(3).await;
    for split_mode in [SplitMode::Soft, SplitMode::Hard] {
        let options = Options { split_mode, split_threshold: 1 << 20, ..cluster.options() };
        let application = Application::start(options).await.unwrap();
        let shuffle = application.register(ShuffleId(9), 2, 2).await.unwrap();
        let (one, other) =
            tokio::join!(write(&shuffle, 0, 0, 2, 60, 70_000), write(&shuffle, 1, 0, 2, 60, 70_000));
        let ((), ()) = (one, other);
        shuffle.commit().await.unwrap();
        assert!(shuffle.locations(PartitionId(0)) > 1, "8 MB did not split at 1 MiB");
        for partition in 0..2 {
            verify(&shuffle, partition, 0..2, 60, 70_000).await;
            verify(&shuffle, partition, 1..2, 60, 70_000).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_fill_locations_together_and_none_gives_up() {
    let cluster = Cluster::start(3).await;
    let options = Options { split_mode: SplitMode::Hard, split_threshold: 1 << 20, ..cluster.options() };
    let application = Application::start(options).await.unwrap();
    let shuffle = application.register(ShuffleId(0), 16, 1).await.unwrap();
    let mut tasks = JoinSet::new();
    for map in 0..16 {
        let shuffle = shuffle.clone();
        tasks.spawn(async move { write(&shuffle, map, 0, 1, 40, 70_000).await });
    }
    tasks.join_all().await;
    shuffle.commit().await.unwrap();
    assert!(shuffle.locations(PartitionId(0)) > 10, "45 MB did not split at 1 MiB");
    verify(&shuffle, 0, 0..16, 40, 70_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_dies_costs_nothing_where_there_are_copies_and_is_named_where_not() {
    for (replicate, dies_at) in [(true, 1), (true, 2), (false, 2)] {
        let mut cluster = Cluster::start(3).await;
        let options = Options { replicate, window: 4, ..cluster.options() };
        let application = Application::start(options).await.unwrap();
        let shuffle = application.register(ShuffleId(0), 4, 6).await.unwrap();
        for map in 0..4 {
            if map == dies_at {
                cluster.kill(&shuffle.primary(PartitionId(0))).await;
            }
            write(&shuffle, map, 0, 6, 10, 9_000).await;
        }
        let committed = shuffle.commit().await;
        if replicate {
            committed.unwrap();
            for partition in 0..6 {
                verify(&shuffle, partition, 0..4, 10, 9_000).await;
            }
        } else {
            let error = committed.expect_err("two maps were on the dead worker");
            assert_eq!(error.kind(), Kind::Unavailable);
            assert!(error.to_string().contains("does not commit location"), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_dies_between_two_chunks_is_replaced() {
    let mut cluster = Cluster::start(2).await;
    let options = Options { replicate: true, chunks_ahead: 0, ..cluster.options() };
    let application = Application::start(options).await.unwrap();
    let shuffle = application.register(ShuffleId(0), 1, 1).await.unwrap();
    write(&shuffle, 0, 0, 1, 40, 1_000_000).await;
    shuffle.commit().await.unwrap();
    let mut reader = shuffle.reader(PartitionId(0), ..).unwrap();
    let mut count = 0;
    while let Some(batch) = reader.next().await.unwrap() {
        assert!(batch.payload.len() >= 1_000_012);
        count += 1;
        if count == 3 {
            cluster.kill(&shuffle.primary(PartitionId(0))).await;
        }
    }
    assert_eq!(count, 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_that_fails_leaves_nothing_at_the_master() {
    let mut cluster = Cluster::start(1).await;
    let application = Application::start(cluster.options()).await.unwrap();
    let shuffle = application.register(ShuffleId(0), 1, 2).await.unwrap();
    cluster.kill(&shuffle.primary(PartitionId(0))).await;
    let error = application.register(ShuffleId(1), 1, 2).await.err().expect("the only worker is dead");
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    assert_eq!(cluster.master.shuffles(), 1, "the first one stays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_is_used_again_at_once_and_finds_nothing_of_before() {
    let cluster = Cluster::start(2).await;
    // No worker is granted before it has confirmed the deletion, and the client asks a few times only.
    let options = Options { retry_wait: Duration::from_millis(500), ..cluster.options() };
    let application = Application::start(options).await.unwrap();
    let mut before: Option<Writer> = None;
    for round in 1..20 {
        let shuffle = application.register(ShuffleId(0), 1, 2).await.unwrap();
        if let Some(mut late) = before.replace(shuffle.writer(MapId(0), AttemptId(1))) {
            let error = late.push(PartitionId(0), &b"late"[..]).await.expect_err("its shuffle is gone");
            assert_eq!(error.kind(), Kind::Conflict, "{error}");
        }
        write(&shuffle, 0, 0, 2, round, 1000).await;
        shuffle.commit().await.unwrap();
        verify(&shuffle, 0, 0..1, round, 1000).await;
        verify(&shuffle, 1, 0..1, round, 1000).await;
        shuffle.unregister().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_stops_gracefully_keeps_what_it_has_taken() {
    let stop_timeout = Duration::from_secs(20);
    let mut cluster = Cluster::start_with(2, stop_timeout).await;
    let options = Options { heartbeat: Duration::from_millis(50), ..cluster.options() };
    let application = Application::start(options).await.unwrap();
    let shuffle = application.register(ShuffleId(0), 3, 4).await.unwrap();
    write(&shuffle, 0, 0, 4, 5, 9_000).await;
    let stopping = cluster.position(&shuffle.primary(PartitionId(0)));
    let handle = cluster.workers[stopping].take().unwrap();
    let begin = Instant::now();
    handle.stop();
    // The worker may take some of it yet, until it is asked to commit.
    write(&shuffle, 1, 0, 4, 5, 9_000).await;
    handle.ended().await.unwrap();
    let took = begin.elapsed();
    let id = handle.id().clone();
    drop(handle);
    write(&shuffle, 2, 0, 4, 5, 9_000).await;
    assert!(shuffle.locations(PartitionId(0)) > 1, "it had a location on the worker");
    // Nobody needs the worker for this.
    shuffle.commit().await.unwrap();
    assert!(took < stop_timeout, "the worker waited {took:?} for open locations");

    let options = worker::Options {
        rpc_port: id.rpc_port,
        push_ports: vec![id.push_port],
        fetch_port: id.fetch_port,
        replicate_port: id.replicate_port,
        ..cluster.worker_options(stopping, stop_timeout)
    };
    let back = async {
        loop {
            match worker::Server::start(options.clone()).await {
                Ok(handle) => return handle,
                // The last of its tasks lets go of the directory a moment later.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let back = tokio::time::timeout(Duration::from_secs(20), back).await.expect("the ports are free again");
    cluster.workers[stopping] = Some(back);
    for partition in 0..4 {
        verify(&shuffle, partition, 0..3, 5, 9_000).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_shuffles_come_and_go() {
    let cluster = Cluster::start(1).await;
    let application = Application::start(cluster.options()).await.unwrap();
    let mut times = Vec::new();
    for turn in 0..20 {
        let shuffle = application.register(ShuffleId(turn), 1, 8).await.unwrap();
        let begin = Instant::now();
        write(&shuffle, 0, 0, 8, 1, 38).await;
        shuffle.commit().await.unwrap();
        for partition in 0..8 {
            verify(&shuffle, partition, 0..1, 1, 38).await;
        }
        times.push(begin.elapsed());
        shuffle.unregister().await.unwrap();
    }
    times.sort();
    println!(
        "8 partitions of 50 bytes: fastest {:?}, median {:?}, slowest {:?}",
        times[0], times[10], times[19]
    );
}
