//! Calls of operators, and what readers say of damaged replicas.

use super::State;
use crate::ids::{BlockId, InodeId};
use crate::namenode::datanodes::Datanode;
use crate::namenode::namespace::{Path, User};
use crate::namenode::{AdminState, Context, Now};
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::namenode::{
    BandwidthRequest, BlockGroupStats, BoolResponse, DatanodeReportRequest, DatanodeReportResponse, Empty,
    FsStatsResponse, HaStateResponse, OpenFile, OpenFilesRequest, OpenFilesResponse, ReplicatedBlockStats,
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

/// The type of all files that clients write.
const OPEN_FILES_ALL: i32 = 1;
/// Files that clients write in one answer, as in HDFS (`dfs.namenode.list.openfiles.num.responses`).
const OPEN_FILES_MAX: usize = 1000;

const REPORT_DECOMMISSIONING: i32 = 4;
const REPORT_ENTERING_MAINTENANCE: i32 = 5;
const REPORT_IN_MAINTENANCE: i32 = 6;

/// The state of a NameNode that leads.
const HA_ACTIVE: i32 = 1;

impl State {
    pub(super) fn fs_stats(
        &mut self,
        context: &mut Context<'_>,
        _: &Empty,
    ) -> Result<FsStatsResponse, Refusal> {
        self.count_lacks();
        // As in HDFS, space of DataNodes that are to leave counts for nothing.
        let live = self
            .datanodes
            .iter()
            .filter(|node| node.admin.is_in_service() && self.is_live(node.handle, context));
        let storages: Vec<_> =
            live.flat_map(|node| &node.storages).map(|storage| self.datanodes.storage(*storage)).collect();
        let lacks = self.blocks.lacks().total();
        Ok(FsStatsResponse {
            capacity: storages.iter().map(|storage| storage.capacity).sum(),
            used: storages.iter().map(|storage| storage.used).sum(),
            remaining: storages.iter().map(|storage| storage.remaining).sum(),
            under_replicated: lacks.under_replicated,
            corrupt_blocks: lacks.corrupt,
            missing_blocks: lacks.missing,
            missing_with_one_replica: Some(0),
            blocks_in_future: Some(0),
            pending_deletion: Some(self.datanodes.pending_deletions() as u64),
        })
    }

    /// What blocks of whole replicas lack, for `hdfs dfsadmin -report`.
    pub(super) fn replicated_stats(
        &mut self,
        _: &mut Context<'_>,
        _: &Empty,
    ) -> Result<ReplicatedBlockStats, Refusal> {
        self.count_lacks();
        let lacks = self.blocks.lacks().replicated;
        Ok(ReplicatedBlockStats {
            low_redundancy: lacks.under_replicated,
            corrupt_blocks: lacks.corrupt,
            missing_blocks: lacks.missing,
            missing_with_one_replica: 0,
            blocks_in_future: 0,
            // Deletions are counted for both forms together.
            pending_deletion: self.datanodes.pending_deletions() as u64,
            highest_priority_low_redundancy: None,
            badly_distributed: None,
        })
    }

    /// What block groups lack, for `hdfs dfsadmin -report`.
    pub(super) fn group_stats(&mut self, _: &mut Context<'_>, _: &Empty) -> Result<BlockGroupStats, Refusal> {
        self.count_lacks();
        let lacks = self.blocks.lacks().striped;
        Ok(BlockGroupStats {
            low_redundancy: lacks.under_replicated,
            corrupt_groups: lacks.corrupt,
            missing_groups: lacks.missing,
            groups_in_future: 0,
            pending_deletion: 0,
            highest_priority_low_redundancy: None,
            badly_distributed: None,
        })
    }

    /// DataNodes that others find slow: nobody measures that here.
    pub(super) fn slow_datanodes(
        &mut self,
        _: &mut Context<'_>,
        _: &Empty,
    ) -> Result<DatanodeReportResponse, Refusal> {
        Ok(DatanodeReportResponse::default())
    }

    /// Sets how fast the repairs of each DataNode that is known may be, until it starts again.
    pub(super) fn set_balancer_bandwidth(
        &mut self,
        context: &mut Context<'_>,
        request: &BandwidthRequest,
    ) -> Result<Empty, Refusal> {
        context.user.check_superuser("setBalancerBandwidth")?;
        let bytes = u64::try_from(request.bandwidth).ok().filter(|bytes| *bytes > 0);
        let bytes = bytes.ok_or_else(|| {
            let message =
                format!("a bandwidth of {} bytes per second, expected at least 1", request.bandwidth);
            Refusal::new(Exception::HadoopIllegalArgument, message)
        })?;
        self.datanodes.set_bandwidth(bytes);
        Ok(Empty {})
    }

    /// Checks that somebody may write an image now, as HDFS has it.
    ///
    /// # Errors
    /// `AccessControl`, and `Io` unless safe mode is on.
    pub fn check_may_save(&self, user: &User) -> Result<(), Refusal> {
        user.check_superuser("saveNamespace")?;
        if self.safe_mode.is_on() {
            return Ok(());
        }
        let message = "Safe mode should be turned ON in order to create namespace image.";
        Err(Refusal::new(Exception::Io, message))
    }

    /// Checks that somebody may have the journal begin a file now, as HDFS has it.
    ///
    /// # Errors
    /// `AccessControl`, and `SafeMode` while that is on.
    pub fn check_may_roll(&self, user: &User, now: Now) -> Result<(), Refusal> {
        user.check_superuser("rollEditLog")?;
        if !self.safe_mode.is_on() {
            return Ok(());
        }
        let why = self.safe_mode.why(self.seen(now.steady_ms));
        let message = format!("Log not rolled. Name node is in safe mode. {why}");
        Err(Refusal::new(Exception::SafeMode, message))
    }

    pub(super) fn datanode_report(
        &mut self,
        context: &mut Context<'_>,
        request: &DatanodeReportRequest,
    ) -> Result<DatanodeReportResponse, Refusal> {
        let is_wanted = |node: &&Datanode| {
            let is_live = self.is_live(node.handle, context);
            match request.kind {
                REPORT_ALL => true,
                REPORT_LIVE => is_live,
                REPORT_DEAD => !is_live,
                REPORT_DECOMMISSIONING => node.admin == AdminState::Decommissioning,
                REPORT_ENTERING_MAINTENANCE => matches!(node.admin, AdminState::EnteringMaintenance { .. }),
                REPORT_IN_MAINTENANCE => node.admin.is_in_maintenance(),
                _ => false,
            }
        };
        let listed = self.datanodes.iter().filter(|node| !node.is_disallowed);
        let wanted = listed.filter(is_wanted);
        let infos = wanted.map(|node| {
            let blocks: usize = node.storages.iter().map(|storage| self.blocks.count_of(*storage)).sum();
            let mut info = self.datanodes.info(node.handle, context.now.wall_ms, context.now.steady_ms);
            info.blocks = Some(u32::try_from(blocks).unwrap_or(u32::MAX));
            info
        });
        Ok(DatanodeReportResponse { datanodes: infos.collect() })
    }

    /// The files that clients write, for `hdfs dfsadmin -listOpenFiles`.
    pub(super) fn list_open_files(
        &mut self,
        context: &mut Context<'_>,
        request: &OpenFilesRequest,
    ) -> Result<OpenFilesResponse, Refusal> {
        context.user.check_superuser("listOpenFiles")?;
        let mut response = OpenFilesResponse { types: request.types.clone(), ..OpenFilesResponse::default() };
        let above = match request.path.as_deref().filter(|path| !path.is_empty()) {
            Some(path) => self.place(&Path::parse(path)?, context.user)?.inode(),
            None => Some(InodeId::ROOT),
        };
        let is_all = request.types.is_empty() || request.types.contains(&OPEN_FILES_ALL);
        let Some(above) = above else { return Ok(response) };
        let after = InodeId(u64::try_from(request.after).unwrap_or(0));
        let is_wanted = |file: InodeId| is_all || self.is_in_the_way(file, context.now.steady_ms);
        let open = self.tree.open_files_behind(after);
        let open = open.filter(|(file, _)| self.tree.is_within(*file, above) && is_wanted(*file));
        let mut open = open.map(|(file, holder)| OpenFile {
            id: file.0.cast_signed(),
            path: self.tree.path_of(file),
            client_name: holder.to_string(),
            client_host: self.leases.host(holder).to_owned(),
        });
        response.files = open.by_ref().take(OPEN_FILES_MAX).collect();
        response.has_more = open.next().is_some();
        Ok(response)
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
