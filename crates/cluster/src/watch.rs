//! Watch for executors whose processes have ended.
//!
//! One that is frozen or far away is silent for a while and may come back; one whose port refuses connections is gone,
//! with all that it had, and so is one in whose place another was started.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::io::ErrorKind::ConnectionRefused;
use std::time::Duration;

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
        let executors: Vec<_> =
            executors.into_iter().map(|(executor, seen, _)| Seen::of(executor, seen)).collect();
        let mut gone = replaced(&executors);
        let refusing = futures::stream::iter(executors)
            .map(|executor| async move { executor.refuses().await.then_some(executor.id) })
            .buffer_unordered(KNOCKS_AT_ONCE)
            .filter_map(std::future::ready);
        let refusing: HashSet<String> = refusing.collect().await;
        // One that has just begun may not listen yet.
        gone.extend(refusing.intersection(&refused).cloned());
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

/// Executor as the scheduler has last heard of it.
struct Seen {
    id: String,
    address: (String, u16),
    /// Since 1970.
    at: Option<Duration>,
}

impl Seen {
    fn of(executor: ExecutorMetadata, at: Option<Duration>) -> Self {
        Self { id: executor.id, address: (executor.host, executor.port), at }
    }

    /// True of one whose machine answers that nothing listens there.
    async fn refuses(&self) -> bool {
        let (host, port) = &self.address;
        let knocked = TcpStream::connect((host.as_str(), *port));
        matches!(tokio::time::timeout(KNOCK_MAX, knocked).await, Ok(Err(error)) if error.kind() == ConnectionRefused)
    }
}

/// Executors at whose address another one was heard of later: it was started anew there.
fn replaced(executors: &[Seen]) -> HashSet<String> {
    let mut latest = HashMap::new();
    for executor in executors {
        let latest = latest.entry(&executor.address).or_insert(executor.at);
        *latest = (*latest).max(executor.at);
    }
    let replaced = executors.iter().filter(|executor| executor.at < latest[&executor.address]);
    replaced.map(|executor| executor.id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executor_is_gone_once_another_was_heard_of_in_its_place() {
        let executor = |id: &str, port, at| {
            let (id, at) = (id.to_owned(), Some(Duration::from_secs(at)));
            Seen { id, address: ("a".to_owned(), port), at }
        };
        let executors = [executor("old", 1, 5), executor("new", 1, 7), executor("other", 2, 3)];
        assert_eq!(replaced(&executors), HashSet::from(["old".to_owned()]));
        assert!(
            replaced(&[executor("one", 1, 5), executor("two", 1, 5)]).is_empty(),
            "either may be the later"
        );
    }
}
