//! Whom a worker's memory is charged to: every byte of a batch, of an index and of a read buffer, in a
//! [ledger](yeoul_memory::Ledger).

use std::fmt;

use yeoul_memory::Reserve;
pub use yeoul_memory::{Buffers, Level};
use yeoul_net::{Account, Held};

use crate::ids::ApplicationId;

/// The ledger of a worker's memory.
pub type Memory = yeoul_memory::Ledger<Party>;

/// Bytes of it that are in use until this is dropped.
pub type Charge = yeoul_memory::Charge<Party>;

/// A buffer that is charged to it.
pub type Buffer = yeoul_memory::Buffer<Party>;

/// The account that a worker's listeners charge connections and long pages to.
pub fn account(memory: &Memory) -> Account {
    let memory = memory.clone();
    Account::new(move |bytes| {
        memory.has_room_for_fixed(bytes).then(|| Box::new(memory.charge_fixed(bytes)) as Held)
    })
}

/// What an application wants memory for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Purpose {
    Pushes,
    Copies,
    Reads,
}

/// An application, and what it wants memory for.
///
/// Pushes and copies are two parties, because what was pushed may stay in memory until another worker has taken its
/// copy: if copies had to wait for pushes, two workers could wait for each other for ever. As it is, pushes leave a
/// sixteenth of the limit to copies, which wait for nothing but this worker's disks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Party {
    application: ApplicationId,
    purpose: Purpose,
}

impl Party {
    /// What clients push.
    pub fn pushes(application: &ApplicationId) -> Self {
        Self { application: application.clone(), purpose: Purpose::Pushes }
    }

    /// What other workers send on.
    pub fn copies(application: &ApplicationId) -> Self {
        Self { application: application.clone(), purpose: Purpose::Copies }
    }

    /// What readers are sent.
    pub fn reads(application: &ApplicationId) -> Self {
        Self { application: application.clone(), purpose: Purpose::Reads }
    }

    /// Whether other workers send it on.
    pub fn is_of_copies(&self) -> bool {
        self.purpose == Purpose::Copies
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {}", self.purpose, self.application)
    }
}

impl yeoul_memory::Party for Party {
    fn reserve(&self) -> Reserve {
        match self.purpose {
            Purpose::Pushes => Reserve::Leaves,
            Purpose::Copies => Reserve::Overtakes,
            Purpose::Reads => Reserve::Takes,
        }
    }
}
