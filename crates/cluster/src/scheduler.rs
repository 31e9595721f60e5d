//! The scheduler: it divides plans into stages and gives their tasks to executors. It keeps no state: jobs end with it.

use std::net::SocketAddr;
use std::sync::Arc;

use ballista_core::ConfigProducer;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::error::BallistaError;
use ballista_core::serde::{BallistaCodec, BallistaLogicalExtensionCodec};
use ballista_scheduler::SessionBuilder;
use ballista_scheduler::cluster::memory::InMemoryJobState;
use ballista_scheduler::cluster::{BallistaCluster, JobState};
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_server::SchedulerServer;
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use tokio::net::TcpListener;
use yeoul_base::{Error, ErrorKind, Result};
use yeoul_net::http::serve_pages;
use yeoul_net::{Listener, cannot_bind};
use yeoul_sql::distributed::planning_state;

use crate::clients::Clients;
use crate::counts::JobCounts;
use crate::limits::{
    BROADCAST_BYTES_MAX, EXECUTOR_SILENT_MAX_S, LOOK_FOR_SILENT_EVERY_S, MESSAGE_BYTES_MAX, RESULT_KEPT_S,
};
use crate::pages::SchedulerPages;
use crate::plan_codec::PlanCodec;
use crate::shuffle::{ShuffleApplication, ShuffleSettings};
use crate::slots::CountedSlots;
use crate::token::Token;
use crate::watch::watch;
use crate::{of_session, served, token};

/// Options of a scheduler.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address to listen on.
    pub host: String,
    /// Port for clients and executors; 0 takes a free one.
    pub port: u16,
    /// Port for pages and metrics at the same address; 0 takes a free one, and `None` has none.
    pub http_port: Option<u16>,
    /// Shuffle for the rows between stages; none leaves them on the disks of executors.
    pub shuffle: Option<ShuffleOptions>,
    /// Secret that clients and executors say; an address other than a loopback one needs one.
    pub token: Option<Token>,
}

/// Options of the shuffle between stages.
#[derive(Clone, Debug)]
pub struct ShuffleOptions {
    /// Masters of the shuffle service, `host:port` each.
    pub masters: Vec<String>,
    /// Workers that have each row, 1 or 2.
    pub copies: u8,
    /// Port for what executors ask about it, at the scheduler's address; 0 takes a free one.
    pub port: u16,
}

/// A scheduler that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    cluster: BallistaCluster,
    jobs: Arc<dyn JobState>,
    config: Arc<SchedulerConfig>,
    shuffle: Option<ShuffleApplication>,
    /// For pages.
    http: Option<Listener>,
    token: Option<Token>,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// `Unavailable` if it cannot listen on the address, or no master of the shuffle answers; `Invalid` for an address that other
    /// machines reach without a token.
    pub async fn bind(options: Options) -> Result<Self> {
        let Options { host, port, http_port, shuffle, token } = options;
        let unusable = |error: std::io::Error| {
            let text = format!("cannot listen on {host}:{port}: {error}");
            Error::new(ErrorKind::Unavailable, text).with_source(error)
        };
        let listener = TcpListener::bind((host.as_str(), port)).await.map_err(unusable)?;
        let address = listener.local_addr().map_err(unusable)?;
        token::check(address.ip(), token.as_ref())?;
        let http = match http_port {
            Some(port) => {
                let bound = Listener::bind((host.as_str(), port)).await;
                Some(bound.map_err(|error| cannot_bind("http", &host, port, error))?)
            }
            None => None,
        };
        let shuffle = match shuffle {
            Some(options) => Some(ShuffleApplication::start(&host, options).await?),
            None => None,
        };
        let mut configuration = session_config()?;
        if let Some(shuffle) = &shuffle {
            configuration = configuration.with_option_extension(shuffle.settings());
        }
        let produced: ConfigProducer = Arc::new(move || configuration.clone());
        let built: SessionBuilder = Arc::new(|config: SessionConfig| {
            planning_state(config).map_err(datafusion::common::DataFusionError::from)
        });
        let jobs = InMemoryJobState::new(address.to_string(), Arc::clone(&built), Arc::clone(&produced));
        let jobs: Arc<dyn JobState> = Arc::new(jobs);
        let cluster = BallistaCluster::new(Arc::new(CountedSlots::default()), Arc::clone(&jobs));
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
            override_create_grpc_client_endpoint: token.as_ref().map(Token::said_by_all),
            ..SchedulerConfig::default()
        };
        Ok(Self { listener, address, cluster, jobs, config: Arc::new(config), shuffle, http, token })
    }

    /// Address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address of its pages, if it has some.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(Listener::address)
    }

    /// Serves until it is dropped.
    ///
    /// # Errors
    /// `Internal` if it cannot start; `Unavailable` if it cannot go on.
    pub async fn serve(self) -> Result<()> {
        let counts = Arc::new(JobCounts::default());
        let logical = Arc::new(BallistaLogicalExtensionCodec::default());
        let physical = Arc::new(PlanCodec::new().map_err(of_session)?);
        let mut scheduler = SchedulerServer::<LogicalPlanNode, PhysicalPlanNode>::new(
            self.config.scheduler_endpoint(),
            self.cluster,
            BallistaCodec::new(logical, physical),
            self.config,
            Arc::clone(&counts) as _,
        );
        let started = scheduler.init().await;
        started.map_err(|error| failed(ErrorKind::Internal, "the scheduler did not start", error))?;
        let address = self.address.to_string();
        let pages = Arc::new(SchedulerPages::new(scheduler.clone(), self.jobs, counts, address));
        let _pages = self.http.map(|listener| serve_pages(listener, Arc::clone(&pages)));
        let clients = Arc::new(Clients::default());
        let cancelling = {
            let (clients, scheduler) = (Arc::clone(&clients), scheduler.clone());
            async move { clients.cancel_abandoned(scheduler).await }
        };
        let watching = watch(scheduler.clone());
        let deleting = {
            let (scheduler, shuffle) = (scheduler.clone(), self.shuffle);
            async move {
                match shuffle {
                    Some(shuffle) => shuffle.delete_ended(scheduler).await,
                    None => std::future::pending().await,
                }
            }
        };
        let served = tokio::select! {
            served = served::serve(self.listener, scheduler, pages, clients, self.token) => served,
            never = watching => match never {},
            never = deleting => match never {},
            never = cancelling => match never {},
        };
        served
            .map_err(|error| Error::new(ErrorKind::Unavailable, "the scheduler has ended").with_source(error))
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
        .with_option_extension(ShuffleSettings::default())
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
