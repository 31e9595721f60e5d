//! Sockets that listen.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket, ToSocketAddrs, lookup_host};
use tracing::debug;
use yeoul_base::{Error, ErrorKind};

/// Backlog: connections that the system holds before they are accepted. It lowers this to `net.core.somaxconn`, which
/// is as much since Linux 5.4. When it is full a peer tries again after 1, 3 and 7 s, and thousands of executors begin
/// to read at once.
const BACKLOG: u32 = 4096;

/// Raises the limit of open files to what the system allows: every connection is one.
pub fn raise_file_limit() {
    if let Err(error) = yeoul_base::raise_file_limit() {
        debug!(%error, "the limit of open files stays as it is");
    }
}

/// The error that says which of a server's ports cannot be bound.
pub fn cannot_bind(what: &str, host: impl Display, port: u16, error: io::Error) -> Error {
    Error::new(ErrorKind::of_io(&error), format!("cannot bind the {what} port, {port} at {host}"))
        .with_source(error)
        .with_hint("choose another port, or 0 for a free one, and an address of this machine")
}

/// A bound socket that does not accept yet.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Binds an address; port 0 takes a free one. Peers may connect from now on, up to the backlog.
    ///
    /// # Errors
    /// None of the addresses that `address` resolves to can be bound; the error is that of the last one.
    pub async fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        let socket = listen(address).await?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The bound port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn into_socket(self) -> TcpListener {
        self.socket
    }
}

/// Listens as [`TcpListener::bind`] does, whose backlog is only 128 connections.
async fn listen(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
    let mut failed = io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any address");
    for address in lookup_host(address).await? {
        let bind = || {
            let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            // A server restarts on the same ports while its old connections are still closing.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn connections_that_come_all_at_once_find_room() {
        let listener = Listener::bind("127.0.0.1:0").await.unwrap();
        let wanted = 300;
        let somaxconn = std::fs::read_to_string("/proc/sys/net/core/somaxconn");
        if somaxconn.is_ok_and(|most| most.trim().parse::<usize>().unwrap() < wanted) {
            return; // the system's limit on the backlog is lower
        }
        // Nobody accepts them. One for which there is no room would get no answer, ever.
        let mut made = Vec::new();
        let make = async {
            while made.len() < wanted {
                made.push(TcpStream::connect(listener.address()).await.unwrap());
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(10), make).await;
        assert!(in_time.is_ok(), "there was room for {}", made.len());
    }
}
