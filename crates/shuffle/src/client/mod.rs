//! A client of our own: what a driver and its executors do, in one process.
//!
//! ```no_run
//! # use yeoul_shuffle::client::{Application, Options};
//! # use yeoul_shuffle::ids::{AttemptId, MapId, PartitionId, ShuffleId};
//! # async fn example() -> yeoul_shuffle::Result<()> {
//! let application = Application::start(Options::new(["127.0.0.1:9097"])).await?;
//! let shuffle = application.register(ShuffleId(0), 1, 8).await?;
//! let mut writer = shuffle.writer(MapId(0), AttemptId(0));
//! writer.push(PartitionId(3), &b"rows"[..]).await?;
//! writer.finish().await?;
//! shuffle.commit().await?;
//! let mut reader = shuffle.reader(PartitionId(3), ..)?;
//! while let Some(batch) = reader.next().await? {
//!     println!("{} bytes of map {}", batch.payload.len(), batch.header.map);
//! }
//! shuffle.unregister().await?;
//! application.stop().await
//! # }
//! ```
//!
//! It pushes with a window for each worker, gathers small batches into merged pushes, revives locations that split or
//! fail, reads from the replica where the primary does not answer, and gives each batch of a winning attempt once.

mod application;
pub(crate) mod commit;
pub(crate) mod once;
pub(crate) mod push;
mod reader;
pub(crate) mod routes;
#[cfg(test)]
mod scripted;
mod shuffle;
#[cfg(test)]
mod tests;
mod writer;

pub use application::{Application, Options};
pub use reader::Reader;
pub use shuffle::Shuffle;
pub use writer::Writer;
