//! A stage's plan as an executor runs it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ballista_core::JobId;
use ballista_core::execution_plans::sort_shuffle::SortShuffleWriterExec;
use ballista_core::serde::protobuf::{
    RuntimeStatsReport, ShuffleWritePartition, TaskColumnStats, WindowStateReport,
};
use ballista_executor::execution_engine::{DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor};
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::SessionConfig;
use yeoul_sql::distributed::Workplace;

use crate::ends::{self, End};
use crate::failure;
use crate::orders::{in_order, in_order_of};
use crate::orphans::Jobs;
use crate::reruns;
use crate::shuffle::{self, MapTask, ShuffleSettings, Shuffles};
use crate::threads::Threads;

/// Engine that makes tasks of plans.
pub(crate) struct StageEngine {
    tools: Arc<Tools>,
}

/// Tools of all tasks of an executor.
struct Tools {
    workplace: Workplace,
    shuffles: Shuffles,
    ballista: DefaultExecutionEngine,
    jobs: Jobs,
    threads: Threads,
}

impl StageEngine {
    pub(crate) fn new(workplace: Workplace, jobs: Jobs, threads: Threads) -> Self {
        let (shuffles, ballista) = (Shuffles::default(), DefaultExecutionEngine::new());
        Self { tools: Arc::new(Tools { workplace, shuffles, ballista, jobs, threads }) }
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
        let tools = Arc::clone(&self.tools);
        let map = match plan.is::<SortShuffleWriterExec>() {
            true => Some(shuffle::map_number(plan.as_ref()).map_err(failure::sent)?),
            false => None,
        };
        let (dir, config, end) = (dir.to_owned(), config.clone(), End::default());
        let given = Given { job, stage, task, map, partitions, dir, config, end };
        let received = reruns::once(plan).and_then(in_order).map_err(failure::sent)?;
        let (workplace, options) = (&tools.workplace, given.config.options());
        let filtered = workplace.filtered(Arc::clone(&received), &given.config);
        let plan = filtered.and_then(|plan| workplace.prepared(plan, options)).map_err(failure::sent)?;
        let run = Mutex::new(tools.run_of(&given, Arc::clone(&plan)).map_err(failure::sent)?);
        Ok(Arc::new(Stage { tools, given: Arc::new(given), received, plan, run: Arc::new(run) }))
    }
}

/// Description of a task by the scheduler, beside its plan.
struct Given {
    job: JobId,
    stage: usize,
    task: usize,
    /// The number of the map that it is, if it divides its rows by a hash.
    map: Option<u64>,
    partitions: Vec<usize>,
    dir: String,
    config: SessionConfig,
    end: End,
}

/// Run of a task: its rows go to a shuffle, or to the executor's disk.
#[derive(Clone)]
enum Run {
    Map(Arc<MapTask>),
    Ballistas(Arc<dyn QueryStageExecutor>),
}

impl Tools {
    fn run_of(&self, given: &Given, plan: Arc<dyn ExecutionPlan>) -> Result<Run> {
        let mut plan = given.end.of(plan)?;
        if let Some(application) = ShuffleSettings::application_of(given.config.options()) {
            plan = shuffle::reading(plan, &self.shuffles, application, &given.dir)?;
            if let Some(map) = self.map_task(given, application, &plan)? {
                return Ok(Run::Map(Arc::new(map)));
            }
        }
        let Given { job, stage, task, map, partitions, dir, config, .. } = given;
        let (job, partitions) = (job.clone(), partitions.clone());
        // Ballista calls files by their tasks.
        let file = match map {
            Some(map) => usize::try_from(shuffle::local_number(*task, *map)?).expect("64 bits"),
            None => *task,
        };
        let made = self.ballista.create_query_stage_exec(job, *stage, file, partitions, plan, dir, config)?;
        Ok(Run::Ballistas(made))
    }

    /// The task that writes to a shuffle; none of a stage whose rows are not divided by a hash.
    fn map_task(
        &self,
        given: &Given,
        application: &str,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Result<Option<MapTask>> {
        let (Some(writer), Some(map)) = (plan.downcast_ref::<SortShuffleWriterExec>(), given.map) else {
            return Ok(None);
        };
        let children = plan.children();
        let (Partitioning::Hash(by, count), [input]) =
            (writer.shuffle_output_partitioning(), children.as_slice())
        else {
            return internal_err!("a stage divides its rows otherwise than by a hash");
        };
        Ok(Some(MapTask {
            shuffles: self.shuffles.clone(),
            application: application.to_owned(),
            job: given.job.clone(),
            stage: given.stage,
            map,
            by: by.clone(),
            partitions: *count,
            input: Arc::clone(input),
        }))
    }
}

/// A task, whose files are those that the query was planned with, and whose errors say what they are.
#[derive(Clone)]
struct Stage {
    tools: Arc<Tools>,
    given: Arc<Given>,
    /// The plan, as it was sent.
    received: Arc<dyn ExecutionPlan>,
    /// The same, as it suits this process.
    plan: Arc<dyn ExecutionPlan>,
    /// The last run.
    run: Arc<Mutex<Run>>,
}

impl Stage {
    fn run(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task of Ballista's, if it is one.
    fn ballistas(&self) -> Option<Arc<dyn QueryStageExecutor>> {
        match &*self.run() {
            Run::Map(_) => None,
            Run::Ballistas(run) => Some(Arc::clone(run)),
        }
    }

    /// Runs what there is to run.
    async fn once(&self, context: Arc<TaskContext>) -> Result<Vec<ShuffleWritePartition>> {
        let run = self.run().clone();
        let ran = async {
            match run {
                Run::Map(map) => map.run(context).await,
                Run::Ballistas(run) => run.execute_query_stage(self.given.task, context).await,
            }
        };
        self.tools.workplace.while_memory_lasts(ran).await
    }

    /// Runs it, and again with joins that spill if memory runs out.
    async fn spilling_at_need(&self, context: Arc<TaskContext>) -> Result<Vec<ShuffleWritePartition>> {
        let workplace = &self.tools.workplace;
        workplace.check_files(&self.plan).await?;
        let error = match self.once(workplace.filtering(&context)).await {
            Err(error) if failure::is_short_of_memory(&error) => error,
            ended => return ended,
        };
        // Not the plan that has run: its scans have given rows away, and its joins have filled filters.
        let received = reset_plan_states(Arc::clone(&self.received))?;
        let unfiltered = workplace.prepared(received, self.given.config.options())?;
        let Some(spilling) = workplace.spilling(&unfiltered)? else { return Err(error) };
        tracing::info!(job = %self.given.job, stage = self.given.stage, "a task runs again with joins that spill: {error}");
        let spilling = in_order_of(&unfiltered, spilling)?;
        *self.run() = self.tools.run_of(&self.given, spilling)?;
        workplace.settle().await;
        self.once(context).await
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        displayable(self.plan.as_ref()).indent(false).fmt(f)
    }
}

#[async_trait::async_trait]
impl QueryStageExecutor for Stage {
    async fn execute_query_stage(
        &self,
        _: usize,
        context: Arc<TaskContext>,
    ) -> Result<Vec<ShuffleWritePartition>> {
        let (stage, _running) = (self.clone(), self.given.end.running());
        let task = self.tools.threads.run(async move { stage.spilling_at_need(context).await });
        tokio::select! {
            ended = task => ended.map_err(failure::sent),
            () = self.tools.jobs.over(&self.given.job) => {
                tracing::info!(job = %self.given.job, stage = self.given.stage, "a task ends, as its job is over");
                Err(ends::over())
            }
        }
    }

    /// None: tasks of a stage have other operators where they have other partitions, and the scheduler would forget a task with others than
    /// its siblings, and wait for it for ever.
    fn collect_plan_metrics(&self) -> Vec<MetricsSet> {
        Vec::new()
    }

    fn collect_runtime_stats_reports(&self) -> Vec<RuntimeStatsReport> {
        self.ballistas().map(|run| run.collect_runtime_stats_reports()).unwrap_or_default()
    }

    fn collect_window_state_reports(&self) -> Result<Vec<WindowStateReport>> {
        self.ballistas().map_or_else(|| Ok(Vec::new()), |run| run.collect_window_state_reports())
    }

    fn collect_column_stats(&self) -> Vec<TaskColumnStats> {
        self.ballistas().map(|run| run.collect_column_stats()).unwrap_or_default()
    }
}
