//! A master's options.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::state::Limits;

/// What a master is started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Options {
    /// The address to listen on, a name or a number.
    pub host: String,
    /// The port for clients and workers; 0 takes a free one.
    pub port: u16,
    /// The port for HTTP; 0 takes a free one, `None` means no HTTP.
    pub http_port: Option<u16>,
    /// The address that HTTP listens on, a name or a number; `None` for `host`.
    pub http_host: Option<String>,
    /// Where the journal is; `None` keeps the state in memory only.
    pub dir: Option<PathBuf>,
    /// The leading master's `host:port`. With it this master decides nothing and passes every connection on, so that
    /// clients may list several endpoints.
    pub leader: Option<String>,
    /// How often workers send heartbeats.
    pub worker_heartbeat: Duration,
    /// Connections at a time; more are closed as they come.
    pub connections_max: usize,
    /// Limits and timeouts of the state.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 9097,
            http_port: Some(9098),
            http_host: None,
            dir: None,
            leader: None,
            worker_heartbeat: Duration::from_secs(5),
            connections_max: 20_000,
            limits: Limits::default(),
        }
    }
}

impl Options {
    /// Where HTTP listens.
    pub(super) fn http_host(&self) -> &str {
        self.http_host.as_deref().unwrap_or(&self.host)
    }

    /// A master in this process on free local ports, without HTTP and without a journal: for tests and the demo.
    pub fn embedded() -> Self {
        Self { port: 0, http_port: None, ..Self::default() }
    }

    /// Heartbeats that come several times within the silence that has consequences, whatever was set.
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

/// Heartbeats closer together would say nothing new.
const HEARTBEAT_MIN: Duration = Duration::from_millis(100);
