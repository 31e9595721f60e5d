use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::PhysicalExpr;

use super::event_time::bucket_at;
use super::join::Out;
use super::sharded::Sharded;
use super::{Aggregate, Calc, Deduplicate, Join, Keyed, Lookup, OperatorCounts, WindowAssigner};
use crate::error::{Result, computing};
use crate::plan::{OutputMode, PlanNode};
use crate::state::{Layout, MemoryShare, PartVersion, PartitionSet, StateTable, StateUsage, TablePart};
use crate::state_function::Timeout;

/// An operator among those of a query, with its watermarks.
pub(super) struct Node {
    operator: Operator,
    /// Givers of its rows, input by input.
    pub from: Vec<Giver>,
    /// The node that takes what comes out, and on which of its inputs; nothing for the last one.
    pub to: Option<Taker>,
    /// Tables of its state.
    pub layouts: Vec<Arc<Layout>>,
    /// Expressions that it computes of rows of each input, as it takes them.
    pub trials: Vec<Vec<Arc<dyn PhysicalExpr>>>,
    /// The watermark of the open batch, by which what is over goes; nothing without a watermark before it.
    pub current_ms: Option<i64>,
    /// The watermark by which rows of the open batch are late.
    pub late_ms: Option<i64>,
}

/// Giver of rows to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Giver {
    /// A stream, by the number of its scan.
    Scan(usize),
    /// A node.
    Node(usize),
}

/// An input of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taker {
    pub node: usize,
    pub input: usize,
}

enum Operator {
    Calc(Calc),
    Windows(WindowAssigner),
    Aggregate(Box<Aggregate>),
    Deduplicate(Box<Deduplicate>),
    Join(Box<Join>),
    Keyed(Box<Keyed>),
    Lookup(Box<Lookup>),
    /// Rows of several inputs, with one schema.
    Union(SchemaRef),
    /// One of those with state, in parts on threads of their own.
    Sharded(Box<Sharded>),
}

/// Occasion for the end of a batch without rows to let something go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wakes {
    Never,
    /// The watermark has risen.
    WhenRisen,
    /// The machine's clock has passed the first timer.
    AtTimer,
}

impl Wakes {
    /// That of a step.
    pub fn of(step: &PlanNode, mode: OutputMode) -> Self {
        let when_risen = |is_so: bool| if is_so { Self::WhenRisen } else { Self::Never };
        match step {
            PlanNode::Aggregate { .. } => when_risen(mode != OutputMode::Complete),
            PlanNode::Deduplicate { .. } => Self::WhenRisen,
            PlanNode::Join { plan, .. } => when_risen(plan.sides.iter().any(|side| side.bound.is_some())),
            PlanNode::Keyed { plan, .. } => match plan.function.timeout() {
                Timeout::None => Self::Never,
                Timeout::EventTime => Self::WhenRisen,
                Timeout::ProcessingTime => Self::AtTimer,
            },
            _ => Self::Never,
        }
    }
}

/// Names of tables: the operator's kind, and from its second on a number.
#[derive(Debug, Default)]
pub(super) struct TableNames {
    given: Vec<&'static str>,
}

impl TableNames {
    fn next(&mut self, kind: &'static str) -> String {
        self.given.push(kind);
        match self.given.iter().filter(|other| **other == kind).count() {
            1 => kind.to_owned(),
            number => format!("{kind}-{number}"),
        }
    }

    /// Layouts of a step's tables.
    pub fn layouts(&mut self, step: &PlanNode) -> Result<Vec<Arc<Layout>>> {
        Ok(match step {
            PlanNode::Aggregate { plan, .. } => {
                vec![Aggregate::layout(plan, self.next("aggregate"))?]
            }
            PlanNode::Deduplicate { plan, .. } => {
                vec![Deduplicate::layout(plan, self.next("distinct"))?]
            }
            PlanNode::Join { plan, .. } => Join::layouts(plan, &self.next("join"))?.to_vec(),
            PlanNode::Keyed { plan, .. } => vec![Keyed::layout(plan, self.next("keyed"))?],
            _ => Vec::new(),
        })
    }
}

impl Node {
    /// The operator of a step, with tables that are its own.
    ///
    /// # Panics
    /// For a scan, whose rows come from outside.
    pub fn new(
        step: &PlanNode,
        mode: OutputMode,
        life: u64,
        from: Vec<Giver>,
        layouts: Vec<Arc<Layout>>,
        tables: &mut impl Iterator<Item = Box<dyn StateTable>>,
    ) -> Result<Self> {
        let mut table = || tables.next().expect("each layout has its table");
        let operator = match step {
            PlanNode::Scan(_) => unreachable!("a scan is no node"),
            PlanNode::Calc { stages, .. } => Operator::Calc(Calc::new(stages.iter().cloned())),
            PlanNode::Windows { function, with_time, schema, .. } => {
                Operator::Windows(WindowAssigner::new(function.clone(), *with_time, schema)?)
            }
            PlanNode::Aggregate { plan, .. } => {
                Operator::Aggregate(Box::new(Aggregate::new(plan.clone(), mode, table())?))
            }
            PlanNode::Deduplicate { plan, .. } => {
                Operator::Deduplicate(Box::new(Deduplicate::new(plan.clone(), table())?))
            }
            PlanNode::Join { plan, .. } => {
                let tables = [table(), table()];
                Operator::Join(Box::new(Join::new(plan.clone(), tables, life)?))
            }
            PlanNode::Keyed { plan, .. } => Operator::Keyed(Box::new(Keyed::new(plan.clone(), table())?)),
            PlanNode::Lookup { plan, .. } => Operator::Lookup(Box::new(Lookup::new(plan.clone())?)),
            PlanNode::Union { schema, .. } => Operator::Union(Arc::clone(schema)),
        };
        Ok(Self { operator, from, to: None, layouts, trials: Vec::new(), current_ms: None, late_ms: None })
    }

    /// A step whose state is divided among shards.
    pub fn sharded(sharded: Sharded, from: Vec<Giver>, layouts: Vec<Arc<Layout>>) -> Self {
        let operator = Operator::Sharded(Box::new(sharded));
        Self { operator, from, to: None, layouts, trials: Vec::new(), current_ms: None, late_ms: None }
    }

    /// Filters and columns, if it is of these alone.
    pub fn calc(&self) -> Option<&Calc> {
        if let Operator::Calc(calc) = &self.operator { Some(calc) } else { None }
    }

    /// Shards of the node, if it has some.
    pub fn shards(&mut self) -> Option<&mut Sharded> {
        if let Operator::Sharded(sharded) = &mut self.operator { Some(sharded) } else { None }
    }

    /// True if shards are at work for it.
    pub fn is_outstanding(&self) -> bool {
        matches!(&self.operator, Operator::Sharded(sharded) if sharded.is_outstanding())
    }

    /// Takes rows on an input.
    pub fn push(&mut self, input: usize, rows: RecordBatch, out: Out<'_>) -> Result<()> {
        let given = match &mut self.operator {
            Operator::Calc(calc) => Some(calc.push(rows)?),
            Operator::Windows(windows) => Some(windows.push(&rows)?),
            Operator::Aggregate(aggregate) => aggregate.push(&rows, self.late_ms.map(bucket_at))?,
            Operator::Deduplicate(deduplicate) => deduplicate.push(rows, self.late_ms)?,
            Operator::Join(join) => return join.push(input, rows, self.late_ms, out),
            Operator::Keyed(keyed) => keyed.push(rows, self.late_ms, self.current_ms)?,
            Operator::Lookup(lookup) => return lookup.push(&rows, out),
            Operator::Sharded(sharded) => {
                return sharded.push(input, rows, (self.current_ms, self.late_ms), out);
            }
            Operator::Union(schema) => {
                let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
                let (schema, columns) = (Arc::clone(schema), rows.columns().to_vec());
                Some(RecordBatch::try_new_with_options(schema, columns, &options).map_err(computing)?)
            }
        };
        give(given, out)
    }

    /// Ends the open batch.
    pub fn end_batch(&mut self, out: Out<'_>) -> Result<()> {
        match &mut self.operator {
            Operator::Aggregate(aggregate) => {
                let groups = aggregate.end_batch(self.current_ms.map(bucket_at))?;
                groups.into_iter().try_for_each(|groups| give(Some(groups), out))
            }
            Operator::Deduplicate(deduplicate) => deduplicate.end_batch(self.current_ms),
            Operator::Join(join) => join.end_batch(self.current_ms, out),
            Operator::Keyed(keyed) => {
                let given = keyed.end_batch(self.current_ms)?;
                given.into_iter().try_for_each(|rows| give(Some(rows), out))
            }
            Operator::Sharded(sharded) => sharded.end_batch((self.current_ms, self.late_ms), out),
            _ => Ok(()),
        }
    }

    /// Takes note that the open batch has rows, in whichever shard: where all groups come out, they do in each.
    pub fn note_rows_of_batch(&mut self) {
        if let Operator::Aggregate(aggregate) = &mut self.operator {
            aggregate.note_rows_of_batch();
        }
    }

    /// The watermark of what comes out when the node's own is `watermark_ms`.
    pub fn output_watermark_ms(&self, watermark_ms: i64) -> i64 {
        match &self.operator {
            Operator::Join(join) => join.plan().output_watermark_ms(watermark_ms),
            Operator::Sharded(sharded) => match sharded.step() {
                PlanNode::Join { plan, .. } => plan.output_watermark_ms(watermark_ms),
                _ => watermark_ms,
            },
            _ => watermark_ms,
        }
    }

    /// True if the end of a batch without rows would let something go, or might.
    pub fn wants_empty_batch(&self) -> bool {
        let has_risen = self.current_ms > self.late_ms;
        match &self.operator {
            Operator::Aggregate(aggregate) => has_risen && aggregate.evicts(),
            Operator::Deduplicate(_) => has_risen,
            Operator::Join(join) => has_risen && join.evicts(),
            Operator::Keyed(keyed) => keyed.wants_empty_batch(has_risen),
            Operator::Sharded(sharded) => sharded.wants_empty_batch(has_risen),
            _ => false,
        }
    }

    /// The first time on the machine's clock at which a key times out.
    pub fn next_timer_ms(&self) -> Option<i64> {
        if let Operator::Keyed(keyed) = &self.operator { keyed.next_timer_ms() } else { None }
    }

    /// Sets the machine's clock, in milliseconds since 1970.
    pub fn set_now_ms(&mut self, now_ms: i64) {
        match &mut self.operator {
            Operator::Keyed(keyed) => keyed.set_now_ms(now_ms),
            Operator::Sharded(sharded) => sharded.set_now_ms(now_ms),
            _ => {}
        }
    }

    /// Takes the rows of its table at rest, if it has one, among those of the query.
    pub fn set_tables_at_rest(&mut self, tables: &[RecordBatch], memory: &MemoryShare) -> Result<()> {
        match &mut self.operator {
            Operator::Lookup(lookup) => lookup.set_table(tables[lookup.table()].clone(), memory),
            _ => Ok(()),
        }
    }

    /// Has what is kept beside tables grow into this memory.
    pub fn charge(&mut self, memory: &MemoryShare) -> Result<()> {
        if let Operator::Keyed(keyed) = &mut self.operator { keyed.charge(memory) } else { Ok(()) }
    }

    /// True if groups that changed come out once for the open batch.
    pub fn set_gathering(&mut self, is_gathering: bool) {
        match &mut self.operator {
            Operator::Aggregate(aggregate) => aggregate.set_gathering(is_gathering),
            Operator::Keyed(keyed) => keyed.set_gathering(is_gathering),
            Operator::Sharded(sharded) => sharded.set_gathering(is_gathering),
            _ => {}
        }
    }

    /// Tables of its state, in the order of its layouts.
    pub fn tables(&mut self) -> Vec<&mut dyn StateTable> {
        match &mut self.operator {
            Operator::Aggregate(aggregate) => vec![aggregate.table()],
            Operator::Deduplicate(deduplicate) => vec![deduplicate.table()],
            Operator::Join(join) => join.tables().into_iter().collect(),
            Operator::Keyed(keyed) => vec![keyed.table()],
            _ => Vec::new(),
        }
    }

    /// Changes in its state since this was asked last.
    pub fn versions(&mut self) -> Result<Vec<PartVersion>> {
        if let Operator::Sharded(sharded) = &mut self.operator {
            return sharded.versions();
        }
        let layouts = self.layouts.clone();
        let mut versions = Vec::new();
        for (layout, table) in layouts.into_iter().zip(self.tables()) {
            let part = TablePart { layout, partitions: PartitionSet::ALL };
            versions.extend(table.version()?.map(|version| PartVersion { part, version }));
        }
        Ok(versions)
    }

    /// Name with what its state is and what was done with it since this was asked last; nothing without state.
    pub fn take_usage(&mut self) -> Option<(&'static str, StateUsage, OperatorCounts)> {
        let (name, counts) = match &mut self.operator {
            Operator::Aggregate(aggregate) => ("aggregate", aggregate.take_counts()),
            Operator::Deduplicate(deduplicate) => (deduplicate.name(), deduplicate.take_counts()),
            Operator::Join(join) => ("symmetricHashJoin", join.take_counts()),
            Operator::Keyed(keyed) => {
                return Some(("flatMapGroupsWithState", keyed.usage(), keyed.take_counts()));
            }
            Operator::Sharded(sharded) => return Some(sharded.take_usage()),
            _ => return None,
        };
        let mut usage = StateUsage::default();
        for table in self.tables() {
            usage.keys += table.usage().keys;
            usage.memory_bytes += table.usage().memory_bytes;
        }
        Some((name, usage, counts))
    }
}

fn give(rows: Option<RecordBatch>, out: Out<'_>) -> Result<()> {
    match rows.filter(|rows| rows.num_rows() > 0) {
        Some(rows) => out(rows),
        None => Ok(()),
    }
}
