//! How a listening socket lets connections in, and how many.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tracing::{debug, warn};

use crate::keepalive::notice_vanished_peers_after;

/// How long nothing is accepted after a failure, mostly for want of file descriptors: open connections go on, and some end.
const PAUSE: Duration = Duration::from_millis(50);

/// The number of a listener's open connections, for code that does not own the listener.
#[derive(Debug, Clone, Default)]
pub struct ConnectionCount(Arc<AtomicUsize>);

impl ConnectionCount {
    /// Connections open now.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Lets connections in, a limited number at a time, and has the kernel give up those whose peers have vanished.
#[derive(Debug)]
pub struct Gate {
    open: ConnectionCount,
    connections_max: usize,
    idle_max: Duration,
    hint: &'static str,
    /// It was said that there are too many.
    is_said: bool,
}

/// A place inside, free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place(ConnectionCount);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Gate {
    /// A gate for so many connections at a time. One more is closed when it arrives, which is logged once.
    pub fn new(connections_max: usize) -> Self {
        Self {
            open: ConnectionCount::default(),
            connections_max,
            idle_max: Duration::ZERO,
            hint: "new ones are closed until others end",
            is_said: false,
        }
    }

    /// Has the kernel not give up a peer before `idle_max` that acknowledges nothing: for connections that may make no
    /// progress for so long. It never does so before two minutes.
    #[must_use]
    pub fn with_idle_max(self, idle_max: Duration) -> Self {
        Self { idle_max, ..self }
    }

    /// Says this behind "too many connections: ", instead of that new ones are closed.
    #[must_use]
    pub fn with_hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    /// The number of connections inside, which can be read at any time.
    pub fn count(&self) -> ConnectionCount {
        self.open.clone()
    }

    /// The next connection.
    pub(crate) async fn accept(&mut self, socket: &TcpListener) -> (TcpStream, SocketAddr, Place) {
        loop {
            match socket.accept().await {
                Ok((stream, peer)) => {
                    let (limit, hint) = (self.connections_max, self.hint);
                    let say_full = || {
                        let address = socket.local_addr().ok().map(tracing::field::display);
                        warn!(address, %peer, limit, "too many connections: {hint}");
                    };
                    let Some(place) = self.admit(say_full) else { continue };
                    match self.prepare(&stream) {
                        Ok(()) => return (stream, peer, place),
                        Err(error) => debug!(%peer, %error, "a connection ended at once"),
                    }
                }
                Err(error) => {
                    debug!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn prepare(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        notice_vanished_peers_after(stream, self.idle_max)
    }

    /// That it is full is said again only if it was not nearly full in between: with each connection that ends another one
    /// comes in.
    fn admit(&mut self, say_full: impl FnOnce()) -> Option<Place> {
        let open = self.open.get();
        self.is_said &= open >= self.connections_max - self.connections_max / 10;
        if open >= self.connections_max {
            if !std::mem::replace(&mut self.is_said, true) {
                say_full();
            }
            return None;
        }
        self.open.0.fetch_add(1, Ordering::Relaxed);
        Some(Place(self.open.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_there_are_too_many_is_said_once_until_there_are_far_fewer() {
        let mut gate = Gate::new(20);
        let mut said = 0;
        let mut admit = |gate: &mut Gate| gate.admit(|| said += 1);
        let mut inside: Vec<Place> = (0..20).map(|_| admit(&mut gate).expect("there is room")).collect();
        for _ in 0..5 {
            assert!(admit(&mut gate).is_none());
            inside.pop();
            inside.push(admit(&mut gate).expect("one has gone"));
        }
        inside.truncate(17);
        assert_eq!(gate.count().get(), 17);
        while let Some(place) = admit(&mut gate) {
            inside.push(place);
        }
        assert_eq!((inside.len(), said), (20, 2));
    }
}
