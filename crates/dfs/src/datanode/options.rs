use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use yeoul_disk::{Disk, RealDisk};

use super::moves::{MOVED_BYTES_PER_SECOND, MOVES_MAX};
use crate::memory::MEMORY_BYTES_DEFAULT;

/// How long a check of all replicas may take, as in HDFS: three weeks.
pub const SCAN_PERIOD: Duration = Duration::from_secs(504 * 3600);

/// How a DataNode runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The NameNodes to report to.
    pub namenodes: Vec<String>,
    /// Directories for blocks, one for each disk.
    pub dirs: Vec<PathBuf>,
    /// The name or address by which clients and other DataNodes reach this one; none for the address from which it reaches
    /// its NameNode.
    pub host: Option<String>,
    /// The port for blocks; 0 takes a free one.
    pub port: u16,
    /// The port for calls of clients; 0 takes a free one.
    pub ipc_port: u16,
    /// The port for pages and metrics; 0 takes a free one, none serves none (`dfs.datanode.http.address`).
    pub http_port: Option<u16>,
    /// The address for pages; none for that of the other ports.
    pub http_host: Option<String>,
    /// Names by which browsers and others may ask for pages, beside those of this machine.
    pub http_names: Vec<String>,
    /// The group whose members may end it and its writers (`dfs.permissions.superusergroup`).
    pub supergroup: String,
    /// Where the DataNode stands, such as `/dc1/rack2`; empty for HDFS's `/default-rack`.
    pub rack: String,
    /// Bytes to leave free in each directory's file system (`dfs.datanode.du.reserved`).
    pub reserved_bytes: u64,
    /// The disk that the directories are on.
    pub disk: Arc<dyn Disk>,
    /// The most memory of the whole process, at least [`MEMORY_BYTES_MIN`](crate::memory::MEMORY_BYTES_MIN).
    pub memory_bytes: u64,
    /// Blocks that are written or read at a time (`dfs.datanode.max.transfer.threads`).
    pub transfers_max: usize,
    /// How often the DataNode shows that it is there (`dfs.heartbeat.interval`).
    pub heartbeat: Duration,
    /// Repairs at a time.
    pub repairs_max: usize,
    /// Bytes per second that all repairs together read from others, and that all replicas which a balancer moves have together
    /// (`dfs.datanode.balance.bandwidthPerSec`).
    pub repair_bytes_per_second: u64,
    /// Replicas that a balancer moves to and from here at a time (`dfs.datanode.balance.max.concurrent.moves`).
    pub moves_max: usize,
    /// Bytes per second of each directory that are checked for damage, 0 for none
    /// (`dfs.block.scanner.volume.bytes.per.second`).
    pub scan_bytes_per_second: u64,
    /// How long after the beginning of a check of all replicas the next one begins, at the earliest; none checks nothing
    /// (`dfs.datanode.scan.period.hours`).
    pub scan_period: Option<Duration>,
    /// How often it reports all that it has (`dfs.blockreport.intervalMsec`).
    pub report: Duration,
}

impl Options {
    /// A DataNode of one NameNode, on HDFS's ports.
    pub fn new(namenode: impl Into<String>, dirs: Vec<PathBuf>) -> Self {
        Self {
            namenodes: vec![namenode.into()],
            dirs,
            host: None,
            port: 9866,
            ipc_port: 9867,
            http_port: None,
            http_host: None,
            http_names: Vec::new(),
            supergroup: "supergroup".to_owned(),
            rack: String::new(),
            reserved_bytes: 0,
            disk: Arc::new(RealDisk),
            memory_bytes: MEMORY_BYTES_DEFAULT,
            transfers_max: 4096,
            // Each keeps some 4 MiB in memory.
            repairs_max: 4,
            // As HDFS's balancer (`dfs.datanode.balance.bandwidthPerSec`).
            repair_bytes_per_second: MOVED_BYTES_PER_SECOND,
            moves_max: MOVES_MAX,
            scan_bytes_per_second: 1 << 20,
            scan_period: Some(SCAN_PERIOD),
            heartbeat: Duration::from_secs(1),
            report: Duration::from_secs(6 * 3600),
        }
    }
}
