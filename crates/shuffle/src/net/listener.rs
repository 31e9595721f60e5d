//! A listening socket and the connections that it has accepted.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, TcpStream, ToSocketAddrs, lookup_host};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tracing::{debug, warn};

use super::door::{ConnectionCount, Door, Place};
use super::duplex::Duplex;
use super::reader::{BODY_BEGIN, FrameReader};
use super::reply::Reply;
use super::service::{ConnectionId, Service};
use super::unsent::Unsent;
use super::writer::write_frames;
use crate::error::{Error, Result};
use crate::wire::{Incoming, Limits};

/// TCP keepalive: the silence after which the kernel probes a peer, and the interval and number of the probes.
const KEEPALIVE_SILENCE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 6;

/// How long a peer may leave sent data unacknowledged, or its window closed: as long as keepalive gives a silent one.
/// The kernel does not probe while data is unacknowledged, and would retransmit for a quarter of an hour. It also gives
/// up a peer that answers but keeps its window closed for this time (Linux since 5.11, `tcp_probe_timer`).
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(120);

/// The longest such time that the kernel accepts: it reads the milliseconds as a signed number.
#[cfg(target_os = "linux")]
const USER_TIMEOUT_MAX: Duration = Duration::from_millis(i32::MAX as u64);

/// Backlog: connections that the system holds before they are accepted. It lowers this to `net.core.somaxconn`, which
/// is as much since Linux 5.4. When it is full a peer tries again after 1, 3 and 7 s, and thousands of executors begin
/// to read at once.
const BACKLOG: u32 = 4096;

/// The most answers that are held back to be sent together while there are requests to read: the peer may be waiting
/// for room in its window. The stock client has 32 pushes in flight, sends that many small ones in half a millisecond,
/// and sleeps for 50 ms if none has been answered by then.
const ANSWERS_TOGETHER: usize = 8;

/// How a listener treats its connections.
#[derive(Debug, Clone)]
pub struct Options {
    /// What peers may send.
    pub limits: Limits,
    /// Connections open at once; one more is closed when it arrives.
    pub connections_max: usize,
    /// Unanswered requests of one connection at which reading pauses.
    pub requests_max: usize,
    /// How long a frame that has begun may make no progress, in either direction.
    pub idle_max: Duration,
}

impl Options {
    /// The defaults with these limits.
    pub fn new(limits: Limits) -> Self {
        Self { limits, connections_max: 8192, requests_max: 512, idle_max: Duration::from_secs(120) }
    }
}

/// Raises the limit of open files to what the system allows: every connection is one, and every segment.
pub fn raise_file_limit() {
    if let Err(error) = yeoul_base::raise_file_limit() {
        debug!(%error, "the limit of open files stays as it is");
    }
}

/// The error that says which of a server's ports cannot be bound.
pub fn cannot_bind(what: &str, host: impl Display, port: u16, error: Error) -> Error {
    Error::new(error.kind(), format!("cannot bind the {what} port, {port} at {host}"))
        .with_source(error)
        .with_hint("choose another port, or 0 for a free one, and an address of this machine")
}

/// Binds an address and listens there as [`TcpListener::bind`] does, whose backlog is only 128 connections.
///
/// # Errors
/// None of the addresses that `address` resolves to can be bound; the error is that of the last one.
pub async fn listen(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
    let mut failed = io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any address");
    for address in lookup_host(address).await? {
        let bind = || {
            let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            // A worker restarts on the same ports while its old connections are still closing.
            #[cfg(not(windows))]
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(BACKLOG)
        };
        match bind() {
            Ok(socket) => return Ok(socket),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// A bound socket that does not accept yet.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    options: Options,
}

impl Listener {
    /// Binds an address; port 0 takes a free one.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn bind(address: impl ToSocketAddrs, options: Options) -> Result<Self> {
        let socket = listen(address).await?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address, options })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The bound port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Accepts connections until the handle is stopped or dropped.
    pub fn serve<S: Service>(self, service: Arc<S>) -> ListenerHandle {
        let Self { socket, address, options } = self;
        let door = Door::new(options.connections_max);
        let (connections, stop) = (door.count(), Arc::new(Notify::new()));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            // The tasks end with this one, which owns them.
            let mut tasks = JoinSet::new();
            tokio::select! {
                () = accept((socket, address), options, door, service, &mut tasks) => {}
                () = stopped.notified() => {}
            }
            // A call that runs on another thread goes on until its next await.
            tasks.shutdown().await;
        });
        ListenerHandle { address, connections, stop, task }
    }
}

/// A listener at work. Dropping it closes the socket and all its connections, a moment later.
pub struct ListenerHandle {
    address: SocketAddr,
    connections: ConnectionCount,
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

impl ListenerHandle {
    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The bound port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The number of open connections, which can be read at any time.
    pub fn connections(&self) -> ConnectionCount {
        self.connections.clone()
    }

    /// Closes the socket and all connections, and returns when they are closed and the calls that they made have ended.
    pub async fn stop(mut self) {
        self.stop.notify_one();
        let _ = (&mut self.task).await;
    }
}

impl Drop for ListenerHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Has the kernel probe peers that are silent for long, and give up those that acknowledge nothing. A peer whose
/// machine died sends nothing, and would count against `connections_max` for ever if it died between two frames, else
/// for long.
///
/// # Errors
/// The socket cannot be used any more.
pub fn notice_vanished_peers(stream: &TcpStream) -> io::Result<()> {
    notice_vanished_peers_after(stream, UNACKNOWLEDGED_MAX)
}

/// The same, for a connection on which a frame may make no progress for `idle_max`: it is not given up before.
pub(super) fn notice_vanished_peers_after(stream: &TcpStream, idle_max: Duration) -> io::Result<()> {
    let socket = SockRef::from(stream);
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(idle_max.clamp(UNACKNOWLEDGED_MAX, USER_TIMEOUT_MAX)))?;
    let ask = TcpKeepalive::new().with_time(KEEPALIVE_SILENCE).with_interval(KEEPALIVE_INTERVAL);
    socket.set_tcp_keepalive(&ask.with_retries(KEEPALIVE_RETRIES))
}

/// Tells the service when a connection ends, however it ends.
struct Counted<S: Service> {
    service: Arc<S>,
    id: ConnectionId,
    place: Option<Place>,
}

impl<S: Service> Drop for Counted<S> {
    fn drop(&mut self) {
        self.place = None; // whoever hears of the end does not count it any more
        self.service.closed(self.id);
    }
}

async fn accept<S: Service>(
    (socket, address): (TcpListener, SocketAddr),
    options: Options,
    mut door: Door,
    service: Arc<S>,
    tasks: &mut JoinSet<()>,
) {
    let limit = options.connections_max;
    let say_full = |peer: SocketAddr| {
        warn!(%address, %peer, limit, "too many connections: new ones are closed until others end");
    };
    loop {
        let (stream, peer, place) = tokio::select! {
            accepted = door.accept(&socket, say_full) => accepted,
            Some(_) = tasks.join_next() => continue,
        };
        let counted = Counted { service: service.clone(), id: ConnectionId::next(), place: Some(place) };
        let options = options.clone();
        tasks.spawn(async move {
            if let Err(error) = connection(stream, &counted, &options).await {
                debug!(%address, %peer, %error, "connection ended");
            }
        });
    }
}

/// Runs one connection to its end.
async fn connection<S: Service>(
    stream: TcpStream,
    counted: &Counted<S>,
    options: &Options,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    notice_vanished_peers_after(&stream, options.idle_max)?;
    let (read, write) = stream.into_split();
    let (queue, outgoing) = mpsc::unbounded_channel();
    let mut reader = FrameReader::new(read, options.limits.clone(), BODY_BEGIN, options.idle_max);
    let in_flight = Arc::new(Semaphore::new(options.requests_max));
    let unsent = Arc::new(Unsent::default());
    let duplex = Duplex::new();
    let reading = async {
        let mut frames: usize = 0;
        while let Some(incoming) = reader.next().await? {
            let permit = in_flight.clone().acquire_owned().await.expect("the semaphore is never closed");
            let request_id = incoming.request_id().unwrap_or_default();
            let (queue, connection) = (queue.clone(), counted.id);
            let reply = Reply { queue, permit, unsent: unsent.clone(), connection, request_id };
            match incoming {
                Incoming::Frame(head) => {
                    let mut body = reader.body(head.body_len);
                    counted.service.call(head, &mut body, reply).await?;
                    body.skip().await?;
                }
                Incoming::LongPush { rest_len, error, .. } => {
                    let text = format!("the push is longer than this server takes: {error}");
                    counted.service.refused_push(reply, text);
                    reader.skip(rest_len).await?;
                }
            }
            unsent.wait_for_room().await;
            frames = frames.wrapping_add(1);
            if frames.is_multiple_of(ANSWERS_TOGETHER) {
                duplex.let_write().await;
            }
        }
        Ok(())
    };
    // A peer that has closed its side is gone: no client of this protocol closes one direction only. Answers still to
    // come are dropped, and the service learns at once that the connection has ended.
    duplex.run(reading, write_frames(write, outgoing, options.idle_max)).await
}
