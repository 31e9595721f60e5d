//! The executor: it runs tasks of stages within the memory, the threads and the directory of its process.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;

use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::extension::SessionConfigExt;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use tokio::net::TcpListener;
use tonic::transport::{Channel, Endpoint};
use yeoul_base::{Error, ErrorKind, Result};
use yeoul_sql::Session;

use crate::guard::forward;
use crate::limits::{HEARTBEAT_EVERY_S, MESSAGE_BYTES_MAX, SCHEDULER_AWAITED_S};
use crate::of_session;
use crate::orphans::Jobs;
use crate::plan_codec::PlanCodec;
use crate::scheduler::{failed, session_config};
use crate::stage::StageEngine;
use crate::threads::Threads;
use crate::token::{self, SchedulerAddress, Token, address_of};

/// Options of an executor.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address of the scheduler, as `host:port`.
    pub scheduler: String,
    /// Name or IPv4 address by which the scheduler, the other executors and clients reach this one, and on which it listens.
    pub host: String,
    /// Port for reads of what tasks have written.
    pub port: u16,
    /// Port for the scheduler.
    pub control_port: u16,
    /// Directory for what tasks write.
    pub dir: PathBuf,
    /// Memory, threads and spill directory of the process.
    pub process: yeoul_sql::Options,
    /// Secret that clients, the scheduler and other executors say; a host other than a loopback address needs one.
    pub token: Option<Token>,
}

/// Runs tasks until the process is told to stop, or the scheduler says so.
///
/// # Errors
/// `Invalid` for options that cannot be kept; `Unavailable` if the scheduler cannot be reached, or a port is taken.
pub async fn run(options: Options) -> Result<()> {
    let Options { scheduler, host, port, control_port, dir, process, token } = options;
    let (scheduler_host, scheduler_port) = endpoint(&scheduler)?;
    let scheduler = SchedulerAddress { address: scheduler, token: token.clone() };
    let address = address_of(&host, port).await?.ip();
    token::check(address, token.as_ref())?;
    let (bind_host, guard) = match &token {
        Some(token) => {
            let inner = own_loopback_address();
            let guards = (
                Guard::bind(address, port, inner, token.clone()).await?,
                Guard::bind(address, control_port, inner, token.clone()).await?,
            );
            (IpAddr::V4(inner), Some(guards))
        }
        None => (address, None),
    };
    let threads = process.threads();
    let session = Session::new(process).map_err(of_session)?;
    let workplace = session.workplace();
    let (mut configuration, runtime) = (session_config()?, Arc::clone(workplace.runtime()));
    if let Some(token) = &token {
        configuration = configuration.with_ballista_override_create_grpc_client_endpoint(token.said_by_all());
    }
    let engine = StageEngine::new(workplace.clone(), Jobs::of(&scheduler)?, Threads::new(threads)?);
    let message_bytes = u32::try_from(MESSAGE_BYTES_MAX).expect("a small number");
    let config = ExecutorProcessConfig {
        bind_host: bind_host.to_string(),
        external_host: Some(host),
        port,
        grpc_port: control_port,
        scheduler_host,
        scheduler_port,
        scheduler_connect_timeout_seconds: SCHEDULER_AWAITED_S,
        vcores: threads,
        task_scheduling_policy: TaskSchedulingPolicy::PushStaged,
        work_dir: Some(dir.display().to_string()),
        grpc_max_decoding_message_size: message_bytes,
        grpc_max_encoding_message_size: message_bytes,
        executor_heartbeat_interval_seconds: HEARTBEAT_EVERY_S,
        // The pool is the session's, which counts the whole process.
        memory_pool_size: Some(0),
        override_execution_engine: Some(Arc::new(engine)),
        override_function_registry: Some(Arc::new(BallistaFunctionRegistry::from(workplace.state()))),
        override_runtime_producer: Some(Arc::new(move |_| Ok(Arc::clone(&runtime)))),
        override_config_producer: Some(Arc::new(move || configuration.clone())),
        override_create_grpc_client_endpoint: token.as_ref().map(Token::said_by_all),
        override_physical_codec: Some(Arc::new(PlanCodec::new().map_err(of_session)?)),
        ..ExecutorProcessConfig::default()
    };
    let running = start_executor_process(Arc::new(config));
    let ran = match guard {
        None => running.await,
        Some((rows, control)) => tokio::select! {
            ran = running => ran,
            guarded = rows.serve() => return guarded,
            guarded = control.serve() => return guarded,
        },
    };
    ran.map_err(|error| failed(ErrorKind::Unavailable, "the executor has ended", error))
}

/// Port that other machines reach, with a guard before a server of Ballista's on another address of this machine.
struct Guard {
    listener: TcpListener,
    token: Token,
    server: Channel,
}

impl Guard {
    async fn bind(address: IpAddr, port: u16, inner: Ipv4Addr, token: Token) -> Result<Self> {
        let unusable = |error: std::io::Error| {
            let text = format!("cannot listen on {address}:{port}: {error}");
            Error::new(ErrorKind::Unavailable, text).with_source(error)
        };
        let listener = TcpListener::bind((address, port)).await.map_err(unusable)?;
        let server = Endpoint::from_shared(format!("http://{inner}:{port}")).expect("an address is a URI");
        Ok(Self { listener, token, server: server.tcp_nodelay(true).connect_lazy() })
    }

    async fn serve(self) -> Result<()> {
        let served = forward(self.listener, self.token, self.server).await;
        served.map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the executor's port has ended").with_source(error)
        })
    }
}

/// An address of this machine's loopback that is hardly anybody else's: its ports are free.
fn own_loopback_address() -> Ipv4Addr {
    let random = uuid::Uuid::new_v4().into_bytes();
    // The first three numbers are random, and none of them 0 or 255.
    let [a, b, c] = [random[0], random[1], random[2]].map(|number| number % 254 + 1);
    Ipv4Addr::new(127, a, b, c)
}

fn endpoint(address: &str) -> Result<(String, u16)> {
    let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
    parts.ok_or_else(|| {
        let error = Error::new(ErrorKind::Invalid, format!("'{address}' is no address of a scheduler"));
        error.with_hint("it is HOST:PORT, such as 10.0.0.1:50050")
    })
}
