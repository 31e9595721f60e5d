//! Queries that other processes run: a session plans them, [`Elsewhere`] has them run, and a [`Workplace`] is what their stages run in.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::Session;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::object_store::{ObjectStoreRegistry, ObjectStoreUrl};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::{LogicalPlan, ScalarUDF};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::SessionConfig;
use futures::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use serde::{Deserialize, Serialize};
use url::Url;
use yeoul_base::ErrorKind;
use yeoul_dialect::Dialect;
use yeoul_dialect::rules::Step;
use yeoul_memory::ProcessMemory;

use crate::answer::process_full;
use crate::catalog::exact_values::Exact;
use crate::catalog::files::shown;
use crate::catalog::text_scan::file_scan;
pub use crate::catalog::text_scan::{TextKind, TextScan};
use crate::catalog::uuid_columns::UuidText;
use crate::optimizer::PHYSICAL;
use crate::optimizer::spilling_joins::spilling;
use crate::settings::{for_stages, session_config};
use crate::{Error, Options};

/// The rules of a session by which joins filter scans: that which tells them, with its guards, and that which mends what they are told.
const FILTERING: [&str; 2] = ["FilterPushdown(Post)", "UnboundedFloats"];

/// Most files that are asked about at a time.
const FILES_AT_ONCE: usize = 16;

/// Runner of a session's queries, in other processes.
#[async_trait]
pub trait Elsewhere: fmt::Debug + Send + Sync {
    /// Refuses a query that cannot run there, by what its physical plan would not tell.
    ///
    /// # Errors
    /// `Invalid` for one.
    fn check(&self, query: &LogicalPlan) -> Result<()>;

    /// The plan that has `plan` run there, and gives its rows in the order of `plan`.
    ///
    /// # Errors
    /// `Invalid` for a plan that cannot run there.
    fn run(&self, plan: Arc<dyn ExecutionPlan>, state: &dyn Session) -> Result<Arc<dyn ExecutionPlan>>;

    /// The plan that has `plan` run there, and tells how it ran: rows of a name and a text, whose schema is `schema`.
    ///
    /// # Errors
    /// `Invalid` for a plan that cannot run there.
    fn analyze(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
        state: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>>;

    /// The jobs there, a row each.
    ///
    /// # Errors
    /// `Unavailable` if nobody there tells.
    async fn jobs(&self) -> crate::Result<RecordBatch>;
}

/// The planner of a session whose queries run elsewhere. What writes their rows does so in this process.
#[derive(Debug)]
pub(crate) struct Planner(pub Arc<dyn Elsewhere>);

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        logical: &LogicalPlan,
        state: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = DefaultPhysicalPlanner::default().create_physical_plan(logical, state).await?;
        if plan.is::<ExplainExec>() {
            return Ok(plan);
        }
        self.0.check(logical)?;
        if let Some(analyze) = plan.downcast_ref::<AnalyzeExec>() {
            let rows = Arc::clone(analyze.input());
            if rows.is::<DataSinkExec>() {
                let text = "EXPLAIN ANALYZE of a statement that writes is not there on a cluster";
                let hint = "EXPLAIN ANALYZE of its query tells how that runs";
                return Err(Error::new(ErrorKind::Invalid, text).with_hint(hint).into());
            }
            return self.0.analyze(rows, analyze.schema(), state);
        }
        if plan.is::<DataSinkExec>() {
            let rows = Arc::clone(plan.children()[0]);
            return replace_children_if_necessary(plan, vec![self.0.run(rows, state)?]);
        }
        self.0.run(plan, state)
    }
}

/// Addresses of the stores whose files a plan reads, such as `file:///`.
pub fn stores_of(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let mut stores: Vec<String> = plan.children().into_iter().flat_map(stores_of).collect();
    stores.extend(file_scan(plan).map(|scan| scan.object_store_url.to_string()));
    stores.sort();
    stores.dedup();
    stores
}

/// The files that a plan reads, each with its store.
fn files_of(plan: &Arc<dyn ExecutionPlan>) -> Vec<(ObjectStoreUrl, ObjectMeta)> {
    let mut files: Vec<_> = plan.children().into_iter().flat_map(files_of).collect();
    if let Some(scan) = file_scan(plan) {
        let read = scan.file_groups.iter().flat_map(|group| group.files());
        files.extend(read.map(|file| (scan.object_store_url.clone(), file.object_meta.clone())));
    }
    files
}

/// Place that stages run in: the memory, the stores and the functions of a process, and the rules that suit it.
#[derive(Clone, Debug)]
pub struct Workplace {
    state: SessionState,
    process: Arc<ProcessMemory>,
}

impl Workplace {
    pub(crate) fn new(state: SessionState, process: Arc<ProcessMemory>) -> Self {
        Self { state, process }
    }

    /// State with the functions of the process.
    pub fn state(&self) -> &SessionState {
        &self.state
    }

    /// Memory and stores of the process.
    pub fn runtime(&self) -> &Arc<RuntimeEnv> {
        self.state.runtime_env()
    }

    /// The plan of a task in which joins filter the scans of their probe sides, in a context of [`Self::filtering`]. The task has to compute all
    /// partitions that the plan has: a join waits until each of them has told what it knows.
    ///
    /// # Errors
    /// Those of the rules.
    pub fn filtered(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &SessionConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let config = filtering(config);
        FILTERING.iter().try_fold(plan, |plan, name| {
            let rule = self.state.physical_optimizers().iter().find(|rule| rule.name() == *name);
            let rule = rule.ok_or_else(|| internal_datafusion_err!("there is no rule {name}"))?;
            rule.optimize(plan, config.options())
        })
    }

    /// The context of a task in which joins filter scans.
    pub fn filtering(&self, context: &TaskContext) -> Arc<TaskContext> {
        Arc::new(TaskContext::new(
            context.task_id(),
            context.session_id(),
            filtering(context.session_config()),
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            context.runtime_env(),
        ))
    }

    /// The plan of a stage as this process runs it best.
    ///
    /// # Errors
    /// Those of the rules.
    pub fn prepared(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut rules = PHYSICAL.iter().filter_map(Step::alone);
        rules.try_fold(plan, |plan, rule| rule.optimize(plan, config))
    }

    /// The plan of a stage with joins that spill, for a task that has run out of memory without them; `None` if it would be the same. Rows have
    /// no order behind such a join.
    ///
    /// # Errors
    /// DataFusion's.
    pub fn spilling(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if self.process.promise().is_none() {
            return Ok(None);
        }
        let spilling = spilling(Arc::clone(plan))?;
        Ok(spilling.transformed.then_some(spilling.data))
    }

    /// Waits for a while until the memory of a task that has failed is free.
    pub async fn settle(&self) {
        self.process.settle().await;
    }

    /// Checks that the files which a plan reads are those that it was made for, so that all stages read the same.
    ///
    /// # Errors
    /// `Conflict` for a file that has changed or is gone; the store's own.
    pub async fn check_files(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
        let mut checks = Vec::new();
        for (url, file) in files_of(plan) {
            let store = self.runtime().object_store(&url)?;
            checks.push(async move {
                let changed = |how: &str| {
                    let text =
                        format!("'{}' {how} since the query was planned", shown(file.location.as_ref()));
                    DataFusionError::from(Error::new(ErrorKind::Conflict, text))
                };
                match store.head(&file.location).await {
                    Ok(now) if (now.size, now.last_modified) == (file.size, file.last_modified) => Ok(()),
                    Ok(_) => Err(changed("has changed")),
                    Err(object_store::Error::NotFound { .. }) => Err(changed("is gone")),
                    Err(error) => Err(error.into()),
                }
            });
        }
        futures::stream::iter(checks).buffer_unordered(FILES_AT_ONCE).try_collect().await
    }

    /// Result of a task, unless the process reaches its memory limit before.
    ///
    /// # Errors
    /// `ResourceExhausted` then; the task's own.
    pub async fn while_memory_lasts<T>(&self, task: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            () = self.process.exceeded(), if self.process.promise().is_some() => {
                Err(process_full(&self.process).into())
            }
            done = task => done,
        }
    }
}

/// The configuration of tasks, of which each has joins and the scans that they filter in one process.
fn filtering(planned: &SessionConfig) -> SessionConfig {
    let mut config = planned.clone();
    config.options_mut().optimizer.enable_join_dynamic_filter_pushdown = true;
    config
}

/// A state with the functions of sessions whose queries run elsewhere: of what plans their stages.
///
/// # Errors
/// Those of the registry of functions.
pub fn planning_state(config: SessionConfig) -> crate::Result<SessionState> {
    let runtime = RuntimeEnvBuilder::new().with_object_store_registry(Arc::new(Unread)).build_arc()?;
    let builder =
        SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).with_default_features();
    Dialect::OWN.session_state(builder, &[])
}

/// Stores of a process that plans and reads no file: plans that name stores are read and written with them, and no store is opened.
#[derive(Debug)]
struct Unread;

impl ObjectStoreRegistry for Unread {
    fn register_store(&self, _: &Url, _: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        None
    }

    fn get_store(&self, _: &Url) -> Result<Arc<dyn ObjectStore>> {
        Ok(Arc::new(InMemory::new()))
    }
}

/// The configuration of sessions whose queries run elsewhere, before their own settings.
///
/// # Errors
/// None but for a fault of ours.
pub fn planning_config() -> crate::Result<SessionConfig> {
    let mut config = session_config(&Options::default())?;
    for_stages(&mut config);
    Ok(config)
}

#[derive(Serialize, Deserialize)]
enum Scalar {
    /// By the name and type of the column.
    Exact(String, #[serde(with = "yeoul_dialect::sent::data_type")] DataType),
    UuidText,
}

/// Text of a function that a scan puts into a plan; `None` for another one.
pub fn scalar_text(function: &ScalarUDF) -> Option<String> {
    let inner = function.inner();
    let scalar = match inner.downcast_ref::<Exact>() {
        Some(exact) => {
            let (of, to) = exact.column();
            Scalar::Exact(of.to_owned(), to.clone())
        }
        None if inner.is::<UuidText>() => Scalar::UuidText,
        None => return None,
    };
    Some(serde_json::to_string(&scalar).expect("names and types are texts"))
}

/// The function of a text; `None` if it is not one of these.
pub fn scalar(text: &str) -> Option<ScalarUDF> {
    Some(match serde_json::from_str(text).ok()? {
        Scalar::Exact(of, to) => Exact::new(of, to).into(),
        Scalar::UuidText => UuidText.into(),
    })
}
