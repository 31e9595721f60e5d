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
//! - `session`: [`Session`], statements in; `answer`: [`Answer`], rows out; `runtime`: [`runtime()`], the threads for both.
//! - `options`: [`Options`], what a session is started with; `settings`: the engine settings that follow from them.
//! - `error`: [`Error`], with the [`Place`] in the SQL text; `suggest`: the similar name in its hint.
//! - `progress`: [`Progress`], how far a query is.
//! - `planning`: a statement's plan, beyond what DataFusion's planner does by itself.
//! - `reading`: statements that DataFusion misreads, or that would fill the stack; `replaced_table`: puts a table back if its
//!   replacement fails.
//! - `clauses`: every clause of a statement is honoured or refused; `changes`: `DELETE` and `UPDATE`.
//! - `identity`: functions that give what they are given, and hide it from the optimizer.
//! - `framed_accumulator`: accumulators of DataFusion's of which one thing is done otherwise.
//! - `memory`: the promise: policy (decision), pool and process (drivers), spill directory.
//! - `numbers`: integers that do not wrap around, decimals that are rounded and not cut off.
//! - `column_names`: headings of an answer's columns that have no name; `cast_names`: casts within aggregates, as names tell them apart.
//! - `catalog`: files, globs, directories and addresses as tables; the stores behind them.
//! - `copy`: `COPY … TO`, whole or not at all.
//! - `analyzer`, `date_arithmetic`, `functions`: what values mean in SQL, where Arrow and DataFusion mean something else; `interval_text`,
//!   `time_text`: texts of intervals and times.
//! - `operators`, `optimizer`: what DataFusion lacks.
//! - [`output`]: answers to a writer: table, csv, json, parquet, arrow; the progress line.
//! - [`shell`]: scripts and the interactive shell, over any engine.

mod analyzer;
mod answer;
mod cast_names;
mod catalog;
mod changes;
mod clauses;
mod column_names;
mod copy;
mod date_arithmetic;
mod error;
mod framed_accumulator;
mod functions;
mod identity;
mod interval_text;
mod memory;
mod numbers;
mod operators;
mod optimizer;
mod options;
pub mod output;
mod planning;
mod progress;
mod reading;
mod replaced_table;
mod runtime;
mod session;
#[cfg(test)]
mod session_tests;
mod settings;
pub mod shell;
mod suggest;
mod time_text;

pub use answer::{Answer, Watch};
pub use error::{Error, Result};
pub use options::Options;
pub use progress::Progress;
pub use runtime::{RETURN_MEMORY, STACK_BYTES, runtime};
pub use session::{MemoryReport, Session};
pub use yeoul_base::{Place, Span};
