//! The scheduler: it divides plans into stages and gives their tasks to executors. It keeps no state: jobs end with it.

use std::net::SocketAddr;
use std::sync::Arc;

use ballista_core::ConfigProducer;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::error::BallistaError;
use ballista_scheduler::SessionBuilder;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::cluster::memory::{InMemoryClusterState, InMemoryJobState};
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use tokio::net::TcpListener;
use yeoul_base::{Error, ErrorKind, Result};
use yeoul_sql::distributed::planning_state;

use crate::limits::{
    BROADCAST_BYTES_MAX, EXECUTOR_SILENT_MAX_S, LOOK_FOR_SILENT_EVERY_S, MESSAGE_BYTES_MAX, RESULT_KEPT_S,
};
use crate::of_session;
use crate::plan_codec::PlanCodec;
use crate::watch::watch;

/// Options of a scheduler.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address to listen on.
    pub host: String,
    /// Port for clients and executors; 0 takes a free one.
    pub port: u16,
}

/// A scheduler that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    cluster: BallistaCluster,
    config: Arc<SchedulerConfig>,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// `Unavailable` if it cannot listen on the address.
    pub async fn bind(options: Options) -> Result<Self> {
        let Options { host, port } = options;
        let unusable = |error: std::io::Error| {
            let text = format!("cannot listen on {host}:{port}: {error}");
            Error::new(ErrorKind::Unavailable, text).with_source(error)
        };
        let listener = TcpListener::bind((host.as_str(), port)).await.map_err(unusable)?;
        let address = listener.local_addr().map_err(unusable)?;
        let configuration = session_config()?;
        let produced: ConfigProducer = Arc::new(move || configuration.clone());
        let built: SessionBuilder = Arc::new(|config: SessionConfig| {
            planning_state(config).map_err(datafusion::common::DataFusionError::from)
        });
        let jobs = InMemoryJobState::new(address.to_string(), Arc::clone(&built), Arc::clone(&produced));
        let cluster = BallistaCluster::new(Arc::new(InMemoryClusterState::default()), Arc::new(jobs));
        let message_bytes = u32::try_from(MESSAGE_BYTES_MAX).expect("a small number");
        let config = SchedulerConfig {
            external_host: address.ip().to_string(),
            bind_host: address.ip().to_string(),
            bind_port: address.port(),
            // An executor that is told to stop a task does so at once.
            scheduling_policy: TaskSchedulingPolicy::PushStaged,
            finished_job_data_clean_up_interval_seconds: RESULT_KEPT_S,
            grpc_server_max_decoding_message_size: message_bytes,
            grpc_server_max_encoding_message_size: message_bytes,
            grpc_client_max_message_size: message_bytes,
            executor_timeout_seconds: EXECUTOR_SILENT_MAX_S,
            expire_dead_executor_interval_seconds: LOOK_FOR_SILENT_EVERY_S,
            no_executors_grace_period_seconds: EXECUTOR_SILENT_MAX_S,
            override_config_producer: Some(produced),
            override_session_builder: Some(built),
            override_physical_codec: Some(Arc::new(PlanCodec::new().map_err(of_session)?)),
            ..SchedulerConfig::default()
        };
        Ok(Self { listener, address, cluster, config: Arc::new(config) })
    }

    /// Address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is dropped.
    ///
    /// # Errors
    /// `Internal` if it cannot start; `Unavailable` if it cannot go on.
    pub async fn serve(self) -> Result<()> {
        let scheduler =
            create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(self.cluster, self.config).await;
        let scheduler =
            scheduler.map_err(|error| failed(ErrorKind::Internal, "the scheduler did not start", error))?;
        let watching = watch(scheduler.clone());
        let served = tokio::select! {
            served = start_grpc_service_with_listener(self.listener, scheduler) => served,
            never = watching => match never {},
        };
        served.map_err(|error| failed(ErrorKind::Unavailable, "the scheduler has ended", error))
    }
}

/// The configuration of sessions, before their own settings, with what Ballista has beside it.
pub(crate) fn session_config() -> Result<SessionConfig> {
    use ballista_core::config::{
        BALLISTA_ADAPTIVE_PLANNER_ENABLED, BALLISTA_BROADCAST_JOIN_THRESHOLD_BYTES,
        BALLISTA_CLIENT_GRPC_MAX_MESSAGE_SIZE, BALLISTA_SCHEDULER_MAX_PARTITIONS_PER_TASK,
    };
    use ballista_core::extension::SessionConfigExt;

    let config = yeoul_sql::distributed::planning_config().map_err(of_session)?.upgrade_for_ballista();
    Ok(config
        .set_bool("datafusion.optimizer.prefer_hash_join", true)
        // It plans from logical plans, and those stay with the client.
        .set_bool(BALLISTA_ADAPTIVE_PLANNER_ENABLED, false)
        .set_u64(BALLISTA_BROADCAST_JOIN_THRESHOLD_BYTES, BROADCAST_BYTES_MAX as u64)
        .set_u64(BALLISTA_SCHEDULER_MAX_PARTITIONS_PER_TASK, 1)
        .set_u64(BALLISTA_CLIENT_GRPC_MAX_MESSAGE_SIZE, MESSAGE_BYTES_MAX as u64))
}

pub(crate) fn failed(kind: ErrorKind, what: &str, error: BallistaError) -> Error {
    Error::new(kind, format!("{what}: {error}")).with_source(error)
}
