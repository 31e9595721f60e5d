use serde::Serialize;

use super::wire::SourcePosition;
use super::{OutputPosition, StoredCheckpoint, StoredTable};
use crate::BatchId;
use crate::plan::type_name;

/// A checkpoint in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointSummary {
    /// Name of the query.
    pub query: String,
    /// Id of the query.
    pub id: String,
    /// The epoch that it ends.
    pub epoch: BatchId,
    /// File of its manifest.
    pub manifest: String,
    /// Number of the process that wrote it among those that had the query.
    pub generation: u64,
    /// When, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The watermark, in milliseconds since 1970; nothing before there was one.
    pub watermark_ms: Option<i64>,
    /// Positions of the sources.
    pub sources: Vec<SourcePosition>,
    /// Output that it covers, if that is delivered exactly once.
    pub output: Option<OutputPosition>,
    /// First of the epochs that are kept.
    pub first_epoch: BatchId,
    /// Last of the epochs that are kept.
    pub last_epoch: BatchId,
    /// Number of epochs that are kept: each of them can be looked at.
    pub epochs: usize,
    /// Files that cannot be used, with the reasons.
    pub damaged: Vec<String>,
    /// Tables of state.
    pub tables: Vec<TableSummary>,
}

/// A table of state in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TableSummary {
    /// Name.
    pub table: String,
    /// Kind of the operator that it is of.
    pub kind: String,
    /// Keys in it.
    pub rows: u64,
    /// Parts that it is divided into: one for each thread of the query that has some of it.
    pub parts: usize,
    /// Bytes of its files.
    pub file_bytes: u64,
    /// Files that are a whole table.
    pub snapshots: usize,
    /// Files with what changed since the one before.
    pub deltas: usize,
    /// Columns of its keys, with their types.
    pub keys: Vec<String>,
    /// Columns of its values, with their types.
    pub values: Vec<String>,
}

impl CheckpointSummary {
    /// A checkpoint of a query in short.
    pub fn new(query: String, stored: &StoredCheckpoint) -> Self {
        let manifest = &stored.manifest;
        let batch = manifest.batch;
        Self {
            query,
            id: manifest.query_id.clone(),
            epoch: batch,
            manifest: stored.path.clone(),
            generation: manifest.generation,
            timestamp_ms: manifest.timestamp_ms,
            watermark_ms: Some(manifest.watermark_ms).filter(|ms| *ms != 0),
            sources: manifest.sources.clone(),
            output: manifest.output.clone(),
            first_epoch: stored.kept.first().copied().unwrap_or(batch),
            last_epoch: stored.kept.last().copied().unwrap_or(batch),
            epochs: stored.kept.len(),
            damaged: stored.damaged.clone(),
            tables: stored.tables.iter().map(TableSummary::new).collect(),
        }
    }
}

impl TableSummary {
    fn new(stored: &StoredTable) -> Self {
        let named = |fields: &[arrow::datatypes::FieldRef]| {
            fields.iter().map(|field| format!("{} {}", field.name(), type_name(field.data_type()))).collect()
        };
        let (keys, values) = stored.columns();
        Self {
            table: stored.name().to_owned(),
            kind: stored.kind().to_owned(),
            rows: stored.rows(),
            parts: stored.parts(),
            file_bytes: stored.file_bytes,
            snapshots: stored.snapshots,
            deltas: stored.deltas,
            keys: named(keys),
            values: named(values),
        }
    }
}
