use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, max};
use arrow::datatypes::TimestampMicrosecondType;

use super::division::Division;
use super::join::Out;
use super::node::{Giver, Node, TableNames, Taker};
use super::sharded::Sharded;
use super::{
    Aggregate, Calc, Deduplicate, Join, Keyed, OperatorCounts, Reach, Shard, StartShards, Watermark,
};
use crate::checkpoint::wire::Manifest;
use crate::error::{Result, computing};
use crate::plan::{PlanNode, Query, ScanPlan, TIMESTAMP, WatermarkPlan};
use crate::state::{
    Layout, MemoryShare, MemoryTable, PartVersion, StateTable, StateUsage, TablePart, Version,
};

mod prepared;

pub use prepared::{FailingRow, Prepared};

/// A query's operators: the tree of its [`Pipeline`](crate::plan::Pipeline), flat, with what gives rows before what takes them.
pub struct Operators {
    scans: Vec<Scan>,
    nodes: Vec<Node>,
    watermark: Watermark,
}

/// A place where rows of a stream come in.
struct Scan {
    stream: usize,
    before_watermark: Calc,
    /// The time column, and the scan's number among those with a watermark.
    time: Option<(usize, usize)>,
    to: Option<Taker>,
}

/// Operators under construction.
struct Builder<'a, T> {
    query: &'a Query,
    life: u64,
    names: TableNames,
    tables: T,
    scans: Vec<Scan>,
    watermarks: Vec<WatermarkPlan>,
    nodes: Vec<Node>,
    shards: Option<ShardsOfSteps<'a>>,
}

/// Shards that steps with state are divided among.
struct ShardsOfSteps<'a> {
    memory: &'a MemoryShare,
    start: StartShards<'a>,
}

impl Operators {
    /// The tables of state that a query needs, in the order in which [`with_tables`](Self::with_tables) takes them.
    ///
    /// # Errors
    /// `Invalid` for types that state does not hold.
    pub fn layouts(query: &Query) -> Result<Vec<Arc<Layout>>> {
        Ok(Self::layouts_of_steps(query)?.into_iter().flatten().collect())
    }

    /// The same, step by step: those before a step before it.
    ///
    /// # Errors
    /// As [`layouts`](Self::layouts).
    pub fn layouts_of_steps(query: &Query) -> Result<Vec<Vec<Arc<Layout>>>> {
        let mut names = TableNames::default();
        steps(&query.pipeline.root).into_iter().map(|step| names.layouts(step)).collect()
    }

    /// The tables of state, or parts of them, that a query with this parallelism needs, in the order in which
    /// [`with_shards`](Self::with_shards) takes them.
    ///
    /// # Errors
    /// As [`layouts`](Self::layouts).
    pub fn table_parts(query: &Query) -> Result<Vec<TablePart>> {
        let parallelism = query.settings.parallelism;
        let mut parts = Vec::new();
        for (step, layouts) in steps(&query.pipeline.root).into_iter().zip(Self::layouts_of_steps(query)?) {
            if layouts.is_empty() {
                continue;
            }
            for partitions in Division::partitions_of(step, parallelism) {
                let part = |layout: &Arc<Layout>| TablePart { layout: Arc::clone(layout), partitions };
                parts.extend(layouts.iter().map(part));
            }
        }
        Ok(parts)
    }

    /// Number of shards that have the state of a step; nothing if it has no state, or the query runs on one thread.
    pub fn shards_of(query: &Query, step: &PlanNode) -> Option<usize> {
        let parallelism = query.settings.parallelism;
        (parallelism > 1 && step.has_state()).then(|| Division::shards_of(step, parallelism))
    }

    /// The table of state that a query with at most one needs.
    ///
    /// # Errors
    /// As [`layouts`](Self::layouts).
    pub fn layout(query: &Query) -> Result<Option<Arc<Layout>>> {
        Ok(Self::layouts(query)?.pop())
    }

    /// What the state of a query is of, as it is written: versions before [`ArrangedQuery`](super::ArrangedQuery) told it apart so.
    pub fn state_identity(query: &Query) -> Option<String> {
        let steps = steps(&query.pipeline.root);
        if !steps.iter().any(|step| step.has_state()) {
            return None;
        }
        Some(
            steps.iter().rev().filter_map(|step| Self::identity_of_step(step)).collect::<Vec<_>>().join(", "),
        )
    }

    /// What the state of a step is of, or comes through; nothing if that does not matter.
    pub(super) fn identity_of_step(step: &PlanNode) -> Option<String> {
        match step {
            PlanNode::Aggregate { plan, .. } => Some(Aggregate::identity(plan)),
            PlanNode::Deduplicate { plan, .. } => Some(Deduplicate::identity(plan)),
            PlanNode::Join { plan, .. } => Some(Join::identity(plan)),
            PlanNode::Keyed { plan, .. } => Some(Keyed::identity(plan)),
            PlanNode::Windows { function, .. } => Some(format!(
                "windows of '{}', {} ms each {} ms from {} ms on",
                function.time_column, function.size_ms, function.slide_ms, function.offset_ms
            )),
            PlanNode::Scan(_) | PlanNode::Calc { .. } | PlanNode::Lookup { .. } | PlanNode::Union { .. } => {
                None
            }
        }
    }

    /// Operators of a query that never ran, with state in memory.
    ///
    /// # Errors
    /// `Invalid` for types that state does not hold.
    pub fn of_new_query(query: &Query, memory: &MemoryShare) -> Result<Self> {
        let table = |layout| {
            let table = MemoryTable::new(layout, memory.clone())?;
            Ok(Box::new(table) as Box<dyn StateTable>)
        };
        let tables: Result<Vec<_>> = Self::layouts(query)?.into_iter().map(table).collect();
        let mut operators = Self::build(query, 1, (0, 0), tables?, None)?;
        operators.charge(memory)?;
        Ok(operators)
    }

    /// Has what is kept beside tables grow into this memory.
    ///
    /// # Errors
    /// `ResourceExhausted` if what is there does not fit.
    pub fn charge(&mut self, memory: &MemoryShare) -> Result<()> {
        self.nodes.iter_mut().try_for_each(|node| node.charge(memory))
    }

    /// Takes the rows of the query's tables at rest, in their order, before rows of streams come. They grow into this memory.
    ///
    /// # Errors
    /// `Invalid` for values that cannot be computed; `ResourceExhausted` if they do not fit.
    pub fn set_tables_at_rest(&mut self, tables: &[RecordBatch], memory: &MemoryShare) -> Result<()> {
        self.nodes.iter_mut().try_for_each(|node| node.set_tables_at_rest(tables, memory))
    }

    /// Sets the machine's clock for state functions and idle streams, in milliseconds since 1970. It never goes back.
    pub fn set_now_ms(&mut self, now_ms: i64) {
        self.watermark.set_now_ms(now_ms);
        self.nodes.iter_mut().for_each(|node| node.set_now_ms(now_ms));
    }

    /// Operators of a query that goes on from a checkpoint, with the tables of its state.
    ///
    /// # Errors
    /// As [`of_new_query`](Self::of_new_query).
    pub fn with_tables(
        query: &Query,
        checkpoint: &Manifest,
        tables: Vec<Box<dyn StateTable>>,
    ) -> Result<Self> {
        let watermarks_ms = (checkpoint.watermark_ms, checkpoint.late_watermark_ms);
        let mut operators = Self::build(query, checkpoint.generation, watermarks_ms, tables, None)?;
        operators.watermark.restore_incomplete(&checkpoint.incomplete_times_ms);
        Ok(operators)
    }

    /// The same, with the state of each step in shards, which `start` starts: as many as the query's parallelism says, with
    /// [their parts](Self::table_parts) of tables. What is kept beside tables grows into this memory. A query whose parallelism is 1
    /// has none.
    ///
    /// # Errors
    /// As [`of_new_query`](Self::of_new_query) and `start`.
    pub fn with_shards(
        query: &Query,
        checkpoint: &Manifest,
        tables: Vec<Box<dyn StateTable>>,
        memory: &MemoryShare,
        start: StartShards<'_>,
    ) -> Result<Self> {
        let watermarks_ms = (checkpoint.watermark_ms, checkpoint.late_watermark_ms);
        let shards = (query.settings.parallelism > 1).then_some(ShardsOfSteps { memory, start });
        let mut operators = Self::build(query, checkpoint.generation, watermarks_ms, tables, shards)?;
        operators.watermark.restore_incomplete(&checkpoint.incomplete_times_ms);
        operators.charge(memory)?;
        Ok(operators)
    }

    /// Operators of a query with at most one table of state.
    ///
    /// # Errors
    /// As [`with_tables`](Self::with_tables).
    pub fn new(query: &Query, checkpoint: &Manifest, table: Option<Box<dyn StateTable>>) -> Result<Self> {
        Self::with_tables(query, checkpoint, table.into_iter().collect())
    }

    fn build<'a>(
        query: &'a Query,
        life: u64,
        (current_ms, late_ms): (i64, i64),
        tables: Vec<Box<dyn StateTable>>,
        shards: Option<ShardsOfSteps<'a>>,
    ) -> Result<Self> {
        let mut builder = Builder {
            query,
            life,
            names: TableNames::default(),
            tables: tables.into_iter(),
            scans: Vec::new(),
            watermarks: Vec::new(),
            nodes: Vec::new(),
            shards,
        };
        builder.add(&query.pipeline.root)?;
        let Builder { scans, watermarks, nodes, .. } = builder;
        let watermark = Watermark::new(query.settings.watermark_policy, &watermarks, current_ms, late_ms);
        let mut operators = Self { scans, nodes, watermark };
        // Of the batch before, and then of the open one.
        operators.move_watermarks(late_ms);
        operators.move_watermarks(current_ms);
        Ok(operators)
    }

    /// Gives each node the watermark that it has when the query's is `global_ms`; those that it had make rows late now.
    fn move_watermarks(&mut self, global_ms: i64) {
        let mut outputs: Vec<Option<i64>> = Vec::with_capacity(self.nodes.len());
        for node in &mut self.nodes {
            let of = |giver: &Giver| match giver {
                Giver::Scan(scan) => self.scans[*scan].time.map(|_| global_ms),
                Giver::Node(node) => outputs[*node],
            };
            let input = node.from.iter().filter_map(of).min();
            node.late_ms = node.current_ms;
            node.current_ms = input;
            outputs.push(input.map(|input| node.output_watermark_ms(input)));
        }
    }

    /// Whether it matters which rows are in which batch.
    pub fn has_batches(&self) -> bool {
        self.nodes.iter().any(|node| !node.layouts.is_empty())
    }

    /// True if groups that changed come out once for the open batch, at its end, rather than at once, and state functions get its
    /// rows then.
    pub fn set_gathering(&mut self, is_gathering: bool) {
        self.nodes.iter_mut().for_each(|node| node.set_gathering(is_gathering));
    }

    /// Takes rows of a stream, by its number, for the open batch, and gives what comes out at once.
    ///
    /// # Errors
    /// `Invalid` for values that cannot be computed; as the tables of state and `out`.
    pub fn push_from(
        &mut self,
        stream: usize,
        rows: &RecordBatch,
        out: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let prepared = self.prepare(stream, rows)?;
        self.push_prepared(prepared, out)
    }

    /// Takes rows of the first stream for the open batch, and gives what comes out at once.
    ///
    /// # Errors
    /// As [`push_from`](Self::push_from).
    pub fn push(&mut self, rows: RecordBatch) -> Result<Vec<RecordBatch>> {
        let mut given = Vec::new();
        let mut take = |rows| {
            given.push(rows);
            Ok(())
        };
        self.push_from(0, &rows, &mut take)?;
        Ok(given)
    }

    /// Ends the open batch, with which all rows are complete, and gives what comes out at its end.
    ///
    /// # Errors
    /// As [`push_from`](Self::push_from).
    pub fn end_batch_into(&mut self, out: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        self.end_batch_of(Reach::Everything, out)
    }

    /// Ends the open batch, with which these rows are complete, and gives what comes out at its end. What a node gives then is of
    /// the same batch for those after it.
    ///
    /// # Errors
    /// As [`push_from`](Self::push_from).
    pub fn end_batch_of(
        &mut self,
        reach: Reach,
        out: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        for at in 0..self.nodes.len() {
            let (node, mut after) = node_with_those_after(&mut self.nodes, at);
            node.end_batch(&mut |rows| after.give(rows, out))?;
        }
        self.watermark.end_batch(reach);
        self.move_watermarks(self.watermark.current_ms());
        Ok(())
    }

    /// True if rows are on their way through shards: what comes of them is not all given yet.
    pub fn is_outstanding(&self) -> bool {
        self.nodes.iter().any(Node::is_outstanding)
    }

    /// Gives what shards have let out meanwhile, or waits for some at most so long.
    ///
    /// # Errors
    /// As [`push_from`](Self::push_from).
    pub fn take_outstanding(
        &mut self,
        wait: Duration,
        out: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let mut has_some = false;
        for at in 0..self.nodes.len() {
            has_some |= self.take_ready(at, Duration::ZERO, out)?;
        }
        match self.nodes.iter().position(Node::is_outstanding) {
            Some(first) if !has_some && !wait.is_zero() => self.take_ready(first, wait, out).map(drop),
            _ => Ok(()),
        }
    }

    fn take_ready(&mut self, at: usize, wait: Duration, out: Out<'_>) -> Result<bool> {
        let (node, mut after) = node_with_those_after(&mut self.nodes, at);
        let Some(shards) = node.shards() else { return Ok(false) };
        shards.take_ready(wait, &mut |rows| after.give(rows, out))
    }

    /// Ends the open batch, with which all rows are complete, and gives what comes out at its end.
    ///
    /// # Errors
    /// As [`push_from`](Self::push_from).
    pub fn end_batch(&mut self) -> Result<Vec<RecordBatch>> {
        let mut given = Vec::new();
        let mut take = |rows| {
            given.push(rows);
            Ok(())
        };
        self.end_batch_into(&mut take)?;
        Ok(given)
    }

    /// True if the end of a batch without rows would let something go, or end the wait for a stream that is idle.
    pub fn wants_empty_batch(&self) -> bool {
        self.watermark.rises_by_idleness() || self.nodes.iter().any(Node::wants_empty_batch)
    }

    /// The watermark of the open batch and the one by which its rows are late, in milliseconds since 1970; 0 without one.
    pub fn watermarks_ms(&self) -> (i64, i64) {
        (self.watermark.current_ms(), self.watermark.late_ms())
    }

    /// The watermark, to say which rows are complete.
    pub fn watermark(&mut self) -> &mut Watermark {
        &mut self.watermark
    }

    /// True if a stream has a watermark.
    pub fn has_watermark(&self) -> bool {
        !self.watermark.is_empty()
    }

    /// Changes in each table of state since this was asked last, of those in which something did.
    ///
    /// # Errors
    /// As the tables of state.
    pub fn versions(&mut self) -> Result<Vec<PartVersion>> {
        let versions: Result<Vec<_>> = self.nodes.iter_mut().map(Node::versions).collect();
        Ok(versions?.into_iter().flatten().collect())
    }

    /// Changes in the state of a query with at most one table since this was asked last.
    ///
    /// # Errors
    /// As [`versions`](Self::versions).
    pub fn version(&mut self) -> Result<Option<Version>> {
        Ok(self.versions()?.pop().map(|part| part.version))
    }

    /// Names of operators with state, with what their state is and what was done with it since this was asked last.
    pub fn take_usages(&mut self) -> Vec<(&'static str, StateUsage, OperatorCounts)> {
        self.nodes.iter_mut().filter_map(Node::take_usage).collect()
    }

    /// The same of a query with at most one such operator.
    pub fn take_usage(&mut self) -> Option<(StateUsage, OperatorCounts)> {
        self.take_usages().pop().map(|(_, usage, counts)| (usage, counts))
    }
}

impl<T: Iterator<Item = Box<dyn StateTable>>> Builder<'_, T> {
    fn add(&mut self, step: &PlanNode) -> Result<Giver> {
        if let PlanNode::Scan(scan) = step {
            return Ok(self.add_scan(scan));
        }
        let from: Result<Vec<Giver>> = step.inputs().into_iter().map(|input| self.add(input)).collect();
        let from = from?;
        let layouts = self.names.layouts(step)?;
        let node = self.nodes.len();
        for (input, giver) in from.iter().enumerate() {
            let to = Some(Taker { node, input });
            match giver {
                Giver::Scan(scan) => self.scans[*scan].to = to,
                Giver::Node(node) => self.nodes[*node].to = to,
            }
        }
        let mut made = match self.shards.take() {
            Some(mut shards) if step.has_state() => {
                let made = self.sharded(step, from, layouts, &mut shards);
                self.shards = Some(shards);
                made?
            }
            shards => {
                self.shards = shards;
                Node::new(step, self.query.output_mode, self.life, from, layouts, &mut self.tables)?
            }
        };
        made.trials = prepared::trials(step);
        self.nodes.push(made);
        Ok(Giver::Node(node))
    }

    /// A step with state in shards, each of which has an operator over tables of its own.
    fn sharded(
        &mut self,
        step: &PlanNode,
        from: Vec<Giver>,
        layouts: Vec<Arc<Layout>>,
        ShardsOfSteps { memory, start }: &mut ShardsOfSteps<'_>,
    ) -> Result<Node> {
        let (mode, parallelism) = (self.query.output_mode, self.query.settings.parallelism);
        let mut shards = Vec::new();
        for (number, partitions) in Division::partitions_of(step, parallelism).into_iter().enumerate() {
            let mut node = Node::new(step, mode, self.life, Vec::new(), layouts.clone(), &mut self.tables)?;
            node.charge(memory)?;
            shards.push(Shard::new(number, partitions, node));
        }
        let division = Division::new(step, parallelism)?;
        let sharded = Sharded::new(step, mode, division, shards, &layouts[0].name, &mut **start)?;
        Ok(Node::sharded(sharded, from, layouts))
    }

    fn add_scan(&mut self, plan: &ScanPlan) -> Giver {
        let time = plan.watermark.map(|watermark| {
            self.watermarks.push(watermark);
            (watermark.column, self.watermarks.len() - 1)
        });
        let before_watermark = Calc::new(plan.before_watermark.iter().cloned());
        self.scans.push(Scan { stream: plan.stream, before_watermark, time, to: None });
        Giver::Scan(self.scans.len() - 1)
    }
}

/// Steps of a tree, those before a step before it.
fn steps(root: &PlanNode) -> Vec<&PlanNode> {
    let mut all: Vec<&PlanNode> = root.inputs().into_iter().flat_map(steps).collect();
    all.push(root);
    all
}

/// Nodes after one, as the takers of what it gives.
struct After<'a> {
    nodes: &'a mut [Node],
    /// Number of the first of them.
    first: usize,
    to: Option<Taker>,
}

impl After<'_> {
    fn give(&mut self, rows: RecordBatch, out: Out<'_>) -> Result<()> {
        match self.to {
            Some(to) => push_on(self.nodes, self.first, to, rows, out),
            None => out(rows),
        }
    }
}

/// A node, and those after it.
fn node_with_those_after(nodes: &mut [Node], at: usize) -> (&mut Node, After<'_>) {
    let (before, after) = nodes.split_at_mut(at + 1);
    let node = &mut before[at];
    let to = node.to;
    (node, After { nodes: after, first: at + 1, to })
}

/// Pushes rows into a node and what comes of them into those after it; the nodes are those from number `first` on.
fn push_on(nodes: &mut [Node], first: usize, to: Taker, rows: RecordBatch, out: Out<'_>) -> Result<()> {
    let (before, after) = nodes.split_at_mut(to.node - first + 1);
    let node = before.last_mut().expect("a node takes rows of those before it");
    let next = node.to;
    node.push(to.input, rows, &mut |rows| match next {
        Some(next) => push_on(after, to.node + 1, next, rows, out),
        None => out(rows),
    })
}

/// The greatest time of rows, in milliseconds, of those that are not after `limit_ms`; nothing if all are. A row without a time counts
/// as 1970, as in Spark.
fn greatest_ms(rows: &RecordBatch, column: usize, limit_ms: i64) -> Result<Option<i64>> {
    let times: ArrayRef = cast(rows.column(column), &TIMESTAMP()).map_err(computing)?;
    let times = times.as_primitive::<TimestampMicrosecondType>();
    let null = (times.null_count() > 0).then_some(0);
    let greatest_ms = max(times).map(|us| us.div_euclid(1000));
    if greatest_ms.is_none_or(|ms| ms <= limit_ms) {
        return Ok(greatest_ms.max(null));
    }
    let within = times.iter().flatten().map(|us| us.div_euclid(1000)).filter(|ms| *ms <= limit_ms);
    Ok(within.max().max(null.filter(|ms| *ms <= limit_ms)))
}

#[cfg(test)]
mod stateful_tests;
#[cfg(test)]
mod tests;
