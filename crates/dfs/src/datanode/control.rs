//! What operators ask of a running DataNode over its calls.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tracing::info;

/// Time from an operator's order to end to the end, as in HDFS: who gave it has the answer by then.
const ANSWER_LEAVES_WITHIN: Duration = Duration::from_secs(1);

/// What operators have asked of a DataNode.
#[derive(Debug, Default)]
pub struct Control {
    reports: AtomicU64,
    ended: Notify,
    shares_process: bool,
}

impl Control {
    /// Of a DataNode that has its process for itself or not.
    pub fn new(shares_process: bool) -> Self {
        Self { shares_process, ..Self::default() }
    }

    /// Asks for a whole report to each NameNode, with the next heartbeat.
    pub fn ask_for_report(&self) {
        self.reports.fetch_add(1, Ordering::Relaxed);
    }

    /// How many whole reports have been asked for.
    pub fn reports(&self) -> u64 {
        self.reports.load(Ordering::Relaxed)
    }

    /// Asks the process to end: false if others are in it.
    #[must_use]
    pub fn ask_to_end(&self) -> bool {
        if !self.shares_process {
            info!("an operator ends this DataNode");
            self.ended.notify_one();
        }
        !self.shares_process
    }

    /// Waits until an operator has asked for the end, and for as long as the answer may take to leave.
    pub async fn asked_to_end(&self) {
        self.ended.notified().await;
        tokio::time::sleep(ANSWER_LEAVES_WITHIN).await;
    }
}
