//! What tasks ask their application: in the same process, or over a connection.

use std::sync::Arc;

use bytes::Bytes;

use super::Files;
use crate::client::application::registered::{self, Registered};
use crate::client::application::state::Beginning;
use crate::client::executor::Remote;
use crate::error::Result;
use crate::ids::{AttemptId, Epoch, MapId, PartitionId, WorkerId};
use crate::wire::executor::Ended;
use crate::wire::packed::Location;

/// Source from which tasks find out what an application knows of their shuffle.
pub(in crate::client) enum Source {
    /// The application is this process.
    Here(Arc<Registered>),
    /// It is another process.
    There(Arc<Remote>),
}

/// Keeps the id of a shuffle from being released, where that is needed: an application does not use an id again of which
/// an executor has heard.
pub(in crate::client) enum InUse {
    Here { _number: registered::InUse },
    There,
}

impl Source {
    /// Refuses work on a shuffle of which it is known that it was unregistered.
    ///
    /// # Errors
    /// `Conflict` if it was.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Here(registered) => registered.state().check(),
            Self::There(remote) => remote.check(),
        }
    }

    /// Asks whether the shuffle of which a partition was read is still registered.
    ///
    /// # Errors
    /// `Conflict` if it is not; `Unavailable` if the application does not answer.
    pub async fn confirm(&self, partition: PartitionId) -> Result<()> {
        match self {
            Self::Here(registered) => registered.state().check(),
            Self::There(remote) => remote.confirm(partition).await,
        }
    }

    /// Keeps the shuffle's id from being released for as long as the result lives, while something is sent to workers.
    ///
    /// # Errors
    /// `Conflict` if the shuffle was unregistered.
    pub fn enter(&self) -> Result<InUse> {
        match self {
            Self::Here(registered) => registered.enter().map(|number| InUse::Here { _number: number }),
            Self::There(remote) => remote.check().map(|()| InUse::There),
        }
    }

    /// Location that the next batch of a partition goes to.
    pub fn current(&self, partition: PartitionId) -> Location {
        match self {
            Self::Here(registered) => registered.state().routes.current(partition).clone(),
            Self::There(remote) => remote.routes().current(partition).clone(),
        }
    }

    /// The same for several partitions at once.
    pub fn currents(&self, partitions: impl Iterator<Item = PartitionId>) -> Vec<Location> {
        match self {
            Self::Here(registered) => {
                let state = registered.state();
                partitions.map(|partition| state.routes.current(partition).clone()).collect()
            }
            Self::There(remote) => {
                let routes = remote.routes();
                partitions.map(|partition| routes.current(partition).clone()).collect()
            }
        }
    }

    /// True if the partition has a newer location than this one, and true if batches should move away from its worker.
    ///
    /// # Errors
    /// `Conflict` if the shuffle was unregistered.
    pub fn standing(&self, location: &Location) -> Result<(bool, bool)> {
        let (partition, epoch, worker) = (location.id.partition, location.id.epoch, &location.worker);
        self.check()?;
        Ok(match self {
            Self::Here(registered) => {
                let routes = &registered.state().routes;
                (routes.newer_than(partition, epoch).is_some(), routes.shuns(worker))
            }
            Self::There(remote) => {
                let routes = remote.routes();
                (routes.newer_than(partition, epoch).is_some(), routes.shuns(worker))
            }
        })
    }

    /// True if a new location for the partition is being made for tasks of this process.
    pub fn is_reviving(&self, partition: PartitionId) -> bool {
        match self {
            Self::Here(registered) => registered.is_reviving(partition),
            Self::There(remote) => remote.is_reviving(partition),
        }
    }

    /// True if the partition has a location that is newer than `epoch`; one that is being made is waited for.
    pub async fn has_moved_on(&self, partition: PartitionId, epoch: Epoch) -> bool {
        match self {
            Self::Here(registered) => registered.has_moved_on(partition, epoch).await,
            Self::There(remote) => remote.has_moved_on(partition, epoch).await,
        }
    }

    /// Ensures that the partition has a location that is newer than `epoch`; `avoid` gets no more locations of this
    /// shuffle, as long as there are other workers. Returns whether this call made it, and not one before.
    ///
    /// # Errors
    /// `Unavailable` if there is no worker for it, or the application does not answer; `Conflict` if the shuffle's commit
    /// has begun or it was unregistered.
    pub async fn revive(&self, partition: PartitionId, epoch: Epoch, avoid: &[WorkerId]) -> Result<bool> {
        match self {
            Self::Here(registered) => registered.revive(partition, epoch, avoid).await,
            Self::There(remote) => remote.revive(partition, epoch, avoid).await,
        }
    }

    /// Begins an attempt of a map, with a number that was not used if none is given, unless the map has ended.
    ///
    /// # Errors
    /// `Invalid` for a map or an attempt that does not exist; `Conflict` for an attempt that has begun before, or if the
    /// shuffle's commit has begun or it was unregistered; `Unavailable` if the application does not answer.
    pub async fn begin(&self, map: MapId, attempt: Option<AttemptId>) -> Result<Beginning> {
        match self {
            Self::Here(registered) => registered.state().begin(map, attempt, 0),
            Self::There(remote) => remote.begin(map, attempt).await,
        }
    }

    /// Ends a map with an attempt whose batches workers have. Returns the end that counts.
    ///
    /// # Errors
    /// `Conflict` if the shuffle was unregistered, or its commit has begun without this map; `ResourceExhausted` if its
    /// summaries are too long together; `Unavailable` if the application does not answer.
    pub async fn end(&self, map: MapId, attempt: AttemptId, summary: Bytes) -> Result<Ended> {
        match self {
            Self::Here(registered) => registered.state().end(map, attempt, &summary),
            Self::There(remote) => remote.end(map, attempt, summary).await,
        }
    }

    /// Files in which a partition can be read. The application commits the shuffle before, once for all who ask.
    ///
    /// # Errors
    /// `Conflict` if a map has not ended or the shuffle was unregistered; `DataLoss` if a location is lost on all of its
    /// workers; `Unavailable` if one that has the only copy, or the application, does not answer.
    pub async fn files(&self, partition: PartitionId) -> Result<Files> {
        match self {
            Self::Here(registered) => registered.files(partition).await,
            Self::There(remote) => remote.files(partition).await,
        }
    }
}
