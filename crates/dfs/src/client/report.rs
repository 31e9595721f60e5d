use serde::Serialize;

use super::FileSystem;
use crate::error::Result;
use crate::wire::proto::namenode::{
    BoolResponse, DatanodeReportRequest, DatanodeReportResponse, Empty, FsStatsResponse, SafeModeRequest,
};
use crate::wire::proto::shared::DatanodeInfo;

/// Which DataNodes to name, and the question about safe mode, by HDFS's numbers.
const LIVE: i32 = 2;
const DEAD: i32 = 3;
const SAFE_MODE_GET: i32 = 3;

/// What a cluster has and lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterReport {
    /// True while nothing can be changed.
    pub safe_mode: bool,
    /// Bytes of all storages of live DataNodes.
    pub capacity: u64,
    /// Bytes of blocks.
    pub used: u64,
    /// Bytes that new blocks may take.
    pub remaining: u64,
    /// Blocks with fewer good copies than they are to have, and at least one.
    pub under_replicated_blocks: u64,
    /// Blocks with a damaged copy.
    pub corrupt_blocks: u64,
    /// Blocks that cannot be read.
    pub missing_blocks: u64,
    /// Copies that are to be deleted.
    pub pending_deletions: u64,
    /// The DataNodes, live ones first.
    pub datanodes: Vec<Node>,
}

/// A DataNode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Address for blocks.
    pub address: String,
    /// Name by which clients reach it.
    pub host: String,
    /// Its identity.
    pub uuid: String,
    /// Rack.
    pub rack: String,
    /// False after it has been silent.
    pub live: bool,
    /// Bytes of its storages.
    pub capacity: u64,
    /// Bytes of blocks.
    pub used: u64,
    /// Bytes that new blocks may take.
    pub remaining: u64,
    /// Blocks and internal blocks.
    pub blocks: u64,
    /// Blocks that are written or read now.
    pub transfers: u32,
    /// When it was last heard of, in milliseconds since 1970.
    pub last_seen_ms: u64,
}

impl Node {
    fn new(info: DatanodeInfo, live: bool) -> Self {
        Self {
            address: format!("{}:{}", info.id.ip, info.id.transfer_port),
            host: info.id.host,
            uuid: info.id.uuid,
            rack: info.rack.unwrap_or_default(),
            live,
            capacity: info.capacity.unwrap_or_default(),
            used: info.used.unwrap_or_default(),
            remaining: info.remaining.unwrap_or_default(),
            blocks: info.blocks.unwrap_or_default().into(),
            transfers: info.transfers.unwrap_or_default(),
            last_seen_ms: info.last_update_ms.unwrap_or_default(),
        }
    }
}

impl FileSystem {
    /// What the cluster has and lacks now.
    ///
    /// # Errors
    /// What the NameNode says.
    pub async fn report(&self) -> Result<ClusterReport> {
        let stats: FsStatsResponse = self.call("getFsStats", &Empty {}).await?;
        let question = SafeModeRequest { action: SAFE_MODE_GET, checked: Some(false) };
        let safe_mode: BoolResponse = self.call("setSafeMode", &question).await?;
        let mut datanodes = Vec::new();
        for kind in [LIVE, DEAD] {
            let nodes: DatanodeReportResponse =
                self.call("getDatanodeReport", &DatanodeReportRequest { kind }).await?;
            datanodes.extend(nodes.datanodes.into_iter().map(|info| Node::new(info, kind == LIVE)));
        }
        Ok(ClusterReport {
            safe_mode: safe_mode.result,
            capacity: stats.capacity,
            used: stats.used,
            remaining: stats.remaining,
            under_replicated_blocks: stats.under_replicated,
            corrupt_blocks: stats.corrupt_blocks,
            missing_blocks: stats.missing_blocks,
            pending_deletions: stats.pending_deletion.unwrap_or_default(),
            datanodes,
        })
    }
}
