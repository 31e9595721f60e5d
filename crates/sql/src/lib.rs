//! `yeoul sql`: an embedded columnar SQL engine on DataFusion that keeps a promise about the memory of its process.
//!
//! Start a [`Session`] with [`Options`], give it SQL, read the [`Answer`]'s batches as they come:
//!
//! ```
//! use yeoul_sql::{Options, Session};
//! # fn main() -> Result<(), yeoul_sql::Error> {
//! let options = Options::default();
//! let rows = yeoul_sql::runtime(&options)?.block_on(async {
//!     Session::new(options)?.sql("SELECT 6 * 7 AS answer").await?.collect().await
//! })?;
//! assert_eq!(rows[0].num_rows(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! What SQL means, the crate `yeoul-dialect` has: reading, refusals, planning, functions, and the rules that mend answers. Here is what
//! makes an engine of it:
//!
//! - `session`: [`Session`], statements in; `answer`: [`Answer`], rows out; `runtime`: [`runtime()`], the threads for both.
//! - `options`: [`Options`], what a session is started with; `settings`: the engine settings that follow from them.
//! - `progress`: [`Progress`], how far a query is.
//! - `catalog`: files, globs, directories and addresses as tables; the stores behind them; `replaced_table`: puts a table back if its
//!   replacement fails.
//! - `changes`: `DELETE` and `UPDATE`; `copy`: `COPY … TO`, whole or not at all.
//! - [`distributed`]: a session whose queries run elsewhere, and what runs their stages;
//! - `memory`: the promise: policy (decision), pool (driver), growing states, spill directory.
//! - `operators`, `optimizer`: operators and rules for speed and memory that DataFusion lacks.
//! - [`output`]: answers to a writer: table, csv, json, parquet, arrow; the progress line.
//! - [`shell`]: scripts and the interactive shell, over any engine.

mod answer;
mod catalog;
mod changes;
mod copy;
pub mod distributed;
mod memory;
mod operators;
mod optimizer;
mod options;
pub mod output;
mod progress;
mod replaced_table;
mod runtime;
mod session;
#[cfg(test)]
mod session_tests;
mod settings;
pub mod shell;

pub use answer::{Answer, Watch};
pub use catalog::address::at_home;
pub use options::Options;
pub use progress::Progress;
pub use runtime::runtime;
pub use session::{MemoryReport, Session};
pub use yeoul_dialect::error;
pub use yeoul_dialect::settings::System;
pub use yeoul_dialect::{Error, Place, Result, STACK_BYTES, Span};
