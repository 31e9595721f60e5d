use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use super::future_rows::FutureRows;
use super::inputs::{Input, Inputs};
use super::shards::{restored, start_shards};
use crate::checkpoint::storage::{CheckpointAddress, Patience, Storage};
use crate::checkpoint::{CheckpointStore, Claim, OutputClaim, Recovered, Resumption};
use crate::connectors::kafka::Transactions;
use crate::connectors::{Sink, SinkConnector, StreamConnector, TableConnector};
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::operators::{ArrangedQuery, Operators};
use crate::plan::{Query, Trigger};
use crate::state::MemoryShare;

/// How often a process that takes a query over begins again because others take it at the same time.
const TAKE_TRIES: usize = 20;

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
        if let (Trigger::Once, Some(limit)) = (query.settings.trigger, connector.epoch_limit()) {
            let text = format!(
                "stream '{}': the trigger 'once' takes all in one batch, whatever '{limit}' says",
                stream.name
            );
            return Err(
                invalid(text).with_hint("SET 'trigger' = 'available now' takes all in batches of that size")
            );
        }
        streams.push(connector);
    }
    query.tables.iter().try_for_each(|table| TableConnector::new(table).map(drop))?;
    let sink = SinkConnector::of(query)?;
    sink.check_interval(query.settings.checkpoint_interval_ms)?;
    streams.iter().try_for_each(|stream| stream.check_sink(&sink))?;
    Ok((streams, sink))
}

/// A query whose connectors and checkpoint were checked. Nothing was taken from a process that has it.
pub(super) struct Checked {
    streams: Vec<StreamConnector>,
    sink: SinkConnector,
    store: CheckpointStore,
    /// The query as its state is laid out.
    arranged: ArrangedQuery,
    /// The place of the query's checkpoint.
    place: Arc<dyn Storage>,
    /// True if another process has the query, or had it.
    is_known: bool,
}

impl Checked {
    /// Checks a query whose checkpoint lies in a folder of its name.
    ///
    /// # Errors
    /// As its parts.
    pub fn new(query: &Query, checkpoint: &CheckpointAddress) -> Result<Self> {
        let (streams, sink) = connectors(query)?;
        let place = checkpoint.open(Patience::default())?.child(&query.name);
        let unusable = |error: Error| {
            let text = format!("cannot use '{}' for checkpoints", place.display(""));
            let unusable = Error::new(error.kind(), text);
            let unusable = match error.hint() {
                Some(hint) => unusable.with_hint(hint),
                None => unusable,
            };
            unusable.with_source(error)
        };
        let store = CheckpointStore::open(Arc::clone(&place), query.settings.retained_checkpoints);
        let store = store.map_err(unusable)?;
        let sources: Vec<String> = streams.iter().map(StreamConnector::description).collect();
        let transactional_id = sink.transactional_id(&store.query_id()?);
        let arranged = ArrangedQuery::new(query, store.state_identity()?.as_deref());
        let is_known = store.check(&sources, arranged.identity.as_deref(), transactional_id.as_deref())?;
        Ok(Self { streams, sink, store, arranged, place, is_known })
    }

    /// Checks that its source can be read and its sink written to, if another process would be disturbed by one that cannot, and of
    /// a new query that nobody else's rows lie where its own are to come.
    ///
    /// # Errors
    /// As a connector.
    pub fn check_connectors(&self) -> Result<()> {
        if !self.is_known {
            return self.sink.check_unused();
        }
        self.streams.iter().try_for_each(StreamConnector::check)?;
        self.sink.check()
    }
}

impl Opened {
    /// Opens a query whose checkpoint lies in a folder of its name: for the first time, or once more after it was `lost` to this
    /// error.
    ///
    /// # Errors
    /// As its parts; `Conflict` if a process has it that did not have it before.
    pub fn open(
        query: &Query,
        checkpoint: &CheckpointAddress,
        memory: &MemoryShare,
        resumption: &mut Resumption,
        lost: Option<&Error>,
        now_ms: i64,
    ) -> Result<Self> {
        let checked = Checked::new(query, checkpoint)?;
        if lost.is_none() {
            checked.check_connectors()?;
        }
        let Checked {
            streams,
            sink,
            mut store,
            arranged: ArrangedQuery { query: arranged, identity },
            place,
            ..
        } = checked;
        // A table that cannot be read disturbs no process that has the query.
        let at_rest: Result<Vec<_>> =
            query.tables.iter().map(|table| TableConnector::new(table)?.read(memory)).collect();
        let at_rest = at_rest?;
        let claim = |output| Claim {
            output,
            sources: streams.iter().map(StreamConnector::description).collect(),
            state_identity: identity.clone(),
            initial_offsets: Box::new(|| streams.iter().map(StreamConnector::initial_offset).collect()),
            now_ms,
        };
        let (mut recovered, transactions) = taken(query, &sink, &mut store, resumption, &claim)?;
        let reason = |error| format!("the query goes on from its last checkpoint: {error:?}");
        recovered.warnings.extend(lost.map(reason));
        let contents = std::mem::take(&mut recovered.state);
        let manifest = &recovered.manifest;
        let tables = restored(&Operators::table_parts(&arranged)?, memory, manifest, contents)?;
        let mut operators = Operators::with_shards(&arranged, manifest, tables, memory, &mut start_shards)?;
        operators.set_tables_at_rest(&at_rest, memory)?;
        let open = recovered.manifest.batch.next();
        let mut inputs = Vec::new();
        for (at, (stream, position)) in streams.into_iter().zip(&recovered.manifest.sources).enumerate() {
            let description = stream.description();
            let log = place.child("sources").child(&at.to_string());
            let source = stream.open(&position.offset, position.marks.as_ref(), log)?;
            let dead_letters = stream.open_dead_letters(transactions.as_ref(), open)?;
            let future_rows =
                query.streams().nth(at).and_then(|(stream, schema)| FutureRows::of(stream, schema));
            let failing_rows = stream.failing_rows();
            let decoder = stream.into_decoder();
            inputs.push(Input { description, source, dead_letters, decoder, future_rows, failing_rows });
        }
        let sink = sink.open(transactions.clone(), open, recovered.manifest.rows_until())?;
        Ok(Self { store, recovered, inputs: Inputs::new(inputs), operators, sink, transactions })
    }
}

/// Takes a query over: fences older processes, and claims it. What others do meanwhile makes it begin again.
fn taken<'a>(
    query: &Query,
    sink: &SinkConnector,
    store: &mut CheckpointStore,
    resumption: &mut Resumption,
    claim: &dyn Fn(Option<OutputClaim>) -> Claim<'a>,
) -> Result<(Recovered, Option<Transactions>)> {
    let mut tries = 1..=TAKE_TRIES;
    loop {
        let newest = store.newest_generation()?;
        if !resumption.may_fence(newest) {
            return Err(taken_over(&query.name));
        }
        // Older processes are fenced before anything is read that they might change.
        let begun = sink.transactions(&store.query_id()?, query.settings.checkpoint_interval_ms);
        let claimed = begun.and_then(|begun| {
            let output = begun.as_ref().map(|(transactions, committed)| OutputClaim {
                transactional_id: transactions.id().to_owned(),
                committed: *committed,
                newest,
            });
            let recovered = store.claim(claim(output))?;
            Ok((recovered, begun.map(|(transactions, _)| transactions)))
        });
        match claimed {
            Err(error) if error.kind() == ErrorKind::Conflict && tries.next().is_some() => {}
            Err(error) => return Err(error),
            Ok((recovered, transactions)) => {
                resumption.claimed(recovered.manifest.generation);
                return Ok((recovered, transactions));
            }
        }
    }
}

/// True if another process has claimed a query since this one did.
///
/// # Errors
/// As the place of its checkpoint.
pub(super) fn is_taken(
    query: &Query,
    checkpoint: &CheckpointAddress,
    resumption: &Resumption,
) -> Result<bool> {
    let place = checkpoint.open(Patience::default())?.child(&query.name);
    let store = CheckpointStore::open(place, query.settings.retained_checkpoints)?;
    Ok(!resumption.may_fence(store.newest_generation()?))
}

/// The error of a process that has lost the query to another one.
pub(super) fn taken_over(query: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("another process has taken the query '{query}' over"))
        .with_hint("run one process for a checkpoint; this one has written nothing since")
}

fn check_same_schema(connector: &SchemaRef, planned: &SchemaRef) -> Result<()> {
    if connector == planned {
        return Ok(());
    }
    Err(invalid("the query was planned for other columns than its stream has"))
}
