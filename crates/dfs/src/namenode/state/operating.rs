//! Calls of operators, and what readers say of damaged replicas.

use super::State;
use crate::ids::BlockId;
use crate::namenode::Context;
use crate::namenode::blocks::Replica;
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::namenode::{
    BoolResponse, DatanodeReportRequest, DatanodeReportResponse, Empty, FsStatsResponse, HaStateResponse,
    ReportBadBlocksRequest, SafeModeRequest,
};

/// What an operator asks of safe mode.
const SAFE_MODE_LEAVE: i32 = 1;
const SAFE_MODE_ENTER: i32 = 2;
const SAFE_MODE_GET: i32 = 3;
const SAFE_MODE_FORCE_EXIT: i32 = 4;

/// Which DataNodes an operator wants to see.
const REPORT_ALL: i32 = 1;
const REPORT_LIVE: i32 = 2;
const REPORT_DEAD: i32 = 3;

/// The state of a NameNode that leads.
const HA_ACTIVE: i32 = 1;

impl State {
    pub(super) fn fs_stats(
        &mut self,
        context: &mut Context<'_>,
        _: &Empty,
    ) -> Result<FsStatsResponse, Refusal> {
        let live = self.datanodes.iter().filter(|node| self.is_live(node.handle, context));
        let storages: Vec<_> =
            live.flat_map(|node| &node.storages).map(|storage| self.datanodes.storage(*storage)).collect();
        let (mut under_replicated, mut corrupt_blocks, mut missing_blocks) = (0, 0, 0);
        for block in self.blocks.iter().filter(|block| block.is_committed) {
            let is_live = |replica: &Replica| self.is_live(replica.datanode, context);
            let (good, wanted) = match block.geometry() {
                Some(_) => (block.readable_units(is_live).len(), block.units().len()),
                None => {
                    let file = self.tree.inode(block.file).file();
                    let wanted = file.map_or(1, |file| file.replication);
                    (block.good().filter(|replica| is_live(replica)).count(), wanted.into())
                }
            };
            let is_readable = block.is_readable(is_live);
            under_replicated += u64::from(is_readable && good < wanted);
            let has_corrupt = block.replicas.iter().any(|replica| replica.is_corrupt);
            corrupt_blocks += u64::from(has_corrupt);
            missing_blocks += u64::from(!is_readable);
        }
        Ok(FsStatsResponse {
            capacity: storages.iter().map(|storage| storage.capacity).sum(),
            used: storages.iter().map(|storage| storage.used).sum(),
            remaining: storages.iter().map(|storage| storage.remaining).sum(),
            under_replicated,
            corrupt_blocks,
            missing_blocks,
            missing_with_one_replica: Some(0),
            blocks_in_future: Some(0),
            pending_deletion: Some(self.datanodes.pending_deletions() as u64),
        })
    }

    pub(super) fn datanode_report(
        &mut self,
        context: &mut Context<'_>,
        request: &DatanodeReportRequest,
    ) -> Result<DatanodeReportResponse, Refusal> {
        let is_wanted = |is_live| match request.kind {
            REPORT_ALL => true,
            REPORT_LIVE => is_live,
            REPORT_DEAD => !is_live,
            // Decommissioning and maintenance: no DataNode is in them.
            _ => false,
        };
        let wanted = self.datanodes.iter().filter(|node| is_wanted(self.is_live(node.handle, context)));
        let infos = wanted.map(|node| {
            let blocks: usize = node.storages.iter().map(|storage| self.blocks.count_of(*storage)).sum();
            let mut info = self.datanodes.info(node.handle, context.now.wall_ms, context.now.steady_ms);
            info.blocks = Some(u32::try_from(blocks).unwrap_or(u32::MAX));
            info
        });
        Ok(DatanodeReportResponse { datanodes: infos.collect() })
    }

    pub(super) fn set_safe_mode(
        &mut self,
        context: &mut Context<'_>,
        request: &SafeModeRequest,
    ) -> Result<BoolResponse, Refusal> {
        match request.action {
            SAFE_MODE_GET => {}
            SAFE_MODE_ENTER => {
                context.user.check_superuser("safemode_enter")?;
                self.safe_mode.enter();
            }
            SAFE_MODE_LEAVE | SAFE_MODE_FORCE_EXIT => {
                context.user.check_superuser("safemode_leave")?;
                self.safe_mode.leave();
                self.look_at_safe_mode(context.now.steady_ms);
            }
            other => {
                let message = format!("{other} is no action of safe mode, expected 1 to 4");
                return Err(Refusal::new(Exception::HadoopIllegalArgument, message));
            }
        }
        Ok(BoolResponse { result: self.safe_mode.is_on() })
    }

    pub(super) fn ha_state(&mut self, _: &mut Context<'_>, _: &Empty) -> Result<HaStateResponse, Refusal> {
        Ok(HaStateResponse { state: HA_ACTIVE })
    }

    pub(super) fn report_bad_blocks(
        &mut self,
        _: &mut Context<'_>,
        request: &ReportBadBlocksRequest,
    ) -> Result<Empty, Refusal> {
        for block in &request.blocks {
            for location in &block.locations {
                if let Some(datanode) = self.datanodes.by_uuid(&location.id.uuid) {
                    self.blocks.mark_corrupt(BlockId::from_wire(block.block.id), datanode);
                }
            }
        }
        Ok(Empty {})
    }
}
