//! The side of a join that one task reads whole: tasks share nothing.
//!
//! The partitions of a join by nested loops share which rows of the left side have met one of the right. In several tasks, each would
//! give those that have met none of its own. A merge of the right side's partitions does not hold by itself: Ballista takes it out
//! again, for the join does not ask for it.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, PhysicalExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ReplaceChildrenOptions, replace_children_if_necessary,
};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use yeoul_dialect::sent::hidden_text;

/// The plan, in which a join by nested loops that gives rows of its left side for having met one of the right, or none, reads that whole.
///
/// # Errors
/// DataFusion's.
pub(crate) fn read_whole(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let whole = plan.transform_up(|node| {
        let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() else { return Ok(Transformed::no(node)) };
        if !gives_left(*join.join_type()) || is_one_row(join.right()) {
            return Ok(Transformed::no(node));
        }
        let (left, mut right) = (Arc::clone(join.left()), Arc::clone(join.right()));
        if right.output_partitioning().partition_count() != 1 {
            right = Arc::new(CoalescePartitionsExec::new(right));
        }
        let sides = vec![left, Arc::new(WholeExec::new(right)) as Arc<dyn ExecutionPlan>];
        Ok(Transformed::yes(replace_children_if_necessary(node, sides)?))
    });
    whole.data()
}

/// True of a join that gives rows of its left side for having met one of the right, or none.
fn gives_left(kind: JoinType) -> bool {
    match kind {
        JoinType::Left | JoinType::Full | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
            true
        }
        JoinType::Inner
        | JoinType::Right
        | JoinType::RightSemi
        | JoinType::RightAnti
        | JoinType::RightMark => false,
    }
}

/// True of a plan that has one row at most, and therefore one partition however it is divided: a grand total, or a row of constants.
fn is_one_row(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if plan.output_partitioning().partition_count() != 1 {
        return false;
    }
    if plan.is::<ProjectionExec>() || plan.is::<FilterExec>() || hidden_text(plan.as_ref()).is_some() {
        return plan.children().into_iter().all(is_one_row);
    }
    let is_total = plan.downcast_ref::<AggregateExec>().is_some_and(|total| total.group_expr().is_empty());
    is_total || plan.is::<PlaceholderRowExec>()
}

/// Operator that gives its input as it is, and asks for all of it in one partition.
#[derive(Debug)]
pub(crate) struct WholeExec {
    input: Arc<dyn ExecutionPlan>,
}

impl WholeExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        Self { input }
    }
}

impl DisplayAs for WholeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for WholeExec {
    fn name(&self) -> &str {
        "WholeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
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
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(children.swap_remove(0))))
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(children.swap_remove(0))))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        // Half of the rows would be a wrong answer.
        if self.input.output_partitioning().partition_count() != 1 {
            return internal_err!("a side that is read whole is divided");
        }
        self.input.execute(partition, context)
    }
}
