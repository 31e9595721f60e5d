//! A query that runs on a cluster: the client's side.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ballista_core::BALLISTA_VERSION;
use ballista_core::client::BallistaClient;
use ballista_core::extension::{BallistaConfigGrpcEndpoint, SessionConfigHelperExt};
use ballista_core::serde::protobuf::execute_query_params::Query;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    CancelJobParams, ExecuteQueryParams, GetJobStatusParams, PartitionLocation, execute_query_failure_result,
    execute_query_result, job_status,
};
use ballista_core::utils::GrpcClientConfig;
use ballista_core::version::{check_compatibility, insert_version_header, version_from_metadata};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{Stream, StreamExt, TryStreamExt};
use tonic::transport::Channel;
use yeoul_base::ErrorKind;
use yeoul_dialect::Error;
use yeoul_sql::distributed::{Elsewhere, stores_of};

use crate::limits::{ANSWER_HELD_BYTES, MESSAGE_BYTES_MAX, RUNS_MAX};
use crate::plan_codec::PlanCodec;
use crate::reports::{Jobs, Stages};
use crate::reruns::last_of_each;
use crate::token::{SchedulerAddress, TOKEN_HINT, Token};
use crate::{analysis, failure, joins, reported, series, shuffle, single_tasks, tables, whole};

/// Time between questions for how far a job is: the first, and the factor by which each further one is later, up to the last.
const ASK_FIRST: Duration = Duration::from_millis(2);
const ASK_FACTOR: u32 = 2;
const ASK_LAST: Duration = Duration::from_millis(50);

type Scheduler = SchedulerGrpcClient<Channel>;

/// The cluster that a session's queries run on.
#[derive(Debug)]
pub struct Cluster {
    scheduler: SchedulerAddress,
    /// True if the local paths of this machine are the same files on all of the cluster's.
    has_shared_paths: bool,
    session: String,
    codec: Arc<PlanCodec>,
}

impl Cluster {
    /// The cluster of a scheduler, for one session.
    ///
    /// # Errors
    /// Those of the registry of functions.
    pub fn new(scheduler: &str, has_shared_paths: bool) -> yeoul_dialect::Result<Self> {
        let session = uuid::Uuid::new_v4().to_string();
        Ok(Self {
            scheduler: SchedulerAddress { address: scheduler.to_owned(), token: None },
            has_shared_paths,
            session,
            codec: Arc::new(PlanCodec::new()?),
        })
    }

    /// The cluster with the token that its servers ask for.
    #[must_use]
    pub fn with_token(mut self, token: Token) -> Self {
        self.scheduler.token = Some(token);
        self
    }

    fn check_stores(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
        let is_local = |store: &String| store.starts_with("file:");
        if self.has_shared_paths || !stores_of(plan).iter().any(is_local) {
            return Ok(());
        }
        let text = "a local path is another file on each machine of a cluster";
        let hint = "read it at hdfs://, s3:// or https://; --shared-paths says that it is the same file on all of them";
        Err(Error::new(ErrorKind::Invalid, text).with_hint(hint).into())
    }
}

#[async_trait]
impl Elsewhere for Cluster {
    fn check(&self, query: &LogicalPlan) -> Result<()> {
        single_tasks::check_query(query)
    }

    fn run(&self, plan: Arc<dyn ExecutionPlan>, state: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let (query, plan) = self.sent(plan, state)?;
        let schema = plan.schema();
        Ok(Arc::new(JobExec::new(self.scheduler.clone(), query, plan, schema, Wanted::Rows)))
    }

    fn analyze(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
        state: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (query, plan) = self.sent(plan, state)?;
        Ok(Arc::new(JobExec::new(self.scheduler.clone(), query, plan, schema, Wanted::Stages)))
    }

    async fn jobs(&self) -> Result<RecordBatch, Error> {
        let jobs: Jobs = reported::asked(&connected(&self.scheduler).await?, "/api/v1/jobs").await?;
        Ok(jobs.table())
    }
}

impl Cluster {
    /// A plan as it is sent, and as it arrives.
    fn sent(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
    ) -> Result<(ExecuteQueryParams, Arc<dyn ExecutionPlan>)> {
        self.check_stores(&plan)?;
        single_tasks::check(&plan)?;
        let whole = whole::read_whole(series::with_columns(tables::with_one_schema(plan)?)?)?;
        let divided = joins::divided(whole, state.config().target_partitions())?;
        let numbered = shuffle::numbered(divided)?;
        let (written, plan) = self.codec.write(&numbered, &state.task_ctx())?;
        joins::check(&plan)?;
        let query = ExecuteQueryParams {
            query: Some(Query::PhysicalPlan(written)),
            settings: state.config().to_key_value_pairs(),
            session_id: self.session.clone(),
            operation_id: String::new(), // each run's own
        };
        Ok((query, plan))
    }
}

/// Answer of a job.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    /// Rows of the plan's partitions, one after another.
    Rows,
    /// Reports of its stages, once all rows are there.
    Stages,
}

/// A plan that runs on a cluster.
struct JobExec {
    scheduler: SchedulerAddress,
    query: ExecuteQueryParams,
    plan: Arc<dyn ExecutionPlan>,
    wanted: Wanted,
    properties: Arc<PlanProperties>,
}

impl JobExec {
    fn new(
        scheduler: SchedulerAddress,
        query: ExecuteQueryParams,
        plan: Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
        wanted: Wanted,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { scheduler, query, plan, wanted, properties: Arc::new(properties) }
    }
}

impl fmt::Debug for JobExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobExec").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl DisplayAs for JobExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobExec: scheduler={}", self.scheduler)
    }
}

impl ExecutionPlan for JobExec {
    fn name(&self) -> &str {
        "JobExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
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
        let (scheduler, query) = (self.scheduler.clone(), self.query.clone());
        Ok(match self.wanted {
            Wanted::Rows => {
                let rows = futures::stream::once(answer(scheduler, query)).try_flatten();
                Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows))
            }
            Wanted::Stages => {
                let stages = futures::stream::once(analysis::stages(scheduler, query, self.schema()));
                Box::pin(RecordBatchStreamAdapter::new(self.schema(), stages))
            }
        })
    }
}

/// A job that was submitted. Dropping it before it has finished cancels it.
pub(crate) struct Job {
    channel: Channel,
    scheduler: Scheduler,
    id: String,
    is_over: bool,
    /// Tells the scheduler that somebody waits for it, also if this process is killed.
    wanted: Option<reported::Wanted>,
}

impl Job {
    pub(crate) async fn submit(address: &SchedulerAddress, query: ExecuteQueryParams) -> Result<Self, Error> {
        let channel = connected(address).await?;
        let mut scheduler = SchedulerGrpcClient::new(channel.clone())
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
            .max_decoding_message_size(MESSAGE_BYTES_MAX);
        let mut request = tonic::Request::new(query);
        insert_version_header(request.metadata_mut());
        let answer = scheduler.execute_query(request).await.map_err(|status| refused(address, &status))?;
        let version = version_from_metadata(answer.metadata()).map(str::to_owned);
        check_compatibility(Some(BALLISTA_VERSION), version.as_deref())
            .map_err(|text| Error::new(ErrorKind::Invalid, text))?;
        match answer.into_inner().result {
            Some(execute_query_result::Result::Success(job)) => {
                let mut job = Self { channel, scheduler, id: job.job_id, is_over: false, wanted: None };
                job.wanted = Some(reported::Wanted::tell(&job.channel, &job.id).await?);
                Ok(job)
            }
            Some(execute_query_result::Result::Failure(failure)) => {
                use execute_query_failure_result::Failure::{
                    PlanParsingFailure, SessionNotFound, SqlParsingFailure,
                };
                let text = match failure.failure {
                    Some(PlanParsingFailure(text) | SessionNotFound(text) | SqlParsingFailure(text)) => text,
                    None => "it does not say why".to_owned(),
                };
                Err(Error::new(ErrorKind::Invalid, format!("the scheduler refuses the query: {text}")))
            }
            None => Err(Error::new(ErrorKind::Unavailable, "the scheduler gave no answer")),
        }
    }

    /// The places of the rows, once all are there.
    pub(crate) async fn finished(&mut self) -> Result<Vec<PartitionLocation>, Error> {
        let mut pause = ASK_FIRST;
        loop {
            let question = GetJobStatusParams { job_id: self.id.clone() };
            let answer = self.scheduler.get_job_status(question).await;
            let answer = answer.map_err(|status| {
                Error::new(
                    ErrorKind::Unavailable,
                    format!("the scheduler is gone, and the job with it: {}", status.message()),
                )
            })?;
            match answer.into_inner().status.and_then(|status| status.status) {
                Some(job_status::Status::Failed(failed)) => {
                    self.is_over = true;
                    return Err(failure::received(&failed.error));
                }
                Some(job_status::Status::Successful(job)) => {
                    self.is_over = true;
                    return Ok(last_of_each(job.partition_location, |place| {
                        place.partition_id.as_ref().map(|partition| partition.partition_id)
                    }));
                }
                _ => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * ASK_FACTOR).min(ASK_LAST);
        }
    }
}

impl Job {
    /// Reports of its stages.
    pub(crate) async fn stages(self) -> Result<Stages, Error> {
        reported::asked(&self.channel, &format!("/api/v1/jobs/{}", self.id)).await
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let (mut scheduler, job_id) = (self.scheduler.clone(), self.id.clone());
        if !self.is_over
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                if let Err(status) = scheduler.cancel_job(CancelJobParams { job_id }).await {
                    tracing::warn!("a job was not cancelled: {}", status.message());
                }
            });
        }
    }
}

async fn connected(address: &SchedulerAddress) -> Result<Channel, Error> {
    let unreachable = |error: Box<dyn std::error::Error + Send + Sync>| {
        let error = Error::new(ErrorKind::Unavailable, format!("cannot reach the scheduler at {address}"))
            .with_source(error);
        error.with_hint("yeoul cluster scheduler starts one")
    };
    let endpoint = address.endpoint().map_err(unreachable)?;
    endpoint.connect().await.map_err(|error| unreachable(error.into()))
}

fn refused(address: &SchedulerAddress, status: &tonic::Status) -> Error {
    let kind = match status.code() {
        tonic::Code::InvalidArgument | tonic::Code::FailedPrecondition | tonic::Code::OutOfRange => {
            ErrorKind::Invalid
        }
        tonic::Code::ResourceExhausted => ErrorKind::ResourceExhausted,
        tonic::Code::PermissionDenied | tonic::Code::Unauthenticated => ErrorKind::Denied,
        _ => ErrorKind::Unavailable,
    };
    let error =
        Error::new(kind, format!("the scheduler at {address} refuses the query: {}", status.message()));
    match kind {
        ErrorKind::Denied => error.with_hint(TOKEN_HINT),
        _ => error,
    }
}

/// The rows of a query. What is lost before the first row is given is computed again.
async fn answer(
    scheduler: SchedulerAddress,
    mut query: ExecuteQueryParams,
) -> Result<impl Stream<Item = Result<RecordBatch>> + Send> {
    let mut runs = 0;
    loop {
        query.operation_id = uuid::Uuid::new_v4().to_string();
        let finished = Job::submit(&scheduler, query.clone()).await?.finished().await;
        runs += 1;
        let lost = match finished {
            Ok(places) => {
                let mut rows = Box::pin(rows(places, scheduler.to_executors()));
                match held(&mut rows).await {
                    Ok(held) => return Ok(futures::stream::iter(held).map(Ok).chain(rows)),
                    Err(error) => error,
                }
            }
            // Rows between two stages.
            Err(error) if error.kind() == ErrorKind::DataLoss => error.into(),
            Err(error) => return Err(error.into()),
        };
        if runs == RUNS_MAX {
            return Err(lost);
        }
        tracing::warn!("the query runs again: {lost}");
    }
}

/// The first rows of an answer, as many as are held.
async fn held(
    rows: &mut (impl Stream<Item = Result<RecordBatch>> + Send + Unpin),
) -> Result<Vec<RecordBatch>> {
    let (mut held, mut bytes) = (Vec::new(), 0);
    while bytes < ANSWER_HELD_BYTES
        && let Some(batch) = rows.try_next().await?
    {
        bytes += batch.get_array_memory_size();
        held.push(batch);
    }
    Ok(held)
}

/// The rows of partitions, one partition after another.
pub(crate) fn rows(
    partitions: Vec<PartitionLocation>,
    to_executors: Option<Arc<BallistaConfigGrpcEndpoint>>,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    futures::stream::iter(partitions)
        .map(move |partition| futures::stream::once(fetched(partition, to_executors.clone())).try_flatten())
        .flatten()
}

async fn fetched(
    partition: PartitionLocation,
    to_executors: Option<Arc<BallistaConfigGrpcEndpoint>>,
) -> Result<SendableRecordBatchStream> {
    let lost = |text: String| {
        Error::new(ErrorKind::Unavailable, format!("the rows of a finished job cannot be read: {text}"))
    };
    let layout = partition.layout();
    let (Some(executor), Some(id)) = (partition.executor_meta, partition.partition_id) else {
        return Err(lost("the scheduler does not say where they are".to_owned()).into());
    };
    let port = u16::try_from(executor.port).map_err(|_| lost(format!("{} is no port", executor.port)))?;
    let grpc = GrpcClientConfig::default();
    let client = BallistaClient::try_new(
        &executor.host,
        port,
        MESSAGE_BYTES_MAX,
        false,
        to_executors,
        grpc.io_retries_times,
        grpc.io_retry_wait_time_ms,
        grpc.initial_connection_window_size,
        grpc.initial_stream_window_size,
    );
    let mut client = client.await.map_err(|error| lost(error.to_string()))?;
    let rows = client.fetch_partition(&executor.id, &id.into(), partition.file_id, layout, true).await;
    let rows = rows.map_err(|error| lost(error.to_string()))?;
    Ok(Box::pin(RecordBatchStreamAdapter::new(
        rows.schema(),
        rows.map_err(move |error| lost(error.to_string()).into()),
    )))
}
