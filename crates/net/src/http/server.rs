//! HTTP/1.1 for people, scripts and metrics: a server with limits that knows nothing of its pages.

use std::convert::Infallible;
use std::io;
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
use tokio::time::timeout;

use super::pages::{Pages, Request, Response};
use crate::connections::{Connection, Handler, Serving, serve_connections};
use crate::gate::Gate;
use crate::listener::Listener;

/// Bytes of a request's body that are read.
const BODY_MAX: usize = 1 << 20;
/// Bytes of a request's head, and of what is buffered of a connection.
const BUFFER_MAX: usize = 64 << 10;
/// Connections at a time; one more is closed when it arrives.
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

/// Has pages answer the requests of all connections, 128 at a time, until the result is stopped or dropped.
pub fn serve_pages(listener: Listener, pages: Arc<impl Pages>) -> Serving {
    serve_connections(listener, Gate::new(CONNECTIONS_MAX), Arc::new(Http { pages }))
}

struct Http<P> {
    pages: Arc<P>,
}

impl<P: Pages> Handler for Http<P> {
    async fn serve(&self, connection: Connection) -> io::Result<()> {
        serve(connection.stream, Arc::clone(&self.pages), LIFETIME).await;
        Ok(())
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
    use tokio::sync::Notify;
    use tokio::task::JoinHandle;

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

    #[tokio::test]
    async fn a_connection_too_many_is_closed_and_those_before_it_are_served() {
        let server = serve_pages(Listener::bind("127.0.0.1:0").await.unwrap(), Arc::new(Large));
        let mut inside = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            inside.push(tokio::net::TcpStream::connect(server.address()).await.unwrap());
        }
        let mut beyond = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        let end = timeout(WITHIN, beyond.read(&mut [0; 10])).await.expect("it is closed");
        assert!(matches!(end, Ok(0) | Err(_)));
        assert_eq!(server.connections().get(), CONNECTIONS_MAX);
        let last = inside.last_mut().unwrap();
        ask(last).await.unwrap();
        assert!(timeout(WITHIN, last.read(&mut [0; 10])).await.expect("it is served").unwrap() > 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_has_stopped_it_is_alone() {
        let pages = Arc::new(Slow::default());
        let server = serve_pages(Listener::bind("127.0.0.1:0").await.unwrap(), pages.clone());
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
