//! A subplan that is computed once, and read at several places of a plan.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::common::Result;
use datafusion::common::stats::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{
    ChildrenPropertiesMode, EvaluationType, ReplaceChildrenOptions, SchedulingType, reset_plan_states,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SpillMetrics,
};
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::stream;
use yeoul_base::ErrorKind;

use super::shared_rows::{Audience, Reader, SharedRows};
use crate::Error;

/// A subplan that several operators of a plan read.
pub(crate) struct SharedSubplan {
    /// The number that `EXPLAIN` shows.
    number: usize,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    /// Operators of the whole plan that read it.
    readers: AtomicUsize,
    /// True once a reader shows the subplan as its input.
    is_shown: AtomicBool,
    partitions: Vec<Partition>,
    metrics: ExecutionPlanMetricsSet,
}

#[derive(Default)]
struct Partition {
    audience: Arc<Audience>,
    slot: Mutex<Slot>,
}

/// Rows of a partition, from its first reader's first row to its last reader's end.
#[derive(Default)]
struct Slot {
    rows: Option<Arc<SharedRows>>,
    /// Readers that have ended.
    ended: usize,
    is_over: bool,
}

impl fmt::Debug for SharedSubplan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedSubplan").field("number", &self.number).finish_non_exhaustive()
    }
}

impl SharedSubplan {
    /// A subplan that `readers` operators read.
    pub(crate) fn new(number: usize, input: Arc<dyn ExecutionPlan>, readers: usize) -> Self {
        let mut properties = input.properties().as_ref().clone();
        properties.scheduling_type = SchedulingType::Cooperative;
        properties.evaluation_type = EvaluationType::Eager;
        let partitions = input.output_partitioning().partition_count();
        Self {
            number,
            input,
            properties: Arc::new(properties),
            readers: AtomicUsize::new(readers),
            is_shown: AtomicBool::new(false),
            partitions: (0..partitions).map(|_| Partition::default()).collect(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// Sets the number of operators that read it, before it runs. Its rows are kept until as many have ended.
    pub(crate) fn set_readers(&self, readers: usize) {
        self.readers.store(readers, Ordering::Relaxed);
    }

    /// The rows of a partition, which somebody begins to compute if nobody has.
    fn rows(&self, partition: usize, context: &Arc<TaskContext>) -> Result<Arc<SharedRows>> {
        let mut slot = self.partitions[partition].slot();
        if let Some(rows) = &slot.rows {
            return Ok(Arc::clone(rows));
        }
        if slot.is_over {
            let text = format!("shared subplan {} is read by more operators than were counted", self.number);
            return Err(Error::new(ErrorKind::Internal, text).into());
        }
        let spill = SpillMetrics::new(&self.metrics, partition);
        let spill = SpillManager::new(context.runtime_env(), spill, self.input.schema())
            .with_compression_type(context.session_config().spill_compression());
        let reservation = MemoryConsumer::new(format!("SharedSubplan{}[{partition}]", self.number))
            .with_can_spill(true)
            .register(context.memory_pool());
        let input = self.input.execute(partition, Arc::clone(context))?;
        let audience = Arc::clone(&self.partitions[partition].audience);
        let rows = Arc::new(SharedRows::start(input, audience, reservation, spill));
        slot.rows = Some(Arc::clone(&rows));
        Ok(rows)
    }

    /// Frees all rows: nobody reads them any more.
    fn release(&self) {
        for partition in &self.partitions {
            let mut slot = partition.slot();
            (slot.rows, slot.is_over) = (None, true);
        }
    }
}

impl Partition {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Seat of a reader of a partition, from the time its stream is made to that when it is dropped.
struct Seat {
    subplan: Arc<SharedSubplan>,
    partition: usize,
}

impl Seat {
    fn take(subplan: &Arc<SharedSubplan>, partition: usize) -> Self {
        subplan.partitions[partition].audience.join();
        Self { subplan: Arc::clone(subplan), partition }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let partition = &self.subplan.partitions[self.partition];
        let mut slot = partition.slot();
        slot.ended += 1;
        let left = partition.audience.leave();
        if left == 0 && slot.ended >= self.subplan.readers.load(Ordering::Relaxed) {
            (slot.rows, slot.is_over) = (None, true);
        }
    }
}

/// Frees the rows of all shared subplans of a plan that does not run any more.
pub(crate) fn release(plan: &Arc<dyn ExecutionPlan>) {
    if let Some(reader) = plan.downcast_ref::<SharedSubplanExec>() {
        reader.subplan.release();
        release(&reader.subplan.input);
        return;
    }
    plan.children().into_iter().for_each(release);
}

/// A reader of a [`SharedSubplan`].
///
/// It has no inputs while a plan is made, so that nothing which is meant for one reader, such as the filter of a join above it, reaches
/// what all of them read. When the plan is done, one of them [shows](Self::shown) the subplan as its input.
#[derive(Debug)]
pub(crate) struct SharedSubplanExec {
    subplan: Arc<SharedSubplan>,
    shows: bool,
    metrics: ExecutionPlanMetricsSet,
}

impl SharedSubplanExec {
    pub(crate) fn new(subplan: Arc<SharedSubplan>) -> Self {
        Self { subplan, shows: false, metrics: ExecutionPlanMetricsSet::new() }
    }

    pub(crate) fn subplan(&self) -> &Arc<SharedSubplan> {
        &self.subplan
    }

    /// The same reader with the subplan as its input, if none has been asked before.
    pub(crate) fn shown(&self) -> Option<Self> {
        let is_first = !self.subplan.is_shown.swap(true, Ordering::Relaxed);
        is_first.then(|| Self { shows: true, ..Self::new(Arc::clone(&self.subplan)) })
    }

    /// A reader of a subplan of its own.
    fn alone(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        let subplan = SharedSubplan::new(self.subplan.number, input, 1);
        subplan.is_shown.store(true, Ordering::Relaxed);
        Self { shows: self.shows, ..Self::new(Arc::new(subplan)) }
    }
}

impl DisplayAs for SharedSubplanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let readers = self.subplan.readers.load(Ordering::Relaxed);
        write!(f, "SharedSubplanExec: subplan={}, readers={readers}", self.subplan.number)
    }
}

impl ExecutionPlan for SharedSubplanExec {
    fn name(&self) -> &str {
        "SharedSubplanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.subplan.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true; self.children().len()]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.children().len()]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        if self.shows { vec![&self.subplan.input] } else { Vec::new() }
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
        match children.pop() {
            // The others go on reading what they read.
            Some(input) if !Arc::ptr_eq(&input, &self.subplan.input) => Ok(Arc::new(self.alone(input))),
            _ => Ok(self),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = reset_plan_states(Arc::clone(&self.subplan.input))?;
        Ok(Arc::new(self.alone(input)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let seat = Seat::take(&self.subplan, partition);
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let begun: Option<Reader> = None;
        let batches = stream::unfold(Some((seat, begun)), move |reading| {
            let (context, metrics) = (Arc::clone(&context), metrics.clone());
            async move {
                let (seat, begun) = reading?;
                let mut reader = match begun {
                    Some(reader) => reader,
                    None => match seat.subplan.rows(seat.partition, &context) {
                        Ok(rows) => Reader::new(rows),
                        Err(error) => return Some((Err(error), None)),
                    },
                };
                let batch = reader.next().await?;
                if let Ok(batch) = &batch {
                    metrics.record_output(batch.num_rows());
                }
                Some((batch, Some((seat, Some(reader)))))
            }
        });
        let batches = RecordBatchStreamAdapter::new(self.schema(), Box::pin(batches));
        Ok(Box::pin(cooperative(batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        if self.shows {
            self.subplan.metrics.clone_inner().iter().for_each(|metric| metrics.push(Arc::clone(metric)));
        }
        Some(metrics)
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        StatisticsContext::new().compute(self.subplan.input.as_ref(), args)
    }
}
