//! Numbers of the whole state that no call of a client asks for.

use super::State;
use crate::namenode::AdminState;
use crate::wire::proto::shared::DatanodeInfo;

/// Numbers of the whole state, for programs that watch it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// The name of the cluster.
    pub cluster: String,
    /// The block pool.
    pub pool: String,
    /// Files that clients write.
    pub open_files: usize,
    /// Clients that write files.
    pub writers: usize,
    /// DataNodes that are not named to clients, and whose blocks are not missed yet.
    pub stale_datanodes: usize,
    /// Storages whose disks have failed.
    pub failed_storages: usize,
    /// Racks on which DataNodes stand.
    pub racks: usize,
}

/// A DataNode, for programs that watch it.
#[derive(Clone, Debug)]
pub struct NodeFigures {
    /// As clients see it.
    pub info: DatanodeInfo,
    /// It has been heard of lately.
    pub is_live: bool,
    /// What it does for the cluster.
    pub admin: AdminState,
    /// Blocks that others do not have yet, if it is to leave.
    pub lacking: u64,
}

impl State {
    /// Numbers of the whole state.
    pub fn figures(&self, steady_ms: u64) -> Figures {
        let is_heard = |node, within| self.datanodes.is_live(node, steady_ms, within);
        let is_stale =
            |node| !is_heard(node, self.rules.silent_ms_max) && is_heard(node, self.rules.repair_after_ms);
        let storages = self.datanodes.storages().map(|storage| self.datanodes.storage(storage));
        Figures {
            cluster: self.cluster.clone(),
            pool: self.pool.clone(),
            open_files: self.leases.files(),
            writers: self.leases.holders(),
            stale_datanodes: self.datanodes.iter().filter(|node| is_stale(node.handle)).count(),
            failed_storages: storages.filter(|storage| storage.has_failed).count(),
            racks: self.racks_there(),
        }
    }

    /// All DataNodes that may be here.
    pub fn datanode_infos(&self, wall_ms: u64, steady_ms: u64) -> Vec<NodeFigures> {
        let info = |node: &crate::namenode::datanodes::Datanode| {
            let blocks: usize = node.storages.iter().map(|storage| self.blocks.count_of(*storage)).sum();
            let mut info = self.datanodes.info(node.handle, wall_ms, steady_ms);
            info.blocks = Some(u32::try_from(blocks).unwrap_or(u32::MAX));
            NodeFigures {
                info,
                is_live: self.datanodes.is_live(node.handle, steady_ms, self.rules.silent_ms_max),
                admin: node.admin,
                lacking: self.lacking_of(node.handle),
            }
        };
        self.datanodes.iter().filter(|node| !node.is_disallowed).map(info).collect()
    }
}
