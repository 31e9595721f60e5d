//! The executor's half: its way to the application of the shuffle.

use std::sync::Arc;

use ballista_core::JobId;
use datafusion::common::Result;
use tokio::sync::Mutex;
use yeoul_shuffle::client::{Executor, ExecutorOptions, TaskShuffle};

use super::{failed, name};

/// Shuffles of the application that was asked last. A scheduler that was started anew is another one.
#[derive(Clone, Default)]
pub(crate) struct Shuffles {
    last: Arc<Mutex<Option<(String, Executor)>>>,
}

impl Shuffles {
    /// The shuffle of a stage, at the application of this setting.
    ///
    /// # Errors
    /// Those of the shuffle; what may pass as an error of I/O.
    pub async fn open(
        &self,
        application: &str,
        job: &JobId,
        stage: usize,
        partitions: usize,
    ) -> Result<TaskShuffle> {
        let executor = self.executor(application).await?;
        executor.open(&name(job, stage), partitions).await.map_err(failed)
    }

    async fn executor(&self, application: &str) -> Result<Executor> {
        let mut last = self.last.lock().await;
        if let Some((_, executor)) = last.as_ref().filter(|(known, _)| known == application) {
            return Ok(executor.clone());
        }
        let address = application.split(' ').next().unwrap_or_default();
        let executor = Executor::connect(ExecutorOptions::new(address)).await.map_err(failed)?;
        *last = Some((application.to_owned(), executor.clone()));
        Ok(executor)
    }
}
