//! Clients of jobs: each holds a request open for as long as it wants its job's rows, and a job that nobody wants any more is cancelled.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ballista_core::JobId;
use ballista_scheduler::scheduler_server::SchedulerServer;
use datafusion_proto::logical_plan::AsLogicalPlan;
use datafusion_proto::physical_plan::AsExecutionPlan;

use crate::limits::{CLIENT_AWAITED, LOOK_FOR_CLIENTS_EVERY};

/// Jobs that clients want, by their names.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    wanted: Mutex<HashMap<String, usize>>,
}

/// A client that wants a job, until it is dropped.
#[derive(Debug)]
pub(crate) struct Client {
    clients: Arc<Clients>,
    job: String,
}

impl Clients {
    /// A client that wants a job.
    pub(crate) fn come(self: &Arc<Self>, job: &str) -> Client {
        *self.locked().entry(job.to_owned()).or_default() += 1;
        Client { clients: Arc::clone(self), job: job.to_owned() }
    }

    /// Cancels jobs that nobody wants any more, for as long as it is polled.
    pub(crate) async fn cancel_abandoned<T, U>(&self, scheduler: SchedulerServer<T, U>) -> Infallible
    where
        T: AsLogicalPlan + 'static,
        U: AsExecutionPlan + 'static,
    {
        let mut looks = Looks::default();
        loop {
            tokio::time::sleep(LOOK_FOR_CLIENTS_EVERY).await;
            let running = scheduler.state.task_manager.get_running_job_cache();
            let running: HashSet<String> = running.keys().map(ToString::to_string).collect();
            let wanted = self.locked().keys().cloned().collect();
            for job in looks.abandoned(running, &wanted, Instant::now()) {
                tracing::warn!(job, "the client of a job has gone");
                if let Err(error) = scheduler.cancel_job(JobId::from(job)).await {
                    tracing::warn!("a job without a client was not cancelled: {error}");
                }
            }
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<String, usize>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut wanted = self.clients.locked();
        let count = wanted.get_mut(&self.job).expect("it has come");
        *count -= 1;
        if *count == 0 {
            wanted.remove(&self.job);
        }
    }
}

/// Running jobs at the last look: since when nobody has come for each, or `None` if somebody has.
#[derive(Default)]
struct Looks {
    unclaimed: HashMap<String, Option<Instant>>,
}

impl Looks {
    /// The running jobs whose client has gone, or has not come in time.
    fn abandoned(&mut self, running: HashSet<String>, wanted: &HashSet<String>, now: Instant) -> Vec<String> {
        self.unclaimed.retain(|job, _| running.contains(job));
        let is_abandoned = |job: &String| {
            let unclaimed = self.unclaimed.entry(job.clone()).or_insert(Some(now));
            if wanted.contains(job) {
                *unclaimed = None;
                return false;
            }
            unclaimed.is_none_or(|since| now.duration_since(since) >= CLIENT_AWAITED)
        };
        running.into_iter().filter(is_abandoned).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn names<const N: usize>(names: [&str; N]) -> HashSet<String> {
        names.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn a_job_whose_client_has_gone_is_abandoned_and_one_that_is_new_is_not() {
        let (mut looks, begun) = (Looks::default(), Instant::now());
        let mut look = |running, wanted, after: Duration| {
            let mut found = looks.abandoned(running, &wanted, begun + after);
            found.sort();
            found
        };
        let none: Vec<String> = Vec::new();
        assert_eq!(look(names(["a", "b"]), names(["a"]), Duration::ZERO), none);
        assert_eq!(look(names(["a", "b"]), names(["a"]), CLIENT_AWAITED / 2), none);
        assert_eq!(look(names(["a", "b", "c"]), names([]), CLIENT_AWAITED / 2), ["a"], "it has gone");
        assert_eq!(look(names(["b", "c"]), names([]), CLIENT_AWAITED), ["b"], "it has not come");
        assert_eq!(look(names(["c"]), names(["c"]), CLIENT_AWAITED), none);
        // A job of that name is another one.
        assert_eq!(look(names([]), names([]), CLIENT_AWAITED), none);
        assert_eq!(look(names(["a"]), names([]), CLIENT_AWAITED), none);
    }

    #[test]
    fn a_job_is_wanted_as_long_as_one_of_its_clients_is_there() {
        let clients = Arc::new(Clients::default());
        let (one, other) = (clients.come("a"), clients.come("a"));
        drop(one);
        assert!(clients.locked().contains_key("a"));
        drop(other);
        assert!(clients.locked().is_empty());
    }
}
