use std::path::PathBuf;

use super::{HostsFiles, Rules, Topology};
use crate::memory::MEMORY_BYTES_DEFAULT;

/// How a NameNode runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to listen on.
    pub host: String,
    /// The port for clients and DataNodes; 0 takes a free one.
    pub port: u16,
    /// The port for pages and metrics; 0 takes a free one, none serves none (`dfs.namenode.http-address`).
    pub http_port: Option<u16>,
    /// The address for pages; none for that of [`Self::host`].
    pub http_host: Option<String>,
    /// Names by which browsers and others may ask for pages, beside those of this machine.
    pub http_names: Vec<String>,
    /// Directory of the journal and the image.
    pub dir: PathBuf,
    /// Refuses a directory without a file system, which may be the wrong one, or one whose disk is not mounted. Otherwise a new
    /// file system begins there.
    pub must_exist: bool,
    /// The most memory of the whole process, at least [`MEMORY_BYTES_MIN`](crate::memory::MEMORY_BYTES_MIN).
    pub memory_bytes: u64,
    /// Connections that may be open.
    pub connections_max: usize,
    /// The files that name the hosts which may have DataNodes, and those that are to leave.
    pub hosts: HostsFiles,
    /// Source of the racks of DataNodes that do not say theirs.
    pub topology: Topology,
    /// What decisions depend on.
    pub rules: Rules,
}

impl Options {
    /// A NameNode with its journal in a directory, on HDFS's port of the loopback address.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 8020,
            http_port: None,
            http_host: None,
            http_names: Vec::new(),
            dir: dir.into(),
            must_exist: false,
            memory_bytes: MEMORY_BYTES_DEFAULT,
            connections_max: 20_000,
            hosts: HostsFiles::default(),
            topology: Topology::default(),
            rules: Rules::default(),
        }
    }
}
