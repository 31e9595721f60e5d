use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// Runs the operators below it with batches of another number of rows, down to the next one of its kind.
#[derive(Debug)]
pub(crate) struct BatchRowsExec {
    input: Arc<dyn ExecutionPlan>,
    rows: usize,
}

impl BatchRowsExec {
    /// `rows`: how many a batch of the operators below has at most.
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, rows: usize) -> Self {
        assert!(rows > 0, "batches without rows");
        Self { input, rows }
    }

    /// The same with fewer rows in a batch, if it has more.
    pub(crate) fn with_at_most(&self, rows: usize) -> Option<Self> {
        (rows < self.rows).then(|| Self::new(Arc::clone(&self.input), rows))
    }
}

impl DisplayAs for BatchRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchRowsExec: rows={}", self.rows)
    }
}

impl ExecutionPlan for BatchRowsExec {
    fn name(&self) -> &str {
        "BatchRowsExec"
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
        Ok(Arc::new(Self { input, rows: self.rows }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let config = context.session_config().clone().with_batch_size(self.rows);
        let below = TaskContext::default().with_session_config(config).with_runtime(context.runtime_env());
        self.input.execute(partition, Arc::new(below))
    }
}
