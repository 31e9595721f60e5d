//! Calls that look at ACLs and set them, and what new children inherit.

use std::sync::Arc;

use super::State;
use crate::ids::InodeId;
use crate::namenode::Context;
use crate::namenode::namespace::{AclEntry, AclFault, AclKind, Inode, KeptAcl, Mode, Path, Scope, Tree, acl};
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::attributes::{self, AclRequest, AclStatus, AclStatusResponse};
use crate::wire::proto::journal::{SetAcl, record::Change};
use crate::wire::proto::namenode::{Empty, PathRequest};
use crate::wire::proto::shared::Permission;

/// Bytes of the name of a user or a group.
const NAME_BYTES_MAX: usize = 255;

impl State {
    pub(super) fn modify_acl(
        &mut self,
        context: &mut Context<'_>,
        request: &AclRequest,
    ) -> Result<Empty, Refusal> {
        let wanted = self.wanted_acl(request)?;
        self.change_acl(context, &request.src, |existing| acl::merged(existing, wanted))
    }

    pub(super) fn remove_acl_entries(
        &mut self,
        context: &mut Context<'_>,
        request: &AclRequest,
    ) -> Result<Empty, Refusal> {
        let wanted = self.wanted_acl(request)?;
        self.change_acl(context, &request.src, |existing| acl::without(existing, wanted))
    }

    pub(super) fn remove_default_acl(
        &mut self,
        context: &mut Context<'_>,
        request: &PathRequest,
    ) -> Result<Empty, Refusal> {
        self.check_acls_enabled()?;
        self.change_acl(context, &request.src, |existing| Ok(acl::without_default(existing)))
    }

    /// Takes the ACL away: the group has what its entry said, and not the mask.
    pub(super) fn remove_acl(
        &mut self,
        context: &mut Context<'_>,
        request: &PathRequest,
    ) -> Result<Empty, Refusal> {
        self.check_acls_enabled()?;
        self.change_acl(context, &request.src, |existing| {
            let is_plain = |entry: &&AclEntry| {
                entry.scope == Scope::Access && entry.name.is_none() && entry.kind != AclKind::Mask
            };
            Ok(existing.iter().filter(is_plain).cloned().collect())
        })
    }

    pub(super) fn set_acl(
        &mut self,
        context: &mut Context<'_>,
        request: &AclRequest,
    ) -> Result<Empty, Refusal> {
        if request.entries.is_empty() {
            return self.remove_acl(context, &PathRequest { src: request.src.clone() });
        }
        let wanted = self.wanted_acl(request)?;
        self.change_acl(context, &request.src, |existing| acl::replaced(existing, wanted))
    }

    pub(super) fn acl_status(
        &mut self,
        context: &mut Context<'_>,
        request: &PathRequest,
    ) -> Result<AclStatusResponse, Refusal> {
        self.check_acls_enabled()?;
        let inode = self.existing(&Path::parse(&request.src)?, context.user)?;
        let status = AclStatus {
            owner: self.tree.owners.name(inode.owner).to_owned(),
            group: self.tree.owners.name(inode.group).to_owned(),
            is_sticky: inode.mode.is_sticky(),
            entries: self.tree.attached.acl(inode.id).iter().map(to_wire).collect(),
            permission: Some(Permission { mode: inode.mode.bits() }),
        };
        Ok(AclStatusResponse { status })
    }

    fn check_acls_enabled(&self) -> Result<(), Refusal> {
        if self.rules.acls_enabled {
            return Ok(());
        }
        let message = "The ACL operation has been rejected.  Support for ACLs has been disabled by setting \
                       dfs.namenode.acls.enabled to false.";
        Err(Refusal::new(Exception::Acl, message))
    }

    fn wanted_acl(&self, request: &AclRequest) -> Result<Vec<AclEntry>, Refusal> {
        self.check_acls_enabled()?;
        request
            .entries
            .iter()
            .map(|entry| from_wire(entry).map_err(|why| refused(&why, &request.src)))
            .collect()
    }

    fn change_acl(
        &mut self,
        context: &Context<'_>,
        src: &str,
        change: impl FnOnce(&[AclEntry]) -> Result<Vec<AclEntry>, AclFault>,
    ) -> Result<Empty, Refusal> {
        let path = Path::parse(src)?;
        let inode = self.existing(&path, context.user)?;
        context.user.check_owner(inode, path.text(), &self.tree.owners)?;
        let existing = acl::whole(inode.mode, self.tree.attached.acl(inode.id));
        let kept = change(&existing)
            .and_then(|whole| acl::kept(inode.mode, &whole, inode.is_directory(), || src.to_owned()))
            .map_err(|why| refused(&why, src))?;
        let entries = kept.entries.iter().map(to_wire).collect();
        let set = SetAcl { inode: inode.id.0, mode: kept.mode.bits(), entries };
        self.commit(context, Change::SetAcl(set));
        Ok(Empty {})
    }

    /// The mode and the entries of a new child of a directory with these entries. `masked` is the mode without the bits that the
    /// client's umask takes away, `unmasked` the one with them, if the client says so.
    pub(super) fn new_acl(
        &self,
        parent: &[AclEntry],
        masked: Mode,
        unmasked: Option<Mode>,
        is_directory: bool,
    ) -> KeptAcl {
        let asked = unmasked.filter(|_| self.rules.posix_acl_inheritance).unwrap_or(masked);
        let none = KeptAcl { mode: masked, entries: Vec::new() };
        acl::inherited(parent, asked, is_directory).unwrap_or(none)
    }

    /// Makes the change of a record.
    pub(super) fn apply_acl(&mut self, set: &SetAcl) {
        let id = InodeId(set.inode);
        self.tree.inode_mut(id).mode = Mode::new(set.mode);
        self.keep_acl(id, &set.entries);
    }

    /// Gives an inode the entries of a record.
    pub(super) fn keep_acl(&mut self, id: InodeId, entries: &[attributes::AclEntry]) {
        let owners = &mut self.tree.owners;
        let entries = entries.iter().map(|said| {
            let mut entry = from_wire(said).expect("it was checked");
            // Each name is kept once.
            entry.name = entry.name.map(|name| owners.shared(&name));
            entry
        });
        let entries: Vec<AclEntry> = entries.collect();
        self.tree.attached.set_acl(id, entries);
    }

    /// True for an inode with entries beside its mode.
    pub(super) fn has_acl(&self, inode: &Inode) -> bool {
        !self.tree.attached.acl(inode.id).is_empty()
    }
}

/// The records that make the ACLs of all inodes.
pub(super) fn saved(tree: &Tree) -> impl Iterator<Item = Change> {
    tree.attached.all_acls().map(|(id, entries)| {
        let mode = tree.inode(id).mode.bits();
        Change::SetAcl(SetAcl { inode: id.0, mode, entries: entries.iter().map(to_wire).collect() })
    })
}

/// An entry as calls and records name it.
pub(super) fn to_wire(entry: &AclEntry) -> attributes::AclEntry {
    attributes::AclEntry {
        kind: entry.kind as i32,
        scope: entry.scope as i32,
        permissions: entry.permissions.into(),
        name: entry.name.as_deref().map(str::to_owned),
    }
}

fn from_wire(entry: &attributes::AclEntry) -> Result<AclEntry, AclFault> {
    let kind = match entry.kind {
        0 => AclKind::User,
        1 => AclKind::Group,
        2 => AclKind::Mask,
        3 => AclKind::Other,
        other => return Err(format!("Invalid ACL: {other} is no type of an entry, expected 0 to 3.")),
    };
    let scope = match entry.scope {
        0 => Scope::Access,
        1 => Scope::Default,
        other => return Err(format!("Invalid ACL: {other} is no scope of an entry, expected 0 or 1.")),
    };
    let bits = u8::try_from(entry.permissions).ok().filter(|bits| *bits <= 7);
    let permissions =
        bits.ok_or_else(|| format!("Invalid ACL: {} is no permission, expected 0 to 7.", entry.permissions))?;
    let name = entry.name.as_deref().filter(|name| !name.is_empty());
    if name.is_some_and(|name| name.len() > NAME_BYTES_MAX) {
        return Err(format!("Invalid ACL: a name has more than {NAME_BYTES_MAX} bytes."));
    }
    Ok(AclEntry { scope, kind, name: name.map(Arc::from), permissions })
}

fn refused(why: &str, path: &str) -> Refusal {
    Refusal::new(Exception::Acl, format!("{why} Path: {path}"))
}
