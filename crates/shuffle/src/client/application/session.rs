//! A session of an application with its masters and workers, and the numbers of its shuffles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::options::Options;
use super::registered::Registered;
use super::state::ended;
use super::used_numbers::UsedNumbers;
use crate::client::tasks::Workers;
use crate::error::{Error, Kind, Result};
use crate::ids::{ApplicationId, ShuffleId, ShuffleKey, WorkerId};
use crate::net::{Client, ClientOptions};
use crate::wire::message::{Message, Receivable, Typed};
use crate::wire::rpc::{self, Answer, Request};
use crate::wire::{DecodeError, Header, Limits, Received, Status, proto, received};

/// Times that the masters are asked before a request fails, each at least once; the waits between grow by 100 ms, to 2 s at
/// most.
const ATTEMPTS_MAX: usize = 15;

/// State that every part of an application needs.
pub(in crate::client) struct Session {
    pub id: ApplicationId,
    /// A name that no other session has, not even a later one of this application.
    pub life: String,
    pub options: Options,
    pub workers: Arc<Workers>,
    /// The master that answered last.
    master: AtomicUsize,
    next_number: AtomicI64,
    /// Those that the heartbeat has news for, and that executors ask about.
    shuffles: Mutex<BTreeMap<ShuffleId, Weak<Registered>>>,
    numbers: Mutex<Numbers>,
    /// It has said goodbye to the service.
    stopped: AtomicBool,
}

/// The numbers that no registration may take.
#[derive(Default)]
struct Numbers {
    /// Of shuffles that are registered.
    held: BTreeSet<ShuffleId>,
    /// Of all shuffles that were registered, and those that were drawn.
    used: UsedNumbers,
    /// Of shuffles that executors have heard of, registered or not: what an executor has on its way to workers under a
    /// number is not waited for when the shuffle is unregistered.
    told: UsedNumbers,
}

/// A name that no other application has: the time, and the process within it.
fn new_name() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("yeoul-{}-{}", since.as_nanos(), std::process::id())
}

impl Numbers {
    fn check_free(&self, shuffle: ShuffleId, application: &ApplicationId) -> Result<()> {
        let (what, hint) = if self.held.contains(&shuffle) {
            ("is registered", "unregister it before, or take another number")
        } else if self.told.contains(shuffle) {
            ("was used by executors", "take another number: an executor may still push to it")
        } else {
            return Ok(());
        };
        let text = format!("shuffle {shuffle} of application {application} {what}");
        Err(Error::new(Kind::Conflict, text).with_hint(hint))
    }

    fn hold(&mut self, shuffle: ShuffleId) {
        self.used.insert(shuffle);
        let is_new = self.held.insert(shuffle);
        assert!(is_new, "two registrations have number {shuffle}");
    }
}

impl Session {
    /// A session that no master knows yet.
    pub fn new(options: Options) -> Self {
        let limits = Limits::ANSWERS;
        let client = ClientOptions { connections: options.connections, ..ClientOptions::new(limits) };
        Self {
            id: options.application.clone().unwrap_or_else(new_name).into(),
            life: new_name(),
            workers: Arc::new(Workers::new(Client::new(client))),
            master: AtomicUsize::new(0),
            next_number: AtomicI64::new(1),
            shuffles: Mutex::default(),
            numbers: Mutex::default(),
            stopped: AtomicBool::new(false),
            options,
        }
    }

    /// Notes that it says goodbye to the service.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Refuses work for an application that has said goodbye.
    ///
    /// # Errors
    /// `Conflict` if it has.
    pub fn check_running(&self) -> Result<()> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err(Error::new(Kind::Conflict, format!("application {} has stopped", self.id)));
        }
        Ok(())
    }

    /// A number that this application has not used before.
    pub fn number(&self) -> i64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// The name under which a repeated request is known to be the same.
    pub fn request_id(&self) -> String {
        format!("{}#{}", self.life, self.number())
    }

    /// Begins this life of the application: what an earlier one has left under its name is removed.
    pub async fn register(&self) -> Result<()> {
        let request = proto::RegisterApplicationInfo {
            app_id: self.id.to_string(),
            request_id: self.request_id(),
            ..Default::default()
        };
        // The answer says nothing; whether there is room, the heartbeat's does.
        self.ask_masters(&Message::of(&request)).await.map(|_| ())
    }

    pub async fn beat(&self) -> Result<()> {
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

    /// Checks that a registration may have the number. Workers keep data under it, so two registrations that have it at
    /// once, or one after the other without an `unregister` between them, would read each other's batches; so would two
    /// if an executor still pushes to the first.
    ///
    /// # Errors
    /// `Conflict` if one has it, or executors have heard of it.
    pub fn check_free(&self, shuffle: ShuffleId) -> Result<()> {
        self.numbers().check_free(shuffle, &self.id)
    }

    /// Takes a number for a registration.
    ///
    /// # Errors
    /// As for [`Session::check_free`].
    pub fn hold(&self, shuffle: ShuffleId) -> Result<()> {
        let mut numbers = self.numbers();
        numbers.check_free(shuffle, &self.id)?;
        numbers.hold(shuffle);
        Ok(())
    }

    /// Draws a number that no registration has had. No other one gets it any more, whether this one comes about or not.
    ///
    /// # Errors
    /// `ResourceExhausted` if there is none.
    pub fn draw(&self) -> Result<ShuffleId> {
        let mut numbers = self.numbers();
        let used_up = || Error::new(Kind::ResourceExhausted, "all numbers of shuffles were used");
        let drawn = numbers.used.first_free().ok_or_else(used_up)?;
        numbers.used.insert(drawn);
        numbers.told.insert(drawn);
        Ok(drawn)
    }

    /// Takes a number that was drawn for a registration.
    pub fn hold_drawn(&self, shuffle: ShuffleId) {
        self.numbers().hold(shuffle);
    }

    /// Lets the next registration have a number, unless executors have heard of it.
    pub fn give_back(&self, shuffle: ShuffleId) {
        self.numbers().held.remove(&shuffle);
    }

    /// Notes that executors hear of a registered shuffle.
    pub fn tell(&self, shuffle: ShuffleId) {
        self.numbers().told.insert(shuffle);
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shuffles(&self) -> MutexGuard<'_, BTreeMap<ShuffleId, Weak<Registered>>> {
        self.shuffles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A registered shuffle, for executors.
    ///
    /// # Errors
    /// `Conflict` if it was unregistered, or the application has stopped; `NotFound` if there is none of that number.
    pub fn shuffle(&self, shuffle: ShuffleId) -> Result<Arc<Registered>> {
        self.check_running()?;
        if let Some(registered) = self.shuffles().get(&shuffle).and_then(Weak::upgrade) {
            return Ok(registered);
        }
        if self.numbers().told.contains(shuffle) {
            return Err(ended(&ShuffleKey { application: self.id.clone(), shuffle }));
        }
        let text = format!("application {} has no shuffle {shuffle}", self.id);
        Err(Error::new(Kind::NotFound, text).with_hint("register it, and keep it while executors use it"))
    }

    /// From now on, tells a shuffle which workers leave, and executors of the shuffle.
    pub fn remember(&self, shuffle: &Arc<Registered>) {
        let mut shuffles = self.shuffles();
        shuffles.retain(|_, shuffle| shuffle.strong_count() > 0);
        shuffles.insert(shuffle.key.shuffle, Arc::downgrade(shuffle));
    }

    /// Stops telling a shuffle which workers leave.
    pub fn forget(&self, shuffle: &Arc<Registered>) {
        let mut shuffles = self.shuffles();
        let is_this = |known: &Weak<Registered>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(shuffle));
        if shuffles.get(&shuffle.key.shuffle).is_some_and(is_this) {
            shuffles.remove(&shuffle.key.shuffle);
        }
    }

    /// Keeps new locations off leaving workers, and commits what is there. The heartbeat does not wait for that: a
    /// worker may take long.
    fn leave(&self, leaving: &[WorkerId]) {
        for shuffle in self.shuffles().values().filter_map(Weak::upgrade) {
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
        self.options.of_tasks().retry_wait(retry)
    }

    /// Waits before retry `retry`, counted from 1.
    pub async fn wait_to_retry(&self, retry: u32) {
        tokio::time::sleep(self.retry_wait(retry)).await;
    }

    async fn ask(&self, address: &str, endpoint: &str, message: &Message) -> Result<Message> {
        let body = Request::encode_native(endpoint, message);
        let header = Header::RpcRequest { request_id: 0 };
        let answer = self.workers.client.request(address, header, body, self.options.request_max).await?;
        Ok(Answer::decode_message(answer)?)
    }
}
