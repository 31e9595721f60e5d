//! The scheduler's half: the application of its jobs' shuffles.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;

use ballista_scheduler::scheduler_server::SchedulerServer;
use datafusion_proto::logical_plan::AsLogicalPlan;
use datafusion_proto::physical_plan::AsExecutionPlan;
use yeoul_base::{Error, ErrorKind, Result};
use yeoul_shuffle::client::{Application, Options, ServerOptions};
use yeoul_shuffle::net::Serving;

use super::{ShuffleSettings, job_of};
use crate::limits::{LOOK_FOR_ENDED_JOBS_EVERY, PUSHES_AHEAD};
use crate::scheduler::ShuffleOptions;

/// Application of the shuffles of a scheduler's jobs, which answers executors.
pub(crate) struct ShuffleApplication {
    application: Application,
    serving: Serving,
}

impl ShuffleApplication {
    /// The application, once it is registered with a master and listens.
    ///
    /// # Errors
    /// `Unavailable` if no master answers, or the address is taken; `Invalid` without masters.
    pub async fn start(host: &str, options: ShuffleOptions) -> Result<Self> {
        let ShuffleOptions { masters, copies, port } = options;
        let replicate = copies > 1;
        let options = Options { replicate, window: PUSHES_AHEAD, ..Options::new(masters) };
        let application = Application::start(options).await?;
        let opens = |name: &str| match job_of(name) {
            Some(_) => Ok(()),
            None => Err(Error::new(ErrorKind::Invalid, format!("'{name}' is no stage of a job"))),
        };
        let server = ServerOptions {
            host: host.to_owned(),
            port,
            opens: Some(Arc::new(opens)),
            ..ServerOptions::default()
        };
        let serving = application.serve(server).await?;
        Ok(Self { application, serving })
    }

    /// The setting that tells executors of it.
    pub fn settings(&self) -> ShuffleSettings {
        let process = uuid::Uuid::new_v4();
        ShuffleSettings { application: format!("{} {process}", self.serving.address()) }
    }

    /// Deletes the shuffles of jobs that have ended, for as long as it is polled.
    pub async fn delete_ended<T, U>(&self, scheduler: SchedulerServer<T, U>) -> Infallible
    where
        T: AsLogicalPlan + 'static,
        U: AsExecutionPlan + 'static,
    {
        loop {
            tokio::time::sleep(LOOK_FOR_ENDED_JOBS_EVERY).await;
            // Looked up when the names are known: a job runs before it opens one.
            let (scheduler, running) = (scheduler.clone(), OnceCell::new());
            let is_running = move |name: &str| {
                let running: &HashSet<String> = running.get_or_init(|| {
                    let running = scheduler.state.task_manager.get_running_job_cache();
                    running.keys().map(ToString::to_string).collect()
                });
                job_of(name).is_some_and(|job| running.contains(job))
            };
            self.application.retain(is_running).await;
        }
    }
}
