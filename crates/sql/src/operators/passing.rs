//! Operators that give the rows of their input as they are.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// Work of such an operator beside passing rows on.
pub(crate) trait Passing: Clone + fmt::Debug + Send + Sync + 'static {
    /// Name of the operator in a plan.
    const NAME: &'static str;

    /// Parameters that a plan shows behind the name.
    fn parameters(&self) -> String;

    /// Executes a partition of the input.
    ///
    /// # Errors
    /// The input's, and its own.
    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream>;
}

/// An operator that gives the rows of its input as they are.
#[derive(Debug)]
pub(crate) struct PassingExec<P> {
    pub(super) input: Arc<dyn ExecutionPlan>,
    pub(super) passing: P,
}

impl<P: Passing> DisplayAs for PassingExec<P> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters = self.passing.parameters();
        let between = if parameters.is_empty() { "" } else { ": " };
        write!(f, "{}{between}{parameters}", P::NAME)
    }
}

impl<P: Passing> ExecutionPlan for PassingExec<P> {
    fn name(&self) -> &str {
        P::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
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
        Ok(Arc::new(Self { input, passing: self.passing.clone() }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.passing.execute(&self.input, partition, context)
    }
}
