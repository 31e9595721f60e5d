//! The accept loop that every server runs on, whatever it speaks.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tracing::{debug, error};

use crate::entrance::{Entrance, Newcomer};
use crate::gate::{ConnectionCount, Gate, Place, Standing};
use crate::listener::Listener;

/// The id of a connection, unique within this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

impl ConnectionId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The bare number, for decision modules, which know nothing of connections.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An accepted connection.
#[derive(Debug)]
pub struct Connection {
    /// Its bytes: Nagle's algorithm is off, and a peer that vanishes is noticed.
    pub stream: TcpStream,
    /// Who connected.
    pub peer: SocketAddr,
    /// Its id.
    pub id: ConnectionId,
    /// Its claim to its place: [`work`](Standing::work) secures it once the peer has sent a whole request.
    pub standing: Standing,
}

/// Serves connections, each from its first byte on: whoever connects and says nothing is closed after a while, by
/// [`Gate::with_first_max`].
pub trait Handler: Send + Sync + 'static {
    /// Serves one connection to its end, in a task of its own. A panic ends this connection and no other.
    ///
    /// # Errors
    /// Why the connection ended early, for the log.
    fn serve(&self, connection: Connection) -> impl Future<Output = io::Result<()>> + Send;

    /// A connection has ended, however it did, and is counted no more.
    fn closed(&self, connection: ConnectionId) {
        let _ = connection;
    }
}

/// Accepts the connections that `gate` lets in, and has each of them served until the result is stopped or dropped.
pub fn serve_connections<H: Handler>(listener: Listener, gate: Gate, handler: Arc<H>) -> Serving {
    let (address, connections, stop) = (listener.address(), gate.count(), Arc::new(Notify::new()));
    let (socket, stopped) = (listener.into_socket(), Arc::clone(&stop));
    let task = tokio::spawn(async move {
        // The tasks end with this one, which owns them.
        let mut tasks = JoinSet::new();
        tokio::select! {
            () = accept(gate.open(socket), handler, &mut tasks) => {}
            () = stopped.notified() => {}
        }
        // A call that runs on another thread goes on until its next await.
        tasks.shutdown().await;
    });
    Serving { address, connections, stop, task }
}

/// A listener at work. Dropping it closes the socket and all its connections, a moment later.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    connections: ConnectionCount,
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Serving {
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

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept<H: Handler>(entrance: Entrance, handler: Arc<H>, tasks: &mut JoinSet<()>) {
    let address = entrance.address();
    loop {
        let newcomer = tokio::select! {
            biased;
            // What is left of a connection that has ended goes before another one is let in.
            Some(ended) = tasks.join_next() => {
                say_panic(address, ended);
                continue;
            }
            newcomer = entrance.accept() => newcomer,
        };
        let (peer, is_crowded, handler) = (newcomer.peer, newcomer.is_taken_over(), Arc::clone(&handler));
        tasks.spawn(async move {
            if let Err(error) = serve_newcomer(newcomer, handler).await {
                let address = address.map(tracing::field::display);
                debug!(address, %peer, %error, "connection ended");
            }
        });
        if is_crowded {
            // Whoever has lost its place ends before the next one does.
            tokio::task::yield_now().await;
        }
    }
}

/// Serves a connection once its peer has sent something.
async fn serve_newcomer<H: Handler>(newcomer: Newcomer, handler: Arc<H>) -> io::Result<()> {
    let peer = newcomer.peer;
    let (stream, place) = newcomer.enter().await?;
    let id = ConnectionId::next();
    let standing = place.standing();
    let open = Open { handler, id, place: Some(place) };
    let place = open.place.as_ref().expect("it is given back when the connection has ended");
    // Apart, so that a connection at the entrance is small.
    let serve = Box::pin(open.handler.serve(Connection { stream, peer, id, standing }));
    tokio::select! {
        served = serve => served,
        () = place.displaced() => Err(io::Error::other("another connection got its place")),
    }
}

fn say_panic(address: Option<SocketAddr>, ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        let address = address.map(tracing::field::display);
        error!(address, %error, "a connection panicked, and was closed");
    }
}

/// An open connection, which tells the handler of its end, however it ends.
struct Open<H: Handler> {
    handler: Arc<H>,
    id: ConnectionId,
    place: Option<Place>,
}

impl<H: Handler> Drop for Open<H> {
    fn drop(&mut self) {
        self.place = None; // whoever hears of the end does not count it any more
        self.handler.closed(self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const WITHIN: Duration = Duration::from_secs(20);

    /// Sends back what it receives, and panics at an exclamation mark.
    #[derive(Default)]
    struct Echo {
        ended: Mutex<Vec<ConnectionId>>,
        news: Notify,
    }

    impl Handler for Echo {
        async fn serve(&self, mut connection: Connection) -> io::Result<()> {
            loop {
                let byte = connection.stream.read_u8().await?;
                connection.standing.work();
                assert_ne!(byte, b'!', "on purpose");
                connection.stream.write_u8(byte).await?;
            }
        }

        fn closed(&self, connection: ConnectionId) {
            self.ended.lock().unwrap().push(connection);
            self.news.notify_one();
        }
    }

    async fn start(connections_max: usize) -> (Arc<Echo>, Serving) {
        let (handler, listener) = (Arc::new(Echo::default()), Listener::bind("127.0.0.1:0").await.unwrap());
        (Arc::clone(&handler), serve_connections(listener, Gate::new(connections_max), handler))
    }

    #[tokio::test]
    async fn a_connection_whose_peer_has_sent_nothing_is_small() {
        /// Has much in hand while it serves.
        struct Large;

        impl Handler for Large {
            async fn serve(&self, connection: Connection) -> io::Result<()> {
                let mut hand = [0; 20_000];
                connection.stream.readable().await?;
                connection.stream.try_read(&mut hand).map(drop)
            }
        }
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let entrance = Gate::new(10).open(socket);
        let _peer = TcpStream::connect(entrance.address().unwrap()).await.unwrap();
        let bytes = size_of_val(&serve_newcomer(entrance.accept().await, Arc::new(Large)));
        assert!(bytes < 1024, "{bytes} bytes");
    }

    async fn echoes(stream: &mut TcpStream, byte: u8) -> io::Result<bool> {
        stream.write_u8(byte).await?;
        Ok(stream.read_u8().await? == byte)
    }

    #[tokio::test]
    async fn a_panic_ends_its_connection_and_no_other_and_gives_its_place_back() {
        let (handler, serving) = start(2).await;
        let mut first = TcpStream::connect(serving.address()).await.unwrap();
        let mut second = TcpStream::connect(serving.address()).await.unwrap();
        assert!(echoes(&mut first, b'a').await.unwrap() && echoes(&mut second, b'b').await.unwrap());
        first.write_u8(b'!').await.unwrap();
        tokio::time::timeout(WITHIN, handler.news.notified()).await.expect("it is told");
        assert_eq!((handler.ended.lock().unwrap().len(), serving.connections().get()), (1, 1));
        assert!(matches!(first.read(&mut [0; 10]).await, Ok(0) | Err(_)));
        assert!(echoes(&mut second, b'c').await.unwrap());
        let mut third = TcpStream::connect(serving.address()).await.unwrap();
        assert!(echoes(&mut third, b'd').await.unwrap());
        let mut fourth = TcpStream::connect(serving.address()).await.unwrap();
        assert!(!echoes(&mut fourth, b'e').await.unwrap_or(false), "there are two already");
    }

    #[tokio::test]
    async fn who_has_stopped_it_is_alone() {
        let (handler, serving) = start(10).await;
        let (address, connections) = (serving.address(), serving.connections());
        let mut stream = TcpStream::connect(address).await.unwrap();
        assert!(echoes(&mut stream, b'a').await.unwrap());
        serving.stop().await;
        assert_eq!((connections.get(), Arc::strong_count(&handler)), (0, 1));
        assert_eq!(handler.ended.lock().unwrap().len(), 1);
        assert!(!echoes(&mut stream, b'b').await.unwrap_or(false));
        TcpStream::connect(address).await.expect_err("nobody listens");
    }
}
