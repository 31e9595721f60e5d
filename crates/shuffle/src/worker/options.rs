//! How a worker is started.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use yeoul_base::ByteSize;
use yeoul_net::LogLevels;

use crate::error::{Error, Kind, Result};
use crate::ids::WorkerId;

/// The least memory with which a worker works: below it, read buffers and a few batches leave no room to spill.
pub const MEMORY_BYTES_MIN: u64 = 48 << 20;

/// The largest target size of a chunk: with its last batch, which has up to 1 GiB, it is still one frame.
const CHUNK_BYTES_MAX: u64 = 512 << 20;

/// Ports for pushes of a worker that was given none: as many as a map task of the stock client can use, which has 256
/// pushes in flight altogether and 32 to each address.
const PUSH_PORTS: usize = 8;

/// How a worker is started. A port of 0 takes a free one; a worker that is to come back after a graceful stop needs all
/// fixed. Drivers that know a further port for pushes from before exclude it, and what else they have goes on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Options {
    /// The name or address under which masters, clients and other workers reach this worker, compared as text; `None` for
    /// the address from which it reaches its master.
    pub host: Option<String>,
    /// The address that the listeners bind; `None` for the loopback address if `host` is one, else every address.
    pub bind: Option<IpAddr>,
    /// For reserve, commit and destroy.
    pub rpc_port: u16,
    /// For pushes; the first is part of the worker's identity. The stock client has its limit on pushes in flight for each
    /// address, so that a map task gets further with several.
    pub push_ports: Vec<u16>,
    /// For reads.
    pub fetch_port: u16,
    /// For copies from other workers.
    pub replicate_port: u16,
    /// For HTTP; `None` means no HTTP.
    pub http_port: Option<u16>,
    /// The address that HTTP listens on, a name or a number; `None` for that of the other listeners.
    pub http_host: Option<String>,
    /// Names by which browsers and others may ask for HTTP, beside those of this machine.
    pub http_names: Vec<String>,
    /// `host:port` of every master.
    pub masters: Vec<String>,
    /// Where cold batches go. At least one.
    pub directories: Vec<PathBuf>,
    /// Bytes that may be stored in a directory, for those that have such a limit.
    pub capacities: BTreeMap<PathBuf, u64>,
    /// What the process may use as the operating system sees it (RSS).
    pub memory_bytes: u64,
    /// Bytes to leave free in each directory's file system; `None` for 5 GiB, or a twentieth of a small one.
    pub disk_reserve_bytes: Option<u64>,
    /// The rack, for replicas elsewhere; empty if unknown.
    pub network_location: String,
    /// The target size of a chunk. A client holds several, so it is not to exceed 8 MiB.
    pub chunk_bytes: u64,
    /// Whether locations split because of their size.
    pub split_enabled: bool,
    /// Bytes above which a soft split turns hard.
    pub split_bytes_max: u64,
    /// How long the other copy's worker may take to answer, where the client does not say.
    pub push_timeout: Duration,
    /// How often directories are probed.
    pub probe_interval: Duration,
    /// How long a probe may take before its directory is excluded.
    pub probe_timeout: Duration,
    /// Whether a commit is answered only when what it names is synced to a disk.
    pub commit_sync: bool,
    /// How long a graceful stop waits for open locations to be committed.
    pub stop_timeout: Duration,
    /// How long a decommission waits for the last shuffle to go.
    pub decommission_timeout: Duration,
    /// With so many connections, those of all its listeners together, the worker asks for no new partitions, and serves
    /// whoever comes; `None` for never.
    pub active_connections_max: Option<usize>,
    /// The levels of the process's log, if they may be changed over HTTP.
    #[serde(skip)]
    pub log_levels: Option<LogLevels>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: None,
            bind: None,
            rpc_port: 0,
            push_ports: vec![0; PUSH_PORTS],
            fetch_port: 0,
            replicate_port: 0,
            http_port: Some(0),
            http_host: None,
            http_names: Vec::new(),
            masters: vec!["127.0.0.1:9097".to_owned()],
            directories: Vec::new(),
            capacities: BTreeMap::new(),
            memory_bytes: 1 << 30,
            disk_reserve_bytes: None,
            network_location: String::new(),
            chunk_bytes: 8 << 20,
            split_enabled: true,
            split_bytes_max: 2 << 30,
            push_timeout: Duration::from_secs(120),
            probe_interval: Duration::from_secs(30),
            probe_timeout: Duration::from_secs(30),
            commit_sync: false,
            stop_timeout: Duration::from_secs(480),
            decommission_timeout: Duration::from_secs(6 * 3600),
            active_connections_max: None,
            log_levels: None,
        }
    }
}

impl Options {
    /// A worker in this process on free ports, without HTTP and without a reserve on its disk: for tests, measurements and
    /// the demo.
    pub fn embedded(
        masters: impl IntoIterator<Item = impl Into<String>>,
        directory: impl Into<PathBuf>,
    ) -> Self {
        Self {
            masters: masters.into_iter().map(Into::into).collect(),
            directories: vec![directory.into()],
            disk_reserve_bytes: Some(0),
            http_port: None,
            ..Self::default()
        }
    }

    /// Whether a worker that is started with them again is the same one to masters and clients.
    pub fn keeps_its_name(&self) -> bool {
        let ports = [self.rpc_port, self.fetch_port, self.replicate_port];
        ports.iter().chain(self.push_ports.first()).all(|port| *port > 0)
    }

    /// Whether it then takes pushes wherever drivers know it.
    pub fn keeps_its_push_ports(&self) -> bool {
        self.push_ports.iter().all(|port| *port > 0)
    }

    /// Refuses what cannot work.
    ///
    /// # Errors
    /// `Invalid`, with what to give instead.
    pub fn check(&self) -> Result<()> {
        let invalid = |text: &str, hint: &str| Err(Error::new(Kind::Invalid, text).with_hint(hint));
        if self.directories.is_empty() {
            return invalid(
                "a worker needs a directory",
                "give one with --dir, or several, separated by commas",
            );
        }
        let mut named = BTreeSet::new();
        let is_repeated = |path: &&PathBuf| !named.insert(std::path::absolute(path).unwrap_or_default());
        if let Some(twice) = self.directories.iter().find(is_repeated) {
            let text = format!("'{}' is named twice among the directories", twice.display());
            return invalid(&text, "name each once, in --dir or in celeborn.worker.storage.dirs");
        }
        if self.masters.is_empty() {
            return invalid("a worker needs a master", "give its address with --master host:9097");
        }
        if self.host.as_deref() == Some("") {
            return invalid(
                "the host is empty",
                "give the name that clients reach this worker by, with --host",
            );
        }
        const PORTS_MAX: usize = WorkerId::PUSH_PORTS_MAX;
        if !(1..=PORTS_MAX).contains(&self.push_ports.len()) {
            let text = format!("{} ports for pushes, expected 1 to {PORTS_MAX}", self.push_ports.len());
            return invalid(&text, "give them with --push-port, separated by commas; 0 takes a free one");
        }
        // HTTP may listen at another address.
        let http = self.http_port.filter(|_| self.http_host.is_none());
        let others = [self.rpc_port, self.fetch_port, self.replicate_port].into_iter().chain(http);
        let mut taken = BTreeSet::new();
        let mut ports = self.push_ports.iter().copied().chain(others).filter(|port| *port > 0);
        if let Some(twice) = ports.find(|port| !taken.insert(*port)) {
            let text = format!("port {twice} is given twice");
            let hint = "give each of --push-port, --rpc-port, --fetch-port, --replicate-port and --http-port others, \
                or 0 for a free one";
            return invalid(&text, hint);
        }
        if !(1..=CHUNK_BYTES_MAX).contains(&self.chunk_bytes) {
            let text = format!("chunks of {} bytes, expected 1 to {CHUNK_BYTES_MAX}", self.chunk_bytes);
            return invalid(&text, "leave celeborn.shuffle.chunk.size at 8m");
        }
        if self.memory_bytes < MEMORY_BYTES_MIN {
            let [found, least] = [self.memory_bytes, MEMORY_BYTES_MIN].map(ByteSize::from_bytes);
            let text = format!("memory of {found}, expected at least {least}");
            return invalid(&text, "give at least --memory 48MiB");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_twice_is_named() {
        let here = Options { directories: vec!["w".into()], ..Options::default() };
        let twice = |options: Options| options.check().map_err(|error| error.to_string());
        let directories = ["w", "x", "./w/"].map(PathBuf::from).to_vec();
        let named = "'./w/' is named twice among the directories".to_owned();
        assert_eq!(twice(Options { directories, ..here.clone() }), Err(named));
        let given = Err("port 9 is given twice".to_owned());
        assert_eq!(twice(Options { push_ports: vec![9, 0, 9], ..here.clone() }), given);
        assert_eq!(twice(Options { push_ports: vec![9], fetch_port: 9, ..here.clone() }), given);
        let http = Options { rpc_port: 9, http_port: Some(9), ..here };
        assert_eq!(twice(http.clone()), given);
        assert_eq!(twice(Options { http_host: Some("127.0.0.2".into()), ..http }), Ok(()));
    }

    #[test]
    fn the_first_push_port_is_of_the_name_and_the_further_ones_are_not() {
        let keeps = |rpc_port, push_ports: &[u16]| {
            let options = Options {
                rpc_port,
                push_ports: push_ports.to_vec(),
                fetch_port: 9093,
                replicate_port: 9095,
                ..Options::default()
            };
            (options.keeps_its_name(), options.keeps_its_push_ports())
        };
        assert_eq!(keeps(9094, &[9092, 9101]), (true, true));
        assert_eq!(keeps(9094, &[9092, 0]), (true, false));
        assert_eq!(keeps(9094, &[0, 9101]), (false, false));
        assert_eq!(keeps(0, &[9092]), (false, true));
    }
}
