//! Tasks whose job is over: one that is cancelled before its tasks have arrived tells them nothing, and they would run to their ends.

use std::sync::Arc;

use ballista_core::JobId;
use tonic::transport::Channel;
use yeoul_base::{Error, ErrorKind, Result};

use crate::limits::ASK_FOR_JOB_EVERY;
use crate::reported::asked;
use crate::served::path_of_running;
use crate::token::SchedulerAddress;

/// The jobs of a scheduler, as an executor asks for them.
#[derive(Clone, Debug)]
pub(crate) struct Jobs {
    scheduler: Arc<Channel>,
}

impl Jobs {
    /// The jobs of the scheduler at an address, which is not connected to yet.
    ///
    /// # Errors
    /// `Invalid` for an address that is none.
    pub(crate) fn of(scheduler: &SchedulerAddress) -> Result<Self> {
        let endpoint = scheduler.endpoint().map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("'{scheduler}' is no address of a scheduler"))
                .with_source(error)
        })?;
        Ok(Self { scheduler: Arc::new(endpoint.connect_lazy()) })
    }

    /// Waits until the job is over. A scheduler that does not answer says nothing of it.
    pub(crate) async fn over(&self, job: &JobId) {
        let path = path_of_running(job.as_ref());
        loop {
            tokio::time::sleep(ASK_FOR_JOB_EVERY).await;
            match asked::<bool>(&self.scheduler, &path).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => tracing::debug!("{error}"),
            }
        }
    }
}
