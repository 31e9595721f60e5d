//! The entrance of a listener: connections whose peers have sent nothing yet.
//!
//! One here costs a descriptor and a small task, and no place of the [gate](crate::gate): so there may be many, and a peer has some
//! time to send its request however fast others connect. It leaves with its first byte. Who is here longest, of the address that has
//! most, gives way to a newcomer that finds no room; but whoever has sent something by then has been no mere occupant, and goes in.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::gate::{Account, Gate, Place, Refusal, Table};
use crate::keepalive::notice_vanished_peers_after;
use crate::log_pace::LogPace;

/// How long nothing is accepted after a failure, mostly for want of file descriptors: open connections go on, and some end.
const PAUSE: Duration = Duration::from_millis(50);

/// A gate at work.
#[derive(Debug)]
pub(crate) struct Entrance {
    socket: TcpListener,
    newcomers: Arc<Table>,
    inside: Arc<Table>,
    closed: Arc<Closed>,
    idle_max: Duration,
    first_max: Duration,
}

impl Entrance {
    /// The entrance of this gate, for what `socket` accepts.
    pub fn of(gate: Gate, socket: TcpListener) -> Self {
        let address = socket.local_addr().ok();
        Self {
            socket,
            newcomers: Arc::new(Table::new(gate.newcomers_max, Account::default(), 0, gate.count())),
            inside: gate.table(),
            closed: Arc::new(Closed { pace: Mutex::default(), address, hint: gate.hint }),
            idle_max: gate.idle_max,
            first_max: gate.first_max,
        }
    }

    /// The address that is listened on.
    pub fn address(&self) -> Option<SocketAddr> {
        self.closed.address
    }

    /// The next connection that has a place here.
    pub async fn accept(&self) -> Newcomer {
        loop {
            let accepted = self.socket.accept().await;
            match accepted.map(|(stream, peer)| self.admit(stream, peer)) {
                Ok(Ok(newcomer)) => return newcomer,
                // It has cost no task and no place.
                Ok(Err(error)) => debug!(%error, "a connection ended at once"),
                Err(error) => {
                    debug!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr) -> io::Result<Newcomer> {
        has_sent(&stream)?;
        stream.set_nodelay(true)?;
        notice_vanished_peers_after(&stream, self.idle_max)?;
        let place = self.newcomers.enter(peer.ip()).map_err(|refusal| self.closed.refuse(peer, &refusal))?;
        Ok(Newcomer {
            stream,
            peer,
            place,
            inside: Arc::clone(&self.inside),
            closed: Arc::clone(&self.closed),
            first_max: self.first_max,
        })
    }
}

/// A connection whose peer may have sent nothing yet.
#[derive(Debug)]
pub(crate) struct Newcomer {
    stream: TcpStream,
    pub peer: SocketAddr,
    place: Place,
    inside: Arc<Table>,
    closed: Arc<Closed>,
    first_max: Duration,
}

impl Newcomer {
    /// Whether another one had to give way to it.
    pub fn is_taken_over(&self) -> bool {
        self.place.is_taken_over
    }

    /// The connection and its place inside, once its peer has sent something.
    ///
    /// # Errors
    /// The peer has gone, or sent nothing until its time was over or another one needed its place; or there is no place inside.
    pub async fn enter(self) -> io::Result<(TcpStream, Place)> {
        let Self { stream, peer, place, inside, closed, first_max } = self;
        if !has_sent(&stream)? {
            let mut byte = [0];
            let sent = async {
                tokio::select! {
                    sent = stream.peek(&mut byte) => drop(sent), // looked at below
                    () = place.displaced() => {}
                }
            };
            let ended = timeout(first_max, sent).await;
            // The kernel knows of bytes before the runtime has asked it, which may be late where processors are busy.
            if !has_sent(&stream)? {
                if ended.is_err() {
                    let text = format!("no byte came for {first_max:?}");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                closed.count(peer, None);
                return Err(io::Error::other("another connection got its place"));
            }
        }
        let entered = inside.enter(peer.ip()).map_err(|refusal| closed.refuse(peer, &refusal))?;
        if entered.is_taken_over {
            closed.count(peer, None);
        }
        Ok((stream, entered))
    }
}

/// Whether there are bytes of the peer that nobody has read.
///
/// # Errors
/// The peer is gone, or has closed its side without a byte.
fn has_sent(stream: &TcpStream) -> io::Result<bool> {
    let socket = SockRef::from(stream);
    // A peer that sent something and reset the connection left bytes to read.
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    match socket.peek(&mut [MaybeUninit::uninit()]) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Connections that were closed for want of room, for the log.
#[derive(Debug)]
struct Closed {
    pace: Mutex<LogPace>,
    /// The listener's.
    address: Option<SocketAddr>,
    hint: &'static str,
}

impl Closed {
    /// Counts a refused connection, and makes the error that ends it.
    fn refuse(&self, peer: SocketAddr, refusal: &Refusal) -> io::Error {
        self.count(peer, Some(refusal));
        io::Error::other(format!("too many connections: {refusal}"))
    }

    /// Says once in a while how many connections were closed, and which limit the last one met.
    fn count(&self, peer: SocketAddr, refusal: Option<&Refusal>) {
        let due = {
            let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
            pace.count();
            pace.take_due(Instant::now())
        };
        let Some(closed) = due else { return };
        let [address, limit] =
            [self.address.map(|address| address.to_string()), refusal.map(Refusal::to_string)];
        warn!(address, %peer, closed, limit, "too many connections: {}", self.hint);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::io::Write;
    use std::net::TcpStream as Peer;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    async fn entrance(newcomers_max: usize) -> Entrance {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Gate::new(100).with_newcomers_max(newcomers_max).open(socket)
    }

    fn connect(entrance: &Entrance) -> Peer {
        Peer::connect(entrance.address().unwrap()).unwrap()
    }

    async fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
        poll_fn(|context| Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending())).await
    }

    #[tokio::test]
    async fn who_has_sent_something_goes_in_even_if_its_place_is_gone_before_the_runtime_knows() {
        let entrance = entrance(4).await;
        let (mut honest, _silent) = (connect(&entrance), connect(&entrance));
        let mut honest_enters = pin!(entrance.accept().await.enter());
        let mut silent_enters = pin!(entrance.accept().await.enter());
        assert!(is_pending(&mut honest_enters).await && is_pending(&mut silent_enters).await);
        // Three of an address have room: the last two displace the first two. The runtime looks at no socket after that.
        let later = [connect(&entrance), connect(&entrance), connect(&entrance)];
        let mut inside = Vec::new();
        for _ in &later {
            inside.push(entrance.accept().await);
        }
        honest.write_all(b"a").unwrap();
        let (stream, place) = honest_enters.await.expect("its request is there");
        assert_eq!(stream.peer_addr().unwrap(), honest.local_addr().unwrap());
        assert!(!place.is_taken_over);
        let error = silent_enters.await.expect_err("it has sent nothing").to_string();
        assert!(error.contains("another connection got its place"), "{error}");
    }

    #[tokio::test]
    async fn who_has_gone_before_it_is_accepted_gets_no_place() {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gate = Gate::new(100);
        let (count, entrance) = (gate.count(), gate.open(socket));
        for has_asked in [false, true] {
            let mut gone = connect(&entrance);
            if has_asked {
                gone.write_all(b"a request").unwrap();
            }
            SockRef::from(&gone).set_linger(Some(Duration::ZERO)).unwrap();
        }
        drop(connect(&entrance));
        let there = connect(&entrance);
        let newcomer = entrance.accept().await;
        assert_eq!((newcomer.peer, count.get()), (there.local_addr().unwrap(), 1));
    }

    #[tokio::test]
    async fn who_sends_nothing_has_to_leave_in_time() {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gate = Gate::new(100).with_first_max(Duration::from_millis(1));
        let (count, entrance) = (gate.count(), gate.open(socket));
        let _silent = connect(&entrance);
        let error = entrance.accept().await.enter().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(count.get(), 0);
    }
}
