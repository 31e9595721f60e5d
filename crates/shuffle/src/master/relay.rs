//! A follower's listener: every connection goes on to the leading master, byte for byte.
//!
//! Clients and workers may then list several endpoints in any order. A connection of its own to the leader for each one
//! here keeps what the end of a connection means. Without a leader connections are closed, upon which clients of all
//! kinds go to the next endpoint in their list.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use crate::Result;
use crate::net::notice_vanished_peers;

/// How long the leader may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// See the [module](self). Dropping it closes the socket and all connections.
pub(super) struct Relay {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Relay {
    pub(super) async fn start(
        address: impl ToSocketAddrs,
        leader: String,
        connections_max: usize,
    ) -> Result<Self> {
        let socket = TcpListener::bind(address).await?;
        let address = socket.local_addr()?;
        let task = tokio::spawn(accept(socket, leader.into(), connections_max));
        Ok(Self { address, task })
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

async fn accept(socket: TcpListener, leader: Arc<str>, connections_max: usize) {
    let mut connections = JoinSet::new();
    let places = Arc::new(Semaphore::new(connections_max));
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let (stream, _) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let leader = leader.clone();
        connections.spawn(async move {
            if let Err(error) = pass_on(stream, &leader).await {
                tracing::debug!(%leader, %error, "a relayed connection ended");
            }
            drop(place);
        });
    }
}

async fn pass_on(mut near: TcpStream, leader: &str) -> std::io::Result<()> {
    let connect = tokio::time::timeout(CONNECT_MAX, TcpStream::connect(leader));
    let mut far = connect.await.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))?;
    for side in [&near, &far] {
        side.set_nodelay(true)?;
        notice_vanished_peers(side)?;
    }
    copy_bidirectional(&mut near, &mut far).await.map(|_| ())
}
