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
use tokio::net::{TcpStream, ToSocketAddrs, lookup_host};
use tokio::time::timeout;
use tracing::{info, warn};
use yeoul_net::{Connection, Gate, Handler, Listener, Serving, notice_vanished_peers, serve_connections};

use crate::error::{Error, Kind, Result};

/// How long the leader may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// How long a connection may take to bring its first bytes.
const FIRST_MAX: Duration = Duration::from_secs(60);

/// A bound socket that forwards nothing yet.
pub(super) struct Bound(Listener);

/// Forwards connections. Dropping it closes the socket and all connections.
pub(super) struct Relay(Serving);

impl Bound {
    /// # Errors
    /// `Invalid` if the leader is this very socket: each connection would loop back to itself.
    pub(super) async fn serve(self, leader: String, connections_max: usize) -> Result<Relay> {
        let address = self.0.address();
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
        let gate =
            Gate::new(connections_max).with_hint("new ones are closed; does the leader pass them back here?");
        Ok(Relay(serve_connections(self.0, gate, leader)))
    }
}

impl Relay {
    pub(super) async fn bind(address: impl ToSocketAddrs) -> io::Result<Bound> {
        Ok(Bound(Listener::bind(address).await?))
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.0.address()
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

impl Handler for Leader {
    async fn serve(&self, connection: Connection) -> io::Result<()> {
        // Who sends nothing occupies no connection of the leader's, and gives way here.
        let begun = timeout(FIRST_MAX, connection.stream.peek(&mut [0])).await;
        if begun.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))? == 0 {
            return Ok(());
        }
        connection.standing.work();
        let (mut near, mut far) = (connection.stream, self.connect().await?);
        far.set_nodelay(true)?;
        notice_vanished_peers(&far)?;
        copy_bidirectional(&mut near, &mut far).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::heard::Heard;

    #[tokio::test]
    async fn nobody_passes_on_to_itself() {
        for host in ["127.0.0.1", "0.0.0.0"] {
            let bound = Relay::bind((host, 0)).await.unwrap();
            let leader = format!("127.0.0.1:{}", bound.0.address().port());
            let error = bound.serve(leader, 10).await.err().expect("it would have no end");
            assert_eq!(error.kind(), Kind::Invalid, "{host}: {error}");
        }
        let other = Relay::bind(("127.0.0.1", 0)).await.unwrap();
        let bound = Relay::bind(("127.0.0.1", 0)).await.unwrap();
        assert!(bound.serve(other.0.address().to_string(), 10).await.is_ok());
    }

    #[tokio::test]
    async fn two_that_pass_on_to_each_other_say_so() {
        let (heard, _listening) = Heard::begin();
        let first = Relay::bind(("127.0.0.1", 0)).await.unwrap();
        let second = Relay::bind(("127.0.0.1", 0)).await.unwrap();
        let addresses = [first.0.address().to_string(), second.0.address().to_string()];
        let first = first.serve(addresses[1].clone(), 10).await.unwrap();
        let _second = second.serve(addresses[0].clone(), 10).await.unwrap();
        let mut client = TcpStream::connect(first.address()).await.unwrap();
        client.write_all(b"a frame").await.unwrap();
        let said = async {
            while !heard.text().contains("does the leader pass them back here?") {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(20), said).await.expect("it is said");
    }
}
