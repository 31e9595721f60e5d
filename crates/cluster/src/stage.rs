//! A stage's plan as an executor runs it.

use std::fmt;
use std::sync::Arc;

use ballista_core::JobId;
use ballista_core::serde::protobuf::{
    RuntimeStatsReport, ShuffleWritePartition, TaskColumnStats, WindowStateReport,
};
use ballista_executor::execution_engine::{DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor};
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::prelude::SessionConfig;
use yeoul_sql::distributed::Workplace;

use crate::failure;
use crate::orders::in_order;

/// Engine that makes tasks of plans.
pub(crate) struct StageEngine {
    workplace: Workplace,
    ballista: DefaultExecutionEngine,
}

impl StageEngine {
    pub(crate) fn new(workplace: Workplace) -> Self {
        Self { workplace, ballista: DefaultExecutionEngine::new() }
    }
}

impl ExecutionEngine for StageEngine {
    fn create_query_stage_exec(
        &self,
        job: JobId,
        stage: usize,
        task: usize,
        partitions: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        dir: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        let prepared = in_order(plan).and_then(|plan| self.workplace.prepared(plan, config.options()));
        let plan = prepared.map_err(failure::sent)?;
        let scanned = Arc::clone(&plan);
        let ballista =
            self.ballista.create_query_stage_exec(job, stage, task, partitions, plan, dir, config)?;
        Ok(Arc::new(Stage { workplace: self.workplace.clone(), scanned, ballista }))
    }
}

/// A task, whose files are those that the query was planned with, and whose errors say what they are.
struct Stage {
    workplace: Workplace,
    scanned: Arc<dyn ExecutionPlan>,
    ballista: Arc<dyn QueryStageExecutor>,
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ballista.fmt(f)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ballista.fmt(f)
    }
}

#[async_trait::async_trait]
impl QueryStageExecutor for Stage {
    async fn execute_query_stage(
        &self,
        task: usize,
        context: Arc<TaskContext>,
    ) -> Result<Vec<ShuffleWritePartition>> {
        let ran = async {
            self.workplace.check_files(&self.scanned).await?;
            self.ballista.execute_query_stage(task, context).await
        };
        self.workplace.while_memory_lasts(ran).await.map_err(failure::sent)
    }

    /// None: tasks of a stage have other operators where they have other partitions, and the scheduler would forget a task with others than
    /// its siblings, and wait for it for ever.
    fn collect_plan_metrics(&self) -> Vec<MetricsSet> {
        Vec::new()
    }

    fn collect_runtime_stats_reports(&self) -> Vec<RuntimeStatsReport> {
        self.ballista.collect_runtime_stats_reports()
    }

    fn collect_window_state_reports(&self) -> Result<Vec<WindowStateReport>> {
        self.ballista.collect_window_state_reports()
    }

    fn collect_column_stats(&self) -> Vec<TaskColumnStats> {
        self.ballista.collect_column_stats()
    }
}
