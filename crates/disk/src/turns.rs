use std::io;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The turns for one kind of work on a disk: so many pieces at a time, the others wait without occupying a thread. A disk
/// that hangs then blocks as many threads as it has turns, and no more.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let reads = yeoul_disk::Turns::new(8);
/// let turn = reads.take().await;
/// let text = turn.work(|| std::fs::read_to_string("/proc/loadavg")).await?;
/// assert!(!text.is_empty() && reads.free() == 8);
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Turns {
    permits: Arc<Semaphore>,
    most: u32,
}

/// One turn, given back when this is dropped, or when its [work](Self::work) ends.
#[derive(Debug)]
#[must_use = "the turn is given back when this is dropped"]
pub struct Turn(#[allow(dead_code, reason = "kept for its drop")] OwnedSemaphorePermit);

impl Turns {
    /// At most so many pieces of work at a time; at least one.
    pub fn new(most: u32) -> Self {
        let most = most.max(1);
        Self { permits: Arc::new(Semaphore::new(most as usize)), most }
    }

    /// Waits for a turn, behind whoever waits already.
    pub async fn take(&self) -> Turn {
        Turn(Arc::clone(&self.permits).acquire_owned().await.expect("the semaphore is never closed"))
    }

    /// A turn, if one is free.
    pub fn try_take(&self) -> Option<Turn> {
        Arc::clone(&self.permits).try_acquire_owned().ok().map(Turn)
    }

    /// Waits for all turns: nobody else works meanwhile.
    pub async fn take_all(&self) -> Turn {
        let all = Arc::clone(&self.permits).acquire_many_owned(self.most).await;
        Turn(all.expect("the semaphore is never closed"))
    }

    /// How many are free.
    pub fn free(&self) -> usize {
        self.permits.available_permits()
    }
}

impl Turn {
    /// Runs work on a thread for files, and returns the turn when the work ends, not when its caller stops waiting: work that
    /// hangs keeps its turn, so that few threads hang.
    ///
    /// # Errors
    /// Those of the work; `Other` if it panics.
    pub async fn work<T: Send + 'static>(
        self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let working = tokio::task::spawn_blocking(move || {
            let worked = work();
            drop(self);
            worked
        });
        working.await.unwrap_or_else(|panic| Err(io::Error::other(panic)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn work_that_hangs_keeps_its_turn_and_a_waiter_that_gives_up_leaves_the_queue() {
        let turns = Turns::new(1);
        let (release, hung) = std::sync::mpsc::channel();
        let (begun, beginning) = tokio::sync::oneshot::channel();
        let turn = turns.take().await;
        let hanging = tokio::spawn(turn.work(move || {
            begun.send(()).expect("the test waits for it");
            hung.recv().map_err(io::Error::other)
        }));
        beginning.await.unwrap();
        hanging.abort();
        assert!(hanging.await.unwrap_err().is_cancelled());
        assert_eq!(turns.free(), 0);
        assert!(turns.try_take().is_none());
        let brief = Duration::from_millis(10);
        assert!(tokio::time::timeout(brief, turns.take()).await.is_err());
        release.send(()).unwrap();
        let within = Duration::from_secs(20);
        let turn = tokio::time::timeout(within, turns.take()).await.expect("it comes back");
        assert_eq!(turn.work(|| Ok(7)).await.unwrap(), 7);
        assert_eq!(turns.free(), 1);
    }

    #[tokio::test]
    async fn who_takes_all_waits_for_everybody() {
        let turns = Turns::new(3);
        let one = turns.take().await;
        let all = tokio::spawn({
            let turns = turns.clone();
            async move { drop(turns.take_all().await) }
        });
        tokio::task::yield_now().await;
        assert!(!all.is_finished());
        drop(one);
        all.await.unwrap();
        assert_eq!(turns.free(), 3);
    }
}
