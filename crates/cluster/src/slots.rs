//! Slots of executors: how many tasks each may be given.
//!
//! Ballista gives a slot back when a task says that it has ended. One that was cancelled because its stage runs again is not of that stage
//! any more, and its slot is lost: a cluster that has lost all waits for ever. So the slots are counted from the tasks that run, each
//! time that tasks are given out.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ballista_core::JobId;
use ballista_core::error::Result;
use ballista_core::serde::protobuf::ExecutorHeartbeat;
use ballista_core::serde::scheduler::{ExecutorData, ExecutorMetadata};
use ballista_scheduler::cluster::memory::InMemoryClusterState;
use ballista_scheduler::cluster::{BoundTask, ClusterState, ClusterStateEventStream, ExecutorSlot};
use ballista_scheduler::config::TaskDistributionPolicy;
use ballista_scheduler::state::task_manager::JobInfoCache;
use tokio::sync::Mutex;

/// State of a cluster whose slots are counted.
#[derive(Default)]
pub(crate) struct CountedSlots {
    ballista: InMemoryClusterState,
    /// By executor.
    slots: Mutex<HashMap<String, Slots>>,
}

/// Slots of an executor, and those of them that Ballista knows to be free.
struct Slots {
    all: u32,
    free: u32,
}

/// Slots that the tasks of jobs take, by executor.
async fn taken(jobs: &HashMap<JobId, JobInfoCache>) -> HashMap<String, u32> {
    let mut taken: HashMap<String, u32> = HashMap::new();
    for job in jobs.values() {
        let graph = job.execution_graph.read().await;
        for task in graph.running_tasks() {
            let slots = graph.task_vcores(task.stage_id, task.task_id).unwrap_or(1);
            *taken.entry(task.executor_id).or_default() += slots;
        }
    }
    taken
}

#[async_trait::async_trait]
impl ClusterState for CountedSlots {
    async fn bind_schedulable_tasks(
        &self,
        distribution: TaskDistributionPolicy,
        jobs: Arc<HashMap<JobId, JobInfoCache>>,
        executors: Option<HashSet<String>>,
    ) -> Result<Vec<BoundTask>> {
        let mut slots = self.slots.lock().await;
        let taken = taken(&jobs).await;
        let mut freed = Vec::new();
        for (executor, slots) in slots.iter_mut() {
            let free = slots.all.saturating_sub(taken.get(executor).copied().unwrap_or(0));
            if free > slots.free {
                freed.push((executor.clone(), free - slots.free));
                slots.free = free;
            }
        }
        self.ballista.unbind_tasks(freed).await?;
        let bound = self.ballista.bind_schedulable_tasks(distribution, jobs, executors).await?;
        for (executor, task) in &bound {
            if let Some(slots) = slots.get_mut(executor) {
                slots.free = slots.free.saturating_sub(task.vcores_consumed);
            }
        }
        Ok(bound)
    }

    /// Nothing: they are counted when tasks are given out.
    async fn unbind_tasks(&self, _: Vec<ExecutorSlot>) -> Result<()> {
        Ok(())
    }

    async fn register_executor(&self, metadata: ExecutorMetadata, data: ExecutorData) -> Result<()> {
        let (executor, all, free) = (metadata.id.clone(), data.total_vcores, data.available_vcores);
        self.ballista.register_executor(metadata, data).await?;
        self.slots.lock().await.insert(executor, Slots { all, free });
        Ok(())
    }

    async fn save_executor_metadata(&self, metadata: ExecutorMetadata) -> Result<()> {
        self.ballista.save_executor_metadata(metadata).await
    }

    async fn get_executor_metadata(&self, executor: &str) -> Result<ExecutorMetadata> {
        self.ballista.get_executor_metadata(executor).await
    }

    async fn registered_executor_metadata(&self) -> Vec<ExecutorMetadata> {
        self.ballista.registered_executor_metadata().await
    }

    async fn save_executor_heartbeat(&self, heartbeat: ExecutorHeartbeat) -> Result<()> {
        self.ballista.save_executor_heartbeat(heartbeat).await
    }

    async fn remove_executor(&self, executor: &str) -> Result<()> {
        self.slots.lock().await.remove(executor);
        self.ballista.remove_executor(executor).await
    }

    fn executor_heartbeats(&self) -> HashMap<String, ExecutorHeartbeat> {
        self.ballista.executor_heartbeats()
    }

    fn get_executor_heartbeat(&self, executor: &str) -> Option<ExecutorHeartbeat> {
        self.ballista.get_executor_heartbeat(executor)
    }

    async fn cluster_state_events(&self) -> Result<ClusterStateEventStream> {
        self.ballista.cluster_state_events().await
    }
}
