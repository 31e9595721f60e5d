use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};
use yeoul_journal::{FileJournal, FileJournalOptions, Journal};
use yeoul_net::supervise::Supervisor;
use yeoul_net::{Listener, Serving, serve_connections};

use super::clock::Clock;
use super::lost_and_found::LostAndFound;
use super::pages::NamenodePages;
use super::service::{Decisions, Service};
use super::site::Site;
use super::state::State;
use super::topology::Racks;
use super::{Options, Rules};
use crate::error::{Error, Kind, Result};
use crate::http;
use crate::memory::Memory;
use crate::rpc::{Groups, RpcServer, process_user};
use crate::wire::proto::journal::Record;

/// How often the NameNode looks at the clock.
const TICK: Duration = Duration::from_millis(500);
/// The file by which the directory of HDFS's own NameNode is known.
const HDFS_VERSION: &str = "current/VERSION";

/// A NameNode.
#[derive(Debug)]
pub struct Server;

/// A running NameNode. Dropping it ends it.
pub struct Handle {
    serving: Serving,
    http: Option<Serving>,
    journal_ended: oneshot::Receiver<Error>,
    tasks: Supervisor,
}

impl Server {
    /// Starts a NameNode: it takes its state from its directory, or begins a new cluster in an empty one unless that is refused.
    ///
    /// # Errors
    /// The port is taken, or the directory cannot be used or has no file system.
    pub async fn start(options: Options) -> Result<Handle> {
        let memory = Memory::new(options.memory_bytes)?;
        let mut handle = Self::start_in(options, memory.clone()).await?;
        handle.tasks.run("governor", memory.keep());
        Ok(handle)
    }

    /// Starts a NameNode that shares the memory of its process with other servers: somebody else keeps the promise.
    ///
    /// # Errors
    /// As of [`start`](Self::start).
    pub async fn start_in(options: Options, memory: Memory) -> Result<Handle> {
        let clock = Clock::start();
        let Options {
            host,
            port,
            dir,
            must_exist,
            http_port,
            http_host,
            http_names: mut names,
            memory_bytes: _,
            connections_max,
            hosts,
            topology,
            mut rules,
        } = options;
        if rules.superuser.is_empty() {
            rules.superuser = process_user().await;
        }
        topology.check()?;
        let listener = Listener::bind((host.as_str(), port)).await.map_err(|error| {
            Error::new(Kind::of_io(&error), format!("cannot listen on {host}:{port} for clients"))
                .with_hint("name another port with --port, or 0 for a free one")
                .with_source(error)
        })?;
        let folder = dir.clone();
        let reading = tokio::task::spawn_blocking(move || read(folder, rules));
        let (journal, state) =
            reading.await.map_err(|error| Error::new(Kind::Internal, error.to_string()))??;
        let (ended, random) = (journal.ended(), fastrand::Rng::new());
        let mut decisions = Decisions::new(state, random, Box::new(journal), memory.clone());
        if decisions.state.is_blank() && must_exist {
            return Err(without_file_system(&dir));
        }
        if decisions.state.is_blank() && dir.join(HDFS_VERSION).exists() {
            return Err(of_hdfs(&dir));
        }
        begin(&mut decisions, &host, &clock).await?;
        decisions.state.set_hosts(hosts.read().await?, clock.now());
        let pool = decisions.state.pool().to_owned();
        let groups = Groups::default();
        let reports = dir.join("reports");
        let service = Service::new(decisions, clock, groups.clone(), reports);
        let service = Arc::new(service.with_hosts(hosts).with_racks(Racks::new(topology)));
        let mut tasks = Supervisor::new("NameNode");
        tasks.keep("ticker", tick(Arc::clone(&service)));
        let (tell, journal_ended) = oneshot::channel();
        tasks.run("journal", async move {
            let _ = tell.send(ended.await);
        });
        let pages = NamenodePages::new(Arc::clone(&service), listener.address().to_string());
        let lost_and_found = LostAndFound::new(listener.address().to_string(), memory.clone());
        let site = Site::new(pages, Arc::clone(&service), lost_and_found);
        names.push(host.clone());
        let http = http::serve(http_host.as_ref().unwrap_or(&host), http_port, names, &memory, site).await?;
        let gate = memory.gate(connections_max);
        let rpc = Arc::new(RpcServer::new(service, memory).with_groups(groups));
        let serving = serve_connections(listener, gate, rpc);
        info!("the NameNode of block pool {pool} listens on {}", serving.address());
        Ok(Handle { serving, http, journal_ended, tasks })
    }
}

impl Handle {
    /// The address for clients and DataNodes.
    pub fn address(&self) -> SocketAddr {
        self.serving.address()
    }

    /// The address for pages, if they are served.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(Serving::address)
    }

    /// Waits until the NameNode can keep nothing any more: it answers no change from then on, and is to be started again.
    pub async fn ended(&mut self) -> Error {
        let ended = (&mut self.journal_ended).await;
        ended.unwrap_or_else(|_| Error::new(Kind::Internal, "the journal ended"))
    }

    /// Stops taking calls, and returns when those under way have ended and the directory can be used by another process.
    pub async fn stop(self) {
        self.serving.stop().await;
        if let Some(http) = self.http {
            http.stop().await;
        }
        // The last who have the journal.
        self.tasks.stop().await;
    }
}

/// The journal of a directory, and the state that it has.
fn read(dir: PathBuf, rules: Rules) -> Result<(FileJournal<Record>, State)> {
    let mut state = State::new(rules);
    let journal = FileJournal::open(FileJournalOptions::new(dir, "NameNode"), |record| state.apply(&record))?;
    Ok((journal, state))
}

fn without_file_system(dir: &Path) -> Error {
    let message = format!("there is no file system in '{}'", dir.display());
    Error::new(Kind::NotFound, message).with_hint(
        "look whether this is the directory and its disk is mounted; a new file system begins without --existing",
    )
}

/// The refusal of a directory that HDFS's own NameNode uses: a new file system in it would look like one that has lost all its
/// files.
fn of_hdfs(dir: &Path) -> Error {
    let message =
        format!("'{}' has the names of an HDFS NameNode, which this one cannot read", dir.display());
    Error::new(Kind::Invalid, message)
        .with_hint("name another directory, and copy the files: docs/moving-from-hdfs.md says how")
}

/// Begins a new cluster, if there is none, and leads it.
async fn begin(decisions: &mut Decisions, host: &str, clock: &Clock) -> Result<()> {
    let now = clock.now();
    let Decisions { state, random, .. } = decisions;
    if state.is_blank() {
        // As HDFS names them.
        let cluster = format!("CID-{:016x}{:016x}", random.u64(..), random.u64(..));
        let pool = format!("BP-{}-{host}-{}", random.u32(..), now.wall_ms);
        warn!(pool, "the directory has no file system: a new one begins");
        state.format(now.wall_ms, cluster, pool);
    }
    state.begin_term(now.wall_ms, now.steady_ms);
    let (sequence, kept) = decisions.keep();
    kept.await?;
    decisions.state.note_synced(sequence);
    Ok(())
}

async fn tick(service: Arc<Service>) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        service.tick();
    }
}
