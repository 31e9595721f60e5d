//! Kafka, with Spark's option names and columns. No other module knows rdkafka.
//!
//! - [`KafkaSourceOptions`], [`KafkaSinkOptions`]: options, checked
//! - [`KafkaOffsets`]: offsets as Spark writes them
//! - [`KafkaSource`], [`KafkaSink`], [`DeadLetters`]: records in and out
//! - [`measure`]: what latency is measured with

mod client;
mod columns;
mod dead_letters;
pub mod measure;
mod offsets;
mod options;
mod producer;
mod sink;
mod source;

pub use columns::record_schema;
pub use dead_letters::DeadLetters;
pub use offsets::{KafkaOffsets, StartingOffsets, TopicPartition};
pub use options::{KafkaSinkOptions, KafkaSourceOptions, SinkFormat, Subscription};
pub use sink::KafkaSink;
pub use source::KafkaSource;
