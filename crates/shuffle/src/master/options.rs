//! A master's options.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use yeoul_net::LogLevels;

use super::state::Limits;

/// The options that a master is started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Options {
    /// The address to listen on, by name or number.
    pub host: String,
    /// The port for clients and workers; 0 picks a free one.
    pub port: u16,
    /// The port for HTTP; 0 picks a free one, `None` means no HTTP.
    pub http_port: Option<u16>,
    /// The address for HTTP, by name or number; `None` for `host`.
    pub http_host: Option<String>,
    /// Names by which browsers and others may ask for HTTP, beside those of this machine.
    pub http_names: Vec<String>,
    /// The journal's directory; `None` keeps the state in memory only.
    pub dir: Option<PathBuf>,
    /// The leading master's `host:port`. If set, this master decides nothing and passes all connections on, so that clients
    /// may list several endpoints.
    pub leader: Option<String>,
    /// The most memory that the whole process may use, at least 48 MiB; `None` promises nothing, for a master that shares
    /// its process.
    pub memory_bytes: Option<u64>,
    /// How often workers send heartbeats.
    pub worker_heartbeat: Duration,
    /// The most connections at a time; more are closed when they arrive.
    pub connections_max: usize,
    /// Limits and timeouts of the state.
    pub limits: Limits,
    /// The levels of the process's log, if they may be changed over HTTP.
    #[serde(skip)]
    pub log_levels: Option<LogLevels>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 9097,
            http_port: Some(9098),
            http_host: None,
            http_names: Vec::new(),
            dir: None,
            memory_bytes: None,
            leader: None,
            worker_heartbeat: Duration::from_secs(5),
            connections_max: 20_000,
            limits: Limits::default(),
            log_levels: None,
        }
    }
}

impl Options {
    /// The address for HTTP.
    pub(super) fn http_host(&self) -> &str {
        self.http_host.as_deref().unwrap_or(&self.host)
    }

    /// A master in this process on free local ports, without HTTP and without a journal: for tests and the demo.
    pub fn embedded() -> Self {
        Self { port: 0, http_port: None, ..Self::default() }
    }

    /// Shortens the heartbeat interval, so that several fit into the shortest silence that has consequences.
    pub(super) fn in_agreement(mut self) -> Self {
        let limits = &self.limits;
        self.worker_heartbeat = self
            .worker_heartbeat
            .min(limits.worker_quiet / 4)
            .min(limits.worker_timeout / 4)
            .max(HEARTBEAT_MIN);
        self
    }
}

/// The shortest useful interval between heartbeats.
const HEARTBEAT_MIN: Duration = Duration::from_millis(100);
