//! What the NameNodes have yet to be told.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::wire::proto::cluster;

/// How long an acknowledgement waits for the NameNode to know of a block. It is late then, and true all the same: the block is
/// on this DataNode, and the NameNode learns of it from a report.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Notices of one call.
pub const NOTICES_PER_CALL_MAX: usize = 1000;

/// The notices for one NameNode, in order. While it is not there none are kept, as it gets a whole report when it is back.
#[derive(Debug, Default)]
pub struct Notices {
    waiting: Mutex<Waiting>,
    came: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    is_connected: bool,
    notices: VecDeque<(cluster::Notice, SyncSender<()>)>,
}

/// Notices on their way; who waits for them goes on when this is dropped.
#[derive(Debug, Default)]
pub struct Batch {
    /// The notices.
    pub notices: Vec<cluster::Notice>,
    /// Held until the batch is dropped.
    _told: Vec<SyncSender<()>>,
}

impl Notices {
    /// Adds a notice, and gives what says when the NameNode has it.
    pub fn add(&self, notice: cluster::Notice) -> Told {
        let (told, wait) = sync_channel(1);
        let mut waiting = self.waiting();
        if waiting.is_connected {
            waiting.notices.push_back((notice, told));
            self.came.notify_one();
        }
        Told(wait)
    }

    /// The NameNode has answered the registration: notices from now on are kept for it.
    pub fn connected(&self) {
        self.waiting().is_connected = true;
    }

    /// The NameNode is not there: nobody waits for it.
    pub fn disconnected(&self) {
        *self.waiting() = Waiting::default();
    }

    /// Waits for a notice.
    pub async fn come(&self) {
        self.came.notified().await;
    }

    /// The next notices, if there are some.
    pub fn take(&self) -> Option<Batch> {
        let mut waiting = self.waiting();
        let count = waiting.notices.len().min(NOTICES_PER_CALL_MAX);
        let (notices, told) = waiting.notices.drain(..count).unzip();
        (count > 0).then_some(Batch { notices, _told: told })
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says when a NameNode has a notice, or is not there to have it.
#[derive(Debug)]
pub struct Told(Receiver<()>);

impl Told {
    /// Waits, but not for ever.
    pub fn wait(self) {
        // The sender is dropped once the notice is there, or nobody is there to take it.
        let _ = self.0.recv_timeout(WAIT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_goes_on_when_the_notice_is_there_or_nobody_takes_it() {
        let notices = Notices::default();
        notices.add(cluster::Notice::default()).wait();
        notices.connected();
        let told = notices.add(cluster::Notice { is_deleted: true, ..cluster::Notice::default() });
        let batch = notices.take().unwrap();
        assert!(batch.notices[0].is_deleted && notices.take().is_none());
        assert_eq!(told.0.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty));
        drop(batch);
        assert_eq!(told.0.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected));
        let told = notices.add(cluster::Notice::default());
        notices.disconnected();
        assert_eq!(told.0.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected));
    }
}
