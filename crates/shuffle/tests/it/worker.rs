//! A worker and a master over real sockets: what clients send, byte by byte as they send it, and what they get back.

use std::time::Duration;

use crate::cluster::{Cluster, SOFT_1G, WHOLE, WITHIN, batch, jvm, noise, primary};
use bytes::{Bytes, BytesMut};
use tokio::net::TcpSocket;
use yeoul_shuffle::ids::{LocationId, Mode, ShuffleKey, WorkerId};
use yeoul_shuffle::net::{Client, RequestError};
use yeoul_shuffle::wire::batch::{Batches, ByteOrder};
use yeoul_shuffle::wire::message::Message;
use yeoul_shuffle::wire::packed::Location;
use yeoul_shuffle::wire::{ChunkSlice, Header, Status, proto};
use yeoul_shuffle::{master, worker};

#[tokio::test(flavor = "multi_thread")]
async fn a_shuffle_goes_in_and_comes_out() {
    let cluster = Cluster::start(1, 256 << 20).await;
    let key = ShuffleKey::new("app-1", 0);
    let locations: Vec<_> = (0..3).map(|id| primary(cluster.id(0), id)).collect();
    assert_eq!(cluster.reserve(&key, &locations, SOFT_1G).await, 0);
    let [first, second, third] = [0, 1, 2].map(|id| LocationId::new(id, 0));
    assert_eq!(cluster.push(0, &key, first, &jvm(0, 0, 1, "map 0")).await, Ok(Status::Success));
    assert_eq!(cluster.push(0, &key, first, &jvm(1, 1, 1, "loser")).await, Ok(Status::Success));
    assert_eq!(cluster.push(0, &key, first, &jvm(0, 0, 1, "map 0")).await, Ok(Status::Success), "sent again");
    let parts = [jvm(1, 0, 1, "map 1 merged"), jvm(1, 0, 2, "for second"), jvm(1, 0, 3, "map 1 again")];
    let header = Header::PushMergedData {
        request_id: 0,
        mode: Mode::Primary,
        shuffle: key.clone(),
        locations: vec![first, second, first],
        offsets: vec![0, parts[0].len() as u32, (parts[0].len() + parts[1].len()) as u32],
    };
    let answer = cluster.send_push(0, header, parts.concat().into()).await.unwrap();
    assert_eq!(&answer[..], [0], "one byte: newer clients fail on an empty answer");
    assert!(cluster.read(0, &key, "0-0-0", WHOLE).await.is_err(), "not committed yet");

    let committed =
        cluster.commit(0, &key, &[first, second, third, LocationId::new(9, 0)], &[], &[0, 0]).await;
    assert_eq!(committed.status, Status::PartialSuccess.code());
    assert_eq!(committed.committed_primary_ids, ["0-0", "1-0"], "what is empty is in no list");
    assert_eq!(committed.failed_primary_ids, ["9-0"]);
    assert_eq!(committed.committed_primary_storage_infos.len(), 2, "a driver fails on a missing entry");
    assert_eq!(cluster.push(0, &key, first, &jvm(0, 1, 1, "late")).await, Ok(Status::MapEnded));

    let read = cluster.read(0, &key, "0-0-0", WHOLE).await.unwrap();
    assert_eq!(read, ["map 0", "map 1 merged", "map 1 again"], "no loser, nothing twice");
    assert_eq!(cluster.read(0, &key, "0-0-0", (1, 2)).await.unwrap(), ["map 1 merged", "map 1 again"]);
    assert_eq!(cluster.read(0, &key, "1-0-0", WHOLE).await.unwrap(), ["for second"]);
    assert!(cluster.read(0, &key, "2-0-0", WHOLE).await.unwrap().is_empty(), "Sail opens what is empty");
    assert!(cluster.read(0, &key, "9-0-0", WHOLE).await.is_err());

    let open = proto::OpenStreamList {
        shuffle_key: key.to_string(),
        file_name: ["1-0-0", "9-0-0", "0-0-0"].map(str::to_owned).to_vec(),
        start_index: vec![0, 0, 1],
        end_index: vec![i32::MAX, i32::MAX, 2],
        initial_credit: vec![0; 3],
        read_local_shuffle: vec![false; 3],
    };
    let opened: proto::OpenStreamListResponse = cluster.ask_fetch(0, &Message::of(&open)).await.unwrap();
    let statuses: Vec<_> = opened.stream_handler_opt.iter().map(|one| one.status).collect();
    assert_eq!(statuses, [0, Status::OpenStreamFailed.code(), 0]);

    let destroy = proto::DestroyWorkerSlots {
        shuffle_key: key.to_string(),
        primary_locations: vec!["1-0".to_owned(), "77-0".to_owned()],
        ..Default::default()
    };
    let destroyed: proto::DestroyWorkerSlotsResponse = cluster.rpc(0, &destroy).await.unwrap();
    assert_eq!(destroyed.status, 0);
    assert!(cluster.read(0, &key, "1-0-0", WHOLE).await.is_err());
}

/// Keeps a port that has just become free from everyone, a worker of another test included, and does not listen to it.
async fn occupy(host: &str, port: u16) -> TcpSocket {
    let address = format!("{host}:{port}").parse().unwrap();
    let bind = || {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address).ok().map(|()| socket)
    };
    let bound = async {
        loop {
            match bind() {
                Some(socket) => return socket,
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    tokio::time::timeout(WITHIN, bound).await.expect("the worker lets go of its port")
}

#[tokio::test(flavor = "multi_thread")]
async fn both_copies_have_every_batch_and_a_dead_replica_is_named() {
    let cluster = Cluster::start(2, 256 << 20).await;
    let key = ShuffleKey::new("app-1", 0);
    let at_first = Location { peer: Some(cluster.id(1).clone()), ..primary(cluster.id(0), 0) };
    let locations = [at_first.clone(), at_first.peer_location().unwrap()];
    assert_eq!(cluster.reserve(&key, &locations, SOFT_1G).await, 0);
    let location = LocationId::new(0, 0);
    for number in 0..20 {
        let batch = jvm(number, 0, 1, &format!("batch {number}"));
        assert_eq!(cluster.push(0, &key, location, &batch).await, Ok(Status::Success));
    }
    let winners = [0; 20];
    assert_eq!(cluster.commit(0, &key, &[location], &[], &winners).await.committed_primary_ids, ["0-0"]);
    assert_eq!(cluster.commit(1, &key, &[], &[location], &winners).await.committed_replica_ids, ["0-0"]);
    let primary_has = cluster.read(0, &key, "0-0-0", WHOLE).await.unwrap();
    assert_eq!(primary_has.len(), 20);
    let mut replica_has = cluster.read(1, &key, "0-0-1", WHOLE).await.unwrap();
    replica_has.sort();
    let mut expected = primary_has.clone();
    expected.sort();
    assert_eq!(replica_has, expected);

    let again = Location { id: LocationId::new(1, 1), ..at_first };
    let reserved = [again.clone(), again.peer_location().unwrap()];
    assert_eq!(cluster.reserve(&key, &reserved, SOFT_1G).await, 0);
    let mut cluster = cluster;
    let replica = cluster.workers.pop().unwrap().id().clone();
    let _silent = occupy(&replica.host, replica.replicate_port).await;
    cluster.client.disconnect(&cluster.fetch_address(0));
    let error = cluster.push(0, &key, again.id, &jvm(30, 0, 1, "alone")).await.unwrap_err();
    let status = Status::from_text(&error);
    assert!(
        matches!(
            status,
            Some(Status::PushDataCreateConnectionFailReplica | Status::PushDataConnectionExceptionReplica)
        ),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn splits_are_asked_for_and_hard_ones_refuse() {
    let cluster = Cluster::start(1, 256 << 20).await;
    let key = ShuffleKey::new("app-1", 0);
    let location = LocationId::new(0, 0);
    let other = LocationId::new(1, 0);
    cluster.reserve(&key, &[primary(cluster.id(0), 0)], (100, 0)).await;
    cluster.reserve(&key, &[primary(cluster.id(0), 1)], (100, 1)).await;
    let large = jvm(0, 0, 1, &"x".repeat(100));
    for (location, second) in [(location, Status::SoftSplit), (other, Status::HardSplit)] {
        assert_eq!(cluster.push(0, &key, location, &large).await, Ok(Status::Success));
        assert_eq!(cluster.push(0, &key, location, &large).await, Ok(second));
    }
    let unknown = cluster.push(0, &key, LocationId::new(7, 0), &large).await.unwrap_err();
    assert_eq!(Status::from_text(&unknown), Some(Status::PushDataFailPartitionNotFound));
    cluster.commit(0, &key, &[other], &[], &[-1]).await;
    assert_eq!(cluster.push(0, &key, other, &large).await, Ok(Status::HardSplit));
    assert_eq!(
        cluster.read(0, &key, "1-0-0", WHOLE).await.unwrap().len(),
        1,
        "a refused batch was not written"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sail_reads_each_batch_once_over_all_epochs() {
    let cluster = Cluster::start(1, 256 << 20).await;
    let key = ShuffleKey::new("app-sail", 0);
    let epochs = [LocationId::new(0, 0), LocationId::new(0, 1)];
    let locations = epochs.map(|id| Location { id, ..primary(cluster.id(0), 0) });
    cluster.reserve(&key, &locations, SOFT_1G).await;
    let sail = |map, number, text: &str| batch(ByteOrder::Big, map, 0, number, text.as_bytes());
    cluster.push(0, &key, epochs[0], &sail(1, 0, "one")).await.unwrap();
    cluster.push(0, &key, epochs[1], &sail(1, 0, "one")).await.unwrap();
    cluster.push(0, &key, epochs[1], &sail(1, 1, "two")).await.unwrap();
    cluster.commit(0, &key, &epochs, &[], &[-1, 0]).await;
    let mut seen = Vec::new();
    for file in ["0-0-0", "0-1-0"] {
        let stream = cluster.open(0, &key, file, WHOLE).await.unwrap();
        for chunk_index in 0..stream.num_chunks {
            let slice =
                ChunkSlice { stream_id: stream.stream_id, chunk_index, offset: 0, len: ChunkSlice::TO_END };
            let address = cluster.fetch_address(0);
            let chunk = cluster
                .client
                .request(&address, Header::ChunkFetchRequest(slice), Bytes::new(), WITHIN)
                .await
                .unwrap();
            seen.extend(Batches::new(chunk, ByteOrder::Big).map(|batch| batch.unwrap().payload));
        }
    }
    assert_eq!(seen, ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_answered_and_changes_nothing() {
    let cluster = Cluster::start(1, 64 << 20).await;
    let key = ShuffleKey::new("app-1", 0);
    cluster.reserve(&key, &[primary(cluster.id(0), 0)], SOFT_1G).await;
    let location = LocationId::new(0, 0);
    for bytes in [&b"short"[..], &[7; 40], &[0; 17]] {
        assert!(cluster.push(0, &key, location, &Bytes::copy_from_slice(bytes)).await.is_err());
    }
    let replica = Header::PushData { request_id: 0, mode: Mode::Replica, shuffle: key.clone(), location };
    assert!(cluster.send_push(0, replica, jvm(0, 0, 1, "x")).await.is_err(), "a replica on the push port");
    assert!(cluster.commit(0, &key, &[location], &[], &[0]).await.committed_primary_ids.is_empty());
    let stream = cluster.open(0, &key, "0-0-0", WHOLE).await.unwrap();
    for (stream_id, chunk_index, offset) in
        [(stream.stream_id, 0, 0), (stream.stream_id, -1, 0), (1, 0, 0), (stream.stream_id, 0, -5)]
    {
        let slice = ChunkSlice { stream_id, chunk_index, offset, len: 10 };
        let answer = cluster
            .client
            .request(&cluster.fetch_address(0), Header::ChunkFetchRequest(slice), Bytes::new(), WITHIN)
            .await;
        assert!(matches!(answer, Err(RequestError::Failed { .. })), "{answer:?}");
    }
    for file in ["", "0", "0-0", "0-0-2", "x-0-0", "-1-0-0"] {
        assert!(cluster.open(0, &key, file, WHOLE).await.is_err());
    }
    let long = ShuffleKey::new("x".repeat(300), 0);
    assert_eq!(
        cluster.reserve(&long, &[primary(cluster.id(0), 0)], SOFT_1G).await,
        Status::ReserveSlotsFailed.code()
    );
    let unknown = cluster.commit(0, &ShuffleKey::new("nobody", 3), &[location], &[], &[]).await;
    assert_eq!(
        (unknown.status, unknown.failed_primary_ids),
        (Status::ShuffleNotRegistered.code(), vec!["0-0".to_owned()])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_memory_goes_through_and_comes_out_right() {
    let cluster = Cluster::start(1, 64 << 20).await;
    let key = ShuffleKey::new("app-1", 0);
    let partitions = 8;
    let locations: Vec<_> = (0..partitions).map(|id| primary(cluster.id(0), id)).collect();
    cluster.reserve(&key, &locations, SOFT_1G).await;
    let payload = |number: i32| noise(number, 60_000);
    let count = 3000; // 180 MB through 64 MiB
    for first in (0..count).step_by(50) {
        let pushes = (first..first + 50).map(|number| {
            let (cluster, key) = (&cluster, &key);
            async move {
                let batch = batch(ByteOrder::Little, number, 0, 1, &payload(number));
                let location = LocationId::new(number % partitions, 0);
                assert_eq!(cluster.push(0, key, location, &batch).await, Ok(Status::Success));
            }
        });
        for push in pushes {
            push.await;
        }
    }
    let memory = cluster.workers[0].node().store.memory().clone();
    assert!(memory.high_water() <= 64 << 20, "{} bytes were charged", memory.high_water());
    let written: u64 =
        cluster.workers[0].node().store.directories().iter().map(|directory| directory.written()).sum();
    assert!(written > 100 << 20, "{written} bytes spilled: the test has not tested it");
    let all: Vec<_> = (0..partitions).map(|id| LocationId::new(id, 0)).collect();
    cluster.commit(0, &key, &all, &[], &vec![0; count as usize]).await;
    for partition in 0..partitions {
        let read = cluster.read(0, &key, &format!("{partition}-0-0"), WHOLE).await.unwrap();
        let numbers: Vec<i32> = (0..count).filter(|number| number % partitions == partition).collect();
        assert_eq!(read.len(), numbers.len());
        for (found, number) in read.iter().zip(numbers) {
            assert!(*found == payload(number), "batch {number}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_takes_pushes_on_each_port_that_the_master_names() {
    let cluster = Cluster::start(1, 64 << 20).await;
    let key = ShuffleKey::new("app-1", 0);
    let request = proto::RequestSlots {
        application_id: key.application.to_string(),
        shuffle_id: 0,
        partition_id_list: (0..16).collect(),
        packed: true,
        ..Default::default()
    };
    let granted = async {
        loop {
            // Until the worker has registered there is nobody.
            let granted: proto::RequestSlotsResponse = cluster.ask_master(&request).await.unwrap();
            if granted.status == Status::Success.code() {
                return granted;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let granted = tokio::time::timeout(WITHIN, granted).await.unwrap();
    let named: Vec<(WorkerId, Vec<LocationId>)> = granted
        .packed_worker_resource
        .iter()
        .map(|(name, resource)| {
            let packed = resource.location_pairs.as_ref().unwrap().locations.as_ref().unwrap();
            let ids = packed.ids.iter().map(|id| LocationId::new(*id, 0));
            (name.parse().unwrap(), ids.collect())
        })
        .collect();
    assert_eq!(named.len(), 8, "as many as a client can use");
    // To the client they are workers, each reserved and committed by itself.
    for (worker, locations) in &named {
        assert_eq!((worker.rpc_port, worker.fetch_port), (cluster.id(0).rpc_port, cluster.id(0).fetch_port));
        let reserved: Vec<Location> = locations.iter().map(|id| primary(worker, id.partition.0)).collect();
        let request = proto::ReserveSlots {
            application_id: key.application.to_string(),
            shuffle_id: key.shuffle.0,
            partition_locations_pair: Some(Location::pack(&reserved)),
            ..Default::default()
        };
        let answer: proto::ReserveSlotsResponse = cluster.rpc(0, &request).await.unwrap();
        assert_eq!(answer.status, 0);
    }
    for (worker, locations) in &named {
        for location in locations {
            let batch = jvm(location.partition.0, 0, 1, &location.to_string());
            let (shuffle, location) = (key.clone(), *location);
            let header = Header::PushData { request_id: 0, mode: Mode::Primary, shuffle, location };
            let address = format!("{}:{}", worker.host, worker.push_port);
            let answer = cluster.client.request(&address, header, batch, WITHIN).await.unwrap();
            assert_eq!(answer[0], 0);
        }
    }
    for (_, locations) in &named {
        let answer = cluster.commit(0, &key, locations, &[], &[0; 16]).await;
        let mut committed = answer.committed_primary_ids;
        committed.sort();
        let mut expected: Vec<String> = locations.iter().map(LocationId::to_string).collect();
        expected.sort();
        assert_eq!(committed, expected);
    }
    for partition in 0..16 {
        let read = cluster.read(0, &key, &format!("{partition}-0-0"), WHOLE).await.unwrap();
        assert_eq!(read, [format!("{partition}-0")]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_larger_than_memory_allows_goes_to_disk_on_both_workers_while_it_arrives() {
    let mut cluster = Cluster::start(2, 64 << 20).await;
    let key = ShuffleKey::new("app-1", 0);
    let at_first = Location { peer: Some(cluster.id(1).clone()), ..primary(cluster.id(0), 0) };
    let locations = [at_first.clone(), at_first.peer_location().unwrap()];
    assert_eq!(cluster.reserve(&key, &locations, SOFT_1G).await, 0);
    let location = LocationId::new(0, 0);
    let payloads = [noise(1, 100), noise(2, 70 << 20), noise(3, 200), noise(4, 20 << 20)];
    for (number, payload) in payloads.iter().enumerate() {
        let batch = batch(ByteOrder::Little, 0, 0, number as i32 + 1, payload);
        assert_eq!(cluster.push(0, &key, location, &batch).await, Ok(Status::Success));
    }
    // A client that goes away in the middle of a batch leaves nothing.
    let half = Header::PushData { request_id: 5, mode: Mode::Primary, shuffle: key.clone(), location };
    let mut frame = BytesMut::new();
    half.encode(30 << 20, &mut frame);
    frame.extend_from_slice(&batch(ByteOrder::Little, 0, 0, 9, &noise(9, 12 << 20)));
    let address = format!("{}:{}", cluster.id(0).host, cluster.id(0).push_port);
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut socket, &frame).await.unwrap();
    drop(socket);
    for handle in &cluster.workers {
        let memory = handle.node().store.memory();
        assert!(memory.high_water() < 48 << 20, "{} bytes were charged", memory.high_water());
    }
    cluster.commit(0, &key, &[location], &[], &[0]).await;
    cluster.commit(1, &key, &[], &[location], &[0]).await;
    for (worker, file) in [(0, "0-0-0"), (1, "0-0-1")] {
        let read = cluster.read(worker, &key, file, WHOLE).await.unwrap();
        assert_eq!(read.iter().map(Bytes::len).collect::<Vec<_>>(), payloads.each_ref().map(Vec::len));
        assert!(read.iter().zip(&payloads).all(|(found, payload)| found == payload));
    }
    // They survive a graceful stop, too: each file for one batch says what it is.
    let handle = cluster.workers.remove(0);
    handle.stop();
    tokio::time::timeout(WITHIN, handle.ended()).await.unwrap().unwrap();
    let options =
        worker::Options { directories: vec![cluster.places[0].path().into()], ..cluster.options.clone() };
    drop(handle);
    let back = restart(&options).await;
    cluster.workers.insert(0, back);
    let read = cluster.read(0, &key, "0-0-0", WHOLE).await.unwrap();
    assert!(read.iter().zip(&payloads).all(|(found, payload)| found == payload));
    assert_eq!(read.len(), payloads.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_room_sends_its_clients_elsewhere_and_keeps_what_it_took() {
    let mut cluster = Cluster::start(0, 64 << 20).await;
    let place = tempfile::tempdir().unwrap();
    // Every byte of the disk is reserved: it is full.
    let options = worker::Options {
        directories: vec![place.path().into()],
        disk_reserve_bytes: Some(u64::MAX),
        ..cluster.options.clone()
    };
    cluster.workers.push(worker::Server::start(options).await.unwrap());
    let key = ShuffleKey::new("app-1", 0);
    assert_eq!(cluster.reserve(&key, &[primary(cluster.id(0), 0)], SOFT_1G).await, 0, "memory has room");
    let location = LocationId::new(0, 0);
    let memory = cluster.workers[0].node().store.memory().clone();
    let mut taken = None;
    for number in 0..12 {
        // In the middle everything else of the memory is taken, and nothing can leave it.
        if number == 4 {
            taken = Some(memory.charge(1 << 30));
        } else if number == 8 {
            taken = None;
        }
        let batch = batch(ByteOrder::Little, number, 0, 1, &noise(number, 1 << 18));
        let expected = if taken.is_some() { Status::HardSplit } else { Status::Success };
        assert_eq!(cluster.push(0, &key, location, &batch).await, Ok(expected), "batch {number}");
        let other = [Location { id: LocationId::new(1, 1), ..primary(cluster.id(0), 1) }];
        let expected = if taken.is_some() { Status::NoAvailableWorkingDir } else { Status::Success };
        assert_eq!(cluster.reserve(&key, &other, SOFT_1G).await, expected.code());
    }
    assert_eq!(cluster.commit(0, &key, &[location], &[], &[]).await.committed_primary_ids, ["0-0"]);
    let read = cluster.read(0, &key, "0-0-0", WHOLE).await.unwrap();
    let accepted = (0..4).chain(8..12);
    assert_eq!(read.len(), 8);
    assert!(read.iter().zip(accepted).all(|(payload, number)| *payload == noise(number, 1 << 18)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decommissioned_worker_takes_nothing_new_and_leaves_with_its_last_shuffle() {
    let worker_heartbeat = Duration::from_millis(100);
    let options = master::Options { worker_heartbeat, http_port: Some(0), ..master::Options::embedded() };
    let cluster = Cluster::start_with(options, 1, 64 << 20).await;
    let key = ShuffleKey::new("app-1", 0);
    cluster.reserve(&key, &[primary(cluster.id(0), 0)], SOFT_1G).await;
    let location = LocationId::new(0, 0);
    cluster.push(0, &key, location, &jvm(0, 0, 1, "kept")).await.unwrap();
    cluster.commit(0, &key, &[location], &[], &[0]).await;
    let handle = &cluster.workers[0];
    handle.decommission();
    let refuses = async {
        while cluster.reserve(&key, &[primary(cluster.id(0), 1)], SOFT_1G).await
            != Status::WorkerShutdown.code()
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WITHIN, refuses).await.unwrap();
    assert_eq!(cluster.read(0, &key, "0-0-0", WHOLE).await.unwrap(), ["kept"], "what is there can be read");
    handle.node().expire_all([key.clone()]);
    tokio::time::timeout(WITHIN, handle.ended()).await.unwrap().unwrap();
    // A handle that is kept does not make it register again: once it has ended it would count as lost.
    for _ in 0..50 {
        let racks = cluster.ask_page("/api/v1/workers/topology").await;
        assert_eq!(racks, r#"{"topologies":[]}"#);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_gracefully_comes_back_with_its_data() {
    let mut cluster = Cluster::start(1, 64 << 20).await;
    let key = ShuffleKey::new("app-1", 0);
    cluster.reserve(&key, &[primary(cluster.id(0), 0), primary(cluster.id(0), 1)], SOFT_1G).await;
    let location = LocationId::new(0, 0);
    cluster.push(0, &key, location, &jvm(0, 0, 1, "kept")).await.unwrap();
    let handle = cluster.workers[0].clone();
    handle.stop();
    let refused = async {
        loop {
            match cluster.push(0, &key, location, &jvm(0, 0, 2, "refused")).await {
                Ok(Status::HardSplit) => return,
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(WITHIN, refused).await.unwrap();
    assert_eq!(
        cluster.reserve(&key, &[primary(cluster.id(0), 2)], SOFT_1G).await,
        Status::WorkerShutdown.code()
    );
    let all = [location, LocationId::new(1, 0)];
    assert_eq!(cluster.commit(0, &key, &all, &[], &[0]).await.committed_primary_ids, ["0-0"]);
    tokio::time::timeout(WITHIN, handle.ended()).await.unwrap().unwrap();
    let id = handle.id().clone();
    drop((handle, cluster.workers.pop()));
    let options = worker::Options {
        directories: vec![cluster.places[0].path().into()],
        rpc_port: id.rpc_port,
        push_ports: vec![id.push_port],
        fetch_port: id.fetch_port,
        replicate_port: id.replicate_port,
        ..cluster.options.clone()
    };
    let back = restart(&options).await;
    assert_eq!(*back.id(), id);
    cluster.workers.push(back);
    cluster.client = Client::default();
    let read = cluster.read(0, &key, "0-0-0", WHOLE).await.unwrap();
    assert!(read.iter().all(|payload| payload == "kept" || payload == "refused"), "{read:?}");
    assert_eq!(read[0], "kept");
    assert_eq!(cluster.push(0, &key, location, &jvm(0, 0, 9, "late")).await, Ok(Status::MapEnded));
}

/// Starts a worker where one has just ended: the last of its tasks lets go of the directory a moment later.
async fn restart(options: &worker::Options) -> worker::Handle {
    let back = async {
        loop {
            match worker::Server::start(options.clone()).await {
                Ok(handle) => return handle,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(WITHIN, back).await.expect("the directory and the ports are free again")
}
