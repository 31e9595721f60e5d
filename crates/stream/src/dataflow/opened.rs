use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use yeoul_disk::RealDisk;

use crate::checkpoint::wire::read_state_file;
use crate::checkpoint::{CheckpointStore, Claim, OutputClaim, Recovered};
use crate::connectors::kafka::{DeadLetters, Transactions};
use crate::connectors::{Decoder, Sink, SinkConnector, Source, StreamConnector};
use crate::error::{Error, Result, invalid};
use crate::operators::Operators;
use crate::plan::Query;
use crate::state::{Layout, MemoryShare, MemoryTable, StateTable};

/// A query that has its checkpoint, and whose connectors are open.
pub(super) struct Opened {
    pub store: CheckpointStore,
    pub recovered: Recovered,
    pub source: Box<dyn Source>,
    pub decoder: Decoder,
    pub dead_letters: Option<DeadLetters>,
    pub operators: Operators,
    /// What the table of state looks like, if there is one.
    pub layout: Option<Arc<Layout>>,
    pub sink: Box<dyn Sink>,
    /// What its output is committed with, if it is delivered exactly once.
    pub transactions: Option<Transactions>,
}

/// Connectors of a query, with options checked.
pub(super) fn connectors(query: &Query) -> Result<(StreamConnector, SinkConnector)> {
    let pipeline = &query.pipeline;
    Operators::layout(query)?;
    let stream = StreamConnector::new(&query.stream)?;
    check_same_schema(&stream.schema(), &query.stream_schema)?;
    let sink = SinkConnector::new(&query.sink, &pipeline.schema)?;
    sink.check_interval(query.settings.checkpoint_interval_ms)?;
    Ok((stream, sink))
}

impl Opened {
    /// Opens a query whose checkpoint lies in a folder of its name.
    ///
    /// # Errors
    /// As its parts.
    pub fn open(query: &Query, checkpoint: &Path, memory: &MemoryShare, now_ms: i64) -> Result<Self> {
        let (stream, sink) = connectors(query)?;
        let folder = checkpoint.join(&query.name);
        let unusable = |error: Error| {
            Error::new(error.kind(), format!("cannot use '{}' for checkpoints", folder.display()))
                .with_source(error)
        };
        let store = CheckpointStore::open(Arc::new(RealDisk), &folder, query.settings.retained_checkpoints);
        let mut store = store.map_err(unusable)?;
        // Older processes are fenced before anything is read that they might change.
        let begun = sink.transactions(&store.query_id()?, query.settings.checkpoint_interval_ms)?;
        let output = begun.as_ref().map(|(transactions, committed)| OutputClaim {
            transactional_id: transactions.id().to_owned(),
            committed: *committed,
        });
        let transactions = begun.map(|(transactions, _)| transactions);
        let claim = Claim {
            output,
            sources: vec![stream.description()],
            state_identity: Operators::state_identity(query),
            initial_offsets: Box::new(|| Ok(vec![stream.initial_offset()?])),
            now_ms,
        };
        let mut recovered = store.claim(claim)?;
        let layout = Operators::layout(query)?;
        let table = match &layout {
            Some(layout) => Some(restored(layout, memory, std::mem::take(&mut recovered.state))?),
            None => None,
        };
        let operators = Operators::new(query, &recovered.manifest, table)?;
        let open = recovered.manifest.batch.next();
        let source = stream.open(&recovered.manifest.sources[0].offset)?;
        let dead_letters = stream.open_dead_letters(open)?;
        let sink = sink.open(transactions.clone(), open)?;
        let decoder = stream.into_decoder();
        Ok(Self { store, recovered, source, decoder, dead_letters, operators, layout, sink, transactions })
    }
}

/// The table of state that a checkpoint holds.
fn restored(layout: &Arc<Layout>, memory: &MemoryShare, files: Vec<Vec<u8>>) -> Result<Box<dyn StateTable>> {
    let mut table = MemoryTable::new(Arc::clone(layout), memory.clone())?;
    for file in files {
        table.restore(read_state_file(layout, file)?)?;
    }
    Ok(Box::new(table))
}

fn check_same_schema(connector: &SchemaRef, planned: &SchemaRef) -> Result<()> {
    if connector == planned {
        return Ok(());
    }
    Err(invalid("the query was planned for other columns than its stream has"))
}
