//! How a listening socket lets connections in, and how many.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tracing::{debug, warn};

use crate::keepalive::notice_vanished_peers_after;
use crate::log_pace::LogPace;
use crate::places::{Admission, Entry, Places};

/// How long nothing is accepted after a failure, mostly for want of file descriptors: open connections go on, and some end.
const PAUSE: Duration = Duration::from_millis(50);

/// Memory that is given back when this is dropped.
pub type Held = Box<dyn Any + Send + Sync>;

/// The account of a process's memory, as far as connections need it: charges bytes, or says that there are none.
#[derive(Clone)]
pub struct Account(Arc<dyn Fn(u64) -> Option<Held> + Send + Sync>);

impl Account {
    /// An account that charges so many bytes with `charge`, which does not wait.
    pub fn new(charge: impl Fn(u64) -> Option<Held> + Send + Sync + 'static) -> Self {
        Self(Arc::new(charge))
    }

    /// Charges bytes; none if there is no room for them.
    pub fn charge(&self, bytes: u64) -> Option<Held> {
        (self.0)(bytes)
    }
}

impl Default for Account {
    /// An account without a limit, for servers without a promise.
    fn default() -> Self {
        Self::new(|_| Some(Box::new(())))
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Account")
    }
}

/// The number of a listener's open connections, for code that does not own the listener.
#[derive(Debug, Clone, Default)]
pub struct ConnectionCount(Arc<AtomicUsize>);

impl ConnectionCount {
    /// Connections open now.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Lets connections in, a limited number at a time and three quarters of it from one address, and has the kernel give up
/// those whose peers have vanished. A newcomer that finds no room takes the place of a connection that waits for its peer,
/// see [`Standing`]; if there is none it is closed.
#[derive(Debug)]
pub struct Gate {
    table: Arc<Table>,
    idle_max: Duration,
    hint: &'static str,
    account: Account,
    connection_bytes: u64,
    closed: LogPace,
}

/// The places of a listener, and what each of them holds.
#[derive(Debug)]
struct Table {
    places: Mutex<(Places, HashMap<Entry, Inside>)>,
    open: ConnectionCount,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, (Places, HashMap<Entry, Inside>)> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that has a place.
struct Inside {
    /// Notified when it has to leave.
    displaced: Arc<Notify>,
    memory: Option<Held>,
}

impl fmt::Debug for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inside")
    }
}

/// A place inside, free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    table: Arc<Table>,
    entry: Entry,
    displaced: Arc<Notify>,
    /// It was another connection's.
    pub is_taken_over: bool,
}

impl Place {
    /// Returns when a newcomer has got this place.
    pub async fn displaced(&self) {
        self.displaced.notified().await;
    }

    /// The same place, for whoever knows whether its peer is waited for.
    pub fn standing(&self) -> Standing {
        Standing { table: Arc::downgrade(&self.table), entry: self.entry }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let memory = {
            let mut table = self.table.lock();
            if table.0.leave(self.entry) {
                self.table.open.0.fetch_sub(1, Ordering::Relaxed);
            }
            table.1.remove(&self.entry)
        };
        drop(memory); // outside the lock
    }
}

/// What a connection is doing, which decides whether a newcomer may take its place when there is no room: it may while the
/// connection waits for its peer, as every new one does. The default is that of a connection that no gate let in.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    table: Weak<Table>,
    entry: Entry,
}

impl Standing {
    /// The peer has sent a whole request, or what else shows that it is no mere occupant of its place.
    pub fn work(&self) {
        self.set_waiting(false);
    }

    /// The server waits for the peer: for a request, or until an answer is read.
    pub fn wait(&self) {
        self.set_waiting(true);
    }

    fn set_waiting(&self, waits: bool) {
        if let Some(table) = self.table.upgrade() {
            table.lock().0.set_waiting(self.entry, waits);
        }
    }
}

impl Gate {
    /// A gate for so many connections at a time.
    pub fn new(connections_max: usize) -> Self {
        let places = Mutex::new((Places::new(connections_max), HashMap::new()));
        Self {
            table: Arc::new(Table { places, open: ConnectionCount::default() }),
            idle_max: Duration::ZERO,
            hint: "new ones are closed until others end",
            account: Account::default(),
            connection_bytes: 0,
            closed: LogPace::default(),
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

    /// Charges each connection so many bytes; one for which there are none gets the place and the memory of one that waits.
    #[must_use]
    pub fn with_account(self, account: Account, connection_bytes: u64) -> Self {
        Self { account, connection_bytes, ..self }
    }

    /// The number of connections inside, which can be read at any time.
    pub fn count(&self) -> ConnectionCount {
        self.table.open.clone()
    }

    /// The next connection.
    pub(crate) async fn accept(&mut self, socket: &TcpListener) -> (TcpStream, SocketAddr, Place) {
        loop {
            match socket.accept().await {
                Ok((stream, peer)) => {
                    let admitted = self.admit(peer);
                    self.say_closed(socket, peer, admitted.as_ref().err());
                    let Ok(place) = admitted else { continue };
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

    /// A place for a newcomer, or why there is none.
    fn admit(&mut self, peer: SocketAddr) -> Result<Place, Refusal> {
        let (mut memory, mut is_short) = (None, false);
        let mut guard = self.table.lock();
        let (places, inside) = &mut *guard;
        let admission = places.enter(peer.ip(), || {
            memory = self.account.charge(self.connection_bytes);
            is_short = memory.is_none();
            !is_short
        });
        let (entry, gone) = match admission {
            Admission::Entered(entry) => (entry, None),
            Admission::Replaced(entry, gone) => (entry, inside.remove(&gone)),
            Admission::Full | Admission::AddressFull => {
                self.closed.count();
                let (places_max, address_max) = places.limits();
                return Err(match admission {
                    Admission::AddressFull => Refusal::Address(address_max),
                    _ if is_short => Refusal::Memory,
                    _ => Refusal::Places(places_max),
                });
            }
        };
        let is_taken_over = gone.is_some();
        match gone {
            Some(gone) => {
                gone.displaced.notify_one();
                memory = memory.or(gone.memory);
                self.closed.count();
            }
            None => _ = self.table.open.0.fetch_add(1, Ordering::Relaxed),
        }
        let displaced = Arc::new(Notify::new());
        inside.insert(entry, Inside { displaced: Arc::clone(&displaced), memory });
        drop(guard);
        Ok(Place { table: Arc::clone(&self.table), entry, displaced, is_taken_over })
    }

    /// Says once in a while how many connections were closed for want of room, and which limit the last one met.
    fn say_closed(&mut self, socket: &TcpListener, peer: SocketAddr, refusal: Option<&Refusal>) {
        let Some(closed) = self.closed.take_due(Instant::now()) else { return };
        let address = socket.local_addr().ok().map(tracing::field::display);
        let limit = refusal.map(tracing::field::display);
        warn!(address, %peer, closed, limit, "too many connections: {}", self.hint);
    }
}

/// Why a newcomer got no place.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// All of so many are taken by connections that work.
    Places(usize),
    /// All of so many that one address may have are.
    Address(usize),
    /// There is no memory for one more.
    Memory,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Places(max) => write!(f, "{max}"),
            Self::Address(max) => write!(f, "{max} from one address"),
            Self::Memory => f.write_str("memory"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory for two connections.
    fn memory_for_two() -> (Arc<()>, Account) {
        let memory = Arc::new(());
        let given = Arc::clone(&memory);
        let account = Account::new(move |_| {
            (Arc::strong_count(&given) < 4).then(|| Box::new(Arc::clone(&given)) as Held)
        });
        (memory, account)
    }

    #[tokio::test]
    async fn who_gets_the_place_of_another_gets_its_memory() {
        let (memory, account) = memory_for_two();
        let mut gate = Gate::new(100).with_account(account, 1);
        let count = gate.count();
        let mut enter = |last: u8| gate.admit(SocketAddr::from(([10, 0, 0, last], 1)));
        let (first, second) = (enter(1).unwrap(), enter(2).unwrap());
        second.standing().work();
        let third = enter(3).unwrap();
        first.displaced().await;
        drop(first);
        assert_eq!((Arc::strong_count(&memory), count.get()), (4, 2), "two, and what gives it");
        third.standing().work();
        assert_eq!(enter(4).unwrap_err(), Refusal::Memory);
        third.standing().wait();
        let fourth = enter(4).unwrap();
        third.displaced().await;
        drop((second, third, fourth));
        assert_eq!((Arc::strong_count(&memory), count.get()), (2, 0));
    }
}
