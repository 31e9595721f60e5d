//! What operators ask of a running DataNode over its calls.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;
use tracing::info;

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

    /// Waits until an operator has asked for the end.
    pub async fn asked_to_end(&self) {
        self.ended.notified().await;
    }
}
