//! Starts a worker.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use yeoul_memory::Governor;
use yeoul_net::http::{PageOptions, serve_pages_with};
use yeoul_net::supervise::{Supervisor, must_not_panic, outcome};

use super::control::ControlService;
use super::fetch::FetchService;
use super::host;
use super::lifecycle::Lifecycle;
use super::listeners::Listeners;
use super::memory;
use super::node::Node;
use super::options::Options;
use super::orders::Orders;
use super::pages::WorkerPages;
use super::push::PushService;
use super::registration::Registration;
use crate::error::{Error, Kind, Result};
use crate::ids::{Mode, WorkerId};
use crate::net::{Listener, Options as NetOptions, Serving, cannot_bind, raise_file_limit};
use crate::report::Command;
use crate::wire::Limits;

/// How often idle streams make room, where it is wanted.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// How long a stream goes unused before it may be closed for want of room: readers that crash never close theirs. As long as
/// there is room, it stays until its shuffle goes.
const STREAM_IDLE_MAX: Duration = Duration::from_secs(3600);

/// How long a connection to another worker is kept that nothing is sent over.
const PEER_IDLE_MAX: Duration = Duration::from_secs(60);

/// A worker.
#[derive(Debug)]
pub struct Server;

/// A worker at work. Dropping the last handle ends it at once, as a kill would.
#[derive(Clone)]
pub struct Handle {
    node: Arc<Node>,
    orders: Orders,
    ended: watch::Receiver<Option<Result<()>>>,
    http_address: Option<SocketAddr>,
    _tasks: Arc<Supervisor>,
}

impl Server {
    /// Opens the directories, takes in what they hold, listens, and registers with a master as soon as one answers.
    ///
    /// # Errors
    /// Options that cannot work, a directory or a port that cannot be used, by name.
    pub async fn start(mut options: Options) -> Result<Handle> {
        options.check()?;
        raise_file_limit();
        let host = match options.host.take() {
            Some(host) => host,
            None => host::towards(&options.masters).await?.to_string(),
        };
        let address = options.bind.unwrap_or_else(|| host::listening_for(&host));
        options.host = Some(host.clone());
        options.bind = Some(address);
        let bind = async |port: u16, what: &str, limits: Limits| {
            let bound = Listener::bind((address, port), NetOptions::new(limits)).await;
            bound.map_err(|error| cannot_bind(what, address, port, error))
        };
        let control = bind(options.rpc_port, "rpc", Limits::CONTROL).await?;
        let mut push = Vec::with_capacity(options.push_ports.len());
        for port in &options.push_ports {
            push.push(bind(*port, "push", Limits::PUSH).await?);
        }
        let fetch = bind(options.fetch_port, "fetch", Limits::FETCH).await?;
        let replicate = bind(options.replicate_port, "replicate", Limits::PUSH).await?;
        let id = WorkerId {
            host: host.as_str().into(),
            rpc_port: control.port(),
            push_port: push[0].port(),
            fetch_port: fetch.port(),
            replicate_port: replicate.port(),
        };
        options.push_ports = push.iter().map(Listener::port).collect();
        let first_limit = Governor::new(options.memory_bytes).first_limit();
        let opened = tokio::task::spawn_blocking(move || Node::open(options, id, first_limit));
        let node = opened.await.map_err(|panic| Error::new(Kind::Internal, panic.to_string()))??;
        let node = Arc::new(node);
        let pushes = Arc::new(PushService::new(Arc::clone(&node), Mode::Primary));
        let account = memory::account(node.store.memory());
        let charged = |listener: Listener| listener.with_account(account.clone());
        let mut listeners = Listeners {
            control: charged(control).serve(Arc::new(ControlService::new(Arc::clone(&node)))),
            push: push.into_iter().map(|listener| charged(listener).serve(Arc::clone(&pushes))).collect(),
            fetch: charged(fetch).serve(Arc::new(FetchService::new(Arc::clone(&node)))),
            replicate: charged(replicate).serve(Arc::new(PushService::new(Arc::clone(&node), Mode::Replica))),
            http: None,
        };
        let (orders, received) = Orders::channel();
        let (end, ended) = watch::channel(None);
        let connections: Vec<_> = listeners.all().map(Serving::connections).collect();
        if let Some(port) = node.options.http_port {
            let pages = WorkerPages::new(Arc::clone(&node), orders.clone(), connections.clone());
            let host = node.options.http_host.clone().unwrap_or_else(|| address.to_string());
            let listener = yeoul_net::Listener::bind((host.as_str(), port)).await;
            let listener = listener.map_err(|error| cannot_bind("http", &host, port, error))?;
            let names = [&node.options.http_names[..], &[host, node.id.host.to_string()]].concat();
            let options = PageOptions { names, account };
            listeners.http = Some(serve_pages_with(listener, options, Arc::new(pages)));
        }
        let http_address = listeners.http.as_ref().map(Serving::address);
        let http_port = http_address.map(|address| address.port());
        let registration = Registration::new(Arc::clone(&node), http_port, connections, orders.clone());
        let registration = Arc::new(registration);
        let mut tasks = Supervisor::new("worker");
        let spiller = Arc::clone(&node.store);
        tasks.keep("spiller", spiller.run_spiller());
        tasks.run("governor", Arc::clone(&node).govern_memory());
        tasks.keep("probes", probe(Arc::clone(&node)));
        tasks.keep("sweeper", sweep(Arc::clone(&node)));
        tasks.keep("registration", Arc::clone(&registration).run());
        let lifecycle = Lifecycle::new(Arc::clone(&node), registration, listeners);
        tasks.run("lifecycle", async move {
            end.send_replace(Some(lifecycle.run(received).await));
        });
        Ok(Handle { node, orders, ended, http_address, _tasks: Arc::new(tasks) })
    }
}

impl Handle {
    /// Who the worker is, with the ports that it took.
    pub fn id(&self) -> &WorkerId {
        &self.node.id
    }

    /// Where its HTTP pages are.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http_address
    }

    /// The worker's parts, for reports and metrics.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Hands over, brings what is committed to disk, and ends; see [`Handle::ended`].
    pub fn stop(&self) {
        self.order(Command::StopGracefully);
    }

    /// Takes nothing new, and ends when the last shuffle has gone.
    pub fn decommission(&self) {
        self.order(Command::Decommission);
    }

    pub(super) fn order(&self, command: Command) {
        // Where it is refused, the same wish waits already, or another order of the same kind.
        self.orders.give(command);
    }

    /// Returns when the worker has ended as ordered. It does not end otherwise: where a part of it panics the process ends.
    ///
    /// # Errors
    /// `DataLoss` if a graceful stop could not bring everything to disk; `Internal` if the runtime that it runs on has
    /// ended.
    pub async fn ended(&self) -> Result<()> {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(outcome)) => outcome.clone(),
            _ => Err(Error::new(Kind::Internal, "the runtime of the worker has ended")),
        }
    }
}

/// Probes every directory; one that does not answer in time is excluded until it does.
async fn probe(node: Arc<Node>) {
    let mut probes = JoinSet::new();
    for directory in node.store.directories() {
        let (directory, node) = (Arc::clone(directory), Arc::clone(&node));
        probes.spawn(async move {
            loop {
                tokio::time::sleep(node.options.probe_interval).await;
                let (health, probed) = (directory.health(), Arc::clone(&directory));
                let mut written = directory.written();
                let mut probe =
                    tokio::task::spawn_blocking(move || must_not_panic("worker", "probe", || probed.probe()));
                while tokio::time::timeout(node.options.probe_timeout, &mut probe).await.is_err() {
                    // Behind much that is being written a probe waits long on a disk that works.
                    if std::mem::replace(&mut written, directory.written()) == directory.written() {
                        directory.hangs();
                        node.news.notify_one();
                        let _ = probe.await; // one probe at a time, however long it takes
                        break;
                    }
                }
                if directory.health() != health {
                    node.news.notify_one();
                }
                node.store.memory().wake_spiller(); // what found no room may find it now
            }
        });
    }
    while let Some(ended) = probes.join_next().await {
        outcome(ended);
    }
    // They end by a panic, which goes on above, or because the runtime ends and aborts them, maybe before this task: that is no
    // failure of theirs.
    std::future::pending().await
}

async fn sweep(node: Arc<Node>) {
    let idle_ms = u64::try_from(STREAM_IDLE_MAX.as_millis()).unwrap_or(u64::MAX);
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        node.streams.make_room(node.store.now_ms().saturating_sub(idle_ms), node.store.memory());
        node.peers.close_idle(PEER_IDLE_MAX);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io;
    use std::sync::Mutex;

    use tokio::sync::mpsc;

    use super::*;
    use crate::net::{Body, Client, Reply, RequestError, Service};
    use crate::wire::internal::{WorkerHeartbeatReply, WorkerRegistered};
    use crate::wire::message::{Message, MessageType};
    use crate::wire::rpc::{self, Answer, Call, Request};
    use crate::wire::{Head, Header, proto, received};

    const WITHIN: Duration = Duration::from_secs(20);

    /// A master that passes on whether the worker calls itself saturated.
    struct Master {
        saturated: mpsc::UnboundedSender<bool>,
        watches: Mutex<Vec<Reply>>,
    }

    impl Service for Master {
        async fn call(&self, _: Head, body: &mut Body<'_>, reply: Reply) -> io::Result<()> {
            let Call::Message(message) = Request::decode(body.whole().await?).unwrap().call else {
                panic!("not a message");
            };
            match message.kind {
                MessageType::WORKER_REGISTER => {
                    let registered = WorkerRegistered { heartbeat_interval_ms: 100, ..Default::default() };
                    reply.answer(&Answer::of(&registered));
                }
                MessageType::WORKER_HEARTBEAT => {
                    let beat = message.parse::<received::WorkerHeartbeat>().unwrap();
                    let report = beat.part(received::WorkerHeartbeat::REPORT).unwrap().unwrap();
                    // A test that has failed hears nothing more.
                    let _ = self.saturated.send(report.saturated);
                    reply.answer(&Answer::of(&WorkerHeartbeatReply::default()));
                }
                _ => self.watches.lock().unwrap().push(reply),
            }
            Ok(())
        }
    }

    /// How a worker without a master is started.
    pub fn alone(place: &tempfile::TempDir) -> Options {
        Options { host: Some("127.0.0.1".into()), ..Options::embedded(["127.0.0.1:1"], place.path()) }
    }

    #[tokio::test]
    async fn a_worker_with_enough_connections_asks_for_no_partitions_and_serves_whoever_comes() {
        let (saturated, mut reports) = mpsc::unbounded_channel();
        let listener = Listener::bind("127.0.0.1:0", NetOptions::new(Limits::CONTROL)).await.unwrap();
        let masters = vec![listener.address().to_string()];
        let _master = listener.serve(Arc::new(Master { saturated, watches: Mutex::default() }));
        let place = tempfile::tempdir().unwrap();
        let options = Options { masters, active_connections_max: Some(3), ..alone(&place) };
        let worker = Server::start(options).await.unwrap();
        let node = worker.node();
        // Of two reports, the second one was made when the first was here.
        let mut is_saturated = async || {
            while reports.try_recv().is_ok() {}
            node.news.notify_one();
            let mut next = async || tokio::time::timeout(WITHIN, reports.recv()).await.unwrap().unwrap();
            next().await;
            next().await
        };
        // Each client has a connection of its own, and is told that there is no such request.
        let connect = async |port: u16| {
            let (client, message) = (Client::default(), Message::of(&proto::CheckQuota::default()));
            let request = Request::encode_native(rpc::WORKER, &message);
            let header = Header::RpcRequest { request_id: 0 };
            let asked = client.request(&format!("127.0.0.1:{port}"), header, request, WITHIN).await;
            assert!(matches!(asked, Err(RequestError::Failed { .. })), "{asked:?}");
            client
        };
        let [first_push, second_push, ..] = node.options.push_ports[..] else { panic!("there are eight") };
        let _control = connect(worker.id().rpc_port).await;
        let first = connect(first_push).await;
        assert!(!is_saturated().await);
        let second = connect(second_push).await;
        assert!(is_saturated().await);
        let beyond = [connect(first_push).await, connect(first_push).await, connect(first_push).await];
        drop((first, second, beyond));
        let relieved = async { while is_saturated().await {} };
        tokio::time::timeout(WITHIN, relieved).await.expect("they have gone");
    }

    #[tokio::test]
    async fn http_listens_where_it_is_told_to() {
        let place = tempfile::tempdir().unwrap();
        let options = Options { http_port: Some(0), http_host: Some("127.0.0.2".into()), ..alone(&place) };
        let worker = Server::start(options).await.unwrap();
        assert_eq!(worker.http_address().unwrap().ip().to_string(), "127.0.0.2");
    }
}
