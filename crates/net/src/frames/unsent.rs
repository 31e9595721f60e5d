//! The bytes of a connection's answers that its peer has not read yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::gate::{Account, Held};

/// Smaller answers are not counted: as many as may wait for a peer add up to no more than [`BYTES_MAX`].
const COUNTED_MIN: usize = 64 << 10;

/// With so many bytes waiting, no request is read. The largest answers, slots for a million partitions, come near it.
const BYTES_MAX: usize = 32 << 20;

/// Bytes of large answers queued on one connection, for backpressure.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    bytes: AtomicUsize,
    less: Notify,
    /// The account that they are charged to.
    account: Account,
}

/// A large answer that is being sent.
pub(super) struct Counted {
    unsent: Arc<Unsent>,
    bytes: usize,
    _memory: Option<Held>,
}

impl Unsent {
    /// Answers that are charged to an account.
    pub fn charged_to(account: Account) -> Self {
        Self { account, ..Self::default() }
    }

    /// Counts an answer for as long as the result lives, if it is large.
    pub fn count(self: &Arc<Self>, bytes: usize) -> Option<Counted> {
        let counted = bytes >= COUNTED_MIN;
        counted.then(|| {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            Counted { unsent: Arc::clone(self), bytes, _memory: self.account.charge(bytes as u64) }
        })
    }

    /// Returns when there is room for one more answer. Only the connection's reader waits.
    pub async fn wait_for_room(&self) {
        while self.bytes.load(Ordering::Relaxed) >= BYTES_MAX {
            self.less.notified().await;
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.unsent.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.unsent.less.notify_one();
    }
}
