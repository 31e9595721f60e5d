//! Parts of a plan: a message has a hundred levels at most, of which each operator takes two and its expressions some more.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{ReplaceChildrenOptions, replace_children_if_necessary};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// The plan in parts, each of which is a message of its own within that of the part above it. They are no deeper than the stages that the
/// scheduler makes of the plan: what can be sent in parts can be sent to its tasks.
///
/// # Errors
/// DataFusion's.
pub(crate) fn in_parts(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let ends_stage = ends_stage(plan);
    let part = |child| {
        let child = in_parts(child)?;
        Ok(if ends_stage { Arc::new(PartExec(child)) } else { child })
    };
    let children = plan.children().into_iter().map(part).collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(Arc::clone(plan), children)
}

/// True of an operator whose input is a stage of its own.
fn ends_stage(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan
            .downcast_ref::<RepartitionExec>()
            .is_some_and(|divides| matches!(divides.partitioning(), Partitioning::Hash(..)))
}

/// Part of a plan in a message of its own. It stands in plans that are being written: what reads them finds the part in its place.
#[derive(Debug)]
pub(crate) struct PartExec(Arc<dyn ExecutionPlan>);

impl PartExec {
    pub(crate) fn plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.0
    }
}

impl DisplayAs for PartExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for PartExec {
    fn name(&self) -> &str {
        "PartExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("a part of a plan is there to be written")
    }
}
