//! Kafka, with Spark's option names and columns. No other module knows rdkafka.
//!
//! - [`KafkaSourceOptions`], [`KafkaSinkOptions`]: options, checked
//! - [`TopicPattern`]: topics by a regular expression
//! - [`KafkaOffsets`]: offsets as Spark writes them
//! - [`KafkaSource`], [`KafkaSink`], [`DeadLetters`]: records in and out
//! - [`Transactions`]: output that is delivered exactly once
//! - [`measure`]: what latency is measured with

mod client;
mod columns;
mod control_topic;
mod dead_letters;
mod heard;
mod lag;
mod marks_check;
pub mod measure;
mod metadata;
mod offsets;
mod options;
mod partition_changes;
mod producer;
mod reader;
mod record_keys;
mod record_marks;
mod record_size;
mod settings_errors;
mod sink;
mod source;
mod topic_pattern;
mod transactions;
mod watch;

pub use columns::record_schema;
pub use dead_letters::DeadLetters;
pub use offsets::{KafkaOffsets, StartingOffsets, TopicPartition};
pub use options::{
    KafkaSinkOptions, KafkaSourceOptions, SinkFormat, Subscription, check_dead_letters, check_pattern,
};
pub use sink::KafkaSink;
pub use source::KafkaSource;
pub use topic_pattern::TopicPattern;
pub use transactions::{CommitOutcome, Transactions, check_interval, transactional_id};

#[cfg(test)]
mod failing_row_tests;
#[cfg(test)]
mod key_tests;
#[cfg(test)]
mod silence_tests;
