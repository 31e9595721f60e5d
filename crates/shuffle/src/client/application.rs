//! An application: its masters, its heartbeat, its settings.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tracing::warn;

use super::shuffle::{Inner, Shuffle};
use super::writer::BEGUN_PER_WINDOW;
use crate::error::{Error, Kind, Result};
use crate::ids::{ApplicationId, ShuffleId, SplitMode, WorkerId};
use crate::net::{Client, ClientOptions};
use crate::wire::message::{Message, Receivable, Typed};
use crate::wire::rpc::{self, Answer, Request};
use crate::wire::{DecodeError, Header, Limits, Received, Status, proto, received};

/// How an application uses the service.
#[derive(Debug, Clone)]
pub struct Options {
    /// The masters, `host:port` each, tried in turn.
    pub masters: Vec<String>,
    /// The application's name; drawn anew if not given. What an earlier application of this name has left is removed, so two
    /// that run at a time need two names.
    pub application: Option<String>,
    /// Whether each location has a copy on a second worker.
    pub replicate: bool,
    /// Workers that a shuffle is spread over at most; 0 leaves it to the master.
    pub workers_max: i32,
    /// Bytes of a location at which it splits.
    pub split_threshold: i64,
    /// How it splits then.
    pub split_mode: SplitMode,
    /// Connections to one server.
    pub connections: usize,
    /// Batches on their way to one worker, at least 1; one more waits.
    pub window: usize,
    /// Batches smaller than this wait to be pushed together, until they have this size, in bytes; at most 8 MiB, for a worker
    /// holds them in memory together.
    pub merge_len: usize,
    /// How often one batch turns to a new location before its push fails. A hard split counts for the batch for which the
    /// new location was made, and not for those that found it; a failure counts for each batch that met it.
    pub revives_max: usize,
    /// How long a push may take, its replication included; at most a year, as the next one and `retry_wait`.
    pub push_max: Duration,
    /// How long any other request may take.
    pub request_max: Duration,
    /// The wait before a worker that could not be reached is asked again for what only it has; it is asked three times
    /// more, and the wait doubles each time.
    pub retry_wait: Duration,
    /// Chunks requested ahead of the reader.
    pub chunks_ahead: usize,
    /// The interval of the heartbeat, whose answer names leaving workers: their locations are committed then, if they
    /// wait that long.
    pub heartbeat: Duration,
}

impl Options {
    /// The defaults with these masters.
    pub fn new(masters: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            masters: masters.into_iter().map(Into::into).collect(),
            application: None,
            replicate: false,
            workers_max: 0,
            split_threshold: 1 << 30,
            split_mode: SplitMode::Soft,
            connections: 2,
            window: 32,
            merge_len: 64 << 10,
            revives_max: 5,
            push_max: Duration::from_secs(120),
            request_max: Duration::from_secs(60),
            retry_wait: Duration::from_secs(1),
            chunks_ahead: 3,
            heartbeat: Duration::from_secs(10),
        }
    }

    /// Refuses what cannot work.
    fn check(&self) -> Result<()> {
        let invalid = |text: String| Err(Error::new(Kind::Invalid, text));
        if self.masters.is_empty() {
            return invalid("no master is given, expected `host:port`".to_owned());
        }
        if !(1..=WINDOW_MAX).contains(&self.window) {
            return invalid(format!("the window is {} batches, expected 1 to {WINDOW_MAX}", self.window));
        }
        if self.merge_len > MERGE_LEN_MAX {
            let found = self.merge_len;
            return invalid(format!(
                "batches are to be merged up to {found} bytes, expected at most {MERGE_LEN_MAX}"
            ));
        }
        let longest = self.push_max.max(self.request_max).max(self.retry_wait);
        if longest > WAIT_MAX {
            return invalid(format!("a wait of {longest:?} for an answer, expected at most {WAIT_MAX:?}"));
        }
        Ok(())
    }
}

/// The most batches on their way to one worker: a semaphore counts those that a writer has begun.
pub(super) const WINDOW_MAX: usize = Semaphore::MAX_PERMITS / BEGUN_PER_WINDOW;

/// The longest that can be waited for something, within what clocks can tell: a year.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// The most bytes for which batches wait to be pushed together.
pub(super) const MERGE_LEN_MAX: usize = 8 << 20;

/// How often a worker that could not be reached is asked again.
pub(super) const RETRIES_MAX: u32 = 3;

/// How often the masters are asked before a request fails, each at least once; the waits between grow by 100 ms, to 2 s at
/// most.
const ATTEMPTS_MAX: usize = 15;

/// A registered application. Shuffles hold it; the heartbeat ends with the last of them or with [`Application::stop`].
#[derive(Clone)]
pub struct Application {
    session: Arc<Session>,
    heartbeat: Arc<Heartbeat>,
}

struct Heartbeat(Mutex<Option<JoinHandle<()>>>);

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Heartbeat {
    fn stop(&self) {
        if let Some(task) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

/// What every part of a client needs.
pub(super) struct Session {
    pub id: ApplicationId,
    /// A name that no other session has, not even a later one of this application.
    life: String,
    pub options: Options,
    pub client: Client,
    /// The master that answered last.
    master: AtomicUsize,
    next_number: AtomicI64,
    /// Those that the heartbeat has news for.
    shuffles: Mutex<Vec<Weak<Inner>>>,
    /// The numbers of shuffles that are registered.
    held: Mutex<BTreeSet<ShuffleId>>,
    /// Workers that a reader did not reach, and that no other one has reached since: other copies are tried first.
    unreached: Mutex<BTreeSet<WorkerId>>,
}

impl Application {
    /// Registers with a master and begins to send heartbeats.
    ///
    /// # Errors
    /// `Invalid` without masters, with a window of nothing, or with a `window`, a `merge_len` or a wait for an answer above
    /// its limit; `Unavailable` if no master answers; `ResourceExhausted` if one has no room for the application.
    pub async fn start(options: Options) -> Result<Self> {
        options.check()?;
        let session = Arc::new(Session {
            id: options.application.clone().unwrap_or_else(new_name).into(),
            life: new_name(),
            client: Client::new(ClientOptions {
                connections: options.connections,
                ..ClientOptions::new(Limits::ANSWERS)
            }),
            master: AtomicUsize::new(0),
            next_number: AtomicI64::new(1),
            shuffles: Mutex::default(),
            held: Mutex::default(),
            unreached: Mutex::default(),
            options,
        });
        session.register().await?;
        session.beat().await?;
        let beating = session.clone();
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(beating.options.heartbeat).await;
                if let Err(error) = beating.beat().await {
                    let hint = error.hint();
                    warn!(application = %beating.id, ?error, hint, "no master takes the heartbeat");
                }
            }
        });
        Ok(Self { session, heartbeat: Arc::new(Heartbeat(Mutex::new(Some(task)))) })
    }

    /// The application's name.
    pub fn id(&self) -> &ApplicationId {
        &self.session.id
    }

    /// Registers a shuffle of `maps` map tasks and `partitions` partitions, and reserves its locations. If it is cancelled,
    /// the number may not be free.
    ///
    /// # Errors
    /// `Unavailable` or `ResourceExhausted` if there are no workers for it; `Conflict` if this application has registered
    /// the number before and [`Shuffle::unregister`] has not given it back; `Invalid` for more than 2^31 - 1 of either.
    pub async fn register(&self, shuffle: ShuffleId, maps: usize, partitions: usize) -> Result<Shuffle> {
        Shuffle::register(self.clone(), shuffle, maps, partitions).await
    }

    pub(super) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Says goodbye: the service forgets the application with all its shuffles.
    ///
    /// # Errors
    /// `Unavailable` if no master answers; the application then expires by itself.
    pub async fn stop(self) -> Result<()> {
        self.heartbeat.stop();
        let request = proto::ApplicationLost {
            app_id: self.session.id.to_string(),
            request_id: self.session.request_id(),
        };
        self.session.ask_master::<_, received::ApplicationLostResponse>(&request).await.map(|_| ())
    }
}

/// A name that no other application has: the time, and the process within it.
fn new_name() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("yeoul-{}-{}", since.as_nanos(), std::process::id())
}

impl Session {
    /// A number that this application has not used before.
    pub fn number(&self) -> i64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// The name under which a repeated request is known to be the same.
    pub fn request_id(&self) -> String {
        format!("{}#{}", self.life, self.number())
    }

    /// Begins this life of the application: what an earlier one has left under its name is removed.
    async fn register(&self) -> Result<()> {
        let request = proto::RegisterApplicationInfo {
            app_id: self.id.to_string(),
            request_id: self.request_id(),
            ..Default::default()
        };
        // The answer says nothing; whether there is room, the heartbeat's does.
        self.ask_masters(&Message::of(&request)).await.map(|_| ())
    }

    async fn beat(&self) -> Result<()> {
        let request = proto::HeartbeatFromApplication {
            app_id: self.id.to_string(),
            request_id: self.request_id(),
            should_response: true,
            ..Default::default()
        };
        let answer = self.ask_master::<_, received::HeartbeatFromApplicationResponse>(&request).await?;
        if answer.status != Status::Success.code() {
            let text = format!("the master refuses application {}: status {}", self.id, answer.status);
            let error = Error::new(Kind::ResourceExhausted, text);
            return Err(error.with_hint("the master's limit on applications is reached: end some of them"));
        }
        let leaving = answer.messages(received::HeartbeatFromApplicationResponse::SHUTTING_WORKERS);
        let leaving: Vec<_> =
            leaving.map(|info| WorkerId::try_from(&info?)).collect::<Result<_, DecodeError>>()?;
        self.leave(&leaving);
        Ok(())
    }

    /// Whether readers should rather ask another worker: a silent one costs each of them the whole time of a request.
    pub fn is_unreached(&self, worker: &WorkerId) -> bool {
        self.unreached.lock().unwrap_or_else(PoisonError::into_inner).contains(worker)
    }

    /// Remembers whether a reader reached a worker.
    pub fn reached(&self, worker: &WorkerId, reached: bool) {
        let mut unreached = self.unreached.lock().unwrap_or_else(PoisonError::into_inner);
        if reached {
            unreached.remove(worker);
        } else {
            unreached.insert(worker.clone());
        }
    }

    /// Checks that no registration has the id. Workers keep data under it, so two registrations that have it at once,
    /// or one after the other without an `unregister` between them, would read each other's batches.
    ///
    /// # Errors
    /// `Conflict` if one has.
    pub fn check_free(&self, shuffle: ShuffleId) -> Result<()> {
        if self.held().contains(&shuffle) { Err(self.not_free(shuffle)) } else { Ok(()) }
    }

    /// Takes a number for a registration.
    ///
    /// # Errors
    /// `Conflict` if another one has it.
    pub fn hold(&self, shuffle: ShuffleId) -> Result<()> {
        if self.held().insert(shuffle) { Ok(()) } else { Err(self.not_free(shuffle)) }
    }

    fn not_free(&self, shuffle: ShuffleId) -> Error {
        let text = format!("shuffle {shuffle} of application {} is registered", self.id);
        Error::new(Kind::Conflict, text).with_hint("unregister it before, or take another number")
    }

    /// Lets the next registration have a number.
    pub fn give_back(&self, shuffle: ShuffleId) {
        self.held().remove(&shuffle);
    }

    fn held(&self) -> MutexGuard<'_, BTreeSet<ShuffleId>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, tells a shuffle which workers leave.
    pub fn remember(&self, shuffle: &Arc<Inner>) {
        let mut shuffles = self.shuffles.lock().unwrap_or_else(PoisonError::into_inner);
        shuffles.retain(|shuffle| shuffle.strong_count() > 0);
        shuffles.push(Arc::downgrade(shuffle));
    }

    /// Stops telling a shuffle which workers leave.
    pub fn forget(&self, shuffle: &Arc<Inner>) {
        let mut shuffles = self.shuffles.lock().unwrap_or_else(PoisonError::into_inner);
        shuffles.retain(|known| !std::ptr::eq(known.as_ptr(), Arc::as_ptr(shuffle)));
    }

    /// Keeps new locations off leaving workers, and commits what is there. The heartbeat does not wait for that: a
    /// worker may take long.
    fn leave(&self, leaving: &[WorkerId]) {
        let shuffles = self.shuffles.lock().unwrap_or_else(PoisonError::into_inner);
        for shuffle in shuffles.iter().filter_map(Weak::upgrade) {
            shuffle.state().routes.leave(leaving);
            if !leaving.is_empty() {
                let (leaving, leaver) = (leaving.to_vec(), shuffle.clone());
                shuffle.spawn(async move { leaver.commit_early(&leaving).await });
            }
        }
    }

    /// Asks the masters in turn, beginning with the one that answered last, until one answers.
    pub async fn ask_master<Q: Typed, A: Receivable>(&self, request: &Q) -> Result<Received<A>> {
        Ok(self.ask_masters(&Message::of(request)).await?.parse()?)
    }

    async fn ask_masters(&self, message: &Message) -> Result<Message> {
        let masters = &self.options.masters;
        let mut last = None;
        for attempt in 0..ATTEMPTS_MAX.max(masters.len()) {
            let index = self.master.load(Ordering::Relaxed) % masters.len();
            match self.ask(&masters[index], rpc::MASTER, message).await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    self.master.store(index + 1, Ordering::Relaxed);
                    // A master that answers with a failure would do so again, but another may not.
                    if error.kind() == Kind::Conflict && attempt + 1 >= masters.len() {
                        return Err(error);
                    }
                    last = Some(error);
                }
            }
            if attempt + 1 >= masters.len() {
                tokio::time::sleep(Duration::from_millis(100 * (attempt as u64 + 1).min(20))).await;
            }
        }
        let last = last.expect("at least one master was asked");
        Err(Error::new(Kind::Unavailable, format!("no master of {} answers", masters.join(", ")))
            .with_source(last))
    }

    /// Asks a worker's rpc endpoint.
    pub async fn ask_worker<Q: Typed, A: Receivable>(
        &self,
        worker: &WorkerId,
        request: &Q,
    ) -> Result<Received<A>> {
        let address = worker.address(worker.rpc_port);
        let answer = self.ask(&address, rpc::WORKER, &Message::of(request)).await?;
        Ok(answer.parse()?)
    }

    /// Back-off before retry `retry`, counted from 1; doubles each time.
    pub fn retry_wait(&self, retry: u32) -> Duration {
        self.options.retry_wait * (1 << (retry - 1))
    }

    /// Waits before retry `retry`, counted from 1.
    pub async fn wait_to_retry(&self, retry: u32) {
        tokio::time::sleep(self.retry_wait(retry)).await;
    }

    async fn ask(&self, address: &str, endpoint: &str, message: &Message) -> Result<Message> {
        let body = Request::encode_native(endpoint, message);
        let header = Header::RpcRequest { request_id: 0 };
        let answer = self.client.request(address, header, body, self.options.request_max).await?;
        Ok(Answer::decode_message(answer)?)
    }
}
