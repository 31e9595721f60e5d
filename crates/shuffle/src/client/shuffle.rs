//! A registered shuffle: reserves and revives its locations, and records the winning attempts of its maps.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeBounds;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedRwLockReadGuard, RwLock, Semaphore};
use tracing::debug;

use super::application::{Application, RETRIES_MAX, Session};
use super::commit::{Committed, Progress};
use super::reader::Reader;
use super::routes::Routes;
use super::writer::Writer;
use crate::error::{Error, Kind, Result};
use crate::ids::{AttemptId, Epoch, MapId, Mode, PartitionId, ShuffleId, ShuffleKey, WorkerId};
use crate::wire::message::{Receivable, Typed};
use crate::wire::packed::Location;
use crate::wire::received::request_slots_response::PackedWorkerResourceEntry;
use crate::wire::{Received, Status, proto, received};

/// A registered shuffle. Cheap to clone. Its data and its id stay with the service until [`Shuffle::unregister`] or the
/// end of the application, even when all clones are dropped.
#[derive(Clone)]
pub struct Shuffle {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub session: Arc<Session>,
    /// Its heartbeat goes on for as long as there is a clone of the shuffle.
    _application: Application,
    pub key: ShuffleKey,
    state: Mutex<State>,
    number: Arc<RwLock<Number>>,
    /// By partition.
    reviving: Vec<Reviving>,
    windows: Mutex<HashMap<WorkerId, Arc<Semaphore>>>,
    /// Held while workers are asked to commit.
    pub progress: tokio::sync::Mutex<Progress>,
}

/// The creation of new locations for a partition.
#[derive(Default)]
struct Reviving {
    /// Attempts that failed.
    failures: AtomicUsize,
    /// The error of the last attempt that failed. Locked during an attempt, so that the partition's batches wait for
    /// one and not for many.
    failure: Arc<tokio::sync::Mutex<Option<Error>>>,
}

/// Whether this registration still owns its shuffle id. The next one may reuse it, and then names the same locations on
/// the same workers: the lock is held for reading while anything is sent to workers under the id, and for writing while
/// it is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    /// This registration owns it.
    Held,
    /// It was released to the master.
    GivenBack,
}

/// Keeps a shuffle's id from being released.
pub(super) type InUse = OwnedRwLockReadGuard<Number>;

/// How far a shuffle has come.
#[derive(Debug, Clone)]
pub(super) enum Stage {
    /// Maps write.
    Writing,
    /// A commit has recorded the locations and the winners: there will be no others.
    Committing,
    Committed(Arc<Committed>),
    /// It was unregistered: nothing more may be sent to workers under its id.
    Ended,
}

pub(super) struct State {
    pub routes: Routes,
    /// By map id: the attempt that ended first.
    pub winners: Vec<AttemptId>,
    /// The attempts that have had a writer.
    pub begun: BTreeSet<(MapId, AttemptId)>,
    pub stage: Stage,
}

impl State {
    /// By partition, all its locations; and the winners so far.
    pub fn to_commit(&self) -> (Vec<Vec<Location>>, Vec<AttemptId>) {
        let partitions = 0..self.routes.partitions();
        let locations = partitions.map(|at| self.routes.all(PartitionId(at as i32)).to_vec());
        (locations.collect(), self.winners.clone())
    }
}

impl Shuffle {
    pub(super) async fn register(
        application: Application,
        shuffle: ShuffleId,
        maps: usize,
        partitions: usize,
    ) -> Result<Self> {
        let too_many = |what| Error::new(Kind::Invalid, format!("{what} are too many for one shuffle"));
        let count = i32::try_from(partitions).map_err(|_| too_many(format!("{partitions} partitions")))?;
        i32::try_from(maps).map_err(|_| too_many(format!("{maps} maps")))?;
        let session = application.session();
        let options = &session.options;
        session.check_free(shuffle)?;
        let answer = ask_for_slots(session, shuffle, count).await?;
        let mut candidates = Vec::new();
        let mut primaries = Vec::new();
        for entry in answer.messages(received::RequestSlotsResponse::PACKED_WORKER_RESOURCE) {
            let entry = entry?;
            candidates.push(entry.key.parse()?);
            let resource = entry.part(PackedWorkerResourceEntry::VALUE)?.unwrap_or_default();
            let pair = resource.part(received::PackedWorkerResource::LOCATION_PAIRS)?.unwrap_or_default();
            Location::unpack(&pair, |location| {
                if location.mode == Mode::Primary {
                    primaries.push(location);
                }
            })?;
        }
        use_one_address(&mut candidates, &mut primaries);
        let routes = Routes::new(primaries, partitions, candidates, options.replicate).ok_or_else(|| {
            Error::new(Kind::Internal, "the master did not give one place to each partition")
        })?;
        // Not before: a registration that is cancelled until here has left nothing on workers.
        session.hold(shuffle)?;
        let key = ShuffleKey { application: session.id.clone(), shuffle };
        let winners = vec![AttemptId::NONE; maps];
        let state = Mutex::new(State { routes, winners, begun: BTreeSet::new(), stage: Stage::Writing });
        let number = Arc::new(RwLock::new(Number::Held));
        let reviving = (0..partitions).map(|_| Reviving::default()).collect();
        let (session, windows, progress) = (session.clone(), Mutex::default(), tokio::sync::Mutex::default());
        let _application = application;
        let inner = Inner { session, _application, key, state, number, reviving, windows, progress };
        let shuffle = Self { inner: Arc::new(inner) };
        match shuffle.reserve_all().await {
            Ok(()) => {
                shuffle.inner.session.remember(&shuffle.inner);
                Ok(shuffle)
            }
            Err(error) => {
                // Awaited: arriving later, it would end the next registration of the same id. What was reserved ends
                // with the shuffle.
                if let Err(error) = shuffle.clone().unregister().await {
                    debug!(shuffle = %shuffle.inner.key, ?error, "a master keeps a shuffle without locations");
                }
                Err(error)
            }
        }
    }

    /// A writer for one attempt of one map task. If there is no such map or attempt, the writer has failed as
    /// `Invalid`; if the attempt has had a writer before, whatever became of that, it has failed as `Conflict`.
    pub fn writer(&self, map: MapId, attempt: AttemptId) -> Writer {
        Writer::new(self.clone(), map, attempt)
    }

    /// Makes everything that was pushed readable, and allows no more pushes.
    ///
    /// # Errors
    /// `Unavailable` if a worker that has the only copy of a location cannot be reached, after several attempts;
    /// `DataLoss` if no worker has one; `Conflict` if the shuffle was unregistered.
    pub async fn commit(&self) -> Result<()> {
        let _in_use = self.inner.enter()?;
        let committed = Committed::commit(&self.inner).await?;
        let mut state = self.inner.state();
        self.inner.check(&state)?;
        state.stage = Stage::Committed(Arc::new(committed));
        Ok(())
    }

    /// Reads a partition's batches of a range of map ids, in no order.
    ///
    /// # Errors
    /// `Conflict` before [`Shuffle::commit`] and after [`Shuffle::unregister`], `Invalid` for a partition that does not exist.
    pub fn reader(&self, partition: PartitionId, maps: impl RangeBounds<i32>) -> Result<Reader> {
        Reader::new(self, partition, maps)
    }

    /// The worker that a partition's next batch goes to.
    ///
    /// # Panics
    /// If there is no such partition.
    pub fn primary(&self, partition: PartitionId) -> WorkerId {
        self.inner.state().routes.current(partition).worker.clone()
    }

    /// How many locations a partition has had: one, and one more for each split or failure.
    ///
    /// # Panics
    /// If there is no such partition.
    pub fn locations(&self, partition: PartitionId) -> usize {
        self.inner.state().routes.all(partition).len()
    }

    /// Gives the shuffle up: the service deletes its data, and its id is free. Anything still done with it fails as
    /// `Conflict`. Requests in flight to workers are waited for, as long as they may take: they would meet the next
    /// registration of the id there.
    ///
    /// # Errors
    /// `Unavailable` if no master answers; the id is not free then.
    pub async fn unregister(self) -> Result<()> {
        let inner = &self.inner;
        inner.state().stage = Stage::Ended;
        let session = &inner.session;
        session.forget(inner);
        let mut number = inner.number.write().await;
        if *number == Number::GivenBack {
            return Ok(());
        }
        let request = proto::UnregisterShuffle {
            app_id: session.id.to_string(),
            shuffle_id: inner.key.shuffle.0,
            request_id: session.request_id(),
        };
        session.ask_master::<_, received::UnregisterShuffleResponse>(&request).await?;
        session.give_back(inner.key.shuffle);
        *number = Number::GivenBack;
        Ok(())
    }

    /// Reserves the first locations on their workers, and other ones for those whose workers do not take them.
    async fn reserve_all(&self) -> Result<()> {
        let _in_use = self.inner.enter()?;
        let mut wanted = self.inner.current_locations();
        let mut refused = self.inner.reserve(&wanted).await?;
        for round in 1..RESERVE_ROUNDS {
            if refused.is_empty() {
                break;
            }
            debug!(shuffle = %self.inner.key, round, ?refused, "workers did not take their locations");
            wanted.retain(|location| {
                refused.contains_key(&location.worker)
                    || location.peer.as_ref().is_some_and(|peer| refused.contains_key(peer))
            });
            self.inner.destroy(&wanted, &refused);
            self.inner.exclude(refused.keys(), round).await;
            for location in &mut wanted {
                let draw = self.inner.session.number().cast_unsigned();
                let mut state = self.inner.state();
                let proposed =
                    state.routes.propose(location.id.partition, draw).ok_or_else(|| no_workers(&refused))?;
                state.routes.replace(location.id, proposed.clone());
                *location = proposed;
            }
            refused = self.inner.reserve(&wanted).await?;
        }
        if refused.is_empty() { Ok(()) } else { Err(no_workers(&refused)) }
    }
}

/// How often workers are asked to take locations, other ones each time if there are any.
const RESERVE_ROUNDS: u32 = 3;

/// Asks the master for a location of each partition.
async fn ask_for_slots(
    session: &Session,
    shuffle: ShuffleId,
    partitions: i32,
) -> Result<Received<received::RequestSlotsResponse>> {
    let mut retries = 0;
    loop {
        let request = proto::RequestSlots {
            application_id: session.id.to_string(),
            shuffle_id: shuffle.0,
            partition_id_list: (0..partitions).collect(),
            hostname: "localhost".to_owned(),
            should_replicate: session.options.replicate,
            request_id: session.request_id(),
            max_workers: session.options.workers_max,
            packed: true,
            ..Default::default()
        };
        let answer: Received<received::RequestSlotsResponse> = session.ask_master(&request).await?;
        if answer.status == Status::Success.code() {
            return Ok(answer);
        }
        // These may pass: a worker comes back, or has yet to delete what was unregistered under this id.
        let passes = [Status::WorkerExcluded, Status::SlotNotAvailable].map(Status::code);
        if retries == RETRIES_MAX || !passes.contains(&answer.status) {
            let text = format!("the master has no places for shuffle {shuffle}: status {}", answer.status);
            return Err(Error::new(Kind::ResourceExhausted, text).with_hint("start workers, or wait for one"));
        }
        retries += 1;
        session.wait_to_retry(retries).await;
    }
}

/// A worker that takes pushes on several ports is listed once for each, for clients with a limit per address. Ours has
/// a limit per worker and merges what goes to it, so the first address serves for all.
pub(super) fn use_one_address(candidates: &mut Vec<WorkerId>, primaries: &mut [Location]) {
    let listener = |worker: &WorkerId| {
        let WorkerId { host, rpc_port, push_port: _, fetch_port, replicate_port } = worker;
        (host.clone(), *rpc_port, *fetch_port, *replicate_port)
    };
    let mut first = HashMap::new();
    for worker in candidates.iter() {
        first.entry(listener(worker)).or_insert_with(|| worker.clone());
    }
    candidates.retain(|worker| first.get(&listener(worker)) == Some(worker));
    for location in primaries {
        if let Some(worker) = first.get(&listener(&location.worker)) {
            location.worker = worker.clone();
        }
    }
}

/// Both copies of locations, by the workers that hold them.
fn by_worker(locations: &[Location]) -> BTreeMap<WorkerId, Vec<Location>> {
    let mut by_worker: BTreeMap<WorkerId, Vec<Location>> = BTreeMap::new();
    for copy in locations.iter().flat_map(Location::copies) {
        by_worker.entry(copy.worker.clone()).or_default().push(copy);
    }
    by_worker
}

fn no_workers(refused: &BTreeMap<WorkerId, String>) -> Error {
    let reasons: Vec<_> = refused.iter().map(|(worker, reason)| format!("{worker}: {reason}")).collect();
    let reasons = if reasons.is_empty() { "too few stay".to_owned() } else { reasons.join("; ") };
    Error::new(Kind::Unavailable, format!("no worker is left for a location: {reasons}"))
}

impl Inner {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the locations and the winners for the commit of the whole shuffle: from here on there are no others.
    ///
    /// # Errors
    /// `Conflict` if the shuffle was unregistered.
    pub fn close(&self) -> Result<(Vec<Vec<Location>>, Vec<AttemptId>)> {
        let mut state = self.state();
        self.check(&state)?;
        if matches!(state.stage, Stage::Writing) {
            state.stage = Stage::Committing;
        }
        Ok(state.to_commit())
    }

    /// Refuses changes to a shuffle once its commit has begun.
    ///
    /// # Errors
    /// `Conflict` if it has, or if the shuffle was unregistered.
    pub fn check_writing(&self, state: &State) -> Result<()> {
        self.check(state)?;
        match state.stage {
            Stage::Writing => Ok(()),
            _ => Err(Error::new(Kind::Conflict, format!("the commit of shuffle {} has begun", self.key))),
        }
    }

    /// Refuses work on a shuffle that was unregistered.
    ///
    /// # Errors
    /// `Conflict` if it was.
    pub fn check(&self, state: &State) -> Result<()> {
        match state.stage {
            Stage::Ended => Err(self.ended()),
            _ => Ok(()),
        }
    }

    fn ended(&self) -> Error {
        Error::new(Kind::Conflict, format!("shuffle {} was unregistered", self.key))
    }

    /// Keeps the shuffle's id from being released for as long as the result lives, while something is sent to workers.
    ///
    /// # Errors
    /// `Conflict` if the shuffle was unregistered.
    pub fn enter(&self) -> Result<InUse> {
        let number = self.number.clone().try_read_owned().map_err(|_| self.ended())?;
        self.check(&self.state())?;
        Ok(number)
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

    /// The window of a worker: the permits for batches in flight to it.
    pub fn window(&self, worker: &WorkerId) -> Arc<Semaphore> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        match windows.get(worker) {
            Some(window) => window.clone(),
            None => {
                let window = Arc::new(Semaphore::new(self.session.options.window));
                windows.entry(worker.clone()).or_insert(window).clone()
            }
        }
    }

    /// Where each partition's next batch goes.
    fn current_locations(&self) -> Vec<Location> {
        let state = self.state();
        let partitions = 0..state.routes.partitions();
        partitions.map(|at| state.routes.current(PartitionId(at as i32)).clone()).collect()
    }

    /// Destroys locations that nothing was pushed to, on all their workers but those that did not take them. A worker
    /// that is not reached keeps them for as long as the shuffle.
    fn destroy(&self, locations: &[Location], refused: &BTreeMap<WorkerId, String>) {
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
    async fn reserve(&self, locations: &[Location]) -> Result<BTreeMap<WorkerId, String>> {
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
    async fn exclude(&self, workers: impl Iterator<Item = &WorkerId> + Send, round: u32) {
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
        self.check_writing(&state)?;
        state.routes.adopt(location);
        Ok(())
    }

    fn reviving(&self, partition: PartitionId) -> &Reviving {
        &self.reviving[partition.0.cast_unsigned() as usize]
    }

    /// Whether a new location for the partition is being made.
    pub fn is_reviving(&self, partition: PartitionId) -> bool {
        self.reviving(partition).failure.try_lock().is_err()
    }

    /// Whether the partition has a location that is newer than `epoch`; one that is being made is waited for.
    pub async fn has_moved_on(&self, partition: PartitionId, epoch: Epoch) -> bool {
        let _one_at_a_time = self.reviving(partition).failure.lock().await;
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
        let reviving = self.reviving(partition);
        let failures = reviving.failures.load(Ordering::Relaxed);
        let mut failure = Arc::clone(&reviving.failure).lock_owned().await;
        if self.state().routes.newer_than(partition, epoch).is_some() {
            return Ok(false);
        }
        if reviving.failures.load(Ordering::Relaxed) != failures
            && let Some(failure) = &*failure
        {
            // Batches that waited for an attempt share its failure, so that they do not try one by one.
            return Err(failure.clone());
        }
        // In a task of its own: its push may be given up meanwhile, and what a worker has reserved by then is taken into use
        // or destroyed. Otherwise the worker would wait for its commit before it stops.
        let (inner, avoid, in_use) = (Arc::clone(self), avoid.to_vec(), self.enter()?);
        let making = tokio::spawn(async move {
            let made = inner.make_location(partition, &avoid).await;
            if let Err(error) = &made {
                *failure = Some(error.clone());
                inner.reviving(partition).failures.fetch_add(1, Ordering::Relaxed);
            }
            drop(in_use);
            made
        });
        let made = making.await.unwrap_or_else(|error| {
            Err(Error::new(Kind::Internal, "a new location was not made to the end").with_source(error))
        });
        made.map(|()| true)
    }

    /// Makes a new location for the partition; when some workers do not take it, tries others.
    async fn make_location(&self, partition: PartitionId, avoid: &[WorkerId]) -> Result<()> {
        let mut refused = BTreeMap::new();
        for round in 0..RESERVE_ROUNDS {
            self.check_writing(&self.state())?;
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
