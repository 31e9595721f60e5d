//! HTTP/1.1 for people, scripts and metrics: a server with limits that knows nothing of its pages.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, ToSocketAddrs};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::Result;
use crate::net::listen;

/// Bytes of a request's body that are read.
const BODY_MAX: usize = 1 << 20;
/// Bytes of a request's head, and of what is buffered of a connection.
const BUFFER_MAX: usize = 64 << 10;
/// Connections at a time; one more waits to be accepted.
const CONNECTIONS_MAX: usize = 128;
/// How long a request's head or body may take to arrive, and how long a connection may idle.
const REQUEST_MAX: Duration = Duration::from_secs(15);
/// Limits that make a peer that does not read its answers give its place back.
const LIFETIME: Lifetime = Lifetime { requests: Duration::from_secs(60), last_answer: REQUEST_MAX };

/// How long a connection lasts at most.
#[derive(Clone, Copy)]
struct Lifetime {
    /// After this time it takes no further request.
    requests: Duration,
    /// The answer that is under way then has this time to leave.
    last_answer: Duration,
}

/// A request whose body has arrived whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its method, in upper case.
    pub method: String,
    /// Its path, without the query.
    pub path: String,
    /// Its query, or empty.
    pub query: String,
    /// Its body.
    pub body: Bytes,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Bytes,
}

impl Response {
    /// A JSON document.
    pub fn json(status: u16, value: &serde_json::Value) -> Self {
        Self { status, content_type: "application/json", body: value.to_string().into() }
    }

    /// Text.
    pub fn text(status: u16, text: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: text.into().into() }
    }
}

/// The pages of a server.
pub trait Pages: Send + Sync + 'static {
    /// Answers a request.
    fn answer(&self, request: Request) -> impl Future<Output = Response> + Send;
}

/// A running HTTP server. Dropping it closes its socket and all connections, a moment later.
pub struct HttpServer {
    address: SocketAddr,
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

impl HttpServer {
    /// Binds the address and serves.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn start(address: impl ToSocketAddrs, pages: Arc<impl Pages>) -> Result<Self> {
        let socket = listen(address).await?;
        let address = socket.local_addr()?;
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            tokio::select! {
                () = accept(socket, pages, &mut connections) => {}
                () = stopped.notified() => {}
            }
            // An answer that is made on another thread goes on until its next await.
            connections.shutdown().await;
        });
        Ok(Self { address, stop, task })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the socket and all connections, and returns when they are closed and nobody works on their answers.
    pub async fn stop(mut self) {
        self.stop.notify_one();
        let _ = (&mut self.task).await;
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(socket: TcpListener, pages: Arc<impl Pages>, connections: &mut JoinSet<()>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        while connections.try_join_next().is_some() {}
        let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
        let stream = match socket.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "cannot accept an HTTP connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let pages = pages.clone();
        connections.spawn(async move {
            serve(stream, pages, LIFETIME).await;
            drop(place);
        });
    }
}

/// Answers the requests of one connection, for a bounded time.
async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, pages: Arc<impl Pages>, lifetime: Lifetime) {
    let service = service_fn(move |request| respond(pages.clone(), request));
    let mut served = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(REQUEST_MAX)
            .max_buf_size(BUFFER_MAX)
            .serve_connection(TokioIo::new(stream), service)
    );
    let mut ended = timeout(lifetime.requests, served.as_mut()).await;
    if ended.is_err() {
        served.as_mut().graceful_shutdown();
        ended = timeout(lifetime.last_answer, served).await;
    }
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "an HTTP connection ended"),
        Err(_) => tracing::debug!("the peer of an HTTP connection did not read its answer"),
    }
}

async fn respond(
    pages: Arc<impl Pages>,
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = timeout(REQUEST_MAX, Limited::new(body, BODY_MAX).collect()).await;
    let response = match body {
        Ok(Ok(body)) => {
            let request = Request {
                method: head.method.as_str().to_owned(),
                path: head.uri.path().to_owned(),
                query: head.uri.query().unwrap_or_default().to_owned(),
                body: body.to_bytes(),
            };
            pages.answer(request).await
        }
        Ok(Err(error)) => Response::text(413, format!("cannot read the body: {error}\n")),
        Err(_) => Response::text(408, "the body did not arrive in time\n"),
    };
    let built = hyper::Response::builder()
        .status(response.status)
        .header(hyper::header::CONTENT_TYPE, response.content_type)
        .body(Full::new(response.body));
    Ok(built.expect("status and media type are ours"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

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
        ended: AtomicBool,
    }

    impl Pages for Slow {
        async fn answer(&self, _: Request) -> Response {
            self.begun.notify_one();
            std::thread::sleep(Duration::from_millis(200));
            self.ended.store(true, Ordering::Relaxed);
            Response::text(200, "slow")
        }
    }

    fn connect(requests: Duration, last_answer: Duration) -> (DuplexStream, JoinHandle<()>) {
        let (peer, here) = duplex(1000);
        (peer, tokio::spawn(serve(here, Arc::new(Large), Lifetime { requests, last_answer })))
    }

    async fn ask(peer: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<()> {
        peer.write_all(b"GET /metrics HTTP/1.1\r\nhost: here\r\n\r\n").await
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

    #[tokio::test(flavor = "multi_thread")]
    async fn who_has_stopped_it_is_alone() {
        let pages = Arc::new(Slow::default());
        let server = HttpServer::start("127.0.0.1:0", pages.clone()).await.unwrap();
        let mut peer = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        ask(&mut peer).await.unwrap();
        pages.begun.notified().await;
        server.stop().await;
        assert!(pages.ended.load(Ordering::Relaxed), "a page is still being made");
        assert_eq!(Arc::strong_count(&pages), 1);
        // Its answer may have left, and nothing comes after it.
        let _ = timeout(WITHIN, peer.read_to_end(&mut Vec::new())).await.expect("the connection is closed");
    }
}
