//! The memory promise of a NameNode or a DataNode, or of a whole cluster in one process: what grows with load is charged to a
//! [ledger](yeoul_memory::Ledger), whose limit follows what the process uses besides.
//!
//! Connections and tables are refused when there is no room; calls, transfers and long packets wait for it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;
use yeoul_base::ByteSize;
use yeoul_memory::{Buffers, Governor, Reserve};
use yeoul_net::{Account, Gate, Held};

use crate::error::{Error, Kind, Result};

/// The memory of a process that is not told how much it may use.
pub const MEMORY_BYTES_DEFAULT: u64 = 1 << 30;
/// The least memory with which a server works: below it, code and a few connections leave no room for files.
pub const MEMORY_BYTES_MIN: u64 = 48 << 20;

/// Bytes of a connection without work: its task and the first bytes of a buffer.
const CONNECTION_BYTES: u64 = 16 << 10;

/// Bytes of memory that are in use until this is dropped.
pub type Charge = yeoul_memory::Charge<Party>;

/// The reason for which a peer wants memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Purpose {
    /// Its calls and transfers. They leave a sixteenth of the limit to those of servers.
    Client,
    /// What another server of the cluster wants: clients' work ends only after it.
    Server,
    /// The tables of this server.
    Tables,
}

/// Whoever memory is charged to: clients and servers by their addresses, so that one of them does not take it all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Party {
    peer: Arc<str>,
    purpose: Purpose,
}

impl Party {
    /// A client at an address.
    pub fn client(peer: impl Into<Arc<str>>) -> Self {
        Self { peer: peer.into(), purpose: Purpose::Client }
    }

    /// A server of the cluster at an address.
    pub fn server(peer: impl Into<Arc<str>>) -> Self {
        Self { peer: peer.into(), purpose: Purpose::Server }
    }

    fn tables() -> Self {
        Self { peer: Arc::from("this server"), purpose: Purpose::Tables }
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}", self.purpose, self.peer)
    }
}

impl yeoul_memory::Party for Party {
    fn reserve(&self) -> Reserve {
        match self.purpose {
            Purpose::Client => Reserve::Leaves,
            Purpose::Server => Reserve::Overtakes,
            Purpose::Tables => Reserve::Takes,
        }
    }
}

/// The memory of a process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Memory {
    ledger: yeoul_memory::Ledger<Party>,
    bytes: u64,
}

impl Memory {
    /// A promise that the process uses no more than `bytes`, which somebody has to [keep](Self::keep).
    ///
    /// # Errors
    /// `Invalid` for less than [`MEMORY_BYTES_MIN`].
    pub fn new(bytes: u64) -> Result<Self> {
        if bytes < MEMORY_BYTES_MIN {
            let [found, least] = [bytes, MEMORY_BYTES_MIN].map(ByteSize::from_bytes);
            let message = format!("memory of {found}, expected at least {least}");
            return Err(Error::new(Kind::Invalid, message).with_hint("give at least --memory 48MiB"));
        }
        Ok(Self { ledger: yeoul_memory::Ledger::new(Governor::new(bytes).first_limit()), bytes })
    }

    /// Has the ledger's limit follow what the process uses besides, until this is dropped.
    pub async fn keep(self) {
        let set_limit = |limit| self.ledger.set_limit(limit);
        Governor::new(self.bytes).run(&self.ledger, &Buffers::default(), set_limit).await;
    }

    /// Bytes that the whole process may use.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that are charged.
    pub fn used(&self) -> u64 {
        self.ledger.used()
    }

    /// Bytes that may be charged, as the process is now.
    pub fn limit(&self) -> u64 {
        self.ledger.limit()
    }

    /// Requests that wait for room.
    pub fn waiting(&self) -> usize {
        self.ledger.waiting()
    }

    /// The account that listeners charge connections to.
    pub fn account(&self) -> Account {
        let ledger = self.ledger.clone();
        Account::new(move |bytes| {
            ledger.has_room_for_fixed(bytes).then(|| Box::new(ledger.charge_fixed(bytes)) as Held)
        })
    }

    /// A gate for so many connections, each of which is charged.
    pub fn gate(&self, connections_max: usize) -> Gate {
        Gate::new(connections_max).with_account(self.account(), CONNECTION_BYTES)
    }

    /// Waits for room, but no longer than `max`: none if there was none.
    pub async fn acquire(&self, party: &Party, bytes: u64, max: Duration) -> Option<Charge> {
        timeout(max, self.ledger.acquire(party, bytes)).await.ok()
    }

    /// The same on a thread of the runtime that may block.
    pub fn acquire_blocking(&self, party: &Party, bytes: u64, max: Duration) -> Option<Charge> {
        Handle::current().block_on(self.acquire(party, bytes, max))
    }

    /// True if tables may grow by so many bytes.
    pub fn has_room_in_tables(&self, bytes: u64) -> bool {
        self.ledger.has_room_for_fixed(bytes)
    }

    /// The account of a server's tables, which have no bytes yet.
    pub fn tables(&self) -> TableCharge {
        TableCharge(self.ledger.charge_fixed_of(&Party::tables(), 0))
    }
}

/// Bytes of tables.
#[derive(Debug)]
pub struct TableCharge(Charge);

impl TableCharge {
    /// Charges what the tables have now. It does not wait: whoever makes them grow asks first.
    pub fn set(&mut self, bytes: u64) {
        let before = self.0.bytes();
        if bytes >= before {
            self.0.grow(bytes - before);
        } else {
            drop(self.0.split(before - bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Charges all that tables may have, and says how much that is.
    fn filled(memory: &Memory, tables: &mut TableCharge) -> u64 {
        let mut bytes = 0;
        for step in [1 << 20, 1 << 10] {
            while memory.has_room_in_tables(step) {
                bytes += step;
                tables.set(bytes);
            }
        }
        bytes
    }

    #[test]
    fn too_little_memory_is_refused() {
        let error = Memory::new(MEMORY_BYTES_MIN - 1).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid);
        assert!(Memory::new(MEMORY_BYTES_MIN).is_ok());
    }

    #[test]
    fn tables_are_charged_as_they_are_and_full_ones_leave_no_room_for_a_connection() {
        let memory = Memory::new(MEMORY_BYTES_MIN).unwrap();
        let mut tables = memory.tables();
        let bytes = filled(&memory, &mut tables);
        // Seven eighths of three quarters of 48 MiB.
        assert!((31 << 20..=32 << 20).contains(&bytes), "{bytes}");
        assert_eq!(memory.used(), bytes);
        let account = memory.account();
        assert!(account.charge(CONNECTION_BYTES).is_none());
        tables.set(bytes - (1 << 20));
        let connection = account.charge(CONNECTION_BYTES).unwrap();
        assert_eq!(memory.used(), bytes - (1 << 20) + CONNECTION_BYTES);
        drop((connection, tables));
        assert_eq!(memory.used(), 0);
    }

    #[tokio::test]
    async fn clients_wait_and_servers_have_a_reserve() {
        let memory = Memory::new(MEMORY_BYTES_MIN).unwrap();
        let (client, server) = (Party::client("10.0.0.1"), Party::server("10.0.0.2"));
        let wait = Duration::from_millis(20);
        let mut charges = Vec::new();
        while let Some(charge) = memory.acquire(&client, 1 << 20, wait).await {
            charges.push(charge);
        }
        assert!(charges.len() < 36, "{}", charges.len());
        assert!(memory.acquire(&server, 1 << 20, wait).await.is_some(), "it does not wait for clients");
        charges.truncate(charges.len() / 2);
        assert!(memory.acquire(&client, 1 << 20, wait).await.is_some());
    }
}
