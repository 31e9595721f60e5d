//! The memory promise: a limit on the process as the operating system counts it (RSS), kept by charging every byte that grows
//! with load to somebody before it is used.
//!
//! For servers, which never stop what they serve:
//!
//! - [`Ledger`]: what is in use and who has it. [`acquire`](Ledger::acquire) waits for room and gives a [`Charge`], which gives
//!   back when it is dropped; nobody waits for a [`Party`] that has more than its share. [`Reserve`] says which parties come
//!   first when memory is short, [`Level`] how short it is.
//! - *Fixed* bytes, which nothing gives back before its owner goes (an entry of an index or a table), are charged without
//!   waiting. They are what a server refuses: it asks [`has_room_for_fixed`](Ledger::has_room_for_fixed) before it accepts what
//!   brings them, and [`has_its_part_of_fixed`](Ledger::has_its_part_of_fixed) whether it is this party that has to do with what
//!   it has.
//! - [`Buffers`]: buffers that are used again, whose sizes are known to the byte.
//! - [`Governor`]: the ledger's limit follows what the process uses besides, so that both together stay below `--memory`.
//!
//! For work that is refused memory, or stopped:
//!
//! - [`ProcessMemory`]: the resident set, watched; what is left under the promise, and the word that work has to end. What an allocator
//!   keeps of freed memory goes back to the system near the promise, if it was told how ([`freed`]).
//!
//! Both read the resident set with [`ResidentSet`](yeoul_base::ResidentSet); [`peak_bytes`] is that of other processes.
//!
//! ```
//! use std::fmt;
//! use yeoul_memory::{Buffers, Governor, Ledger, Level, Party, Reserve};
//!
//! /// Memory is divided among clients.
//! #[derive(Debug, Clone, PartialEq, Eq, Hash)]
//! struct Client(&'static str);
//!
//! impl fmt::Display for Client {
//!     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
//!         f.write_str(self.0)
//!     }
//! }
//!
//! impl Party for Client {
//!     fn reserve(&self) -> Reserve {
//!         Reserve::Takes
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let governor = Governor::new(256 << 20); // --memory 256MiB
//! let (ledger, buffers) = (Ledger::new(governor.first_limit()), Buffers::default());
//! // For as long as the server runs, beside what it does:
//! let governing = governor.run(&ledger, &buffers, |limit| ledger.set_limit(limit));
//! # let _ = tokio::time::timeout(std::time::Duration::from_millis(1), governing).await;
//!
//! // Bytes that come and go wait for room.
//! let mut buffer = buffers.take(64 << 10, &ledger, &Client("a")).await;
//! buffer.bytes_mut().extend_from_slice(b"a body");
//! let body = buffer.share();
//! assert_eq!((ledger.used(), ledger.level()), (Buffers::cost(64 << 10), Level::Calm));
//! drop(body);
//!
//! // Bytes that stay are refused.
//! let mut table = ledger.charge_fixed_of(&Client("a"), 0);
//! assert!(!ledger.has_room_for_fixed(1 << 40));
//! assert!(ledger.has_room_for_fixed(100));
//! table.grow(100);
//! assert_eq!(ledger.used(), 100);
//! # });
//! ```

mod buffers;
pub mod freed;
mod governor;
mod ledger;
mod party;
mod peak;
mod process_memory;
mod shares;
#[cfg(test)]
mod test_party;

pub use buffers::{Buffer, Buffers, shelved};
pub use governor::Governor;
pub use ledger::{Charge, Ledger, accounted};
pub use party::{Party, Reserve};
pub use peak::{peak_bytes, reset_peak};
pub use process_memory::{Claim, ProcessMemory, Resident};
pub use shares::{ACTIVE_MS, Level};
