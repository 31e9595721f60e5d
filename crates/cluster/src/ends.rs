//! End of what a task has begun: Ballista computes its rows in futures of their own, which go on when that of the task is dropped.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, ReplaceChildrenOptions};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

/// The error of rows that nobody wants any more.
pub(crate) fn over() -> DataFusionError {
    DataFusionError::Execution("its job is over".to_owned())
}

/// End of a task.
#[derive(Debug, Default)]
pub(crate) struct End(Arc<AtomicBool>);

/// Run of a task, which ends when this is dropped.
pub(crate) struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl End {
    /// The run of the task.
    pub(crate) fn running(&self) -> Running {
        Running(Arc::clone(&self.0))
    }

    /// The plan that ends with the task. Its sources and its operators of several inputs fail then; they also let go of their thread now and
    /// then, as one row of an input may give millions in a join, all of which whoever reads it takes at once.
    ///
    /// # Errors
    /// None but for a fault of ours.
    pub(crate) fn of(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let ending = plan.transform_up(|node| {
            if node.children().len() == 1 {
                return Ok(Transformed::no(node));
            }
            let ends = EndingExec { input: node, has_ended: Arc::clone(&self.0) };
            Ok(Transformed::yes(Arc::new(ends) as Arc<dyn ExecutionPlan>))
        });
        ending.data()
    }
}

/// Operator that gives the rows of its input until its task ends.
#[derive(Debug)]
struct EndingExec {
    input: Arc<dyn ExecutionPlan>,
    has_ended: Arc<AtomicBool>,
}

impl DisplayAs for EndingExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for EndingExec {
    fn name(&self) -> &str {
        "EndingExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
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
        Ok(Arc::new(Self { input: children.swap_remove(0), has_ended: Arc::clone(&self.has_ended) }))
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { input: children.swap_remove(0), has_ended: Arc::clone(&self.has_ended) }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (rows, has_ended) = (self.input.execute(partition, context)?, Arc::clone(&self.has_ended));
        let until_then = rows.map(move |batch| match has_ended.load(Ordering::Relaxed) {
            true => Err(over()),
            false => batch,
        });
        Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(self.schema(), until_then))))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use datafusion::physical_plan::collect;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn a_join_of_billions_of_rows_ends_with_its_task() {
        let context = SessionContext::new();
        let sql = "SELECT count(*) FROM generate_series(1, 1000000) AS a(x) JOIN generate_series(1, 1000000) AS b(y) ON a.x % 2 = b.y % 2";
        let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let end = End::default();
        let running = end.running();
        let rows = tokio::spawn(collect(end.of(plan).unwrap(), context.task_ctx()));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!rows.is_finished());
        drop(running);
        let error = tokio::time::timeout(Duration::from_secs(20), rows).await.unwrap().unwrap().unwrap_err();
        assert!(error.to_string().contains("its job is over"), "{error}");
    }
}
