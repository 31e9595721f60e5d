//! Pushes a shuffle through one worker and reads it back, and says how fast: `load HOST:RPC:PUSH:FETCH:REPLICATE
//! [mebibytes] [partitions] [batch bytes] [clients]`. The worker needs no master for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::task::JoinSet;
use yeoul_shuffle::ids::{AttemptId, BatchId, LocationId, MapId, Mode, ShuffleKey, WorkerId};
use yeoul_shuffle::net::{Client, Payload};
use yeoul_shuffle::wire::batch::{BatchHeader, Batches, ByteOrder};
use yeoul_shuffle::wire::message::{Message, Receivable, Typed};
use yeoul_shuffle::wire::packed::Location;
use yeoul_shuffle::wire::rpc::{Answer, Request, WORKER};
use yeoul_shuffle::wire::{ChunkSlice, Header, Received, proto, received};

const WITHIN: Duration = Duration::from_secs(240);
const IN_FLIGHT: usize = 32;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let id: WorkerId = arguments.next().expect("a worker id").parse().expect("host and four ports");
    let mut number = |default: u64| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (total, partitions, batch_len, clients) =
        (number(1024) << 20, number(64) as i32, number(65536), number(4));
    let key = ShuffleKey::new(format!("load-{}", std::process::id()), 0);
    let location = |partition| LocationId::new(partition, 0);
    let locations: Vec<_> = (0..partitions)
        .map(|partition| Location {
            id: location(partition),
            mode: Mode::Primary,
            worker: id.clone(),
            peer: None,
        })
        .collect();
    let reserve = proto::ReserveSlots {
        application_id: key.application.to_string(),
        partition_locations_pair: Some(Location::pack(&locations)),
        split_threshold: 1 << 40,
        ..Default::default()
    };
    rpc::<_, received::ReserveSlotsResponse>(&id, &reserve).await;

    let seed: Vec<u8> =
        (0..batch_len as u32 * 2).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let seed = Bytes::from(seed);
    let count = total / batch_len;
    let next = Arc::new(AtomicU64::new(0));
    let begin = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let client = Client::default();
        for _ in 0..IN_FLIGHT {
            let (client, key, next, seed) = (client.clone(), key.clone(), Arc::clone(&next), seed.clone());
            let address = format!("{}:{}", id.host, id.push_port);
            tasks.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let header = Header::PushData {
                        request_id: 0,
                        mode: Mode::Primary,
                        shuffle: key.clone(),
                        location: LocationId::new((number % partitions as u64) as i32, 0),
                    };
                    let answer =
                        client.request(&address, header, batch(number, batch_len, &seed), WITHIN).await;
                    assert_eq!(&answer.expect("an answer")[..], [0]);
                }
            });
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("a pusher");
    }
    report("push", total, begin);
    let commit = proto::CommitFiles {
        application_id: key.application.to_string(),
        primary_ids: (0..partitions).map(|partition| location(partition).to_string()).collect(),
        ..Default::default()
    };
    let begin = Instant::now();
    rpc::<_, received::CommitFilesResponse>(&id, &commit).await;
    println!("commit {:?}", begin.elapsed());

    let begin = Instant::now();
    let read = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    let partitions_left = Arc::new(AtomicU64::new(0));
    for _ in 0..clients {
        let (id, key, read, left) =
            (id.clone(), key.clone(), Arc::clone(&read), Arc::clone(&partitions_left));
        tasks.spawn(async move {
            let client = Client::default();
            loop {
                let partition = left.fetch_add(1, Ordering::Relaxed);
                if partition >= partitions as u64 {
                    return;
                }
                read.fetch_add(fetch(&client, &id, &key, partition as i32).await, Ordering::Relaxed);
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("a reader");
    }
    report("fetch", total, begin);
    assert_eq!(read.load(Ordering::Relaxed), count, "batches read");
}

fn batch(number: u64, len: u64, seed: &Bytes) -> Payload {
    let header = BatchHeader {
        map: MapId((number / 1000) as i32),
        attempt: AttemptId(0),
        batch: BatchId((number % 1000) as i32),
        len: len as u32 - 16,
    };
    let mut head = BytesMut::new();
    header.encode(ByteOrder::Little, &mut head);
    let from = (number % len) as usize;
    Payload::parts(vec![head.freeze(), seed.slice(from..from + len as usize - 16)])
}

async fn fetch(client: &Client, id: &WorkerId, key: &ShuffleKey, partition: i32) -> u64 {
    let address = format!("{}:{}", id.host, id.fetch_port);
    let open = proto::OpenStream {
        shuffle_key: key.to_string(),
        file_name: format!("{partition}-0-0"),
        end_index: i32::MAX,
        ..Default::default()
    };
    let open = Message::of(&open).to_bare();
    let opened = client.request(&address, Header::RpcRequest { request_id: 0 }, open, WITHIN).await;
    let opened = Message::decode_bare(opened.expect("a stream"));
    let stream = opened.and_then(|message| message.parse::<received::StreamHandler>()).expect("a stream");
    let mut batches = 0;
    for chunk_index in 0..stream.num_chunks {
        let slice =
            ChunkSlice { stream_id: stream.stream_id, chunk_index, offset: 0, len: ChunkSlice::TO_END };
        let chunk =
            client.request(&address, Header::ChunkFetchRequest(slice), Payload::empty(), WITHIN).await;
        batches += Batches::new(chunk.expect("a chunk"), ByteOrder::Little)
            .inspect(|batch| assert!(batch.is_ok()))
            .count() as u64;
    }
    batches
}

async fn rpc<Q: Typed, A: Receivable>(id: &WorkerId, question: &Q) -> Received<A> {
    let address = format!("{}:{}", id.host, id.rpc_port);
    let request = Request::encode_native(WORKER, &Message::of(question));
    let header = Header::RpcRequest { request_id: 0 };
    let answer = Client::default().request(&address, header, request, WITHIN).await.expect("an answer");
    Answer::decode_message(answer).and_then(|message| message.parse()).expect("the answer's message")
}

fn report(what: &str, bytes: u64, begin: Instant) {
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{what} {} MiB in {seconds:.2} s: {:.0} MiB/s",
        bytes >> 20,
        bytes as f64 / f64::from(1 << 20) / seconds
    );
}
