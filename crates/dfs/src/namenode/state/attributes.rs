//! Calls that change owners, modes, times and the number of copies.

use super::State;
use super::quotas::Growth;
use crate::namenode::Context;
use crate::namenode::namespace::{Access, Inode, Path};
use crate::policy::PolicyId;
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::journal::{SetAttributes, record::Change};
use crate::wire::proto::namenode::{
    BoolResponse, Empty, SetOwnerRequest, SetPermissionRequest, SetReplicationRequest, SetTimesRequest,
};

/// Bytes of the name of a user or a group.
const OWNER_BYTES_MAX: usize = 255;

impl State {
    pub(super) fn set_permission(
        &mut self,
        context: &mut Context<'_>,
        request: &SetPermissionRequest,
    ) -> Result<Empty, Refusal> {
        let path = Path::parse(&request.src)?;
        let inode = self.existing(&path, context.user)?;
        context.user.check_owner(inode, path.text(), &self.tree.owners)?;
        let mode = Some(request.permission.mode);
        let set = SetAttributes { inode: inode.id.0, mode, ..SetAttributes::default() };
        self.commit(context, Change::SetAttributes(set));
        Ok(Empty {})
    }

    pub(super) fn set_owner(
        &mut self,
        context: &mut Context<'_>,
        request: &SetOwnerRequest,
    ) -> Result<Empty, Refusal> {
        let path = Path::parse(&request.src)?;
        let (inode, user) = (self.existing(&path, context.user)?, context.user);
        user.check_owner(inode, path.text(), &self.tree.owners)?;
        let said = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
        let (owner, group) = (said(&request.owner), said(&request.group));
        let denied = |message: String| Err(Refusal::new(Exception::AccessControl, message));
        if !user.is_superuser {
            let now = self.tree.owners.name(inode.owner);
            if owner.as_ref().is_some_and(|owner| owner != now) {
                let message = "is not a super user (non-super user cannot change owner).";
                return denied(format!("User {} {message}", user.name));
            }
            if let Some(group) = group.as_ref().filter(|group| !user.groups.contains(group)) {
                return denied(format!("User {} does not belong to {group}", user.name));
            }
        }
        if [&owner, &group].into_iter().flatten().any(|name| name.len() > OWNER_BYTES_MAX) {
            let message = format!("the name of an owner or a group has at most {OWNER_BYTES_MAX} bytes");
            return Err(Refusal::new(Exception::HadoopIllegalArgument, message));
        }
        let set = SetAttributes { inode: inode.id.0, owner, group, ..SetAttributes::default() };
        self.commit(context, Change::SetAttributes(set));
        Ok(Empty {})
    }

    pub(super) fn set_times(
        &mut self,
        context: &mut Context<'_>,
        request: &SetTimesRequest,
    ) -> Result<Empty, Refusal> {
        let path = Path::parse(&request.src)?;
        let inode = self.existing(&path, context.user)?;
        context.user.check(inode, &self.tree, Access::Write)?;
        // -1 leaves a time as it is.
        let said = |time: u64| (time.cast_signed() >= 0).then_some(time);
        let (modified_ms, accessed_ms) = (said(request.modified_ms), said(request.accessed_ms));
        let set = SetAttributes { inode: inode.id.0, modified_ms, accessed_ms, ..SetAttributes::default() };
        self.commit(context, Change::SetAttributes(set));
        Ok(Empty {})
    }

    pub(super) fn set_replication(
        &mut self,
        context: &mut Context<'_>,
        request: &SetReplicationRequest,
    ) -> Result<BoolResponse, Refusal> {
        self.check_replication(request.replication, &request.src)?;
        let path = Path::parse(&request.src)?;
        let file = self.place(&path, context.user)?.inode().map(|id| self.tree.inode(id));
        if let Some(inode) = file {
            context.user.check(inode, &self.tree, Access::Write)?;
        }
        let is_replicated = |inode: &&Inode| !inode.is_directory() && inode.policy == PolicyId::NONE;
        let Some(inode) = file.filter(is_replicated) else {
            return Ok(BoolResponse { result: false });
        };
        let (counts, file) = (self.file_counts(inode), self.file_of(inode.id));
        let more = u64::from(request.replication.saturating_sub(file.replication.into()));
        let all = (counts.space + counts.reserved) / u64::from(file.replication.max(1));
        self.check_quota(inode.parent, Growth { space: all.saturating_mul(more), ..Growth::default() })?;
        let replication = Some(request.replication);
        let set = SetAttributes { inode: inode.id.0, replication, ..SetAttributes::default() };
        self.commit(context, Change::SetAttributes(set));
        Ok(BoolResponse { result: true })
    }
}
