//! Several threads for one query: its own is the driver, which polls, decodes and writes to the sink, and each step with state has
//! shards, a thread each.
//!
//! - [`start_shards`]: threads, and the channels to them and back
//! - [`restored`]: the parts of tables that a checkpoint holds, also if it was written by another number of threads

mod restored;
mod threads;

pub(crate) use restored::restored;
pub(crate) use threads::start_shards;

#[cfg(test)]
mod tests;
