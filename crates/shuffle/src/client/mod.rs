//! A client of our own: what a driver and its executors do, in one process or in several.
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
//! The application's half, [`Application`], registers shuffles and knows which attempts have won. Executors in other processes
//! connect to the server that it [starts](Application::serve), and have the other half, [`Executor`].
//!
//! A shuffle is [registered](Application::register) with a number and so many maps. Where nobody knows beforehand which shuffles
//! there will be, and of how many maps, it is [opened](Executor::open) by a name that the application [allows](ServerOptions::opens)
//! and in the end [gives up](Application::retain):
//!
//! ```no_run
//! # use yeoul_shuffle::client::{Begun, Executor, ExecutorOptions};
//! # use yeoul_shuffle::ids::{MapId, PartitionId};
//! # async fn example() -> yeoul_shuffle::Result<()> {
//! let executor = Executor::connect(ExecutorOptions::new("127.0.0.1:4711")).await?;
//! let shuffle = executor.open("job-7/3", 8).await?; // or `shuffle`, with the number of one that is registered
//! match shuffle.begin(MapId(0)).await? {
//!     Begun::Writer(mut writer) => {
//!         writer.push(PartitionId(3), &b"rows"[..]).await?;
//!         writer.finish_with("1 row").await?;
//!     }
//!     Begun::Ended(ended) => println!("done before, by attempt {}: {:?}", ended.attempt, ended.summary),
//! }
//! let mut reader = shuffle.reader(PartitionId(3), ..).await?; // the first one has the shuffle committed
//! # Ok(())
//! # }
//! ```
//!
//! It pushes with a window for each worker, gathers small batches into merged pushes, revives locations that split or
//! fail, reads from the replica where the primary does not answer, and gives each batch of a winning attempt once.

pub(crate) mod application;
mod executor;
#[cfg(test)]
mod scripted;
mod shared_attempt;
pub(crate) mod tasks;
#[cfg(test)]
mod tests;

pub use crate::wire::executor::Ended;
pub use application::{Application, Options, ServerOptions, Shuffle};
pub use executor::{Executor, ExecutorOptions};
pub use tasks::{Begun, Reader, TaskShuffle, Writer};
