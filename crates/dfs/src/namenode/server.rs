use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use yeoul_net::supervise::{DecisionLock, Supervisor};
use yeoul_net::{Gate, Listener, Serving, serve_connections};
use tokio::time::{MissedTickBehavior, interval};
use tracing::info;

use super::clock::Clock;
use super::service::{Decisions, Service};
use super::state::State;
use super::{Options, Rules};
use crate::error::{Error, Kind, Result};
use crate::rpc::{RpcServer, process_user};

/// How often the NameNode looks at the clock.
const TICK: Duration = Duration::from_millis(500);

/// A NameNode.
#[derive(Debug)]
pub struct Server;

/// A running NameNode. Dropping it ends it.
pub struct Handle {
    serving: Serving,
    _tasks: Supervisor,
}

impl Server {
    /// Starts a NameNode: it takes its state from its directory, or begins a new cluster in an empty one.
    ///
    /// # Errors
    /// The port is taken, or the directory cannot be used.
    pub async fn start(options: Options) -> Result<Handle> {
        let clock = Clock::start();
        let Options { host, port, dir: _, connections_max, mut rules } = options;
        if rules.superuser.is_empty() {
            rules.superuser = process_user().await;
        }
        let mut random = fastrand::Rng::new();
        let state = begin(rules, &host, &clock, &mut random);
        let pool = state.pool().to_owned();
        let listener = Listener::bind((host.as_str(), port)).await.map_err(|error| {
            Error::new(Kind::of_io(&error), format!("cannot listen on {host}:{port} for clients"))
                .with_hint("name another port with --port, or 0 for a free one")
                .with_source(error)
        })?;
        let decisions = Decisions { state, random };
        let service = Arc::new(Service::new(DecisionLock::new("NameNode's state", decisions), clock));
        let mut tasks = Supervisor::new("NameNode");
        tasks.keep("ticker", tick(Arc::clone(&service)));
        let rpc = Arc::new(RpcServer::new(service));
        let serving = serve_connections(listener, Gate::new(connections_max), rpc);
        info!("the NameNode of block pool {pool} listens on {}", serving.address());
        Ok(Handle { serving, _tasks: tasks })
    }
}

impl Handle {
    /// The address for clients and DataNodes.
    pub fn address(&self) -> SocketAddr {
        self.serving.address()
    }

    /// Stops taking calls, and returns when those under way have ended.
    pub async fn stop(self) {
        self.serving.stop().await;
    }
}

fn begin(rules: Rules, host: &str, clock: &Clock, random: &mut fastrand::Rng) -> State {
    let now = clock.now();
    let mut state = State::new(rules);
    if state.is_blank() {
        // As HDFS names them.
        let cluster = format!("CID-{:016x}{:016x}", random.u64(..), random.u64(..));
        let pool = format!("BP-{}-{host}-{}", random.u32(..), now.wall_ms);
        state.format(now.wall_ms, cluster, pool);
    }
    state.begin_term(now.wall_ms, now.steady_ms);
    state
}

async fn tick(service: Arc<Service>) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        service.tick();
    }
}
