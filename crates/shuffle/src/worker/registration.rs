//! The worker's side of its conversation with the master: register, heartbeat, watch for orders, leave.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::node::Node;
use super::orders::Orders;
use crate::error::{Error, Kind, Result};
use crate::ids::ShuffleKey;
use crate::net::{Client, ConnectionCount};
use crate::report::Command;
use crate::wire::internal::{
    DirectoryHealth, DirectoryReport, HeldShuffle, ShuffleName, WorkerHeartbeat, WorkerIdentity, WorkerLeave,
    WorkerPhase, WorkerRegister, WorkerReport, WorkerWatch,
};
use crate::wire::message::{Message, Receivable, Typed};
use crate::wire::received::{WorkerHeartbeatReply, WorkerLeaveReply, WorkerOrders, WorkerRegistered};
use crate::wire::rpc::{self, Answer, Request};
use crate::wire::{Header, Received, Status};

/// How long a master may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long a watch may take: the master lets it wait for about 20 s.
const WATCH_MAX: Duration = Duration::from_secs(60);
/// How long the worker waits before it tries the next master, growing with each attempt.
const BACKOFF: Duration = Duration::from_millis(100);
/// The longest wait between two attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// How long the worker waits for deletions before it asks for further orders without having confirmed them.
const DELETION_WAIT: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(1) };
/// How often a worker without a master says so.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The connection to the masters.
pub struct Registration {
    node: Arc<Node>,
    http_port: Option<u16>,
    connections: Vec<ConnectionCount>,
    client: Client,
    orders: Orders,
    /// The worker has said goodbye: one more registration would make it a lost one.
    has_left: AtomicBool,
}

impl Registration {
    /// A registration that is not begun. `connections` are those of all listeners; orders for the worker as a whole go to
    /// `orders`.
    pub fn new(
        node: Arc<Node>,
        http_port: Option<u16>,
        connections: Vec<ConnectionCount>,
        orders: Orders,
    ) -> Self {
        let (client, has_left) = (Client::default(), AtomicBool::new(false));
        Self { node, http_port, connections, client, orders, has_left }
    }

    /// Registers with whichever master answers, again whenever it has to, until the worker has left. Runs until it is
    /// dropped.
    pub async fn run(self: Arc<Self>) {
        let mut backoff = BACKOFF;
        let mut reported: Option<Instant> = None;
        loop {
            for master in &self.node.options.masters {
                if self.has_left.load(Ordering::Relaxed) {
                    return std::future::pending().await;
                }
                let served = self.serve(master, &mut backoff).await;
                self.node.set_registered(false);
                if let Err(error) = served {
                    self.node.meters.failed_registrations.add(1);
                    tracing::debug!(%master, %error, "not registered");
                    // Not of each of several masters in each turn.
                    if reported.is_none_or(|last| last.elapsed() >= REPORT_INTERVAL) {
                        tracing::warn!(%master, %error, "not registered, trying again");
                        reported = Some(Instant::now());
                    }
                }
                self.client.disconnect(master);
            }
            tokio::time::sleep(backoff).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    /// One conversation with one master, until it fails or wants a new registration.
    async fn serve(&self, master: &str, backoff: &mut Duration) -> Result<()> {
        let further_push_ports = self.node.options.push_ports.iter().skip(1);
        let registered: Received<WorkerRegistered> = self
            .ask(
                master,
                &WorkerRegister {
                    worker: Some(self.identity()),
                    incarnation: self.node.incarnation,
                    http_port: self.http_port.unwrap_or(0).into(),
                    network_location: self.node.options.network_location.clone(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    report: Some(self.report()),
                    push_ports: further_push_ports.map(|port| (*port).into()).collect(),
                },
                ANSWER_MAX,
            )
            .await?;
        if registered.status != Status::Success.code() {
            let text = format!("{master} refused the registration: {}", registered.message);
            return Err(Error::new(Kind::Unavailable, text));
        }
        tracing::info!(%master, worker = %self.node.id, "registered");
        self.node.set_registered(true);
        *backoff = BACKOFF;
        let interval_ms = u64::try_from(registered.heartbeat_interval_ms).unwrap_or(0).clamp(100, 60_000);
        tokio::select! {
            ended = self.heartbeats(master, Duration::from_millis(interval_ms)) => ended,
            ended = self.watch(master) => ended,
        }
    }

    async fn heartbeats(&self, master: &str, interval: Duration) -> Result<()> {
        loop {
            // The interval, or sooner when there is news.
            let _ = tokio::time::timeout(interval, self.node.news.notified()).await;
            let beat = WorkerHeartbeat {
                worker: Some(self.identity()),
                incarnation: self.node.incarnation,
                report: Some(self.report()),
            };
            let reply: Received<WorkerHeartbeatReply> = self.ask(master, &beat, ANSWER_MAX).await?;
            if reply.status != Status::Success.code() {
                return Ok(()); // it does not know us any more: register again
            }
        }
    }

    /// Takes orders. They are confirmed when they are carried out: before its files are gone a shuffle's number must not be
    /// used again here, even after a kill. A disk that stands still keeps nobody from hearing what comes behind. A command
    /// counts as carried out when the lifecycle has it.
    async fn watch(&self, master: &str) -> Result<()> {
        let mut seen = 0;
        // Up to which number orders will be carried out next, and what is still to be deleted for that.
        let mut next: Option<(u64, Vec<ShuffleKey>)> = None;
        // The last command, which is told again until it is confirmed, and the number with which it came.
        let mut obeyed = (0, None);
        loop {
            let watch =
                WorkerWatch { worker: Some(self.identity()), incarnation: self.node.incarnation, seen };
            let orders: Received<WorkerOrders> = self.ask(master, &watch, WATCH_MAX).await?;
            if orders.status != Status::Success.code() {
                return Ok(());
            }
            let mut keys = Vec::new();
            for name in orders.messages(WorkerOrders::EXPIRED) {
                let name = name?;
                keys.push(ShuffleKey::new(name.application.as_str(), name.shuffle));
            }
            self.node.expire_all(keys.iter().cloned());
            let command = Option::<Command>::from(orders.command());
            if let Some(command) = command.filter(|_| command != obeyed.1)
                && !self.orders.give(command)
            {
                tokio::time::sleep(DELETION_WAIT).await;
                continue; // it comes again, for it is not confirmed
            }
            obeyed = (orders.sequence, command);
            let (number, left) = next.get_or_insert((orders.sequence, keys));
            if self.node.store.are_deleted(left, DELETION_WAIT).await {
                seen = *number;
                next = None;
                if seen >= obeyed.0 {
                    obeyed.1 = None;
                }
            }
        }
    }

    /// Tells the first master that answers that the worker leaves, or has left: there is one that decides, and the others
    /// pass on to it what they get.
    pub async fn leave(&self, gone: bool) {
        self.has_left.fetch_or(gone, Ordering::Relaxed);
        let leave = WorkerLeave {
            worker: Some(self.identity()),
            incarnation: self.node.incarnation,
            phase: WorkerPhase::from(self.node.phase()).into(),
            gone,
        };
        for master in &self.node.options.masters {
            let answer: Result<Received<WorkerLeaveReply>> = self.ask(master, &leave, ANSWER_MAX).await;
            if answer.is_ok() {
                return;
            }
        }
    }

    async fn ask<Q: Typed, A: Receivable>(
        &self,
        master: &str,
        question: &Q,
        within: Duration,
    ) -> Result<Received<A>> {
        let request = Request::encode_native(rpc::MASTER, &Message::of(question));
        let answer = self.client.request(master, Header::RpcRequest { request_id: 0 }, request, within).await;
        let answer =
            answer.map_err(|error| Error::new(Kind::Unavailable, error.to_string()).with_source(error))?;
        Ok(Answer::decode_message(answer)?.parse()?)
    }

    fn identity(&self) -> WorkerIdentity {
        WorkerIdentity::from(&self.node.id)
    }

    fn report(&self) -> WorkerReport {
        let store = &self.node.store;
        let mut open_locations = 0;
        let held = store.all();
        let mut shuffles: Vec<_> = held
            .iter()
            .map(|shuffle| {
                let contents = shuffle.lock();
                open_locations += count(contents.state.open_locations());
                HeldShuffle {
                    name: Some(name(shuffle.key())),
                    locations: count(contents.state.len()),
                    bytes: contents.bytes().cast_signed(),
                }
            })
            .collect();
        // Last, because the master orders only so many deletions for one report. Looked at later than the others, so that one
        // which is removed meanwhile is in one of the lists.
        let mut deleting = store.deleting();
        if !deleting.is_empty() {
            let held: HashSet<&ShuffleKey> = held.iter().map(|shuffle| shuffle.key()).collect();
            deleting.retain(|key| !held.contains(key));
        }
        shuffles.extend(deleting.iter().map(|key| HeldShuffle {
            name: Some(name(key)),
            locations: 0,
            bytes: 0,
        }));
        let directories = store.directories().iter().map(|directory| DirectoryReport {
            path: directory.root().display().to_string(),
            bytes_total: directory.total().cast_signed(),
            bytes_usable: directory.usable().cast_signed(),
            health: DirectoryHealth::from(directory.health()).into(),
        });
        let connections = self.connections.iter().map(ConnectionCount::get).sum::<usize>();
        let saturated = self.node.is_saturated(shuffles.len(), connections);
        WorkerReport {
            phase: WorkerPhase::from(self.node.phase()).into(),
            directories: directories.collect(),
            memory_limit_bytes: store.memory().limit().cast_signed(),
            memory_used_bytes: store.memory().used().cast_signed(),
            shuffles,
            saturated,
            open_locations,
        }
    }
}

fn name(key: &ShuffleKey) -> ShuffleName {
    ShuffleName { application: key.application.to_string(), shuffle: key.shuffle.0 }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Mutex;

    use tokio::sync::mpsc;

    use super::*;
    use crate::net::{self, Body, Listener, Reply, Service};
    use crate::stored_name;
    use crate::wire::WORKER_SHUFFLES_MAX;
    use crate::wire::internal::{self, WorkerRegistered};
    use crate::wire::message::MessageType;
    use crate::wire::rpc::Call;
    use crate::wire::{Head, Limits};
    use crate::worker::node::SHUFFLES_MANY;
    use crate::worker::node::tests::{node, node_with, options};
    use crate::worker::options::Options;
    use crate::worker::store::segment::Segment;

    const WITHIN: Duration = Duration::from_secs(20);

    /// A master with orders, which notes what is confirmed.
    struct Master {
        orders: Mutex<internal::WorkerOrders>,
        seen: mpsc::UnboundedSender<u64>,
        waiting: Mutex<Vec<Reply>>,
    }

    impl Service for Master {
        async fn call(&self, _: Head, body: &mut Body<'_>, reply: Reply) -> io::Result<()> {
            let Call::Message(message) = Request::decode(body.whole().await?).unwrap().call else {
                panic!("not a message");
            };
            if message.kind == MessageType::WORKER_WATCH {
                let watch: Received<crate::wire::received::WorkerWatch> = message.parse().unwrap();
                let orders = self.orders.lock().unwrap().clone();
                self.seen.send(watch.seen).unwrap();
                match watch.seen < orders.sequence {
                    true => reply.answer(&Answer::of(&orders)),
                    false => self.waiting.lock().unwrap().push(reply),
                }
            } else if message.kind == MessageType::WORKER_REGISTER {
                let status = Status::Success.code();
                let registered =
                    WorkerRegistered { status, heartbeat_interval_ms: 60_000, ..Default::default() };
                reply.answer(&Answer::of(&registered));
            }
            Ok(())
        }
    }

    #[tokio::test]
    async fn an_order_is_confirmed_when_it_is_carried_out_and_others_are_heard_meanwhile() {
        let place = tempfile::tempdir().unwrap();
        let (seen, mut watched) = mpsc::unbounded_channel();
        let key = ShuffleKey::new("app", 5);
        let orders = internal::WorkerOrders {
            status: Status::Success.code(),
            sequence: 7,
            expired: vec![name(&key)],
            command: internal::WorkerCommand::CommandDecommission.into(),
        };
        let master = Arc::new(Master { orders: Mutex::new(orders), seen, waiting: Mutex::default() });
        let listener = Listener::bind("127.0.0.1:0", net::Options::new(Limits::CONTROL)).await.unwrap();
        let masters = vec![listener.address().to_string()];
        let _serving = listener.serve(Arc::clone(&master));
        let node = node_with(Options { masters, ..options(&place) });
        let directory = &node.store.directories()[0];
        {
            let shuffle = node.store.find_or_insert(&key).unwrap();
            let segment = Arc::new(Segment::create(directory, &key, 1).unwrap());
            shuffle.lock().adopt(&segment);
        }
        let still = directory.deletions.take_all().await;
        let (sender, mut commands) = Orders::channel();
        let registration = Arc::new(Registration::new(Arc::clone(&node), None, Vec::new(), sender));
        let running = tokio::spawn(Arc::clone(&registration).run());
        let mut next = async || tokio::time::timeout(WITHIN, watched.recv()).await.expect("it asks").unwrap();
        let names = || -> Vec<ShuffleName> {
            registration.report().shuffles.into_iter().filter_map(|held| held.name).collect()
        };
        for _ in 0..3 {
            assert_eq!(next().await, 0);
        }
        assert!(node.store.find(&key).is_none());
        assert_eq!(names(), [name(&key)], "its files are there");
        assert_eq!(commands.recv().await, Some(Command::Decommission));
        {
            let mut orders = master.orders.lock().unwrap();
            orders.sequence = 9;
            orders.command = internal::WorkerCommand::CommandStopGracefully.into();
        }
        let stop = tokio::time::timeout(WITHIN, commands.recv()).await.expect("it hears of it");
        assert_eq!(stop, Some(Command::StopGracefully), "and of each once");
        drop(still);
        let mut confirmed = Vec::new();
        while confirmed.last() != Some(&9) {
            confirmed.push(next().await);
        }
        confirmed.dedup();
        assert_eq!(confirmed, [0, 7, 9]);
        assert_eq!((names(), commands.try_recv().ok()), (Vec::new(), None));
        running.abort();
    }

    #[tokio::test]
    async fn a_command_is_confirmed_when_the_lifecycle_has_it_and_not_before() {
        let place = tempfile::tempdir().unwrap();
        let (seen, mut watched) = mpsc::unbounded_channel();
        let orders = internal::WorkerOrders {
            status: Status::Success.code(),
            sequence: 3,
            expired: Vec::new(),
            command: internal::WorkerCommand::CommandRecommission.into(),
        };
        let master = Arc::new(Master { orders: Mutex::new(orders), seen, waiting: Mutex::default() });
        let listener = Listener::bind("127.0.0.1:0", net::Options::new(Limits::CONTROL)).await.unwrap();
        let masters = vec![listener.address().to_string()];
        let _serving = listener.serve(master);
        let node = node_with(Options { masters, ..options(&place) });
        let (sender, mut commands) = Orders::channel();
        while sender.give(Command::Decommission) {}
        let registration = Arc::new(Registration::new(Arc::clone(&node), None, Vec::new(), sender));
        let running = tokio::spawn(registration.run());
        let mut next = async || tokio::time::timeout(WITHIN, watched.recv()).await.expect("it asks").unwrap();
        for _ in 0..3 {
            assert_eq!(next().await, 0, "there is no room for the order");
        }
        let taken = async { while commands.recv().await != Some(Command::Recommission) {} };
        tokio::time::timeout(WITHIN, taken).await.expect("it comes again");
        while next().await != 3 {}
        assert_eq!(commands.try_recv().ok(), None, "it is taken once");
        running.abort();
    }

    #[test]
    fn a_worker_with_many_shuffles_says_so_before_it_refuses_them() {
        let place = tempfile::tempdir().unwrap();
        let node = node(&place);
        let registration = Registration::new(Arc::clone(&node), None, Vec::new(), Orders::channel().0);
        let more = |shuffles: std::ops::Range<usize>| {
            shuffles.for_each(|number| _ = node.store.find_or_insert(&ShuffleKey::new("app", number as i32)));
        };
        more(0..SHUFFLES_MANY - 1);
        assert!(!registration.report().saturated);
        more(SHUFFLES_MANY - 1..SHUFFLES_MANY);
        assert!(registration.report().saturated);
        const { assert!(SHUFFLES_MANY < WORKER_SHUFFLES_MAX) };
    }

    #[test]
    fn a_report_has_room_for_all_shuffles_that_a_worker_may_hold() {
        let application = "a".repeat(stored_name::LEN_MAX);
        let held = HeldShuffle {
            name: Some(ShuffleName { application, shuffle: i32::MAX }),
            locations: i64::MAX,
            bytes: i64::MAX,
        };
        let report = WorkerReport { shuffles: vec![held; WORKER_SHUFFLES_MAX], ..WorkerReport::default() };
        let beat = WorkerHeartbeat { report: Some(report), ..WorkerHeartbeat::default() };
        let (len, directories) = (Message::of(&beat).to_bare().len(), 256 << 10);
        assert!(len + directories <= Limits::CONTROL.rpc_body_max, "{len}");
    }
}
