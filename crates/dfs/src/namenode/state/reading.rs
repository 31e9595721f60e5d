//! Calls that look and change nothing.

use super::State;
use crate::namenode::Context;
use crate::namenode::namespace::{Access, Inode, Path};
use crate::policy::{PolicyId, REPLICATION};
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::journal::{SetAttributes, record::Change};
use crate::wire::proto::namenode::{
    BlockLocationsRequest, BlockLocationsResponse, BoolResponse, CheckAccessRequest, ContentSummary,
    ContentSummaryResponse, Empty, EnclosingRootResponse, FileInfoResponse, Listing, ListingRequest,
    ListingResponse, PathRequest, PreferredBlockSizeResponse, QuotaUsage, QuotaUsageResponse, ServerDefaults,
    ServerDefaultsResponse,
};

/// Entries of a page of a listing, as in HDFS (`dfs.ls.limit`).
const LISTING_ENTRIES_MAX: usize = 1000;
/// Milliseconds to which the time of a read is kept, as in HDFS (`dfs.namenode.accesstime.precision`).
const ACCESS_TIME_PRECISION_MS: u64 = 3_600_000;
/// No quota, as the two's complement of -1.
const NO_QUOTA: u64 = u64::MAX;

impl State {
    pub(super) fn nothing(&mut self, _: &mut Context<'_>, _: &Empty) -> Result<Empty, Refusal> {
        Ok(Empty {})
    }

    pub(super) fn file_info(
        &mut self,
        context: &mut Context<'_>,
        request: &PathRequest,
    ) -> Result<FileInfoResponse, Refusal> {
        let place = match self.place(&Path::parse(&request.src)?, context.user) {
            // As in HDFS, whose clients expect that: a superuser can be denied nothing, so that a file is on the way.
            Err(refusal) if context.user.is_superuser && refusal.exception == Exception::AccessControl => {
                return Ok(FileInfoResponse { status: None });
            }
            place => place?,
        };
        let status = place.inode().map(|id| self.status(self.tree.inode(id), b""));
        Ok(FileInfoResponse { status })
    }

    pub(super) fn listing(
        &mut self,
        context: &mut Context<'_>,
        request: &ListingRequest,
    ) -> Result<ListingResponse, Refusal> {
        let path = Path::parse(&request.src)?;
        let Some(id) = self.place(&path, context.user)?.inode() else {
            return Ok(ListingResponse::default());
        };
        let inode = self.tree.inode(id);
        let Some(directory) = inode.directory() else {
            let mut entry = self.status(inode, b"");
            if request.need_location {
                entry.locations = Some(self.located_blocks(inode, 0, u64::MAX, context));
            }
            return Ok(ListingResponse { listing: Some(Listing { entries: vec![entry], remaining: 0 }) });
        };
        context.user.check(inode, &self.tree, Access::ReadExecute)?;
        let (children, count) = self.tree.children_after(directory, &request.start_after);
        let (mut entries, mut locations) = (Vec::new(), 0);
        for child in children.take(LISTING_ENTRIES_MAX) {
            if locations >= LISTING_ENTRIES_MAX {
                break;
            }
            let mut entry = self.status(child, &child.name);
            if request.need_location && !child.is_directory() {
                let blocks = self.located_blocks(child, 0, u64::MAX, context);
                locations += blocks.blocks.iter().map(|block| block.locations.len()).sum::<usize>();
                entry.locations = Some(blocks);
            }
            entries.push(entry);
        }
        let remaining = u32::try_from(count - entries.len()).unwrap_or(u32::MAX);
        Ok(ListingResponse { listing: Some(Listing { entries, remaining }) })
    }

    pub(super) fn block_locations(
        &mut self,
        context: &mut Context<'_>,
        request: &BlockLocationsRequest,
    ) -> Result<BlockLocationsResponse, Refusal> {
        let path = Path::parse(&request.src)?;
        let inode = self.existing(&path, context.user)?;
        let id = inode.id;
        if inode.is_directory() {
            return Err(Refusal::not_a_file(&request.src));
        }
        context.user.check(inode, &self.tree, Access::Read)?;
        self.check_readable_by_superuser(id, context.user)?;
        let located = self.located_blocks(inode, request.offset, request.length, context);
        if self.safe_mode.is_startup() && located.blocks.iter().any(|block| block.locations.is_empty()) {
            // The client would report a missing block, and it only has not been reported yet.
            let what = format!("read: Zero blocklocations for {}", request.src);
            return Err(self.safe_mode_refusal(&what, context.now.steady_ms));
        }
        let is_open = located.under_construction && !located.is_last_complete;
        let is_unseen = located.last_block.as_ref().is_some_and(|block| block.locations.is_empty());
        if is_open && is_unseen && self.awaits_datanodes(context.now.steady_ms) {
            // A client takes such a block for empty, or gives up: and what was flushed to it has only not been reported yet.
            let message = format!("no DataNode has reported the last block of {} yet", request.src);
            return Err(Refusal::new(Exception::TooFewDatanodes, message));
        }
        let accessed_ms = context.now.wall_ms;
        let is_due = accessed_ms > inode.accessed_ms.saturating_add(ACCESS_TIME_PRECISION_MS);
        if is_due && !self.safe_mode.is_on() {
            let set =
                SetAttributes { inode: id.0, accessed_ms: Some(accessed_ms), ..SetAttributes::default() };
            self.commit(context, Change::SetAttributes(set));
        }
        Ok(BlockLocationsResponse { locations: Some(located) })
    }

    pub(super) fn server_defaults(
        &mut self,
        _: &mut Context<'_>,
        _: &Empty,
    ) -> Result<ServerDefaultsResponse, Refusal> {
        let defaults = ServerDefaults {
            block_size: self.rules.block_size,
            bytes_per_checksum: 512,
            write_packet_size: 65_536,
            replication: self.rules.replication.into(),
            file_buffer_size: 4096,
            encrypt_data_transfer: Some(false),
            trash_interval_minutes: Some(self.rules.trash_minutes),
            checksum_type: Some(2),
            // Present and empty: clients do not ask a key server.
            key_provider_uri: Some(String::new()),
            storage_policy: Some(7),
            snapshot_trash: Some(false),
        };
        Ok(ServerDefaultsResponse { defaults })
    }

    /// What a directory holds, for `hdfs dfs -count -u`.
    pub(super) fn quota_usage(
        &mut self,
        context: &mut Context<'_>,
        request: &PathRequest,
    ) -> Result<QuotaUsageResponse, Refusal> {
        let summary = self.content_summary(context, request)?.summary;
        let usage = QuotaUsage {
            inodes: summary.files + summary.directories,
            quota: summary.quota,
            space: summary.space_consumed,
            space_quota: summary.space_quota,
        };
        Ok(QuotaUsageResponse { usage })
    }

    /// The root of the encryption zone of a path: `/`, as there are no zones.
    pub(super) fn enclosing_root(
        &mut self,
        _: &mut Context<'_>,
        request: &PathRequest,
    ) -> Result<EnclosingRootResponse, Refusal> {
        Path::parse(&request.src)?;
        Ok(EnclosingRootResponse { path: Some("/".to_owned()) })
    }

    /// Checks that the caller may do what a mode names with a path, and changes nothing.
    pub(super) fn check_access(
        &mut self,
        context: &mut Context<'_>,
        request: &CheckAccessRequest,
    ) -> Result<Empty, Refusal> {
        let path = Path::parse(&request.src)?;
        let inode = self.existing(&path, context.user)?;
        let wanted = [(4, Access::Read), (2, Access::Write), (1, Access::Execute)];
        for (bit, access) in wanted {
            if request.mode & bit != 0 {
                context.user.check(inode, &self.tree, access)?;
            }
        }
        Ok(Empty {})
    }

    pub(super) fn content_summary(
        &mut self,
        context: &mut Context<'_>,
        request: &PathRequest,
    ) -> Result<ContentSummaryResponse, Refusal> {
        let path = Path::parse(&request.src)?;
        let inode = self.existing(&path, context.user)?;
        if inode.is_directory() {
            self.check_subtree(inode.id, context, Access::ReadExecute, Inode::is_directory)?;
        }
        // As HDFS has it: a directory is called by its own policy only.
        let policy = match (self.policies.of(inode.policy), inode.policy) {
            (Some(policy), _) => &*policy.name,
            (None, PolicyId::REPLICATION) => REPLICATION,
            (None, _) if inode.is_directory() => "",
            (None, _) => "Replicated",
        };
        let counts = self.counts_of(inode.id);
        let quota = self.quota_seen(inode.id);
        let summary = ContentSummary {
            length: counts.bytes,
            files: counts.files,
            directories: counts.directories,
            quota: quota.names.unwrap_or(NO_QUOTA),
            // As in HDFS, a block that is written counts as a full one.
            space_consumed: counts.space + counts.reserved,
            space_quota: quota.space.unwrap_or(NO_QUOTA),
            policy: Some(policy.to_owned()),
        };
        Ok(ContentSummaryResponse { summary })
    }

    /// Checks that a user may do something with those inodes of a subtree that are `of_interest`.
    pub(super) fn check_subtree(
        &self,
        id: crate::ids::InodeId,
        context: &Context<'_>,
        access: Access,
        of_interest: impl Fn(&Inode) -> bool,
    ) -> Result<(), Refusal> {
        if context.user.is_superuser {
            return Ok(());
        }
        let inodes = self.tree.subtree(id).into_iter().map(|id| self.tree.inode(id));
        let mut checked = inodes.filter(|inode| of_interest(inode));
        checked.try_for_each(|inode| context.user.check(inode, &self.tree, access))
    }

    pub(super) fn is_file_closed(
        &mut self,
        context: &mut Context<'_>,
        request: &PathRequest,
    ) -> Result<BoolResponse, Refusal> {
        let inode = self.existing(&Path::parse(&request.src)?, context.user)?;
        inode.file().ok_or_else(|| Refusal::not_a_file(&request.src))?;
        Ok(BoolResponse { result: self.tree.holder(inode.id).is_none() })
    }

    pub(super) fn preferred_block_size(
        &mut self,
        context: &mut Context<'_>,
        request: &PathRequest,
    ) -> Result<PreferredBlockSizeResponse, Refusal> {
        let inode = self.existing(&Path::parse(&request.src)?, context.user)?;
        let file = inode.file().ok_or_else(|| Refusal::missing(&request.src))?;
        Ok(PreferredBlockSizeResponse { block_size: file.block_size })
    }
}
