//! The memory promise of a master: connections, requests and answers are charged to a [ledger](Ledger), whose limit follows what
//! the process uses besides, which is mostly the state. A state that leaves no room grows no further.

use std::fmt;
use std::time::Duration;

use tokio::time::timeout;
use yeoul_base::ByteSize;
use yeoul_memory::{Buffers, Charge, Governor, Ledger, Reserve};
use yeoul_net::{Account, Held};

use crate::{Error, Kind, Result};

/// The least memory with which a master works.
pub const MEMORY_BYTES_MIN: u64 = 48 << 20;

/// How long a request waits for memory before it is refused. Clients give up after 30 s or more.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// Bytes of memory of a request beside its frame.
const REQUEST_BYTES: u64 = 1 << 10;

/// Bytes of memory for each byte of a request's frame: it is held as it came, and decoded.
const DECODED_FACTOR: u64 = 4;

/// The peer of a connection, by the connection's number: one of them does not take all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer(pub u64);

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}", self.0)
    }
}

impl yeoul_memory::Party for Peer {
    fn reserve(&self) -> Reserve {
        Reserve::Takes
    }
}

/// The memory of a master's process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Memory {
    ledger: Ledger<Peer>,
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
            let text = format!("memory of {found}, expected at least {least}");
            return Err(Error::new(Kind::Invalid, text).with_hint("give at least --memory 48MiB"));
        }
        Ok(Self { ledger: Ledger::new(Governor::new(bytes).first_limit()), bytes })
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

    /// The account of connections and long pages.
    pub fn account(&self) -> Account {
        let ledger = self.ledger.clone();
        Account::new(move |bytes| {
            ledger.has_room_for_fixed(bytes).then(|| Box::new(ledger.charge_fixed(bytes)) as Held)
        })
    }

    /// The account of answers, which exist already: what comes next waits for them.
    pub fn answers(&self) -> Account {
        let ledger = self.ledger.clone();
        Account::new(move |bytes| Some(Box::new(ledger.charge_fixed(bytes)) as Held))
    }

    /// Waits for room for a request with a frame of so many bytes; none if there was none in time.
    pub async fn request(&self, peer: Peer, frame: usize) -> Option<Charge<Peer>> {
        let bytes = REQUEST_BYTES + frame as u64 * DECODED_FACTOR;
        timeout(WAIT_MAX, self.ledger.acquire(&peer, bytes)).await.ok()
    }

    /// Whether the state has taken what there is: the ledger has no more than is always left to it.
    pub fn is_full(&self) -> bool {
        self.ledger.limit() <= Governor::new(self.bytes).limit(u64::MAX, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_state_that_takes_all_but_an_eighth_is_full_and_requests_still_have_room() {
        assert!(Memory::new(MEMORY_BYTES_MIN - 1).is_err());
        let memory = Memory::new(256 << 20).unwrap();
        assert!(!memory.is_full());
        memory.ledger.set_limit(Governor::new(memory.bytes).limit(250 << 20, 0));
        assert!(memory.is_full());
        assert!(memory.request(Peer(1), 100_000).await.is_some());
        memory.ledger.set_limit(Governor::new(memory.bytes).limit(150 << 20, 0));
        assert!(!memory.is_full());
    }

    #[tokio::test]
    async fn answers_that_nobody_reads_leave_no_room_for_more() {
        let memory = Memory::new(64 << 20).unwrap();
        let (pages, answers) = (memory.account(), memory.answers());
        let mut held = Vec::new();
        while let Some(page) = pages.charge(1 << 20) {
            held.push(page);
        }
        assert!(held.len() < 48, "{}", held.len());
        held.extend(answers.charge(20 << 20));
        drop(held);
        assert!(pages.charge(1 << 20).is_some());
    }
}
