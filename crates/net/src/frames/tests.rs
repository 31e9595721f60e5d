//! Goal: the promises of this module over real sockets. Method: a service that answers by the first letter of the body,
//! asked by our client and by bare sockets that misbehave.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::letters::{Header, Letters, Limits, put};
use super::*;
use crate::connections::{Connection, ConnectionId, Handler, Serving, serve_connections};
use crate::gate::Gate;
use crate::listener::Listener;
use crate::stream::Body;

mod occupants;

type Client = super::Client<Letters>;
type Payload = super::Payload<Letters>;
type Reply = super::Reply<Letters>;

const WITHIN: Duration = Duration::from_secs(10);

/// A source of `count` pieces of `len` bytes each, which counts how many it has given.
struct Pieces {
    count: u8,
    len: usize,
    given: u8,
    total: Arc<AtomicUsize>,
}

impl PieceSource<Letters> for Pieces {
    fn next(&mut self) -> PieceFuture<'_> {
        Box::pin(async move {
            if self.given == self.count {
                return Ok(None);
            }
            self.given += 1;
            self.total.fetch_add(1, Ordering::Relaxed);
            Ok(Some(vec![Bytes::from(vec![self.given; self.len])]))
        })
    }
}

/// A source on a disk that hangs.
struct Never;

impl PieceSource<Letters> for Never {
    fn next(&mut self) -> PieceFuture<'_> {
        Box::pin(std::future::pending())
    }
}

/// A source that has no first piece, and says what is sent instead.
struct Broken {
    id: i64,
    stands_still: bool,
}

impl PieceSource<Letters> for Broken {
    fn next(&mut self) -> PieceFuture<'_> {
        Box::pin(async {
            if self.stands_still {
                std::future::pending::<()>().await;
            }
            Err(io::Error::other("rotten"))
        })
    }

    fn broke(&mut self, error: &io::Error) -> Option<Header> {
        Some(Header::Failure { id: self.id, text: error.to_string() })
    }
}

struct Answers {
    reply: Reply,
    id: i64,
}

impl Answers {
    fn respond(self, body: impl Into<Payload>) {
        self.reply.frame(Header::Answer { id: self.id }, body);
    }

    fn fail(self, text: &str) {
        self.reply.frame(Header::Failure { id: self.id, text: text.to_owned() }, Payload::empty());
    }
}

/// Answers by the first letter.
#[derive(Default)]
struct Reader {
    held: Mutex<Vec<Answers>>,
    released: Notify,
    ended: Mutex<Vec<ConnectionId>>,
    echoed: AtomicUsize,
    pieces: Arc<AtomicUsize>,
    busy: Notify,
    /// True once a call that blocks its thread is to end.
    let_go: Mutex<bool>,
    wakes: Condvar,
}

impl Service<Letters> for Reader {
    async fn call(&self, head: Header, body: &mut Body<'_>, reply: Reply) -> io::Result<()> {
        let Header::Request { id } = head else { panic!("{head:?} is no request") };
        let reply = Answers { reply, id };
        let Some(letter) = body.piece(1).await? else {
            reply.fail("no letter");
            return Ok(());
        };
        match letter[0] {
            b'e' => {
                let rest = body.whole().await?;
                self.echoed.fetch_add(rest.len(), Ordering::Relaxed);
                reply.respond(Payload::parts(vec![
                    rest.slice(..rest.len() / 2),
                    rest.slice(rest.len() / 2..),
                ]));
            }
            b'v' => {
                // Room behind the body, as a worker's buffers have it.
                let mut rest = Vec::with_capacity(body.remaining() + 10_000);
                body.read_into(&mut rest, usize::MAX).await?;
                reply.respond(Bytes::from(rest));
            }
            b's' => reply.respond(Bytes::from_static(b"skipped")),
            b'h' => self.held.lock().unwrap().push(reply),
            b'r' => {
                self.held
                    .lock()
                    .unwrap()
                    .drain(..)
                    .rev()
                    .for_each(|held| held.respond(Bytes::from_static(b"held")));
                reply.respond(Bytes::new());
                self.released.notify_one();
            }
            b'p' => {
                let source = Pieces { count: 100, len: 1000, given: 0, total: self.pieces.clone() };
                reply.respond(Payload::pull(100_000, Box::new(source)));
            }
            b'l' => {
                let source = Pieces { count: 3, len: 1000, given: 0, total: self.pieces.clone() };
                reply.respond(Payload::pull(3001, Box::new(source)));
            }
            b'w' => {
                let source = Pieces { count: 3, len: 32 << 20, given: 0, total: self.pieces.clone() };
                reply.respond(Payload::pull(96 << 20, Box::new(source)));
            }
            b'b' | b't' => {
                let source = Broken { id, stands_still: letter[0] == b't' };
                reply.respond(Payload::pull(1000, Box::new(source)));
            }
            b'n' => reply.respond(Payload::pull(1000, Box::new(Never))),
            b'd' => {
                // On the thread, so that nothing can end it meanwhile.
                self.busy.notify_one();
                let let_go = self.let_go.lock().unwrap();
                drop(self.wakes.wait_timeout_while(let_go, WITHIN, |let_go| !*let_go).unwrap());
            }
            b'x' => return Err(io::Error::other("asked to")),
            _ => reply.fail("another letter"),
        }
        Ok(())
    }

    fn closed(&self, connection: ConnectionId) {
        self.ended.lock().unwrap().push(connection);
        self.released.notify_one();
    }
}

async fn server() -> (Arc<Reader>, Serving, String) {
    server_with(Duration::from_millis(300)).await
}

async fn server_with(idle_max: Duration) -> (Arc<Reader>, Serving, String) {
    let service = Arc::new(Reader::default());
    let limits = Limits { body_max: 4 << 20 };
    let options = FrameOptions { idle_max, connections_max: 3, ..FrameOptions::new(limits) };
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.address().to_string();
    (service.clone(), serve_frames(listener, options, service), address)
}

async fn ask(client: &Client, address: &str, body: Bytes) -> Result<Bytes, RequestError> {
    client.request(address, Header::Request { id: 0 }, body, WITHIN).await
}

fn varied(first: u8, len: usize) -> Bytes {
    std::iter::once(first).chain((0..len).map(|at| (at * at / 7) as u8)).collect()
}

#[tokio::test]
async fn bodies_of_every_size_come_back_whole() {
    let (_service, _handle, address) = server().await;
    let client = Client::default();
    for len in [0, 1, 100, 8191, 8192, 65535, 65536, 65537, 1 << 20, (4 << 20) - 1] {
        let sent = varied(b'e', len);
        assert_eq!(ask(&client, &address, sent.clone()).await.unwrap(), sent.slice(1..), "{len} bytes");
    }
}

#[tokio::test]
async fn unread_bodies_are_skipped_and_failures_are_told_apart() {
    let (_service, handle, address) = server().await;
    let client = Client::default();
    assert_eq!(ask(&client, &address, varied(b's', 1 << 20)).await.unwrap(), "skipped");
    assert!(
        matches!(ask(&client, &address, varied(b'?', 5)).await, Err(RequestError::Failed { text, .. }) if text == "another letter")
    );
    assert!(matches!(ask(&client, &address, varied(b'x', 5)).await, Err(RequestError::Lost { .. })));
    assert_eq!(ask(&client, &address, varied(b's', 9)).await.unwrap(), "skipped", "on a new connection");
    let header = Header::Request { id: 0 };
    let short = client.request(&address, header, varied(b'h', 0), Duration::from_millis(50)).await;
    assert!(matches!(short, Err(RequestError::TimedOut { .. })));
    handle.stop().await;
    assert!(matches!(
        ask(&client, &address, varied(b's', 9)).await,
        Err(RequestError::Lost { .. } | RequestError::Connect { .. })
    ));
    assert!(matches!(ask(&client, &address, varied(b's', 9)).await, Err(RequestError::Connect { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_stopped_a_listener_is_alone() {
    let (service, handle, address) = server().await;
    let connections = handle.connections();
    let client = Client::default();
    let asking = tokio::spawn(async move { ask(&client, &address, varied(b'd', 0)).await });
    service.busy.notified().await;
    let stopping = tokio::spawn(handle.stop());
    tokio::task::yield_now().await;
    assert!(!stopping.is_finished(), "a call has not ended");
    *service.let_go.lock().unwrap() = true;
    service.wakes.notify_all();
    stopping.await.unwrap();
    assert_eq!((connections.get(), service.ended.lock().unwrap().len()), (0, 1));
    assert_eq!(Arc::strong_count(&service), 1);
    assert!(matches!(asking.await.unwrap(), Err(RequestError::Lost { .. })));
}

#[tokio::test]
async fn answers_may_overtake_each_other() {
    let (service, _handle, address) = server().await;
    let client = Client::default();
    let held = async { ask(&client, &address, varied(b'h', 0)).await.unwrap() };
    let release = async {
        while service.held.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        ask(&client, &address, varied(b'e', 3)).await.unwrap();
        ask(&client, &address, varied(b'r', 0)).await.unwrap()
    };
    let (held, released) = tokio::join!(held, release);
    assert_eq!((held, released), (Bytes::from_static(b"held"), Bytes::new()));
}

#[tokio::test]
async fn pulled_bodies_arrive_in_order_and_a_wrong_total_ends_the_connection() {
    let (_service, _handle, address) = server().await;
    let client = Client::default();
    let expected: Bytes = (1..=100).flat_map(|piece| [piece; 1000]).collect();
    assert_eq!(ask(&client, &address, varied(b'p', 0)).await.unwrap(), expected);
    assert!(matches!(ask(&client, &address, varied(b'l', 0)).await, Err(RequestError::Lost { .. })));
}

#[tokio::test]
async fn a_body_that_cannot_begin_is_a_failure_and_costs_no_one_else_the_connection() {
    let (service, _handle, address) = server().await;
    let client = Client::default();
    let asked = tokio::join!(
        ask(&client, &address, varied(b'e', 9)),
        ask(&client, &address, varied(b'b', 0)),
        ask(&client, &address, varied(b'e', 9)),
        ask(&client, &address, varied(b't', 0)),
        ask(&client, &address, varied(b'p', 0)),
    );
    assert!(asked.0.is_ok() && asked.2.is_ok() && asked.4.is_ok());
    for failed in [asked.1, asked.3] {
        assert!(matches!(failed, Err(RequestError::Failed { .. })), "{failed:?}");
    }
    assert!(service.ended.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_nobody_waits_for_any_more_is_not_sent() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let client =
        Client::new(ClientOptions { requests_max: 2, ..ClientOptions::new(Letters::answer_limits()) });
    // The first fills the sockets. The second stands behind it, and the third finds no place.
    let first = varied(b'e', 32 << 20);
    // Time enough for the first to begin: of what has begun all is sent.
    let brief = 100;
    for (body, wait_ms) in
        [(first.clone(), 20 * brief), (varied(b'e', 1000), brief), (varied(b'e', 1000), brief)]
    {
        let wait = Duration::from_millis(wait_ms);
        let asked = tokio::time::timeout(wait, ask(&client, &address, body)).await;
        assert!(asked.is_err(), "nobody answers");
    }
    let last = varied(b'e', 10);
    let mut expected = BytesMut::new();
    put(&mut expected, &Header::Request { id: 0 }, &first);
    put(&mut expected, &Header::Request { id: 2 }, &last.clone());
    let asking = tokio::spawn(async move { ask(&client, &address, last).await });
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut received = vec![0; expected.len()];
    let read = tokio::time::timeout(WITHIN, socket.read_exact(&mut received)).await;
    read.expect("all of it comes").unwrap();
    assert!(received == expected, "the second, too, or something else");
    drop(socket);
    assert!(matches!(asking.await.unwrap(), Err(RequestError::Lost { .. })));
}

/// Takes the connection that a client makes for its next request, which gets no answer.
async fn connection_of(
    client: &Client,
    address: &str,
    listener: &tokio::net::TcpListener,
) -> Option<TcpStream> {
    let header = Header::Request { id: 0 };
    let asking = client.request(address, header, Bytes::new(), Duration::from_millis(300));
    let (asked, accepted) =
        tokio::join!(asking, tokio::time::timeout(Duration::from_millis(300), listener.accept()));
    assert!(matches!(asked, Err(RequestError::TimedOut { .. })), "{asked:?}");
    accepted.ok().map(|accepted| accepted.unwrap().0)
}

#[tokio::test]
async fn a_server_that_says_nothing_any_more_is_asked_over_a_new_connection() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let client = Client::default();
    let mut first = connection_of(&client, &address, &listener).await.expect("there was none");
    let second = connection_of(&client, &address, &listener).await;
    assert!(second.is_some(), "it asked where nobody answered");
    let end = tokio::time::timeout(WITHIN, first.read_to_end(&mut Vec::new())).await;
    end.expect("nobody keeps the first").unwrap();
}

#[tokio::test]
async fn a_server_that_is_slow_with_one_answer_keeps_its_connection() {
    let (service, _handle, address) = server().await;
    let client = Client::default();
    let held = async {
        let header = Header::Request { id: 0 };
        let asked = client.request(&address, header, varied(b'h', 0), Duration::from_secs(5)).await;
        assert!(matches!(asked, Err(RequestError::TimedOut { .. })), "{asked:?}");
    };
    let echoed = async {
        while service.held.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        ask(&client, &address, varied(b'e', 3)).await.unwrap();
    };
    tokio::join!(held, echoed);
    ask(&client, &address, varied(b'e', 3)).await.unwrap();
    assert!(service.ended.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_is_in_flight_when_a_client_disconnects_ends_as_it_would_have() {
    let (service, handle, address) = server().await;
    let client = Client::default();
    let held = async { ask(&client, &address, varied(b'h', 0)).await.unwrap() };
    let release = async {
        while service.held.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        client.disconnect(&address);
        ask(&client, &address, varied(b'e', 3)).await.unwrap();
        assert_eq!(handle.connections().get(), 2);
        ask(&client, &address, varied(b'r', 0)).await.unwrap();
    };
    assert_eq!(tokio::join!(held, release).0, "held");
    let closed = async {
        while handle.connections().get() > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(WITHIN, closed).await.expect("the first closes behind its request");
}

#[tokio::test]
async fn the_end_of_a_connection_is_told_while_answers_are_held() {
    let (service, handle, address) = server().await;
    let mut socket = TcpStream::connect(&address).await.unwrap();
    let mut bytes = BytesMut::new();
    put(&mut bytes, &Header::Request { id: 1 }, &varied(b'h', 0));
    socket.write_all(&bytes).await.unwrap();
    while service.held.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let id = service.held.lock().unwrap()[0].reply.connection();
    assert_eq!(handle.connections().get(), 1);
    drop(socket);
    service.released.notified().await;
    assert_eq!(*service.ended.lock().unwrap(), [id]);
    assert!(service.held.lock().unwrap()[0].reply.is_closed());
}

#[test]
fn a_connection_whose_runtime_has_ended_is_made_anew() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let serving = runtime();
    let (_service, _handle, address) = serving.block_on(server());
    let client = Client::default();
    for _ in 0..2 {
        let asking = runtime();
        assert_eq!(asking.block_on(ask(&client, &address, "e1".into())).unwrap(), "1");
    }
}

#[tokio::test]
async fn half_frames_nonsense_and_too_many_connections_are_closed() {
    let (_service, _handle, address) = server().await;
    let mut frame = BytesMut::new();
    put(&mut frame, &Header::Request { id: 1 }, &varied(b'e', 1000));
    for bad in [
        &frame[..5],
        &frame[..40],
        b"GET / HTTP/1.1\r\n\r\n",
        &[0x7f; 64],
        &[0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff],
    ] {
        let mut socket = TcpStream::connect(&address).await.unwrap();
        socket.write_all(bad).await.unwrap();
        let end = tokio::time::timeout(WITHIN, socket.read(&mut [0; 10])).await.expect("closed in time");
        assert!(matches!(end, Ok(0) | Err(_)), "nothing is answered to {bad:?}");
    }
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut socket = TcpStream::connect(&address).await.unwrap();
        socket.write_all(&frame).await.unwrap();
        assert!(socket.read(&mut [0; 10]).await.unwrap() > 0);
        held.push(socket);
    }
    let mut fourth = TcpStream::connect(&address).await.unwrap();
    fourth.write_all(&frame).await.unwrap();
    assert!(matches!(fourth.read(&mut [0; 10]).await, Ok(0) | Err(_)));
    assert!(held[0].write_all(&frame).await.is_ok());
}

#[tokio::test]
async fn a_peer_that_reads_nothing_pins_no_more_than_what_the_sockets_hold() {
    let (service, _handle, address) = server().await;
    let mut socket = TcpStream::connect(&address).await.unwrap();
    let mut frames = BytesMut::new();
    for request_id in 0..400 {
        put(&mut frames, &Header::Request { id: request_id }, &varied(b'p', 0));
    }
    socket.write_all(&frames).await.unwrap();
    // The service's writer gives up after 300 ms without progress; by then the pieces given fit the two socket buffers.
    service.released.notified().await;
    let given = service.pieces.load(Ordering::Relaxed) * 1000;
    assert!(given > 100_000 && given < 20_000_000, "{given} of 40,000,000 bytes were pulled");
}

#[tokio::test]
async fn the_next_piece_is_pulled_while_the_one_before_leaves() {
    let (service, _handle, address) = server().await;
    let mut socket = TcpStream::connect(&address).await.unwrap();
    let mut frame = BytesMut::new();
    put(&mut frame, &Header::Request { id: 1 }, &varied(b'w', 0));
    socket.write_all(&frame).await.unwrap();
    // Nobody reads: the first piece never leaves whole, and the writer gives up after 300 ms.
    service.released.notified().await;
    assert_eq!(service.pieces.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_peer_that_reads_nothing_is_not_asked_for_more() {
    let (service, _handle, address) = server().await;
    let mut socket = TcpStream::connect(&address).await.unwrap();
    let mut frames = BytesMut::new();
    for request_id in 0..60 {
        put(&mut frames, &Header::Request { id: request_id }, &varied(b'e', 2 << 20));
    }
    // The service gives up after 300 ms without progress, and closes the connection. A slow machine reads less until then.
    assert!(socket.write_all(&frames).await.is_err());
    let echoed = service.echoed.load(Ordering::Relaxed);
    assert!(echoed > 0 && echoed < 100 << 20, "{echoed} of {} bytes", frames.len());
}

#[tokio::test]
async fn what_lies_elsewhere_does_not_wait_for_each_body_of_a_disk_that_stands_still() {
    let idle_max = Duration::from_secs(3);
    let (_service, _handle, address) = server_with(idle_max).await;
    let client =
        Client::new(ClientOptions { connections: 1, ..ClientOptions::new(Letters::answer_limits()) });
    let begin = Instant::now();
    let mut late = JoinSet::new();
    for _ in 0..8 {
        let (client, address) = (client.clone(), address.clone());
        late.spawn(async move { ask(&client, &address, varied(b't', 0)).await });
    }
    tokio::task::yield_now().await; // all of them are in front
    assert_eq!(ask(&client, &address, varied(b'e', 10)).await.unwrap().len(), 10);
    let late = late.join_all().await;
    assert!(late.into_iter().all(|answer| matches!(answer, Err(RequestError::Failed { .. }))));
    // Half of the time that a body may make no progress for the first of them, and far less for the others.
    assert!(begin.elapsed() < idle_max * 5 / 2, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_body_that_stands_still_holds_up_no_answer_before_it_and_ends_in_time() {
    let (_service, _handle, address) = server().await;
    let mut socket = TcpStream::connect(&address).await.unwrap();
    let asked = varied(b'e', 100);
    let mut frames = BytesMut::new();
    // All of them are answered in one turn, so that the answers are gathered behind each other.
    for (request_id, body) in [asked.clone(), asked.clone(), varied(b'n', 0)].into_iter().enumerate() {
        put(&mut frames, &Header::Request { id: request_id as i64 }, &body);
    }
    socket.write_all(&frames).await.unwrap();
    let mut expected = BytesMut::new();
    for request_id in 0..2 {
        put(&mut expected, &Header::Answer { id: request_id }, &asked.slice(1..));
    }
    let mut answered = Vec::new();
    let end = tokio::time::timeout(WITHIN, socket.read_to_end(&mut answered)).await;
    end.expect("the connection ends").unwrap();
    assert!(answered == expected, "{} of {} bytes", answered.len(), expected.len());
}

#[tokio::test]
async fn what_comes_along_with_a_body_is_the_next_frame() {
    let (_, _server, address) = server().await;
    let client = Client::new(ClientOptions::new(Letters::answer_limits()));
    let mut asked = tokio::task::JoinSet::new();
    for number in 0..200 {
        let body = varied(if number % 3 == 0 { b'e' } else { b'v' }, number * 977 % 40_000);
        let (client, address) = (client.clone(), address.clone());
        asked.spawn(async move { (ask(&client, &address, body.clone()).await.unwrap(), body) });
    }
    while let Some(answered) = asked.join_next().await {
        let (answer, body) = answered.unwrap();
        assert_eq!(answer, body.slice(1..));
    }
}

#[tokio::test]
async fn a_client_uses_its_connections_in_turn() {
    let (_, server, address) = server().await;
    let client =
        Client::new(ClientOptions { connections: 2, ..ClientOptions::new(Letters::answer_limits()) });
    for number in 0..6 {
        let body = varied(b'e', number);
        assert_eq!(ask(&client, &address, body.clone()).await.unwrap(), body.slice(1..));
    }
    assert_eq!(server.connections().get(), 2);
}

/// Reads a greeting before the frames.
struct Greeted(Reader);

impl Handler for Greeted {
    async fn serve(&self, mut connection: Connection) -> io::Result<()> {
        let mut greeting = [0; 5];
        connection.stream.read_exact(&mut greeting).await?;
        if &greeting != b"hello" {
            return Err(io::ErrorKind::InvalidData.into());
        }
        serve_frames_of::<Letters>(connection, &FrameOptions::new(Letters::answer_limits()), &self.0).await
    }
}

#[tokio::test]
async fn a_greeting_goes_before_the_frames_of_each_connection() {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let serving = serve_connections(listener, Gate::new(10), Arc::new(Greeted(Reader::default())));
    let address = serving.address().to_string();
    let greeting = Bytes::from_static(b"hello");
    let options = ClientOptions { greeting, connections: 2, ..ClientOptions::new(Letters::answer_limits()) };
    let client = Client::new(options);
    for len in 0..4 {
        let sent = varied(b'e', len);
        assert_eq!(ask(&client, &address, sent.clone()).await.unwrap(), sent.slice(1..));
    }
    assert_eq!(serving.connections().get(), 2);
    let silent = ask(&Client::default(), &address, varied(b'e', 9)).await;
    assert!(matches!(silent, Err(RequestError::Lost { .. })), "{silent:?}");
}
