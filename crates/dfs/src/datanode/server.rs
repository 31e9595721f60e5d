use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::net::TcpStream;
use tokio::time::sleep;
use tracing::{info, warn};
use yeoul_net::supervise::Supervisor;
use yeoul_net::{Listener, Serving, serve_connections};

use super::Options;
use super::control::Control;
use super::ipc::{IpcService, Superusers};
use super::link::{Link, Own};
use super::moves::Moves;
use super::notices::Notices;
use super::pages::{self, DatanodePages};
use super::recoverer::Recoverer;
use super::repairer::Repairer;
use super::scanner::Scanner;
use super::store::Store;
use super::transfer::{TransferPort, Transfers};
use crate::error::{Error, Kind, Result};
use crate::http;
use crate::memory::Memory;
use crate::rpc::{RpcServer, process_user};

/// Connections beside those that have a transfer.
const IDLE_CONNECTIONS_MAX: usize = 20_000;

/// How long writers may take to close their connections once they are told that the DataNode ends.
const ANNOUNCED_MAX: Duration = Duration::from_secs(1);

/// A DataNode.
#[derive(Debug)]
pub struct Server;

/// A running DataNode. Dropping it ends it.
pub struct Handle {
    served: Arc<Transfers>,
    transfers: Serving,
    ipc: Serving,
    http: Option<Serving>,
    control: Arc<Control>,
    tasks: Supervisor,
}

impl Server {
    /// Starts a DataNode, which looks for its NameNodes from then on.
    ///
    /// # Errors
    /// A port is taken, or a directory cannot be used.
    pub async fn start(options: Options) -> Result<Handle> {
        let memory = Memory::new(options.memory_bytes)?;
        let mut handle = Self::start_with(options, memory.clone(), Control::new(false)).await?;
        handle.tasks.run("governor", memory.keep());
        Ok(handle)
    }

    /// Starts a DataNode that shares the memory of its process with other servers: somebody else keeps the promise.
    ///
    /// # Errors
    /// As of [`start`](Self::start).
    pub async fn start_in(options: Options, memory: Memory) -> Result<Handle> {
        Self::start_with(options, memory, Control::new(true)).await
    }

    async fn start_with(options: Options, memory: Memory, control: Control) -> Result<Handle> {
        let control = Arc::new(control);
        let (dirs, reserved, disk) = (options.dirs.clone(), options.reserved_bytes, options.disk.clone());
        let own = memory.clone();
        let opening = tokio::task::spawn_blocking(move || Store::open(&dirs, reserved, &disk, own, new_uuid));
        let store = opening.await.map_err(|error| Error::new(Kind::Internal, error.to_string()))??;
        let store = Arc::new(store);
        let (host, ip) = address_of(&options).await?;
        let bind: IpAddr = if ip.is_loopback() { ip } else { [0; 4].into() };
        let data = listen(bind, options.port, "blocks").await?;
        let ipc = listen(bind, options.ipc_port, "calls").await?;
        let mut own = Own {
            host,
            ip: ip.to_string(),
            transfer_port: data.port(),
            ipc_port: ipc.port(),
            info_port: 0,
            rack: options.rack.clone(),
            user: process_user().await,
        };
        let notices: Vec<Arc<Notices>> = options.namenodes.iter().map(|_| Arc::default()).collect();
        let bytes_per_second = options.repair_bytes_per_second;
        let transfers =
            Transfers::new(Arc::clone(&store), notices.clone(), options.transfers_max, memory.clone());
        let moves = Moves::new(options.moves_max, bytes_per_second);
        let transfers = Arc::new(transfers.with_moves(moves));
        let address = format!("{}:{}", own.host, data.port());
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let shown = pages::Own {
            address,
            ipc_port: ipc.port(),
            namenodes: options.namenodes.clone(),
            started_ms: u64::try_from(started.as_millis()).unwrap_or(u64::MAX),
        };
        let pages = DatanodePages::new(Arc::clone(&transfers), shown);
        let http_host = options.http_host.clone().unwrap_or_else(|| bind.to_string());
        let names = [options.http_names.clone(), vec![own.host.clone()]].concat();
        let http = http::serve(&http_host, options.http_port, names, &memory, pages).await?;
        // The NameNode's page links to it.
        own.info_port = http.as_ref().map_or(0, |http| http.address().port());
        let (term, mut tasks) = (Arc::new(AtomicU64::new(0)), Supervisor::new("DataNode"));
        let repairer = Arc::new(Repairer::new(options.repairs_max, bytes_per_second, memory.clone()));
        let recoverer = Arc::new(Recoverer::new(Arc::clone(&transfers)));
        let pool = {
            let store = Arc::clone(&store);
            move || store.pool()
        };
        tasks.keep("repairs", Arc::clone(&repairer).run(pool));
        for (namenode, notices) in options.namenodes.iter().cloned().zip(notices) {
            let (own, transfers, term) = (own.clone(), Arc::clone(&transfers), Arc::clone(&term));
            let (repairer, recoverer) = (Arc::clone(&repairer), Arc::clone(&recoverer));
            let control = Arc::clone(&control);
            let (heartbeat, report) = (options.heartbeat, options.report);
            tasks.keep(
                "link",
                Link {
                    namenode,
                    own,
                    transfers,
                    notices,
                    repairer,
                    recoverer,
                    term,
                    control,
                    heartbeat,
                    report,
                }
                .run(),
            );
        }
        let bytes_per_second = options.scan_bytes_per_second;
        if let Some(period) = options.scan_period.filter(|_| bytes_per_second > 0) {
            for volume in store.volumes() {
                let transfers = Arc::clone(&transfers);
                tasks.keep("scanner", Scanner { transfers, volume, bytes_per_second, period }.run());
            }
        }
        let gate = memory.gate(options.transfers_max + IDLE_CONNECTIONS_MAX);
        let served = Arc::clone(&transfers);
        let transfers = serve_connections(data, gate, Arc::new(TransferPort(transfers)));
        let gate = memory.gate(IDLE_CONNECTIONS_MAX);
        let superusers = Superusers { user: own.user.clone(), group: options.supergroup.clone() };
        let calls = IpcService::new(Arc::clone(&served), repairer, Arc::clone(&control), superusers);
        let calls = Arc::new(RpcServer::new(Arc::new(calls), memory));
        let ipc = serve_connections(ipc, gate, calls);
        info!(
            "the DataNode at {} takes blocks on {} and calls on {}",
            own.host,
            transfers.address(),
            ipc.address()
        );
        Ok(Handle { served, transfers, ipc, http, control, tasks })
    }
}

impl Handle {
    /// The address for blocks.
    pub fn address(&self) -> SocketAddr {
        self.transfers.address()
    }

    /// The address for pages, if they are served.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(Serving::address)
    }

    /// Waits until an operator has asked for the end (`hdfs dfsadmin -shutdownDatanode`).
    pub async fn asked_to_end(&self) {
        self.control.asked_to_end().await;
    }

    /// Tells writers that the DataNode ends, and closes all connections.
    pub async fn stop(self) {
        let served = self.served;
        // A writer that does not hear it finds the connection closed.
        let announced = tokio::task::spawn_blocking(move || served.writers.announce_restart(ANNOUNCED_MAX));
        let _ = announced.await;
        self.transfers.stop().await;
        self.ipc.stop().await;
    }
}

/// A name that nothing else has, in the usual form of a UUID of version 4.
fn new_uuid() -> String {
    let (high, low) = (fastrand::u64(..), fastrand::u64(..));
    let (a, b, c) = (high >> 32, (high >> 16) & 0xffff, (high & 0x0fff) | 0x4000);
    let (d, e) = ((low >> 48) & 0x3fff | 0x8000, low & 0xffff_ffff_ffff);
    format!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
}

async fn listen(bind: IpAddr, port: u16, purpose: &str) -> Result<Listener> {
    Listener::bind((bind, port)).await.map_err(|error| {
        Error::new(Kind::of_io(&error), format!("cannot listen on {bind}:{port} for {purpose}"))
            .with_hint("name another port, or 0 for a free one")
            .with_source(error)
    })
}

/// The name and the address by which others reach the DataNode: what it was told, or the address from which it reaches its
/// NameNode, for which it waits.
async fn address_of(options: &Options) -> Result<(String, IpAddr)> {
    if let Some(host) = &options.host {
        let unknown = |error: std::io::Error| {
            Error::new(Kind::Invalid, format!("the name '{host}' of this DataNode is unknown"))
                .with_hint("--host names an address, or a name that leads to one")
                .with_source(error)
        };
        let mut found = tokio::net::lookup_host((host.as_str(), 0)).await.map_err(unknown)?;
        let ip = found.next().ok_or_else(|| unknown(std::io::ErrorKind::NotFound.into()))?.ip();
        return Ok((host.clone(), ip));
    }
    let mut has_said = false;
    loop {
        for namenode in &options.namenodes {
            if let Ok(stream) = TcpStream::connect(namenode).await {
                let ip = stream.local_addr()?.ip();
                return Ok((ip.to_string(), ip));
            }
        }
        if !std::mem::replace(&mut has_said, true) {
            warn!("waiting for a NameNode at {}", options.namenodes.join(", "));
        }
        sleep(Duration::from_secs(1)).await;
    }
}
