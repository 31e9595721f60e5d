//! A shuffle of an application in another process.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::known_routes::KnownRoutes;
use super::link::{Link, strange};
use crate::client::application::state::Beginning;
use crate::client::shared_attempt::SharedAttempt;
use crate::client::tasks::{Files, Source, TaskOptions, Tasks};
use crate::error::{Error, Kind, Result};
use crate::ids::{AttemptId, Epoch, MapId, PartitionId, ShuffleId, ShuffleKey, WorkerId};
use crate::wire::executor::{AVOID_MAX, Answer, Description, Ended, Maps, OPEN_MAPS_MAX, Request, Subject};

/// Shuffle as an executor knows it, and the way to hear more.
pub(in crate::client) struct Remote {
    link: Arc<Link>,
    subject: Subject,
    maps: Maps,
    routes: Mutex<KnownRoutes>,
    /// By partition: a partition's batches ask for a new location once and not each for itself.
    reviving: Vec<SharedAttempt>,
    /// Once the shuffle was committed.
    winners: OnceLock<Arc<[AttemptId]>>,
    /// Why nothing can be done with it any more.
    ended: OnceLock<Error>,
}

impl Remote {
    /// The tasks of a shuffle of this number.
    ///
    /// # Errors
    /// `NotFound` if the application does not have it; `Conflict` if it was unregistered; `Unavailable` if the application
    /// does not answer; `Corrupt` if it does not make sense.
    pub async fn tasks(link: Arc<Link>, shuffle: ShuffleId) -> Result<Tasks> {
        let request = Request::Describe(Subject { life: link.life.clone(), shuffle });
        match link.ask(&request, PartitionId::default()).await? {
            Answer::Description(description) => Self::described(link, shuffle, description),
            _ => Err(strange(&request)),
        }
    }

    /// The tasks of the shuffle that has a name.
    ///
    /// # Errors
    /// Those of the application; `Unavailable` if it does not answer; `Corrupt` if it does not make sense.
    pub async fn open(link: Arc<Link>, name: &str, partitions: u32) -> Result<Tasks> {
        let request = Request::Open { life: link.life.clone(), name: name.to_owned(), partitions };
        match link.ask(&request, PartitionId::default()).await? {
            Answer::Opened { shuffle, description }
                if description.maps == Maps::Open && description.locations.len() == partitions as usize =>
            {
                Self::described(link, shuffle, description)
            }
            _ => Err(strange(&request)),
        }
    }

    /// The tasks of a shuffle that the application has described.
    fn described(link: Arc<Link>, shuffle: ShuffleId, description: Description) -> Result<Tasks> {
        let corrupt = |what: String| Error::new(Kind::Corrupt, format!("shuffle {shuffle} has {what}"));
        let limits = limits(&description, &link)
            .map_err(|error| corrupt(format!("options that make no sense: {error}")).with_source(error))?;
        let routes = KnownRoutes::new(description.locations, description.shunned)
            .ok_or_else(|| corrupt("other locations than one for each partition".to_owned()))?;
        let (maps, partitions) = (description.maps, routes.partitions());
        let subject = Subject { life: link.life.clone(), shuffle };
        let workers = Arc::clone(&link.workers);
        let key = ShuffleKey { application: link.application.clone(), shuffle };
        let remote = Self {
            link,
            subject,
            maps,
            reviving: (0..partitions).map(|_| SharedAttempt::default()).collect(),
            routes: Mutex::new(routes),
            winners: OnceLock::new(),
            ended: OnceLock::new(),
        };
        Ok(Tasks::new(key, maps, partitions, limits, workers, Source::There(Arc::new(remote))))
    }

    /// Locations, as far as they are known.
    pub fn routes(&self) -> MutexGuard<'_, KnownRoutes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses work on a shuffle of which it is known that it was unregistered.
    ///
    /// # Errors
    /// `Conflict` if it was.
    pub fn check(&self) -> Result<()> {
        self.ended.get().map_or(Ok(()), |ended| Err(ended.clone()))
    }

    async fn ask(&self, request: &Request, partition: PartitionId) -> Result<Answer> {
        self.link.ask(request, partition).await
    }

    /// Asks whether the shuffle of which a partition was read is still registered.
    ///
    /// # Errors
    /// `Conflict` if it is not; `Unavailable` if the application does not answer.
    pub async fn confirm(&self, partition: PartitionId) -> Result<()> {
        let request = Request::Files { of: self.subject.clone(), partition, winners: false };
        match self.ask(&request, partition).await {
            Ok(_) => Ok(()),
            Err(error) => {
                if matches!(error.kind(), Kind::Conflict | Kind::NotFound) {
                    let _ = self.ended.set(error.clone());
                }
                Err(error)
            }
        }
    }

    fn reviving(&self, partition: PartitionId) -> &SharedAttempt {
        &self.reviving[partition.0.cast_unsigned() as usize]
    }

    /// True if a new location for the partition is being asked for.
    pub fn is_reviving(&self, partition: PartitionId) -> bool {
        self.reviving(partition).is_running()
    }

    /// True if the partition has a location that is newer than `epoch`; one that is being asked for is waited for.
    pub async fn has_moved_on(&self, partition: PartitionId, epoch: Epoch) -> bool {
        self.reviving(partition).settled().await;
        self.routes().newer_than(partition, epoch).is_some()
    }

    /// Asks for a location of the partition that is newer than `epoch`, unless one is known. Returns whether it was made
    /// for this call.
    ///
    /// # Errors
    /// `Unavailable` if there is no worker for it, or the application does not answer; `Conflict` if the shuffle's commit
    /// has begun or it was unregistered.
    pub async fn revive(
        self: &Arc<Self>,
        partition: PartitionId,
        epoch: Epoch,
        avoid: &[WorkerId],
    ) -> Result<bool> {
        let is_there = || self.routes().newer_than(partition, epoch).map(|_| false);
        let ask = || {
            let remote = Arc::clone(self);
            let avoid = avoid.iter().take(AVOID_MAX).cloned().collect();
            let request = Request::Revive { of: self.subject.clone(), partition, epoch, avoid };
            Ok(async move { remote.ask_for_location(&request, partition, epoch).await })
        };
        self.reviving(partition).run(is_there, ask).await
    }

    async fn ask_for_location(
        &self,
        request: &Request,
        partition: PartitionId,
        epoch: Epoch,
    ) -> Result<bool> {
        let Answer::Revived { location, made, shunned } = self.ask(request, partition).await? else {
            return Err(strange(request));
        };
        let is_newer = location.id.partition == partition && location.id.epoch > epoch;
        if is_newer && self.routes().learn(location, shunned) { Ok(made) } else { Err(strange(request)) }
    }

    /// Begins an attempt of a map, unless the map has ended.
    ///
    /// # Errors
    /// Those of the application; `Unavailable` if it does not answer.
    pub async fn begin(&self, map: MapId, attempt: Option<AttemptId>) -> Result<Beginning> {
        let (of, name) = (self.subject.clone(), self.link.request_name());
        let request = Request::Begin { of, map, attempt, request: name };
        match self.ask(&request, PartitionId::default()).await? {
            Answer::Begun(begun) if attempt.is_none_or(|attempt| attempt == begun) => {
                Ok(Beginning::Begun(begun))
            }
            Answer::EndedBefore(ended) => Ok(Beginning::Ended(ended)),
            _ => Err(strange(&request)),
        }
    }

    /// Ends a map with an attempt.
    ///
    /// # Errors
    /// Those of the application; `Unavailable` if it does not answer.
    pub async fn end(&self, map: MapId, attempt: AttemptId, summary: Bytes) -> Result<Ended> {
        let request = Request::End { of: self.subject.clone(), map, attempt, summary };
        match self.ask(&request, PartitionId::default()).await? {
            Answer::Ended(ended) => Ok(ended),
            _ => Err(strange(&request)),
        }
    }

    /// Files in which a partition can be read.
    ///
    /// # Errors
    /// Those of the application; `Unavailable` if it does not answer.
    pub async fn files(&self, partition: PartitionId) -> Result<Files> {
        let known = self.winners.get();
        let request = Request::Files { of: self.subject.clone(), partition, winners: known.is_none() };
        let Answer::Files { files, winners } = self.ask(&request, partition).await? else {
            return Err(strange(&request));
        };
        let winners = match known {
            Some(known) => Arc::clone(known),
            None if self.has_winners(winners.len()) => {
                Arc::clone(self.winners.get_or_init(|| winners.into()))
            }
            None => return Err(strange(&request)),
        };
        Ok(Files { files, winners })
    }

    /// True if a committed shuffle may have so many winners.
    fn has_winners(&self, winners: usize) -> bool {
        match self.maps {
            Maps::Fixed(maps) => winners == maps as usize,
            Maps::Open => winners <= OPEN_MAPS_MAX as usize,
        }
    }
}

/// The limits of tasks: what workers rely on as the application says, the others as the executor does.
fn limits(description: &Description, link: &Link) -> Result<TaskOptions> {
    let number = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
    let limits = TaskOptions {
        window: number(description.window),
        merge_len: number(description.merge_len),
        revives_max: number(description.revives_max),
        push_max: u64::try_from(description.push_max_ms).map_or(Duration::MAX, Duration::from_millis),
        request_max: link.options.request_max,
        retry_wait: link.options.retry_wait,
        chunks_ahead: link.options.chunks_ahead,
    };
    limits.check().map(|()| limits)
}
