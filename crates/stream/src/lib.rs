//! Streams: SQL over Kafka's topics that runs for ever, in one process without a JVM.
//!
//! - [`plan`]: a job file becomes queries as values
//! - [`connectors`]: where rows come from and where they go: Kafka, and what tests need
//! - [`operators`]: what is done with them, by DataFusion's expressions and none of its operators
//! - [`state`]: values by key, in buckets of time
//! - [`state_function`]: functions of a query's own over the rows and the state of each key
//! - [`checkpoint`]: what a query has done, on disk; a second process fences the first
//! - [`dataflow`]: queries at work
//! - [`explain`]: what a query does, before it is started; [`pages`]: what queries at work show
//! - [`reference`]: the page of options and settings
//!
//! ```
//! use yeoul_stream::{dataflow, parse_job, state::MemoryShare};
//!
//! let job = "CREATE STREAM r WITH ('connector' = 'rate', 'rowsPerSecond' = '1000');
//!            CREATE SINK nowhere WITH ('connector' = 'noop');
//!            SET trigger = 'available now';
//!            INSERT INTO nowhere SELECT value FROM r WHERE value % 2 = 0;";
//! # let place = tempfile::tempdir()?;
//! # let checkpoint = place.path();
//! for query in parse_job(job)? {
//!     dataflow::start(query, checkpoint, MemoryShare::default(), |event| println!("{event:?}"))?.wait()?;
//! }
//! # Ok::<(), yeoul_base::Error>(())
//! ```

mod aggregate_function;
mod batch_id;
pub mod checkpoint;
pub mod connectors;
pub mod dataflow;
pub mod error;
pub mod explain;
pub mod operators;
pub mod pages;
pub mod plan;
pub mod reference;
pub mod state;
pub mod state_function;

pub use batch_id::BatchId;

/// Queries of a job file, checked as far as that goes without its sources and sinks.
///
/// # Errors
/// `Invalid` for what is not understood or not honoured, by its name.
pub fn parse_job(text: &str) -> error::Result<Vec<plan::Query>> {
    parse_job_with(text, &state_function::StateFunctions::default())
}

/// The same, of a job that may call these state functions.
///
/// # Errors
/// As [`parse_job`].
pub fn parse_job_with(
    text: &str,
    functions: &state_function::StateFunctions,
) -> error::Result<Vec<plan::Query>> {
    let script = plan::Script::parse(text)?;
    let schema_of = |stream: &plan::StreamDefinition| Ok(connectors::StreamConnector::new(stream)?.schema());
    let queries = plan::plan_with(&script, functions, schema_of)?;
    queries.iter().try_for_each(dataflow::check)?;
    Ok(queries)
}

#[cfg(test)]
mod guide_tests;
