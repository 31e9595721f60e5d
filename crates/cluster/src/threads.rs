//! Threads of an executor's tasks, at the priority of its process. Ballista's have a low one, and get next to nothing beside what else
//! runs on the machine.

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use yeoul_base::Result;
use yeoul_sql::STACK_BYTES;

/// Threads, until they are dropped.
pub(crate) struct Threads(Option<Runtime>);

impl Threads {
    /// So many threads.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn new(count: usize) -> Result<Self> {
        let mut runtime = Builder::new_multi_thread();
        runtime.worker_threads(count).thread_name("task").thread_stack_size(STACK_BYTES).enable_all();
        Ok(Self(Some(runtime.build()?)))
    }

    /// The result of a task that runs on them. It ends when the returned future is dropped, at the next place where it gives way.
    ///
    /// # Panics
    /// With the task.
    pub(crate) async fn run<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> T {
        let runtime = self.0.as_ref().expect("they are there until they are dropped");
        let mut running = JoinSet::new();
        running.spawn_on(task, runtime.handle());
        match running.join_next().await.expect("it has one task") {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The threads end, and the process with them.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // It may be dropped where nobody may wait.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_task_ends_with_its_future() {
        let threads = Threads::new(1).unwrap();
        assert_eq!(
            threads.run(async { std::thread::current().name().map(str::to_owned) }).await.as_deref(),
            Some("task")
        );
        let held = Arc::new(());
        let holds = Arc::clone(&held);
        let endless = threads.run(async move {
            let _holds = holds;
            std::future::pending::<()>().await;
        });
        assert!(tokio::time::timeout(Duration::from_millis(20), endless).await.is_err());
        while Arc::strong_count(&held) > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
