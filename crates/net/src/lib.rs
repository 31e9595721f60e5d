//! The connections, pages and numbers of every server, and what keeps a server from living on half dead. Nothing here knows
//! what a server serves.
//!
//! - Accepting: a [`Listener`] is a bound socket, a [`Gate`] says how many connections may be open, and
//!   [`serve_connections`] gives each of them to a [`Handler`], in a task of its own. One address gets three quarters of the
//!   places, and where there is none left a newcomer takes that of a connection whose peer has sent no request yet
//!   ([`Standing`]). A panic in a connection ends that connection. Peers that vanish are noticed ([`notice_vanished_peers`]
//!   for connections that are made).
//! - [`stream`]: heads and bodies of a byte stream, with limits in time and memory.
//! - [`frames`]: request and response over frames of any [`Protocol`]: [`serve_frames`] with a [`Service`], and a
//!   [`Client`].
//! - [`http`]: pages for people, JSON for scripts.
//! - [`metrics`]: counters, timers, and the text that Prometheus reads.
//! - [`LogLevels`]: levels of the log, which may be changed while a server runs.
//! - [`supervise`]: tasks that must live, and a [`DecisionLock`](supervise::DecisionLock) around state that must be whole.
//!
//! ```
//! # use std::io; use std::sync::Arc;
//! # use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use yeoul_net::{Connection, Gate, Handler, Listener, serve_connections};
//!
//! /// Sends back what it receives.
//! struct Echo;
//!
//! impl Handler for Echo {
//!     async fn serve(&self, connection: Connection) -> io::Result<()> {
//!         let (mut read, mut write) = connection.stream.into_split();
//!         tokio::io::copy(&mut read, &mut write).await.map(drop)
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> io::Result<()> {
//! let listener = Listener::bind("127.0.0.1:0").await?;
//! let serving = serve_connections(listener, Gate::new(1000), Arc::new(Echo));
//! let mut stream = tokio::net::TcpStream::connect(serving.address()).await?;
//! stream.write_all(b"hello").await?;
//! let mut echoed = [0; 5];
//! stream.read_exact(&mut echoed).await?;
//! assert_eq!((&echoed, serving.connections().get()), (b"hello", 1));
//! serving.stop().await;
//! # Ok(())
//! # }
//! ```

mod connections;
mod entrance;
pub mod frames;
mod gate;
pub mod http;
mod keepalive;
mod listener;
mod log_levels;
mod log_pace;
pub mod metrics;
mod places;
pub mod stream;
pub mod supervise;

pub use connections::{Connection, ConnectionId, Handler, Serving, serve_connections};
pub use frames::{
    Calls, Client, ClientOptions, FrameOptions, Payload, PieceFuture, PieceSource, Protocol, Reply,
    RequestError, Service, serve_frames, serve_frames_of,
};
pub use gate::{Account, ConnectionCount, Gate, Held, Standing};
pub use keepalive::notice_vanished_peers;
pub use listener::{Listener, cannot_bind, raise_file_limit};
pub use log_levels::{LevelRefused, LogLevels, ROOT_LOGGER};
pub use log_pace::LogPace;
pub use stream::{Body, ReaderOptions, StreamReader, StreamWriter};
