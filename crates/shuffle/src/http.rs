//! HTTP/1.1 for people, scripts and metrics: a server with limits that knows nothing of its pages.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, ToSocketAddrs};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use crate::Result;

/// Bytes of a request's body that are read.
const BODY_MAX: usize = 1 << 20;
/// Bytes of a request's head, and of what is buffered of a connection.
const BUFFER_MAX: usize = 64 << 10;
/// Connections at a time; one more waits to be accepted.
const CONNECTIONS_MAX: usize = 128;
/// How long a request's head or body may take to arrive, and how long a connection may idle.
const REQUEST_MAX: Duration = Duration::from_secs(15);

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

/// What a server shows.
pub trait Pages: Send + Sync + 'static {
    /// Answers a request.
    fn answer(&self, request: Request) -> impl Future<Output = Response> + Send;
}

/// A running HTTP server. Dropping it closes its socket and all connections.
pub struct HttpServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl HttpServer {
    /// Binds the address and serves.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn start(address: impl ToSocketAddrs, pages: Arc<impl Pages>) -> Result<Self> {
        let socket = TcpListener::bind(address).await?;
        let address = socket.local_addr()?;
        Ok(Self { address, task: tokio::spawn(accept(socket, pages)) })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(socket: TcpListener, pages: Arc<impl Pages>) {
    let mut connections = JoinSet::new();
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
            let service = service_fn(move |request| respond(pages.clone(), request));
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(REQUEST_MAX)
                .max_buf_size(BUFFER_MAX)
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = served.await {
                tracing::debug!(%error, "an HTTP connection ended");
            }
            drop(place);
        });
    }
}

async fn respond(
    pages: Arc<impl Pages>,
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = tokio::time::timeout(REQUEST_MAX, Limited::new(body, BODY_MAX).collect()).await;
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
