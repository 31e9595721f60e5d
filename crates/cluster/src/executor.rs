//! The executor: it runs tasks of stages within the memory, the threads and the directory of its process.

use std::path::PathBuf;
use std::sync::Arc;

use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use yeoul_base::{Error, ErrorKind, Result};
use yeoul_sql::Session;

use crate::limits::{HEARTBEAT_EVERY_S, MESSAGE_BYTES_MAX, SCHEDULER_AWAITED_S};
use crate::of_session;
use crate::orphans::Jobs;
use crate::plan_codec::PlanCodec;
use crate::scheduler::{failed, session_config};
use crate::stage::StageEngine;
use crate::threads::Threads;

/// Options of an executor.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address of the scheduler, as `host:port`.
    pub scheduler: String,
    /// Name or address by which the scheduler, the other executors and clients reach this one, and on which it listens.
    pub host: String,
    /// Port for reads of what tasks have written.
    pub port: u16,
    /// Port for the scheduler.
    pub control_port: u16,
    /// Directory for what tasks write.
    pub dir: PathBuf,
    /// Memory, threads and spill directory of the process.
    pub process: yeoul_sql::Options,
}

/// Runs tasks until the process is told to stop, or the scheduler says so.
///
/// # Errors
/// `Invalid` for options that cannot be kept; `Unavailable` if the scheduler cannot be reached, or a port is taken.
pub async fn run(options: Options) -> Result<()> {
    let Options { scheduler, host, port, control_port, dir, process } = options;
    let (scheduler_host, scheduler_port) = endpoint(&scheduler)?;
    let threads = process.threads();
    let session = Session::new(process).map_err(of_session)?;
    let workplace = session.workplace();
    let (configuration, runtime) = (session_config()?, Arc::clone(workplace.runtime()));
    let engine = StageEngine::new(workplace.clone(), Jobs::of(&scheduler)?, Threads::new(threads)?);
    let message_bytes = u32::try_from(MESSAGE_BYTES_MAX).expect("a small number");
    let config = ExecutorProcessConfig {
        bind_host: host.clone(),
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
        override_physical_codec: Some(Arc::new(PlanCodec::new().map_err(of_session)?)),
        ..ExecutorProcessConfig::default()
    };
    let ran = start_executor_process(Arc::new(config)).await;
    ran.map_err(|error| failed(ErrorKind::Unavailable, "the executor has ended", error))
}

fn endpoint(address: &str) -> Result<(String, u16)> {
    let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
    parts.ok_or_else(|| {
        let error = Error::new(ErrorKind::Invalid, format!("'{address}' is no address of a scheduler"));
        error.with_hint("it is HOST:PORT, such as 10.0.0.1:50050")
    })
}
