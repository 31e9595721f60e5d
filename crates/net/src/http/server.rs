//! HTTP/1.1 for people, scripts and metrics: a server with limits that knows nothing of its pages.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::accept;
use super::admission::{self, Head};
use super::body::Answer;
use super::host_names::HostNames;
use super::pages::{Pages, Request, Response};
use crate::connections::{Connection, Handler, Serving, serve_connections};
use crate::gate::{Account, Gate, Standing};
use crate::listener::Listener;

/// Bytes of a request's body that are read.
const BODY_MAX: usize = 1 << 20;
/// Bytes of a request's head, and of what is buffered of a connection.
const BUFFER_MAX: usize = 64 << 10;
/// Connections at a time. One more takes the place of one that waits for its peer.
const CONNECTIONS_MAX: usize = 512;
/// Bytes that a connection is charged: its task and hyper's first buffers.
const CONNECTION_BYTES: u64 = 24 << 10;
/// Bytes of a request's body for which there is always room.
const BODY_BYTES_FREE: u64 = 16 << 10;
/// Bytes of an answer that is always given: what probes ask for is below it. A longer one needs room.
const ANSWER_BYTES_FREE: usize = 256 << 10;
/// How long a request's head may take to arrive, and how long a connection may idle.
const HEAD_MAX: Duration = Duration::from_secs(5);
/// How long a request's body may take to arrive.
const REQUEST_MAX: Duration = Duration::from_secs(15);
/// Limits that make a peer that does not read its answers give its place back.
const LIFETIME: Lifetime = Lifetime { requests: Duration::from_secs(60), last_answer: REQUEST_MAX };

/// Headers of every answer: a browser takes it for nothing but what it says it is, shows it in no frame, and gives it to no
/// page of another site.
const HEADERS: [(HeaderName, HeaderValue); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("frame-ancestors 'none'; base-uri 'none'; object-src 'none'"),
    ),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// How a server of pages treats its peers.
#[derive(Debug, Clone, Default)]
pub struct PageOptions {
    /// Names by which peers may ask for pages, beside this machine's own ([`admission`]).
    pub names: Vec<String>,
    /// The memory that connections and long answers are charged to.
    pub account: Account,
}

/// How long a connection lasts at most.
#[derive(Clone, Copy)]
struct Lifetime {
    /// After this time it takes no further request.
    requests: Duration,
    /// The answer that is under way then has this time to leave, or, if it is made in pieces, for each of them.
    last_answer: Duration,
}

/// Has pages answer the requests of all connections, 512 at a time, until the result is stopped or dropped.
pub fn serve_pages(listener: Listener, pages: Arc<impl Pages>) -> Serving {
    serve_pages_with(listener, PageOptions::default(), pages)
}

/// As [`serve_pages`], with further names or a promise about memory.
pub fn serve_pages_with(listener: Listener, options: PageOptions, pages: Arc<impl Pages>) -> Serving {
    let PageOptions { names: told, account } = options;
    let mut names = HostNames::of_machine();
    told.iter().for_each(|name| names.add(name));
    // They are charged and never refused for want of memory: probes matter most when it is short.
    let charged = account.clone();
    let connections = Account::new(move |bytes| charged.charge(bytes).or_else(|| Some(Box::new(()))));
    let gate =
        Gate::new(CONNECTIONS_MAX).with_first_max(HEAD_MAX).with_account(connections, CONNECTION_BYTES);
    serve_connections(listener, gate, Arc::new(Http { site: Arc::new(Site::new(pages, names, account)) }))
}

struct Http<P> {
    site: Arc<Site<P>>,
}

/// What all connections share.
struct Site<P> {
    pages: Arc<P>,
    names: HostNames,
    account: Account,
    /// The turn to make a piece of a long answer: one at a time, so that a probe never waits for more than one of them.
    turn: Arc<Semaphore>,
}

impl<P> Site<P> {
    fn new(pages: Arc<P>, names: HostNames, account: Account) -> Self {
        Self { pages, names, account, turn: Arc::new(Semaphore::new(1)) }
    }
}

/// What is known of one connection.
#[derive(Clone)]
struct Visit {
    standing: Standing,
    /// It came to a loopback address.
    is_local: bool,
}

impl<P: Pages> Handler for Http<P> {
    async fn serve(&self, connection: Connection) -> io::Result<()> {
        let Connection { stream, standing, .. } = connection;
        let is_local = stream.local_addr()?.ip().to_canonical().is_loopback();
        serve(stream, Arc::clone(&self.site), Visit { standing, is_local }, LIFETIME).await;
        Ok(())
    }
}

/// Answers the requests of one connection, for a bounded time.
async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    site: Arc<Site<impl Pages>>,
    visit: Visit,
    lifetime: Lifetime,
) {
    let taken = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&taken);
    let service = service_fn(move |request| respond(site.clone(), visit.clone(), request, counted.clone()));
    let mut served = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_MAX)
            .max_buf_size(BUFFER_MAX)
            .serve_connection(TokioIo::new(stream), service)
    );
    let mut ended = timeout(lifetime.requests, served.as_mut()).await;
    if ended.is_err() {
        served.as_mut().graceful_shutdown();
        let mut before = None;
        while ended.is_err() && before != Some(taken.load(Ordering::Relaxed)) {
            before = Some(taken.load(Ordering::Relaxed));
            ended = timeout(lifetime.last_answer, served.as_mut()).await;
        }
    }
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "an HTTP connection ended"),
        Err(_) => tracing::debug!("the peer of an HTTP connection did not read its answer"),
    }
}

async fn respond(
    site: Arc<Site<impl Pages>>,
    visit: Visit,
    request: hyper::Request<Incoming>,
    taken: Arc<AtomicU64>,
) -> Result<hyper::Response<Answer>, Infallible> {
    let (head, body) = request.into_parts();
    let response = match refusal(&head, &site.names, visit.is_local) {
        Some(refusal) => refusal,
        None => answer(&site, &visit, head, body).await,
    };
    // A long answer is there already: what comes next waits for it, or is refused.
    let len = response.body.len();
    let (response, memory) = match site.account.charge(len as u64) {
        None if len > ANSWER_BYTES_FREE => {
            (Response::text(503, "there is no memory for so long an answer: ask again\n"), None)
        }
        memory => (response, memory),
    };
    let mut built = hyper::Response::builder()
        .status(response.status)
        .header(header::CONTENT_TYPE, response.content_type);
    let headers = built.headers_mut().expect("status and media type are ours");
    headers.extend(HEADERS);
    Ok(built
        .body(Answer::new(response, memory, visit.standing, Arc::clone(&site.turn), taken))
        .expect("status and media type are ours"))
}

/// The answer of a page, once the request's body has arrived.
async fn answer(site: &Site<impl Pages>, visit: &Visit, head: Parts, body: Incoming) -> Response {
    // Memory for the body that is declared; one that declares none is short, or is refused when it grows.
    let declared =
        hyper::body::Body::size_hint(&body).upper().map_or(BODY_MAX as u64, |len| len.min(BODY_MAX as u64));
    let memory = site.account.charge(declared);
    if memory.is_none() && declared > BODY_BYTES_FREE {
        return Response::text(503, "there is no memory for the body of the request: ask again\n");
    }
    match timeout(REQUEST_MAX, Limited::new(body, BODY_MAX).collect()).await {
        Ok(Ok(body)) => {
            visit.standing.work();
            let request = Request {
                method: head.method.as_str().to_owned(),
                path: head.uri.path().to_owned(),
                query: head.uri.query().unwrap_or_default().to_owned(),
                accepts_html: accept::takes_html(&head.headers),
                body: body.to_bytes(),
            };
            site.pages.answer(request).await
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Response::text(413, format!("a body may have {BODY_MAX} bytes\n"))
        }
        Ok(Err(error)) => Response::text(400, format!("cannot read the body: {error}\n")),
        Err(_) => Response::text(408, "the body did not arrive in time\n"),
    }
}

/// The answer to a request that is not for a page.
fn refusal(head: &Parts, names: &HostNames, is_local: bool) -> Option<Response> {
    let text = |name: HeaderName| text_of(&head.headers, &name);
    let told = admission::admit(
        &Head {
            method: head.method.as_str(),
            host: head.uri.authority().map(|authority| authority.as_str()).or_else(|| text(header::HOST)),
            origin: text(header::ORIGIN),
            fetch_site: text(HeaderName::from_static("sec-fetch-site")),
            fetch_mode: text(HeaderName::from_static("sec-fetch-mode")),
            content_type: text(header::CONTENT_TYPE),
            is_local,
        },
        names,
    );
    told.err().map(|(status, why)| Response::text(status, why))
}

/// A header's value; one that is no text is nothing that is let in.
fn text_of<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?.?"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::sync::{Condvar, Mutex};
    use std::time::Instant;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::net::TcpStream;
    use tokio::sync::Notify;
    use tokio::task::JoinHandle;

    use super::super::pages::Rest;
    use super::*;

    const WITHIN: Duration = Duration::from_secs(20);
    const BODY: usize = 100_000;

    struct Large;

    impl Pages for Large {
        async fn answer(&self, _: Request) -> Response {
            Response::text(200, "x".repeat(BODY))
        }
    }

    /// Blocks the thread that runs it, as no page should, and says when it begins and when it ends.
    #[derive(Default)]
    struct Slow {
        begun: Notify,
        let_go: Mutex<bool>,
        wakes: Condvar,
        ended: AtomicBool,
    }

    impl Pages for Slow {
        async fn answer(&self, _: Request) -> Response {
            self.begun.notify_one();
            let let_go = self.let_go.lock().unwrap();
            drop(self.wakes.wait_timeout_while(let_go, WITHIN, |let_go| !*let_go).unwrap());
            self.ended.store(true, Ordering::Relaxed);
            Response::text(200, "slow")
        }
    }

    fn connect(requests: Duration, last_answer: Duration) -> (DuplexStream, JoinHandle<()>) {
        connect_to(Large, Lifetime { requests, last_answer })
    }

    fn connect_to(pages: impl Pages, lifetime: Lifetime) -> (DuplexStream, JoinHandle<()>) {
        let (peer, here) = duplex(1000);
        let names = HostNames::of("here", "", "");
        let site = Arc::new(Site::new(Arc::new(pages), names, Account::default()));
        let visit = Visit { standing: Standing::default(), is_local: true };
        (peer, tokio::spawn(serve(here, site, visit, lifetime)))
    }

    async fn ask(peer: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<()> {
        peer.write_all(b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").await
    }

    /// A request by hand, and the whole answer.
    async fn answer_to(server: &Serving, request: &str) -> String {
        let mut peer = TcpStream::connect(server.address()).await.unwrap();
        peer.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(WITHIN, peer.read_to_string(&mut answer)).await.expect("it is answered").unwrap();
        answer
    }

    /// Whether an answer comes whole.
    async fn is_answered(peer: &mut DuplexStream) -> bool {
        let mut answer = Vec::new();
        while !answer.ends_with(&[b'x'; 100]) || answer.len() < BODY {
            match peer.read_buf(&mut answer).await {
                Ok(0) | Err(_) => return false,
                Ok(_) => {}
            }
        }
        true
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_gives_its_place_back() {
        let (mut peer, served) = connect(Duration::from_millis(50), Duration::from_millis(50));
        ask(&mut peer).await.unwrap();
        timeout(WITHIN, served).await.expect("it ends").unwrap();
    }

    #[tokio::test]
    async fn a_connection_answers_request_after_request_and_ends_between_two() {
        let (mut peer, served) = connect(Duration::from_secs(1), WITHIN);
        let mut answers = 0;
        let all = async {
            while ask(&mut peer).await.is_ok() && is_answered(&mut peer).await {
                answers += 1;
            }
        };
        timeout(WITHIN, all).await.expect("it ends");
        assert!(answers > 1);
        timeout(WITHIN, served).await.expect("it has ended").unwrap();
    }

    /// An answer that no socket takes at once, of shared bytes.
    struct Shared(bytes::Bytes);

    impl Pages for Shared {
        async fn answer(&self, request: Request) -> Response {
            let body = if request.path == "/healthz" { "ok".into() } else { self.0.clone() };
            Response { body, ..Response::text(200, "") }
        }
    }

    /// Takes all places of a server and more, each with this request, and does nothing further.
    async fn flood(server: &Serving, request: &[u8]) -> Vec<TcpStream> {
        let mut flood = Vec::new();
        for _ in 0..2 * CONNECTIONS_MAX {
            let mut peer = TcpStream::connect(server.address()).await.unwrap();
            let _ = peer.write_all(request).await; // it may have lost its place already
            flood.push(peer);
        }
        flood
    }

    #[tokio::test]
    async fn a_probe_is_answered_at_once_while_its_own_address_floods_the_port() {
        let pages = Arc::new(Shared(vec![b'x'; 32 << 20].into()));
        for occupant in [
            "",
            "GET /metr",
            "POST /x HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{",
            "GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n",
        ] {
            let server = serve_pages(Listener::bind("127.0.0.1:0").await.unwrap(), pages.clone());
            let _flood = flood(&server, occupant.as_bytes()).await;
            let begun = Instant::now();
            let answer =
                answer_to(&server, "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                    .await;
            assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
            assert!(begun.elapsed() < Duration::from_secs(1), "{occupant:?}: {:?}", begun.elapsed());
            let open = server.connections().get();
            // Those that have sent nothing are beside these.
            let most = if occupant.is_empty() { 2 * CONNECTIONS_MAX } else { CONNECTIONS_MAX };
            assert!(open > CONNECTIONS_MAX / 2 && open <= most, "{occupant:?}: {open} are open");
        }
    }

    #[tokio::test]
    async fn who_is_slow_to_ask_is_answered_after_hundreds_have_connected() {
        let server = serve_pages(Listener::bind("127.0.0.1:0").await.unwrap(), Arc::new(Large));
        let mut slow = TcpStream::connect(server.address()).await.unwrap();
        // Each of these is younger, and says nothing either.
        let _flood = flood(&server, b"").await;
        slow.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        timeout(WITHIN, slow.read_to_string(&mut answer)).await.expect("it is answered").unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    /// An answer in many pieces, counted as they are made.
    struct Pieces(Arc<AtomicUsize>);

    const PIECES: usize = 1000;

    impl Pages for Pieces {
        async fn answer(&self, _: Request) -> Response {
            let made = Arc::clone(&self.0);
            Response::json_pieces((0..PIECES).map(move |at| {
                made.fetch_add(1, Ordering::Relaxed);
                vec![b'a' + (at % 26) as u8; 64 << 10].into()
            }))
        }
    }

    #[tokio::test]
    async fn a_long_answer_is_made_as_it_is_read() {
        let made = Arc::new(AtomicUsize::new(0));
        let server =
            serve_pages(Listener::bind("127.0.0.1:0").await.unwrap(), Arc::new(Pieces(made.clone())));
        let request = "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        let mut unread = TcpStream::connect(server.address()).await.unwrap();
        unread.write_all(request.as_bytes()).await.unwrap();
        let begun = async {
            while made.load(Ordering::Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(WITHIN, begun).await.expect("it begins");
        let answer = answer_to(&server, request).await;
        let expected: usize = answer.matches("zzzz").count();
        assert!(expected > PIECES / 26 * (64 << 10) / 4 * 9 / 10 && answer.len() > PIECES * (64 << 10));
        // The kernel's buffers took some of the other one, which nobody has read.
        let unread_made = made.load(Ordering::Relaxed) - PIECES;
        assert!(unread_made < PIECES / 2, "{unread_made} of {PIECES} pieces were made for nobody");
    }

    #[tokio::test]
    async fn what_a_site_has_a_browser_send_reaches_no_page() {
        let pages = Arc::new(Counted::default());
        let server = serve_pages(Listener::bind("127.0.0.1:0").await.unwrap(), pages.clone());
        let post = |headers: &str| {
            format!("POST /exit HTTP/1.1\r\nconnection: close\r\ncontent-length: 2\r\n{headers}\r\n\r\n{{}}")
        };
        for (headers, status) in [
            ("host: 127.0.0.1\r\ncontent-type: text/plain", 415),
            ("host: 127.0.0.1", 415),
            ("host: 127.0.0.1\r\ncontent-type: application/json\r\norigin: http://evil.example", 403),
            ("host: 127.0.0.1\r\ncontent-type: application/json\r\nsec-fetch-site: cross-site", 403),
            ("host: evil.example\r\ncontent-type: application/json", 421),
        ] {
            let answer = answer_to(&server, &post(headers)).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{headers}: {answer}");
        }
        let absolute = "GET http://evil.example/x HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n";
        assert!(answer_to(&server, absolute).await.starts_with("HTTP/1.1 421 "));
        assert_eq!(pages.0.load(Ordering::Relaxed), 0, "a page has seen a request");
        let answer = answer_to(&server, &post("host: 127.0.0.1\r\ncontent-type: application/json")).await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && pages.0.load(Ordering::Relaxed) == 1, "{answer}");
        for header in ["x-content-type-options: nosniff", "x-frame-options: DENY", "frame-ancestors 'none'"] {
            assert!(answer.contains(header), "{answer}");
        }
    }

    /// Counts the requests that reach it.
    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Pages for Counted {
        async fn answer(&self, _: Request) -> Response {
            self.0.fetch_add(1, Ordering::Relaxed);
            Response::text(200, "done")
        }
    }

    /// An answer whose second piece comes when somebody says so.
    #[derive(Default)]
    struct Waiting(Arc<Notify>);

    impl Pages for Waiting {
        async fn answer(&self, request: Request) -> Response {
            if request.path == "/healthz" {
                return Response {
                    rest: Rest::of(["o", "k"].map(bytes::Bytes::from).into_iter()),
                    ..Response::text(200, "")
                };
            }
            let said = self.0.clone();
            let mut wait = Box::pin(async move { said.notified().await });
            let mut pieces = ["first ", "second"].into_iter();
            let rest = Rest::waiting(move |context| {
                if pieces.len() == 1 {
                    std::task::ready!(wait.as_mut().poll(context));
                }
                std::task::Poll::Ready(pieces.next().map(bytes::Bytes::from))
            });
            Response { rest, ..Response::text(200, "") }
        }
    }

    #[tokio::test]
    async fn a_piece_that_is_waited_for_comes_in_time_and_holds_no_other_answer_up() {
        let pages = Arc::new(Waiting::default());
        let server = serve_pages(Listener::bind("127.0.0.1:0").await.unwrap(), pages.clone());
        let request = |path| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let mut peer = TcpStream::connect(server.address()).await.unwrap();
        peer.write_all(request("/long").as_bytes()).await.unwrap();
        let mut long = Vec::new();
        while !long.ends_with(b"first \r\n") {
            timeout(WITHIN, peer.read_buf(&mut long)).await.expect("the first piece is there").unwrap();
        }
        let other = answer_to(&server, &request("/healthz")).await;
        assert!(other.contains("o\r\n") && other.contains("k\r\n"), "{other}");
        pages.0.notify_one();
        timeout(WITHIN, peer.read_to_end(&mut long)).await.expect("the rest comes").unwrap();
        assert!(String::from_utf8(long).unwrap().contains("second"));
    }

    /// An answer of thirty pieces, one each tenth of a second.
    struct Paced;

    impl Pages for Paced {
        async fn answer(&self, _: Request) -> Response {
            let (mut left, mut pause) = (30, Box::pin(tokio::time::sleep(Duration::ZERO)));
            let rest = Rest::waiting(move |context| {
                std::task::ready!(pause.as_mut().poll(context));
                pause.set(tokio::time::sleep(Duration::from_millis(100)));
                left -= 1;
                std::task::Poll::Ready((left >= 0).then(|| bytes::Bytes::from("x".repeat(100))))
            });
            Response { rest, ..Response::text(200, "") }
        }
    }

    #[tokio::test]
    async fn a_long_answer_may_take_longer_than_a_connection_if_its_pieces_are_read() {
        let lifetime = Lifetime { requests: Duration::from_millis(50), last_answer: Duration::from_secs(1) };
        let (mut peer, served) = connect_to(Paced, lifetime);
        ask(&mut peer).await.unwrap();
        let mut answer = String::new();
        timeout(WITHIN, peer.read_to_string(&mut answer)).await.expect("it ends").unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(body.matches('x').count(), 30 * 100);
        served.await.unwrap();
        let (mut peer, served) = connect_to(Paced, lifetime);
        ask(&mut peer).await.unwrap();
        timeout(WITHIN, served).await.expect("it ends for who does not read it").unwrap();
    }

    #[tokio::test]
    async fn without_memory_short_answers_are_given_and_long_ones_refused() {
        let options = PageOptions { account: Account::new(|_| None), ..PageOptions::default() };
        let pages = Arc::new(Shared(vec![b'x'; ANSWER_BYTES_FREE + 1].into()));
        let server = serve_pages_with(Listener::bind("127.0.0.1:0").await.unwrap(), options, pages);
        for (path, status) in [("/healthz", 200), ("/large", 503)] {
            let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
            let answer = answer_to(&server, &request).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_has_stopped_it_is_alone() {
        let pages = Arc::new(Slow::default());
        let server = serve_pages(Listener::bind("127.0.0.1:0").await.unwrap(), pages.clone());
        let mut peer = TcpStream::connect(server.address()).await.unwrap();
        ask(&mut peer).await.unwrap();
        pages.begun.notified().await;
        let stopping = tokio::spawn(server.stop());
        tokio::task::yield_now().await;
        assert!(!stopping.is_finished(), "a page is still being made");
        *pages.let_go.lock().unwrap() = true;
        pages.wakes.notify_all();
        stopping.await.unwrap();
        assert!(pages.ended.load(Ordering::Relaxed), "a page is still being made");
        assert_eq!(Arc::strong_count(&pages), 1);
        // Its answer may have left, and nothing comes after it.
        let _ = timeout(WITHIN, peer.read_to_end(&mut Vec::new())).await.expect("the connection is closed");
    }

    #[tokio::test]
    async fn a_head_has_the_length_of_the_answer_and_no_body() {
        let server = serve_pages(Listener::bind("127.0.0.1:0").await.unwrap(), Arc::new(Large));
        let mut peer = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        peer.write_all(b"HEAD / HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        timeout(WITHIN, peer.read_to_string(&mut answer)).await.expect("it is answered").unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.to_lowercase().contains(&format!("content-length: {BODY}")), "{head}");
        assert_eq!(body, "");
    }
}
