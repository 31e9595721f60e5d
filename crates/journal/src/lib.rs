//! A journal keeps the changes of a server's state, so that the state outlives the process, and at the promise that each
//! change needs, a power failure.
//!
//! - [`Record`]: a change, and how it is encoded.
//! - [`Journal`]: what an owner asks for: [append](Journal::append) records with a [`Promise`], and wait for [`Kept`] before
//!   the reply; write a [`Snapshot`] now and then. [`NoJournal`] keeps nothing.
//!   An owner can have the journal [begin a file](Journal::begin_segment), so that those before it can be copied.
//! - [`FileJournal`]: one in the files of a directory.
//! - for simulations of it: [`layout`], the bytes in its files, and [`parsed`], what a restart takes from them.
//! - inside: `queue`, orders for the thread that writes; `writer` and `syncer`, the two threads; `segment` and `snapshot`,
//!   the two kinds of file, and `directory`, their names; `health`, whether everything was kept, and when it is tried again, and `ended`,
//!   for who waits until nothing is kept any more.
//!
//! What it promises: records are found in their order, without gaps, up to one that is at least the last that was kept. A
//! record that could not be kept, and what depends on it, is an error to whoever waits; the journal mends itself with a
//! snapshot of the owner's state. A failed sync ends it: [`Journal::ended`].
//!
//! ```
//! use bytes::{BufMut, BytesMut};
//! use yeoul_journal::{FileJournal, FileJournalOptions, Journal, Promise, Record};
//!
//! /// The state is a number, and each record replaces it.
//! struct Set(u64);
//!
//! impl Record for Set {
//!     const KIND: &'static str = "number";
//!     const LAYOUT_VERSION: u32 = 1;
//!
//!     fn encode(&self, dst: &mut BytesMut) {
//!         dst.put_u64(self.0);
//!     }
//!
//!     fn decode(_: u32, bytes: &[u8]) -> Option<Self> {
//!         bytes.try_into().ok().map(|bytes| Set(u64::from_be_bytes(bytes)))
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! # let place = tempfile::tempdir().unwrap();
//! let options = FileJournalOptions::new(place.path().join("journal"), "server");
//! for round in 0..3 {
//!     let mut number = 0;
//!     let mut journal = FileJournal::open(options.clone(), |Set(found)| number = found)?;
//!     assert_eq!(number, round);
//!     journal.append(&[Set(round + 1)], Promise::Synced).await?;
//!     // Only now may anybody be told.
//!     if round == 1 {
//!         let snapshot = journal.begin_snapshot();
//!         tokio::task::spawn_blocking(move || snapshot.write([Set(round + 1)].into_iter())).await.unwrap();
//!     }
//! }
//! # Ok::<(), yeoul_base::Error>(())
//! # }).unwrap();
//! ```

mod directory;
mod ended;
mod file_journal;
mod health;
mod journal;
pub mod layout;
pub mod parsed;
mod queue;
mod record;
#[cfg(test)]
mod scripted;
mod segment;
mod snapshot;
mod syncer;
mod writer;

pub use file_journal::{FileJournal, FileJournalOptions};
pub use journal::{Begun, Journal, Kept, NoJournal, Promise, Snapshot};
pub use record::{KIND_BYTES_MAX, Record};
