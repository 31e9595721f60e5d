//! How a listening socket lets connections in, and how many.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tracing::debug;

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

/// Accepts connections, a limited number at a time.
pub(crate) struct Door {
    open: ConnectionCount,
    connections_max: usize,
    /// It was said that there are too many.
    is_said: bool,
}

/// A place inside, free again when this is dropped.
pub(crate) struct Place(ConnectionCount);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Door {
    pub(crate) fn new(connections_max: usize) -> Self {
        Self { open: ConnectionCount::default(), connections_max, is_said: false }
    }

    pub(crate) fn count(&self) -> ConnectionCount {
        self.open.clone()
    }

    /// The next connection. Those for which there is no place are closed, and `say_full` is called with the first of them.
    pub(crate) async fn accept(
        &mut self,
        socket: &TcpListener,
        say_full: impl Fn(SocketAddr),
    ) -> (TcpStream, SocketAddr, Place) {
        loop {
            match socket.accept().await {
                Ok((stream, peer)) => {
                    if let Some(place) = self.admit(|| say_full(peer)) {
                        return (stream, peer, place);
                    }
                }
                Err(error) => {
                    debug!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
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
        let mut door = Door::new(20);
        let mut said = 0;
        let mut admit = |door: &mut Door| door.admit(|| said += 1);
        let mut inside: Vec<Place> = (0..20).map(|_| admit(&mut door).expect("there is room")).collect();
        for _ in 0..5 {
            assert!(admit(&mut door).is_none());
            inside.pop();
            inside.push(admit(&mut door).expect("one has gone"));
        }
        inside.truncate(17);
        assert_eq!(door.count().get(), 17);
        while let Some(place) = admit(&mut door) {
            inside.push(place);
        }
        assert_eq!((inside.len(), said), (20, 2));
    }
}
