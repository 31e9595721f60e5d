//! Rows of the batches below an operator.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;

use super::passing::{Passing, PassingExec};

/// Runs the operators below it with batches of another number of rows, down to the next one of its kind.
pub(crate) type BatchRowsExec = PassingExec<BatchRows>;

/// Rows that a batch of the operators below has at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchRows(usize);

impl BatchRowsExec {
    /// `rows`: how many a batch of the operators below has at most.
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, rows: usize) -> Self {
        assert!(rows > 0, "batches without rows");
        Self { input, passing: BatchRows(rows) }
    }

    /// The same with fewer rows in a batch, if it has more.
    pub(crate) fn with_at_most(&self, rows: usize) -> Option<Self> {
        (rows < self.passing.0).then(|| Self::new(Arc::clone(&self.input), rows))
    }
}

impl Passing for BatchRows {
    const NAME: &'static str = "BatchRowsExec";

    fn parameters(&self) -> String {
        format!("rows={}", self.0)
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let config = context.session_config().clone().with_batch_size(self.0);
        let below = TaskContext::default().with_session_config(config).with_runtime(context.runtime_env());
        input.execute(partition, Arc::new(below))
    }
}
