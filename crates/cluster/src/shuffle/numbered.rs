//! The number of a task's partition. Ballista gives a task the part of the plan that it runs, and does not say which part that is.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, UInt64Type};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ReplaceChildrenOptions, replace_children_if_necessary,
};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};

/// The plan, in which what each exchange by a hash divides has numbered partitions.
///
/// # Errors
/// DataFusion's.
pub(crate) fn numbered(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let numbered = plan.transform_up(|node| {
        let Some(exchange) = node.downcast_ref::<RepartitionExec>() else { return Ok(Transformed::no(node)) };
        if !matches!(exchange.partitioning(), Partitioning::Hash(..)) {
            return Ok(Transformed::no(node));
        }
        let input = Arc::clone(exchange.input());
        let numbers = numbers(input.output_partitioning().partition_count())?;
        let input: Arc<dyn ExecutionPlan> = Arc::new(NumberedExec { input, numbers });
        Ok(Transformed::yes(replace_children_if_necessary(node, vec![input])?))
    });
    numbered.data()
}

/// Partitions that consist of their own number each.
fn numbers(count: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = Arc::new(Schema::new(vec![Field::new("partition", DataType::UInt64, false)]));
    let number = |partition| {
        let number = Arc::new(UInt64Array::from(vec![partition]));
        Ok(vec![RecordBatch::try_new(Arc::clone(&schema), vec![number])?])
    };
    let numbers = (0..count as u64).map(number).collect::<Result<Vec<_>>>()?;
    Ok(MemorySourceConfig::try_new_exec(&numbers, schema, None)?)
}

/// Operator that gives its first input as it is. The second has one row in each partition, its number: where one of the two is cut to some
/// partitions, so is the other.
#[derive(Debug)]
pub(crate) struct NumberedExec {
    input: Arc<dyn ExecutionPlan>,
    numbers: Arc<dyn ExecutionPlan>,
}

impl NumberedExec {
    /// The operator of two inputs.
    ///
    /// # Errors
    /// `Internal` for others.
    pub(crate) fn of(inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Self> {
        match <[_; 2]>::try_from(inputs) {
            Ok([input, numbers]) => Ok(Self { input, numbers }),
            Err(inputs) => internal_err!("numbered partitions have {} inputs", inputs.len()),
        }
    }
}

/// The number of the map that a task of a stage is: that of its first partition, for tasks of a stage have none in common.
///
/// # Errors
/// `Internal` if the plan does not say it.
pub(crate) fn map_number(stage: &dyn ExecutionPlan) -> Result<u64> {
    let children = stage.children();
    let numbered = children.first().and_then(|input| input.downcast_ref::<NumberedExec>());
    let scan = numbered.and_then(|numbered| numbered.numbers.downcast_ref::<DataSourceExec>());
    let rows = scan.and_then(|scan| scan.data_source().downcast_ref::<MemorySourceConfig>());
    let rows = rows.into_iter().flat_map(|rows| rows.partitions().iter().flatten());
    let numbers = rows.filter_map(|rows| rows.column(0).as_primitive_opt::<UInt64Type>());
    match numbers.flatten().flatten().min() {
        Some(number) => Ok(number),
        None => internal_err!("a task does not know which partition it is of"),
    }
}

impl DisplayAs for NumberedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for NumberedExec {
    fn name(&self) -> &str {
        "NumberedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input, &self.numbers]
    }

    /// One partition where one is numbered: Ballista takes out a merge that nobody asks for, and there would be more.
    fn required_input_distribution(&self) -> Vec<Distribution> {
        let of_input = match self.numbers.output_partitioning().partition_count() {
            1 => Distribution::SinglePartition,
            _ => Distribution::UnspecifiedDistribution,
        };
        vec![of_input, Distribution::UnspecifiedDistribution]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true, false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition), ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::of(children)?))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::of(children)?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
