//! Counts of a scheduler's jobs since its start.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ballista_core::JobId;
use ballista_core::error::Result;
use ballista_scheduler::metrics::SchedulerMetricsCollector;
use yeoul_net::metrics::{Counter, Timer};

/// Counts of jobs, as Ballista tells of them.
#[derive(Debug, Default)]
pub(crate) struct JobCounts {
    pub submitted: Counter,
    pub completed: Counter,
    pub failed: Counter,
    pub cancelled: Counter,
    /// Times from the arrival of a job to its end, if that was an answer.
    pub took: Timer,
    pub tasks_waiting: AtomicU64,
}

impl SchedulerMetricsCollector for JobCounts {
    fn record_submitted(&self, _: &JobId, _: u64, _: u64) {
        self.submitted.add(1);
    }

    fn record_completed(&self, _: &JobId, queued_at: u64, completed_at: u64) {
        self.completed.add(1);
        self.took.record(Duration::from_millis(completed_at.saturating_sub(queued_at)));
    }

    fn record_failed(&self, _: &JobId, _: u64, _: u64) {
        self.failed.add(1);
    }

    fn record_cancelled(&self, _: &JobId) {
        self.cancelled.add(1);
    }

    fn set_pending_tasks_queue_size(&self, tasks: u64) {
        self.tasks_waiting.store(tasks, Ordering::Relaxed);
    }

    /// None: pages tell of them.
    fn gather_metrics(&self) -> Result<Option<(Vec<u8>, String)>> {
        Ok(None)
    }
}
