use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use yeoul_disk::RealDisk;

use super::inputs::{Input, Inputs};
use crate::checkpoint::wire::{Manifest, read_state_file};
use crate::checkpoint::{CheckpointStore, Claim, OutputClaim, Recovered};
use crate::connectors::kafka::Transactions;
use crate::connectors::{Sink, SinkConnector, StreamConnector, TableConnector};
use crate::error::{Error, Result, corrupt, invalid};
use crate::operators::Operators;
use crate::plan::Query;
use crate::state::{Layout, MemoryShare, MemoryTable, StateTable};

/// A query that has its checkpoint, and whose connectors are open.
pub(super) struct Opened {
    pub store: CheckpointStore,
    pub recovered: Recovered,
    pub inputs: Inputs,
    pub operators: Operators,
    pub sink: Box<dyn Sink>,
    /// Transactions of its output, if it is delivered exactly once.
    pub transactions: Option<Transactions>,
}

/// Connectors of a query, with options checked.
pub(super) fn connectors(query: &Query) -> Result<(Vec<StreamConnector>, SinkConnector)> {
    Operators::layouts(query)?;
    let mut streams = Vec::new();
    for (stream, schema) in query.streams() {
        let connector = StreamConnector::new(stream)?;
        check_same_schema(&connector.schema(), schema)?;
        streams.push(connector);
    }
    query.tables.iter().try_for_each(|table| TableConnector::new(table).map(drop))?;
    let sink = SinkConnector::new(&query.sink, &query.pipeline.schema)?;
    sink.check_interval(query.settings.checkpoint_interval_ms)?;
    Ok((streams, sink))
}

impl Opened {
    /// Opens a query whose checkpoint lies in a folder of its name.
    ///
    /// # Errors
    /// As its parts.
    pub fn open(query: &Query, checkpoint: &Path, memory: &MemoryShare, now_ms: i64) -> Result<Self> {
        let (streams, sink) = connectors(query)?;
        let at_rest: Result<Vec<_>> = query.tables.iter().map(TableConnector::new).collect();
        let at_rest = at_rest?;
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
            sources: streams.iter().map(StreamConnector::description).collect(),
            state_identity: Operators::state_identity(query),
            initial_offsets: Box::new(|| streams.iter().map(StreamConnector::initial_offset).collect()),
            now_ms,
        };
        let mut recovered = store.claim(claim)?;
        let contents = std::mem::take(&mut recovered.state);
        let tables = restored(&Operators::layouts(query)?, memory, &recovered.manifest, contents)?;
        let mut operators = Operators::with_tables(query, &recovered.manifest, tables)?;
        operators.charge(memory)?;
        let at_rest: Result<Vec<_>> = at_rest.iter().map(TableConnector::read).collect();
        operators.set_tables_at_rest(&at_rest?, memory)?;
        let open = recovered.manifest.batch.next();
        let mut inputs = Vec::new();
        for (at, (stream, position)) in streams.into_iter().zip(&recovered.manifest.sources).enumerate() {
            let description = stream.description();
            let source = stream.open(&position.offset, &folder.join("sources").join(at.to_string()))?;
            let dead_letters = stream.open_dead_letters(open)?;
            inputs.push(Input { description, source, dead_letters, decoder: stream.into_decoder() });
        }
        let sink = sink.open(transactions.clone(), open)?;
        Ok(Self { store, recovered, inputs: Inputs::new(inputs), operators, sink, transactions })
    }
}

/// The tables of state that a checkpoint holds.
fn restored(
    layouts: &[Arc<Layout>],
    memory: &MemoryShare,
    manifest: &Manifest,
    contents: Vec<Vec<u8>>,
) -> Result<Vec<Box<dyn StateTable>>> {
    let tables: Result<Vec<_>> =
        layouts.iter().map(|layout| MemoryTable::new(Arc::clone(layout), memory.clone())).collect();
    let mut tables = tables?;
    for (file, content) in manifest.state_files.iter().zip(contents) {
        let Some(at) = layouts.iter().position(|layout| layout.name == file.table) else {
            return Err(corrupt(format!("the checkpoint has a table '{}' of no operator", file.table)));
        };
        tables[at].restore(read_state_file(&layouts[at], content)?)?;
    }
    Ok(tables.into_iter().map(|table| Box::new(table) as Box<dyn StateTable>).collect())
}

fn check_same_schema(connector: &SchemaRef, planned: &SchemaRef) -> Result<()> {
    if connector == planned {
        return Ok(());
    }
    Err(invalid("the query was planned for other columns than its stream has"))
}
