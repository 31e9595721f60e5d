//! Watch for executors whose processes have ended.
//!
//! One that is frozen or far away is silent for a while and may come back; one whose port refuses connections is gone, with all that it had.

use std::collections::HashSet;
use std::convert::Infallible;
use std::io::ErrorKind::ConnectionRefused;

use ballista_core::serde::protobuf::ExecutorStoppedParams;
use ballista_core::serde::protobuf::scheduler_grpc_server::SchedulerGrpc;
use ballista_core::serde::scheduler::ExecutorMetadata;
use ballista_scheduler::scheduler_server::SchedulerServer;
use datafusion_proto::logical_plan::AsLogicalPlan;
use datafusion_proto::physical_plan::AsExecutionPlan;
use futures::StreamExt;
use tokio::net::TcpStream;

use crate::limits::{KNOCK_EVERY, KNOCK_MAX, KNOCKS_AT_ONCE};

/// Tells the scheduler of executors that are gone, for as long as it is polled.
pub(crate) async fn watch<T, U>(scheduler: SchedulerServer<T, U>) -> Infallible
where
    T: AsLogicalPlan + 'static,
    U: AsExecutionPlan + 'static,
{
    let mut refused = HashSet::new();
    loop {
        tokio::time::sleep(KNOCK_EVERY).await;
        let executors = scheduler.state.executor_manager.get_executors_state().await.unwrap_or_default();
        let refusing = futures::stream::iter(executors)
            .map(|(executor, ..)| async move { refuses(&executor).await.then_some(executor.id) })
            .buffer_unordered(KNOCKS_AT_ONCE)
            .filter_map(std::future::ready);
        let refusing: HashSet<String> = refusing.collect().await;
        // One that has just begun may not listen yet.
        let gone: Vec<String> = refusing.intersection(&refused).cloned().collect();
        refused = refusing;
        for executor_id in gone {
            tracing::warn!(executor = executor_id, "an executor's process has ended");
            let reason = "its process has ended".to_owned();
            let stopped = tonic::Request::new(ExecutorStoppedParams { executor_id, reason });
            if let Err(status) = scheduler.executor_stopped(stopped).await {
                tracing::warn!("an executor that is gone was not removed: {}", status.message());
            }
        }
    }
}

/// True of an executor whose machine answers that nothing listens there.
async fn refuses(executor: &ExecutorMetadata) -> bool {
    let knocked = TcpStream::connect((executor.host.as_str(), executor.port));
    matches!(tokio::time::timeout(KNOCK_MAX, knocked).await, Ok(Err(error)) if error.kind() == ConnectionRefused)
}
