//! Goal: a large body is sent on while it arrives, and a replica never has what its primary did not take. Method: a client
//! that stops in the middle of a body, and a replica that is this test, which sees what has come by then.

use std::time::Duration;

use crate::cluster::{Cluster, SOFT_1G, WHOLE, WITHIN, batch, noise, primary};
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use yeoul_shuffle::ids::{LocationId, Mode, ShuffleKey, WorkerId};
use yeoul_shuffle::wire::batch::ByteOrder;
use yeoul_shuffle::wire::packed::Location;
use yeoul_shuffle::wire::{Head, Header, Limits, Status};

const LEN: usize = 1 << 20;
const LOCATION: LocationId =
    LocationId { partition: yeoul_shuffle::ids::PartitionId(0), epoch: yeoul_shuffle::ids::Epoch(0) };

/// A worker whose replica is this test.
struct Pair {
    len: usize,
    cluster: Cluster,
    key: ShuffleKey,
    replica: TcpListener,
    body: Bytes,
}

/// A connection of the worker to its replica.
struct Copying {
    socket: TcpStream,
    request_id: i64,
    buffer: BytesMut,
}

impl Pair {
    async fn start(len: usize) -> Self {
        let cluster = Cluster::start(1, 128 << 20).await;
        let replica = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = replica.local_addr().unwrap().port();
        let peer = WorkerId { replicate_port: port, ..cluster.id(0).clone() };
        let key = ShuffleKey::new("app-1", 0);
        let location = Location { peer: Some(peer), ..primary(cluster.id(0), 0) };
        assert_eq!(cluster.reserve(&key, &[location], SOFT_1G).await, 0);
        let body = batch(ByteOrder::Little, 0, 0, 1, &noise(1, len - 16));
        Self { len, cluster, key, replica, body }
    }

    /// A client that has sent all but the last 1000 bytes of the body.
    async fn client(&self) -> TcpStream {
        let id = self.cluster.id(0);
        let mut socket = TcpStream::connect(format!("{}:{}", id.host, id.push_port)).await.unwrap();
        let header = Header::PushData {
            request_id: 7,
            mode: Mode::Primary,
            shuffle: self.key.clone(),
            location: LOCATION,
        };
        let mut frame = BytesMut::new();
        header.encode(self.len, &mut frame);
        frame.extend_from_slice(&self.body[..self.len - 1000]);
        socket.write_all(&frame).await.unwrap();
        socket
    }

    /// The copy, of which the head and at least `len` bytes of the body have come.
    async fn copying(&self, len: usize) -> Copying {
        let (socket, _) = within(self.replica.accept()).await.unwrap();
        let mut copying = Copying { socket, request_id: 0, buffer: BytesMut::new() };
        let head = loop {
            match Head::decode(&mut copying.buffer, &Limits::PUSH).unwrap() {
                Some(head) => break head,
                None => assert!(copying.read().await > 0),
            }
        };
        assert_eq!(head.body_len, self.len);
        let Header::PushData { request_id, mode: Mode::Replica, location: LOCATION, .. } = head.header else {
            panic!("{:?}", head.header);
        };
        copying.request_id = request_id;
        while copying.buffer.len() < len {
            assert!(copying.read().await > 0, "after {} bytes", copying.buffer.len());
        }
        copying
    }
}

impl Copying {
    async fn read(&mut self) -> usize {
        within(self.socket.read_buf(&mut self.buffer)).await.unwrap()
    }

    /// Takes what comes until the connection ends, and says how much of the body it was.
    async fn until_end(mut self) -> usize {
        while within(self.socket.read_buf(&mut self.buffer)).await.is_ok_and(|read| read > 0) {}
        self.buffer.len()
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(WITHIN, future).await.expect("in time")
}

/// The status that the client is answered.
async fn answer(client: &mut TcpStream) -> (Header, Option<Status>) {
    let mut buffer = BytesMut::new();
    loop {
        if let Some(head) = Head::decode(&mut buffer, &Limits::ANSWERS).unwrap() {
            while buffer.len() < head.body_len {
                assert!(within(client.read_buf(&mut buffer)).await.unwrap() > 0);
            }
            let status = buffer.first().and_then(|byte| Status::from_code((*byte).into()));
            return (head.header, status);
        }
        assert!(within(client.read_buf(&mut buffer)).await.unwrap() > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_replica_has_the_first_bytes_before_the_last_were_sent() {
    let pair = Pair::start(LEN).await;
    let mut client = pair.client().await;
    let mut copying = pair.copying(LEN / 8).await;
    client.write_all(&pair.body[LEN - 1000..]).await.unwrap();
    while copying.buffer.len() < LEN {
        assert!(copying.read().await > 0);
    }
    assert!(copying.buffer[..] == pair.body[..], "the copy is the body");
    // The client is answered when both have it, not before.
    let early = tokio::time::timeout(Duration::from_millis(50), client.readable()).await;
    assert!(early.is_err(), "the replica has not answered yet");
    let mut reply = BytesMut::new();
    Header::RpcResponse { request_id: copying.request_id }.encode(1, &mut reply);
    reply.extend_from_slice(&[0]);
    copying.socket.write_all(&reply).await.unwrap();
    assert_eq!(answer(&mut client).await, (Header::RpcResponse { request_id: 7 }, Some(Status::Success)));
    pair.cluster.commit(0, &pair.key, &[LOCATION], &[], &[0]).await;
    let read = pair.cluster.read(0, &pair.key, "0-0-0", WHOLE).await.unwrap();
    assert!(read.len() == 1 && read[0] == pair.body[16..]);
    let memory = pair.cluster.workers[0].node().store.memory();
    assert!(memory.used() < (LEN + (LEN >> 2)) as u64, "{} bytes for a batch of {LEN}", memory.used());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_primary_does_not_take_the_replica_does_not_have() {
    let pair = Pair::start(LEN).await;
    // The client goes away in the middle of the body.
    let client = pair.client().await;
    let copying = pair.copying(LEN / 8).await;
    drop(client);
    assert!(copying.until_end().await < LEN);
    // The location is committed in the middle of the body.
    let mut client = pair.client().await;
    let copying = pair.copying(LEN / 8).await;
    pair.cluster.commit(0, &pair.key, &[LOCATION], &[], &[-1]).await;
    client.write_all(&pair.body[LEN - 1000..]).await.unwrap();
    assert_eq!(answer(&mut client).await.1, Some(Status::HardSplit));
    assert!(copying.until_end().await < LEN);
}

/// The other worker may refuse a copy by its head. Its answer is then there before the client has sent the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_whose_body_is_still_sent_is_not_used_for_another() {
    let pair = Pair::start(LEN).await;
    let first = pair.client().await;
    let mut copying = pair.copying(LEN / 8).await;
    let mut early = BytesMut::new();
    Header::RpcResponse { request_id: copying.request_id }.encode(1, &mut early);
    early.extend_from_slice(&[Status::HardSplit.code() as u8]);
    copying.socket.write_all(&early).await.unwrap();
    let forwarded = &pair.cluster.workers[0].node().meters.forwarded;
    let answered = async {
        while forwarded.get() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    within(answered).await; // the worker has the answer
    let mut second = pair.client().await;
    let mut other = pair.copying(LEN / 8).await;
    drop(first);
    assert!(copying.until_end().await < LEN);
    second.write_all(&pair.body[LEN - 1000..]).await.unwrap();
    while other.buffer.len() < LEN {
        assert!(other.read().await > 0, "it ended with the first one");
    }
    let mut reply = BytesMut::new();
    Header::RpcResponse { request_id: other.request_id }.encode(1, &mut reply);
    reply.extend_from_slice(&[0]);
    other.socket.write_all(&reply).await.unwrap();
    assert_eq!(answer(&mut second).await.1, Some(Status::Success));
}

/// A row of its own kind: it is too large to be held until it is whole.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_row_that_the_primary_does_not_take_the_replica_does_not_have_the_end() {
    let len = 12 << 20;
    let pair = Pair::start(len).await;
    // The replica has all but the last piece before the client has sent the end of it.
    let (mut client, copying) = tokio::join!(pair.client(), pair.copying(len - LEN));
    let written = pair.cluster.workers[0].node().store.directories().iter().map(|one| one.written());
    assert!(written.sum::<u64>() > 0, "it is written while it arrives");
    pair.cluster.commit(0, &pair.key, &[LOCATION], &[], &[-1]).await;
    client.write_all(&pair.body[len - 1000..]).await.unwrap();
    assert_eq!(answer(&mut client).await.1, Some(Status::HardSplit));
    assert!(copying.until_end().await < len);
}
