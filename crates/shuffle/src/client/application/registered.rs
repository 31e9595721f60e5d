//! A registered shuffle as its application has it: reserves and revives its locations on workers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tracing::debug;

use super::Heartbeat;
use super::commit::Progress;
use super::fate::Committed;
use super::session::Session;
use super::state::{Stage, State, ended};
use crate::client::shared_attempt::SharedAttempt;
use crate::client::tasks::Files;
use crate::error::{Error, Kind, Result};
use crate::ids::{Epoch, Mode, PartitionId, ShuffleKey, WorkerId};
use crate::wire::message::{Receivable, Typed};
use crate::wire::packed::Location;
use crate::wire::{Received, Status, proto, received};

/// A registered shuffle.
pub(in crate::client) struct Registered {
    pub session: Arc<Session>,
    /// It goes on for as long as there is a clone of the shuffle.
    _heartbeat: Arc<Heartbeat>,
    pub key: ShuffleKey,
    state: Mutex<State>,
    pub(super) number: Arc<RwLock<Number>>,
    /// By partition: a partition's batches wait for one attempt to make a location and not for many.
    reviving: Vec<SharedAttempt>,
    committing: SharedAttempt,
    /// Held while workers are asked to commit.
    pub(super) progress: tokio::sync::Mutex<Progress>,
}

/// State of a registration's hold on its shuffle id. The next one may reuse it, and then names the same locations on
/// the same workers: the lock is held for reading while anything is sent to workers under the id, and for writing while
/// it is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::client) enum Number {
    /// This registration owns it.
    Held,
    /// It was released to the master.
    GivenBack,
}

/// Keeps a shuffle's id from being released.
pub(in crate::client) type InUse = OwnedRwLockReadGuard<Number>;

/// Times that workers are asked to take locations, other ones each time if there are any.
pub(super) const RESERVE_ROUNDS: u32 = 3;

/// Both copies of locations, by the workers that hold them.
fn by_worker(locations: &[Location]) -> BTreeMap<WorkerId, Vec<Location>> {
    let mut by_worker: BTreeMap<WorkerId, Vec<Location>> = BTreeMap::new();
    for copy in locations.iter().flat_map(Location::copies) {
        by_worker.entry(copy.worker.clone()).or_default().push(copy);
    }
    by_worker
}

pub(super) fn no_workers(refused: &BTreeMap<WorkerId, String>) -> Error {
    let reasons: Vec<_> = refused.iter().map(|(worker, reason)| format!("{worker}: {reason}")).collect();
    let reasons = if reasons.is_empty() { "too few stay".to_owned() } else { reasons.join("; ") };
    Error::new(Kind::Unavailable, format!("no worker is left for a location: {reasons}"))
}

impl Registered {
    /// A shuffle whose first locations are not reserved yet.
    pub fn new(session: Arc<Session>, heartbeat: Arc<Heartbeat>, state: State, key: ShuffleKey) -> Self {
        Self {
            session,
            _heartbeat: heartbeat,
            key,
            number: Arc::new(RwLock::new(Number::Held)),
            reviving: (0..state.routes.partitions()).map(|_| SharedAttempt::default()).collect(),
            state: Mutex::new(state),
            committing: SharedAttempt::default(),
            progress: tokio::sync::Mutex::default(),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the shuffle's id from being released for as long as the result lives, while something is sent to workers.
    ///
    /// # Errors
    /// `Conflict` if the shuffle was unregistered.
    pub fn enter(&self) -> Result<InUse> {
        let number = self.number.clone().try_read_owned().map_err(|_| ended(&self.key))?;
        self.state().check()?;
        Ok(number)
    }

    /// Ends all work on the shuffle, before it is unregistered: it fails as `Conflict` from here on, and executors do not
    /// find it.
    pub(super) fn end(self: &Arc<Self>) {
        self.state().stage = Stage::Ended;
        self.session.forget(self);
    }

    /// Runs a background task for the shuffle. Only the release of its id waits for it.
    pub fn spawn(&self, what: impl Future<Output = ()> + Send + 'static) {
        if let Ok(in_use) = self.enter() {
            tokio::spawn(async move {
                what.await;
                drop(in_use);
            });
        }
    }

    /// Locations that each partition's next batch goes to.
    pub fn current_locations(&self) -> Vec<Location> {
        let state = self.state();
        let partitions = 0..state.routes.partitions();
        partitions.map(|at| state.routes.current(PartitionId(at as i32)).clone()).collect()
    }

    /// Destroys locations that nothing was pushed to, on all their workers but those that did not take them. A worker
    /// that is not reached keeps them for as long as the shuffle.
    pub(super) fn destroy(&self, locations: &[Location], refused: &BTreeMap<WorkerId, String>) {
        for (worker, copies) in by_worker(locations) {
            if refused.contains_key(&worker) {
                continue;
            }
            let ids = |mode| {
                let copies = copies.iter().filter(|copy| copy.mode == mode);
                copies.map(|copy| copy.id.to_string()).collect()
            };
            let request = proto::DestroyWorkerSlots {
                shuffle_key: self.key.to_string(),
                primary_locations: ids(Mode::Primary),
                replica_location: ids(Mode::Replica),
                mock_failure: false,
            };
            let session = self.session.clone();
            self.spawn(async move {
                type Answer = received::DestroyWorkerSlotsResponse;
                if let Err(error) = session.ask_worker::<_, Answer>(&worker, &request).await {
                    debug!(shuffle = %request.shuffle_key, %worker, ?error, "a worker keeps unused locations");
                }
            });
        }
    }

    /// Sends a worker a request under the shuffle's id, at once. It runs to its end even if nobody waits for the answer
    /// any more: until then the id is not free.
    ///
    /// # Errors
    /// `Conflict` if the shuffle was unregistered.
    pub fn ask_worker<Q, A>(
        &self,
        worker: &WorkerId,
        request: Q,
    ) -> Result<impl Future<Output = Result<Received<A>>> + use<Q, A>>
    where
        Q: Typed + 'static,
        A: Receivable + 'static,
    {
        let (in_use, session, worker) = (self.enter()?, self.session.clone(), worker.clone());
        let asking = tokio::spawn(async move {
            let answer = session.ask_worker(&worker, &request).await;
            drop(in_use);
            answer
        });
        Ok(async move {
            asking.await.unwrap_or_else(|error| {
                Err(Error::new(Kind::Internal, "a request did not end").with_source(error))
            })
        })
    }

    /// Reserves locations with their copies. Returns the workers that did not take theirs, and why.
    ///
    /// # Errors
    /// `Conflict` if the shuffle was unregistered.
    pub(super) async fn reserve(&self, locations: &[Location]) -> Result<BTreeMap<WorkerId, String>> {
        let mut asked = Vec::new();
        for (worker, mut copies) in by_worker(locations) {
            copies.sort_by_key(|copy| (copy.mode, copy.id));
            let options = &self.session.options;
            // With copies, each of the two workers has half of the time: a primary whose replica is silent has to be able
            // to say so, before it is taken for the silent one itself.
            let push_max = options.push_max / if options.replicate { 2 } else { 1 };
            let request = proto::ReserveSlots {
                application_id: self.key.application.to_string(),
                shuffle_id: self.key.shuffle.0,
                split_threshold: options.split_threshold,
                split_mode: options.split_mode.to_wire(),
                push_data_timeout: i64::try_from(push_max.as_millis()).unwrap_or(i64::MAX),
                partition_split_enabled: true,
                partition_locations_pair: Some(Location::pack(&copies)),
                ..Default::default()
            };
            let answer = self.ask_worker::<_, received::ReserveSlotsResponse>(&worker, request)?;
            asked.push((worker, answer));
        }
        let mut refused = BTreeMap::new();
        for (worker, answer) in asked {
            let refusal = match answer.await {
                Ok(answer) if answer.status == Status::Success.code() => continue,
                Ok(answer) => format!("status {} {}", answer.status, answer.reason),
                Err(error) => error.to_string(),
            };
            refused.insert(worker, refusal);
        }
        Ok(refused)
    }

    /// Excludes workers before round `round`. If there are too few others, they are given time to come back.
    pub(super) async fn exclude(&self, workers: impl Iterator<Item = &WorkerId> + Send, round: u32) {
        let is_short = {
            let routes = &mut self.state().routes;
            workers.for_each(|worker| routes.exclude(worker));
            routes.is_short()
        };
        if is_short && round > 0 {
            self.session.wait_to_retry(round).await;
        }
    }

    /// Takes a reserved location into use, unless a commit has begun meanwhile, which does not know it.
    fn adopt(&self, location: Location) -> Result<()> {
        let mut state = self.state();
        state.check_writing()?;
        state.routes.adopt(location);
        Ok(())
    }

    /// The creation of new locations for a partition.
    fn reviving(&self, partition: PartitionId) -> &SharedAttempt {
        &self.reviving[partition.0.cast_unsigned() as usize]
    }

    /// True if a new location for the partition is being made.
    pub fn is_reviving(&self, partition: PartitionId) -> bool {
        self.reviving(partition).is_running()
    }

    /// True if the partition has a location that is newer than `epoch`; one that is being made is waited for.
    pub async fn has_moved_on(&self, partition: PartitionId, epoch: Epoch) -> bool {
        self.reviving(partition).settled().await;
        self.state().routes.newer_than(partition, epoch).is_some()
    }

    /// Ensures that the partition has a location that is newer than `epoch`; `avoid` gets no more locations of this
    /// shuffle, as long as there are other workers. Returns whether this call made it, and not one before.
    ///
    /// # Errors
    /// `Unavailable` if there is no worker for it; `Conflict` if the shuffle's commit has begun or it was unregistered.
    pub async fn revive(
        self: &Arc<Self>,
        partition: PartitionId,
        epoch: Epoch,
        avoid: &[WorkerId],
    ) -> Result<bool> {
        let is_there = || self.state().routes.newer_than(partition, epoch).map(|_| false);
        // The push may be given up meanwhile, and what a worker has reserved by then is taken into use or destroyed.
        // Otherwise the worker would wait for its commit before it stops.
        let make = || {
            let (registered, avoid, in_use) = (Arc::clone(self), avoid.to_vec(), self.enter()?);
            Ok(async move {
                let made = registered.make_location(partition, &avoid).await;
                drop(in_use);
                made.map(|()| true)
            })
        };
        self.reviving(partition).run(is_there, make).await
    }

    /// Commits the shuffle, if that was not done before.
    ///
    /// # Errors
    /// `Unavailable` if a worker that has the only copy of a location cannot be reached, after several attempts;
    /// `DataLoss` if no worker has one; `Conflict` if the shuffle was unregistered.
    pub async fn commit(self: &Arc<Self>) -> Result<Arc<Committed>> {
        let is_done = || match &self.state().stage {
            Stage::Committed(committed) => Some(Arc::clone(committed)),
            _ => None,
        };
        let commit = || {
            let (registered, in_use) = (Arc::clone(self), self.enter()?);
            Ok(async move {
                let committed = Arc::new(Committed::commit(&registered).await?);
                let mut state = registered.state();
                state.check()?;
                state.stage = Stage::Committed(Arc::clone(&committed));
                drop(in_use);
                Ok(committed)
            })
        };
        self.committing.run(is_done, commit).await
    }

    /// Files in which a partition can be read, and the winners. Commits the shuffle before, if all maps have ended.
    ///
    /// # Errors
    /// `Invalid` for a partition that does not exist; `Conflict` if a map has not ended; or those of
    /// [`Registered::commit`].
    pub async fn files(self: &Arc<Self>, partition: PartitionId) -> Result<Files> {
        {
            let state = self.state();
            state.check_partition(partition)?;
            state.check_readable()?;
        }
        Ok(Files::of(&*self.commit().await?, partition))
    }

    /// Makes a new location for the partition; when some workers do not take it, tries others.
    async fn make_location(&self, partition: PartitionId, avoid: &[WorkerId]) -> Result<()> {
        let mut refused = BTreeMap::new();
        for round in 0..RESERVE_ROUNDS {
            self.state().check_writing()?;
            self.exclude(avoid.iter().chain(refused.keys()), round).await;
            let draw = self.session.number().cast_unsigned();
            let proposed =
                self.state().routes.propose(partition, draw).ok_or_else(|| no_workers(&refused))?;
            refused = self.reserve(std::slice::from_ref(&proposed)).await?;
            if refused.is_empty() {
                let adopted = self.adopt(proposed.clone());
                if adopted.is_err() {
                    self.destroy(std::slice::from_ref(&proposed), &refused);
                }
                return adopted;
            }
            self.destroy(&[proposed], &refused);
        }
        Err(no_workers(&refused))
    }
}
