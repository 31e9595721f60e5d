//! Where rows come from and where they go.
//!
//! - [`Source`], [`Sink`]: what a query asks of them; [`Bell`]: what sources ring when they have rows
//! - [`StreamConnector`], [`SinkConnector`]: the connectors that a job names, with their options checked; [`TableConnector`]: tables at rest
//! - `files`: files of a directory, to read and to write
//! - `format`: values of records as columns; `kafka`: the only place that knows rdkafka

mod bell;
mod connector;
mod console;
mod files;
mod format;
pub mod kafka;
mod memory;
mod noop;
pub mod option_table;
mod rate;
mod rate_schedule;
mod sink;
mod source;
mod table;

pub use bell::Bell;
pub use connector::{SinkConnector, StreamConnector};
pub use format::{Decoded, Decoder, FailingRows, Malformed};
pub use memory::MemoryRows;
pub use sink::Sink;
pub use source::{Polled, ReachedEnds, Source, SourceReport};
pub use table::TableConnector;
