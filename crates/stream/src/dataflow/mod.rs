//! Queries at work: a thread each that pushes rows from its source to its sink, one that writes its checkpoints, and with `SET
//! parallelism` several that have its state.
//!
//! - [`start`]: a query as a [`QueryHandle`]: status, progress, stop, and its end
//! - [`QueryEvent`], [`Progress`]: what it tells while it runs

mod checkpointer;
mod epoch;
mod events;
mod failed_row;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod file_tests;
#[cfg(test)]
mod fragile;
mod future_rows;
mod gathering;
mod handle;
mod inputs;
mod latencies;
#[cfg(test)]
mod meaning_tests;
mod opened;
mod pace;
mod phases;
mod query_loop;
mod shards;
#[cfg(test)]
mod table_tests;

pub use events::{EventTime, Progress, QueryEvent, SinkProgress, SourceProgress, StateProgress};
pub use handle::{QueryHandle, check, check_checkpoint, start};
#[cfg(test)]
pub(crate) use shards::{restored, start_shards};
