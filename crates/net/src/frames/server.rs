//! Serves the frames of connections.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use super::duplex::Duplex;
use super::protocol::Protocol;
use super::reply::Reply;
use super::service::Service;
use super::unsent::Unsent;
use super::writer::write_frames;
use crate::connections::{Connection, ConnectionId, Handler, Serving, serve_connections};
use crate::gate::{Account, Gate};
use crate::listener::Listener;
use crate::stream::{ReaderOptions, StreamReader};

/// How a server treats its connections.
#[derive(Debug, Clone)]
pub struct FrameOptions<L> {
    /// What peers may send.
    pub limits: L,
    /// Connections open at once; one more is closed when it arrives.
    pub connections_max: usize,
    /// Unanswered requests of one connection at which reading pauses.
    pub requests_max: usize,
    /// How long a frame that has begun may make no progress, in either direction.
    pub idle_max: Duration,
    /// How long a connection may take to bring its first frame.
    pub first_max: Duration,
    /// How long a connection may be silent between two frames, with no answer under way.
    pub silent_max: Duration,
    /// The memory that connections are charged to.
    pub account: Account,
    /// The memory that large answers are charged to until they have left; not if their service charges them.
    pub answers: Account,
}

/// Bytes of a connection without work: its task, its queue, and what the kernel's socket is to this process, 12.5 KiB as measured; and
/// a part of what the allocator keeps of those that have gone.
const CONNECTION_BYTES: u64 = 14 << 10;

impl<L> FrameOptions<L> {
    /// The defaults with these limits.
    pub fn new(limits: L) -> Self {
        Self {
            limits,
            connections_max: 8192,
            requests_max: 512,
            idle_max: Duration::from_secs(120),
            first_max: Duration::from_secs(60),
            // Clients keep connections for their next push or fetch, and make another one where this one has ended.
            silent_max: Duration::from_secs(3600),
            account: Account::default(),
            answers: Account::default(),
        }
    }
}

/// Has a service handle the frames of all connections, until the result is stopped or dropped.
pub fn serve_frames<P: Protocol>(
    listener: Listener,
    options: FrameOptions<P::Limits>,
    service: Arc<impl Service<P>>,
) -> Serving {
    let gate = Gate::new(options.connections_max)
        .with_idle_max(options.idle_max)
        .with_first_max(options.first_max)
        .with_account(options.account.clone(), CONNECTION_BYTES);
    serve_connections(listener, gate, Arc::new(Frames::<P, _> { options, service }))
}

struct Frames<P: Protocol, S> {
    options: FrameOptions<P::Limits>,
    service: Arc<S>,
}

impl<P: Protocol, S: Service<P>> Handler for Frames<P, S> {
    async fn serve(&self, connection: Connection) -> io::Result<()> {
        serve_frames_of(connection, &self.options, &*self.service).await
    }

    fn closed(&self, connection: ConnectionId) {
        self.service.closed(connection);
    }
}

/// Has a service handle the frames of one connection, until that ends: for handlers that read a greeting first, or that
/// have a service for each connection.
///
/// # Errors
/// Why the connection ended early: what the peer sent is no frame, what the service said, or what the socket said.
pub async fn serve_frames_of<P: Protocol>(
    connection: Connection,
    options: &FrameOptions<P::Limits>,
    service: &impl Service<P>,
) -> io::Result<()> {
    let Connection { stream, id: connection, standing, .. } = connection;
    let (read, write) = stream.into_split();
    let (queue, outgoing) = mpsc::unbounded_channel();
    let idle_max = options.idle_max;
    let reading = ReaderOptions { idle_max, window: P::WINDOW, ..ReaderOptions::default() };
    let mut reader = StreamReader::new(read, &reading);
    let in_flight = Arc::new(Semaphore::new(options.requests_max));
    let unsent = Arc::new(Unsent::charged_to(options.answers.clone()));
    let duplex = Duplex::new();
    let reading = async {
        let mut frames: usize = 0;
        loop {
            let is_first = frames == 0;
            let silent_max = if is_first { options.first_max } else { options.silent_max };
            let head = reader.head(|bytes| P::decode(bytes, &options.limits));
            let is_idle = || is_first || in_flight.available_permits() == options.requests_max;
            let Some((head, body_len)) = within(head, silent_max, is_idle).await? else { return Ok(()) };
            standing.work();
            let permit = in_flight.clone().acquire_owned().await.expect("the semaphore is never closed");
            let reply = Reply { queue: queue.clone(), permit, unsent: unsent.clone(), connection };
            let mut body = reader.body(body_len);
            service.call(head, &mut body, reply).await?;
            body.skip().await?;
            unsent.wait_for_room().await;
            frames = frames.wrapping_add(1).max(1);
            if frames.is_multiple_of(answers_together::<P>()) {
                duplex.let_write().await;
            }
        }
    };
    // A peer that has closed its side is gone: no client of these protocols closes one direction only. Answers still to
    // come are dropped, and the service learns at once that the connection has ended.
    duplex.run(reading, write_frames(write, outgoing, idle_max)).await
}

/// A head, for which the peer has `silent_max` and again as long while the server owes it an answer.
async fn within<T>(
    head: impl Future<Output = io::Result<T>>,
    silent_max: Duration,
    is_idle: impl Fn() -> bool,
) -> io::Result<T> {
    let mut head = pin!(head);
    loop {
        match timeout(silent_max, head.as_mut()).await {
            Ok(head) => return head,
            Err(_) if is_idle() => {
                let text = format!("no frame came for {silent_max:?}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            Err(_) => {}
        }
    }
}

/// The most answers that are held back to be sent together while there are requests to read: the peer may be waiting
/// for room in its window.
const fn answers_together<P: Protocol>() -> usize {
    if P::WINDOW < 4 { 1 } else { P::WINDOW / 4 }
}
