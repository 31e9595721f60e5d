//! How the kernel notices that a peer has vanished.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

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

/// Has the kernel probe peers that are silent for long, and give up those that acknowledge nothing. A peer whose
/// machine died sends nothing, and would count against a limit of connections for ever if it died between two frames, else
/// for long. Accepted connections have this already.
///
/// # Errors
/// The socket cannot be used any more.
pub fn notice_vanished_peers(stream: &TcpStream) -> io::Result<()> {
    notice_vanished_peers_after(stream, UNACKNOWLEDGED_MAX)
}

/// The same, for a connection on which a frame may make no progress for `idle_max`: it is not given up before.
pub(crate) fn notice_vanished_peers_after(stream: &TcpStream, idle_max: Duration) -> io::Result<()> {
    let socket = SockRef::from(stream);
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(idle_max.clamp(UNACKNOWLEDGED_MAX, USER_TIMEOUT_MAX)))?;
    let ask = TcpKeepalive::new().with_time(KEEPALIVE_SILENCE).with_interval(KEEPALIVE_INTERVAL);
    socket.set_tcp_keepalive(&ask.with_retries(KEEPALIVE_RETRIES))
}
