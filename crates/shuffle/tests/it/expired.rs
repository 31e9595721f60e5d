//! Goal: whoever reads a shuffle that has expired gets an error, and never an empty answer, which would be taken for a
//! partition without rows. Method: an application falls silent until the master lets it go and the worker has deleted its
//! shuffle; what its readers and its driver ask then is compared with what they got before.

use std::time::{Duration, Instant};

use crate::cluster::{Cluster, SOFT_1G, WHOLE, WITHIN, jvm, primary};
use bytes::Bytes;
use yeoul_shuffle::client::{Application, Options};
use yeoul_shuffle::ids::{AttemptId, LocationId, MapId, PartitionId, ShuffleId, ShuffleKey};
use yeoul_shuffle::net::RequestError;
use yeoul_shuffle::wire::message::Message;
use yeoul_shuffle::wire::{ChunkSlice, Header, Status, proto, refusal};
use yeoul_shuffle::{Kind, master};

/// A worker, and a master that lets an application go after a second of silence.
async fn start() -> Cluster {
    let mut options = master::Options::embedded();
    options.limits.application_timeout = Duration::from_secs(1);
    options.worker_heartbeat = Duration::from_millis(100);
    Cluster::start_with(options, 1, 64 << 20).await
}

async fn until_deleted(cluster: &Cluster) {
    let store = &cluster.workers[0].node().store;
    let deadline = Instant::now() + WITHIN;
    while store.shuffle_count() > 0 {
        assert!(Instant::now() < deadline, "it does not expire");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn is_final(error: RequestError) -> bool {
    let RequestError::Failed { text, .. } = error else { panic!("no answer: {error}") };
    refusal::is_final(&text)
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_and_drivers_of_an_expired_shuffle_are_refused() {
    let cluster = start().await;
    let key = ShuffleKey::new("app-1", 3);
    let hello = proto::HeartbeatFromApplication {
        app_id: "app-1".to_owned(),
        should_response: true,
        ..Default::default()
    };
    let _: proto::HeartbeatFromApplicationResponse = cluster.ask_master(&hello).await.unwrap();
    let locations = [primary(cluster.id(0), 0), primary(cluster.id(0), 1)];
    assert_eq!(cluster.reserve(&key, &locations, SOFT_1G).await, 0);
    let [full, empty] = [0, 1].map(|id| LocationId::new(id, 0));
    assert_eq!(cluster.push(0, &key, full, &jvm(0, 0, 1, "rows")).await, Ok(Status::Success));
    assert_eq!(cluster.commit(0, &key, &[full, empty], &[], &[0]).await.committed_primary_ids, ["0-0"]);
    assert_eq!(cluster.read(0, &key, "0-0-0", WHOLE).await.unwrap(), ["rows"]);
    assert!(cluster.read(0, &key, "1-0-0", WHOLE).await.unwrap().is_empty());
    let open = cluster.open(0, &key, "0-0-0", WHOLE).await.unwrap();
    until_deleted(&cluster).await;

    for file in ["0-0-0", "1-0-0"] {
        for range in [WHOLE, (0, 1), (5, 9)] {
            let refused = cluster.open(0, &key, file, range).await.unwrap_err();
            assert!(is_final(refused), "{file}, {range:?}: a reader asks the other copy, or fails");
        }
    }
    let list = proto::OpenStreamList {
        shuffle_key: key.to_string(),
        file_name: ["0-0-0", "1-0-0"].map(str::to_owned).to_vec(),
        start_index: vec![0; 2],
        end_index: vec![i32::MAX; 2],
        initial_credit: vec![0; 2],
        read_local_shuffle: vec![false; 2],
    };
    let answer: proto::OpenStreamListResponse = cluster.ask_fetch(0, &Message::of(&list)).await.unwrap();
    assert_eq!(answer.stream_handler_opt.len(), 2);
    for opened in answer.stream_handler_opt {
        assert_eq!(opened.status, Status::OpenStreamFailed.code());
        assert!(opened.stream_handler.is_none() && refusal::is_final(&opened.error_msg));
    }
    let slice = ChunkSlice { stream_id: open.stream_id, chunk_index: 0, offset: 0, len: ChunkSlice::TO_END };
    let header = Header::ChunkFetchRequest(slice);
    let chunk = cluster.client.request(&cluster.fetch_address(0), header, Bytes::new(), WITHIN).await;
    assert!(matches!(chunk, Err(RequestError::Failed { .. })), "a stream that was open before: {chunk:?}");
    // A driver that commits only now learns of each location that it is lost.
    let committed = cluster.commit(0, &key, &[full, empty], &[], &[0]).await;
    assert_eq!(committed.status, Status::ShuffleNotRegistered.code());
    assert_eq!(committed.failed_primary_ids, ["0-0", "1-0"]);
    assert!(committed.committed_primary_ids.is_empty());
    // Nor does the next shuffle of the number answer for this one.
    assert_eq!(cluster.reserve(&key, &locations[1..], SOFT_1G).await, 0);
    assert!(cluster.open(0, &key, "0-0-0", WHOLE).await.is_err());
    assert!(cluster.open(0, &key, "1-0-0", WHOLE).await.is_err(), "it is not committed");
}

#[tokio::test(flavor = "multi_thread")]
async fn our_client_reports_the_loss_of_an_expired_shuffle() {
    let cluster = start().await;
    let options = Options {
        request_max: Duration::from_secs(5),
        retry_wait: Duration::from_millis(10),
        // It is silent for as long as the test runs.
        heartbeat: Duration::from_secs(3600),
        ..Options::new([cluster.master_address()])
    };
    let application = Application::start(options).await.unwrap();
    let [read, late] = [1, 2].map(ShuffleId);
    let read = application.register(read, 1, 2).await.unwrap();
    let late = application.register(late, 1, 2).await.unwrap();
    for shuffle in [&read, &late] {
        let mut writer = shuffle.writer(MapId(0), AttemptId(0));
        for partition in [0, 1] {
            writer.push(PartitionId(partition), b"rows".to_vec()).await.unwrap();
        }
        writer.finish().await.unwrap();
    }
    read.commit().await.unwrap();
    let mut reader = read.reader(PartitionId(0), ..).unwrap();
    assert!(reader.next().await.unwrap().is_some());
    until_deleted(&cluster).await;
    for partition in [0, 1] {
        let mut reader = read.reader(PartitionId(partition), ..).unwrap();
        for _ in 0..2 {
            let error = reader.next().await.expect_err("no end without rows");
            assert_eq!(error.kind(), Kind::DataLoss, "{error}");
        }
    }
    let error = late.commit().await.expect_err("what it has pushed is gone");
    assert_eq!(error.kind(), Kind::DataLoss, "{error}");
    assert!(late.reader(PartitionId(0), ..).is_err());
}
