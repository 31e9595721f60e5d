use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::BatchId;

/// What a query tells while it runs.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "camelCase")]
#[allow(clippy::large_enum_variant)] // one is made for each epoch, and read by reference
pub enum QueryEvent {
    /// It has its checkpoint and its connectors, and rows come.
    #[serde(rename_all = "camelCase")]
    Started {
        /// Name of the query.
        name: String,
        /// Id of the query, the same for its whole life.
        id: String,
        /// Id of this run.
        run_id: String,
        /// The epoch that it goes on with.
        batch_id: BatchId,
        /// What was wrong and could be passed over.
        warnings: Vec<String>,
    },
    /// An epoch is complete: its checkpoint is on disk.
    Progress(Progress),
    /// Something went wrong and was passed over, as the job wants.
    #[serde(rename_all = "camelCase")]
    Warning {
        /// Name of the query.
        name: String,
        /// Text of the warning.
        text: String,
    },
    /// It has ended.
    #[serde(rename_all = "camelCase")]
    Terminated {
        /// Name of the query.
        name: String,
        /// Why, if it failed, with its causes.
        exception: Option<String>,
    },
}

/// An epoch, with the names of Spark's `StreamingQueryProgress`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Id of the query.
    pub id: String,
    /// Id of this run.
    pub run_id: String,
    /// Name of the query.
    pub name: String,
    /// When its barrier was, in the form of ISO 8601.
    pub timestamp: String,
    /// Number of the epoch.
    pub batch_id: BatchId,
    /// Milliseconds from the barrier before to this one.
    pub batch_duration: i64,
    /// Milliseconds of parts of its work, by Spark's names; docs/stream.md says what each is.
    pub duration_ms: BTreeMap<&'static str, i64>,
    /// Records that came.
    pub num_input_rows: u64,
    /// Records a second.
    pub input_rows_per_second: f64,
    /// Records that could not be read and went to the dead-letter topic.
    pub num_malformed_rows: u64,
    /// Rows that went to the sink.
    pub num_output_rows: u64,
    /// Median of the milliseconds from a record's time to its row's way to the sink, where records have times.
    pub latency_ms_p50: Option<u64>,
    /// Their 99th percentile.
    pub latency_ms_p99: Option<u64>,
    /// Milliseconds from the barrier until the checkpoint was complete.
    pub checkpoint_ms: i64,
    /// Where event time is, if the stream has a watermark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_time: Option<EventTime>,
    /// Its operators with state.
    pub state_operators: Vec<StateProgress>,
    /// Its sources.
    pub sources: Vec<SourceProgress>,
    /// Sink.
    pub sink: SinkProgress,
}

/// A sink in an epoch.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SinkProgress {
    /// Description.
    pub description: String,
    /// Rows that went to it.
    pub num_output_rows: u64,
}

/// Event time of an epoch.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventTime {
    /// The watermark that the epoch after it has, in the form of ISO 8601.
    pub watermark: String,
}

/// An operator with state in an epoch.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StateProgress {
    /// Its name.
    pub operator_name: String,
    /// Keys that it has.
    pub num_rows_total: u64,
    /// Keys that changed, counted once for each batch of rows that they were in.
    pub num_rows_updated: u64,
    /// Keys that were over and went.
    pub num_rows_removed: u64,
    /// Keys that were late, counted as those that changed.
    pub num_rows_dropped_by_watermark: u64,
    /// Memory of the keys and their values.
    pub memory_used_bytes: u64,
}

/// A source in an epoch.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceProgress {
    /// Description.
    pub description: String,
    /// Where the epoch began.
    pub start_offset: Value,
    /// Where it ended.
    pub end_offset: Value,
    /// Offset after the last row that was there, some time before the end at most; null if the source does not know.
    pub latest_offset: Value,
    /// Records that came from it.
    pub num_input_rows: u64,
    /// Records a second.
    pub input_rows_per_second: f64,
    /// Figures of the source, by Spark's names.
    pub metrics: BTreeMap<String, String>,
}
