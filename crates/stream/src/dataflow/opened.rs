use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use yeoul_disk::RealDisk;

use crate::checkpoint::{CheckpointStore, Claim, Recovered};
use crate::connectors::kafka::DeadLetters;
use crate::connectors::{Decoder, Sink, SinkConnector, Source, StreamConnector};
use crate::error::{Error, Result, invalid};
use crate::operators::Calc;
use crate::plan::Query;

/// A query that has its checkpoint, and whose connectors are open.
pub(super) struct Opened {
    pub store: CheckpointStore,
    pub recovered: Recovered,
    pub source: Box<dyn Source>,
    pub decoder: Decoder,
    pub dead_letters: Option<DeadLetters>,
    pub calc: Calc,
    pub sink: Box<dyn Sink>,
}

/// Connectors of a query, with options checked.
pub(super) fn connectors(query: &Query) -> Result<(StreamConnector, SinkConnector)> {
    let pipeline = &query.pipeline;
    if pipeline.aggregate.is_some() || pipeline.windows.is_some() {
        return Err(invalid(format!(
            "INSERT INTO {}: aggregations and windows are not there yet",
            query.name
        ))
        .with_hint("a query can filter and compute columns"));
    }
    let stream = StreamConnector::new(&query.stream)?;
    check_same_schema(&stream.schema(), &query.stream_schema)?;
    Ok((stream, SinkConnector::new(&query.sink, &pipeline.schema)?))
}

impl Opened {
    /// Opens a query whose checkpoint lies in a folder of its name.
    ///
    /// # Errors
    /// As its parts.
    pub fn open(query: &Query, checkpoint: &Path, now_ms: i64) -> Result<Self> {
        let (stream, sink) = connectors(query)?;
        let folder = checkpoint.join(&query.name);
        let unusable = |error: Error| {
            Error::new(error.kind(), format!("cannot use '{}' for checkpoints", folder.display()))
                .with_source(error)
        };
        let store = CheckpointStore::open(Arc::new(RealDisk), &folder, query.settings.retained_checkpoints);
        let mut store = store.map_err(unusable)?;
        let claim = Claim {
            sources: vec![stream.description()],
            state_identity: None,
            initial_offsets: Box::new(|| Ok(vec![stream.initial_offset()?])),
            now_ms,
        };
        let recovered = store.claim(claim)?;
        let open = recovered.manifest.batch.next();
        let source = stream.open(&recovered.manifest.sources[0].offset)?;
        let dead_letters = stream.open_dead_letters(open)?;
        let stages = query.pipeline.before_watermark.iter().chain(&query.pipeline.stages);
        let calc = Calc::new(stages.cloned());
        let sink = sink.open(open)?;
        Ok(Self { store, recovered, source, decoder: stream.into_decoder(), dead_letters, calc, sink })
    }
}

fn check_same_schema(connector: &SchemaRef, planned: &SchemaRef) -> Result<()> {
    if connector == planned {
        return Ok(());
    }
    Err(invalid("the query was planned for other columns than its stream has"))
}
