//! How a listening socket lets connections in, and how many.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::entrance::Entrance;
use crate::places::{Admission, Entry, Places};

/// Time for the first byte of a connection, by default.
const FIRST_MAX: Duration = Duration::from_secs(60);

/// Connections at the entrance, which are not charged.
const NEWCOMERS_MAX: usize = 4096;

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

/// The limits of a listener's connections: so many at a time, and three quarters of it from one address. A newcomer that finds
/// no room takes the place of a connection that waits for its peer, see [`Standing`]; if there is none it is closed. A connection
/// whose peer has sent nothing yet has none of these places, but one at the entrance, of which there are 4,096.
#[derive(Debug)]
pub struct Gate {
    connections_max: usize,
    pub(crate) newcomers_max: usize,
    pub(crate) idle_max: Duration,
    pub(crate) first_max: Duration,
    pub(crate) hint: &'static str,
    account: Account,
    connection_bytes: u64,
    open: ConnectionCount,
}

/// The places of a listener, and what each of them holds.
#[derive(Debug)]
pub(crate) struct Table {
    places: Mutex<(Places, HashMap<Entry, Inside>)>,
    account: Account,
    connection_bytes: u64,
    open: ConnectionCount,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, (Places, HashMap<Entry, Inside>)> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A table of so many places, each of which is charged so many bytes and counted in `open`.
    pub fn new(places_max: usize, account: Account, connection_bytes: u64, open: ConnectionCount) -> Self {
        let places = Mutex::new((Places::new(places_max), HashMap::new()));
        Self { places, account, connection_bytes, open }
    }

    /// A place for a connection, or why there is none.
    pub fn enter(self: &Arc<Self>, peer: IpAddr) -> Result<Place, Refusal> {
        let (mut memory, mut is_short) = (None, false);
        let mut guard = self.lock();
        let (places, inside) = &mut *guard;
        let admission = places.enter(peer, || {
            memory = self.account.charge(self.connection_bytes);
            is_short = memory.is_none();
            !is_short
        });
        let (entry, gone) = match admission {
            Admission::Entered(entry) => (entry, None),
            Admission::Replaced(entry, gone) => (entry, inside.remove(&gone)),
            Admission::AddressFull => return Err(Refusal::Address(places.limits().1)),
            Admission::Full if is_short => return Err(Refusal::Memory),
            Admission::Full => return Err(Refusal::Places(places.limits().0)),
        };
        let is_taken_over = gone.is_some();
        match gone {
            Some(gone) => {
                gone.displaced.notify_one();
                memory = memory.or(gone.memory);
            }
            None => _ = self.open.0.fetch_add(1, Ordering::Relaxed),
        }
        let displaced = Arc::new(Notify::new());
        inside.insert(entry, Inside { displaced: Arc::clone(&displaced), memory });
        drop(guard);
        Ok(Place { table: Arc::clone(self), entry, displaced, is_taken_over })
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
        Self {
            connections_max,
            newcomers_max: NEWCOMERS_MAX,
            idle_max: Duration::ZERO,
            first_max: FIRST_MAX,
            hint: "new ones are closed until others end",
            account: Account::default(),
            connection_bytes: 0,
            open: ConnectionCount::default(),
        }
    }

    /// Has the kernel not give up a peer before `idle_max` that acknowledges nothing: for connections that may make no
    /// progress for so long. It never does so before two minutes.
    #[must_use]
    pub fn with_idle_max(self, idle_max: Duration) -> Self {
        Self { idle_max, ..self }
    }

    /// Gives a peer so long to send its first byte.
    #[must_use]
    pub fn with_first_max(self, first_max: Duration) -> Self {
        Self { first_max, ..self }
    }

    /// Lets so many connections wait for their first byte.
    #[must_use]
    pub fn with_newcomers_max(self, newcomers_max: usize) -> Self {
        Self { newcomers_max, ..self }
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

    /// The number of connections, with those at the entrance, which can be read at any time.
    pub fn count(&self) -> ConnectionCount {
        self.open.clone()
    }

    /// The places behind this gate.
    pub(crate) fn table(&self) -> Arc<Table> {
        let Self { connections_max, connection_bytes, .. } = *self;
        Arc::new(Table::new(connections_max, self.account.clone(), connection_bytes, self.open.clone()))
    }

    /// The way in for what this socket accepts.
    pub(crate) fn open(self, socket: TcpListener) -> Entrance {
        Entrance::of(self, socket)
    }
}

/// Why a newcomer got no place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
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
        let gate = Gate::new(100).with_account(account, 1);
        let (table, count) = (gate.table(), gate.count());
        drop(gate);
        let enter = |last: u8| table.enter([10, 0, 0, last].into());
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
