//! The sets of `GROUPING SETS`, `ROLLUP` and `CUBE`, each computed from the groups of a larger one.
//!
//! DataFusion's aggregate looks each row up once for each set. A level of a rollup is computed from the groups of the one before it here,
//! of which there are fewer, within each partition; the last aggregate unites those of the partitions, as ever.

mod feed;
mod levels;

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, ScalarValue, internal_datafusion_err, internal_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::{Stream, StreamExt};

use feed::Feed;
pub(crate) use levels::{Level, levels};

/// The states of the groups of all grouping sets, from those of all keys.
#[derive(Debug)]
pub(crate) struct GroupingLevelsExec {
    input: Arc<dyn ExecutionPlan>,
    sets: Arc<Sets>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// Grouping sets, and what is computed of each.
#[derive(Debug)]
struct Sets {
    levels: Vec<Level>,
    /// The number of all keys.
    keys: usize,
    calls: Vec<Arc<AggregateFunctionExpr>>,
    /// Schema of the rows that the calls are of.
    rows: SchemaRef,
    /// Schema of the states: all keys, `__grouping_id`, states.
    states: SchemaRef,
}

impl GroupingLevelsExec {
    /// `aggregate`: the first one of a query, that would compute all sets. `input`: the same one, with all keys in one set.
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        aggregate: &AggregateExec,
        levels: Vec<Level>,
    ) -> Result<Self> {
        let group = aggregate.group_expr();
        let calls = aggregate.aggr_expr().to_vec();
        // Of the aggregate in any mode.
        let mut states = group.group_schema(&aggregate.input().schema())?.fields().to_vec();
        for call in &calls {
            states.extend(call.state_fields()?);
        }
        let metadata = input.schema().metadata().clone();
        let sets = Sets {
            levels,
            keys: group.expr().len(),
            calls,
            rows: aggregate.input_schema(),
            states: Arc::new(Schema::new_with_metadata(states, metadata)),
        };
        Ok(Self::over(input, Arc::new(sets)))
    }

    /// The number of sets.
    pub(crate) fn count(&self) -> usize {
        self.sets.levels.len()
    }

    fn over(input: Arc<dyn ExecutionPlan>, sets: Arc<Sets>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&sets.states)),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self { input, sets, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for GroupingLevelsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupingLevelsExec: sets=[")?;
        for (at, level) in self.sets.levels.iter().enumerate() {
            let names = level.keys.iter().map(|key| self.sets.states.field(*key).name().as_str());
            write!(f, "{}({})", if at == 0 { "" } else { ", " }, names.collect::<Vec<_>>().join(", "))?;
        }
        write!(f, "]")
    }
}

impl ExecutionPlan for GroupingLevelsExec {
    fn name(&self) -> &str {
        "GroupingLevelsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().expect("it has one child");
        Ok(Arc::new(Self::over(input, Arc::clone(&self.sets))))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let groups = self.input.execute(partition, Arc::clone(&context))?;
        let begun = self.sets.levels.iter().map(|_| None).collect();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        Ok(Box::pin(Levels { sets: Arc::clone(&self.sets), context, level: 0, groups, begun, metrics }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The groups of a partition, level by level. While those of one are handed on, the levels that are computed from it read them.
struct Levels {
    sets: Arc<Sets>,
    context: Arc<TaskContext>,
    /// The level whose groups are handed on: all have been when it is the number of levels.
    level: usize,
    /// Groups of that level.
    groups: SendableRecordBatchStream,
    /// Levels that read groups of others, or have read all of them.
    begun: Vec<Option<Begun>>,
    metrics: BaselineMetrics,
}

/// A level that reads the groups of another.
struct Begun {
    feed: Feed,
    groups: SendableRecordBatchStream,
}

impl Levels {
    /// Hands groups of the level to those that are computed from it, and returns them as groups of all sets.
    fn handed_on(&mut self, groups: &RecordBatch, context: &mut Context<'_>) -> Result<RecordBatch> {
        let sets = Arc::clone(&self.sets);
        let level = &sets.levels[self.level];
        for (child, places) in &level.children {
            let states = level.keys.len()..groups.num_columns();
            let read = groups.project(&places.iter().copied().chain(states).collect::<Vec<_>>())?;
            let child = self.begin(*child, &read.schema())?;
            child.feed.give(read);
            // The operator's own input counts towards the turn of its task, and what a feed gives was counted there: it is taken at once.
            let polled = pin!(tokio::task::unconstrained(child.groups.next())).poll(context);
            match polled {
                Poll::Ready(Some(Err(error))) => return Err(error),
                Poll::Pending if child.feed.is_taken() => {}
                _ => return internal_err!("a level of grouping sets has not read to its end"),
            }
        }
        sets.widened(level, groups)
    }

    /// A level, which reads batches of a schema.
    fn begin(&mut self, level: usize, schema: &SchemaRef) -> Result<&mut Begun> {
        let begun = &mut self.begun[level];
        if begun.is_none() {
            let feed = Feed::new(Arc::clone(schema));
            let groups = self.sets.aggregate(&feed)?.execute(0, Arc::clone(&self.context))?;
            *begun = Some(Begun { feed, groups });
        }
        begun.as_mut().ok_or_else(|| internal_datafusion_err!("a level that has begun is gone"))
    }

    /// Goes on to the next level. Levels that are computed from this one have read all of it.
    fn advance(&mut self) -> Result<()> {
        let sets = Arc::clone(&self.sets);
        let level = &sets.levels[self.level];
        for (child, places) in &level.children {
            // One without keys has a group even where this one has none.
            let schema = self.groups.schema();
            let states = level.keys.len()..schema.fields().len();
            let schema = schema.project(&places.iter().copied().chain(states).collect::<Vec<_>>())?;
            self.begin(*child, &Arc::new(schema))?.feed.end();
        }
        self.level += 1;
        if let Some(begun) = self.begun.get_mut(self.level) {
            let Some(begun) = begun.take() else {
                return internal_err!("a level of grouping sets is computed from none");
            };
            self.groups = begun.groups;
        }
        Ok(())
    }

    fn polled(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<RecordBatch>>> {
        while self.level < self.sets.levels.len() {
            let groups = ready!(self.groups.poll_next_unpin(context)).transpose()?;
            let timer = self.metrics.elapsed_compute().clone();
            let _timer = timer.timer();
            match groups {
                Some(groups) => return Poll::Ready(self.handed_on(&groups, context).map(Some)),
                None => self.advance()?,
            }
        }
        Poll::Ready(Ok(None))
    }
}

impl Sets {
    /// The aggregate of a level, over states of groups of its keys.
    fn aggregate(&self, feed: &Feed) -> Result<AggregateExec> {
        let schema = PartitionStream::schema(feed);
        let states = self.states.fields().len() - self.keys - 1;
        let keys = schema.fields().len() - states;
        let keys = (0..keys).map(|key| {
            let name = schema.field(key).name();
            (Arc::new(Column::new(name, key)) as Arc<dyn PhysicalExpr>, name.clone())
        });
        let partition = Arc::new(feed.clone()) as Arc<dyn PartitionStream>;
        let input =
            StreamingTableExec::try_new(Arc::clone(schema), vec![partition], None, None, false, None)?;
        AggregateExec::try_new(
            AggregateMode::PartialReduce,
            PhysicalGroupBy::new_single(keys.collect()),
            self.calls.clone(),
            vec![None; self.calls.len()],
            Arc::new(input),
            Arc::clone(&self.rows),
        )
    }

    /// Groups of a level as groups of all sets: with the other keys, which are null, and the number of the set.
    fn widened(&self, level: &Level, groups: &RecordBatch) -> Result<RecordBatch> {
        let rows = groups.num_rows();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.states.fields().len());
        for key in 0..self.keys {
            columns.push(match level.keys.binary_search(&key) {
                Ok(place) => Arc::clone(groups.column(place)),
                Err(_) => new_null_array(self.states.field(key).data_type(), rows),
            });
        }
        let id = ScalarValue::UInt64(Some(level.id)).cast_to(self.states.field(self.keys).data_type())?;
        columns.push(id.to_array_of_size(rows)?);
        columns.extend_from_slice(&groups.columns()[level.keys.len()..]);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.states), columns, &options)?)
    }
}

impl Stream for Levels {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = ready!(self.polled(context)).transpose();
        if !matches!(polled, Some(Ok(_))) {
            self.level = self.sets.levels.len();
        }
        Poll::Ready(polled.map(|groups| groups.record_output(&self.metrics)))
    }
}

impl RecordBatchStream for Levels {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.sets.states)
    }
}
