//! Progress of a query, durably: where its sources are, its watermark, its state.
//!
//! - [`wire`]: manifests, and Spark's logs beside them
//! - [`Coordinator`]: when a checkpoint begins and when it is complete; it decides and does no I/O
//! - [`base`]: from which checkpoint a query goes on whose output is delivered exactly once
//! - [`Resumption`]: whether it goes on in the same process once its transaction is lost
//! - [`storage`]: a folder or a prefix of an object store
//! - [`CheckpointStore`]: manifests in such a place, each created only if it is absent; [`CommitMarker`]: where a checkpoint becomes
//!   true
//! - [`add_state_files`], [`files_of_part`]: which files of state a checkpoint has, and which a thread reads
//! - [`CheckpointReader`]: the checkpoint of a query that others have, to look at; [`CheckpointSummary`]: it in short

mod coordinator;
mod output;
mod reader;
mod resumption;
mod state_files;
pub mod storage;
mod store;
mod stored_table;
mod summary;
pub mod wire;

pub use coordinator::{BarrierTime, Command, Coordinator, Event};
pub use output::{Base, OutputMarker, OutputPosition, base, check_output};
pub use reader::{CheckpointReader, StoredCheckpoint};
pub use resumption::{Loss, Resumption};
pub use state_files::{PartFiles, add_state_files, files_of_part};
pub use store::{CheckpointStore, Claim, CommitMarker, Marked, OutputClaim, Recovered, new_id};
pub use stored_table::StoredTable;
pub use summary::{CheckpointSummary, TableSummary};

#[cfg(test)]
mod output_fault_tests;
