//! A follower's listener: it forwards every connection to the leading master, byte for byte.
//!
//! Clients and workers may then list several endpoints in any order. Each connection here has its own connection to the
//! leader, so that a closed connection keeps its meaning. If the leader does not answer, connections are closed, and clients
//! try the next endpoint in their list.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs, lookup_host};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tracing::{debug, info, warn};

use crate::error::{Error, Kind, Result};
use crate::net::{Door, listen, notice_vanished_peers};

/// How long the leader may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// A bound socket that forwards nothing yet.
pub(super) struct Bound {
    socket: TcpListener,
    address: SocketAddr,
}

/// Forwards connections. Dropping it closes the socket and all connections.
pub(super) struct Relay {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Bound {
    /// # Errors
    /// `Invalid` if the leader is this very socket: each connection would loop back to itself.
    pub(super) async fn serve(self, leader: String, connections_max: usize) -> Result<Relay> {
        let Self { socket, address } = self;
        let is_me = |leader: SocketAddr| {
            let is_here = || std::net::TcpListener::bind((leader.ip(), 0)).is_ok();
            leader.port() == address.port()
                && (leader.ip() == address.ip() || (address.ip().is_unspecified() && is_here()))
        };
        // A name that does not resolve yet may do so later.
        let found = lookup_host(&leader).await.into_iter().flatten().any(is_me);
        if found {
            let text = format!("the leader {leader} is this master itself");
            return Err(Error::new(Kind::Invalid, text).with_hint("give --leader the address of another one"));
        }
        info!(%leader, "passing every connection on");
        let leader = Arc::new(Leader { address: leader, is_away: AtomicBool::new(false) });
        let task = tokio::spawn(accept(socket, leader, connections_max));
        Ok(Relay { address, task })
    }
}

impl Relay {
    pub(super) async fn bind(address: impl ToSocketAddrs) -> Result<Bound> {
        let socket = listen(address).await?;
        let address = socket.local_addr()?;
        Ok(Bound { socket, address })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The master that connections are forwarded to.
struct Leader {
    address: String,
    /// Whether it refused the last connection: logged once.
    is_away: AtomicBool,
}

impl Leader {
    async fn connect(&self) -> io::Result<TcpStream> {
        let connected = timeout(CONNECT_MAX, TcpStream::connect(&self.address)).await;
        let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let was_away = self.is_away.swap(connected.is_err(), Ordering::Relaxed);
        match &connected {
            Err(error) if !was_away => warn!(leader = self.address, %error, "the leader cannot be reached"),
            Ok(_) if was_away => info!(leader = self.address, "the leader is back"),
            _ => {}
        }
        connected
    }
}

async fn accept(socket: TcpListener, leader: Arc<Leader>, connections_max: usize) {
    let mut connections = JoinSet::new();
    let mut door = Door::new(connections_max);
    let say_full = |_: SocketAddr| {
        let (leader, limit) = (&leader.address, connections_max);
        warn!(%leader, limit, "too many connections: new ones are closed; does the leader pass them back here?");
    };
    loop {
        let (stream, _, place) = tokio::select! {
            accepted = door.accept(&socket, say_full) => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let leader = leader.clone();
        connections.spawn(async move {
            if let Err(error) = pass_on(stream, &leader).await {
                debug!(leader = leader.address, %error, "a relayed connection ended");
            }
            drop(place);
        });
    }
}

async fn pass_on(mut near: TcpStream, leader: &Leader) -> io::Result<()> {
    let mut far = leader.connect().await?;
    for side in [&near, &far] {
        side.set_nodelay(true)?;
        notice_vanished_peers(side)?;
    }
    copy_bidirectional(&mut near, &mut far).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heard::Heard;

    #[tokio::test]
    async fn nobody_passes_on_to_itself() {
        for host in ["127.0.0.1", "0.0.0.0"] {
            let bound = Relay::bind((host, 0)).await.unwrap();
            let leader = format!("127.0.0.1:{}", bound.address.port());
            let error = bound.serve(leader, 10).await.err().expect("it would have no end");
            assert_eq!(error.kind(), Kind::Invalid, "{host}: {error}");
        }
        let other = Relay::bind(("127.0.0.1", 0)).await.unwrap();
        let bound = Relay::bind(("127.0.0.1", 0)).await.unwrap();
        assert!(bound.serve(other.address.to_string(), 10).await.is_ok());
    }

    #[tokio::test]
    async fn two_that_pass_on_to_each_other_say_so() {
        let (heard, _listening) = Heard::begin();
        let first = Relay::bind(("127.0.0.1", 0)).await.unwrap();
        let second = Relay::bind(("127.0.0.1", 0)).await.unwrap();
        let addresses = [first.address.to_string(), second.address.to_string()];
        let first = first.serve(addresses[1].clone(), 10).await.unwrap();
        let _second = second.serve(addresses[0].clone(), 10).await.unwrap();
        let _client = TcpStream::connect(first.address).await.unwrap();
        let said = async {
            while !heard.text().contains("does the leader pass them back here?") {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(20), said).await.expect("it is said");
    }
}
