//! Records: the changes of a master's state that outlive the process.

use super::state::ShuffleRun;
use crate::ids::{ApplicationId, ShuffleKey, WorkerId};

/// The most properties of an application that are kept.
pub const PROPERTIES_MAX: usize = 64;

/// The most lives of an application that are kept: a registration on its way while the application comes back that often is
/// not expected.
pub const LIVES_MAX: usize = 4;

/// The most runs of shuffles that one record removes: far fewer than fit into a frame of the journal.
pub const RUNS_REMOVED_MAX: usize = 4096;

/// The most workers that one record lists for a shuffle: with long names, half of a frame of the journal.
pub const LISTED_IN_RECORD_MAX: usize = 1024;

/// One durable change. After a restart the state is an empty one with all records applied in order; applying a record twice
/// has the same effect as once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// An application was first seen, or told more about itself.
    ApplicationRegistered {
        /// The application.
        application: ApplicationId,
        /// Its user.
        user: User,
        /// What it tells about itself, to be shown to people.
        properties: Vec<(String, String)>,
        /// Its last lives, the newest last; at most [`LIVES_MAX`].
        lives: Vec<LifeId>,
        /// Milliseconds since 1970.
        at_unix_ms: u64,
    },
    /// An application ended, was silent for too long, or was deleted by hand: all its shuffles are removed.
    ApplicationRemoved {
        /// The application.
        application: ApplicationId,
        /// Milliseconds since 1970.
        at_unix_ms: u64,
        /// Whether it was removed for its silence only. It may be alive, and then its shuffles are still needed.
        silent: bool,
    },
    /// A shuffle was granted slots: its data must be kept. Of a shuffle whose number was used before there is another record
    /// of this kind whenever a reply lists further workers.
    ShuffleRegistered {
        /// The shuffle.
        shuffle: ShuffleKey,
        /// Milliseconds since 1970.
        at_unix_ms: u64,
        /// Workers that a slot reply lists, if the number was used before: what they hold under it is of this shuffle. At most
        /// [`LISTED_IN_RECORD_MAX`].
        listed: Vec<WorkerId>,
    },
    /// Shuffles are no longer needed: their data may be deleted.
    ShufflesRemoved {
        /// Their application.
        application: ApplicationId,
        /// At most [`RUNS_REMOVED_MAX`].
        runs: Vec<ShuffleRun>,
        /// Milliseconds since 1970.
        at_unix_ms: u64,
    },
    /// A worker registered, or registered again after a restart.
    WorkerRegistered {
        /// Its identity.
        worker: WorkerId,
        /// Its HTTP port.
        http_port: u16,
        /// Its rack.
        network_location: String,
    },
    /// A worker left or was silent for too long.
    WorkerRemoved {
        /// The worker.
        worker: WorkerId,
        /// Milliseconds since 1970.
        at_unix_ms: u64,
        /// Whether it announced that it leaves; if not it counts as lost.
        left: bool,
    },
    /// An operator took a worker out of service.
    WorkerExcluded {
        /// The worker; it need not be registered.
        worker: WorkerId,
    },
    /// An operator put a worker back into service.
    WorkerIncluded {
        /// The worker.
        worker: WorkerId,
    },
    /// An operator told a worker to leave for good.
    WorkerDecommissioned {
        /// The worker.
        worker: WorkerId,
    },
    /// An operator told a worker to stay that had been told to leave.
    WorkerRecommissioned {
        /// The worker.
        worker: WorkerId,
    },
    /// A worker that was told to stay works again, or is no longer expected.
    WorkerStayed {
        /// The worker.
        worker: WorkerId,
    },
    /// An operator removed a worker from the list of those that were lost or have left.
    WorkerForgotten {
        /// The worker.
        worker: WorkerId,
    },
}

impl Record {
    /// A shuffle that is to be kept, of which nobody is known to have been listed.
    pub fn shuffle_registered(shuffle: ShuffleKey, at_unix_ms: u64) -> Self {
        Self::ShuffleRegistered { shuffle, at_unix_ms, listed: Vec::new() }
    }
}

/// A life of an application: from when a driver registers under the application's name until the next one does. Its id is
/// that of the request, which a client repeats when it asks again because an answer is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifeId(Box<str>);

impl LifeId {
    /// The longest id, in bytes. Clients' ids are a UUID and a number.
    pub const LEN_MAX: usize = 128;

    /// The life that begins with the request of this id; `None` if it is empty, as of a request without one.
    pub fn new(request_id: &str) -> Option<Self> {
        (!request_id.is_empty()).then(|| Self(request_id.into()))
    }

    /// The id of the request.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The owner of an application, as quotas and metrics name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The tenant; `default` unless the client names one.
    pub tenant: String,
    /// The user within the tenant.
    pub name: String,
}

impl Default for User {
    fn default() -> Self {
        Self { tenant: "default".to_owned(), name: "default".to_owned() }
    }
}
