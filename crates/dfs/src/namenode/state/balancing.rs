//! The balancer's questions (`NamenodeProtocol`), and what it asks of clients' calls alone: which blocks a DataNode has, and how
//! full its storages are.

use super::State;
use crate::ids::{BlockId, StorageHandle};
use crate::namenode::Context;
use crate::namenode::blocks::{Block, Replica};
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::namenode::{
    BalancedBlock, BalancedBlocks, BlockKeysResponse, BlockRecord, BoolResponse, DatanodeReportRequest,
    DatanodeStorage, DatanodeStorageReport, DatanodeStorageReportResponse, Empty, ExportedKeys,
    GetBlocksRequest, GetBlocksResponse, NamespaceInfo, RollingUpgradeRequest, RollingUpgradeResponse,
    StorageInfo, StorageReport, UpgradeFinalizedResponse, VersionResponse,
};
use crate::wire::protocol;

/// Blocks of one answer to a balancer, which asks again.
const BLOCKS_MAX: usize = 10_000;
/// Blocks that one question of a balancer looks at.
const BLOCKS_LOOKED_AT_MAX: usize = 50_000;

/// The question whether a rolling upgrade is under way.
const ROLLING_UPGRADE_QUERY: i32 = 1;

impl State {
    /// Blocks of a DataNode that a balancer may move, with all their places, from a random one on.
    pub(super) fn blocks_to_balance(
        &mut self,
        context: &mut Context<'_>,
        request: &GetBlocksRequest,
    ) -> Result<GetBlocksResponse, Refusal> {
        context.user.check_superuser("getBlocks")?;
        let uuid = &request.datanode.uuid;
        let node = self.datanodes.by_uuid(uuid).ok_or_else(|| {
            let message = format!("Datanode {uuid:.255} not found.");
            Refusal::new(Exception::HadoopIllegalArgument, message)
        })?;
        let is_wanted = |storage: &&StorageHandle| {
            let storage = self.datanodes.storage(**storage);
            !storage.has_failed && request.storage_type.is_none_or(|kind| kind == storage.kind)
        };
        let mut found = BalancedBlocks::default();
        let (mut bytes, mut left) = (0, BLOCKS_LOOKED_AT_MAX);
        for storage in self.datanodes.node(node).storages.iter().filter(is_wanted) {
            let from = context.random.usize(..self.blocks.count_of(*storage).max(1));
            for id in self.blocks.of_storage_from(*storage, from) {
                if bytes >= request.size || found.blocks.len() >= BLOCKS_MAX || left == 0 {
                    return Ok(GetBlocksResponse { blocks: found });
                }
                left -= 1;
                let block = self.blocks.block(id);
                let is_small = block.length < request.block_size_min();
                if is_small || !block.is_committed || self.is_hot(block, request, context) {
                    continue;
                }
                let units = block.good().filter(|replica| replica.storage == *storage);
                let here: u64 = units.map(|replica| replica.length).sum();
                if here > 0 {
                    bytes += here;
                    found.blocks.push(self.balanced(block, context));
                }
            }
        }
        Ok(GetBlocksResponse { blocks: found })
    }

    /// True if the file of a block was read or written within the time that the balancer names.
    fn is_hot(&self, block: &Block, request: &GetBlocksRequest, context: &Context<'_>) -> bool {
        let inode = self.tree.inode(block.file);
        let used_ms = inode.accessed_ms.max(inode.modified_ms);
        request.hot_ms() > 0 && used_ms > context.now.wall_ms.saturating_sub(request.hot_ms())
    }

    /// A block with the places that can be read now.
    fn balanced(&self, block: &Block, context: &Context<'_>) -> BalancedBlock {
        let is_live = |replica: &Replica| self.standing(replica, context.now.steady_ms).is_live();
        let replicas: Vec<Replica> = block.good().filter(is_live).collect();
        let record = BlockRecord { id: block.id.to_wire(), stamp: block.stamp.0, length: Some(block.length) };
        let storage = |replica: &Replica| self.datanodes.storage(replica.storage);
        let geometry = block.geometry();
        let indices = || replicas.iter().map(|replica| replica.index.0).collect();
        BalancedBlock {
            block: record,
            datanodes: replicas.iter().map(|at| self.datanodes.node(at.datanode).uuid.clone()).collect(),
            storages: replicas.iter().map(|at| storage(at).uuid.clone()).collect(),
            storage_types: replicas.iter().map(|at| storage(at).kind).collect(),
            indices: geometry.map(|_| indices()),
            data_units: geometry.and_then(|geometry| u32::try_from(geometry.schema().data_units()).ok()),
            cell_size: geometry.and_then(|geometry| u32::try_from(geometry.cell_size()).ok()),
        }
    }

    /// Keys of block tokens, which nobody is asked for here.
    pub(super) fn block_keys(
        &mut self,
        context: &mut Context<'_>,
        _: &Empty,
    ) -> Result<BlockKeysResponse, Refusal> {
        context.user.check_superuser("getBlockKeys")?;
        Ok(BlockKeysResponse { keys: Some(ExportedKeys::default()) })
    }

    /// Identity of this NameNode.
    pub(super) fn version(
        &mut self,
        context: &mut Context<'_>,
        _: &Empty,
    ) -> Result<VersionResponse, Refusal> {
        context.user.check_superuser("versionRequest")?;
        let version = format!("yeoul {}", env!("CARGO_PKG_VERSION"));
        let storage = StorageInfo {
            layout_version: protocol::LAYOUT_VERSION,
            cluster: self.cluster.clone(),
            ..StorageInfo::default()
        };
        let info = NamespaceInfo {
            build_version: version.clone(),
            unused: 0,
            pool: self.pool.clone(),
            storage,
            software_version: version,
        };
        Ok(VersionResponse { info })
    }

    /// True: files of an older build are read as they are, and nothing has to be finalized.
    pub(super) fn is_upgrade_finalized(
        &mut self,
        context: &mut Context<'_>,
        _: &Empty,
    ) -> Result<UpgradeFinalizedResponse, Refusal> {
        context.user.check_superuser("isUpgradeFinalized")?;
        Ok(UpgradeFinalizedResponse { is_finalized: true })
    }

    /// The same of a rolling upgrade: there is none.
    pub(super) fn is_rolling_upgrade(
        &mut self,
        context: &mut Context<'_>,
        _: &Empty,
    ) -> Result<BoolResponse, Refusal> {
        context.user.check_superuser("isRollingUpgrade")?;
        Ok(BoolResponse { result: false })
    }

    /// Says that no rolling upgrade is under way. One is not begun here.
    pub(super) fn rolling_upgrade(
        &mut self,
        context: &mut Context<'_>,
        request: &RollingUpgradeRequest,
    ) -> Result<RollingUpgradeResponse, Refusal> {
        context.user.check_superuser("rollingUpgrade")?;
        if request.action == ROLLING_UPGRADE_QUERY {
            return Ok(RollingUpgradeResponse {});
        }
        Err(Refusal::unsupported("rollingUpgrade"))
    }

    /// The storages of DataNodes, for a balancer and `hdfs storagepolicies`.
    pub(super) fn datanode_storage_report(
        &mut self,
        context: &mut Context<'_>,
        request: &DatanodeReportRequest,
    ) -> Result<DatanodeStorageReportResponse, Refusal> {
        context.user.check_superuser("getDatanodeStorageReport")?;
        let report = self.datanode_report(context, request)?;
        let reports = report.datanodes.into_iter().map(|datanode| {
            let node = self.datanodes.by_uuid(&datanode.id.uuid).expect("it was just named");
            let storages = self.datanodes.node(node).storages.iter().map(|storage| {
                let storage = self.datanodes.storage(*storage);
                let uuid = storage.uuid.clone();
                StorageReport {
                    uuid: uuid.clone(),
                    failed: Some(storage.has_failed),
                    capacity: Some(storage.capacity),
                    used: Some(storage.used),
                    remaining: Some(storage.remaining),
                    block_pool_used: Some(storage.used),
                    storage: Some(DatanodeStorage { uuid, state: Some(0), kind: Some(storage.kind) }),
                    non_dfs_used: Some(
                        storage.capacity.saturating_sub(storage.used).saturating_sub(storage.remaining),
                    ),
                }
            });
            DatanodeStorageReport { storages: storages.collect(), datanode }
        });
        Ok(DatanodeStorageReportResponse { reports: reports.collect() })
    }

    /// Remembers whose replica is to go now that another DataNode has it, if there is one.
    pub(super) fn take_hint(&mut self, id: BlockId, delete_hint: &str) {
        let Some(from) = self.datanodes.by_uuid(delete_hint) else { return };
        let is_there = |replica: Replica| (replica.datanode, replica.index) == (from, id.index());
        if self.blocks.get(id.group()).is_some_and(|block| block.replicas().any(is_there)) {
            self.hints.add(id.group(), id.index(), from);
        }
    }
}
