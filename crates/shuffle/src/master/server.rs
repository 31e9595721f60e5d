//! A running master: its listeners, its timers, and the lock around its state.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;
use yeoul_base::{ByteSize, failpoint};
use yeoul_journal::{FileJournal, FileJournalOptions, Journal, NoJournal, Promise};
use yeoul_net::http::{PageOptions, serve_pages_with};
use yeoul_net::supervise::{DecisionGuard, DecisionLock, Supervisor, must_not_panic};

use super::memory::{Memory, Peer};
use super::options::Options;
use super::pages::MasterPages;
use super::record::Record;
use super::relay::Relay;
use super::service::MasterService;
use super::state::{Decision, Limits as StateLimits, Now, OrderBatch, Silent, Standing, State, Unregistered};
use crate::ids::WorkerId;
use crate::metrics::{Counter, RpcMeters, Timer};
use crate::net::{Listener, Options as NetOptions, Serving, cannot_bind, raise_file_limit};
use crate::report::Phase;
use crate::wire::Limits;
use crate::{Error, Kind, Result};

/// How often timeouts are checked.
const TICK: Duration = Duration::from_secs(1);

/// Starts masters.
pub struct Server;

impl Server {
    /// Reads the journal, opens the listeners and serves until the handle is stopped or dropped.
    ///
    /// # Errors
    /// `Conflict` if the directory is in use, `Corrupt` if the journal is damaged, `Unavailable` and the like if an
    /// address cannot be bound.
    pub async fn start(options: Options) -> Result<Handle> {
        raise_file_limit();
        if let Some(leader) = options.leader.clone() {
            let address = (options.host.as_str(), options.port);
            let relay = Relay::bind(address)
                .await
                .map_err(|error| cannot_bind("rpc", &options.host, options.port, error))?;
            let relay = relay.serve(leader, options.connections_max).await?;
            return Ok(Handle { running: Arc::new(Running::Follower { relay }) });
        }
        let options = options.in_agreement();
        let started = Instant::now();
        let mut state = State::new(options.limits.clone());
        let journal: Box<dyn Journal<Record>> = match &options.dir {
            Some(dir) => {
                let now = Now { monotonic: Duration::ZERO, unix_ms: unix_ms() };
                let mut records = 0_u64;
                let journal = FileJournal::open(FileJournalOptions::new(dir, "master"), |record: Record| {
                    state.apply(now, &record);
                    records += 1;
                })?;
                state.assert_slots();
                tracing::info!(
                    records,
                    applications = state.applications().len(),
                    shuffles = state.shuffle_count(),
                    workers = state.workers().len(),
                    elapsed_ms = started.elapsed().as_millis() as u64,
                    "read the journal"
                );
                Box::new(journal)
            }
            None => Box::new(NoJournal),
        };
        let memory = options.memory_bytes.map(Memory::new).transpose()?;
        let account = memory.as_ref().map(Memory::account).unwrap_or_default();
        let net = NetOptions {
            connections_max: options.connections_max,
            account: account.clone(),
            answers: memory.as_ref().map(Memory::answers).unwrap_or_default(),
            ..NetOptions::new(Limits::CONTROL)
        };
        let listener = Listener::bind((options.host.as_str(), options.port), net).await;
        let listener = listener.map_err(|error| cannot_bind("rpc", &options.host, options.port, error))?;
        let mut supervisor = Supervisor::new("master");
        let ended = journal.ended();
        supervisor.keep("journal", async move {
            let error = ended.await;
            tracing::error!("{error}");
        });
        if let Some(memory) = memory.clone() {
            supervisor.run("governor", memory.keep());
        }
        let core = Core { state, journal };
        let shared = Arc::new(Shared { memory, ..Shared::new(options, started, listener.address(), core) });
        let http = match shared.options.http_port {
            Some(port) => {
                let host = shared.options.http_host();
                let listener = yeoul_net::Listener::bind((host, port)).await;
                let listener = listener.map_err(|error| cannot_bind("http", host, port, error))?;
                let names = [&shared.options.http_names[..], &[host.to_owned(), shared.options.host.clone()]]
                    .concat();
                let options = PageOptions { names, account };
                Some(serve_pages_with(listener, options, Arc::new(MasterPages::new(shared.clone()))))
            }
            None => None,
        };
        let rpc = listener.serve(Arc::new(MasterService::new(shared.clone())));
        supervisor.keep("ticker", tick(shared.clone()));
        Ok(Handle { running: Arc::new(Running::Leader { shared, rpc, http, _supervisor: supervisor }) })
    }
}

/// A running master. Cheap to clone; the master ends when it is stopped or when the last handle is dropped.
#[derive(Clone)]
pub struct Handle {
    running: Arc<Running>,
}

enum Running {
    Leader { shared: Arc<Shared>, rpc: Serving, http: Option<Serving>, _supervisor: Supervisor },
    Follower { relay: Relay },
}

impl Handle {
    /// The address for clients and workers.
    pub fn address(&self) -> SocketAddr {
        match &*self.running {
            Running::Leader { rpc, .. } => rpc.address(),
            Running::Follower { relay } => relay.address(),
        }
    }

    /// The address of its HTTP pages.
    pub fn http_address(&self) -> Option<SocketAddr> {
        match &*self.running {
            Running::Leader { http, .. } => http.as_ref().map(Serving::address),
            Running::Follower { .. } => None,
        }
    }

    /// The number of workers that may get partitions now; 0 on a follower.
    pub fn workers_available(&self) -> usize {
        match &*self.running {
            Running::Leader { shared, .. } => shared.read(|state| state.workers_available()),
            Running::Follower { .. } => 0,
        }
    }

    /// Waits until at least `count` workers may get partitions; a follower has none.
    ///
    /// # Errors
    /// `Unavailable` if they do not register in time.
    pub async fn wait_for_workers(&self, count: usize, within: Duration) -> Result<()> {
        let started = Instant::now();
        loop {
            let found = self.workers_available();
            if found >= count {
                return Ok(());
            }
            if started.elapsed() >= within {
                let text = format!("{found} of {count} workers registered within {within:?}");
                return Err(Error::new(Kind::Unavailable, text));
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// The number of registered shuffles; 0 on a follower.
    pub fn shuffles(&self) -> usize {
        match &*self.running {
            Running::Leader { shared, .. } => shared.read(State::shuffle_count),
            Running::Follower { .. } => 0,
        }
    }
}

/// What the connections and timers of a master share.
pub(super) struct Shared {
    pub(super) options: Options,
    started: Instant,
    address: SocketAddr,
    core: DecisionLock<Core>,
    /// The promise about the process, if there is one.
    memory: Option<Memory>,
    /// A notifier for each worker with a watch.
    bells: Mutex<HashMap<WorkerId, Arc<Notify>>>,
    /// Notifies of each report and each confirmation of a worker.
    heard_of_workers: Notify,
    random: RandomState,
    requests: AtomicU64,
    pub(super) meters: Meters,
}

struct Core {
    state: State,
    journal: Box<dyn Journal<Record>>,
}

impl Shared {
    /// For tests: a master with this state, which writes nothing and listens nowhere.
    #[cfg(test)]
    pub(super) fn of(state: State) -> Self {
        let core = Core { state, journal: Box::new(NoJournal) };
        Self::new(Options::embedded(), Instant::now(), SocketAddr::from(([127, 0, 0, 1], 9097)), core)
    }

    fn new(options: Options, started: Instant, address: SocketAddr, core: Core) -> Self {
        Self {
            options,
            started,
            address,
            core: DecisionLock::new("the master's state", core),
            memory: None,
            bells: Mutex::default(),
            heard_of_workers: Notify::new(),
            random: RandomState::new(),
            requests: AtomicU64::new(0),
            meters: Meters::default(),
        }
    }

    /// Decides, keeps the records, wakes the workers, and returns the reply when everything decided so far is kept: even a
    /// decision without records (the answer to a repeated request) may depend on it.
    ///
    /// # Errors
    /// `Unavailable` and the like if a record that the reply rests on could not be kept: whoever asked gets an error. The
    /// state has the change; once the journal is whole again, whoever asks again gets a reply.
    pub(super) async fn decide<T>(&self, decide: impl FnOnce(&mut State, Now) -> Decision<T>) -> Result<T> {
        let (reply, kept) = self.decide_and_keep(decide).await;
        kept.map(|()| reply)
    }

    /// Decides, and returns what was decided with whether it is kept.
    async fn decide_and_keep<T>(
        &self,
        decide: impl FnOnce(&mut State, Now) -> Decision<T>,
    ) -> (T, Result<()>) {
        let (reply, kept, wake, snapshot) = {
            let mut core = self.lock();
            let Core { state, journal } = &mut *core;
            let Decision { reply, records, wake } = decide(state, self.now());
            let kept = journal.append(&records, Promise::Written);
            let snapshot = journal.wants_snapshot().then(|| (journal.begin_snapshot(), state.image()));
            (reply, kept, wake, snapshot)
        };
        // The orders leave through `worker_orders`, which waits for the journal too; this future may be dropped earlier,
        // with its client.
        self.ring(&wake);
        if let Some((snapshot, image)) = snapshot {
            let write = move || snapshot.write(image.records());
            tokio::task::spawn_blocking(|| must_not_panic("master", "snapshot", write));
        }
        let kept = kept.await;
        if let Err(error) = &kept {
            // The journal reports its fault and mends it; the state is correct.
            tracing::debug!(%error, "a reply rests on a record that was not kept, and is an error");
        }
        (reply, kept)
    }

    /// A worker's orders, once the records that they depend on are kept: the worker deletes what they name.
    ///
    /// # Errors
    /// As for [`decide`](Self::decide); within, [`Unregistered`] if it must register first.
    pub(super) async fn worker_orders(
        &self,
        connection: u64,
        worker: &WorkerId,
        incarnation: u64,
        seen: u64,
    ) -> Result<Result<Option<OrderBatch>, Unregistered>> {
        let orders = |state: &mut State, _| {
            let reply = state.worker_orders(connection, worker, incarnation, seen);
            Decision { reply, records: Vec::new(), wake: Vec::new() }
        };
        let orders = self.decide(orders).await;
        self.heard_of_workers.notify_waiters();
        orders
    }

    /// A worker has reported.
    pub(super) fn worker_reported(&self) {
        self.heard_of_workers.notify_waiters();
    }

    /// Waits while something is so that reports and confirmations of workers end, for `most` at most.
    pub(super) async fn wait_while(&self, most: Duration, is_so: impl Fn(&State) -> bool) {
        let ended = async {
            loop {
                let mut heard = pin!(self.heard_of_workers.notified());
                heard.as_mut().enable();
                if !self.read(&is_so) {
                    return;
                }
                heard.await;
            }
        };
        // Whoever waits goes on in either case.
        let _ = tokio::time::timeout(most, ended).await;
    }

    /// Changes something that is not kept in the journal.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.lock().state)
    }

    /// Waits for the memory of a request.
    ///
    /// # Errors
    /// `ResourceExhausted` if there was none in time.
    pub(super) async fn memory_for(&self, connection: u64, frame: usize) -> Result<impl Sized + use<>> {
        let Some(memory) = &self.memory else { return Ok(None) };
        let charge = memory.request(Peer(connection), frame).await;
        let none =
            || Error::new(Kind::ResourceExhausted, "the master has no memory for the request: try again");
        charge.ok_or_else(none).map(Some)
    }

    /// Says that the state may grow, or why it may not: what is known goes on.
    pub(super) fn may_grow(&self) -> Result<()> {
        match self.memory.as_ref().filter(|memory| memory.is_full()) {
            None => Ok(()),
            Some(memory) => {
                let bytes = ByteSize::from_bytes(memory.bytes());
                let text = format!("the master's state leaves no memory of the {bytes} of --memory");
                Err(Error::new(Kind::ResourceExhausted, text)
                    .with_hint("start the master with more --memory"))
            }
        }
    }

    /// Reads the state.
    pub(super) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.lock().state)
    }

    /// The journal's fault, if it has one.
    pub(super) fn journal_fault(&self) -> Option<String> {
        self.lock().journal.fault()
    }

    /// How many of the journal's snapshots have failed since the last one that did not.
    pub(super) fn failed_snapshots(&self) -> u64 {
        self.lock().journal.failed_snapshots()
    }

    /// A connection ended.
    pub(super) fn link_lost(&self, connection: u64) {
        let lost = self.change(|state| state.worker_link_lost(connection));
        for worker in &lost {
            if self.read(|state| state.standing(worker)) == Some(Standing::Stopping) {
                tracing::info!(%worker, "the connection to a worker that stops ended");
            } else {
                tracing::warn!(%worker, "the connection to a worker ended, which has not said that it stops");
            }
        }
        // Their watches end, too.
        self.ring(&lost);
    }

    /// The notifier for new orders of a worker.
    pub(super) fn bell(&self, worker: &WorkerId) -> Arc<Notify> {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        bells.entry(worker.clone()).or_default().clone()
    }

    /// An unpredictable number.
    pub(super) fn random(&self) -> u64 {
        self.random.hash_one(self.requests.fetch_add(1, Ordering::Relaxed))
    }

    fn ring(&self, workers: &[WorkerId]) {
        if workers.is_empty() {
            return;
        }
        let bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        workers.iter().filter_map(|worker| bells.get(worker)).for_each(|bell| bell.notify_waiters());
    }

    /// Drops the notifiers of workers that are gone.
    fn forget_bells(&self) {
        let known: Vec<WorkerId> = self.read(|state| state.workers().keys().cloned().collect());
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        bells.retain(|worker, bell| Arc::strong_count(bell) > 1 || known.binary_search(worker).is_ok());
    }

    /// The address for clients and workers, as it was bound.
    pub(super) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(super) fn now(&self) -> Now {
        Now { monotonic: self.started.elapsed(), unix_ms: unix_ms() }
    }

    fn lock(&self) -> DecisionGuard<'_, Core> {
        self.core.lock()
    }
}

/// Timers that are not part of the state.
#[derive(Default)]
pub(super) struct Meters {
    /// From a slot request to its answer.
    pub(super) offer_slots: Timer,
    /// Slot requests that were refused.
    pub(super) failed_slots: Counter,
    /// Requests on the rpc port.
    pub(super) rpc: RpcMeters,
    /// What drivers say that they have begun, and that they have given to their own shuffle instead.
    pub(super) drivers: DriverMeters,
}

/// The sums of what drivers tell with their heartbeats, since this process started.
#[derive(Default)]
pub(super) struct DriverMeters {
    pub(super) applications: Counter,
    pub(super) shuffles: Counter,
    pub(super) application_fallbacks: Counter,
    pub(super) shuffle_fallbacks: Counter,
}

async fn tick(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        failpoint("master-tick");
        // Whether it is kept matters to those who ask about it later.
        let (silent, _) = shared.decide_and_keep(State::expire).await;
        say_silent(&silent, &shared.options.limits);
        shared.forget_bells();
    }
}

/// Logs who was lost for being silent.
fn say_silent(silent: &Silent, limits: &StateLimits) {
    for (worker, phase) in &silent.workers {
        if *phase == Phase::Stopping {
            tracing::info!(%worker, "a worker that has stopped is not back yet, and counts as lost");
        } else {
            let silence = limits.worker_timeout;
            tracing::warn!(%worker, ?silence, "a worker was not heard, and counts as lost");
        }
    }
    for application in &silent.applications {
        let silence = limits.application_timeout;
        tracing::warn!(%application, ?silence, "an application was not heard: its shuffles are deleted");
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::pin::Pin;
    use std::task::{Context, Waker};

    use rustix::io::Errno;
    use yeoul_disk::{Fault, FaultyDisk, Operation};
    use yeoul_simulation::Child;

    use super::super::state::scene::{NEWEST, at, grant, id, pulse, registration, state_of};
    use super::super::state::slot_ledger::tests::lose_a_slot;
    use super::*;
    use crate::heard::Heard;
    use crate::ids::{ApplicationId, ShuffleId, ShuffleKey};
    use crate::worker;

    fn shared(state: State, journal: FileJournal<Record>) -> Shared {
        let address = SocketAddr::from(([127, 0, 0, 1], 9097));
        Shared::new(Options::embedded(), Instant::now(), address, Core { state, journal: Box::new(journal) })
    }

    fn open(dir: &Path, answer_max: Duration, disk: &Arc<FaultyDisk>) -> (FileJournal<Record>, Vec<Record>) {
        let disk = disk.clone();
        let options = FileJournalOptions { answer_max, disk, ..FileJournalOptions::new(dir, "master") };
        let mut records = Vec::new();
        let journal = FileJournal::open(options, |record| records.push(record)).unwrap();
        (journal, records)
    }

    #[tokio::test]
    async fn http_listens_where_it_is_told_to() {
        let options = Options { http_port: Some(0), ..Options::embedded() };
        let elsewhere = Options { http_host: Some("127.0.0.2".into()), ..options.clone() };
        for (options, ip) in [(options, "127.0.0.1"), (elsewhere, "127.0.0.2")] {
            let master = Server::start(options).await.unwrap();
            assert_eq!(master.http_address().unwrap().ip().to_string(), ip);
        }
    }

    #[tokio::test]
    async fn only_an_end_that_was_not_announced_is_a_warning() {
        const WITHIN: Duration = Duration::from_secs(20);
        let (heard, _listening) = Heard::begin();
        let master = Server::start(Options::embedded()).await.unwrap();
        let place = tempfile::tempdir().unwrap();
        let start = async || {
            let options = worker::Options::embedded([master.address().to_string()], place.path());
            let worker = worker::Server::start(options).await.unwrap();
            master.wait_for_workers(1, WITHIN).await.unwrap();
            worker
        };
        let until_said = async |text: &str| {
            let said = async {
                while !heard.text().contains(text) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(WITHIN, said).await.unwrap_or_else(|_| panic!("{text}: {}", heard.text()))
        };
        let stopping = start().await;
        stopping.stop();
        stopping.ended().await.unwrap();
        drop(stopping);
        until_said(" INFO the connection to a worker that stops ended worker=").await;
        let leaving = start().await;
        leaving.decommission();
        leaving.ended().await.unwrap();
        drop(leaving);
        for what in
            ["is stopping", "has stopped", "is decommissioned: it takes nothing new", "has left for good"]
        {
            until_said(&format!(" INFO a worker {what} worker=")).await;
        }
        assert!(!heard.text().contains("WARN"), "{}", heard.text());
        drop(start().await);
        until_said(" WARN the connection to a worker ended, which has not said that it stops worker=").await;
    }

    #[tokio::test]
    async fn workers_and_applications_removed_for_silence_are_logged() {
        let (heard, _listening) = Heard::begin();
        let silence = Duration::from_millis(100);
        let limits =
            StateLimits { worker_timeout: silence, application_timeout: silence, ..StateLimits::default() };
        let mut state = State::new(limits.clone());
        for number in 0..2 {
            let registration = registration(id(number), number.into());
            assert!(state.register_worker(at(0), number.into(), registration).reply);
        }
        let left = state.worker_leaves(at(0), &id(1), 1, Phase::Stopping, true);
        assert_eq!(left.reply, Ok(()));
        assert!(state.application_heartbeat(at(0), pulse()).reply.is_some());
        let address = SocketAddr::from(([127, 0, 0, 1], 9097));
        let options = Options { limits, ..Options::embedded() };
        let core = Core { state, journal: Box::new(NoJournal) };
        let shared = Arc::new(Shared::new(options, Instant::now(), address, core));
        let ticking = tokio::spawn(tick(shared.clone()));
        let over = async {
            while !shared.read(|state| state.workers().is_empty() && state.applications().is_empty()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), over).await.expect("they are over");
        tokio::task::yield_now().await;
        ticking.abort();
        let text = heard.text();
        for said in [
            "WARN a worker was not heard, and counts as lost worker=worker0:0:2:3:4 silence=100ms",
            "INFO a worker that has stopped is not back yet, and counts as lost worker=worker1:1:2:3:4",
            "WARN an application was not heard: its shuffles are deleted application=app silence=100ms",
        ] {
            assert_eq!(text.matches(said).count(), 1, "{text}");
        }
    }

    /// Tells the process of the next test that it is one.
    const SCENE: &str = "YEOUL_TEST_LOST_SLOT";

    /// Not a test of its own: a master that has lost a slot decides what the slot is part of.
    #[tokio::test]
    async fn scene_of_a_lost_slot() {
        if std::env::var_os(SCENE).is_none() {
            return;
        }
        let mut state = state_of(2);
        grant(&mut state, Default::default()).unwrap();
        let mut state = state.into_state();
        lose_a_slot(&mut state);
        let shared = Arc::new(Shared::of(state));
        // As a connection has it: a panic ends its task, and nobody asks how that ended.
        let deciding = tokio::spawn(async move {
            let application = ApplicationId::from("app");
            let remove =
                |state: &mut State, now| state.unregister_shuffles(now, &application, &[ShuffleId(0)]);
            shared.decide(remove).await.unwrap();
        });
        drop(deciding.await);
        eprintln!("it lives on");
    }

    #[test]
    fn a_master_that_has_lost_a_slot_ends() {
        let mut command = Child::command("master::server::tests::scene_of_a_lost_slot");
        let ended = Child::run(command.env(SCENE, "1")).unwrap();
        let said = &ended.stderr;
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains(" slots are returned of "), "{said}");
        assert!(
            said.contains("error: the master's state was left half changed by a panic in a decision"),
            "{said}"
        );
        assert!(!said.contains("it lives on"), "{said}");
    }

    fn is_pending<T>(future: &mut Pin<Box<dyn Future<Output = T> + '_>>) -> bool {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    #[tokio::test]
    async fn neither_a_reply_nor_an_order_leaves_before_a_record_that_it_rests_on_is_written() {
        let mut state = state_of(2);
        let granted = grant(&mut state, Default::default()).unwrap();
        let (application, worker) = (ApplicationId::from("app"), granted.workers[0].0.clone());
        let incarnation = u64::from(worker == id(1));
        let dir = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::new();
        let (journal, _) = open(dir.path(), Duration::from_secs(60), &disk);
        let held = disk.inject(Fault::hangs(Operation::Write));
        let shared = shared(state.into_state(), journal);
        let bell = shared.bell(&worker);
        let mut rung = std::pin::pin!(bell.notified());
        rung.as_mut().enable();
        let unregister = || -> Pin<Box<dyn Future<Output = Result<()>> + '_>> {
            let decision =
                |state: &mut State, now| state.unregister_shuffles(now, &application, &[ShuffleId(0)]);
            Box::pin(shared.decide(decision))
        };
        let (mut first, mut again) = (unregister(), unregister());
        assert!(is_pending(&mut first));
        assert!(is_pending(&mut again), "what was decided before may still be lost");
        rung.await;
        let mut orders: Pin<Box<dyn Future<Output = _> + '_>> =
            Box::pin(shared.worker_orders(NEWEST, &worker, incarnation, 0));
        assert!(is_pending(&mut orders), "a worker cannot take back what it deletes");
        assert_eq!(shared.read(State::shuffle_count), 0, "who only looks does not wait");
        held.wait();
        drop(held);
        again.await.unwrap();
        let batch = orders.await.unwrap().unwrap().unwrap();
        assert_eq!(batch.expired, [ShuffleKey::new("app", 0)]);
        drop(first);
        drop(shared);
        let [Record::ShufflesRemoved { application: of, runs, .. }] =
            &open(dir.path(), Duration::ZERO, &disk).1[..]
        else {
            panic!("the record is not there")
        };
        assert_eq!((of, &runs[..]), (&application, &[ShuffleId(0).into()][..]));
    }

    /// The kinds of what comes back: for a change, for the same again, for a page's question, for a worker's.
    async fn refusals(shared: &Shared) -> [Option<Kind>; 3] {
        let exclude = || shared.decide(|state, now| state.exclude_workers(now, &[id(0)], &[]));
        let (first, again) = tokio::join!(exclude(), exclude());
        let orders = shared.worker_orders(NEWEST, &id(0), 0, 0).await;
        [first.map(drop), again.map(drop), orders.map(drop)]
            .map(|answer| answer.err().map(|error| error.kind()))
    }

    #[tokio::test]
    async fn a_disk_that_hangs_costs_everybody_an_error_and_once_it_answers_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::new();
        let (journal, _) = open(dir.path(), Duration::from_millis(200), &disk);
        let held = disk.inject(Fault::hangs(Operation::Write));
        let shared = shared(state_of(1).into_state(), journal);
        assert_eq!(refusals(&shared).await, [Some(Kind::Unavailable); 3]);
        assert!(shared.journal_fault().is_some() && held.happened() == 1);
        drop(held);
        let whole = async {
            while shared.journal_fault().is_some() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), whole).await.expect("everything is written");
        assert_eq!(refusals(&shared).await, [None; 3]);
    }

    #[tokio::test]
    async fn what_could_not_be_kept_is_an_error_until_a_snapshot_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::new();
        let (journal, _) = open(dir.path(), Duration::from_secs(60), &disk);
        let shared = shared(state_of(1).into_state(), journal);
        let full = disk.inject(Fault::fails(Operation::Write, Errno::NOSPC).times(1));
        let refused = refusals(&shared).await;
        assert_eq!(full.happened(), 1);
        assert!(refused.iter().all(Option::is_some), "{refused:?}: none may rest on what is not kept");
        let snapshot = {
            let mut core = shared.lock();
            (core.journal.begin_snapshot(), core.state.image())
        };
        tokio::task::spawn_blocking(move || snapshot.0.write(snapshot.1.records())).await.unwrap();
        assert_eq!(refusals(&shared).await, [None; 3]);
        let held = shared.read(State::records);
        drop(shared);
        let mut state = State::new(StateLimits::default());
        let now = Now { monotonic: Duration::ZERO, unix_ms: 0 };
        open(dir.path(), Duration::ZERO, &disk).1.iter().for_each(|record| state.apply(now, record));
        assert_eq!(state.records(), held);
    }
}
