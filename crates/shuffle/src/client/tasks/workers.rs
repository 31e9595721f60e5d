//! The workers of a shuffle service, as all tasks of a process reach them.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ids::WorkerId;
use crate::net::Client;

/// The connections to workers, and which of them did not answer.
pub(in crate::client) struct Workers {
    pub client: Client,
    /// Workers that a reader did not reach, and that no other one has reached since: other copies are tried first.
    unreached: Mutex<BTreeSet<WorkerId>>,
}

impl Workers {
    /// Workers that are reached over this client's connections.
    pub fn new(client: Client) -> Self {
        Self { client, unreached: Mutex::default() }
    }

    fn unreached(&self) -> MutexGuard<'_, BTreeSet<WorkerId>> {
        self.unreached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if readers should rather ask another worker: a silent one costs each of them the whole time of a request.
    pub fn is_unreached(&self, worker: &WorkerId) -> bool {
        self.unreached().contains(worker)
    }

    /// Remembers whether a reader reached a worker.
    pub fn reached(&self, worker: &WorkerId, reached: bool) {
        if reached {
            self.unreached().remove(worker);
        } else {
            self.unreached().insert(worker.clone());
        }
    }
}
