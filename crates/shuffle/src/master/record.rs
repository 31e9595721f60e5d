//! Records: the changes of a master's state that outlive the process.

use crate::ids::{ApplicationId, ShuffleId, ShuffleKey, WorkerId};

/// The most properties of an application that are kept.
pub const PROPERTIES_MAX: usize = 64;

/// The most shuffles that one record removes: far less than what a frame of the journal holds.
pub const SHUFFLES_REMOVED_MAX: usize = 4096;

/// One durable change. The state after a restart is what the records in order make of an empty one; applying a record
/// twice is the same as once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// An application was seen for the first time, or said more about itself.
    ApplicationRegistered {
        /// Which.
        application: ApplicationId,
        /// Whose.
        user: User,
        /// What it says about itself, for people.
        properties: Vec<(String, String)>,
        /// When, in milliseconds since 1970.
        at_unix_ms: u64,
    },
    /// An application ended, was silent for too long, or was deleted by hand: all its shuffles go.
    ApplicationRemoved {
        /// Which.
        application: ApplicationId,
        /// When, in milliseconds since 1970.
        at_unix_ms: u64,
        /// Whether it was only not heard. It may be alive, and then its shuffles are still needed.
        silent: bool,
    },
    /// A shuffle was granted slots: its data must be kept.
    ShuffleRegistered {
        /// Which.
        shuffle: ShuffleKey,
        /// When, in milliseconds since 1970.
        at_unix_ms: u64,
    },
    /// Shuffles are no longer needed: their data may go.
    ShufflesRemoved {
        /// Whose.
        application: ApplicationId,
        /// Which, at most [`SHUFFLES_REMOVED_MAX`].
        shuffles: Vec<ShuffleId>,
        /// When, in milliseconds since 1970.
        at_unix_ms: u64,
    },
    /// A worker registered, or registered anew after a restart.
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
        /// Which.
        worker: WorkerId,
        /// When, in milliseconds since 1970.
        at_unix_ms: u64,
        /// Whether it said good-bye; if not it counts as lost.
        left: bool,
    },
    /// Somebody took a worker out of service by hand.
    WorkerExcluded {
        /// Which; it need not be registered.
        worker: WorkerId,
    },
    /// Somebody put a worker back into service by hand.
    WorkerIncluded {
        /// Which.
        worker: WorkerId,
    },
    /// Somebody told a worker to leave for good.
    WorkerDecommissioned {
        /// Which.
        worker: WorkerId,
    },
    /// Somebody told a worker that was to leave to stay.
    WorkerRecommissioned {
        /// Which.
        worker: WorkerId,
    },
    /// A worker that was told to stay works again, or is not waited for any more.
    WorkerStayed {
        /// Which.
        worker: WorkerId,
    },
    /// Somebody cleared a worker from the list of the lost and the gone.
    WorkerForgotten {
        /// Which.
        worker: WorkerId,
    },
}

/// Whose an application is, as quotas and metrics name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The tenant; `default` unless the client says otherwise.
    pub tenant: String,
    /// The user within the tenant.
    pub name: String,
}

impl Default for User {
    fn default() -> Self {
        Self { tenant: "default".to_owned(), name: "default".to_owned() }
    }
}
