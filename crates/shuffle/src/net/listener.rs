//! A socket that takes Celeborn's frames.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::ToSocketAddrs;
use yeoul_net::{Account, FrameOptions, Serving, serve_frames};

use super::protocol::Celeborn;
use super::service::{Frames, Service};
use crate::wire::Limits;

/// How a listener treats its connections.
pub type Options = FrameOptions<Limits>;

/// A bound socket that does not accept yet.
pub struct Listener {
    socket: yeoul_net::Listener,
    options: Options,
}

impl Listener {
    /// Binds an address; port 0 takes a free one.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn bind(address: impl ToSocketAddrs, options: Options) -> io::Result<Self> {
        Ok(Self { socket: yeoul_net::Listener::bind(address).await?, options })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.socket.address()
    }

    /// The bound port.
    pub fn port(&self) -> u16 {
        self.socket.port()
    }

    /// Charges connections to this account.
    #[must_use]
    pub fn with_account(mut self, account: Account) -> Self {
        self.options.account = account;
        self
    }

    /// Charges large answers to this account until they have left.
    #[must_use]
    pub fn with_answers(mut self, account: Account) -> Self {
        self.options.answers = account;
        self
    }

    /// Accepts connections until the result is stopped or dropped.
    pub fn serve<S: Service>(self, service: Arc<S>) -> Serving {
        serve_frames::<Celeborn>(self.socket, self.options, Arc::new(Frames(service)))
    }
}
