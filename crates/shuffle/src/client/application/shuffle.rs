//! A registered shuffle as a driver uses it: registration, writers and readers in this process, commit, and the end.

use std::collections::HashMap;
use std::ops::RangeBounds;
use std::sync::Arc;

use tracing::debug;

use super::Application;
use super::registered::{Number, RESERVE_ROUNDS, Registered, no_workers};
use super::routes::Routes;
use super::session::Session;
use super::state::{Stage, State};
use crate::client::tasks::RETRIES_MAX;
use crate::client::tasks::{Files, Reader, Source, TaskShuffle, Tasks, Writer};
use crate::error::{Error, Kind, Result};
use crate::ids::{AttemptId, MapId, Mode, PartitionId, ShuffleId, ShuffleKey, WorkerId};
use crate::wire::executor::{Ended, Maps};
use crate::wire::packed::Location;
use crate::wire::received::request_slots_response::PackedWorkerResourceEntry;
use crate::wire::{Received, Status, proto, received};

/// A registered shuffle. Cheap to clone. Its data and its id stay with the service until [`Shuffle::unregister`] or the
/// end of the application, even when all clones are dropped. Executors find it while there is a clone; one that was
/// [opened](Application::open) by its name they find without.
#[derive(Clone)]
pub struct Shuffle {
    pub(super) application: Application,
    pub(in crate::client) registered: Arc<Registered>,
    pub(in crate::client) tasks: Arc<Tasks>,
}

impl Shuffle {
    pub(in crate::client) async fn register(
        application: Application,
        shuffle: ShuffleId,
        maps: usize,
        partitions: usize,
    ) -> Result<Self> {
        let count = i32::try_from(partitions).map_err(|_| too_many(format!("{partitions} partitions")))?;
        let maps = i32::try_from(maps).map_err(|_| too_many(format!("{maps} maps")))?.cast_unsigned();
        let session = application.session();
        session.check_free(shuffle)?;
        let routes = ask_for_routes(session, shuffle, count).await?;
        // Not before: a registration that is cancelled until here has left nothing on workers.
        session.hold(shuffle)?;
        Self::reserve(application, shuffle, Maps::Fixed(maps), routes).await
    }

    /// Registers a shuffle with a number that is drawn, and an open number of maps.
    ///
    /// # Errors
    /// Those of [`Application::register`]; `ResourceExhausted` if all numbers were used.
    pub(super) async fn register_open(application: Application, partitions: u32) -> Result<Self> {
        let count = i32::try_from(partitions).map_err(|_| too_many(format!("{partitions} partitions")))?;
        let session = application.session();
        let number = session.draw()?;
        let routes = ask_for_routes(session, number, count).await?;
        session.hold_drawn(number);
        Self::reserve(application, number, Maps::Open, routes).await
    }

    /// Reserves the locations of a shuffle that holds its number.
    async fn reserve(
        application: Application,
        shuffle: ShuffleId,
        maps: Maps,
        routes: Routes,
    ) -> Result<Self> {
        let session = Arc::clone(application.session());
        let (key, partitions) =
            (ShuffleKey { application: session.id.clone(), shuffle }, routes.partitions());
        let state = State::new(key.clone(), routes, maps);
        let heartbeat = Arc::clone(&application.heartbeat);
        let registered = Arc::new(Registered::new(Arc::clone(&session), heartbeat, state, key.clone()));
        let source = Source::Here(Arc::clone(&registered));
        let (limits, workers) = (session.options.of_tasks(), Arc::clone(&session.workers));
        let tasks = Arc::new(Tasks::new(key, maps, partitions, limits, workers, source));
        let shuffle = Self { application, registered, tasks };
        match shuffle.reserve_all().await {
            Ok(()) => {
                session.remember(&shuffle.registered);
                Ok(shuffle)
            }
            Err(error) => {
                // Awaited: arriving later, it would end the next registration of the same id. What was reserved ends
                // with the shuffle.
                if let Err(error) = shuffle.clone().unregister().await {
                    debug!(shuffle = %shuffle.registered.key, ?error, "a master keeps a shuffle without locations");
                }
                Err(error)
            }
        }
    }

    /// A writer for one attempt of one map task. If there is no such map or attempt, the writer has failed as
    /// `Invalid`; if the attempt has had a writer before, whatever became of that, it has failed as `Conflict`.
    pub fn writer(&self, map: MapId, attempt: AttemptId) -> Writer {
        let begun = self.registered.state().begin_attempt(map, attempt, 0);
        Writer::new(Arc::clone(&self.tasks), map, attempt, begun.err())
    }

    /// Makes everything that was pushed readable, and allows no more pushes.
    ///
    /// # Errors
    /// `Unavailable` if a worker that has the only copy of a location cannot be reached, after several attempts;
    /// `DataLoss` if no worker has one; `Conflict` if the shuffle was unregistered.
    pub async fn commit(&self) -> Result<()> {
        self.registered.commit().await.map(drop)
    }

    /// Reads a partition's batches of a range of map ids, in no order.
    ///
    /// # Errors
    /// `Conflict` before [`Shuffle::commit`] and after [`Shuffle::unregister`], `Invalid` for a partition that does not exist.
    pub fn reader(&self, partition: PartitionId, maps: impl RangeBounds<i32>) -> Result<Reader> {
        let state = self.registered.state();
        state.check()?;
        state.check_partition(partition)?;
        let Stage::Committed(committed) = &state.stage else {
            let text = format!("shuffle {} is not committed", self.registered.key);
            let hint = "call `commit` when all maps have ended";
            return Err(Error::new(Kind::Conflict, text).with_hint(hint));
        };
        Ok(Reader::new(Arc::clone(&self.tasks), Files::of(committed, partition), maps))
    }

    /// The shuffle as a task has it, the same for tasks in this process and in [executors](crate::client::Executor).
    pub fn tasks(&self) -> TaskShuffle {
        TaskShuffle::new(Arc::clone(&self.tasks))
    }

    /// Application of the shuffle.
    pub fn application(&self) -> &Application {
        &self.application
    }

    /// End of a map, if it has ended: the attempt that is read, and what that said of itself.
    pub fn ended(&self, map: MapId) -> Option<Ended> {
        self.registered.state().end_of(map)
    }

    /// The worker that a partition's next batch goes to.
    ///
    /// # Panics
    /// If there is no such partition.
    pub fn primary(&self, partition: PartitionId) -> WorkerId {
        self.registered.state().routes.current(partition).worker.clone()
    }

    /// Number of locations that a partition has had: one, and one more for each split or failure.
    ///
    /// # Panics
    /// If there is no such partition.
    pub fn locations(&self, partition: PartitionId) -> usize {
        self.registered.state().routes.all(partition).len()
    }

    /// Gives the shuffle up: the service deletes its data, and its id is free. Anything still done with it fails as
    /// `Conflict`. Requests in flight to workers are waited for, as long as they may take: they would meet the next
    /// registration of the id there.
    ///
    /// # Errors
    /// `Unavailable` if no master answers; the id is not free then.
    pub async fn unregister(self) -> Result<()> {
        let registered = &self.registered;
        registered.end();
        let session = &registered.session;
        let mut number = registered.number.write().await;
        if *number == Number::GivenBack {
            return Ok(());
        }
        let request = proto::UnregisterShuffle {
            app_id: session.id.to_string(),
            shuffle_id: registered.key.shuffle.0,
            request_id: session.request_id(),
        };
        session.ask_master::<_, received::UnregisterShuffleResponse>(&request).await?;
        session.give_back(registered.key.shuffle);
        *number = Number::GivenBack;
        Ok(())
    }

    /// Reserves the first locations on their workers, and other ones for those whose workers do not take them.
    async fn reserve_all(&self) -> Result<()> {
        let _in_use = self.registered.enter()?;
        let mut wanted = self.registered.current_locations();
        let mut refused = self.registered.reserve(&wanted).await?;
        for round in 1..RESERVE_ROUNDS {
            if refused.is_empty() {
                break;
            }
            debug!(shuffle = %self.registered.key, round, ?refused, "workers did not take their locations");
            wanted.retain(|location| {
                refused.contains_key(&location.worker)
                    || location.peer.as_ref().is_some_and(|peer| refused.contains_key(peer))
            });
            self.registered.destroy(&wanted, &refused);
            self.registered.exclude(refused.keys(), round).await;
            for location in &mut wanted {
                let draw = self.registered.session.number().cast_unsigned();
                let mut state = self.registered.state();
                let proposed =
                    state.routes.propose(location.id.partition, draw).ok_or_else(|| no_workers(&refused))?;
                state.routes.replace(location.id, proposed.clone());
                *location = proposed;
            }
            refused = self.registered.reserve(&wanted).await?;
        }
        if refused.is_empty() { Ok(()) } else { Err(no_workers(&refused)) }
    }
}

/// The error of a shuffle with too many of something.
pub(in crate::client) fn too_many(what: impl std::fmt::Display) -> Error {
    Error::new(Kind::Invalid, format!("{what} are too many for one shuffle"))
}

/// The first location of each partition, as the master gives them.
async fn ask_for_routes(session: &Session, shuffle: ShuffleId, partitions: i32) -> Result<Routes> {
    let answer = ask_for_slots(session, shuffle, partitions).await?;
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
    let partitions = partitions.cast_unsigned() as usize;
    Routes::new(primaries, partitions, candidates, session.options.replicate)
        .ok_or_else(|| Error::new(Kind::Internal, "the master did not give one place to each partition"))
}

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
pub(in crate::client) fn use_one_address(candidates: &mut Vec<WorkerId>, primaries: &mut [Location]) {
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
